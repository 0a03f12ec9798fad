import {
  type Box,
  boxOf,
  freshMemberName,
  type Ground,
  type HostState,
  hostOf,
  type Member,
  passwordOf,
  type Service,
  type State,
  withBox,
  withHost,
  withMembers,
  withNode,
} from './state.js';

// What k3s and the node guards do by themselves: section 3 of the specification, and k3s-facts.md.

export function quorum(voters: number): number {
  return Math.floor(voters / 2) + 1;
}

/** The etcd of this member runs, and what it started from is its own. */
export function isLive(state: State, member: Member): boolean {
  const host = hostOf(state, member.host);
  return (
    member.started &&
    host.at !== 'dead' &&
    host.k3s.is === 'running' &&
    host.db?.member === member.name &&
    !host.tombstone
  );
}

/** It runs and the others reach it. */
export function isHealthy(state: State, member: Member): boolean {
  return isLive(state, member) && hostOf(state, member.host).at === 'up';
}

export function votersOf(state: State, cluster: number): readonly Member[] {
  return (state.clusters[cluster] ?? []).filter((member) => member.voter);
}

/** The cluster can write, seen from where the hosts reach each other. */
export function hasQuorum(state: State, cluster: number): boolean {
  const voters = votersOf(state, cluster);
  return voters.length > 0 && voters.filter((voter) => isHealthy(state, voter)).length >= quorum(voters.length);
}

/** Clusters that serve, also behind a cut: a single voter has its quorum by itself. */
export function servedClusters(state: State): readonly number[] {
  return state.clusters.flatMap((_, cluster) => {
    const voters = votersOf(state, cluster);
    const [only] = voters;
    const alone = voters.length === 1 && only !== undefined && isLive(state, only);
    return alone || hasQuorum(state, cluster) ? [cluster] : [];
  });
}

/** The cluster that the API of this host serves; null when it answers nothing. A learner answers nothing. */
export function servedBy(state: State, name: string): number | null {
  const { at } = hostOf(state, name);
  if (at !== 'up') return null;
  for (const [cluster, members] of state.clusters.entries()) {
    const member = members.find((one) => one.host === name);
    if (member?.voter === true && isHealthy(state, member) && hasQuorum(state, cluster)) return cluster;
  }
  return null;
}

/** The cluster of a listed, live member on this host. */
export function memberAt(state: State, name: string): { readonly cluster: number; readonly member: Member } | null {
  for (const [cluster, members] of state.clusters.entries()) {
    const member = members.find((one) => one.host === name && isLive(state, one));
    if (member !== undefined) return { cluster, member };
  }
  return null;
}

function urlFor(host: HostState, service: Service): string {
  const file = boxOf(host, service).mounted ? (host.joinUrl ?? '') : '';
  return file !== '' ? file : (host.env[service] ?? '');
}

type Guarded = 'idle' | 'refusing' | 'start';

/** What the guards say before every start, in their order. */
function guardsSay(ground: Ground, state: State, name: string, service: Service): Guarded {
  const host = hostOf(state, name);
  if (!boxOf(host, service).mounted) return 'start';
  const own = service === 'k3s' ? 'server' : 'agent';
  if (host.role !== null && host.role !== own) return 'idle';
  if (service === 'k3s-agent') return 'start';
  if (host.tombstone) return 'idle';
  if (host.db !== null) return 'start';
  if (urlFor(host, service) !== '') return ground.tokenless.includes(name) ? 'refusing' : 'start';
  if (host.aside > 0) return 'refusing';
  // The first bootstrap asks the other servers' addresses: any answer means that a cluster exists.
  const answers = [...state.hosts].some(
    ([other, { at, k3s, db }]) =>
      other !== name && host.at === 'up' && at === 'up' && k3s.is === 'running' && db !== null,
  );
  return answers ? 'refusing' : 'start';
}

/** A container that exits by itself: its policy brings it back, or nothing does. */
function exits(state: State, name: string, service: Service, as: 'refusing' | 'crashing'): State {
  const { policy } = boxOf(hostOf(state, name), service);
  return withBox(state, name, service, policy === 'no' ? { is: 'stopped', byHand: false } : { is: as, byHand: false });
}

/** The container starts: guards, then k3s. */
export function start(ground: Ground, state: State, name: string, service: Service): State {
  const said = guardsSay(ground, state, name, service);
  if (said === 'idle') return withBox(state, name, service, { is: 'idle', byHand: false });
  if (said === 'refusing') return exits(state, name, service, 'refusing');
  const host = hostOf(state, name);
  // Both would use the same ports and data (fact 9.9).
  if (boxOf(host, service === 'k3s' ? 'k3s-agent' : 'k3s').is === 'running')
    return exits(state, name, service, 'crashing');
  return service === 'k3s' ? startServer(ground, state, name) : startAgent(state, name);
}

function startAgent(state: State, name: string): State {
  // Fact 2.8.
  if (urlFor(hostOf(state, name), 'k3s-agent') === '') return exits(state, name, 'k3s-agent', 'crashing');
  return withBox(state, name, 'k3s-agent', { is: 'running', byHand: false });
}

