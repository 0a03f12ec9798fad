import type { Problem } from '../problem.js';
import type { FileReader } from './file-reader.js';
import { type GroupGraph, type GroupNode, groupChain, type HostNode } from './group-graph.js';
import type { InventoryHost, Overridden, Variable } from './inventory.js';
import { type Layer, type Stacked, type Stacks, stack } from './layers.js';
import { OverlayMap } from './overlay-map.js';
import { toValue } from './raw.js';
import { type Sources, varsFiles } from './sources.js';

/** What hosts with the same groups share. */
interface Shared {
  readonly stacks: Stacks;
  readonly variables: ReadonlyMap<string, Variable>;
}

/**
 * The variables of hosts by Ansible's default precedence, weakest first: `all` and then the groups of the inventory
 * itself, group_vars/all of inventory and playbook, group_vars of the other groups of inventory and then playbook, the
 * host's own of the inventory, host_vars of inventory and playbook.
 */
export class HostVariables {
  readonly #graph: GroupGraph;
  readonly #sources: Sources;
  readonly #reader: FileReader;
  readonly #shared = new Map<string, Shared>();
  readonly #numbers = new Map<GroupNode, number>();
  /** Of the inventory and, stronger, of the playbook. */
  readonly #folders: readonly string[];

  constructor(graph: GroupGraph, sources: Sources, reader: FileReader) {
    this.#graph = graph;
    this.#sources = sources;
    this.#reader = reader;
    const { inventoryFolder, playbookFolder } = sources;
    const apart = playbookFolder !== null && playbookFolder !== inventoryFolder;
    this.#folders = apart ? [inventoryFolder, playbookFolder] : [inventoryFolder];
    for (const group of graph.groups.values()) this.#numbers.set(group, this.#numbers.size);
  }

  hostOf(host: HostNode): InventoryHost {
    const shared = this.#sharedBy(host);
    const own = stack(shared.stacks, [
      { source: `host ${host.name}`, variables: host.variables },
      ...this.#files('host_vars', host.name),
    ]);
    const ownVariables = new Map<string, Variable>();
    const failures = new Map<string, Problem>();
    for (const [name, stacked] of own) ownVariables.set(name, variableOf(name, stacked));
    const variables = own.size === 0 ? shared.variables : new OverlayMap(shared.variables, ownVariables, new Set());
    return { name: host.name, variables, failures };
  }

  #sharedBy(host: HostNode): Shared {
    const key = [...host.groups]
      .map((group) => this.#numbers.get(group) as number)
      .sort((a, b) => a - b)
      .join(' ');
    const known = this.#shared.get(key);
    if (known !== undefined) return known;
    const all = this.#graph.all;
    const chain = groupChain(host.groups);
    const inline = [all, ...chain].map(
      (group): Layer => ({ source: `group ${group.name}`, variables: group.variables }),
    );
    const folders = this.#folders;
    const ofAll = folders.flatMap((folder) => this.#filesIn(folder, 'group_vars', 'all'));
    const ofGroups = folders.flatMap((folder) =>
      chain.flatMap((group) => this.#filesIn(folder, 'group_vars', group.name)),
    );
    const stacks = stack(new Map(), [...inline, ...ofAll, ...ofGroups]);
    const variables = new Map<string, Variable>();
    for (const [name, stacked] of stacks) variables.set(name, variableOf(name, stacked));
    const shared = { stacks, variables };
    this.#shared.set(key, shared);
    return shared;
  }

  #files(kind: 'group_vars' | 'host_vars', name: string): Layer[] {
    return this.#folders.flatMap((folder) => this.#filesIn(folder, kind, name));
  }

  #filesIn(folder: string, kind: 'group_vars' | 'host_vars', name: string): Layer[] {
    const { files, problems } = varsFiles(this.#sources.tree, folder, kind, name);
    if (problems.length > 0) this.#reader.addProblems(problems);
    return files.map((file) => ({
      source: file.path,
      variables: this.#reader.variables(file),
      fromHostFile: kind === 'host_vars',
    }));
  }
}

const NONE: readonly Overridden[] = [];

function variableOf(name: string, stacked: Stacked): Variable {
  const { assignment, source, below } = stacked;
  return { name, value: toValue(assignment.raw), source, overrides: overridesOf(below), ...assignment.place };
}

function overridesOf(top: Stacked | null): readonly Overridden[] {
  if (top === null) return NONE;
  const overrides: Overridden[] = [];
  for (let at: Stacked | null = top; at !== null; at = at.below) {
    overrides.push({ value: toValue(at.assignment.raw), source: at.source, ...at.assignment.place });
  }
  return overrides;
}
