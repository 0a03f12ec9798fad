import { type Key, PyFloat, type Raw, Unsafe, Vaulted } from './raw.js';
import { ReadingError } from './text.js';
import { type AliasNode, type MappingNode, type Node, type ScalarNode, YAML_TAG } from './yaml-parser.js';
import { floatOf, integerOf, keyIdentity, plainType, plainValue, timestampOf } from './yaml-scalars.js';

/** One pair of a mapping, merge keys resolved. */
export interface Pair {
  readonly key: Key;
  readonly keyNode: Node;
  readonly valueNode: Node;
}

type Identity = ReturnType<typeof keyIdentity>;

/** The node itself, or the one that an alias stands for. */
export function resolve(node: Node): Exclude<Node, AliasNode> {
  return node.kind === 'alias' ? node.target : node;
}

/**
 * Nodes → values, as Ansible constructs them from PyYAML, except that a duplicate key is an error here. One object
 * serves one document; values of shared nodes are shared, so aliases cost nothing.
 *
 * Every method throws a ReadingError (`bad-syntax`, `duplicate-key`) with the offset of the cause.
 */
export class Construction {
  readonly #values = new Map<Node, Raw>();
  readonly #pairs = new Map<MappingNode, readonly Pair[]>();

  value(written: Node): Raw {
    const node = resolve(written);
    if (node.kind === 'scalar') return scalarValue(node);
    const known = this.#values.get(node);
    if (known !== undefined) return known;
    const value = node.kind === 'sequence' ? this.#sequence(node.items, node) : this.#mapping(node);
    this.#values.set(node, value);
    return value;
  }

  /** The pairs of a mapping in Python's order: merged keys first, a repeated key where it stands first. */
  pairs(node: MappingNode): readonly Pair[] {
    const known = this.#pairs.get(node) ?? fewPairs(node);
    if (known !== null) return known;
    const merged: Pair[] = [];
    const own = new Map<Identity, Pair>();
    for (const written of node.pairs) {
      const keyNode = written[0];
      const valueNode = written[1];
      const keyScalar = resolve(keyNode);
      if (isMergeKey(keyScalar)) {
        this.#merge(resolve(valueNode), merged);
        continue;
      }
      const key = keyOf(keyScalar, keyNode.at);
      const identity = keyIdentity(key);
      if (own.has(identity)) {
        const text = JSON.stringify(typeof key === 'string' ? key : String(key));
        throw new ReadingError('duplicate-key', `the key ${text} is there twice; remove one or join them`, keyNode.at);
      }
      own.set(identity, { key, keyNode, valueNode });
    }
    const result = merged.length === 0 ? own : lastWins(merged, own);
    const pairs = [...result.values()];
    this.#pairs.set(node, pairs);
    return pairs;
  }

  #merge(target: Exclude<Node, AliasNode>, merged: Pair[]): void {
    if (target.kind === 'mapping') {
      merged.push(...this.pairs(target));
      return;
    }
    if (target.kind !== 'sequence') {
      throw new ReadingError('bad-syntax', '<< merges a mapping or a list of mappings; this is neither', target.at);
    }
    // The first mapping of the list is the strongest, so it comes last.
    for (const item of [...target.items].reverse()) {
      const mapping = resolve(item);
      if (mapping.kind !== 'mapping') {
        throw new ReadingError('bad-syntax', '<< merges a list of mappings; this item is none', item.at);
      }
      merged.push(...this.pairs(mapping));
    }
  }

  #sequence(items: readonly Node[], node: Node): Raw {
    const tag = node.tag;
    if (tag !== null && tag !== `${YAML_TAG}seq` && tag !== '!unsafe') badTag(tag, node.at);
    // What PyYAML makes of collections inside an `!unsafe` one depends on when it gets to them.
    if (tag === '!unsafe' && items.some((item) => resolve(item).kind !== 'scalar')) badTag(tag, node.at);
    const values = items.map((item) => this.value(item));
    return tag === '!unsafe' ? values.map(unsafe) : values;
  }

  #mapping(node: MappingNode): Raw {
    const tag = node.tag;
    if (tag !== null && tag !== `${YAML_TAG}map` && tag !== `${YAML_TAG}python/dict`) badTag(tag, node.at);
    const values = new Map<Key, Raw>();
    for (const { key, valueNode } of this.pairs(node)) values.set(key, this.value(valueNode));
    return values;
  }
}

/**
 * What to say of a value whose type in YAML 1.1 may not be the one that its writer sees, or null: 022 is 18, 10:30 is
 * 630, 1.30 is 1.3. yes, no, on and off are not among them: who writes them means true and false.
 */
