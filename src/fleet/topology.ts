import type { DeclaredHost, RoleInput } from './declared-host.js';
import type { Cluster, ClusterSettings, Host, Role } from './fleet.js';
import { joinUrlOf } from './join-url.js';
import type { ClusterGroup } from './layout.js';
import type { Problem } from './problem.js';
import { clusterProblems, settingProblems } from './topology-problems.js';

/** What the topology rule makes of a cluster's hosts, and how it came to it. */
export interface Roles<H extends RoleInput> {
  readonly roles: ReadonlyMap<string, Role>;
  readonly bootstrap: H | null;
  /** Step 1: the hosts whose role is forced. */
  readonly forced: ReadonlyMap<string, Role>;
  /** Step 2: the forced servers and the hosts that may be chosen, in inventory order. */
  readonly candidates: readonly H[];
  /** Step 2: how many servers there should be. Forced servers may be more. */
  readonly target: number;
}

/**
 * The topology rule, steps 1 to 4 of section 2 of the specification: forced roles, candidates, the odd target, and the
 * bootstrap host. It has no memory: the same hosts in the same order always give the same roles.
 */
export function assignRoles<H extends RoleInput>(hosts: readonly H[], settings: ClusterSettings): Roles<H> {
  const forced = new Map<string, Role>();
  for (const host of hosts) {
    if (host.nodeRole !== null) forced.set(host.name, host.nodeRole);
    else if (host.declaredBootstrap === true || (settings.controller && host.pinned)) forced.set(host.name, 'server');
  }
  const free = hosts.filter((host) => !forced.has(host.name));
  const anyEligible = settings.controller && hosts.some((host) => host.eligible === true);
  const eligible = settings.controller
    ? free.filter((host) => host.eligible !== false && (!anyEligible || host.eligible === true))
    : free;
  const forcedServers = [...forced.values()].filter((role) => role === 'server').length;
  const most = Math.min(forcedServers + eligible.length, settings.datastore === 'sqlite' ? 1 : settings.maxServers);
  const target = Math.max(0, most % 2 === 0 ? most - 1 : most);
  const chosen = new Set(eligible.slice(0, Math.max(0, target - forcedServers)).map((host) => host.name));
  const may = new Set<H>(eligible);
  const candidates = hosts.filter((host) => forced.get(host.name) === 'server' || may.has(host));
  const roles = new Map<string, Role>();
  for (const host of hosts) {
    roles.set(host.name, forced.get(host.name) ?? (chosen.has(host.name) ? 'server' : 'agent'));
  }
  const bootstrap =
    hosts.find((host) => host.declaredBootstrap === true) ??
    hosts.find(
      (host) => roles.get(host.name) === 'server' && host.serverUrl === null && host.declaredBootstrap !== false,
    ) ??
    null;
  return { roles, bootstrap, forced, candidates, target };
}

/**
 * The cluster that a group declares: the topology rule over its hosts, and every problem that it has.
 * `problems` are those found while reading the inventory; any of them makes the cluster invalid.
 */
export function declareCluster(
  group: Pick<ClusterGroup, 'name' | 'place'>,
  declared: readonly DeclaredHost[],
  problems: readonly Problem[],
): Cluster {
  const first = declared[0];
  if (first === undefined) throw new Error(`the group ${group.name} has no hosts`);
  const settings = first.settings;
  const { roles, bootstrap } = assignRoles(declared, settings);
  const servers = declared.filter((host) => roles.get(host.name) === 'server');
  const automaticSans = servers.map((host) => host.address);
  const bootstrapUrl = bootstrap === null ? null : joinUrlOf(bootstrap.address, settings.apiPort);
  const joinUrl = (host: DeclaredHost): string | null =>
    host.serverUrl ?? (host === bootstrap ? null : (endpointUrl(host, bootstrap, settings.apiPort) ?? bootstrapUrl));

  const hosts = declared.map((host): Host => {
    const role = roles.get(host.name) ?? 'agent';
    return {
      name: host.name,
      nodeName: host.nodeName,
      address: host.address,
      role,
      bootstrap: host === bootstrap,
      nodeRole: host.nodeRole,
      declaredBootstrap: host.declaredBootstrap,
      joinUrl: joinUrl(host),
      serverUrl: host.serverUrl,
      tlsSans: host.tlsSans ?? automaticSans,
      publishesLabels: settings.controller || host.eligible === true || host.pinned,
      eligible: host.eligible,
      pinned: host.pinned,
      ...host.rest,
      roleFile: settings.controller ? role : null,
      joinUrlFile: settings.controller ? (joinUrl(host) ?? otherServerUrl(host, servers, settings.apiPort)) : null,
      place: host.place,
    };
  });
  const found = [
    ...problems,
    ...settingProblems(group, declared),
    ...declared.flatMap((host) => host.problems),
    ...clusterProblems({ group, declared, settings, roles, bootstrap, servers, joinUrl }),
  ];
  return {
    name: group.name,
    readable: true,
    valid: found.length === 0,
    settings,
    controller: settings.controller,
    datastore: settings.datastore,
    bootstrap: bootstrap?.name ?? null,
    servers: servers.map((host) => host.name),
    problems: found,
    warnings: [],
    hosts,
  };
}

/** The URL of the endpoint that a host joins through; null without one, and where it is the bootstrap host itself. */
function endpointUrl({ endpoint }: DeclaredHost, bootstrap: DeclaredHost | null, apiPort: number): string | null {
  if (endpoint === null || endpoint.toLowerCase() === bootstrap?.address.toLowerCase()) return null;
  return joinUrlOf(endpoint, apiPort);
}

/** Rule 8: the bootstrap host's file names the first other server, so that an emptied data volume rejoins. */
function otherServerUrl(host: DeclaredHost, servers: readonly DeclaredHost[], apiPort: number): string | null {
  const other = servers.find((server) => server !== host);
  return other === undefined ? null : joinUrlOf(other.address, apiPort);
}
