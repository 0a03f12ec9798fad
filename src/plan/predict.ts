import { nodeOf, type World } from './desired.js';
import { Members, nodeNameOf } from './membership.js';
import {
  known,
  type Member,
  type NodeObservation,
  type Observation,
  PLAIN_NODE,
  type ReachedHost,
  type ServerObservation,
  type ServiceObservation,
} from './observation.js';
import type { Action, Step } from './step.js';
import { kindOf } from './steps/index.js';

/** The world as it will be observed after these steps. A step on a host that was not reached changes only the cluster. */
export function predict(steps: readonly Step[], world: World): World {
  const { observed } = world;
  const hosts = new Map(observed.hosts);
  let after: World = { ...world, observed: { ...observed, hosts } };
  for (const step of steps) {
    const seen = hosts.get(step.host);
    if (seen?.kind === 'reached') hosts.set(step.host, onHost(step, seen, world));
    // What is started again in the same go is not away: of an only server nobody else could tell the cluster.
    const change = isBack(step, steps) ? undefined : IN_CLUSTER[step.action];
    if (change !== undefined) after = { ...after, observed: { ...after.observed, ...change(after, step) } };
  }
  const done = steps.map(({ action, host, service }) => ({ action, host, service }));
  return { ...after, observed: { ...after.observed, run: { done: [...observed.run.done, ...done] } } };
}

function isBack({ action, host, service }: Step, steps: readonly Step[]): boolean {
  if (action !== 'recreate-service') return false;
  return steps.some((each) => each.action === 'start-service' && each.host === host && each.service === service);
}

function onHost(step: Step, now: ReachedHost, world: World): ReachedHost {
  const change = ON_HOST[step.action];
  if (change !== undefined) return change(step, now, world);
  return kindOf(step)?.predict(step, now) ?? now;
}

type OnHost = (step: Step, now: ReachedHost, world: World) => ReachedHost;

function withService(now: ReachedHost, step: Step, more: Partial<ServiceObservation>): ReachedHost {
  if (step.service === null || now.services.kind === 'unknown') return now;
  const services = now.services.value;
  return { ...now, services: known({ ...services, [step.service]: { ...services[step.service], ...more } }) };
}

const ON_HOST: { readonly [A in Action]?: OnHost } = {
  'set-restart-policy': (step, now) => ({
    ...withService(now, step, { restartPolicy: step.value }),
    keptPolicy: step.value === 'no' ? { kind: 'text', text: policyOf(now) } : { kind: 'absent' },
  }),
  'recreate-service': (step, now) => {
    const guardsInside = now.guardsInstalled;
    const listed = { ...now, override: { ...now.override, listed: isPlaced(now) } };
    // Compose gives the new container the policy of its files, which is what was found there.
    const restartPolicy = now.keptPolicy.kind === 'text' ? now.keptPolicy.text : policyOf(now);
    return withService(listed, step, { state: 'stopped', mounted: true, guardsInside, restartPolicy });
  },
  'stop-service': (step, now) => withService(now, step, { state: 'stopped' }),
  'start-service': (step, now) => {
    const placed = isPlaced(now);
    const listed = { ...now, override: { ...now.override, listed: now.override.listed || placed } };
    const inside = placed ? { mounted: true, guardsInside: now.guardsInstalled } : {};
    const started = withService(listed, step, { state: 'running', ...inside });
    return step.service === 'k3s' && now.datastore.kind === 'known' && now.datastore.value === 'none'
      ? { ...started, datastore: known('etcd') }
      : started;
  },
  'set-datastore-aside': (_step, now) => ({
    ...now,
    datastore: known('none'),
    tombstone: known(false),
    setAside: known(true),
  }),
  'write-identity': (step, now) => ({ ...now, cluster: { kind: 'text', text: step.value ?? '' } }),
  // k3s learns that it was removed, writes the tombstone and exits; what restarts it then meets the guards.
  'confirm-removed': (step, now) => {
    if (now.services.kind === 'unknown') return now;
    const { k3s } = now.services.value;
    if (k3s.state !== 'running') return now;
    const state = k3s.restartPolicy === 'no' ? ('stopped' as const) : ('idle' as const);
    return { ...withService(now, { ...step, service: 'k3s' }, { state }), tombstone: known(true) };
  },
};

/** A file of ours lies there, in whichever form. */
function isPlaced({ override }: ReachedHost): boolean {
  return override.placed === 'ours' || override.placed === 'ours-entrypoint';
}

function policyOf(now: ReachedHost): string {
  const policy = now.services.kind === 'known' ? now.services.value.k3s.restartPolicy : null;
  return policy ?? 'unless-stopped';
}

type InCluster = (world: World, step: Step) => Partial<Observation>;