const running = (state: State, name: string): State => withBox(state, name, 'k3s', { is: 'running', byHand: false });

function startServer(ground: Ground, before: State, name: string): State {
  let state = before;
  const host = hostOf(state, name);
  const url = urlFor(host, 'k3s');
  if (host.db?.kind === 'sqlite') return running(state, name);
  if (host.db !== null && !host.tombstone) return running(state, name);
  if (host.tombstone) {
    // Facts 1.16 to 1.20; only a container without guards comes here.
    if (url === '') return ground.k3s === 'fixed' ? exits(state, name, 'k3s', 'crashing') : newCluster(state, name);
    state = withHost(state, name, { db: null, tombstone: false });
  }
  if (url === '') return newCluster(state, name);
  return joinable(state, name, url) ? running(state, name) : exits(state, name, 'k3s', 'crashing');
}

/** The server that it would join answers, and lists no other member of this node (fact 2.15). */
function joinable(state: State, name: string, url: string): boolean {
  const cluster = state.hosts.has(url) && hostOf(state, name).at === 'up' ? servedBy(state, url) : null;
  if (cluster === null) return false;
  return state.clusters[cluster]?.some((member) => member.host === name && member.started) !== true;
}

/** Facts 1.19 and 2.6: nothing to start from and nobody to join makes a cluster of one. */
function newCluster(before: State, name: string): State {
  const member = { host: name, name: `${name}-0000000${before.clusters.length}x`, voter: true, started: true };
  const state = { ...before, clusters: [...before.clusters, [member]] };
  const db = { kind: 'etcd' as const, cluster: before.clusters.length, member: member.name };
  return running(withHost(state, name, { db, tombstone: false }), name);
}

/** The host, or its engine, restarts: what its policy brings back starts anew. */
export function reboot(ground: Ground, before: State, name: string): State {
  let state = before;
  for (const service of ['k3s', 'k3s-agent'] as const) {
    const box = boxOf(hostOf(state, name), service);
    if (isUp(box)) state = withBox(state, name, service, { is: 'stopped', byHand: false });
  }
  for (const service of ['k3s', 'k3s-agent'] as const) {
    const box = boxOf(hostOf(state, name), service);
    if (box.is === 'stopped' && !box.byHand && box.policy !== 'no') state = start(ground, state, name, service);
  }
  return calm(ground, state);
}

export function isUp({ is }: Box): boolean {
  return is === 'running' || is === 'idle' || is === 'refusing' || is === 'crashing';
}

/** What happens at once, or again and again, until nothing of it is left to happen. */
export function calm(ground: Ground, before: State): State {
  let state = before;
  for (let round = 0; round < 50; round += 1) {
    const next = calmOnce(ground, state);
    if (next === state) return state;
    state = next;
  }
  throw new Error('the model does not come to rest');
}

function calmOnce(ground: Ground, state: State): State {
  for (const [name, host] of state.hosts) {
    if (host.at === 'dead') continue;
    for (const service of ['k3s', 'k3s-agent'] as const) {
      const { is } = boxOf(host, service);
      if (is !== 'refusing' && is !== 'crashing') continue;
      const tried = start(ground, state, name, service);
      if (boxOf(hostOf(tried, name), service).is !== is) return tried;
    }
    const next = host.at === 'up' ? register(ground, learn(state, name, host), name) : state;
    if (next !== state) return next;
  }
  return state;
}

/** A running etcd whose member is not listed any more is told so by the others (facts 1.13 and 1.15). */
function learn(state: State, name: string, host: HostState): State {
  const { db } = host;
  if (host.k3s.is !== 'running' || db === null || db.kind !== 'etcd' || host.tombstone) return state;
  if (state.clusters[db.cluster]?.some((member) => member.name === db.member) === true) return state;
  return hasQuorum(state, db.cluster) ? withHost(state, name, { tombstone: true }) : state;
}

/** A node that runs and reaches the cluster writes its Node, its labels and its password. */
function register(ground: Ground, state: State, name: string): State {
  const host = hostOf(state, name);
  const node = state.nodes.get(name);
  const member = memberAt(state, name);
  if (member !== null && member.cluster === 0 && hasQuorum(state, 0)) {
    const secret = node?.secret ?? passwordOf(ground, host, 'k3s');
    if (node?.memberName === member.member.name && node.secret !== null) return state;
    return withNode(state, name, { etcdLabel: true, memberName: member.member.name, traces: true, secret });
  }
  if (host.agent.is !== 'running' || !hasQuorum(state, 0)) return state;
  if (node !== undefined && node.secret !== null) return state;
  return withNode(state, name, { secret: passwordOf(ground, host, 'k3s-agent') });
}

/** Whether the kubelet of this host reports to the first cluster (fact 4.4: an agent's password must be the known one). */
export function nodeReady(ground: Ground, state: State, name: string): boolean {
  const host = hostOf(state, name);
  const node = state.nodes.get(name);
  if (host.at !== 'up' || node === undefined) return false;
  const server = memberAt(state, name);
  if (server !== null) return server.cluster === 0;
  return host.agent.is === 'running' && node.secret === passwordOf(ground, host, 'k3s-agent');
}

