import type { Role } from './fleet.js';
import type { Inventory, InventoryGroup } from './inventory/inventory.js';
import type { Place, Problem, Warning } from './problem.js';

/** How an inventory names roles: by the order of one group's hosts, or by a group of servers and one of agents. */
export type LayoutKind = 'ordered' | 'groups';

/** What the inputs say of the layout; a null group is its default. */
export interface LayoutInputs {
  readonly layout: 'auto' | LayoutKind;
  readonly serverGroup: string | null;
  readonly agentGroup: string | null;
}

export const ORDERED: LayoutInputs = { layout: 'ordered', serverGroup: null, agentGroup: null };

/** The layout that an inventory is read in, and why, as a sentence for the log. */
export interface Layout {
  readonly kind: LayoutKind;
  readonly reason: string;
}

/** One host of a cluster, and the role that its group gives it (null: the topology rule gives one). */
export interface Member {
  readonly name: string;
  readonly place: Place;
  readonly group: { readonly name: string; readonly role: Role } | null;
}

/** The hosts of one cluster before anything is read of them. `members` is null when they cannot be told. */
export interface ClusterGroup {
  readonly name: string;
  readonly place: Place;
  readonly members: readonly Member[] | null;
  readonly problems: readonly Problem[];
  readonly warnings: readonly Warning[];
}

// The names in k3s-ansible today, and those that it and its relatives had before.
const SERVER_GROUPS = ['server', 'master'];
const AGENT_GROUPS = ['agent', 'node'];

/**
 * The layout of an inventory. `auto` goes by what is there: a group that `clusterGroups` names and that exists is an
 * ordered one; else a group of servers and one of agents are the layout of groups. Where neither is there the answer is
 * `ordered`, whose missing group is then the problem that is reported.
 */
export function chooseLayout(inventory: Inventory, clusterGroups: readonly string[], inputs: LayoutInputs): Layout {
  if (inputs.layout !== 'auto') return { kind: inputs.layout, reason: 'the input layout says so' };
  const named = clusterGroups.find((name) => inventory.groups.has(name));
  if (named !== undefined) return { kind: 'ordered', reason: `the inventory has the group ${named}` };
  const [server, agent] = [serverGroup(inventory, inputs), agentGroup(inventory, inputs)];
  const missing = `the inventory has no group ${clusterGroups.join(', ')}`;
  if (server === null || agent === null) {
    return { kind: 'ordered', reason: `${missing}, and no pair of a group of servers and one of agents either` };
  }
  if (clusterGroups.length > 1) {
    return { kind: 'ordered', reason: `${missing}, and the layout of groups is one cluster only` };
  }
  return { kind: 'groups', reason: `${missing}, and has ${server.name} and ${agent.name}` };
}

/** One cluster for each named group, its hosts in the group's order. A missing or empty group is a problem of it. */
export function orderedClusters(
  inventory: Inventory,
  clusterGroups: readonly string[],
  inputs: LayoutInputs,
): readonly ClusterGroup[] {
  return clusterGroups.map((name): ClusterGroup => {
    const group = inventory.groups.get(name);
    const place = group?.place ?? { file: inventory.path, line: null };
    const missing = (code: Problem['code'], message: string): ClusterGroup => {
      const sentence = `${message} To take a whole cluster out of fleet-role, turn its controller off instead.`;
      return { name, place, members: null, problems: [{ code, message: sentence, ...place, hosts: [] }], warnings: [] };
    };
    if (group === undefined) {
      return missing(
        'no-such-group',
        `The inventory has no group ${name}; add it, or name the group with the input cluster-groups.`,
      );
    }
    if (group.hosts.length === 0) return missing('no-hosts', `The group ${name} has no hosts; list them.`);
    const members = group.hosts.map((host) => ({ name: host, place: placeIn(group, host), group: null }));
    return {
      name,
      place,
      members,
      problems: [],
      warnings: [...openOrder(group), ...roleGroupsInside(inventory, group, inputs)],
    };
  });
}

