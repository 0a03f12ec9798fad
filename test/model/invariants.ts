import { parseJoinUrl } from '../../src/fleet/join-url.js';
import type { Desired, DesiredHost } from '../../src/plan/desired.js';
import type { Refusal, RefusalCode, Step } from '../../src/plan/step.js';
import { isHealthy, isUp, nodeReady, quorum, servedBy, servedClusters, votersOf } from './k3s.js';
import { boxOf, type Ground, type HostState, hostOf, passwordOf, type State } from './state.js';

/** What no step, fault or happening may lead to; null when it does not. */
export function brokenByChange(before: State, after: State, start: State): string | null {
  const served = servedClusters(after);
  if (served.length <= Math.max(servedClusters(before).length, servedClusters(start).length)) return null;
  return served.length > 1 ? `${served.length} identities are served` : null;
}

function isListed(state: State, name: string): boolean {
  return (state.clusters[0] ?? []).some(({ host }) => host === name);
}

/** The other hosts whose membership is about to change: listed and not a voter, asked away, or about to join. */
function openChanges(state: State, but: string): readonly string[] {
  const members = state.clusters[0] ?? [];
  return [...state.hosts].flatMap(([name, host]) => {
    if (name === but) return [];
    const own = members.find((member) => member.host === name);
    const joins = host.at === 'up' && host.k3s.is === 'running' && host.db === null;
    const open = own === undefined ? joins : !own.voter || state.nodes.get(name)?.removeAsked === true;
    return open ? [name] : [];
  });
}

/** What must not be decided in this state; null when it is not. */
export function brokenByDecision(ground: Ground, state: State, steps: readonly Step[], wanted: Desired): string | null {
  for (const step of steps) {
    const wrong = wrongDecision(ground, state, step, wanted);
    if (wrong !== null) return `${step.action} ${step.host} is decided ${wrong}`;
  }
  return null;
}

function wrongDecision(ground: Ground, state: State, step: Step, wanted: Desired): string | null {
  const host = hostOf(state, step.host);
  const node = state.nodes.get(step.host);
  if (servedClusters(state).length > 1) return 'while two identities are served';
  const joins = step.action === 'start-service' && step.service === 'k3s' && host.db === null;
  if (step.action === 'remove-member' || joins) {
    // A voter that is not well goes before anybody can join (fact 7.2).
    const target = votersOf(state, 0).find((voter) => voter.host === step.host);
    const sick = target !== undefined && !isHealthy(state, target);
    const open = openChanges(state, step.host).filter((name) => !sick || isListed(state, name));
    if (open.length > 0) return `while the membership of ${open.join(' and ')} is about to change`;
  }
  if (step.action === 'remove-member') {
    const pointing = wanted.hosts.filter(({ host: { name, serverUrl }, leaving }) => {
      const other = hostOf(state, name);
      return name !== step.host && !leaving && serverUrl === null && other.at === 'up' && other.joinUrl === step.host;
    });
    if (pointing.length > 0) return `while ${pointing.map((one) => one.host.name).join(' and ')} joins through it`;
    if (host.at !== 'up') return 'while nobody reaches it';
  }
  const stops = step.action === 'stop-service' || step.action === 'recreate-service';
  if (stops && boxOf(host, step.service ?? 'k3s').is === 'running') {
    if (step.service === 'k3s' && losesQuorum(state, step.host)) return 'and loses the quorum that is there';
    if (ground.runner === step.host) return 'while the run itself sits there';
    if (node?.cordon === 'no' && nodeReady(ground, state, step.host)) return 'while its node takes work';
  }
  return null;
}

/** Of one or two voters none can be spared: a restart of those is asked for, and announced. */
function losesQuorum(state: State, name: string): boolean {
  const voters = votersOf(state, 0);
  const healthy = voters.filter((voter) => isHealthy(state, voter));
  if (!healthy.some(({ host }) => host === name) || voters.length < 3) return false;
  return healthy.length >= quorum(voters.length) && healthy.length - 1 < quorum(voters.length);
}

