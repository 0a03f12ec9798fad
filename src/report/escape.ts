/**
 * The one place that makes text from outside (host names, group names, values, messages that quote them) safe to show.
 * A text is data wherever it stands: it cannot forge tables, HTML, links, mentions, references to issues and commits,
 * terminal codes, reordered text, or workflow commands.
 *
 * GitHub looks for mentions, references and bare URLs in the text that Markdown leaves behind, so neither a backslash
 * nor an entity stops them. It never looks into code. Therefore every name and value is shown as code, and so is every
 * word of a sentence that is more than a plain word.
 */

/** Characters of a name or value that are shown; a longer one is cut with `…`. */
const NAME_LIMIT = 200;
/** Characters of a sentence that are shown. */
const SENTENCE_LIMIT = 2_000;

/** What a terminal, a bidirectional layout or an eye would not see as it is written. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]|(?! )\p{Zs}/gu;
const ONLY_PRINTABLE_ASCII = /^[\x20-\x7e]*$/;

/** `text` as one line in which every character can be seen: control and format characters become `\x1b`, `\u202e` … */
export function visible(text: string, limit = SENTENCE_LIMIT): string {
  const line = clip(text, limit);
  if (ONLY_PRINTABLE_ASCII.test(line)) return line;
  return line.replace(/[\t\n\r]+/g, ' ').replace(INVISIBLE, (character) => {
    const point = character.codePointAt(0) ?? 0;
    const digits = point.toString(16);
    if (point < 0x100) return `\\x${digits.padStart(2, '0')}`;
    return point < 0x10000 ? `\\u${digits.padStart(4, '0')}` : `\\u{${digits}}`;
  });
}

/** A name or value as a Markdown code span that also holds inside a table cell. */
export function code(text: string): string {
  const shown = visible(text, NAME_LIMIT)
    // After a backslash GitHub's `\|` would not be read as a pipe by every renderer.
    .replace(/\\\|/g, '\\\\x7c')
    .replace(/\|/g, '\\|');
  if (shown.trim() === '') return '`""`';
  const longest = Math.max(0, ...Array.from(shown.matchAll(/`+/g), ([run]) => run.length));
  const fence = '`'.repeat(longest + 1);
  const space = longest > 0 ? ' ' : '';
  return `${fence}${space}${shown}${space}${fence}`;
}

/** A name or value as code inside raw HTML, such as a `<summary>`, where Markdown is not read. */
export function htmlCode(text: string): string {
  const entities: Readonly<Record<string, string>> = {
    '&': '&amp;',
    '<': '&lt;',
    '>': '&gt;',
    '"': '&quot;',
    "'": '&#39;',
  };
  return `<code>${visible(text, NAME_LIMIT).replace(/[&<>"']/g, (character) => entities[character] ?? '')}</code>`;
}

/**
 * A sentence as Markdown on one line, also inside a table cell. Plain words stay as they are; any other word, and what
 * the sentence itself puts between backticks, becomes code.
 */
export function prose(text: string): string {
  const parts = visible(text).split('`');
  let markdown = '';
  for (const [index, part] of parts.entries()) {
    const closed = index < parts.length - 1;
    const piece = index % 2 === 0 ? words(part, markdown === '') : closed ? quoted(part) : words(`\`${part}`, false);
    // Two code spans that touch would be read as one with another fence.
    markdown += markdown.endsWith('`') && piece.startsWith('`') ? ` ${piece}` : piece;
  }
  return markdown.trim();
}

/** A message of several lines as Markdown: the lines stay apart inside one list item or table cell. */
export function proseLines(text: string): string {
  return clip(text, SENTENCE_LIMIT)
    .split(/\r?\n/)
    .filter((line) => line.trim() !== '')
    .map(prose)
    .join('<br>');
}

/** `text` for a field that GitHub shows as it is (annotations, titles): line breaks stay, what is invisible shows. */
export function plain(text: string, limit = SENTENCE_LIMIT): string {
  return clip(text, limit)
    .split(/\r?\n/)
    .map((line) => visible(line, limit))
    .join('\n');
}

/**
 * `text` for a log or a terminal. The runner takes a line that starts with `::` (white space before it does not
 * count), and one with `##[` anywhere, as a command: neither is left.
 */
export function logText(text: string): string {
  return text
    .split(/\r?\n/)
    .map((line) =>
      visible(line.replace(/\t/g, '  '), Number.POSITIVE_INFINITY)
        .replace(/^(\s*):(?=:)/, '$1\\x3a')
        .replace(/##(?=\[)/g, '#\\x23'),
    )
    .join('\n');
}

function quoted(part: string): string {
  return part.trim() === '' ? '' : code(part);
}

function words(part: string, first: boolean): string {
  let at = 0;
  return part.replace(/\S+/g, (token) => word(token, first && at++ === 0));
}

/** Punctuation that means nothing to Markdown at the start, and at the end, of a word. */
const BEFORE = new Set('("\'“‘„«');
const AFTER = new Set('.,;:!?)"\'”’»…');
const SIGNS = new Set(['', '–', '—', '→', '←', '≥', '≤', '×', '·']);
/** Words, words with hyphens: no part after a hyphen starts with a digit (`GH-1`, and keys of other trackers). */
const PLAIN_WORD = /^\p{L}[\p{L}\p{M}\p{Nd}]*(?:['’-]\p{L}[\p{L}\p{M}\p{Nd}]*)*$/u;
const PLAIN_NUMBER = /^\d{1,6}(?:[a-z]{1,2}|%)?$/;
/** What GitHub links as a commit. */
const LIKE_A_COMMIT = /^[0-9a-f]{7,}$/i;

function word(token: string, first: boolean): string {
  let start = 0;
  while (start < token.length && BEFORE.has(token.charAt(start))) start++;
  let end = token.length;
  while (end > start && AFTER.has(token.charAt(end - 1))) end--;
  const core = token.slice(start, end);
  const after = token.slice(end);
  const plainWord =
    SIGNS.has(core) ||
    (core === '-' && !first) ||
    ((PLAIN_WORD.test(core) || PLAIN_NUMBER.test(core)) && !LIKE_A_COMMIT.test(core));
  // `1.` at the start of a line begins a list.
  const listMark = first && /^\d+$/.test(core) && /^[.)]/.test(after);
  return plainWord && !listMark ? token : `${token.slice(0, start)}${code(core)}${after}`;
}

/** The first `limit` characters of `text`, no character cut in two, with `…` where something was cut. */
function clip(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const end = /[\ud800-\udbff]/.test(text.charAt(limit - 1)) ? limit - 1 : limit;
  return `${text.slice(0, end)}…`;
}
