import { joinUrlOf } from '../../src/fleet/join-url.js';
import {
  type FileState,
  type HostObservation,
  known,
  type NodeObservation,
  type Observation,
  PLAIN_NODE,
  type RecordObservation,
  type ServerObservation,
  type ServiceObservation,
  unknown,
} from '../../src/plan/observation.js';
import type { DoneStep } from '../../src/plan/step.js';
import { identityText } from './act.js';
import { isHealthy, nodeReady, servedBy, votersOf } from './k3s.js';
import { type Box, type Commit, type Ground, type HostState, hostOf, type State } from './state.js';

export const SHA: { readonly [C in Commit]: string } = {
  base: 'a'.repeat(40),
  head: 'b'.repeat(40),
  back: 'c'.repeat(40),
};

export const REPOSITORY = 'owner/fleet';
export const GUARDS = '1';

const NOT_REACHED: HostObservation = { kind: 'unreachable', class: 'connect', message: 'it does not answer' };

const file = (text: string | null): FileState => (text === null ? { kind: 'absent' } : { kind: 'text', text });
const url = (name: string): string => joinUrlOf(name, 6443);

/** What fleet-role sees of this state when it asks these hosts, `done` being what the run remembers. */
export function observe(
  ground: Ground,
  state: State,
  done: readonly DoneStep[],
  group: string,
  asked: readonly string[],
): Observation {
  const hosts = new Map<string, HostObservation>();
  const servers = new Map<string, ServerObservation>();
  for (const name of asked) {
    const host = hostOf(state, name);
    hosts.set(name, host.at === 'up' ? observeHost(ground, host, name) : NOT_REACHED);
    if (host.at === 'up' && host.k3s.is === 'running') servers.set(name, observeServer(state, name));
  }
  const served = asked.map((name) => servedBy(state, name)).filter((cluster) => cluster !== null);
  const answers = served.includes(0);
  // A second cluster has no record of ours, and its Nodes are not modelled.
  const other = served.length > 0;
  const silent = unknown('no API answers');
  return {
    at: 0,
    observed: true,
    hosts,
    servers,
    nodes: answers
      ? known(observeNodes(ground, state))
      : other
        ? known(new Map(asked.map((name) => [name, PLAIN_NODE])))
        : silent,
    record: answers ? known(recordOf(state, group)) : other ? known(null) : silent,
    run: { done },
  };
}

function observeHost(ground: Ground, host: HostState, name: string): HostObservation {
  const anyBox = host.k3s.is !== 'absent' || host.agent.is !== 'absent';
  return {
    kind: 'reached',
    provisioned: true,
    directory: '/srv/node',
    nodeName: name,
    roleDirectory: host.dir ? 'present' : 'absent',
    role: file(host.role),
    joinUrl: file(host.joinUrl === null || host.joinUrl === '' ? host.joinUrl : url(host.joinUrl)),
    cluster: file(host.cluster === null ? null : identityText(host.cluster)),
    guardsInstalled: host.guards ? GUARDS : null,
    override: { placed: host.placed ? 'ours' : 'absent', listed: host.listed },
    environment: { k3s: urlOrNull(host.env.k3s), 'k3s-agent': urlOrNull(host.env['k3s-agent']) },
    services: known({
      k3s: observeBox(host.k3s, host.env.k3s, anyBox),
      'k3s-agent': observeBox(host.agent, host.env['k3s-agent'], anyBox),
    }),
    datastore: known(host.db?.kind ?? 'none'),
    tombstone: known(host.tombstone),
    setAside: known(host.aside > 0),
    token: known(!ground.tokenless.includes(name)),
    keptPolicy: file(host.kept),
    oneFileSystem: known(true),
    passwordShared: known(ground.passwordShared),
    tlsSans: host.sans,
    unsteerable: null,
  };
}

const urlOrNull = (name: string | null): string | null => (name === null || name === '' ? null : url(name));

function observeBox(box: Box, env: string | null, anyBox: boolean): ServiceObservation {
  const absent = box.is === 'absent';
  const states = { created: 'stopped', crashing: 'restarting' } as const;
  return {
    state: box.is === 'created' || box.is === 'crashing' ? states[box.is] : box.is,
    containerId: absent ? null : `c${box.id}`,
    restartCount: box.is === 'crashing' || box.is === 'refusing' ? 5 : 0,
    restartPolicy: absent ? null : box.policy,
    mounted: box.mounted,
    configFiles: absent ? null : ['/srv/node/docker-compose.yml'],
    joinUrlEnvironment: absent ? null : urlOrNull(env),
    entrypoint: absent && !anyBox ? 'unknown' : 'ours',
    guardsInside: box.mounted ? GUARDS : null,
  };
}

function observeServer(state: State, name: string): ServerObservation {
  const cluster = servedBy(state, name);
  if (cluster === null) {
    const silent = unknown('its API does not answer');
    return { identity: silent, members: silent, ready: silent };
  }
  const members = (state.clusters[cluster] ?? []).map((member) => ({
    name: member.started ? member.name : '',
    nodeName: member.started ? member.host : null,
    addresses: [member.host],
    learner: !member.voter,
  }));
  const healthy = votersOf(state, cluster).some((voter) => voter.host === name && isHealthy(state, voter));
  return { identity: known(identityText(cluster)), members: known(members), ready: known(healthy) };
}

function observeNodes(ground: Ground, state: State): ReadonlyMap<string, NodeObservation> {
  const members = state.clusters[0] ?? [];
  return new Map(
    [...state.nodes].map(([name, node]): [string, NodeObservation] => {
      const votes = members.some((member) => member.host === name && member.voter);
      const traces = node.traces || node.etcdLabel || node.removeAsked;
      const marked = node.memberName !== null || node.removedName !== null;
      return [
        name,
        {
          ready: nodeReady(ground, state, name),
          unschedulable: node.cordon !== 'no',
          cordonedBy: node.cordon === 'ours' ? 'run 1' : null,
          etcdLabel: node.etcdLabel,
          isVoter: node.etcdLabel ? votes : null,
          memberName: node.memberName,
          memberAddress: node.memberName === null ? null : name,
          removedName: node.removedName,
          removeAsked: node.removeAsked,
          serverTraces: traces || marked,
          internalAddress: name,
          version: 'v1.34.4+k3s1',
        },
      ];
    }),
  );
}

function recordOf(state: State, group: string): RecordObservation | null {
  const { record } = state;
  if (record === null) return null;
  return {
    commit: SHA[record.commit],
    started: SHA[record.started],
    begun: record.headBegun && record.started !== 'head' ? [SHA.head] : [],
    repository: REPOSITORY,
    group,
    identity: identityText(0),
    run: 'run 1',
  };
}
