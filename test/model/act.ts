import { parseJoinUrl } from '../../src/fleet/join-url.js';
import { ACTIONS, type Action, type Step } from '../../src/plan/step.js';
import { calm, isHealthy, isUp, memberAt, nodeReady, removeMember, servedBy, start, votersOf } from './k3s.js';
import {
  boxOf,
  type Commit,
  freshBoxId,
  type Ground,
  type HostState,
  hostOf,
  type Service,
  type State,
  withBox,
  withHost,
  withNode,
} from './state.js';

// What each step of fleet-role really does to the fleet: the verbs of the hands and of the cluster room.

export type Acted =
  | { readonly kind: 'done'; readonly state: State }
  /** The step waits for something that has not happened. */
  | { readonly kind: 'waiting'; readonly why: string }
  | { readonly kind: 'failed'; readonly why: string };

const done = (state: State): Acted => ({ kind: 'done', state });
const failed = (why: string): Acted => ({ kind: 'failed', why });
const waiting = (why: string): Acted => ({ kind: 'waiting', why });

/** Steps that go through the API of a server that answers, not to the host they are about. */
export const THROUGH_API: ReadonlySet<Action> = new Set<Action>([
  'drain',
  'snapshot',
  'remove-member',
  'cancel-removal',
  'confirm-removed',
  'await-eviction',
  'clean-node',
  'delete-node',
  'clear-password',
  'await-ready',
  'await-voter',
  'settle',
  'uncordon',
  'write-record',
  'delete-record',
]);

/** Steps that only write files of one host: nothing outside it sees them, and nothing starts. */
export const ONLY_FILES: ReadonlySet<Action> = new Set<Action>([
  'create-role-directory',
  'install-guards',
  'add-override',
  'remove-override',
  'write-environment',
  'write-join-url',
  'write-role',
  'write-identity',
  'clear-role-files',
]);

/** Steps that change nothing but what the Node of their own host says, or nothing: they commute with those of others. */
export const QUIET: ReadonlySet<Action> = new Set<Action>(['drain', 'uncordon', 'snapshot', 'clear-password']);

const UNKNOWN_HOST = 'the step names no host of the fleet';

/** The state after one step, `target` being what this run applies. */
export function act(ground: Ground, state: State, step: Step, target: Commit): Acted {
  if (!(ACTIONS as readonly string[]).includes(step.action)) throw new Error(`no such action: ${step.action}`);
  if (!state.hosts.has(step.host)) throw new Error(UNKNOWN_HOST);
  if (THROUGH_API.has(step.action)) {
    if (!ground.hosts.some((name) => servedBy(state, name) === 0)) return failed('no API answers');
    return calmed(ground, throughApi(ground, state, step, target));
  }
  const host = hostOf(state, step.host);
  if (host.at !== 'up') return failed(`${step.host} is not reached`);
  return calmed(ground, onHost(ground, state, step, host));
}

function calmed(ground: Ground, acted: Acted): Acted {
  return acted.kind === 'done' ? done(calm(ground, acted.state)) : acted;
}

function serviceOf(step: Step): Service {
  if (step.service === null) throw new Error(`${step.action} of ${step.host} names no service`);
  return step.service;
}

function onHost(ground: Ground, state: State, step: Step, host: HostState): Acted {
  const name = step.host;
  const put = (change: Partial<HostState>): Acted => done(withHost(state, name, change));
  switch (step.action) {
    case 'create-role-directory':
      return put({ dir: true });
    case 'install-guards':
      return put({ guards: true });
    case 'add-override':
      return put({ placed: true });
    case 'remove-override':
      return put({ placed: false, listed: false });
    case 'write-environment':
      return writeEnvironment(state, step, host);
    case 'write-join-url':
      return put({ joinUrl: hostNamed(step.value ?? '') });
    case 'write-role':
      return put({ role: step.value ?? '' });
    case 'write-identity':
      return put({ cluster: identityOf(step.value ?? '') });
    case 'clear-role-files': {
      const files = (step.value ?? '').split(' ');
      const cleared = { ...(files.includes('role') ? { role: null } : {}) };
      return put(files.includes('join-url') ? { ...cleared, joinUrl: null } : cleared);
    }
    case 'set-restart-policy':
      return setPolicy(state, step, host);
    case 'recreate-service':
      return recreate(state, step, host);
    case 'stop-service':
      return boxOf(host, serviceOf(step)).is === 'absent'
        ? done(state)
        : done(withBox(state, name, serviceOf(step), { is: 'stopped', byHand: true }));
    case 'start-service':
      return startService(ground, state, step, host);
    case 'set-datastore-aside':
      if (isUp(host.k3s)) return failed('the container of k3s is up');
      if (host.db === null && !host.tombstone) return done(state);
      return put({ db: null, tombstone: false, aside: Math.min(3, host.aside + 1) });
    default:
      throw new Error(`the model cannot do ${step.action}`);
  }
}

/** The host that a URL names, or "" for an empty one. */
export function hostNamed(url: string): string {
  return url === '' ? '' : (parseJoinUrl(url)?.host ?? `bad ${url}`);
}

export const identityText = (cluster: number): string => `identity-${cluster}`;
export const identityOf = (text: string): number => Number(text.replace('identity-', ''));

