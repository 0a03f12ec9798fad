import type { Problem } from '../problem.js';
import type { FileReader } from './file-reader.js';
import { type GroupGraph, type GroupNode, groupChain, type HostNode, hostsOf, orderIsOpen } from './group-graph.js';
import { isAddress } from './host-patterns.js';
import type { InventoryHost, Overridden, Variable } from './inventory.js';
import { type Layer, type Stacked, type Stacks, stack } from './layers.js';
import { OverlayMap } from './overlay-map.js';
import { isMapping, type Raw, toValue, Vaulted } from './raw.js';
import { type Sources, varsFiles } from './sources.js';
import { mayBeTemplate, Unresolved } from './template-parser.js';
import { Templates, type World } from './templates.js';
import { compareCodePoints, ReadingError } from './text.js';

const MAX_ENTRIES = 500_000;

/** What hosts with the same groups share. */
interface Shared {
  readonly stacks: Stacks;
  readonly variables: ReadonlyMap<string, Variable>;
  /** The needed variables among them that must be resolved for each host. */
  readonly open: readonly string[];
  readonly groupNames: readonly string[];
}

// Shared by all hosts without any.
const NO_FAILURES: ReadonlyMap<string, Problem> = new Map();
const NO_NAMES: ReadonlySet<string> = new Set();

interface HostStacks {
  readonly shared: Shared;
  readonly own: Stacks;
}

/**
 * The variables of hosts by Ansible's default precedence, weakest first: `all` and then the groups of the inventory
 * itself, group_vars/all of inventory and playbook, group_vars of the other groups of inventory and then playbook, the
 * host's own of the inventory, host_vars of inventory and playbook.
 */
export class HostVariables implements World {
  readonly #graph: GroupGraph;
  readonly #sources: Sources;
  readonly #reader: FileReader;
  readonly #needed: (variable: string) => boolean;
  readonly #shared = new Map<string, Shared>();
  /** The same for hosts of one group, most of all. */
  readonly #sharedByOne = new Map<GroupNode, Shared>();
  /** Of the hosts that templates ask for. */
  readonly #stacks = new Map<string, HostStacks>();
  readonly #numbers = new Map<GroupNode, number>();
  readonly #groupHosts = new Map<string, readonly string[] | 'open'>();
  readonly #templates = new Templates(this);
  #spent = 0;
  /** Of the inventory and, stronger, of the playbook. */
  readonly #folders: readonly string[];

  constructor(graph: GroupGraph, sources: Sources, reader: FileReader, needed: (variable: string) => boolean) {
    this.#graph = graph;
    this.#sources = sources;
    this.#reader = reader;
    this.#needed = needed;
    const { inventoryFolder, playbookFolder } = sources;
    const apart = playbookFolder !== null && playbookFolder !== inventoryFolder;
    this.#folders = apart ? [inventoryFolder, playbookFolder] : [inventoryFolder];
    for (const group of graph.groups.values()) this.#numbers.set(group, this.#numbers.size);
  }

  hostOf(host: HostNode): InventoryHost {
    const stacks = this.#stacksOf(host);
    const { shared, own } = stacks;
    const ownVariables = new Map<string, Variable>();
    let failures: Map<string, Problem> | null = null;
    const add = (name: string, stacked: Stacked): void => {
      try {
        ownVariables.set(name, variableOf(name, stacked, this.#resolved(host, stacks, name, stacked)));
      } catch (error) {
        failures ??= new Map();
        failures.set(name, failureOf(error, name, stacked, host));
      }
    };
    own.forEach((stacked, name) => {
      add(name, stacked);
    });
    for (const name of shared.open) if (!own.has(name)) add(name, shared.stacks.get(name) as Stacked);
    return { name: host.name, ...this.#overlaid(shared, ownVariables, failures) };
  }

  #overlaid(
    shared: Shared,
    own: ReadonlyMap<string, Variable>,
    failures: ReadonlyMap<string, Problem> | null,
  ): Pick<InventoryHost, 'variables' | 'failures'> {
    if (failures !== null) {
      return { variables: new OverlayMap(shared.variables, own, new Set(failures.keys())), failures };
    }
    const variables = own.size === 0 ? shared.variables : new OverlayMap(shared.variables, own, NO_NAMES);
    return { variables, failures: NO_FAILURES };
  }

  #resolved(host: HostNode, stacks: HostStacks, name: string, { assignment }: Stacked): Raw {
    const { raw } = assignment;
    if (!this.#needed(name) || !isOpen(raw)) return raw;
    this.#stacks.set(host.name, stacks);
    return this.#templates.resolve(host.name, raw);
  }

  variable(hostName: string, name: string): Raw | undefined {
    const host = this.#graph.hosts.get(hostName);
    if (host === undefined) return undefined;
    const { shared, own } = this.#keptStacksOf(host);
    const stacked = own.get(name) ?? shared.stacks.get(name);
    if (stacked?.fromHostFile !== true) {
      if (name === 'inventory_hostname') return hostName;
      if (name === 'inventory_hostname_short') {
        return isAddress(hostName) ? hostName : (hostName.split('.')[0] as string);
      }
      if (name === 'group_names') return shared.groupNames;
    }
    return stacked?.assignment.raw;
  }

  hasHost(host: string): boolean {
    return this.#graph.hosts.has(host);
  }

  group(name: string): readonly string[] | 'open' | undefined {
    const group = this.#graph.groups.get(name);
    if (group === undefined) return undefined;
    let hosts = this.#groupHosts.get(name);
    if (hosts === undefined) {
      hosts = orderIsOpen(group) ? 'open' : [...hostsOf(group).keys()].map((host) => host.name);
      this.#groupHosts.set(name, hosts);
    }
    return hosts;
  }

  decrypt(value: Vaulted): string {
    return this.#reader.decrypt(value);
  }

  #keptStacksOf(host: HostNode): HostStacks {
    let stacks = this.#stacks.get(host.name);
    if (stacks === undefined) {
      stacks = this.#stacksOf(host);
      this.#stacks.set(host.name, stacks);
    }
    return stacks;
  }

  #stacksOf(host: HostNode): HostStacks {
    const known = this.#stacks.get(host.name);
    if (known !== undefined) return known;
    const shared = this.#sharedBy(host);
    const inline: Layer = { source: `host ${host.name}`, variables: host.variables };
    const files = this.#folders.flatMap((folder) => this.#filesIn(folder, 'host_vars', host.name));
    return { shared, own: stack(shared.stacks, [inline, ...files]) };
  }