/** What one of our steps must not do; null when it did not. */
export function brokenByStep(_ground: Ground, before: State, after: State, step: Step, wanted: Desired): string | null {
  const what = `${step.action} ${step.host}`;
  const members = before.clusters[0] ?? [];
  const host = hostOf(before, step.host);
  if (step.action === 'set-datastore-aside') {
    const own = members.find((member) => member.name === host.db?.member);
    if (own !== undefined) return `${what} moves the datastore of a listed member`;
  }
  const now = hostOf(after, step.host);
  if (host.db !== null && now.db === null && now.aside === host.aside && host.aside < 3)
    return `${what} loses a datastore`;
  if (step.action === 'write-join-url' && step.value !== null && step.value !== '') {
    const to = parseJoinUrl(step.value)?.host ?? '';
    const entry = wanted.hosts.find((one) => one.host.name === step.host);
    const own = entry?.host.serverUrl != null;
    const there = before.clusters.some((list) => list.some((member) => member.host === to && member.voter));
    if (!there && !own) return `${what} points it to ${to}, which is no member`;
  }
  return null;
}

/** Why a run may not end here with these refusals; null when it may. A rejoin is judged by its own host. */
export function wrongEnd(
  ground: Ground,
  state: State,
  wanted: Desired,
  refused: readonly Refusal[],
  rejoins: string | undefined,
): string | null {
  for (const refusal of refused) {
    const isSo = FACTS[refusal.code];
    if (isSo === undefined) return `refused with ${refusal.code}, which never holds here: ${refusal.message}`;
    if (!isSo(state, wanted, refusal)) return `refused with ${refusal.code}, which is not so: ${refusal.message}`;
  }
  if (refused.length > 0) return null;
  const judged = wanted.hosts.filter(({ host }) => rejoins === undefined || host.name === rejoins);
  const missing = judged.flatMap((entry) => unlike(ground, state, entry).map((why) => `${entry.host.name}: ${why}`));
  // A member that no commit in hand knows is a ghost: named in a note, never silently removed.
  for (const { host, leaving } of judged) {
    if (host.role === 'server' && !leaving) continue;
    // One that never started is evicted by the leader.
    if (state.clusters[0]?.some((member) => member.host === host.name && member.started))
      missing.push(`${host.name} is still a member`);
  }
  return missing.length === 0 ? null : `it ends without a refusal, and ${missing.join('; ')}`;
}

/** In what a host differs from what is declared. */
function unlike(ground: Ground, state: State, entry: DesiredHost): readonly string[] {
  const { host, leaving } = entry;
  const now = hostOf(state, host.name);
  const node = state.nodes.get(host.name);
  const member = (state.clusters[0] ?? []).find((one) => one.host === host.name);
  const left: string[] = [];
  if (leaving) {
    if (node !== undefined) left.push('its Node is there');
    if (now.at !== 'up') return left;
    if (isUp(now.k3s) || isUp(now.agent)) left.push('a service is up');
    if (now.k3s.is !== 'absent' && !now.k3s.mounted && now.k3s.policy === 'no') left.push('its k3s is without guards');
    return left;
  }
  if (now.at !== 'up') return ['it is not reached, and nothing says so'];
  // The controller is off: the files are gone, and what runs there is nobody's concern here.
  if (host.roleFile === null) return now.role === null ? [] : [`role names '${now.role}'`];
  const own = host.role === 'server' ? 'k3s' : 'k3s-agent';
  const other = host.role === 'server' ? now.agent : now.k3s;
  if (boxOf(now, own).is !== 'running') left.push(`${own} is ${boxOf(now, own).is}`);
  if (isUp(other) && other.is !== 'idle') left.push(`the other service is ${other.is}`);
  if (now.role !== host.roleFile) left.push(`role names '${now.role ?? ''}'`);
  if (host.role === 'server' && (member === undefined || !isHealthy(state, member) || !member.voter)) {
    left.push('it does not vote');
  }
  if (host.role === 'server' && now.tombstone) left.push('its tombstone is there');
  left.push(...leftovers(now));
  // Where each container has a password of its own, somebody's start in between leaves an agent rejected (fact 4.4):
  // that is for a person to mend, and no member's matter.
  const rejected = node !== undefined && node.secret !== passwordOf(ground, now, 'k3s-agent');
  const mendable = host.role === 'server' || ground.passwordShared || !rejected;
  if (mendable && !nodeReady(ground, state, host.name)) left.push('its Node is not ready');
  if (node?.cordon === 'ours') left.push('our cordon is there');
  if (node?.removeAsked === true) left.push('a removal is asked for');
  if (host.role === 'agent' && (node?.etcdLabel === true || node?.memberName != null || node?.traces === true)) {
    left.push('its Node has traces of a server');
  }
  const to = now.joinUrl ?? '';
  const members = state.clusters[0] ?? [];
  if (to !== '' && host.serverUrl === null && !members.some((one) => one.host === to)) left.push(`it joins ${to}`);
  if (to === host.name) left.push('it joins itself');
  return left;
}

