import { type Cursor, isBlank, isBreak, SPACE, TAB } from './yaml-cursor.js';

const ESCAPES = new Map<string, string>([
  ['0', '\0'],
  ['a', '\x07'],
  ['b', '\b'],
  ['t', '\t'],
  ['\t', '\t'],
  ['n', '\n'],
  ['v', '\v'],
  ['f', '\f'],
  ['r', '\r'],
  ['e', '\x1b'],
  [' ', ' '],
  ['"', '"'],
  ['/', '/'],
  ['\\', '\\'],
  ['N', '\x85'],
  ['_', '\xa0'],
  ['L', '\u2028'],
  ['P', '\u2029'],
]);

/** The value of a single-quoted text; the cursor stands on its quote and ends behind the other. */
export function scanSingle(cursor: Cursor, start: number): string {
  cursor.at++;
  let value = '';
  for (;;) {
    checkQuoted(cursor, start);
    const from = cursor.at;
    while (!cursor.blankOrEnd() && cursor.code() !== 0x27) cursor.at++;
    value += cursor.text.slice(from, cursor.at);
    if (cursor.code() === 0x27) {
      cursor.at++;
      if (cursor.code() !== 0x27) return value;
      value += "'";
      cursor.at++;
      continue;
    }
    value += foldQuoted(cursor, false);
  }
}

/** The value of a double-quoted text, likewise. */
export function scanDouble(cursor: Cursor, start: number): string {
  cursor.at++;
  let value = '';
  for (;;) {
    checkQuoted(cursor, start);
    const from = cursor.at;
    while (!cursor.blankOrEnd() && cursor.code() !== 0x22 && cursor.code() !== 0x5c) cursor.at++;
    value += cursor.text.slice(from, cursor.at);
    const code = cursor.code();
    if (code === 0x22) {
      cursor.at++;
      return value;
    }
    if (code !== 0x5c) {
      value += foldQuoted(cursor, false);
    } else if (cursor.at + 1 < cursor.text.length && isBreak(cursor.code(1))) {
      cursor.at++;
      cursor.takeBreak();
      value += foldQuoted(cursor, true);
    } else {
      value += scanEscape(cursor);
    }
  }
}

function checkQuoted(cursor: Cursor, start: number): void {
  if (cursor.atEnd) cursor.fail('a quoted text is not closed; add the closing quote', start);
  if (cursor.documentIndicator()) {
    cursor.fail('a quoted text is not closed before the end of its document; add the closing quote', start);
  }
}

function scanEscape(cursor: Cursor): string {
  const at = cursor.at;
  const letter = cursor.text.charAt(at + 1);
  const simple = ESCAPES.get(letter);
  if (simple !== undefined) {
    cursor.at += 2;
    return simple;
  }
  const length = letter === 'x' ? 2 : letter === 'u' ? 4 : letter === 'U' ? 8 : 0;
  const digits = cursor.text.slice(at + 2, at + 2 + length);
  if (length === 0 || !new RegExp(`^[0-9A-Fa-f]{${length}}$`).test(digits)) {
    cursor.fail(`${JSON.stringify(`\\${letter}`)} is no escape of a double-quoted text; use single quotes`, at);
  }
  const code = Number.parseInt(digits, 16);
  if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) cursor.fail('the escape names no Unicode character', at);
  cursor.at += 2 + length;
  return String.fromCodePoint(code);
}

/** White space and line breaks inside a quoted text, folded. `escaped`: a line break was escaped just before. */
function foldQuoted(cursor: Cursor, escaped: boolean): string {
  let blanks = '';
  let first: string | null = escaped ? '' : null;
  let more = '';
  for (;;) {
    if (cursor.atEnd) break;
    const code = cursor.code();
    if (isBlank(code)) {
      if (first === null) blanks += cursor.text[cursor.at];
      cursor.at++;
    } else if (isBreak(code)) {
      if (first === null) first = cursor.takeBreak();
      else more += cursor.takeBreak();
    } else break;
    if (first !== null && cursor.documentIndicator()) break;
  }
  if (first === null) return blanks;
  return fold(first, more);
}

