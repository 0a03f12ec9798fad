import type { Cluster, Fleet } from './fleet.js';
import type { Inventory } from './inventory/inventory.js';
import type { Place, Problem } from './problem.js';
import { type DeclaredHost, declareCluster, declareHosts } from './topology.js';

export const DEFAULT_CLUSTER_GROUP = 'github_runner_cluster';

/**
 * What the inventory of one commit declares: one cluster for each name in `groups`. A group that is missing or empty
 * is a problem of that cluster, never "all hosts were removed".
 */
export function declareFleet(commit: string, inventory: Inventory, groups: readonly string[]): Fleet {
  const declared = groups.map((name) => {
    const group = inventory.groups.get(name);
    const place: Place = group?.place ?? { file: inventory.path, line: null };
    if (inventory.problems.length > 0 && (group === undefined || group.hosts.length === 0)) {
      return { name, problems: inventory.problems };
    }
    if (group === undefined) {
      const message = `The inventory has no group ${name}; add it, or name the group with the input cluster-groups. To take a whole cluster out of fleet-role, turn its controller off instead.`;
      return { name, problems: [problem('no-such-group', message, place)] };
    }
    if (group.hosts.length === 0) {
      const message = `The group ${name} has no hosts; list them. To take a whole cluster out of fleet-role, turn its controller off instead.`;
      return { name, problems: [problem('no-hosts', message, place)] };
    }
    return { name, problems: inventory.problems, group, hosts: declareHosts(inventory, group) };
  });

  const shared = sharedHostProblems(declared);
  const clusters = declared.map((entry): Cluster => {
    if (entry.group === undefined) return unreadableCluster(entry.name, entry.problems);
    const problems = [...entry.problems, ...(shared.get(entry.name) ?? [])];
    const cluster = declareCluster(entry.group, entry.hosts, problems);
    return { ...cluster, warnings: inventory.warnings };
  });
  return { commit, inventory: inventory.path, clusters };
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

function problem(code: Problem['code'], message: string, place: Place): Problem {
  return { code, message, file: place.file, line: place.line, hosts: [] };
}

interface Entry {
  readonly name: string;
  readonly hosts?: readonly DeclaredHost[];
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
  const claims = new Map<string, { readonly host: DeclaredHost; readonly cluster: string }>();
  for (const entry of entries) {
    for (const host of entry.hosts ?? []) {
      const other = clusterOf.get(host.name);
      if (other !== undefined) {
        const message = `${host.name} is in ${other} and in ${entry.name}; a machine is a node of one cluster: remove it from one of the two groups.`;
        for (const cluster of [other, entry.name]) {
          add(cluster, { code: 'host-in-two-clusters', message, ...host.place, hosts: [host.name] });
        }
        continue;
      }
      clusterOf.set(host.name, entry.name);
      const twins = new Set<string>();
      for (const claim of machineClaims(host)) {
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

/** What a host takes of its machine for itself: two hosts with one claim are one machine's one project. */
function machineClaims(host: DeclaredHost): readonly { key: string; what: string; wayOut: string }[] {
  const { connection, runtime, directory, composeProject, containers, dockerContext } = host.rest;
  const machine = JSON.stringify(
    connection.type === 'local' ? ['local'] : [connection.host.toLowerCase(), connection.port],
  );
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

function describeMachine(host: DeclaredHost): string {
  const { connection } = host.rest;
  return connection.type === 'local' ? 'the runner itself' : `${connection.host}, port ${connection.port}`;
}
