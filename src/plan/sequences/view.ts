import type { Host, Service } from '../../fleet/fleet.js';
import { nodeOf, type SeenWorld } from '../desired.js';
import { isUp, type Job } from '../jobs.js';
import type { Standing } from '../membership.js';
import { type NodeObservation, type ReachedHost, type ServiceObservation, valueOr } from '../observation.js';
import type { Action, Step } from '../step.js';

/** A job on a host that was reached, with what its sequence looks at. */
export interface JobView {
  readonly world: SeenWorld;
  readonly job: Job;
  readonly host: Host;
  readonly leaving: boolean;
  readonly now: ReachedHost;
  readonly standing: Standing;
  readonly server: ServiceObservation;
  readonly agent: ServiceObservation;
  /** Its Node; null where there is none. */
  readonly node: NodeObservation | null;
}

/** Null where docker (systemctl) did not answer: then nothing is decided about services. */
export function viewJob(world: SeenWorld, job: Job): JobView | null {
  const { now, entry, standing } = job;
  const services = now === null ? null : valueOr(now.services, null);
  if (now === null || services === null) return null;
  return {
    world,
    job,
    host: entry.host,
    leaving: entry.leaving,
    now,
    standing,
    server: services.k3s,
    agent: services['k3s-agent'],
    node: nodeOf(world, entry.host),
  };
}

/** A sequence of section 4: the next steps of this host, the first that are not true yet; none when it waits or is done. */
export type Sequence = (view: JobView) => readonly Step[];

export function step(
  { host }: Pick<JobView, 'host'>,
  action: Action,
  detail: string,
  more: { readonly service?: Service; readonly value?: string } = {},
): Step {
  return { action, host: host.name, service: more.service ?? null, value: more.value ?? null, detail };
}

/** This run did the step on this host, and none of `undone` after it. */
export function didSince({ world, host }: JobView, action: Action, undone: readonly Action[] = []): boolean {
  const { done } = world.observed.run;
  const last = (names: readonly string[]): number =>
    done.findLastIndex((each) => each.host === host.name && names.includes(each.action));
  const at = last([action]);
  return at >= 0 && at > last(undone);
}

/** Rule 9: its jobs are waited for before a running node is stopped. */
export function drainFirst(view: JobView, why: string): readonly Step[] {
  const { world, node, server, agent } = view;
  if (world.intent.drain === 'none' || node === null || !(isUp(server) || isUp(agent))) return [];
  // A Node that is not cordoned any more (it was deleted and came back) takes work again.
  if (node.unschedulable && didSince(view, 'drain', ['uncordon'])) return [];
  const how = world.intent.drain === 'wait' ? 'cordon it, wait for its runner pods, then' : 'cordon it, then';
  return [step(view, 'drain', `${how} evict its other pods: ${why}`)];
}

/** The first part that is not empty. */
export function firstOf(...parts: readonly (() => readonly Step[])[]): readonly Step[] {
  for (const part of parts) {
    const steps = part();
    if (steps.length > 0) return steps;
  }
  return [];
}

/** Whether the role file holds exactly this. */
export function roleIs({ now }: JobView, role: 'server' | 'agent' | ''): boolean {
  return now.role.kind === 'text' && now.role.text === role;
}

export function holdsPast({ now }: JobView): boolean {
  return valueOr(now.datastore, 'none') !== 'none' || valueOr(now.tombstone, false);
}
