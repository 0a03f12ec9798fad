import { ReadingError } from './text.js';
import { Cursor, isBlank, isBreak, SPACE, TAB } from './yaml-cursor.js';
import { scanBlock, scanDouble, scanPlain, scanSingle } from './yaml-texts.js';

/**
 * YAML 1.1 text → tokens, by the rules of libyaml, which is what Ansible reads with. A YAML 1.2 parser differs where it
 * matters (`[a:b]`, `? x`, tabs, `%YAML`), so this folder has its own.
 */
export type TokenKind =
  | 'stream-end'
  | 'directive'
  | 'document-start'
  | 'document-end'
  | 'block-sequence-start'
  | 'block-mapping-start'
  | 'block-end'
  | 'flow-sequence-start'
  | 'flow-sequence-end'
  | 'flow-mapping-start'
  | 'flow-mapping-end'
  | 'block-entry'
  | 'flow-entry'
  | 'key'
  | 'value'
  | 'alias'
  | 'anchor'
  | 'tag'
  | 'scalar';

export interface Token {
  readonly kind: TokenKind;
  /** Offset of its first character. */
  readonly at: number;
  /** A scalar's value, the name of an anchor or alias, a tag or directive as written. */
  readonly text: string;
  /** Only for scalars: written without quotes and not as a block. */
  readonly plain: boolean;
}

/** A place where a key may begin that only a later `:` proves. */
interface SimpleKey {
  possible: boolean;
  required: boolean;
  tokenNumber: number;
  at: number;
  lineStart: number;
}

const MAX_NESTING = 64;
/** A key without `?` must end on its line within this many characters. */
const MAX_SIMPLE_KEY = 1024;

const BOM = 0xfeff;

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters that YAML forbids
const FORBIDDEN = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]/;

/** A letter or digit of ASCII, or an underscore. */
function isWord(code: number): boolean {
  return (code >= 97 && code <= 122) || (code >= 65 && code <= 90) || (code >= 48 && code <= 57) || code === 0x5f;
}

export class Scanner {
  readonly #cursor: Cursor;
  #queue: Token[] = [];
  #head = 0;
  #taken = 0;
  #ended = false;
  #indent = -1;
  readonly #indents: number[] = [];
  #flowLevel = 0;
  readonly #keys: SimpleKey[] = [{ possible: false, required: false, tokenNumber: 0, at: 0, lineStart: 0 }];
  #keyAllowed = true;

  /** Throws a ReadingError for characters that YAML forbids. */
  constructor(text: string) {
    this.#cursor = new Cursor(text);
    if (text.charCodeAt(0) === BOM) {
      this.#cursor.at = 1;
      this.#cursor.lineStart = 1;
    }
    const forbidden = FORBIDDEN.exec(text);
    if (forbidden !== null) {
      const code = (forbidden[0].codePointAt(0) as number).toString(16).toUpperCase().padStart(4, '0');
      throw new ReadingError(
        'bad-syntax',
        `the file holds the character U+${code}, which YAML forbids; remove it`,
        forbidden.index,
      );
    }
  }