/** Something that happens by itself, sooner or later. */
export interface Happening {
  readonly host: string;
  readonly what: string;
  readonly next: State;
}

/** All that may happen next without anybody's doing. */
export function happenings(ground: Ground, state: State): readonly Happening[] {
  const found: Happening[] = [];
  const add = (host: string, what: string, next: State): void => {
    found.push({ host, what, next: calm(ground, next) });
  };
  for (const [name, host] of state.hosts) {
    if (host.at === 'up') {
      const joined = join(state, name);
      if (joined !== null) add(name, `${name} joins as a learner`, joined);
      // Fact 1.14: it may linger, and usually exits.
      if (host.k3s.is === 'running' && host.tombstone) {
        const { policy } = host.k3s;
        const down = withBox(state, name, 'k3s', { is: 'stopped', byHand: false });
        add(
          name,
          `${name}: k3s exits, its member being removed`,
          policy === 'no' ? down : start(ground, down, name, 'k3s'),
        );
      }
    }
    if (host.at === 'cut') add(name, `${name} is reachable again`, withHost(state, name, { at: 'up' }));
  }
  for (const [cluster, members] of state.clusters.entries()) {
    if (!hasQuorum(state, cluster)) continue;
    for (const member of members) {
      if (member.voter) continue;
      // Facts 2.12 and 2.13.
      const changed = (list: readonly Member[]): State => withMembers(state, cluster, list);
      const isIt = (other: Member): boolean => other.name === member.name;
      if (isHealthy(state, member)) {
        const list = members.map((other) => (isIt(other) ? { ...other, voter: true } : other));
        add(member.host, `the learner of ${member.host} becomes a voter`, changed(list));
      } else {
        add(member.host, `the learner of ${member.host} is evicted`, changed(members.filter((other) => !isIt(other))));
      }
    }
  }
  for (const name of state.nodes.keys()) {
    const acted = removalController(ground, state, name);
    if (acted !== null) add(name, acted.what, acted.next);
  }
  return found;
}

/** Facts 2.11, 2.14 and 7.2: an addition waits until there is no learner and every voter is there. */
function join(state: State, name: string): State | null {
  const host = hostOf(state, name);
  if (host.k3s.is !== 'running' || host.db !== null) return null;
  const url = urlFor(host, 'k3s');
  const cluster = state.hosts.has(url) ? servedBy(state, url) : null;
  if (cluster === null) return null;
  const members = state.clusters[cluster] ?? [];
  const own = members.find((member) => member.host === name);
  // Its own address is listed already: it was added and did not get further.
  if (own?.started === true) return null;
  if (own === undefined) {
    if (members.some((member) => !member.voter || !isHealthy(state, member))) return null;
  }
  const member = { host: name, name: own?.name ?? freshMemberName(state, name), voter: false, started: true };
  const joined = withMembers(state, cluster, [...members.filter((other) => other !== own), member]);
  return withHost(joined, name, { db: { kind: 'etcd', cluster, member: member.name } });
}

/** A join that got no further than the member list. */
export function halfJoin(state: State, name: string): State | null {
  const joined = join(state, name);
  if (joined === null) return null;
  const clusters = joined.clusters.map((members) =>
    members.map((member) => (member.host === name && !member.voter ? { ...member, started: false } : member)),
  );
  return { ...withHost(joined, name, { db: null }), clusters };
}

/** What k3s's controller does about the annotation `remove` (facts 1.2 and 1.5 to 1.10); null when nothing. */
function removalController(ground: Ground, state: State, name: string): Omit<Happening, 'host'> | null {
  const node = state.nodes.get(name);
  if (node === undefined || !node.removeAsked || !node.etcdLabel || !hasQuorum(state, 0)) return null;
  if (node.removedName !== null) {
    if (ground.k3s === 'older' && node.memberName === null) return null;
    const next = withNode(state, name, { removeAsked: false, removedName: null });
    return { what: `the request to remove ${name} is swallowed: its Node bears an old removed-node-name`, next };
  }
  if (node.memberName === null) return null;
  const removed = removeMember(state, name, node.memberName);
  if (removed === 'not now') return null;
  if (removed === 'refused') {
    return { what: `the removal of ${name} is refused`, next: withNode(state, name, { removeAsked: false }) };
  }
  const marks = { removedName: node.memberName, memberName: null, removeAsked: ground.k3s === 'older' };
  return { what: `${name} is removed from etcd`, next: withNode(removed, name, marks) };
}

/** Facts 1.9, 1.10 and 7.1. */
export function removeMember(state: State, name: string, memberName: string): State | 'not now' | 'refused' {
  const members = state.clusters[0] ?? [];
  const target = members.find((member) => member.host === name && member.name === memberName);
  if (target === undefined || !target.started) return state;
  const left = members.filter((member) => member !== target);
  const voters = left.filter((member) => member.voter);
  if (target.voter) {
    if (voters.length === 0) return 'refused';
    const healthy = voters.filter((voter) => isHealthy(state, voter)).length;
    if (healthy < quorum(voters.length)) return 'not now';
  }
  return withMembers(state, 0, left);
}
