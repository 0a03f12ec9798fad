import type { Cluster, Host } from '../fleet/fleet.js';
import { anyPublishes, type Desired, type DesiredHost } from './desired.js';
import type { FileState } from './observation.js';
import {
  known,
  type Member,
  type NodeObservation,
  type Observation,
  PLAIN_NODE,
  type ReachedHost,
  type ServerObservation,
  type ServiceObservation,
  unknown,
} from './observation.js';

/** The identity and the commit that stand for those of a fleet that nobody looked at. */
const ASSUMED = 'assumed';

/**
 * What an unobserved plan assumes: the fleet is as the base declares and healthy. Every host is reached and
 * provisioned, the service of its role runs and the other is absent, every declared server votes in one cluster; where
 * the base's controller is on, there is a complete record, files and override are as the base gives them and the guards
 * are in force; where it is off, only what publishing hosts have.
 */
export function assumeBase(desired: Desired, guardsVersion: string): Observation {
  const hosts = new Map<string, ReachedHost>();
  const nodes = new Map<string, NodeObservation>();
  const { base } = desired;
  if (base !== null) {
    for (const entry of desired.hosts) hosts.set(entry.host.name, assumeHost(desired, entry, guardsVersion));
    for (const host of base.hosts) nodes.set(nodeName(host), assumeNode(host, base));
  }
  const adopted = base?.controller === true;
  const record = {
    commit: ASSUMED,
    started: ASSUMED,
    begun: [],
    repository: '',
    group: desired.cluster.name,
    identity: ASSUMED,
    run: '',
  };
  return {
    at: 0,
    observed: false,
    hosts,
    servers: assumeServers(desired),
    nodes: known(nodes),
    record: known(adopted ? record : null),
    run: { done: [] },
  };
}

function nodeName(host: Host): string {
  return host.nodeName ?? host.name;
}

/** Every declared server of the base that still is an entry answers and lists all of them. */
function assumeServers({ base, hosts }: Desired): ReadonlyMap<string, ServerObservation> {
  if (base === null || base.bootstrap === null) return new Map();
  const members = base.hosts.filter((host) => host.role === 'server').map(assumeMember);
  const list = base.datastore === 'etcd' ? known(members) : unknown('a cluster on SQLite has no members');
  const server: ServerObservation = { identity: known(ASSUMED), members: list, ready: known(true) };
  return new Map(
    hosts.flatMap(({ host, before }) => (before?.role === 'server' ? [[host.name, server] as const] : [])),
  );
}

function assumeMember(host: Host): Member {
  return { name: `${nodeName(host)}-00000000`, nodeName: nodeName(host), addresses: [], learner: false };
}

function assumeNode(host: Host, base: Cluster): NodeObservation {
  if (host.role !== 'server') return PLAIN_NODE;
  if (base.datastore !== 'etcd') return { ...PLAIN_NODE, serverTraces: true };
  const memberName = assumeMember(host).name;
  return { ...PLAIN_NODE, etcdLabel: true, isVoter: true, memberName, serverTraces: true };
}

function assumeHost(desired: Desired, entry: DesiredHost, guardsVersion: string): ReachedHost {
  const before = entry.before;
  const roleDirectory = before !== null && anyPublishes(desired.base) ? 'present' : 'absent';
  const publishes = before?.publishesLabels === true;
  return {
    kind: 'reached',
    provisioned: true,
    directory: entry.host.directory,
    roleDirectory,
    role: fileOf(before?.roleFile ?? null),
    joinUrl: before?.roleFile == null ? { kind: 'absent' } : fileOf(before.joinUrlFile ?? ''),
    cluster: fileOf(before?.roleFile === 'server' ? ASSUMED : null),
    guardsInstalled: publishes ? guardsVersion : null,
    override: { placed: publishes ? 'ours' : 'absent', listed: publishes },
    environment: { k3s: null, 'k3s-agent': null },
    services: known({
      k3s: assumeService(before, before?.role === 'server', guardsVersion),
      'k3s-agent': assumeService(before, before?.role === 'agent', guardsVersion),
    }),
    datastore: known(before?.role === 'server' ? (desired.base?.datastore ?? 'etcd') : 'none'),
    tombstone: known(false),
    setAside: known(false),
    token: known(true),
    keptPolicy: { kind: 'absent' },
    oneFileSystem: known(true),
    passwordShared: known(true),
    tlsSans: before?.role === 'server' ? before.tlsSans.join(' ') : null,
    unsteerable: null,
  };
}

function fileOf(text: string | null): FileState {
  return text === null ? { kind: 'absent' } : { kind: 'text', text };
}

function assumeService(before: Host | null, runs: boolean, guardsVersion: string): ServiceObservation {
  const mounted = runs && before?.publishesLabels === true;
  return {
    state: runs ? 'running' : 'absent',
    containerId: null,
    restartCount: 0,
    restartPolicy: runs ? 'unless-stopped' : null,
    mounted,
    configFiles: null,
    // Provisioned with it: a container without one would be assumed to depend on the join-url file for ever.
    joinUrlEnvironment: runs ? (before?.joinUrlFile ?? null) : null,
    entrypoint: runs ? 'ours' : 'unknown',
    guardsInside: mounted ? guardsVersion : null,
  };
}
