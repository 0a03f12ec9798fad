import { declareFleet } from '../../src/fleet/declare.js';
import type { Fleet, Host } from '../../src/fleet/fleet.js';
import { assumeBase } from '../../src/plan/assume.js';
import type { Intent } from '../../src/plan/desired.js';
import { makePlan, type PlanInput } from '../../src/plan/make-plan.js';
import {
  type HostObservation,
  known,
  type Member,
  type NodeObservation,
  type Observation,
  PLAIN_NODE,
  type ReachedHost,
  type RecordObservation,
  type ServiceObservation,
  unknown,
  valueOr,
} from '../../src/plan/observation.js';
import type { ClusterPlan } from '../../src/plan/plan.js';
import { NO_BASE, prepare } from '../../src/plan/prepare.js';
import { planToJson } from '../../src/report/plan-json.js';
import { type InventorySketch, sketchInventory } from '../helpers/inventory.js';
import { expectValidPlan } from '../helpers/plan-schema.js';

export const HEAD = 'b'.repeat(40);
export const BASE = 'a'.repeat(40);

export const intent: Intent = {
  mode: 'apply',
  host: null,
  rollout: 'changed',
  installGuards: 'auto',
  drain: 'wait',
  guardsVersion: '1',
  forceUnreachable: false,
  allowRollback: false,
  head: HEAD,
  repository: 'o/r',
  relation: 'forward',
  runsOn: null,
};

export function fleetOf(commit: string, ...sketches: readonly InventorySketch[]): Fleet {
  const inventory = sketchInventory(...sketches);
  return declareFleet(commit, inventory, [...inventory.groups.keys()]);
}

/** The first cluster of a head beside its base (null: there is none). */
export function inputOf(base: InventorySketch | null, head: InventorySketch): PlanInput {
  const at = base === null ? NO_BASE : { commit: BASE, fleet: fleetOf(BASE, base), unreadable: null };
  const [input] = prepare(fleetOf(HEAD, head), at);
  if (input === undefined) throw new Error('no cluster');
  return input;
}

export function service(more: Partial<ServiceObservation> = {}): ServiceObservation {
  return {
    state: 'absent',
    containerId: null,
    restartCount: 0,
    restartPolicy: null,
    mounted: false,
    configFiles: null,
    joinUrlEnvironment: null,
    entrypoint: 'ours',
    guardsInside: null,
    ...more,
  };
}

/** A provisioned Compose host that fleet-role never touched: it runs the service of `role`, nothing when null. */
export function bare(role: 'server' | 'agent' | null, more: Partial<ReachedHost> = {}): ReachedHost {
  return {
    kind: 'reached',
    provisioned: true,
    directory: '/srv/node',
    roleDirectory: 'absent',
    role: { kind: 'absent' },
    joinUrl: { kind: 'absent' },
    cluster: { kind: 'absent' },
    guardsInstalled: null,
    override: { placed: 'absent', listed: false },
    environment: { k3s: null, 'k3s-agent': null },
    services: known({
      k3s: service(role === 'server' ? { state: 'running', containerId: 'c1' } : {}),
      'k3s-agent': service(role === 'agent' ? { state: 'running', containerId: 'c2' } : {}),
    }),
    datastore: known(role === 'server' ? 'etcd' : 'none'),
    tombstone: known(false),
    setAside: known(false),
    token: known(true),
    keptPolicy: { kind: 'absent' },
    oneFileSystem: known(true),
    passwordShared: known(true),
    tlsSans: null,
    unsteerable: null,
    ...more,
  };
}

/** A host as a complete apply leaves it. */
export function settled(host: Host): ReachedHost {
  const seen = bare(host.role);
  return {
    ...seen,
    roleDirectory: 'present',
    role: { kind: 'text', text: host.roleFile ?? '' },
    joinUrl: { kind: 'text', text: host.joinUrlFile ?? '' },
    cluster: host.role === 'server' ? { kind: 'text', text: IDENTITY } : { kind: 'absent' },
    guardsInstalled: '1',
    override: { placed: 'ours', listed: false },
  };
}

export const IDENTITY = 'identity-1';

