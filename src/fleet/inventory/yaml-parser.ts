import { ReadingError } from './text.js';
import { Scanner, type Token, type TokenKind } from './yaml-scanner.js';
import { simpleEntry } from './yaml-simple.js';

/** A node of a YAML (or JSON) document. Aliases keep their target, so that a file of aliases stays as small as it is. */
export type Node = ScalarNode | SequenceNode | MappingNode | AliasNode;

interface NodeBase {
  /** Offset in the text. */
  readonly at: number;
  /** The full tag, `tag:yaml.org,2002:` for `!!`, or null when none is written. */
  readonly tag: string | null;
}

export interface ScalarNode extends NodeBase {
  readonly kind: 'scalar';
  /** Written plainly: its type follows from its text. */
  readonly plain: boolean;
  readonly text: string;
}

export interface SequenceNode extends NodeBase {
  readonly kind: 'sequence';
  readonly items: Node[];
}

export interface MappingNode extends NodeBase {
  readonly kind: 'mapping';
  readonly pairs: [Node, Node][];
}

export interface AliasNode extends NodeBase {
  readonly kind: 'alias';
  readonly target: Exclude<Node, AliasNode>;
}

export const YAML_TAG = 'tag:yaml.org,2002:';
const MAX_NESTING = 64;
const MAX_ALIASES = 1000;
/** 16 MiB can be five million nodes, which nobody writes and which would not fit into 256 MB. */
const MAX_NODES = 500_000;

/**
 * The one document of a YAML text, or null when the text holds none.
 *
 * Throws a ReadingError with the offset: `bad-syntax`, or `too-big` beyond 64 levels or 1,000 alias expansions (an
 * alias inside an aliased part counts each time it would be expanded). A second document is an error, as in Ansible.
 */
export function parseYaml(text: string): Node | null {
  return new Parser(text).document();
}

const AFTER_ENTRY: ReadonlySet<TokenKind> = new Set<TokenKind>(['block-entry', 'block-end']);
const AFTER_INDENTLESS: ReadonlySet<TokenKind> = new Set<TokenKind>(['block-entry', 'key', 'value', 'block-end']);
const AFTER_BLOCK_KEY: ReadonlySet<TokenKind> = new Set<TokenKind>(['key', 'value', 'block-end']);
const AFTER_FLOW_KEY: ReadonlySet<TokenKind> = new Set<TokenKind>([
  'value',
  'flow-entry',
  'flow-mapping-end',
  'flow-sequence-end',
]);
const AFTER_DOCUMENT_START: ReadonlySet<TokenKind> = new Set<TokenKind>([
  'directive',
  'document-start',
  'document-end',
  'stream-end',
]);

