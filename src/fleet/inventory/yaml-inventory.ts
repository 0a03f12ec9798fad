import type { Place } from '../problem.js';
import { assign, type GroupGraph, type GroupNode } from './group-graph.js';
import { checkGroupName, expandHostPattern } from './host-patterns.js';
import { isMapping, type Key, PyFloat, type Raw, typeWord } from './raw.js';
import { ReadingError } from './text.js';
import type { MappingNode, Node } from './yaml-parser.js';
import { type Construction, type Pair, resolve, surpriseOf } from './yaml-values.js';

/** The bound of section 6 on the hosts of one inventory. */
export const MAX_HOSTS = 20_000;

/** What the readers of the formats need of the file at hand. */
export interface FileContext {
  readonly graph: GroupGraph;
  placeOf(at: number): Place;
  /** Whether the variable decides something. */
  needed(variable: string): boolean;
  /** Notes something that Ansible takes but that surprises. */
  warn(code: string, message: string, at: number): void;
  /** Notes what is wrong; reading goes on behind it. */
  report(error: ReadingError): void;
}

/**
 * Adds a YAML (or JSON) inventory to the graph in the order in which Ansible does: of a group its variables, children
 * and hosts in the order of the file, of a child everything before it is linked to its parent.
 */
export function readYamlInventory(root: MappingNode, construction: Construction, file: FileContext): void {
  new YamlInventory(construction, file).read(root);
}

class YamlInventory {
  readonly #values: Construction;
  readonly #file: FileContext;

  constructor(construction: Construction, file: FileContext) {
    this.#values = construction;
    this.#file = file;
  }

  read(root: MappingNode): void {
    const pairs = this.#attempt(() => this.#values.pairs(root)) ?? [];
    const plugin = pairs.find((pair) => pair.key === 'plugin');
    if (plugin !== undefined && truthy(this.#values.value(plugin.valueNode))) {
      throw new ReadingError(
        'bad-structure',
        'the file is the configuration of an inventory plugin, which fleet-role never runs; write the hosts out',
        plugin.keyNode.at,
      );
    }
    for (const pair of pairs) this.#group(pair);
  }

  /** The result, or null after the error was reported: one bad part does not hide the next. */
  #attempt<T>(read: () => T): T | null {
    try {
      return read();
    } catch (error) {
      if (!(error instanceof ReadingError) || error.code === 'too-big') throw error;
      this.#file.report(error);
      return null;
    }
  }