/** A member as k3s names it. */
export function member(host: string, more: Partial<Member> = {}): Member {
  return { name: `${host}-0123abcd`, nodeName: host, addresses: [], learner: false, ...more };
}

/** A Node of a server as k3s labels it. */
export function serverNode(host: string, more: Partial<NodeObservation> = {}): NodeObservation {
  const memberName = member(host).name;
  return {
    ...PLAIN_NODE,
    etcdLabel: true,
    isVoter: true,
    memberName,
    serverTraces: true,
    version: 'v1.33.4+k3s1',
    ...more,
  };
}

/** Hosts, and what a healthy cluster of those that run k3s as a server says; there is no record. */
export function observation(
  hosts: Readonly<Record<string, HostObservation>>,
  more: Partial<Observation> = {},
): Observation {
  const state = (name: string, service: 'k3s' | 'k3s-agent'): string => {
    const seen = hosts[name];
    return (seen?.kind === 'reached' && valueOr(seen.services, null)?.[service].state) || 'unknown';
  };
  const runs = (name: string, service: 'k3s' | 'k3s-agent'): boolean => state(name, service) === 'running';
  const names = Object.keys(hosts);
  const servers = names.filter((name) => runs(name, 'k3s'));
  const listed = names.filter((name) => ['running', 'stopped', 'restarting'].includes(state(name, 'k3s')));
  const members = known(listed.map((name) => member(name)));
  const nodes = names.flatMap((name): [string, NodeObservation][] => {
    if (listed.includes(name)) return [[name, serverNode(name, { ready: servers.includes(name) })]];
    return runs(name, 'k3s-agent') ? [[name, { ...PLAIN_NODE, version: 'v1.33.4+k3s1' }]] : [];
  });
  return {
    at: 0,
    observed: true,
    hosts: new Map(Object.entries(hosts)),
    servers: new Map(servers.map((name) => [name, { identity: known(IDENTITY), members, ready: known(true) }])),
    nodes: servers.length === 0 ? unknown('no server was asked') : known(new Map(nodes)),
    record: servers.length === 0 ? null : known(null),
    run: { done: [] },
    ...more,
  };
}

/** The record of a complete apply. */
export function record(more: Partial<RecordObservation> = {}): Observation['record'] {
  const at = {
    commit: BASE,
    started: BASE,
    begun: [],
    repository: 'o/r',
    group: 'github_runner_cluster',
    identity: IDENTITY,
  };
  return known({ ...at, run: 'a run', ...more });
}

/** An observation of a cluster to which the head was applied already. */
export function adopted(seen: Observation, commit = HEAD): Observation {
  return { ...seen, record: record({ commit, started: commit }) };
}

/** Every head host of the input, each as `make` has it. */
export function observeAll(input: PlanInput, make: (host: Host) => HostObservation): Observation {
  return observation(Object.fromEntries(input.desired.hosts.map(({ host }) => [host.name, make(host)])));
}

// What the tests of plans share: the usual fleet, and a plan in brief.

export const on = { controller: true };
export const five = { n1: {}, n2: {}, n3: {}, n4: { node_role: 'agent' }, n5: { node_role: 'agent' } };
export const url = (host: string) => `https://${host}:6443`;

export function plan(base: InventorySketch | null, head: InventorySketch, observed?: Observation): ClusterPlan {
  const input = inputOf(base, head);
  const made = makePlan(input, observed ?? assumeBase(input.desired, '1'), intent);
  expectValidPlan(
    planToJson({
      mode: 'plan',
      base: BASE,
      head: HEAD,
      inventory: 'inventory.yml',
      observed: observed !== undefined,
      clusters: [made],
    }),
  );
  return made;
}

export const steps = (made: ClusterPlan, host?: string) =>
  made.steps
    .filter((step) => host === undefined || step.host === host)
    .map((step) => [step.action, step.value].filter((part) => part !== null).join(' '));
export const refusals = (made: ClusterPlan) =>
  made.refusals.map((refusal) => `${refusal.code} ${refusal.hosts.join(' ')}`);
export const notes = (made: ClusterPlan) => made.notes.map((note) => note.code);
