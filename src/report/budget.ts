/**
 * The limits of GitHub's API and runner, and how a report is cut to them. GitHub counts characters and refuses what is
 * longer (422); bytes are never fewer, so everything here is measured in bytes of UTF-8.
 */

/** `output.summary` and `output.text` of a check run. Source: OpenAPI description, checks/create, `maxLength`. */
export const CHECK_RUN_FIELD_LIMIT = 65_535;
/** What we use of it. */
export const CHECK_RUN_FIELD_BUDGET = 60_000;
/** `output.title` has no documented limit; this is what a list of checks can show. */
export const CHECK_RUN_TITLE_BUDGET = 200;
/** Annotations in one request; more are appended by further updates. Source: the same, `maxItems`. */
export const ANNOTATIONS_PER_REQUEST = 50;
/** Characters of an annotation's title. Source: the same, description of `title`. */
export const ANNOTATION_TITLE_LIMIT = 255;
/** Bytes of an annotation's message. Source: the same, description of `message`. */
export const ANNOTATION_MESSAGE_LIMIT = 65_536;
/** Characters of a message that the runner shows for `::error` and the like. Source: runner, ExecutionContext.cs. */
export const RUNNER_MESSAGE_LIMIT = 4_096;
/** Annotations of one level that the runner keeps for a step. Source: runner, ExecutionContext.cs. */
export const RUNNER_ANNOTATIONS_PER_LEVEL = 10;
/** Bytes of a step's job summary; a longer one is lost as a whole. Source: runner, FileCommandManager.cs. */
export const JOB_SUMMARY_LIMIT = 1_048_576;
/** What we use of it; it stays below the 1 MB of a job's output as well. */
export const JOB_SUMMARY_BUDGET = 1_000_000;
/** Characters of an issue's body. Source: GitHub's answer to a longer one (`body is too long (maximum is 65536 characters)`). */
export const ISSUE_BODY_LIMIT = 65_536;
/** What we use of it. */
export const ISSUE_BODY_BUDGET = 60_000;

/** A piece of a report that is shown as a whole or not at all. */
export interface Paragraph {
  readonly kind: 'paragraph';
  readonly lines: readonly string[];
}

/** A piece that may be cut after any of its rows: a table or a list, with what opens and closes it. */
export interface Rows {
  readonly kind: 'rows';
  readonly before: readonly string[];
  /** One line each. */
  readonly rows: readonly string[];
  readonly after: readonly string[];
  /** What one row and several rows are called in the line that says how many are missing. */
  readonly what: readonly [one: string, many: string];
  /** The lower, the later it is cut. */
  readonly rank: number;
}

export type Part = Paragraph | Rows;

/** Parts that belong together; under the hardest pressure whole sections are left out, from the end. */
export type Section = readonly Part[];

export interface Budget {
  readonly bytes: number;
  /** Where a reader finds what is missing: `the job summary` … */
  readonly elsewhere: string;
}

/**
 * The sections as Markdown of at most `budget.bytes` bytes. Nothing is broken: rows are left out as wholes, every
 * opened fold is closed, and each place where something is missing says how much and where it is. Rows of a low rank
 * stay longest. Linear in the length of the text.
 */
export function fitToBudget(sections: readonly Section[], budget: Budget): string {
  const all = sections.flat();
  const whole = all.flatMap((part) => linesOf(part, rowsOf(part).length, budget));
  if (bytesOf(whole) <= budget.bytes) return whole.join('\n');

  // First the frames: what every section needs to be there at all.
  const dropped = (count: number): string[] => [
    '',
    `_Sections that are not shown here: ${count}. See ${budget.elsewhere}._`,
  ];
  let left = budget.bytes - bytesOf(dropped(sections.length));
  const kept: Part[] = [];
  let keptSections = 0;
  for (const section of sections) {
    const frame = sum(section, (part) => bytesOf(linesOf(part, 0, budget)));
    if (frame > left) break;
    left -= frame;
    kept.push(...section);
    keptSections++;
  }

  // Then the rows, the most important first.
  const shown = new Map<Part, number>();
  for (const part of kept.filter((one) => one.kind === 'rows').sort((a, b) => a.rank - b.rank)) {
    let count = 0;
    for (const row of part.rows) {
      const size = utf8Length(row) + 1;
      if (size > left) break;
      left -= size;
      count++;
    }
    shown.set(part, count);
  }
  const lines = kept.flatMap((part) => linesOf(part, shown.get(part) ?? 0, budget));
  if (keptSections < sections.length) lines.push(...dropped(sections.length - keptSections));
  return lines.join('\n');
}

/** The longest beginning of `text` with at most `bytes` bytes of UTF-8, no character cut, `…` at a cut. */
export function cutText(text: string, bytes: number): string {
  if (utf8Length(text) <= bytes) return text;
  const room = bytes - utf8Length('…');
  let used = 0;
  let end = 0;
  for (const character of text) {
    used += utf8Length(character);
    if (used > room) break;
    end += character.length;
  }
  return `${text.slice(0, end)}…`;
}

/** Bytes of `text` in UTF-8; half of a surrogate pair counts as the 3 bytes of its replacement. */
export function utf8Length(text: string): number {
  let bytes = text.length;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit < 0x80) continue;
    bytes += unit < 0x800 ? 1 : 2;
    const paired = unit >= 0xd800 && unit < 0xdc00 && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00;
    // Two units, four bytes: one more than counted for the first, none for the second.
    if (paired) at++;
  }
  return bytes;
}

function rowsOf(part: Part): readonly string[] {
  return part.kind === 'rows' ? part.rows : [];
}

function linesOf(part: Part, shown: number, budget: Budget): readonly string[] {
  if (part.kind === 'paragraph') return part.lines;
  if (part.rows.length === 0) return [];
  const missing = part.rows.length - shown;
  const [one, many] = part.what;
  const cut = missing === 0 ? [] : ['', `_${missing} more ${missing === 1 ? one : many}: see ${budget.elsewhere}._`];
  return [...part.before, ...part.rows.slice(0, shown), ...cut, ...part.after];
}

function bytesOf(lines: readonly string[]): number {
  return sum(lines, (line) => utf8Length(line) + 1);
}

function sum<T>(items: readonly T[], of: (item: T) => number): number {
  return items.reduce((total, item) => total + of(item), 0);
}