  #wrong(message: string, at: number): void {
    this.#file.report(new ReadingError('bad-structure', message, at));
  }

  #group({ key, keyNode, valueNode }: Pair): GroupNode | null {
    if (typeof key !== 'string' || key === '') {
      this.#wrong(`a group is named by a text, and this key is ${keyWord(key)}; put the name in quotes`, keyNode.at);
      return null;
    }
    if (this.#attempt(() => checkGroupName(key, keyNode.at) ?? true) === null) return null;
    this.#file.graph.spend(1, keyNode.at);
    const group = this.#file.graph.addGroup(key, this.#file.placeOf(keyNode.at));
    const node = resolve(valueNode);
    if (node.kind !== 'mapping') {
      const value = this.#attempt(() => this.#values.value(node));
      if (value !== null) {
        this.#wrong(`the group ${key} is ${typeWord(value)}; a group holds hosts:, children: or vars:`, keyNode.at);
      }
      return group;
    }
    for (const section of this.#attempt(() => this.#values.pairs(node)) ?? []) this.#section(group, section);
    return group;
  }

  #section(group: GroupNode, { key, keyNode, valueNode }: Pair): void {
    if (key !== 'vars' && key !== 'children' && key !== 'hosts') {
      const name = typeof key === 'string' ? key : String(key);
      this.#wrong(
        `the group ${group.name} has the key ${JSON.stringify(name)}, which Ansible ignores; a group holds hosts:, children: or vars:`,
        keyNode.at,
      );
      return;
    }
    const pairs = this.#attempt(() => this.#sectionPairs(group, key, valueNode));
    for (const pair of pairs ?? []) {
      if (key === 'vars') this.#groupVariable(group, pair);
      else if (key === 'children') this.#child(group, pair);
      else this.#attempt(() => this.#host(group, pair));
    }
  }

  /** A lone text is one name without variables, as Ansible takes it. */
  #sectionPairs(group: GroupNode, key: string, valueNode: Node): readonly Pair[] {
    const node = resolve(valueNode);
    if (node.kind === 'mapping') return this.#values.pairs(node);
    const value = this.#values.value(node);
    if (value === null) return [];
    if (typeof value === 'string' && key !== 'vars') {
      const nothing: Node = { kind: 'scalar', at: node.at, tag: null, plain: true, text: '' };
      return [{ key: value, keyNode: node, valueNode: nothing }];
    }
    const example = key === 'vars' ? '`name: value`' : '`name:`';
    throw new ReadingError(
      'bad-structure',
      `${key} of the group ${group.name} is ${typeWord(value)}; write ${example} on a line for each`,
      node.at,
    );
  }

  #child(group: GroupNode, pair: Pair): void {
    const child = this.#group(pair);
    if (child !== null) this.#file.graph.addChild(group, child, this.#file.placeOf(pair.keyNode.at));
  }

  #groupVariable(group: GroupNode, { key, keyNode, valueNode }: Pair): void {
    this.#attempt(() => {
      this.#file.graph.spend(1, keyNode.at);
      const raw = this.#values.value(valueNode);
      if (key === 'ansible_group_priority') {
        group.priority = priorityOf(raw, valueNode.at);
        return;
      }
      const name = variableName(key, keyNode.at, this.#file);
      if (name === null) return;
      assign(group.variables, name, { raw, place: this.#file.placeOf(keyNode.at) });
      this.#surprise(name, valueNode);
    });
  }

  #surprise(name: string, node: Node): void {
    const message = this.#file.needed(name) ? surpriseOf(name, node) : null;
    if (message !== null) this.#file.warn('yaml-1.1', message, node.at);
  }

  #host(group: GroupNode, { key, keyNode, valueNode }: Pair): void {
    if (typeof key !== 'string') {
      throw new ReadingError(
        'bad-host-name',
        `a host is named by a text, and this key is ${keyWord(key)}; put the name in quotes`,
        keyNode.at,
      );
    }
    const { names, port } = expandHostPattern(key, MAX_HOSTS, keyNode.at);
    const node = resolve(valueNode);
    const place = this.#file.placeOf(keyNode.at);
    const variables: [string, { raw: Raw; place: Place }][] = [];
    if (node.kind === 'mapping') {
      for (const pair of this.#values.pairs(node)) {
        const name = variableName(pair.key, pair.keyNode.at, this.#file);
        const variable = { raw: this.#values.value(pair.valueNode), place: this.#file.placeOf(pair.keyNode.at) };
        if (name === null) continue;
        variables.push([name, variable]);
        this.#surprise(name, pair.valueNode);
      }
    } else {
      const value = this.#values.value(node);
      if (truthy(value)) {
        throw new ReadingError(
          'bad-structure',
          `the host ${key} is ${typeWord(value)}; its variables are \`name: value\` lines below it`,
          keyNode.at,
        );
      }
    }
    addHosts(this.#file, names, port, group, place, keyNode.at, variables);
  }
}

/** Adds the hosts of one line to a group; a port counts only where the host is new, as in Ansible. */
export function addHosts(
  file: FileContext,
  names: readonly string[],
  port: number | null,
  group: GroupNode,
  place: Place,
  at: number,
  variables: readonly (readonly [string, { raw: Raw; place: Place }])[],
): void {
  const { graph } = file;
  graph.spend(names.length * (1 + variables.length), at);
  for (const name of names) {
    const isNew = !graph.hosts.has(name);
    if (isNew && graph.hosts.size >= MAX_HOSTS) {
      throw new ReadingError(
        'too-big',
        `the inventory holds more than ${MAX_HOSTS.toLocaleString('en')} hosts; split the inventory`,
        at,
      );
    }
    const host = graph.addHost(name, group, place);
    if (isNew && port !== null && port !== 0) assign(host.variables, 'ansible_port', { raw: port, place });
    for (const variable of variables) assign(host.variables, variable[0], variable[1]);
  }
}

/** The name of a variable, or null with a warning for a key that is no text: Ansible cannot use it by any name. */
export function variableName(key: Key, at: number, file: Pick<FileContext, 'warn'>): string | null {
  if (typeof key === 'string') return key;
  file.warn(
    'not-a-name',
    `the key here is ${keyWord(key)} in YAML 1.1, so no variable has this name; put it in quotes`,
    at,
  );
  return null;
}

/** The number of `ansible_group_priority`, as Python's `int()` takes it. */
export function priorityOf(raw: Raw, at: number): number {
  if (typeof raw === 'number') return raw;
  if (typeof raw === 'boolean') return Number(raw);
  if (raw instanceof PyFloat) return Math.trunc(raw.number);
  if (typeof raw === 'string' && /^\s*[-+]?[0-9]+(?:_[0-9]+)*\s*$/.test(raw)) return Number(raw.replaceAll('_', ''));
  throw new ReadingError('bad-structure', 'ansible_group_priority is no whole number; write one', at);
}

function keyWord(key: Key): string {
  return key === '' ? 'empty' : typeWord(key);
}

/** Python's truth of a value. */
export function truthy(raw: Raw): boolean {
  if (isMapping(raw)) return raw.size > 0;
  if (Array.isArray(raw)) return raw.length > 0;
  if (raw instanceof PyFloat) return raw.number !== 0;
  return Boolean(raw);
}