/**
 * The one cluster of a group of servers and a group of agents: servers in their group's order, then the agents. Its
 * name is that of the nearest group that holds both, else the one that `clusterGroups` names first. Hosts of that group
 * in neither of the two are no nodes of it (`no-role-group`).
 */
export function groupedCluster(
  inventory: Inventory,
  clusterGroups: readonly string[],
  inputs: LayoutInputs,
): ClusterGroup {
  const servers = serverGroup(inventory, inputs);
  const agents = agentGroup(inventory, inputs);
  const problems: Problem[] = [];
  const noSuchGroup = (names: readonly string[], input: string): void => {
    const message = `The inventory has no group ${names.join(' or ')}; add it, or name the group with the input ${input}.`;
    problems.push({ code: 'no-such-group', message, file: inventory.path, line: null, hosts: [] });
  };
  if (servers === null) noSuchGroup(inputs.serverGroup === null ? SERVER_GROUPS : [inputs.serverGroup], 'server-group');
  if (agents === null && inputs.agentGroup !== null) noSuchGroup([inputs.agentGroup], 'agent-group');

  const { group, ambiguous } = holderOf(inventory, servers, agents, clusterGroups);
  if (ambiguous.length > 0) {
    const at = ambiguous[1]?.place ?? { file: inventory.path, line: null };
    const message = `${servers?.name} and ${agents?.name ?? 'its agents'} are in the groups ${ambiguous.map(({ name }) => name).join(' and ')} alike; name the one that is the cluster with the input cluster-groups.`;
    problems.push({ code: 'bad-structure', message, ...at, hosts: [] });
  }
  const name = group?.name ?? clusterGroups[0] ?? '';
  const place = group?.place ?? servers?.place ?? { file: inventory.path, line: null };
  if (servers !== null && servers.hosts.length === 0) {
    const message = `The group ${servers.name} has no hosts; list the cluster's servers there. To take a whole cluster out of fleet-role, turn its controller off instead.`;
    problems.push({ code: 'no-hosts', message, ...servers.place, hosts: [] });
  }
  if (servers === null || problems.length > 0) return { name, place, members: null, problems, warnings: [] };

  const isServer = new Set(servers.hosts);
  for (const host of agents?.hosts ?? []) {
    if (agents === null || !isServer.has(host)) continue;
    const message = `${host} is in ${servers.name} and in ${agents.name}; a host has one role: remove it from one of the two groups.`;
    problems.push({ code: 'bad-structure', message, ...placeIn(agents, host), hosts: [host] });
  }
  const member = (of: InventoryGroup, role: Role, host: string): Member => ({
    name: host,
    place: placeIn(of, host),
    group: { name: of.name, role },
  });
  const members = [
    ...servers.hosts.map((host) => member(servers, 'server', host)),
    ...(agents === null
      ? []
      : agents.hosts.filter((host) => !isServer.has(host)).map((host) => member(agents, 'agent', host))),
  ];
  return {
    name,
    place,
    members,
    problems,
    warnings: [...openOrder(servers), ...withoutRole(group, members, servers, agents)],
  };
}

function serverGroup(inventory: Inventory, inputs: LayoutInputs): InventoryGroup | null {
  return firstGroup(inventory, inputs.serverGroup === null ? SERVER_GROUPS : [inputs.serverGroup]);
}

function agentGroup(inventory: Inventory, inputs: LayoutInputs): InventoryGroup | null {
  return firstGroup(inventory, inputs.agentGroup === null ? AGENT_GROUPS : [inputs.agentGroup]);
}

function firstGroup(inventory: Inventory, names: readonly string[]): InventoryGroup | null {
  const found = names.find((name) => inventory.groups.has(name));
  return found === undefined ? null : (inventory.groups.get(found) ?? null);
}

interface Holder {
  readonly group: InventoryGroup | null;
  /** Groups that hold both and are equally near; none where one is the nearest, or is named by the inputs. */
  readonly ambiguous: readonly InventoryGroup[];
}

