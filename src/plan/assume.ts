import type { Host } from '../fleet/fleet.js';
import { anyPublishes, type Desired, type DesiredHost } from './desired.js';
import type { FileState } from './observation.js';
import {
  known,
  type NodeObservation,
  type Observation,
  PLAIN_NODE,
  type ReachedHost,
  type ServiceObservation,
} from './observation.js';

/**
 * What an unobserved plan assumes: the fleet is as the base declares and healthy. Every host is reached and
 * provisioned, the service of its role runs and the other is absent; where the base's controller is on, files and
 * override are as the base gives them and the guards are in force; where it is off, only what publishing hosts have.
 */
export function assumeBase(desired: Desired, guardsVersion: string): Observation {
  const hosts = new Map<string, ReachedHost>();
  const nodes = new Map<string, NodeObservation>();
  if (desired.base !== null) {
    for (const entry of desired.hosts) hosts.set(entry.host.name, assumeHost(desired, entry, guardsVersion));
    for (const { nodeName } of desired.base.hosts) {
      if (nodeName !== null) nodes.set(nodeName, PLAIN_NODE);
    }
  }
  return { at: 0, observed: false, hosts, servers: new Map(), nodes: known(nodes), record: null, run: { done: [] } };
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
    cluster: { kind: 'absent' },
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
    tlsSans: null,
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