function writeEnvironment(state: State, step: Step, host: HostState): Acted {
  const value = step.value ?? '';
  if (value === 'COMPOSE_FILE') return done(withHost(state, step.host, { listed: true }));
  const [variable = '', text = ''] = value.split(/=(.*)/s);
  if (variable === 'K3S_TLS_SAN_LIST') return done(withHost(state, step.host, { sans: text }));
  if (variable === 'K3S_JOIN_SERVER_URL' || variable === 'K3S_URL') {
    return done(withHost(state, step.host, { env: { ...host.env, [serviceOf(step)]: hostNamed(text) } }));
  }
  throw new Error(`the model does not know the variable ${variable}`);
}

function setPolicy(state: State, step: Step, host: HostState): Acted {
  const service = serviceOf(step);
  const policy = step.value === 'no' ? 'no' : 'unless-stopped';
  const box = boxOf(host, service);
  if (policy === 'no') {
    if (box.is === 'absent') return failed('there is no container');
    return done(withBox(withHost(state, step.host, { kept: host.kept ?? box.policy }), step.host, service, { policy }));
  }
  const restored = withHost(state, step.host, { kept: null });
  return done(box.is === 'absent' ? restored : withBox(restored, step.host, service, { policy }));
}

function recreate(state: State, step: Step, host: HostState): Acted {
  const service = serviceOf(step);
  const listed = host.placed || host.listed;
  const id = freshBoxId(state, step.host, service);
  const box = { is: 'created', policy: 'unless-stopped', mounted: listed, byHand: false, id } as const;
  return done(withBox(withHost(state, step.host, { listed }), step.host, service, box));
}

function startService(ground: Ground, before: State, step: Step, host: HostState): Acted {
  const service = serviceOf(step);
  const box = boxOf(host, service);
  const name = step.host;
  if (isUp(box) && box.is !== 'running') return done(start(ground, before, name, service));
  return done(composeUp(ground, withHost(before, name, { listed: host.placed || host.listed }), name, service));
}

/** `docker compose up -d SERVICE`: creates it, recreates it where the listed override is not mounted, starts it. */
export function composeUp(ground: Ground, before: State, name: string, service: Service): State {
  const host = hostOf(before, name);
  const box = boxOf(host, service);
  if (box.is !== 'absent' && (box.mounted || !host.listed)) {
    return isUp(box) ? before : start(ground, before, name, service);
  }
  const id = freshBoxId(before, name, service);
  const made = { is: 'created', policy: 'unless-stopped', mounted: host.listed, byHand: false, id } as const;
  return start(ground, withBox(before, name, service, made), name, service);
}

function throughApi(ground: Ground, state: State, step: Step, target: Commit): Acted {
  const name = step.host;
  const node = state.nodes.get(name);
  const listed = (state.clusters[0] ?? []).find((member) => member.host === name);
  const patch = (change: Parameters<typeof withNode>[2]): Acted =>
    node === undefined ? failed(`there is no Node ${name}`) : done(withNode(state, name, change));
  switch (step.action) {
    case 'drain':
      return patch({ cordon: node?.cordon === 'other' ? 'other' : 'ours' });
    case 'uncordon':
      return node === undefined || node.cordon !== 'ours' ? done(state) : patch({ cordon: 'no' });
    case 'snapshot':
      return done(state);
    case 'remove-member': {
      const missing = listed?.started === true ? { etcdLabel: true, memberName: listed.name } : {};
      return patch({ ...missing, removeAsked: true, removedName: null });
    }
    case 'cancel-removal':
      return patch({ removeAsked: false });
    case 'confirm-removed':
    case 'await-eviction':
      return listed === undefined ? done(state) : waiting(`${name} is still listed`);
    case 'clean-node':
      if (step.value !== 'server') return patch({ removeAsked: false, removedName: null });
      if (listed?.voter === true) return waiting(`${name} votes still`);
      return patch({ etcdLabel: false, memberName: null, removedName: null, removeAsked: false, traces: false });
    case 'clear-password':
      return node === undefined ? done(state) : patch({ secret: null });
    case 'delete-node':
      return deleteNode(state, name);
    case 'await-ready': {
      const agent = hostOf(state, name).role === 'agent';
      if (!nodeReady(ground, state, name)) return waiting(`${name} is not ready`);
      return agent && node?.etcdLabel === true ? waiting(`${name} has the etcd label`) : done(state);
    }
    case 'await-voter':
      return listed?.voter === true && memberAt(state, name)?.cluster === 0
        ? done(state)
        : waiting(`${name} does not vote`);
    case 'settle':
      return votersOf(state, 0).every((voter) => isHealthy(state, voter))
        ? done(state)
        : waiting('a voter is not healthy');
    case 'write-record':
      return done({ ...state, record: { commit: target, started: target, headBegun: false } });
    case 'delete-record':
      return done({ ...state, record: null });
    default:
      throw new Error(`the model cannot do ${step.action}`);
  }
}

/** Facts 1.8 and 3.10: the finalizer removes a member, unless an old removed-node-name makes it skip that. */
function deleteNode(state: State, name: string): Acted {
  const node = state.nodes.get(name);
  if (node === undefined) return done(state);
  if (node.etcdLabel && node.removedName === null) {
    if (node.memberName === null) return failed(`the Node ${name} hangs in Terminating`);
    const removed = removeMember(state, name, node.memberName);
    if (typeof removed === 'string') return failed(`the Node ${name} hangs in Terminating`);
    return done(withNode(removed, name, null));
  }
  return done(withNode(state, name, null));
}
