import type { Place, Problem } from '../problem.js';
import type { Raw } from './raw.js';
import { compareCodePoints, ReadingError } from './text.js';

/** One value given to a variable somewhere. */
export interface Assignment {
  readonly raw: Raw;
  readonly place: Place;
}

/** Variables of one place in the order of precedence: of one name the last assignment wins. */
export type Assignments = Map<string, Assignment[]>;

/** Adds a value; earlier ones of the same name stay below it. */
export function assign(variables: Assignments, name: string, assignment: Assignment): void {
  const known = variables.get(name);
  if (known === undefined) variables.set(name, [assignment]);
  else known.push(assignment);
}

export interface HostNode {
  readonly name: string;
  readonly place: Place;
  readonly variables: Assignments;
  /** The groups that list it directly, in that order. */
  readonly groups: Set<GroupNode>;
}

export interface GroupNode {
  readonly name: string;
  /** Where it is first named; null for `all` and `ungrouped` until they are. */
  place: Place | null;
  readonly hosts: Map<HostNode, Place>;
  readonly children: Map<GroupNode, Place>;
  readonly parents: Set<GroupNode>;
  readonly variables: Assignments;
  /** `ansible_group_priority` of the inventory itself: in `group_vars/` Ansible takes it for a common variable. */
  priority: number;
  /** The longest way from `all`; set by `settle`. */
  depth: number;
}

const MAX_GROUP_NESTING = 64;
const MAX_ENTRIES = 500_000;

/**
 * Hosts and groups as inventory files build them up. It keeps Ansible's orders: hosts and children of a group as they
 * were first listed, and of all of a group's hosts its own first, then level by level those of its children.
 */
export class GroupGraph {
  readonly groups = new Map<string, GroupNode>();
  readonly hosts = new Map<string, HostNode>();
  readonly all: GroupNode;
  readonly ungrouped: GroupNode;
  #spent = 0;

  constructor() {
    this.all = this.addGroup('all', null);
    this.ungrouped = this.addGroup('ungrouped', null);
    this.addChild(this.all, this.ungrouped, { file: null, line: null });
  }

  /**
   * Counts entries, because aliases and ranges make many of few bytes. Throws a ReadingError (`too-big`) beyond what
   * 20,000 hosts need.
   */
  spend(entries: number, at: number): void {
    this.#spent += entries;
    if (this.#spent <= MAX_ENTRIES) return;
    const most = MAX_ENTRIES.toLocaleString('en');
    throw new ReadingError('too-big', `the inventory has more than ${most} entries for hosts and groups; split it`, at);
  }

  addGroup(name: string, place: Place | null): GroupNode {
    const known = this.groups.get(name);
    if (known !== undefined) {
      known.place ??= place;
      return known;
    }
    const group: GroupNode = {
      name,
      place,
      hosts: new Map(),
      children: new Map(),
      parents: new Set(),
      variables: new Map(),
      priority: 1,
      depth: 0,
    };
    this.groups.set(name, group);
    return group;
  }

  addHost(name: string, group: GroupNode, place: Place): HostNode {
    let host = this.hosts.get(name);
    if (host === undefined) {
      host = { name, place, variables: new Map(), groups: new Set() };
      this.hosts.set(name, host);
    }
    if (!group.hosts.has(host)) {
      group.hosts.set(host, place);
      host.groups.add(group);
    }
    return host;
  }

  addChild(group: GroupNode, child: GroupNode, place: Place): void {
    if (group.children.has(child)) return;
    group.children.set(child, place);
    child.parents.add(group);
  }

  /**
   * What Ansible does when all files are read: every group ends below `all`, every host in a group, and depths are
   * known. Returns the problems: `group-loop` (the link that closes a loop is left out), `too-big`, a host and a group
   * of one name.
   */
  settle(): Problem[] {
    const problems = this.#cutLoops();
    for (const group of this.groups.values()) {
      if (group !== this.all && group.parents.size === 0) this.addChild(this.all, group, group.place ?? NOWHERE);
    }
    for (const parent of this.ungrouped.parents) {
      if (parent === this.all) continue;
      problems.push({
        code: 'bad-structure',
        message: `the group ungrouped is a child of ${parent.name}: Ansible then takes its hosts out of both; use a group of another name`,
        hosts: [],
        ...(parent.children.get(this.ungrouped) ?? NOWHERE),
      });
    }
    for (const host of this.hosts.values()) {
      if (this.groups.has(host.name)) {
        problems.push({
          code: 'bad-host-name',
          message: `the host ${host.name} has the name of a group; Ansible mixes up their variables, so rename one`,
          hosts: [host.name],
          ...host.place,
        });
      }
      const grouped = [...host.groups].some((group) => group !== this.all && group !== this.ungrouped);
      if (grouped) {
        this.ungrouped.hosts.delete(host);
        host.groups.delete(this.ungrouped);
      } else if (!host.groups.has(this.ungrouped)) {
        this.ungrouped.hosts.set(host, host.place);
        host.groups.add(this.ungrouped);
      }
    }
    this.#setDepths();
    for (const group of this.groups.values()) {
      if (group.depth <= MAX_GROUP_NESTING) continue;
      const message = `the group ${group.name} is nested deeper than ${MAX_GROUP_NESTING} levels; flatten the groups`;
      problems.push({ code: 'too-big', message, hosts: [], ...(group.place ?? NOWHERE) });
      break;
    }
    return problems;
  }

  /** Takes out every link that closes a loop, in the order of the file. */
  #cutLoops(): Problem[] {
    const problems: Problem[] = [];
    const done = new Set<GroupNode>();
    const open = new Set<GroupNode>();
    for (const root of this.groups.values()) {
      if (done.has(root)) continue;
      const stack = [{ group: root, children: root.children[Symbol.iterator]() }];
      open.add(root);
      while (stack.length > 0) {
        const top = stack[stack.length - 1] as (typeof stack)[number];
        const next = top.children.next();
        if (next.done) {
          open.delete(top.group);
          done.add(top.group);
          stack.pop();
          continue;
        }
        const [child, place] = next.value;
        if (open.has(child)) {
          top.group.children.delete(child);
          child.parents.delete(top.group);
          const message =
            child === top.group
              ? `the group ${child.name} is its own child; remove it from its children`
              : `the group ${child.name} is a child of ${top.group.name}, which is below ${child.name} itself; remove one link`;
          problems.push({ code: 'group-loop', message, hosts: [], ...place });
        } else if (!done.has(child)) {
          open.add(child);
          stack.push({ group: child, children: child.children[Symbol.iterator]() });
        }
      }
    }
    return problems;
  }