/** The nearest group above both: `all` holds every inventory's groups and is nobody's cluster. */
function holderOf(
  inventory: Inventory,
  servers: InventoryGroup | null,
  agents: InventoryGroup | null,
  clusterGroups: readonly string[],
): Holder {
  const ends = [servers, agents].filter((group) => group !== null);
  const named = inventory.groups.get(clusterGroups[0] ?? '') ?? null;
  if (ends.length === 0) return { group: named, ambiguous: [] };
  const heights = ends.map((group) => heightsAbove(inventory, group));
  let nearest = Number.POSITIVE_INFINITY;
  let found: InventoryGroup[] = [];
  for (const group of inventory.groups.values()) {
    if (group.name === 'all' || ends.includes(group)) continue;
    const height = Math.max(...heights.map((above) => above.get(group.name) ?? Number.POSITIVE_INFINITY));
    if (height > nearest || height === Number.POSITIVE_INFINITY) continue;
    if (height < nearest) found = [];
    nearest = height;
    found.push(group);
  }
  if (found.length <= 1) return { group: found[0] ?? named, ambiguous: [] };
  return named !== null && found.includes(named) ? { group: named, ambiguous: [] } : { group: named, ambiguous: found };
}

/** How many levels each group above this one lies above it, by name. */
function heightsAbove(inventory: Inventory, group: InventoryGroup): ReadonlyMap<string, number> {
  const parents = new Map<string, string[]>();
  for (const parent of inventory.groups.values()) {
    for (const child of parent.children) {
      const list = parents.get(child);
      if (list === undefined) parents.set(child, [parent.name]);
      else list.push(parent.name);
    }
  }
  const heights = new Map<string, number>();
  let level = [group.name];
  for (let height = 1; level.length > 0; height++) {
    const above = new Set(level.flatMap((name) => parents.get(name) ?? []));
    level = [...above].filter((name) => !heights.has(name));
    for (const name of level) heights.set(name, height);
  }
  return heights;
}

function withoutRole(
  group: InventoryGroup | null,
  members: readonly Member[],
  servers: InventoryGroup,
  agents: InventoryGroup | null,
): readonly Warning[] {
  const known = new Set(members.map(({ name }) => name));
  const others = (group?.hosts ?? []).filter((host) => !known.has(host));
  const [first] = others;
  if (group === null || first === undefined) return [];
  const message = `${others.length === 1 ? `${first} is` : `${others.length} hosts are`} in ${group.name} but ${agents === null ? `not in ${servers.name}` : `neither in ${servers.name} nor in ${agents.name}`}, and so no node of this cluster.`;
  return [{ code: 'no-role-group', message, ...placeIn(group, first), hosts: others }];
}

/** An ordered group that holds a group of servers and one of agents looks like the other layout. */
function roleGroupsInside(inventory: Inventory, group: InventoryGroup, inputs: LayoutInputs): readonly Warning[] {
  if (inputs.layout !== 'auto') return [];
  const [server, agent] = [serverGroup(inventory, inputs), agentGroup(inventory, inputs)];
  const holds = (inner: InventoryGroup | null): boolean =>
    inner !== null && heightsAbove(inventory, inner).has(group.name);
  if (!holds(server) || !holds(agent)) return [];
  const message = `${group.name} holds the groups ${server?.name} and ${agent?.name}, and is read as one ordered group: roles follow from the order of its hosts. Set the input layout to groups where these two groups are the roles, or to ordered to confirm this.`;
  return [{ code: 'layout', message, ...group.place, hosts: [] }];
}

/** The order of this group decides who is a server, or who bootstraps. */
function openOrder(group: InventoryGroup): readonly Warning[] {
  return group.orderWarning == null ? [] : [group.orderWarning];
}

function placeIn(group: InventoryGroup, host: string): Place {
  return group.places.get(host) ?? group.place;
}