export function surpriseOf(name: string, written: Node): string | null {
  const node = resolve(written);
  if (node.kind !== 'scalar' || !node.plain || node.tag !== null) return null;
  const type = plainType(node.text);
  if (type !== 'int' && type !== 'float' && type !== 'timestamp') return null;
  const value = plainValue(node.text, node.at);
  const shown = String(value instanceof PyFloat ? value.number : value);
  if (type !== 'timestamp' && shown === node.text) return null;
  const meant = type === 'timestamp' ? 'a date' : `the number ${shown}`;
  return `${name}: Ansible reads ${node.text} as ${meant} (YAML 1.1); put it in quotes if it is meant as it is written`;
}

/** Pairs up to which a repeated key is looked for pair by pair. */
const FEW = 8;

/**
 * The pairs of a short mapping of plain keys, such as nearly every host has; null where one is merged or repeated, or
 * there are more. They are not kept: a map for each host would cost more than to make them again for an alias.
 */
function fewPairs({ pairs }: MappingNode): readonly Pair[] | null {
  if (pairs.length > FEW) return null;
  const result: Pair[] = [];
  for (const pair of pairs) {
    // Not by a pattern: it would make an iterator for each pair.
    const keyNode = pair[0];
    if (keyNode.kind !== 'scalar' || isMergeKey(keyNode)) return null;
    const key = keyOf(keyNode, keyNode.at);
    if (result.some((other) => keyIdentity(other.key) === keyIdentity(key))) return null;
    result.push({ key, keyNode, valueNode: pair[1] });
  }
  return result;
}

function keyOf(node: Exclude<Node, AliasNode>, at: number): Key {
  if (node.kind !== 'scalar') {
    throw new ReadingError(
      'bad-syntax',
      'a list or a mapping cannot be a key; put a text that begins with [ or { in quotes',
      at,
    );
  }
  // In a key, and only there, PyYAML reads a plain = as a text.
  if (node.plain && node.tag === null && plainType(node.text) === 'value') return node.text;
  const value = scalarValue(node);
  if (value === null || typeof value === 'boolean' || typeof value === 'number' || typeof value === 'string')
    return value;
  if (value instanceof PyFloat) return value.number;
  if (typeof value === 'bigint') return value.toString();
  throw new ReadingError('bad-syntax', 'a key must be a plain text; remove its tag', at);
}

function lastWins(merged: readonly Pair[], own: ReadonlyMap<Identity, Pair>): Map<Identity, Pair> {
  const result = new Map<Identity, Pair>();
  for (const pair of merged) result.set(keyIdentity(pair.key), pair);
  for (const [identity, pair] of own) result.set(identity, pair);
  return result;
}

function isMergeKey(node: Node): boolean {
  if (node.kind !== 'scalar') return false;
  return node.tag === `${YAML_TAG}merge` || (node.plain && node.tag === null && node.text === '<<');
}

function badTag(tag: string, at: number): never {
  const shown = tag.startsWith(YAML_TAG) ? `!!${tag.slice(YAML_TAG.length)}` : tag;
  throw new ReadingError('bad-syntax', `Ansible cannot read the tag ${shown} here; remove it`, at);
}

function unsafe(raw: Raw): Raw {
  return typeof raw === 'string' ? new Unsafe(raw) : raw;
}

function scalarValue(node: ScalarNode): Raw {
  const { tag, text, at } = node;
  if (tag === null) return node.plain ? plainValue(text, at) : text;
  switch (tag) {
    case `${YAML_TAG}str`:
    case `${YAML_TAG}python/unicode`:
      return text;
    case '!unsafe':
      return new Unsafe(text);
    case '!vault':
    case '!vault-encrypted':
      return new Vaulted(text);
    case `${YAML_TAG}null`:
      return null;
    case `${YAML_TAG}bool`:
      if (!/^(?:yes|no|true|false|on|off)$/i.test(text)) {
        throw new ReadingError('bad-syntax', `${JSON.stringify(text)} is neither true nor false`, at);
      }
      return /^(?:yes|true|on)$/i.test(text);
    case `${YAML_TAG}int`:
      return integerOf(text, at);
    case `${YAML_TAG}float`:
      return floatOf(text, at);
    case `${YAML_TAG}timestamp`:
      return timestampOf(text, at);
    case `${YAML_TAG}binary`:
      return binaryOf(text, at);
    default:
      return badTag(tag, at);
  }
}

function binaryOf(text: string, at: number): string {
  try {
    return new TextDecoder().decode(Uint8Array.from(atob(text.replace(/\s+/g, '')), (char) => char.charCodeAt(0)));
  } catch {
    throw new ReadingError('bad-syntax', 'the value of !!binary is not base64', at);
  }
}
