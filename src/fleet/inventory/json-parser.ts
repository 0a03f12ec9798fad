import { type Node, YAML_TAG } from './yaml-parser.js';

const MAX_NESTING = 64;
const MAX_NODES = 500_000;

/**
 * The document of a text that is JSON as Python's `json` reads it (NaN and Infinity included), else null: then Ansible
 * reads the text as YAML, so no error is lost here. Nodes are those of the YAML parser, with explicit types.
 */
export function parseJson(text: string): Node | null {
  try {
    const parser = new JsonParser(text);
    const node = parser.value(0);
    return parser.atEnd() ? node : null;
  } catch (error) {
    if (error instanceof NotJson) return null;
    throw error;
  }
}

class NotJson extends Error {}

class JsonParser {
  readonly #text: string;
  #at = 0;
  #nodes = 0;

  constructor(text: string) {
    this.#text = text;
  }

  atEnd(): boolean {
    this.#space();
    return this.#at === this.#text.length;
  }

  value(depth: number): Node {
    this.#space();
    const at = this.#at;
    // Beyond the bound the YAML parser says so, with its place.
    if (depth > MAX_NESTING || ++this.#nodes > MAX_NODES) throw new NotJson();
    switch (this.#text[at]) {
      case '{':
        return this.#object(at, depth);
      case '[':
        return this.#array(at, depth);
      case '"':
        return this.#scalar(at, 'str', this.#string());
      default:
        return this.#word(at);
    }
  }

  #scalar(at: number, type: string, text: string): Node {
    return { kind: 'scalar', at, tag: YAML_TAG + type, plain: false, text };
  }

  #space(): void {
    while (' \t\n\r'.includes(this.#text.charAt(this.#at)) && this.#at < this.#text.length) this.#at++;
  }

  #takes(character: string): boolean {
    this.#space();
    if (this.#text[this.#at] !== character) return false;
    this.#at++;
    return true;
  }

  #object(at: number, depth: number): Node {
    this.#at++;
    const pairs: [Node, Node][] = [];
    if (this.#takes('}')) return { kind: 'mapping', at, tag: null, pairs };
    do {
      this.#space();
      const keyAt = this.#at;
      if (this.#text[keyAt] !== '"') throw new NotJson();
      const key = this.#scalar(keyAt, 'str', this.#string());
      if (!this.#takes(':')) throw new NotJson();
      pairs.push([key, this.value(depth + 1)]);
    } while (this.#takes(','));
    if (!this.#takes('}')) throw new NotJson();
    return this.#vaulted(pairs) ?? { kind: 'mapping', at, tag: null, pairs };
  }

  /** `{"__ansible_vault": "…"}` is how JSON writes an encrypted or an unsafe text. */
  #vaulted(pairs: readonly [Node, Node][]): Node | null {
    for (const [key, value] of pairs) {
      if (key.kind !== 'scalar' || value.kind !== 'scalar') continue;
      if (key.text === '__ansible_vault') return { ...value, tag: '!vault' };
      if (key.text === '__ansible_unsafe') return { ...value, tag: '!unsafe' };
    }
    return null;
  }

  #array(at: number, depth: number): Node {
    this.#at++;
    const items: Node[] = [];
    if (this.#takes(']')) return { kind: 'sequence', at, tag: null, items };
    do items.push(this.value(depth + 1));
    while (this.#takes(','));
    if (!this.#takes(']')) throw new NotJson();
    return { kind: 'sequence', at, tag: null, items };
  }

  #string(): string {
    const text = this.#text;
    const start = this.#at;
    let at = start + 1;
    for (let code = text.charCodeAt(at); code !== 0x22; code = text.charCodeAt(at)) {
      // Behind the end the code is NaN, which fails here too.
      if (!(code >= 0x20)) throw new NotJson();
      at += code === 0x5c ? 2 : 1;
    }
    this.#at = at + 1;
    try {
      return JSON.parse(text.slice(start, at + 1)) as string;
    } catch {
      throw new NotJson();
    }
  }

  #word(at: number): Node {
    const pattern = /(true|false)|(null)|(-?(?:0|[1-9][0-9]*))((?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)|(NaN|-?Infinity)/y;
    pattern.lastIndex = at;
    const match = pattern.exec(this.#text);
    if (match === null) throw new NotJson();
    this.#at += match[0].length;
    if (match[1] !== undefined) return this.#scalar(at, 'bool', match[0]);
    if (match[2] !== undefined) return this.#scalar(at, 'null', match[0]);
    if (match[5] !== undefined) {
      return this.#scalar(at, 'float', match[5] === 'NaN' ? '.nan' : match[5].replace('Infinity', '.inf'));
    }
    return this.#scalar(at, match[4] === '' ? 'int' : 'float', match[0]);
  }
}
