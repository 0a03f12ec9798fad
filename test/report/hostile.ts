/** Texts that an inventory may hold and that want to be more than data. */
export const HOSTILE: readonly string[] = [
  'a|b',
  'a\\|b',
  '\\',
  'a\\',
  '|---|---|',
  '| x | y |\n|---|---|\n| 1 | 2 |',
  '`',
  '``',
  '```',
  'a`b`c',
  '`x`|`y``z',
  '``a`x``b`',
  '$`x`$',
  '$$x$$',
  '```\nout of the fence',
  '~~~\nout of the fence',
  '<b>bold</b>',
  '<img src=x onerror=alert(1)>',
  '</details></summary></code><h1>Approved</h1>',
  '<!-- hidden -->',
  '&lt;b&gt; &#64;octocat &amp;',
  '[click](https://evil.example)',
  '![image](https://evil.example/x.png)',
  '<https://evil.example>',
  'https://evil.example/path',
  'http://evil.example',
  'www.evil.example',
  'mailto:someone@evil.example',
  'someone@evil.example',
  '@octocat',
  'hello @octocat and @org/team.',
  '(@octocat)',
  '#1',
  'see #1, GH-1 and JIRA-7',
  'org/repo#1',
  'octocat@c0ffee0',
  'c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00',
  'deadbeef',
  ':smile:',
  '[^1]',
  '# heading',
  '\n# heading',
  '1. one',
  '- item',
  '> [!CAUTION]',
  '---',
  '===',
  '* * *',
  '**bold** __bold__ *it* _it_ ~~gone~~',
  '- [x] done',
  '\u001b[31mred\u001b[0m',
  '\u001b]8;;https://evil.example\u0007link\u001b]8;;\u0007',
  '\u009b31m',
  'a\u0000b\u0008c\u007f',
  'over\rwritten',
  'abc\u202edcba',
  '\u2066hidden\u2069',
  'zero\u200bwidth\ufeff\u2060',
  '\u{e0041}\u{e0042}tags',
  'line\u2028separator\u2029',
  'half \ud800 of a pair',
  '::set-output name=result::applied',
  '  ::error::forged',
  '\u3000::error::forged',
  'ok\n::add-mask::x',
  'ok\r::add-mask::x',
  '##[error]forged',
  'x ##[command]rm',
  'a\r\n\r\n::stop-commands::token',
  '%0A::error::x',
  'x'.repeat(100_000),
  '`'.repeat(5_000),
  '@a '.repeat(5_000),
  '',
  ' ',
];

/** Characters that hide, reorder or control; the line feed is a matter of each renderer. */
const HIDDEN = /(?!\n)\p{Cc}|[\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\u{e0000}-\u{e007f}]/u;

/** What the hostile text could do in a terminal or a plain field; empty when nothing. */
export function hiddenIn(text: string): string[] {
  return HIDDEN.test(text) ? [`hidden character in ${JSON.stringify(text.slice(0, 200))}`] : [];
}

/** Lines that the runner would take as commands. */
export function commandsIn(text: string): string[] {
  return text.split(/\r\n|[\n\r\u0085\u2028\u2029]/).filter((line) => /^\s*::/.test(line) || line.includes('##['));
}

/**
 * What is left of Markdown when its code spans are taken out as CommonMark reads them: a span opens with a run of
 * backticks and closes with the next run of the same length. Throws at a run that closes nowhere.
 */
export function outsideCode(line: string): string {
  let left = '';
  let at = 0;
  while (at < line.length) {
    const run = /`+/g;
    run.lastIndex = at;
    const open = run.exec(line);
    if (open === null) return left + line.slice(at);
    left += line.slice(at, open.index);
    let close = run.exec(line);
    while (close !== null && close[0].length !== open[0].length) close = run.exec(line);
    if (close === null) throw new Error(`backticks that close nowhere: ${line.slice(0, 300)}`);
    left += '\ufffc';
    at = close.index + close[0].length;
  }
  return left;
}

/** Tags that the report itself writes. */
const OWN_TAGS = /<\/?(?:details|summary|br|code)>/g;

/** Everything that Markdown or GitHub could make of the text other than words, by the line; empty when nothing. */
export function forgedIn(markdown: string): string[] {
  const found = hiddenIn(markdown);
  for (const line of markdown.split('\n')) {
    // Raw HTML is not read as Markdown: there only the tags count.
    const rest = (line.startsWith('<') ? line.replace(/<code>[^<>]*<\/code>/g, '\ufffc') : outsideCode(line)).replace(
      OWN_TAGS,
      '',
    );
    for (const [what, pattern] of FORGERIES) if (pattern.test(rest)) found.push(`${what}: ${line.slice(0, 300)}`);
  }
  return found;
}

const FORGERIES: readonly [string, RegExp][] = [
  ['HTML', /<[a-z!/?]/i],
  ['an entity', /&#?\w+;/],
  ['a link', /\]\(|\]\[|!\[/],
  ['a URL', /https?:|www\.|mailto:|ftp:/i],
  ['a mention or an address', /@[\w]/],
  ['an issue', /#\d|\bGH-\d|\b[A-Z]+-\d/i],
  ['a commit', /(?<![\w.])[0-9a-f]{7,}(?![\w])/],
  ['an emoji', /:\w+:/],
  ['a footnote', /\[\^/],
  ['an alert', /\[!/],
  ['math', /\$/],
  ['an escape', /\\/],
  ['strike-through', /~~/],
];

/** The number of cells of a table row as GFM splits it. */
export function cellsOf(row: string): number {
  return row.replace(/\\[^\n]/g, '').split('|').length - 2;
}
