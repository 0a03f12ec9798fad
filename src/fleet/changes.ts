import { CauseFinder, fallback, ownEdit, type Pairs } from './causes.js';
import type { Cause, Change, ChangeKind } from './change.js';
import type { Cluster, Host } from './fleet.js';
import type { Warning } from './problem.js';
import { CONNECTION_VARIABLES, PREFIX } from './variables.js';

/** What differs between two commits for one cluster. */
export interface Comparison {
  /** In the head's inventory order, then removed hosts in the base's. */
  readonly changes: readonly Change[];
  readonly warnings: readonly Warning[];
  /** Hosts of the base that the head's cluster no longer has. */
  readonly leaving: readonly Host[];
  /** By head name, the same host at the base. A host that is not in it is added. */
  readonly pairs: Pairs;
}

/**
 * Compares a valid head with its base. A removed and an added host with the same node name, or with the same
 * connection and directory, are one host. Without a base every host is added and nothing counts as removed.
 */
export function compareClusters(base: Cluster | null, head: Cluster): Comparison {
  if (base === null) {
    const changes = head.hosts.map((host) => added(host, 'there is no base to compare with'));
    return { changes, warnings: [], leaving: [], pairs: new Map() };
  }
  const pairs = pairHosts(base, head);
  const kept = new Set(pairs.values());
  const leaving = base.hosts.filter((host) => !kept.has(host));
  const finder = new CauseFinder(base, head, pairs);
  const turnedOff = base.controller === true && head.controller === false;
  const changes: Change[] = [];
  for (const host of head.hosts) {
    const before = pairs.get(host.name);
    if (turnedOff && before !== undefined) changes.push(controllerOff(before, host));
    else if (before === undefined) changes.push(added(host, `${host.name} is new in the inventory`));
    else changes.push(...hostChanges(base, head, before, host, finder));
  }
  for (const host of leaving) {
    const cause: Cause = { commit: 'base', ...host.place, reason: `${host.name} is no longer in ${head.name}` };
    changes.push({
      host: host.name,
      kind: 'removed',
      cause,
      role: { from: host.role, to: null },
      joinUrl: { from: host.joinUrl, to: null },
    });
  }
  return { changes, warnings: editWarnings(base, head, pairs, finder), leaving, pairs };
}

function pairHosts(base: Cluster, head: Cluster): Pairs {
  const byName = new Map(base.hosts.map((host) => [host.name, host]));
  const pairs = new Map<string, Host>();
  const fresh: Host[] = [];
  for (const host of head.hosts) {
    const same = byName.get(host.name);
    if (same === undefined) fresh.push(host);
    else pairs.set(host.name, same);
  }
  const kept = new Set(pairs.values());
  const gone = base.hosts.filter((host) => !kept.has(host));
  // A name that is not known is in no map and finds nothing.
  const byNodeName = new Map(gone.flatMap((host) => (host.nodeName === null ? [] : [[host.nodeName, host]])));
  const byMachine = new Map(gone.map((host) => [machineOf(host), host]));
  for (const host of fresh) {
    const named = host.nodeName === null ? undefined : byNodeName.get(host.nodeName);
    const same = [named, byMachine.get(machineOf(host))].find(
      (candidate) => candidate !== undefined && !kept.has(candidate),
    );
    if (same === undefined) continue;
    pairs.set(host.name, same);
    kept.add(same);
  }
  return pairs;
}

/**
 * Whether one host has the same node name at both commits. Where one of the two names is not known, only the same
 * machine is known to have kept it: declaring the name that a machine reports renames nothing.
 */
export function keepsNodeName(before: Host, after: Host): boolean {
  if (before.nodeName !== null && after.nodeName !== null) return before.nodeName === after.nodeName;
  return sameEndpoint(before, after);
}

/** Hosts with one of these are the same machine's same project, whatever they are called. */
export function machineOf(host: Host): string {
  return JSON.stringify([endpointOf(host), host.directory]);
}

