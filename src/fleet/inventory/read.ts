import type { Snapshot, SnapshotEntry } from '../../repository/snapshot.js';
import type { Place, Problem, Warning } from '../problem.js';
import { FileReader } from './file-reader.js';
import { GroupGraph, type GroupNode, hostsOf, NOWHERE, orderIsOpen } from './group-graph.js';
import { HostVariables } from './host-variables.js';
import type { Inventory, InventoryGroup, InventoryHost } from './inventory.js';
import { addInventoryFile } from './inventory-file.js';
import { ParseCache } from './parse-cache.js';
import { fileProblem, findSources, wantedFiles } from './sources.js';
import { ReadingError } from './text.js';

export interface ReadOptions {
  /** The inventory's path; null: the first of the default names of section 5. */
  readonly inventory: string | null;
  /** Where the playbooks lie, with `group_vars/` and `host_vars/` of their own; null: nowhere. */
  readonly playbookDir: string | null;
  /** Decrypts what is encrypted with Ansible Vault; null: such values stay opaque. */
  readonly vaultPassword: string | null;
  /** Variables whose templates and encrypted values must be resolved. */
  readonly needed: (variable: string) => boolean;
}

/**
 * The paths that `readInventory` may open in a commit with these entries: the inventory's files, and `group_vars/` and
 * `host_vars/` beside it and beside the playbook directory. Files beyond 16 MiB are not among them, and none is when
 * all together are beyond 64 MiB or 20,000 files; `readInventory` then says so.
 */
export function wantedEntries(
  entries: ReadonlyMap<string, SnapshotEntry>,
  options: Pick<ReadOptions, 'inventory' | 'playbookDir'>,
): readonly string[] {
  return wantedFiles(findSources(entries, options)).paths;
}

/**
 * The inventory of a commit as Ansible reads it: groups, the order of their hosts, and each host's variables by
 * Ansible's precedence, needed ones with their templates resolved.
 *
 * It never throws for anything that the repository holds: what is wrong is in `problems` with file and line, and then
 * the rest says only how far reading came. It throws an Error when `snapshot.blobs` lacks a wanted file.
 */
export function readInventory(snapshot: Snapshot, options: ReadOptions, cache = new ParseCache()): Inventory {
  const sources = findSources(snapshot.entries, options);
  const wanted = wantedFiles(sources);
  const problems: Problem[] = [...sources.problems];
  const warnings: Warning[] = [];
  if (wanted.problem !== null) {
    problems.push(wanted.problem);
    return { path: sources.path, hosts: new Map(), groups: new Map(), problems, warnings };
  }
  const reader = new FileReader(snapshot, cache, options, problems, warnings);
  const graph = new GroupGraph();
  for (const file of sources.files) addInventoryFile(file, reader, graph);
  reader.addProblems(graph.settle());
  if (problems.some((problem) => problem.code === 'too-big')) {
    return { path: sources.path, hosts: new Map(), groups: new Map(), problems, warnings };
  }
  const groups = new Map<string, InventoryGroup>();
  for (const group of graph.groups.values()) groups.set(group.name, new ReadGroup(group));
  const hosts = new Map<string, InventoryHost>();
  const variables = new HostVariables(graph, sources, reader, options.needed);
  try {
    for (const host of graph.hosts.values()) hosts.set(host.name, variables.hostOf(host));
  } catch (error) {
    if (!(error instanceof ReadingError)) throw error;
    problems.push(fileProblem('too-big', sources.path, `${error.message}.`));
    hosts.clear();
  }
  return { path: sources.path, hosts, groups, problems, warnings, secrets: reader.secrets };
}

/** A group whose hosts are listed when somebody asks: most groups are never asked. */
class ReadGroup implements InventoryGroup {
  readonly #group: GroupNode;
  #hosts: readonly string[] | null = null;
  #places: ReadonlyMap<string, Place> | null = null;

  constructor(group: GroupNode) {
    this.#group = group;
  }

  get name(): string {
    return this.#group.name;
  }

  get place(): Place {
    return this.#group.place ?? NOWHERE;
  }

  get children(): readonly string[] {
    return [...this.#group.children.keys()].map((child) => child.name);
  }

  get hosts(): readonly string[] {
    this.#hosts ??= [...this.places.keys()];
    return this.#hosts;
  }

  get places(): ReadonlyMap<string, Place> {
    this.#places ??= new Map([...hostsOf(this.#group)].map(([host, place]) => [host.name, place]));
    return this.#places;
  }

  get orderWarning(): Warning | null {
    if (!orderIsOpen(this.#group)) return null;
    return {
      code: 'open-order',
      message: `Ansible does not fix the order of the hosts of ${this.name}: groups below it hold groups with hosts of their own, whose order it leaves to chance. fleet-role takes the order of the file; list the hosts or these groups directly in ${this.name}.`,
      hosts: [],
      ...this.place,
    };
  }
}