/**
 * The value of a `|` or `>` text; the cursor stands on the line below it. `parent` is the indentation of what it
 * belongs to, `fixed` the indentation that its header gives.
 */
export function scanBlock(
  cursor: Cursor,
  parent: number,
  literal: boolean,
  chomping: string,
  fixed: number | null,
): string {
  const [found, leading] = blockBreaks(cursor, fixed);
  const indent = fixed ?? Math.max(found, parent + 1, 1);
  let breaks = leading;
  let lastBreak = '';
  let leadingBlank = false;
  const parts: string[] = [];
  while (cursor.column === indent && !cursor.atEnd) {
    const trailingBlank = isBlank(cursor.code());
    if (!literal && lastBreak === '\n' && !leadingBlank && !trailingBlank) {
      if (breaks === '') parts.push(' ');
    } else parts.push(lastBreak);
    parts.push(breaks);
    leadingBlank = isBlank(cursor.code());
    const from = cursor.at;
    while (!cursor.breakOrEnd()) cursor.at++;
    parts.push(cursor.text.slice(from, cursor.at));
    lastBreak = cursor.atEnd ? '' : cursor.takeBreak();
    breaks = blockBreaks(cursor, indent)[1];
  }
  if (chomping !== '-') parts.push(lastBreak);
  if (chomping === '+') parts.push(breaks);
  return parts.join('');
}

/** Skips empty lines of a block text; returns the widest indentation seen and the breaks. */
function blockBreaks(cursor: Cursor, indent: number | null): [number, string] {
  let widest = 0;
  let breaks = '';
  for (;;) {
    while ((indent === null || cursor.column < indent) && cursor.code() === SPACE) cursor.at++;
    widest = Math.max(widest, cursor.column);
    if ((indent === null || cursor.column < indent) && cursor.code() === TAB) {
      cursor.fail('a tab stands where YAML allows only spaces; indent with spaces');
    }
    if (cursor.atEnd || !isBreak(cursor.code())) return [widest, breaks];
    breaks += cursor.takeBreak();
  }
}

/** One line break becomes a space; further ones stay. */
export function fold(first: string, more: string): string {
  if (first !== '\n') return first + more;
  return more === '' ? ' ' : more;
}

/**
 * The value of a plain text that begins at the cursor, and whether line breaks follow it. `indent` is the least
 * indentation of its further lines; `flow`: it stands inside brackets or braces.
 */
export function scanPlain(cursor: Cursor, indent: number, flow: boolean): { value: string; overLines: boolean } {
  const text = cursor.text;
  let value = '';
  let blanks = '';
  let first: string | null = null;
  let more = '';
  for (;;) {
    if (cursor.documentIndicator()) break;
    if (cursor.code() === 0x23) break;
    const from = cursor.at;
    while (!cursor.blankOrEnd()) {
      const code = text.charCodeAt(cursor.at);
      if (code === 0x3a) {
        if (flow && cursor.at + 1 < text.length && ',?[]{}'.includes(text.charAt(cursor.at + 1))) {
          cursor.fail("':' is not allowed here; put a space after it, or the value in quotes");
        }
        if (cursor.blankOrEnd(1)) break;
      }
      if (flow && (code === 0x2c || code === 0x5b || code === 0x5d || code === 0x7b || code === 0x7d)) break;
      cursor.at++;
    }
    if (cursor.at > from) {
      value += first === null ? blanks : fold(first, more);
      value += text.slice(from, cursor.at);
      blanks = '';
      first = null;
      more = '';
    }
    if (cursor.atEnd || !(isBlank(cursor.code()) || isBreak(cursor.code()))) break;
    while (!cursor.atEnd) {
      const code = cursor.code();
      if (isBlank(code)) {
        if (first !== null && code === TAB && cursor.column < indent) {
          cursor.fail('a tab stands where YAML allows only spaces; indent with spaces');
        }
        if (first === null) blanks += text[cursor.at];
        cursor.at++;
      } else if (isBreak(code)) {
        if (first === null) {
          blanks = '';
          first = cursor.takeBreak();
        } else more += cursor.takeBreak();
      } else break;
    }
    if (!flow && cursor.column < indent) break;
  }
  return { value, overLines: first !== null };
}
