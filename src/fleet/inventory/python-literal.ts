import { type Key, PyFloat, type Raw } from './raw.js';

/** A literal that Python reads but that has no counterpart here: a complex number, `...`, `{[]: 1}`. */
export class OddLiteral extends Error {}

class NoLiteral extends Error {}

const MAX_NESTING = 64;
const SIMPLE_ESCAPES = new Map([
  ['\\', '\\'],
  ["'", "'"],
  ['"', '"'],
  ['a', '\x07'],
  ['b', '\b'],
  ['f', '\f'],
  ['n', '\n'],
  ['r', '\r'],
  ['t', '\t'],
  ['v', '\v'],
]);

/**
 * The value of a text that is a Python literal as `ast.literal_eval` reads it, or undefined when it is none (Ansible
 * then keeps the text). Tuples and sets become lists.
 *
 * `jsonWords`: true, false and null count as well (what Ansible does with the result of a template). Throws OddLiteral.
 */
export function pythonLiteral(text: string, jsonWords = false): Raw | undefined {
  if (text.includes('\0')) return undefined;
  try {
    return new LiteralParser(text.replace(/^[ \t]+/, ''), jsonWords).whole();
  } catch (error) {
    if (error instanceof NoLiteral) return undefined;
    throw error;
  }
}

class LiteralParser {
  readonly #text: string;
  readonly #jsonWords: boolean;
  #at = 0;
  /** Inside brackets line breaks are white space. */
  #open = 0;

  constructor(text: string, jsonWords: boolean) {
    this.#text = text;
    this.#jsonWords = jsonWords;
  }