class Parser {
  readonly #text: string;
  readonly #scanner: Scanner;
  readonly #names = new Map<string, string>();
  readonly #anchors = new Map<string, Exclude<Node, AliasNode> | null>();
  readonly #tagHandles = new Map<string, string>([
    ['!', '!'],
    ['!!', YAML_TAG],
  ]);
  #depth = 0;
  #nodes = 0;
  /** How much the aliases of a list or mapping expand to, and how deep it is with them; without an entry 0 and 1. */
  readonly #sizes = new Map<Node, { readonly expansions: number; readonly depth: number }>();

  constructor(text: string) {
    this.#text = text;
    this.#scanner = new Scanner(text);
  }

  document(): Node | null {
    let first = this.#scanner.peek();
    if (first.kind === 'stream-end') return null;
    let node: Node;
    if (first.kind === 'directive' || first.kind === 'document-start') {
      while (first.kind === 'directive') {
        this.#directive(this.#scanner.take());
        first = this.#scanner.peek();
      }
      if (first.kind !== 'document-start') this.#fail("'---' must follow a % directive", first);
      this.#scanner.take();
      node = this.#nodeUnless(AFTER_DOCUMENT_START, true, false);
    } else {
      node = this.#node(true, false);
    }
    while (this.#scanner.peek().kind === 'document-end') this.#scanner.take();
    const rest = this.#scanner.peek();
    if (rest.kind === 'document-start' || rest.kind === 'directive') {
      this.#fail(
        "a second document begins here; a file holds one, so remove this '---' or move it to its own file",
        rest,
      );
    }
    if (rest.kind !== 'stream-end') this.#fail('this does not belong to what is above it; check the indentation', rest);
    return node;
  }

  #fail(message: string, token: Token): never {
    throw new ReadingError('bad-syntax', message, token.at);
  }

  #directive(token: Token): void {
    const [name, ...words] = token.text
      .replace(/[ \t]#.*$/, '')
      .trim()
      .split(/[ \t]+/);
    if (name === '%YAML' && (words[0] === '1.1' || words[0] === '1.2') && words.length === 1) return;
    const [handle, prefix] = words;
    if (name === '%TAG' && handle !== undefined && prefix !== undefined && words.length === 2) {
      this.#tagHandles.set(handle, prefix);
      return;
    }
    this.#fail(`${name} is no directive that Ansible reads; remove the line`, token);
  }

  #empty(at: number, tag: string | null = null): ScalarNode {
    return { kind: 'scalar', at, tag, plain: tag === null, text: '' };
  }

  #nodeUnless(ends: ReadonlySet<TokenKind>, block: boolean, indentless: boolean): Node {
    const token = this.#scanner.peek();
    return ends.has(token.kind) ? this.#empty(token.at) : this.#node(block, indentless);
  }

  #node(block: boolean, indentless: boolean): Node {
    let token = this.#scanner.peek();
    this.#count(1, token.at);
    if (token.kind === 'alias') return this.#alias(this.#scanner.take());
    const at = token.at;
    let anchor: Token | null = null;
    let tag: string | null = null;
    while ((token.kind === 'anchor' && anchor === null) || (token.kind === 'tag' && tag === null)) {
      this.#scanner.take();
      if (token.kind === 'anchor') anchor = token;
      else tag = this.#resolveTag(token);
      token = this.#scanner.peek();
    }
    if (anchor !== null) {
      if (this.#anchors.has(anchor.text)) this.#fail(`the anchor &${anchor.text} is there twice; rename one`, anchor);
      this.#anchors.set(anchor.text, null);
    }
    const node = this.#content(token, block, indentless, at, tag, anchor !== null || tag !== null);
    if (anchor !== null) this.#anchors.set(anchor.text, node);
    return node;
  }

  #count(nodes: number, at: number): void {
    this.#nodes += nodes;
    if (this.#nodes <= MAX_NODES) return;
    const most = MAX_NODES.toLocaleString('en');
    throw new ReadingError('too-big', `the file holds more than ${most} keys and values; split it`, at);
  }

  #content(
    token: Token,
    block: boolean,
    indentless: boolean,
    at: number,
    tag: string | null,
    decorated: boolean,
  ): Exclude<Node, AliasNode> {
    // A lone `!` says nothing about a collection, and makes libyaml take a scalar as plain, quotes or not.
    const known = tag === '!' ? null : tag;
    switch (token.kind) {
      case 'scalar':
        this.#scanner.take();
        return {
          kind: 'scalar',
          at,
          tag: known,
          plain: tag === '!' || (token.plain && tag === null),
          text: token.text,
        };
      case 'flow-sequence-start':
        return this.#nested(token, () => this.#flowSequence(at, known));
      case 'flow-mapping-start':
        return this.#nested(token, () => this.#flowMapping(at, known));
      case 'block-entry':
        if (indentless) return this.#nested(token, () => this.#indentlessSequence(at, known));
        break;
      case 'block-sequence-start':
        if (block) return this.#nested(token, () => this.#blockSequence(at, known));
        break;
      case 'block-mapping-start':
        if (block) return this.#nested(token, () => this.#blockMapping(at, known));
        break;
      default:
    }
    if (decorated) return this.#empty(at, tag === '!' ? `${YAML_TAG}str` : known);
    this.#fail('a value is expected here; check the indentation and the quotes', token);
  }

  #nested<T extends SequenceNode | MappingNode>(token: Token, read: () => T): T {
    if (this.#depth === MAX_NESTING) this.#tooDeep(token.at);
    this.#depth++;
    const node = read();
    this.#depth--;
    this.#measure(node);
    return node;
  }

  /** Aliases cost nothing here, but whoever writes the values out would pay for them. */
  #measure(node: SequenceNode | MappingNode): void {
    let expansions = 0;
    let depth = 0;
    const add = (child: Node) => {
      const target = resolveAlias(child);
      if (child.kind === 'alias') expansions += 1;
      if (target.kind === 'scalar') return;
      const size = this.#sizes.get(target);
      expansions += size?.expansions ?? 0;
      depth = Math.max(depth, size?.depth ?? 1);
    };
    if (node.kind === 'sequence') for (const item of node.items) add(item);
    else
      for (const pair of node.pairs) {
        add(pair[0]);
        add(pair[1]);
      }
    if (expansions > MAX_ALIASES) {
      throw new ReadingError(
        'too-big',
        `the file expands more than ${MAX_ALIASES.toLocaleString('en')} aliases; write the values out`,
        node.at,
      );
    }
    if (depth >= MAX_NESTING) this.#tooDeep(node.at);
    if (expansions > 0 || depth > 0) this.#sizes.set(node, { expansions, depth: depth + 1 });
  }

  #tooDeep(at: number): never {
    throw new ReadingError('too-big', `the file nests deeper than ${MAX_NESTING} levels here; flatten it`, at);
  }

  #alias(token: Token): Node {
    const target = this.#anchors.get(token.text);
    if (target === undefined)
      this.#fail(`no anchor &${token.text} is above this alias; add it or write the value`, token);
    if (target === null) this.#fail(`the alias *${token.text} is inside its own anchor; write the value`, token);
    return { kind: 'alias', at: token.at, tag: null, target };
  }

  #resolveTag(token: Token): string {
    const text = token.text;
    if (text.startsWith('!<')) return text.slice(2, -1);
    const handle = /^!(?:[0-9A-Za-z_-]*!)?/.exec(text)?.[0] as string;
    const suffix = text.slice(handle.length);
    if (handle === '!' && suffix === '') return '!';
    const prefix = this.#tagHandles.get(handle);
    if (prefix === undefined) this.#fail(`the tag ${text} has no %TAG; remove it`, token);
    return prefix + decodeTag(suffix);
  }

  #blockSequence(at: number, tag: string | null): SequenceNode {
    this.#scanner.take();
    const items: Node[] = [];
    for (;;) {
      const token = this.#scanner.take();
      if (token.kind === 'block-end') return { kind: 'sequence', at, tag, items };
      if (token.kind !== 'block-entry') this.#fail("a list item '-' is expected here; check the indentation", token);
      items.push(this.#nodeUnless(AFTER_ENTRY, true, false));
    }
  }

  #indentlessSequence(at: number, tag: string | null): SequenceNode {
    const items: Node[] = [];
    while (this.#scanner.peek().kind === 'block-entry') {
      this.#scanner.take();
      items.push(this.#nodeUnless(AFTER_INDENTLESS, true, false));
    }
    return { kind: 'sequence', at, tag, items };
  }

  #blockMapping(at: number, tag: string | null): MappingNode {
    this.#scanner.take();
    const pairs: [Node, Node][] = [];
    for (;;) {
      while (this.#simpleEntry(pairs));
      if (this.#scanner.takeEnd()) return { kind: 'mapping', at, tag, pairs };
      const token = this.#scanner.take();
      if (token.kind === 'block-end') return { kind: 'mapping', at, tag, pairs };
      if (token.kind !== 'key') this.#fail('a key is expected here; check the indentation', token);
      const key = this.#nodeUnless(AFTER_BLOCK_KEY, true, true);
      pairs.push([key, this.#blockValue()]);
    }
  }

  /** Takes an entry that needs no tokens; false where the next is none. */
  #simpleEntry(pairs: [Node, Node][]): boolean {
    const from = this.#scanner.entry;
    if (from < 0) return false;
    const entry = simpleEntry(this.#text, from, this.#scanner.indent, this.#depth < MAX_NESTING, this.#names);
    if (entry === null) return false;
    this.#count(entry.nodes, from);
    pairs.push([entry.key, entry.value]);
    this.#scanner.skipTo(entry.at, entry.at - entry.column);
    return true;
  }

  #blockValue(): Node {
    const token = this.#scanner.peek();
    if (token.kind !== 'value') return this.#empty(token.at);
    this.#scanner.take();
    return this.#nodeUnless(AFTER_BLOCK_KEY, true, true);
  }

  #flowSequence(at: number, tag: string | null): SequenceNode {
    this.#scanner.take();
    const items: Node[] = [];
    for (let first = true; ; first = false) {
      let token = this.#scanner.peek();
      if (!first && token.kind !== 'flow-sequence-end') {
        if (token.kind !== 'flow-entry') this.#fail("',' or ']' is expected here", token);
        this.#scanner.take();
        token = this.#scanner.peek();
      }
      if (token.kind === 'flow-sequence-end') {
        this.#scanner.take();
        return { kind: 'sequence', at, tag, items };
      }
      if (token.kind === 'key') items.push(this.#nested(token, () => this.#flowPair()));
      else items.push(this.#node(false, false));
    }
  }

  /** `[a: b]`: a mapping of one pair inside a list. */
  #flowPair(): MappingNode {
    const at = this.#scanner.take().at;
    const key = this.#nodeUnless(AFTER_FLOW_KEY, false, false);
    return { kind: 'mapping', at, tag: null, pairs: [[key, this.#flowValue()]] };
  }

  #flowValue(): Node {
    const token = this.#scanner.peek();
    if (token.kind !== 'value') return this.#empty(token.at);
    this.#scanner.take();
    return this.#nodeUnless(AFTER_FLOW_KEY, false, false);
  }

  #flowMapping(at: number, tag: string | null): MappingNode {
    this.#scanner.take();
    const pairs: [Node, Node][] = [];
    for (let first = true; ; first = false) {
      let token = this.#scanner.peek();
      if (!first && token.kind !== 'flow-mapping-end') {
        if (token.kind !== 'flow-entry') this.#fail("',' or '}' is expected here", token);
        this.#scanner.take();
        token = this.#scanner.peek();
      }
      if (token.kind === 'flow-mapping-end') {
        this.#scanner.take();
        return { kind: 'mapping', at, tag, pairs };
      }
      if (token.kind === 'key') {
        this.#scanner.take();
        const key = this.#nodeUnless(AFTER_FLOW_KEY, false, false);
        pairs.push([key, this.#flowValue()]);
      } else {
        const key = this.#node(false, false);
        pairs.push([key, this.#empty(key.at)]);
      }
    }
  }
}

function resolveAlias(node: Node): Exclude<Node, AliasNode> {
  return node.kind === 'alias' ? node.target : node;
}

function decodeTag(suffix: string): string {
  try {
    return decodeURIComponent(suffix);
  } catch {
    return suffix;
  }
}
