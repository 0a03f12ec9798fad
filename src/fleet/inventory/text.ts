/**
 * Why a file cannot be read, with the place in its text. It never leaves this folder: `readInventory` turns it into a
 * problem of the file at hand.
 */
export class ReadingError extends Error {
  override readonly name = 'ReadingError';
  readonly code: ReadingCode;
  /** Offset in the text, or null for the file as a whole. */
  readonly at: number | null;

  constructor(code: ReadingCode, message: string, at: number | null) {
    super(message);
    this.code = code;
    this.at = at;
  }
}

export type ReadingCode =
  | 'unreadable-file'
  | 'bad-syntax'
  | 'bad-structure'
  | 'duplicate-key'
  | 'bad-range'
  | 'bad-host-name'
  | 'undefined-group'
  | 'vault-locked'
  | 'too-big';

/** The line (from 1) of an offset of one text; a lone CR ends a line as LF and CR LF do. */
export class Lines {
  readonly #starts: number[] = [0];
  /** The index of the line asked for last: most questions go down the file. */
  #last = 0;

  constructor(text: string) {
    if (text.includes('\r')) {
      for (let at = 0; at < text.length; at++) {
        const code = text.charCodeAt(at);
        if (code === 10 || (code === 13 && text.charCodeAt(at + 1) !== 10)) this.#starts.push(at + 1);
      }
      return;
    }
    for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) this.#starts.push(at + 1);
  }

  /** O(log lines); at once for an offset in the line of the last question or the two below it. */
  lineOf(offset: number): number {
    const starts = this.#starts;
    let low = 0;
    let high = starts.length - 1;
    if ((starts[this.#last] as number) <= offset) {
      low = this.#last;
      for (let index = low + 1; index <= low + 3; index++) {
        if (index > high || (starts[index] as number) > offset) {
          this.#last = index - 1;
          return index;
        }
      }
    }
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((starts[middle] as number) <= offset) low = middle;
      else high = middle - 1;
    }
    this.#last = low;
    return low + 1;
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** The text of a blob, a byte order mark included; throws a ReadingError when it is not UTF-8. */
export function decodeText(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes);
  } catch {
    throw new ReadingError('unreadable-file', 'the file is not UTF-8 text; save it as UTF-8', firstBadByte(bytes));
  }
}

/** The offset, in the text before it, of the first byte that is not UTF-8. */
function firstBadByte(bytes: Uint8Array): number {
  const lenient = new TextDecoder('utf-8', { ignoreBOM: true });
  // The longest valid prefix ends before the first replacement character that was not in the file itself.
  let low = 0;
  let high = bytes.length;
  const prefix = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    try {
      prefix.decode(bytes.subarray(0, middle), { stream: true });
      low = middle;
    } catch {
      high = middle - 1;
    }
    try {
      prefix.decode();
    } catch {
      // An unfinished sequence at the end: only resets the decoder.
    }
  }
  return lenient.decode(bytes.subarray(0, low)).length;
}

/** Orders texts by code point, as Python sorts them (JavaScript would sort by UTF-16 unit). */
export function compareCodePoints(left: string, right: string): number {
  const length = Math.min(left.length, right.length);
  for (let at = 0; at < length; at++) {
    const a = left.charCodeAt(at);
    const b = right.charCodeAt(at);
    if (a !== b) {
      const aSurrogate = a >= 0xd800 && a <= 0xdfff;
      const bSurrogate = b >= 0xd800 && b <= 0xdfff;
      if (aSurrogate !== bSurrogate) return aSurrogate ? 1 : -1;
      return a - b;
    }
  }
  return left.length - right.length;
}