  whole(): Raw {
    this.#space();
    const first = this.#item();
    let value = first;
    if (this.#takes(',')) {
      const items = [first];
      while (!this.#ended()) {
        items.push(this.#item());
        if (!this.#takes(',')) break;
      }
      value = items;
    }
    if (!this.#ended()) throw new NoLiteral();
    return value;
  }

  /** The end of the text, a comment before it included. */
  #ended(): boolean {
    this.#space();
    return /^[ \t\f\r\n]*$/.test(this.#text.slice(this.#at, this.#at + 64)) && this.#text.slice(this.#at).trim() === '';
  }

  #space(): void {
    const pattern = this.#open > 0 ? /(?:[ \t\f\r\n]|#[^\n]*|\\\r?\n)*/y : /(?:[ \t\f]|#[^\n]*|\\\r?\n)*/y;
    pattern.lastIndex = this.#at;
    pattern.exec(this.#text);
    this.#at = pattern.lastIndex;
  }

  #takes(character: string): boolean {
    this.#space();
    if (this.#text[this.#at] !== character) return false;
    this.#at++;
    this.#space();
    return true;
  }

  #item(): Raw {
    this.#space();
    const character = this.#text[this.#at];
    if (character === undefined) throw new NoLiteral();
    if (character === '(' || character === '[') return this.#list(character);
    if (character === '{') return this.#braces();
    if (/["'rRbBuU]/.test(character) && this.#startsString()) return this.#strings();
    if (character === '-' || character === '+') {
      this.#at++;
      this.#space();
      return this.#number(character === '-');
    }
    if (/[0-9.]/.test(character)) return this.#number(false);
    return this.#word();
  }

  #enter(): void {
    this.#at++;
    if (++this.#open > MAX_NESTING) throw new OddLiteral('nests too deep');
    this.#space();
  }

  #leave(): void {
    this.#open--;
    this.#at++;
    this.#space();
  }

  #list(bracket: '(' | '['): Raw {
    const close = bracket === '(' ? ')' : ']';
    this.#enter();
    const items: Raw[] = [];
    let comma = false;
    while (this.#text[this.#at] !== close) {
      if (items.length > 0 && !comma) throw new NoLiteral();
      items.push(this.#item());
      comma = this.#takes(',');
      this.#space();
    }
    this.#leave();
    return bracket === '(' && items.length === 1 && !comma ? (items[0] as Raw) : items;
  }

  #braces(): Raw {
    this.#enter();
    const map = new Map<Key, Raw>();
    const set: Raw[] = [];
    let kind: 'map' | 'set' | null = null;
    let comma = true;
    while (this.#text[this.#at] !== '}') {
      if (!comma) throw new NoLiteral();
      const item = this.#item();
      const isPair = this.#takes(':');
      if (kind !== null && isPair !== (kind === 'map')) throw new NoLiteral();
      kind = isPair ? 'map' : 'set';
      if (isPair) map.set(keyOf(item), this.#item());
      else set.push(item);
      comma = this.#takes(',');
      this.#space();
    }
    this.#leave();
    return kind === 'set' ? set : map;
  }

  #word(): Raw {
    const pattern = /[\p{L}_][\p{L}\p{N}_]*|\.\.\./uy;
    pattern.lastIndex = this.#at;
    const word = pattern.exec(this.#text)?.[0];
    if (word === undefined) throw new NoLiteral();
    this.#at += word.length;
    if (word === 'True' || (this.#jsonWords && word === 'true')) return true;
    if (word === 'False' || (this.#jsonWords && word === 'false')) return false;
    if (word === 'None' || (this.#jsonWords && word === 'null')) return null;
    throw new NoLiteral();
  }

  #number(negative: boolean): Raw {
    const pattern =
      /(0[xX](?:_?[0-9a-fA-F])+|0[oO](?:_?[0-7])+|0[bB](?:_?[01])+)|((?:[0-9](?:_?[0-9])*)?\.(?:[0-9](?:_?[0-9])*)?(?:[eE][-+]?[0-9](?:_?[0-9])*)?|[0-9](?:_?[0-9])*[eE][-+]?[0-9](?:_?[0-9])*)|([0-9](?:_?[0-9])*)/y;
    pattern.lastIndex = this.#at;
    const match = pattern.exec(this.#text);
    if (match === null) throw new NoLiteral();
    const written = match[0].replaceAll('_', '');
    if (written.startsWith('...') || this.#text.startsWith('...', this.#at)) throw new OddLiteral('is an ellipsis');
    if (!/[0-9]/.test(written)) throw new NoLiteral();
    this.#at += match[0].length;
    const next = this.#text[this.#at];
    if (next !== undefined && /[jJ]/.test(next)) throw new OddLiteral('is a complex number');
    if (next !== undefined && /[\p{L}\p{N}_.]/u.test(next)) throw new NoLiteral();
    if (match[2] !== undefined) return new PyFloat(negative ? -Number(written) : Number(written));
    if (match[3] !== undefined && /^0+[1-9]/.test(written)) throw new NoLiteral();
    if (written.length > 4300) throw new NoLiteral();
    const number = BigInt(match[3] === undefined ? written.toLowerCase() : written.replace(/^0+(?=.)/, ''));
    const signed = negative ? -number : number;
    const safe = signed >= BigInt(Number.MIN_SAFE_INTEGER) && signed <= BigInt(Number.MAX_SAFE_INTEGER);
    return safe ? Number(signed) : signed;
  }

  #startsString(): boolean {
    return /^(?:[uU]|[rR][bB]?|[bB][rR]?)?["']/.test(this.#text.slice(this.#at, this.#at + 3));
  }

  /** One or more texts side by side, which Python joins. */
  #strings(): string {
    let value = '';
    let bytes: boolean | null = null;
    while (this.#text[this.#at] !== undefined && this.#startsString()) {
      const prefix = /^[a-zA-Z]*/.exec(this.#text.slice(this.#at, this.#at + 3))?.[0].toLowerCase() as string;
      const isBytes = prefix.includes('b');
      if (bytes !== null && bytes !== isBytes) throw new NoLiteral();
      bytes = isBytes;
      this.#at += prefix.length;
      value += this.#quoted(prefix.includes('r'), isBytes);
      this.#space();
    }
    return value;
  }

  #quoted(raw: boolean, bytes: boolean): string {
    const quote = this.#text[this.#at] as string;
    const triple = this.#text.startsWith(quote.repeat(3), this.#at);
    const close = triple ? quote.repeat(3) : quote;
    this.#at += close.length;
    const parts: string[] = [];
    for (;;) {
      if (this.#text.startsWith(close, this.#at)) break;
      const character = this.#text[this.#at];
      if (character === undefined || (character === '\n' && !triple)) throw new NoLiteral();
      if (bytes && character.charCodeAt(0) > 127) throw new NoLiteral();
      if (character !== '\\') {
        parts.push(character);
        this.#at++;
      } else if (raw) {
        parts.push(this.#text.slice(this.#at, this.#at + 2));
        this.#at += 2;
      } else parts.push(this.#escape(bytes));
    }
    this.#at += close.length;
    return parts.join('');
  }

  #escape(bytes: boolean): string {
    const rest = this.#text.slice(this.#at + 1, this.#at + 10);
    const letter = rest[0];
    if (letter === undefined) throw new NoLiteral();
    const simple = SIMPLE_ESCAPES.get(letter);
    if (simple !== undefined) {
      this.#at += 2;
      return simple;
    }
    if (letter === '\n') {
      this.#at += 2;
      return '';
    }
    const octal = /^[0-7]{1,3}/.exec(rest)?.[0];
    if (octal !== undefined) {
      this.#at += 1 + octal.length;
      return String.fromCharCode(Number.parseInt(octal, 8));
    }
    if (letter === 'N' && !bytes) throw new OddLiteral('names a character by its Unicode name');
    const length = letter === 'x' ? 2 : bytes ? 0 : letter === 'u' ? 4 : letter === 'U' ? 8 : 0;
    if (length === 0) {
      this.#at += 2;
      return `\\${letter}`;
    }
    const digits = rest.slice(1, 1 + length);
    if (!/^[0-9a-fA-F]+$/.test(digits) || digits.length < length) throw new NoLiteral();
    const code = Number.parseInt(digits, 16);
    if (code > 0x10ffff) throw new NoLiteral();
    if (code >= 0xd800 && code <= 0xdfff) throw new OddLiteral('holds half a character');
    this.#at += 2 + length;
    return String.fromCodePoint(code);
  }
}

function keyOf(item: Raw): Key {
  if (item === null || typeof item === 'boolean' || typeof item === 'number' || typeof item === 'string') return item;
  if (item instanceof PyFloat) return item.number;
  throw new OddLiteral('has a key that is no text');
}