function leftovers(now: HostState): readonly string[] {
  const left: string[] = [];
  if (now.kept !== null) left.push('restart-policy is there');
  for (const box of [now.k3s, now.agent])
    if (box.is !== 'absent' && box.policy === 'no') left.push('a restart policy is no');
  return left;
}

type Fact = (state: State, wanted: Desired, refusal: Refusal) => boolean;

const hostsOf = (state: State, refusal: Refusal): readonly HostState[] =>
  refusal.hosts.flatMap((name) => {
    const host = state.hosts.get(name);
    return host === undefined ? [] : [host];
  });

const unhealthy = (state: State): boolean => votersOf(state, 0).some((voter) => !isHealthy(state, voter));

/** Some host that the commits in hand know answers; a ghost is asked by nobody. */
const answers = (state: State, wanted: Desired): boolean =>
  wanted.hosts.some(({ host }) => servedBy(state, host.name) === 0);

/** What must be so where a refusal says it. A code that is not here is never right in these fleets. */
const FACTS: { readonly [C in RefusalCode]?: Fact } = {
  unreachable: (state, _wanted, refusal) =>
    refusal.hosts.length > 0 && hostsOf(state, refusal).every(({ at }) => at !== 'up'),
  'unhealthy-voter': (state, wanted) => unhealthy(state) || ghosts(state, wanted),
  'no-quorum': (state, wanted, refusal) => {
    if (!answers(state, wanted)) return true;
    // A rejoin does not count the voice of its own host, and a ghost is asked by nobody.
    const asked = votersOf(state, 0).filter(({ host }) => wanted.hosts.some((one) => one.host.name === host));
    const counted = asked.filter((voter) => isHealthy(state, voter) && !refusal.hosts.includes(voter.host));
    return counted.length < quorum(votersOf(state, 0).length);
  },
  'no-lock': (state, wanted) => !answers(state, wanted),
  'pending-change': (state, wanted) =>
    ghosts(state, wanted) ||
    (state.clusters[0] ?? []).some(
      ({ host, voter }) => !voter || state.nodes.get(host)?.removeAsked === true || hostOf(state, host).at !== 'up',
    ),
  quorum: (state, wanted) => {
    const voters = votersOf(state, 0);
    const healthy = voters.filter((voter) => isHealthy(state, voter)).length;
    return healthy - 1 < quorum(Math.max(1, voters.length - 1)) || unhealthy(state) || ghosts(state, wanted);
  },
  'two-identities': (state, wanted) =>
    servedClusters(state).length > 1 ||
    state.clusters.length > 1 ||
    wanted.hosts.some(({ host }) => (state.hosts.get(host.name)?.cluster ?? 0) !== 0),
  'needs-rejoin': (state, _wanted, refusal) =>
    refusal.hosts.length > 0 &&
    hostsOf(state, refusal).every(({ db, tombstone, at }) => db === null || tombstone || at !== 'up'),
  guards: (state, _wanted, refusal) =>
    refusal.hosts.length > 0 &&
    hostsOf(state, refusal).every(
      ({ k3s, agent }) => isUp(k3s) && k3s.is !== 'idle' && isUp(agent) && agent.is !== 'idle',
    ),
  'running-role': (state, wanted, refusal) =>
    wanted.hosts.some(({ host }) => {
      const now = state.hosts.get(host.name);
      const own = host.role === 'server' ? now?.k3s : now?.agent;
      return refusal.hosts.includes(host.name) && own?.is !== 'running';
    }),
  'no-token': (state, _wanted, refusal) => refusal.hosts.some((name) => state.hosts.has(name)),
  'runs-on-node': () => true,
  rollback: (state) => state.record?.started === 'back',
  adoption: (state, wanted) => state.record === null || !answers(state, wanted),
  'unknown-node': (state, _wanted, refusal) => refusal.hosts.some((name) => !state.nodes.has(name)),
};

/** A member that no host of the inventory has. */
function ghosts(state: State, wanted: Desired): boolean {
  const names = new Set(wanted.hosts.map(({ host }) => host.name));
  return (state.clusters[0] ?? []).some(({ host }) => !names.has(host));
}