  #sharedBy(host: HostNode): Shared {
    const [only] = host.groups;
    const ofOne = host.groups.size === 1 && only !== undefined ? this.#sharedByOne.get(only) : undefined;
    if (ofOne !== undefined) return ofOne;
    const shared = this.#sharedByAll(host);
    if (host.groups.size === 1 && only !== undefined) this.#sharedByOne.set(only, shared);
    return shared;
  }

  #sharedByAll(host: HostNode): Shared {
    const key = [...host.groups]
      .map((group) => this.#numbers.get(group) as number)
      .sort((a, b) => a - b)
      .join(' ');
    const known = this.#shared.get(key);
    if (known !== undefined) return known;
    const chain = groupChain(host.groups);
    const inline = [this.#graph.all, ...chain].map(
      (group): Layer => ({ source: `group ${group.name}`, variables: group.variables }),
    );
    const ofAll = this.#folders.flatMap((folder) => this.#filesIn(folder, 'group_vars', 'all'));
    const ofGroups = this.#folders.flatMap((folder) =>
      chain.flatMap((group) => this.#filesIn(folder, 'group_vars', group.name)),
    );
    const layers = [...inline, ...ofAll, ...ofGroups];
    this.#spend(layers.reduce((sum, { variables }) => sum + 1 + variables.size, 0));
    const stacks = stack(new Map(), layers);
    const variables = new Map<string, Variable>();
    const open: string[] = [];
    for (const [name, stacked] of stacks) {
      variables.set(name, variableOf(name, stacked, stacked.assignment.raw));
      if (this.#needed(name) && isOpen(stacked.assignment.raw)) open.push(name);
    }
    const groupNames = chain.map((group) => group.name).sort(compareCodePoints);
    const shared = { stacks, variables, open, groupNames };
    this.#shared.set(key, shared);
    return shared;
  }

  /** Hosts of ever other groups could make much of few bytes. */
  #spend(entries: number): void {
    this.#spent += entries;
    if (this.#spent <= MAX_ENTRIES) return;
    const message =
      'The hosts are in so many different sets of groups that their variables do not fit; use fewer groups';
    throw new ReadingError('too-big', message, null);
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

/** Whether a value holds a template or an encrypted text. */
function isOpen(raw: Raw): boolean {
  if (typeof raw === 'string') return mayBeTemplate(raw);
  if (raw instanceof Vaulted) return true;
  if (isMapping(raw)) return [...raw.values()].some(isOpen);
  return Array.isArray(raw) && raw.some(isOpen);
}

const NONE: readonly Overridden[] = [];

function variableOf(name: string, { assignment, source, below }: Stacked, raw: Raw): Variable {
  return { name, value: toValue(raw), source, overrides: overridesOf(below), ...assignment.place };
}

function overridesOf(top: Stacked | null): readonly Overridden[] {
  if (top === null) return NONE;
  const overrides: Overridden[] = [];
  for (let at: Stacked | null = top; at !== null; at = at.below) {
    overrides.push({ value: toValue(at.assignment.raw), source: at.source, ...at.assignment.place });
  }
  return overrides;
}

/** Why a needed variable has no value. What is no user's mistake is thrown on. */
function failureOf(error: unknown, name: string, stacked: Stacked, host: HostNode): Problem {
  const { place } = stacked.assignment;
  if (error instanceof ReadingError)
    return { code: error.code, message: `${name} ${error.message}.`, hosts: [host.name], ...place };
  if (!(error instanceof Unresolved)) throw error;
  const message = `${name} of ${host.name} is a template that cannot be resolved, because it ${error.message}; write the value out, or use references, default, lower, upper, string, int and bool only.`;
  return { code: 'unresolved-template', message, hosts: [host.name], ...place };
}