const IN_CLUSTER: { readonly [A in Action]?: InCluster } = {
  'stop-service': (world, step) => (step.service === 'k3s' ? silence(world, step) : notReady(world, step)),
  'recreate-service': (world, step) => (step.service === 'k3s' ? silence(world, step) : notReady(world, step)),
  'start-service': (world, step) => (step.service === 'k3s' ? started(world, step) : agentStarted(world, step)),
  'remove-member': (world, step) => patch(world, step, { removeAsked: true, removedName: null }),
  'cancel-removal': (world, step) => patch(world, step, { removeAsked: false }),
  'confirm-removed': (world, step) => memberGone(world, step),
  'await-eviction': (world, step) => memberGone(world, step),
  'await-voter': (world, step) => votes(world, step),
  'clean-node': (world, step) =>
    step.value === 'stale'
      ? patch(world, step, { removeAsked: false, removedName: null })
      : patch(world, step, {
          etcdLabel: false,
          isVoter: null,
          memberName: null,
          memberAddress: null,
          removedName: null,
          removeAsked: false,
          serverTraces: false,
        }),
  'delete-node': (world, step) => ({ nodes: withoutNode(world, step) }),
  drain: (world, step) => {
    const node = nodeAt(world, step);
    return node === null || node.unschedulable
      ? {}
      : patch(world, step, { unschedulable: true, cordonedBy: 'this run' });
  },
  uncordon: (world, step) => patch(world, step, { unschedulable: false, cordonedBy: null }),
  'await-ready': (world, step) => patch(world, step, { ready: true }),
  'write-record': (world, step) => ({
    record: known({
      commit: step.value,
      started: step.value,
      begun: [],
      repository: world.intent.repository,
      group: world.desired.cluster.name,
      identity: new Members(world).identity ?? '',
      run: '',
    }),
  }),
  'delete-record': () => ({ record: known(null) }),
};

function hostOf(world: World, step: Step) {
  return world.desired.hosts.find((entry) => entry.host.name === step.host)?.host ?? null;
}

function nodeAt(world: World, step: Step): NodeObservation | null {
  const host = hostOf(world, step);
  return host === null ? null : nodeOf(world, host);
}

/** The step's Node with these changes; nothing where it has none. */
function patch(world: World, step: Step, more: Partial<NodeObservation>): Partial<Observation> {
  const node = nodeAt(world, step);
  return node === null ? {} : setNode(world, step, { ...node, ...more });
}

function setNode(world: World, step: Step, node: NodeObservation): Partial<Observation> {
  const { nodes, observed } = world.observed;
  const host = hostOf(world, step);
  const name = host === null ? null : nodeNameOf(host, observed);
  if (nodes?.kind !== 'known' || name === null) return {};
  return { nodes: known(new Map(nodes.value).set(name, node)) };
}

function withoutNode(world: World, step: Step): Observation['nodes'] {
  const { nodes, observed } = world.observed;
  const host = hostOf(world, step);
  if (nodes?.kind !== 'known' || host === null) return nodes;
  const gone = nodeNameOf(host, observed);
  return known(new Map([...nodes.value].filter(([name]) => name !== gone)));
}

function notReady(world: World, step: Step): Partial<Observation> {
  return patch(world, step, { ready: false });
}

/** Its API does not answer any more. */
function silence(world: World, step: Step): Partial<Observation> {
  const servers = new Map(world.observed.servers);
  servers.delete(step.host);
  return { servers, ...notReady(world, step) };
}

/** Every server tells this list. */
function withMembers(world: World, members: readonly Member[]): ReadonlyMap<string, ServerObservation> {
  return new Map([...world.observed.servers].map(([name, server]) => [name, { ...server, members: known(members) }]));
}

function memberGone(world: World, step: Step): Partial<Observation> {
  const host = hostOf(world, step);
  const members = new Members(world);
  const member = host === null ? null : members.memberOf(host);
  const servers = new Map(
    withMembers(
      world,
      members.all.filter((each) => each !== member),
    ),
  );
  servers.delete(step.host);
  const removedName = member?.name === '' ? null : (member?.name ?? null);
  return {
    servers,
    ...patch(world, step, {
      ready: false,
      isVoter: false,
      memberName: null,
      memberAddress: null,
      removeAsked: false,
      removedName,
    }),
  };
}

/** A listed member serves again; another one joins as a learner. */
function started(world: World, step: Step): Partial<Observation> {
  const host = hostOf(world, step);
  const members = new Members(world);
  if (host === null) return {};
  const node = nodeOf(world, host) ?? PLAIN_NODE;
  const member = members.memberOf(host);
  if (member !== null && !member.learner)
    return { ...serves(world, step.host, members.all), ...patch(world, step, { ready: true }) };
  if (member !== null || members.membership.kind !== 'believed') return {};
  const nodeName = nodeNameOf(host, world.observed.observed);
  const learner: Member = { name: `${nodeName}-00000000`, nodeName, addresses: [], learner: true };
  const servers = withMembers(world, [...members.all, learner]);
  return {
    servers,
    ...setNode(world, step, { ...node, ready: true, etcdLabel: true, serverTraces: true, memberName: learner.name }),
  };
}

function agentStarted(world: World, step: Step): Partial<Observation> {
  return setNode(world, step, { ...(nodeAt(world, step) ?? PLAIN_NODE), ready: false });
}

function votes(world: World, step: Step): Partial<Observation> {
  const host = hostOf(world, step);
  const members = new Members(world);
  if (host === null) return {};
  const own = members.memberOf(host);
  const all = members.all.map((member) => (member === own ? { ...member, learner: false } : member));
  return { ...serves(world, step.host, all), ...patch(world, step, { ready: true, isVoter: true }) };
}

function serves(world: World, name: string, members: readonly Member[]): Partial<Observation> {
  const identity = new Members(world).identity;
  if (identity === null) return {};
  const servers = new Map(withMembers(world, members));
  servers.set(name, { identity: known(identity), members: known(members), ready: known(true) });
  return { servers };
}