/** Whether both are reached at one address and port, so that they are one machine. */
export function sameEndpoint(a: Host, b: Host): boolean {
  return endpointOf(a) === endpointOf(b);
}

function endpointOf({ connection: { type, host, port } }: Host): string {
  return JSON.stringify(type === 'local' ? [type] : [type, host, port]);
}

function added(host: Host, reason: string): Change {
  return {
    host: host.name,
    kind: 'added',
    cause: fallback(host, reason),
    role: { from: null, to: host.role },
    joinUrl: { from: null, to: host.joinUrl },
  };
}

function controllerOff(before: Host, host: Host): Change {
  const cause = ownEdit(before, host, ['controller']) ?? fallback(host, `${PREFIX}controller is off`);
  return change(before, host, 'controller-off', cause);
}

function change(before: Host, host: Host, kind: ChangeKind, cause: Cause): Change {
  return {
    host: host.name,
    kind,
    cause,
    role: { from: before.role, to: host.role },
    joinUrl: { from: before.joinUrl, to: host.joinUrl },
  };
}

function hostChanges(base: Cluster, head: Cluster, before: Host, host: Host, finder: CauseFinder): readonly Change[] {
  const changes: Change[] = [];
  const keeps = keepsNodeName(before, host);
  if (before.name !== host.name || !keeps) {
    const what = keeps ? `${before.name} is called ${host.name} now` : renamedNode(before, host);
    const cause = ownEdit(before, host, ['node_name']);
    changes.push(change(before, host, 'renamed', cause === null ? fallback(host, what) : { ...cause, reason: what }));
  }
  const turnedOn = base.controller === false && head.controller === true;
  if (turnedOn) {
    const cause = ownEdit(before, host, ['controller']) ?? fallback(host, `${PREFIX}controller is on`);
    changes.push(change(before, host, 'controller-on', cause));
  }
  if (before.role !== host.role) {
    const kind = host.role === 'server' ? 'promotion' : 'demotion';
    changes.push(change(before, host, kind, finder.ofRole(before, host)));
  } else if (before.joinUrl !== host.joinUrl) {
    changes.push(change(before, host, 'join-url', finder.ofJoinUrl(before, host)));
  }
  if (!turnedOn && before.publishesLabels !== host.publishesLabels) {
    const kind = host.publishesLabels ? 'override-added' : 'override-removed';
    const cause =
      ownEdit(before, host, ['server_eligible', 'server_pinned', 'controller']) ??
      fallback(
        host,
        `${host.name} ${host.publishesLabels ? 'publishes' : 'no longer publishes'} the controller's labels`,
      );
    changes.push(change(before, host, kind, cause));
  }
  const reach = connectionEdit(before, host);
  if (reach !== null) changes.push(change(before, host, 'connection', reach));
  return changes;
}

function renamedNode(before: Host, host: Host): string {
  return before.nodeName !== null && host.nodeName !== null
    ? `the node ${before.nodeName} is called ${host.nodeName} now`
    : `${host.name} is reached in another way, and whether it is the same node is not known`;
}

const REACH_VARIABLES = [
  ...CONNECTION_VARIABLES,
  'runtime',
  'dir',
  'compose_project',
  'compose_files',
  'container_name',
  'agent_container_name',
  'docker_context',
  'data_dir',
];

/** Field by field: two texts of JSON for each host would be most of the cost of comparing. */
function isReachedAlike(a: Host, b: Host): boolean {
  const [from, to] = [a.connection, b.connection];
  return (
    from.type === to.type &&
    from.host === to.host &&
    from.port === to.port &&
    from.user === to.user &&
    from.become === to.become &&
    from.keyFile === to.keyFile &&
    a.runtime === b.runtime &&
    a.directory === b.directory &&
    a.composeProject === b.composeProject &&
    a.dockerContext === b.dockerContext &&
    a.dataDir === b.dataDir &&
    a.containers.k3s === b.containers.k3s &&
    a.containers['k3s-agent'] === b.containers['k3s-agent'] &&
    isSameList(from.options, to.options) &&
    isSameList(a.composeFiles, b.composeFiles)
  );
}

