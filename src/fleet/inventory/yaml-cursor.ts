import { ReadingError } from './text.js';

export const TAB = 9;
export const LF = 10;
export const CR = 13;
export const SPACE = 32;

/** Whether the character ends a line in YAML 1.1. */
export function isBreak(code: number): boolean {
  return code === LF || code === CR || code === 0x85 || code === 0x2028 || code === 0x2029;
}

/** A space or a tab. */
export function isBlank(code: number): boolean {
  return code === SPACE || code === TAB;
}

/** A place in a YAML text, moved forward by whoever reads it. */
export class Cursor {
  readonly text: string;
  at = 0;
  /** Offset where the current line begins. */
  lineStart = 0;

  constructor(text: string) {
    this.text = text;
  }

  /** The character `offset` places ahead; 0 behind the end. */
  code(offset = 0): number {
    const at = this.at + offset;
    return at < this.text.length ? this.text.charCodeAt(at) : 0;
  }

  get atEnd(): boolean {
    return this.at >= this.text.length;
  }

  get column(): number {
    return this.at - this.lineStart;
  }

  /** End of text, line break, space or tab. */
  blankOrEnd(offset = 0): boolean {
    if (this.at + offset >= this.text.length) return true;
    const code = this.code(offset);
    return isBlank(code) || isBreak(code);
  }

  breakOrEnd(): boolean {
    return this.atEnd || isBreak(this.code());
  }

  /** Takes one line break and returns it normalised. */
  takeBreak(): string {
    const code = this.code();
    this.at += code === CR && this.code(1) === LF ? 2 : 1;
    this.lineStart = this.at;
    return code === 0x2028 || code === 0x2029 ? String.fromCharCode(code) : '\n';
  }

  skipLine(): void {
    while (!this.breakOrEnd()) this.at++;
  }

  skipBlanks(): void {
    while (isBlank(this.code())) this.at++;
  }

  /** Whether `---` or `...` begins the line here. */
  documentIndicator(): boolean {
    const { text, at } = this;
    return this.column === 0 && (text.startsWith('---', at) || text.startsWith('...', at)) && this.blankOrEnd(3);
  }

  fail(message: string, at = this.at): never {
    throw new ReadingError('bad-syntax', message, at);
  }
}
