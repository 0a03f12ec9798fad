import { type DesiredHost, nodeOf, type SeenWorld } from './desired.js';
import type { Job } from './jobs.js';
import { valueOr } from './observation.js';
import { type JobView, step } from './sequences/view.js';
import type { Action, Step } from './step.js';

// What ends a change once its host has no job any more: it is written down, settled, and takes work again.

/** Steps after which the voters must have been healthy for 30 s before anything else changes (fact 7.5). */
const UNSETTLES: readonly Action[] = ['await-voter', 'confirm-removed', 'await-eviction'];

/** The host of the last membership change of this run that was not settled yet; null when there is none. */
export function unsettled({ observed, desired }: Pick<SeenWorld, 'observed' | 'desired'>): string | null {
  // A cluster on SQLite has no voters.
  if (desired.cluster.datastore === 'sqlite') return null;
  const { done } = observed.run;
  const at = done.findLastIndex(
    (each) =>
      (UNSETTLES as readonly string[]).includes(each.action) ||
      (each.action === 'recreate-service' && each.service === 'k3s'),
  );
  if (at < 0 || done.findLastIndex((each) => each.action === 'settle') > at) return null;
  return done[at]?.host ?? null;
}

/** The identity is written on every host that is seen as a member. */
export function writeIdentity(world: SeenWorld, { host, leaving }: DesiredHost): readonly Step[] {
  const seen = world.observed.hosts.get(host.name);
  const { members } = world;
  if (leaving || seen?.kind !== 'reached' || seen.roleDirectory !== 'present') return [];
  const { identity, membership } = members;
  const isMember =
    membership.kind === 'believed'
      ? members.standing(host) === 'voter'
      : membership.kind === 'sqlite' && membership.through.some((server) => server.name === host.name);
  if (identity === null || !isMember || (seen.cluster.kind === 'text' && seen.cluster.text === identity)) return [];
  return [step({ host }, 'write-identity', 'the cluster that this host is a member of', { value: identity })];
}

/** What this run started must be Ready, without the etcd role where it is an agent. */
export function awaitReady(world: SeenWorld, { host, leaving }: DesiredHost): readonly Step[] {
  const { nodes, run } = world.observed;
  if (leaving || nodes?.kind !== 'known') return [];
  const last = run.done.findLast((each) => each.host === host.name && each.action === 'start-service');
  if (last === undefined) return [];
  const node = nodeOf(world, host);
  if (node?.ready === true && (host.role === 'server' || !node.etcdLabel)) return [];
  const detail = host.role === 'server' ? 'its Node is Ready' : 'its Node is Ready, without the etcd role';
  return [step({ host }, 'await-ready', detail, { service: host.role === 'server' ? 'k3s' : 'k3s-agent' })];
}

/**
 * An agent that runs and is not Ready, and whose container has a node password of its own: k3s may refuse it for ever
 * (fact 4.4). Its secret is cleared once in a run; k3s makes it again at the next contact.
 */
export function mendPassword(world: SeenWorld, { host, leaving }: DesiredHost): readonly Step[] {
  const seen = world.observed.hosts.get(host.name);
  const node = nodeOf(world, host);
  if (leaving || host.role !== 'agent' || node === null || node.ready || seen?.kind !== 'reached') return [];
  if (valueOr(seen.passwordShared, true) || valueOr(seen.services, null)?.['k3s-agent'].state !== 'running') return [];
  if (world.observed.run.done.some((each) => each.host === host.name && each.action === 'clear-password')) return [];
  return [
    step({ host }, 'clear-password', 'the agent runs and its Node is not Ready: its password may be another one'),
  ];
}

/** Our cordon is lifted by whoever finds it on a node that no step needs; a node that someone else cordoned stays so. */
export function uncordon(world: SeenWorld, { host, leaving }: DesiredHost): readonly Step[] {
  const node = nodeOf(world, host);
  if (leaving || node === null || node.cordonedBy === null) return [];
  return [step({ host }, 'uncordon', 'no step needs the cordon any more')];
}

/** A snapshot before the first change of this run that could cost one its datastore. */
export function snapshotFirst(world: SeenWorld, job: Job): readonly Step[] {
  const { run } = world.observed;
  if (run.done.some((each) => each.action === 'snapshot') || job.begun || job.kind === 'rollout') return [];
  const through = world.members.through.find((host) => host.name !== job.entry.host.name) ?? world.members.through[0];
  if (through === undefined) return [];
  return [step({ host: through }, 'snapshot', `before the members change: ${job.entry.host.name}`)];
}

/** All voters healthy for 30 s. */
export function settle(host: JobView['host']): Step {
  return step({ host }, 'settle', 'all voters have been healthy for 30 s');
}