  /** The next token, left in place. */
  peek(): Token {
    if (this.#needMore()) this.#fetchMore();
    return this.#queue[this.#head] as Token;
  }

  /** The next token, taken. After `stream-end` there is none. */
  take(): Token {
    const token = this.peek();
    this.#head++;
    this.#taken++;
    if (this.#head > 256 && this.#head * 2 > this.#queue.length) {
      this.#queue = this.#queue.slice(this.#head);
      this.#head = 0;
    }
    return token;
  }

  /**
   * The offset of the cursor where an entry of the innermost block mapping begins there and nothing was read ahead: its
   * reader may then take the entry by itself, and `skipTo` the next. -1 everywhere else.
   */
  get entry(): number {
    return this.#isBare() && this.#cursor.column === this.#indent ? this.#cursor.at : -1;
  }

  /** The indentation of the innermost block. */
  get indent(): number {
    return this.#indent;
  }

  /** Goes on at an offset, the first of its line that is no space; the line begins at `lineStart`. */
  skipTo(at: number, lineStart: number): void {
    this.#cursor.at = at;
    this.#cursor.lineStart = lineStart;
  }

  /** Takes the end of the innermost block where a word further left says it, before anything is read ahead. */
  takeEnd(): boolean {
    if (!this.#isBare() || this.#cursor.column >= this.#indent || !isWord(this.#cursor.code())) return false;
    this.#indent = this.#indents.pop() as number;
    return true;
  }

  /** Nothing was read ahead, and a key may begin at the cursor. */
  #isBare(): boolean {
    return this.#head === this.#queue.length && this.#keyAllowed && this.#flowLevel === 0 && !this.#key().possible;
  }

  #needMore(): boolean {
    if (this.#ended) return false;
    if (this.#head === this.#queue.length) return true;
    return this.#keyAtHead();
  }

  /** A token may be handed out only when no key can be inserted before it any more. */
  #keyAtHead(): boolean {
    this.#dropStaleKeys();
    for (const key of this.#keys) if (key.possible && key.tokenNumber === this.#taken) return true;
    return false;
  }

  #fetchMore(): void {
    do this.#fetch();
    while (this.#needMore());
  }

  #push(kind: TokenKind, at: number, text = '', plain = false): void {
    this.#queue.push({ kind, at, text, plain });
  }

  #fetch(): void {
    this.#skipToToken();
    this.#dropStaleKeys();
    this.#unrollIndent(this.#cursor.column);
    const code = this.#cursor.code();
    if (this.#cursor.atEnd) this.#fetchEnd();
    else if (code === 0x25 && this.#cursor.column === 0) this.#fetchDirective();
    else if (this.#cursor.documentIndicator()) this.#fetchDocumentIndicator();
    else if (this.#fetchIndicator(code)) return;
    else if (this.#startsPlain(code)) this.#fetchPlain();
    else if (code === TAB) this.#cursor.fail('a tab stands where YAML allows only spaces; indent with spaces');
    else {
      const character = JSON.stringify(this.#cursor.text[this.#cursor.at]);
      this.#cursor.fail(`${character} cannot begin a value; put the value in quotes`);
    }
  }

  /** Takes what the character at the cursor announces; false when it announces nothing here. */
  #fetchIndicator(code: number): boolean {
    const flow = this.#flowLevel > 0;
    switch (String.fromCharCode(code)) {
      case '[':
        this.#fetchFlowStart('flow-sequence-start');
        return true;
      case '{':
        this.#fetchFlowStart('flow-mapping-start');
        return true;
      case ']':
        this.#fetchFlowEnd('flow-sequence-end');
        return true;
      case '}':
        this.#fetchFlowEnd('flow-mapping-end');
        return true;
      case ',':
        this.#removeKey();
        this.#keyAllowed = true;
        this.#push('flow-entry', this.#cursor.at++);
        return true;
      case '-':
        if (!this.#cursor.blankOrEnd(1)) return false;
        this.#fetchBlockEntry();
        return true;
      case '?':
        if (!flow && !this.#cursor.blankOrEnd(1)) return false;
        this.#fetchKey();
        return true;
      case ':':
        if (!flow && !this.#cursor.blankOrEnd(1)) return false;
        this.#fetchValue();
        return true;
      case '*':
        this.#fetchAnchor('alias');
        return true;
      case '&':
        this.#fetchAnchor('anchor');
        return true;
      case '!':
        this.#fetchTag();
        return true;
      case '|':
      case '>':
        if (flow) return false;
        this.#fetchBlockScalar(code === 0x7c);
        return true;
      case "'":
      case '"':
        this.#fetchQuoted(code === 0x22);
        return true;
      default:
        return false;
    }
  }

  #startsPlain(code: number): boolean {
    if (isBlank(code)) return false;
    if (code === 0x2d) return !isBlank(this.#cursor.code(1));
    if (code === 0x3f || code === 0x3a) return this.#flowLevel === 0 && !this.#cursor.blankOrEnd(1);
    return !',[]{}#&*!|>\'"%@`'.includes(String.fromCharCode(code));
  }

  #skipToToken(): void {
    for (;;) {
      if (this.#cursor.column === 0 && this.#cursor.code() === BOM) this.#cursor.at++;
      for (;;) {
        const code = this.#cursor.code();
        if (code === SPACE || (code === TAB && (this.#flowLevel > 0 || !this.#keyAllowed))) this.#cursor.at++;
        else break;
      }
      if (this.#cursor.code() === 0x23) this.#cursor.skipLine();
      if (this.#cursor.atEnd || !isBreak(this.#cursor.code())) return;
      this.#cursor.takeBreak();
      if (this.#flowLevel === 0) this.#keyAllowed = true;
    }
  }

  #dropStaleKeys(): void {
    for (const key of this.#keys) {
      if (!key.possible) continue;
      if (key.lineStart === this.#cursor.lineStart && this.#cursor.at - key.at <= MAX_SIMPLE_KEY) continue;
      if (key.required)
        this.#cursor.fail("this line has no ':' where a key is expected; write `key: value` or `name:`", key.at);
      key.possible = false;
    }
  }

  #key(): SimpleKey {
    return this.#keys[this.#keys.length - 1] as SimpleKey;
  }

  #saveKey(): void {
    if (!this.#keyAllowed) return;
    this.#removeKey();
    const key = this.#key();
    key.possible = true;
    key.required = this.#flowLevel === 0 && this.#indent === this.#cursor.column;
    key.tokenNumber = this.#taken + this.#queue.length - this.#head;
    key.at = this.#cursor.at;
    key.lineStart = this.#cursor.lineStart;
  }

  #removeKey(): void {
    const key = this.#key();
    if (key.possible && key.required) {
      this.#cursor.fail("this line has no ':' where a key is expected; write `key: value` or `name:`", key.at);
    }
    key.possible = false;
  }

  #rollIndent(column: number, tokenNumber: number | null, kind: TokenKind, at: number): void {
    if (this.#flowLevel > 0 || this.#indent >= column) return;
    this.#indents.push(this.#indent);
    this.#indent = column;
    this.#checkNesting();
    const token: Token = { kind, at, text: '', plain: false };
    if (tokenNumber === null) this.#queue.push(token);
    else this.#queue.splice(this.#head + tokenNumber - this.#taken, 0, token);
  }

  #unrollIndent(column: number): void {
    if (this.#flowLevel > 0) return;
    while (this.#indent > column) {
      this.#push('block-end', this.#cursor.at);
      this.#indent = this.#indents.pop() as number;
    }
  }

  #checkNesting(): void {
    if (this.#indents.length + this.#flowLevel > MAX_NESTING) {
      throw new ReadingError(
        'too-big',
        `the file nests deeper than ${MAX_NESTING} levels here; flatten it`,
        this.#cursor.at,
      );
    }
  }

  #fetchEnd(): void {
    this.#unrollIndent(-1);
    this.#removeKey();
    this.#keyAllowed = false;
    this.#push('stream-end', this.#cursor.at);
    this.#ended = true;
  }

  #fetchDirective(): void {
    this.#unrollIndent(-1);
    this.#removeKey();
    this.#keyAllowed = false;
    const at = this.#cursor.at;
    this.#cursor.skipLine();
    this.#push('directive', at, this.#cursor.text.slice(at, this.#cursor.at));
  }

  #fetchDocumentIndicator(): void {
    this.#unrollIndent(-1);
    this.#removeKey();
    this.#keyAllowed = false;
    this.#push(this.#cursor.code() === 0x2d ? 'document-start' : 'document-end', this.#cursor.at);
    this.#cursor.at += 3;
  }

  #fetchFlowStart(kind: TokenKind): void {
    this.#saveKey();
    this.#flowLevel++;
    this.#checkNesting();
    this.#keys.push({ possible: false, required: false, tokenNumber: 0, at: 0, lineStart: 0 });
    this.#keyAllowed = true;
    this.#push(kind, this.#cursor.at++);
  }

  #fetchFlowEnd(kind: TokenKind): void {
    this.#removeKey();
    if (this.#flowLevel > 0) {
      this.#flowLevel--;
      this.#keys.pop();
    }
    this.#keyAllowed = false;
    this.#push(kind, this.#cursor.at++);
  }

  #fetchBlockEntry(): void {
    if (this.#flowLevel === 0) {
      if (!this.#keyAllowed) this.#cursor.fail("a list item '-' is not allowed here; begin it on a line of its own");
      this.#rollIndent(this.#cursor.column, null, 'block-sequence-start', this.#cursor.at);
    }
    this.#removeKey();
    this.#keyAllowed = true;
    this.#push('block-entry', this.#cursor.at++);
  }

  #fetchKey(): void {
    if (this.#flowLevel === 0) {
      if (!this.#keyAllowed)
        this.#cursor.fail("a key is not allowed here; put the value before it in quotes if it holds '?'");
      this.#rollIndent(this.#cursor.column, null, 'block-mapping-start', this.#cursor.at);
    }
    this.#removeKey();
    this.#keyAllowed = this.#flowLevel === 0;
    this.#push('key', this.#cursor.at++);
  }

  #fetchValue(): void {
    const key = this.#key();
    if (key.possible) {
      const token: Token = { kind: 'key', at: key.at, text: '', plain: false };
      this.#queue.splice(this.#head + key.tokenNumber - this.#taken, 0, token);
      this.#rollIndent(key.at - key.lineStart, key.tokenNumber, 'block-mapping-start', key.at);
      key.possible = false;
      this.#keyAllowed = false;
    } else {
      if (this.#flowLevel === 0) {
        if (!this.#keyAllowed)
          this.#cursor.fail("a second ':' is not allowed here; put a value that holds ': ' in quotes");
        this.#rollIndent(this.#cursor.column, null, 'block-mapping-start', this.#cursor.at);
      }
      this.#keyAllowed = this.#flowLevel === 0;
    }
    this.#push('value', this.#cursor.at++);
  }

  #fetchAnchor(kind: 'alias' | 'anchor'): void {
    this.#saveKey();
    this.#keyAllowed = false;
    const at = this.#cursor.at++;
    const start = this.#cursor.at;
    while (/[0-9A-Za-z_-]/.test(this.#cursor.text.charAt(this.#cursor.at))) this.#cursor.at++;
    const follows = this.#cursor.text.charAt(this.#cursor.at);
    if (this.#cursor.at === start || !(this.#cursor.blankOrEnd() || '?:,]}%@`'.includes(follows))) {
      this.#cursor.fail(
        'an anchor or alias has a name of letters, digits, - and _; put a value that begins with it in quotes',
        at,
      );
    }
    this.#push(kind, at, this.#cursor.text.slice(start, this.#cursor.at));
  }

  #fetchTag(): void {
    this.#saveKey();
    this.#keyAllowed = false;
    const pattern = /!<[0-9A-Za-z\-;/?:@&=+$,_.!~*'()[\]%]+>|![0-9A-Za-z_-]*!?[0-9A-Za-z\-;/?:@&=+$_.~*'()%]*/y;
    pattern.lastIndex = this.#cursor.at;
    const match = pattern.exec(this.#cursor.text) as RegExpExecArray;
    const at = this.#cursor.at;
    this.#cursor.at += match[0].length;
    if (!this.#cursor.blankOrEnd() && !(this.#flowLevel > 0 && this.#cursor.code() === 0x2c)) {
      this.#cursor.fail('a tag must be followed by a space; put a value that begins with ! in quotes', at);
    }
    this.#push('tag', at, match[0]);
  }

  #fetchQuoted(double: boolean): void {
    this.#saveKey();
    this.#keyAllowed = false;
    const at = this.#cursor.at;
    this.#push('scalar', at, double ? scanDouble(this.#cursor, at) : scanSingle(this.#cursor, at));
  }

  #fetchPlain(): void {
    this.#saveKey();
    this.#keyAllowed = false;
    const at = this.#cursor.at;
    const { value, overLines } = scanPlain(this.#cursor, this.#indent + 1, this.#flowLevel > 0);
    this.#push('scalar', at, value, true);
    if (overLines) this.#keyAllowed = true;
  }

  #fetchBlockScalar(literal: boolean): void {
    this.#removeKey();
    this.#keyAllowed = true;
    const start = this.#cursor.at++;
    const header = /(?:([+-])([0-9])?|([0-9])([+-])?)?/y;
    header.lastIndex = this.#cursor.at;
    const match = header.exec(this.#cursor.text) as RegExpExecArray;
    this.#cursor.at += match[0].length;
    const digit = match[2] ?? match[3];
    if (digit === '0') this.#cursor.fail('the indentation of a block text is 1 to 9', start);
    this.#cursor.skipBlanks();
    if (this.#cursor.code() === 0x23) this.#cursor.skipLine();
    if (!this.#cursor.breakOrEnd()) this.#cursor.fail('a block text begins on the line after | or >', start);
    if (!this.#cursor.atEnd) this.#cursor.takeBreak();
    const chomping = match[1] ?? match[4] ?? '';
    const fixed = digit === undefined ? null : Math.max(this.#indent, 0) + Number(digit);
    this.#push('scalar', start, scanBlock(this.#cursor, this.#indent, literal, chomping, fixed));
  }
}
