import type { MappingNode, Node } from './yaml-parser.js';

/**
 * The entries that most inventories are made of, read from the text at once: `name: value`, and `name:` with such
 * entries below it. It saves the tokens of nearly every line of a big file; whatever is written in another way is left
 * to the scanner, which reads these to the same nodes.
 *
 * A pair ends its line, and the next line begins with a word: then nothing of it can belong to the value.
 */
const PAIR =
  /([A-Za-z0-9_][A-Za-z0-9_.-]{0,200}): ([A-Za-z0-9_./](?:[A-Za-z0-9_./-]|:(?=[A-Za-z0-9_/]))*)\n( *)(?=[A-Za-z0-9_])/y;
const HEAD = /([A-Za-z0-9_][A-Za-z0-9_.-]{0,200}):\n( +)(?=[A-Za-z0-9_])/y;

/** One entry, and where the line behind it begins. */
export interface SimpleEntry {
  readonly key: Node;
  readonly value: Node;
  /** How many nodes key and value are. */
  readonly nodes: number;
  /** The first character of the next line that is no space, and its column. */
  readonly at: number;
  readonly column: number;
}

/**
 * The entry of a block mapping that begins at `at` and is indented by `indent`; null where it is none of the simple
 * ones. `mayNest`: a mapping may stand below it. `names`: the names of pairs so far, which most hosts have in common.
 */
export function simpleEntry(
  text: string,
  at: number,
  indent: number,
  mayNest: boolean,
  names: Map<string, string>,
): SimpleEntry | null {
  const pair = simplePair(text, at, indent, names);
  if (pair !== null || !mayNest) return pair;
  HEAD.lastIndex = at;
  const head = HEAD.exec(text);
  if (head === null) return null;
  const name = head[1] as string;
  const inner = (head[2] as string).length;
  if (inner <= indent) return null;
  const first = HEAD.lastIndex;
  const pairs: [Node, Node][] = [];
  let next = first;
  let column = inner;
  while (column === inner) {
    const below = simplePair(text, next, inner, names);
    if (below === null) return null;
    pairs.push([below.key, below.value]);
    next = below.at;
    column = below.column;
  }
  // Between the two there is no block that it could belong to.
  if (column > indent) return null;
  const value: MappingNode = { kind: 'mapping', at: first, tag: null, pairs };
  return { key: scalar(at, name), value, nodes: 2 + 2 * pairs.length, at: next, column };
}

function simplePair(text: string, at: number, indent: number, names: Map<string, string>): SimpleEntry | null {
  PAIR.lastIndex = at;
  const match = PAIR.exec(text);
  if (match === null) return null;
  const name = match[1] as string;
  const column = (match[3] as string).length;
  // Further right, the next line would go on with the value.
  if (column > indent) return null;
  const valueNode = scalar(at + name.length + 2, match[2] as string);
  return { key: scalar(at, oneOf(names, name)), value: valueNode, nodes: 2, at: PAIR.lastIndex, column };
}

/** The text itself or, for all of its equals, the first: their hash is then made once. */
function oneOf(names: Map<string, string>, name: string): string {
  const known = names.get(name);
  if (known !== undefined) return known;
  names.set(name, name);
  return name;
}

function scalar(at: number, text: string): Node {
  return { kind: 'scalar', at, tag: null, plain: true, text };
}