function isSameList(a: readonly unknown[], b: readonly unknown[]): boolean {
  return (a.length === 0 && b.length === 0) || JSON.stringify(a) === JSON.stringify(b);
}

/** How the host is reached and where its project lies differs: the line that did it, or null when nothing does. */
function connectionEdit(before: Host, host: Host): Cause | null {
  if (isReachedAlike(before, host)) return null;
  return ownEdit(before, host, REACH_VARIABLES) ?? fallback(host, `${host.name} is reached in another way`);
}

/** How many servers may fail before quorum is lost. */
export function declaredTolerance(cluster: Cluster): number {
  return Math.floor((cluster.servers.length - 1) / 2);
}

/** What a reviewer should know although it is allowed: the rule has no memory, so order moves roles. */
function editWarnings(base: Cluster, head: Cluster, pairs: Pairs, finder: CauseFinder): readonly Warning[] {
  const warnings: Warning[] = [];
  const warn = (code: string, cause: Cause, message: string, hosts: readonly string[]): void => {
    // A line of the base is no line of the head: the reader would be sent to the wrong one.
    const place = cause.commit === 'head' ? { file: cause.file, line: cause.line } : { file: cause.file, line: null };
    warnings.push({ code, message, ...place, hosts });
  };
  const bootstrap = head.hosts.find((host) => host.name === head.bootstrap);
  const formerly = base.hosts.find((host) => host.name === base.bootstrap);
  if (bootstrap !== undefined && formerly !== undefined && pairs.get(bootstrap.name) !== formerly) {
    const cause = finder.ofBootstrap(bootstrap);
    warn(
      'bootstrap-moved',
      cause,
      `This edit makes ${bootstrap.name} the bootstrap host instead of ${formerly.name} (${cause.reason}): every host that joins through it gets another join URL, and a host provisioned from scratch would look for the cluster at ${bootstrap.name}. To keep it, append new hosts behind the others, or set ${PREFIX}bootstrap: true for ${formerly.name}.`,
      [bootstrap.name, formerly.name],
    );
  }
  for (const host of head.hosts) {
    const before = pairs.get(host.name);
    if (before === undefined || before.role === host.role || finder.ownRoleEdit(before, host) !== null) continue;
    const cause = finder.ofRole(before, host);
    const keep =
      before.role === 'server'
        ? `set ${PREFIX}server_pinned: true (or ${PREFIX}node_role: server) for ${host.name}`
        : `set ${PREFIX}node_role: agent for ${host.name}`;
    warn(
      'role-moved',
      cause,
      `${host.name} becomes ${host.role} although its own lines did not change (${cause.reason}). To keep it ${before.role === 'server' ? 'a server' : 'an agent'}, append new hosts behind the others, or ${keep}.`,
      [host.name],
    );
  }
  const lower =
    head.datastore === 'etcd' && base.datastore === 'etcd' && declaredTolerance(head) < declaredTolerance(base);
  if (lower && head.servers.length > 0) {
    const first = head.hosts.find((host) => pairs.get(host.name)?.role === 'server' && host.role === 'agent');
    const kept = new Set(pairs.values());
    const gone = base.hosts.find((host) => host.role === 'server' && !kept.has(host));
    const before = first === undefined ? undefined : pairs.get(first.name);
    const cause: Cause =
      first !== undefined && before !== undefined
        ? finder.ofRole(before, first)
        : { commit: 'base', file: gone?.place.file ?? null, line: null, reason: '' };
    warn(
      'tolerance-lowered',
      cause,
      `The cluster goes from ${base.servers.length} to ${head.servers.length} servers and then survives the loss of ${declaredTolerance(head)} instead of ${declaredTolerance(base)}. To keep it, declare another server in the same commit.`,
      head.servers,
    );
  }
  return warnings;
}