  /** Longest ways from `all`, one pass in topological order. */
  #setDepths(): void {
    const waiting = new Map<GroupNode, number>();
    const ready: GroupNode[] = [];
    for (const group of this.groups.values()) {
      waiting.set(group, group.parents.size);
      if (group.parents.size === 0) ready.push(group);
    }
    for (let group = ready.pop(); group !== undefined; group = ready.pop()) {
      for (const child of group.children.keys()) {
        child.depth = Math.max(child.depth, group.depth + 1);
        const left = (waiting.get(child) as number) - 1;
        waiting.set(child, left);
        if (left === 0) ready.push(child);
      }
    }
  }
}

export const NOWHERE: Place = { file: null, line: null };

/** Every host of a group and its descendants in Ansible's order, with where it is first listed. */
export function hostsOf(group: GroupNode): Map<HostNode, Place> {
  const hosts = new Map<HostNode, Place>();
  for (const level of levelsOf(group)) {
    for (const member of level) for (const [host, place] of member.hosts) if (!hosts.has(host)) hosts.set(host, place);
  }
  return hosts;
}

/** The group, then its children, then theirs: Ansible walks level by level, and counts a group where it is met first. */
function levelsOf(group: GroupNode): GroupNode[][] {
  const levels: GroupNode[][] = [[group]];
  const seen = new Set([group]);
  for (;;) {
    const next: GroupNode[] = [];
    for (const member of levels[levels.length - 1] as GroupNode[]) {
      for (const child of member.children.keys()) {
        if (seen.has(child)) continue;
        seen.add(child);
        next.push(child);
      }
    }
    if (next.length === 0) return levels;
    levels.push(next);
  }
}

/**
 * Whether Ansible leaves the order of the group's hosts to chance: below the second level it walks the groups of a
 * level in no fixed order, so two of them that bring in hosts of their own may change places from run to run.
 */
export function orderIsOpen(group: GroupNode): boolean {
  const levels = levelsOf(group);
  const listed = new Set<HostNode>();
  for (const [depth, level] of levels.entries()) {
    if (depth >= 2) {
      const above = new Set(levels[depth - 1]);
      const sources = new Set<GroupNode>();
      let bringing = 0;
      for (const member of level) {
        if (![...member.hosts.keys()].some((host) => !listed.has(host))) continue;
        bringing++;
        for (const parent of member.parents) if (above.has(parent)) sources.add(parent);
      }
      if (bringing > 1 && sources.size > 1) return true;
    }
    for (const member of level) for (const host of member.hosts.keys()) listed.add(host);
  }
  return false;
}

/** The groups whose variables a host of these groups gets, weakest first; `all` is not among them. */
export function groupChain(groups: Iterable<GroupNode>): GroupNode[] {
  const chain = new Set<GroupNode>();
  const open = [...groups];
  for (let group = open.pop(); group !== undefined; group = open.pop()) {
    if (chain.has(group)) continue;
    chain.add(group);
    open.push(...group.parents);
  }
  return [...chain]
    .filter((group) => group.name !== 'all')
    .sort((a, b) => a.depth - b.depth || a.priority - b.priority || compareCodePoints(a.name, b.name));
}
