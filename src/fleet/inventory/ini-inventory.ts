import { assign } from './group-graph.js';
import { checkGroupName, expandHostPattern } from './host-patterns.js';
import { OddLiteral, pythonLiteral } from './python-literal.js';
import type { Raw } from './raw.js';
import { shellWords, WordsError } from './shell-words.js';
import { ReadingError } from './text.js';
import { addHosts, type FileContext, MAX_HOSTS, priorityOf } from './yaml-inventory.js';

const SECTION = /^\[([^:\]\s]+)(?::([\p{L}\p{N}_]+))?\]\s*(?:#.*)?$/u;
const GROUP_NAME = /^([^:\]\s]+)\s*(?:#.*)?$/u;
/** What ends a line for Python's `splitlines`. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they end lines in Python
const LINE_END = /\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/g;
/** What Python's `strip` takes away. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are white space in Python
const SPACE = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/;

type State = 'hosts' | 'children' | 'vars';

/** A group that a section named before the group itself was declared. */
interface Pending {
  readonly state: 'children' | 'vars';
  readonly at: number;
  readonly parents: string[];
}

/** Adds an INI inventory to the graph as Ansible's `ini` plugin does, line by line. */
export function readIniInventory(text: string, file: FileContext): void {
  new IniInventory(file).read(text);
}

class IniInventory {
  readonly #file: FileContext;
  readonly #pending = new Map<string, Pending>();
  #group = 'ungrouped';
  #state: State | null = 'hosts';

  constructor(file: FileContext) {
    this.#file = file;
  }

  read(text: string): void {
    if (text.startsWith('\ufeff')) {
      throw new ReadingError('bad-syntax', 'an INI inventory cannot begin with a byte order mark; save it without', 0);
    }
    let start = 0;
    for (const { index, 0: end } of text.matchAll(LINE_END)) {
      this.#attempt(text.slice(start, index), start);
      start = index + end.length;
    }
    this.#attempt(text.slice(start), start);
    for (const [name, { state, at, parents }] of this.#pending) {
      const message =
        state === 'vars'
          ? `[${name}:vars] gives variables to the group ${name}, which nothing declares; add [${name}] or correct the name`
          : `[${parents[parents.length - 1]}:children] names the group ${name}, which nothing declares; add [${name}] or correct the name`;
      this.#file.report(new ReadingError('undefined-group', message, at));
    }
  }

  #attempt(line: string, at: number): void {
    try {
      this.#line(strip(line), at);
    } catch (error) {
      if (!(error instanceof ReadingError) || error.code === 'too-big') throw error;
      this.#file.report(error);
    }
  }

  #line(line: string, at: number): void {
    if (line === '' || line.startsWith('#') || line.startsWith(';')) return;
    const section = SECTION.exec(line);
    if (section !== null) this.#section(section[1] as string, section[2] ?? 'hosts', at);
    else if (line.startsWith('[') && line.endsWith(']')) {
      this.#state = null;
      throw new ReadingError(
        'bad-syntax',
        `${line} is no section; write [group], [group:children] or [group:vars] without spaces`,
        at,
      );
    } else if (this.#state === 'hosts') this.#host(line, at);
    else if (this.#state === 'vars') this.#variable(line, at);
    else if (this.#state === 'children') this.#child(line, at);
  }

  #section(name: string, state: string, at: number): void {
    // Lines below a bad header belong to no section, so they are passed over instead of being misread.
    this.#state = null;
    checkGroupName(name, at);
    this.#file.graph.spend(1, at);
    if (state !== 'hosts' && state !== 'children' && state !== 'vars') {
      throw new ReadingError(
        'bad-structure',
        `[${name}:${state}] is no section; write [${name}], [${name}:children] or [${name}:vars]`,
        at,
      );
    }
    const { graph } = this.#file;
    const isNew = !graph.groups.has(name);
    if (isNew && state === 'vars' && !this.#pending.has(name)) {
      this.#pending.set(name, { state: 'vars', at, parents: [] });
    }
    graph.addGroup(name, this.#file.placeOf(at));
    const pending = this.#pending.get(name);
    if (pending !== undefined && state !== 'vars') {
      if (pending.state === 'children') this.#link(name, at);
      else this.#pending.delete(name);
    }
    this.#group = name;
    this.#state = state;
  }

  /** Links a group that is declared now to the parents that named it before. */
  #link(name: string, at: number): void {
    const pending = this.#pending.get(name);
    if (pending === undefined) return;
    this.#pending.delete(name);
    for (const parent of pending.parents) {
      const { graph } = this.#file;
      graph.addChild(graph.addGroup(parent, null), graph.addGroup(name, null), this.#file.placeOf(pending.at));
      if (this.#pending.get(parent)?.state === 'children') this.#link(parent, at);
    }
  }

  #child(line: string, at: number): void {
    const name = GROUP_NAME.exec(line)?.[1];
    if (name === undefined) {
      throw new ReadingError('bad-structure', `${JSON.stringify(line)} is no group name; write one group a line`, at);
    }
    checkGroupName(name, at);
    const { graph } = this.#file;
    const child = graph.groups.get(name);
    if (child !== undefined) {
      graph.addChild(graph.addGroup(this.#group, null), child, this.#file.placeOf(at));
      return;
    }
    const pending = this.#pending.get(name);
    if (pending === undefined) this.#pending.set(name, { state: 'children', at, parents: [this.#group] });
    else pending.parents.push(this.#group);
  }

  #variable(line: string, at: number): void {
    this.#file.graph.spend(1, at);
    const equals = line.indexOf('=');
    if (equals === -1) {
      throw new ReadingError('bad-syntax', `${JSON.stringify(line)} is no variable; write name=value`, at);
    }
    const name = strip(line.slice(0, equals));
    const raw = literalOrText(strip(line.slice(equals + 1)), at);
    const group = this.#file.graph.addGroup(this.#group, null);
    if (name === 'ansible_group_priority') group.priority = priorityOf(raw, at);
    else assign(group.variables, name, { raw, place: this.#file.placeOf(at) });
  }

  #host(line: string, at: number): void {
    const [pattern, ...rest] = this.#words(line, at);
    if (pattern === undefined) throw new ReadingError('bad-syntax', `${JSON.stringify(line)} names no host`, at);
    const { names, port } = expandHostPattern(pattern, MAX_HOSTS, at);
    if (pattern.endsWith(':') && port === null) {
      throw new ReadingError(
        'bad-host-name',
        `the host ${JSON.stringify(pattern)} ends with a colon: in an INI inventory write the name alone, or name:port`,
        at,
      );
    }
    const variables = new Map<string, Raw>();
    for (const word of rest) {
      const equals = word.indexOf('=');
      if (equals === -1) {
        throw new ReadingError(
          'bad-syntax',
          `${JSON.stringify(word)} is no variable of the host ${pattern}; write name=value, and quotes around a value with spaces`,
          at,
        );
      }
      variables.set(word.slice(0, equals), literalOrText(word.slice(equals + 1), at));
    }
    const place = this.#file.placeOf(at);
    const assignments = [...variables].map(([name, raw]) => [name, { raw, place }] as const);
    addHosts(this.#file, names, port, this.#file.graph.addGroup(this.#group, null), place, at, assignments);
  }

  #words(line: string, at: number): string[] {
    try {
      return shellWords(line);
    } catch (error) {
      if (error instanceof WordsError)
        throw new ReadingError('bad-syntax', `this line ${error.message}; correct it`, at);
      throw error;
    }
  }
}

/** A value as Ansible takes it from INI: a Python literal where it is one, else the text. */
function literalOrText(text: string, at: number): Raw {
  try {
    const value = pythonLiteral(text);
    // None is a value too.
    return value === undefined ? text : value;
  } catch (error) {
    if (!(error instanceof OddLiteral)) throw error;
    throw new ReadingError('bad-syntax', `${JSON.stringify(text)} ${error.message} in Python; put it in quotes`, at);
  }
}

function strip(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && SPACE.test(text.charAt(start))) start++;
  while (end > start && SPACE.test(text.charAt(end - 1))) end--;
  return text.slice(start, end);
}
