import { type DeclaredHost, declareHosts } from './declared-host.js';
import type { Cluster, Fleet, HostConnection } from './fleet.js';
import type { Inventory } from './inventory/inventory.js';
import { chooseLayout, groupedCluster, type LayoutInputs, ORDERED, orderedClusters } from './layout.js';
import type { Problem, Warning } from './problem.js';
import { declareCluster } from './topology.js';
import { isNeeded, PREFIX } from './variables.js';

export const DEFAULT_CLUSTER_GROUP = 'github_runner_cluster';

/**
 * What the inventory of one commit declares: in the ordered layout one cluster for each name in `groups`, in the layout
 * of groups one. A group that is missing or empty is a problem of that cluster, never "all hosts were removed".
 */
export function declareFleet(
  commit: string,
  inventory: Inventory,
  groups: readonly string[],
  inputs: LayoutInputs = ORDERED,
): Fleet {
  const layout = chooseLayout(inventory, groups, inputs);
  const found =
    layout.kind === 'ordered'
      ? orderedClusters(inventory, groups, inputs)
      : [groupedCluster(inventory, groups, inputs)];
  const declared = found.map((group) => ({
    group,
    hosts: declareHosts(inventory, group, layout.kind),
    // Where reading failed, a group that is not there is no second problem.
    problems:
      group.members === null && inventory.problems.length > 0
        ? inventory.problems
        : [...inventory.problems, ...group.problems],
  }));

  const shared = sharedHostProblems(declared.map(({ group, hosts }) => ({ name: group.name, hosts })));
  const clusters = declared.map(({ group, hosts, problems }): Cluster => {
    if (group.members === null) return unreadableCluster(group.name, problems);
    const cluster = declareCluster(group, hosts, [...problems, ...(shared.get(group.name) ?? [])]);
    return { ...cluster, warnings: [...inventory.warnings, ...group.warnings, ...unknownVariables(hosts)] };
  });
  return { commit, inventory: inventory.path, layout, clusters };
}

/**
 * Whether a head that `auto` reads in the layout of groups must be read in the ordered one: because its base was, and a
 * cluster's group that vanished is a problem, never another cluster.
 */
export function vanishedIntoGroups(head: Fleet, base: Fleet): boolean {
  return (
    head.layout.kind === 'groups' && base.layout.kind === 'ordered' && base.clusters.some((cluster) => cluster.readable)
  );
}

/** A cluster of which nothing is known but why it could not be read. */
export function unreadableCluster(name: string, problems: readonly Problem[]): Cluster {
  return {
    name,
    readable: false,
    valid: false,
    settings: null,
    controller: null,
    datastore: null,
    bootstrap: null,
    servers: [],
    problems,
    warnings: [],
    hosts: [],
  };
}

/** A variable with our prefix that nothing reads is a typo more often than not: `unknown-variable`, once a line. */
function unknownVariables(hosts: readonly DeclaredHost[]): readonly Warning[] {
  const warnings = new Map<string, Warning & { readonly hosts: string[] }>();
  for (const { name, reader } of hosts) {
    reader.host.variables.forEach((variable) => {
      if (isNeeded(variable.name, 'groups') || !variable.name.startsWith(PREFIX)) return;
      const { file, line } = variable;
      const key = JSON.stringify([variable.name, file, line]);
      const known = warnings.get(key);
      if (known !== undefined) {
        known.hosts.push(name);
        return;
      }
      const message = `${variable.name} is no variable of fleet-role and has no effect; correct its name, or remove it.`;
      warnings.set(key, { code: 'unknown-variable', message, file, line, hosts: [name] });
    });
  }
  return [...warnings.values()];
}

interface Entry {
  readonly name: string;
  readonly hosts: readonly DeclaredHost[];
}

interface Claimant {
  readonly host: DeclaredHost;
  readonly cluster: string;
}

/** `host-in-two-clusters` and `same-machine`, by cluster: what only the whole inventory shows. */
function sharedHostProblems(entries: readonly Entry[]): ReadonlyMap<string, readonly Problem[]> {
  const problems = new Map<string, Problem[]>();
  const add = (cluster: string, found: Problem): void => {
    const list = problems.get(cluster);
    if (list === undefined) problems.set(cluster, [found]);
    else list.push(found);
  };
  const clusterOf = new Map<string, string>();
  const claims = new Map<string, Claimant>();
  // Who claims what is asked only where two hosts are on one machine: nearly never.
  const alone = new Map<string, Claimant | null>();
  for (const entry of entries) {
    for (const host of entry.hosts) {
      const other = clusterOf.get(host.name);
      if (other !== undefined) {
        const message = `${host.name} is in ${other} and in ${entry.name}; a machine is a node of one cluster: remove it from one of the two groups.`;
        for (const cluster of [other, entry.name]) {
          add(cluster, { code: 'host-in-two-clusters', message, ...host.place, hosts: [host.name] });
        }
        continue;
      }
      clusterOf.set(host.name, entry.name);
      const machine = machineKey(host.rest.connection);
      const first = alone.get(machine);
      if (first === undefined) {
        alone.set(machine, { host, cluster: entry.name });
        continue;
      }
      if (first !== null) {
        for (const { key } of machineClaims(first.host, machine)) if (!claims.has(key)) claims.set(key, first);
        alone.set(machine, null);
      }
      const twins = new Set<string>();
      for (const claim of machineClaims(host, machine)) {
        const twin = claims.get(claim.key);
        if (twin === undefined) claims.set(claim.key, { host, cluster: entry.name });
        else if (twin.host !== host && !twins.has(twin.host.name)) {
          twins.add(twin.host.name);
          const message = `${twin.host.name} and ${host.name} are one machine (${describeMachine(host)}) with one ${claim.what}: each would undo what is written for the other. Give them ${claim.wayOut}, or remove one.`;
          for (const cluster of new Set([twin.cluster, entry.name])) {
            add(cluster, { code: 'same-machine', message, ...host.place, hosts: [twin.host.name, host.name] });
          }
        }
      }
    }
  }
  return problems;
}

/** Hosts with one of these are on one machine. */
function machineKey(connection: HostConnection): string {
  if (connection.type === 'local') return 'local';
  return JSON.stringify([connection.host.toLowerCase(), connection.port, jumpsOf(connection)]);
}

/** What a host takes of its machine for itself: two hosts with one claim are one machine's one project. */
function machineClaims(host: DeclaredHost, machine: string): readonly { key: string; what: string; wayOut: string }[] {
  const { runtime, directory, composeProject, containers, dockerContext } = host.rest;
  if (runtime === 'native') return [{ key: `${machine} native`, what: 'native k3s', wayOut: 'machines of their own' }];
  const engine = `${machine} ${dockerContext ?? ''}`;
  return [
    { key: `${machine} directory ${directory}`, what: 'project directory', wayOut: 'a github_runner_cluster_dir each' },
    {
      key: `${engine} project ${composeProject}`,
      what: 'Compose project name',
      wayOut: 'a github_runner_cluster_compose_project each',
    },
    ...Object.values(containers).map((name) => ({
      key: `${engine} container ${name}`,
      what: 'container name',
      wayOut: 'github_runner_cluster_container_name and github_runner_cluster_agent_container_name each',
    })),
  ];
}

/** A private address is another machine behind another jump host. */
function jumpsOf({ options }: HostConnection): readonly string[] {
  return options.filter((option) => option.keyword === 'ProxyJump').map((option) => option.value);
}

function describeMachine(host: DeclaredHost): string {
  const { connection } = host.rest;
  return connection.type === 'local' ? 'the runner itself' : `${connection.host}, port ${connection.port}`;
}
