import { type DesiredHost, hostsToContact, type World } from './desired.js';
import type { Observation } from './observation.js';
import { HOST_RULES } from './rules/index.js';
import type { Refusal, Step } from './step.js';
import { kindOf, STEP_KINDS } from './steps/index.js';

export interface NextSteps {
  /**
   * What may be done now. The steps of one host are done in this order and in one go; those of different hosts are
   * independent of each other.
   */
  readonly now: readonly Step[];
  /** Why other things are not done. */
  readonly refused: readonly Refusal[];
}

/**
 * The next steps of one cluster: what each host needs, unless a rule speaks against acting on it. Pure; done when both
 * lists are empty. An invalid cluster has none.
 */
export function nextSteps(world: World): NextSteps {
  if (!world.desired.cluster.valid) return { now: [], refused: [] };
  const entries = hostsToContact(world.desired);
  const refused = entries.flatMap((entry) => HOST_RULES.flatMap((rule) => rule(world, entry)));
  const stopped = new Set(refused.flatMap((refusal) => refusal.hosts));
  const now = entries.filter((entry) => !stopped.has(entry.host.name)).flatMap((entry) => hostSteps(world, entry));
  return { now, refused };
}

function hostSteps(world: World, desired: DesiredHost): readonly Step[] {
  const seen = world.observed.hosts.get(desired.host.name);
  if (seen?.kind !== 'reached' || !seen.provisioned) return [];
  const view = { world, desired, now: seen };
  return STEP_KINDS.flatMap((kind) => kind.wanted(view));
}

/** What will be observed after a step. A step on a host that was not reached changes nothing. */
export function predict(step: Step, observed: Observation): Observation {
  const seen = observed.hosts.get(step.host);
  if (seen?.kind !== 'reached') return observed;
  const hosts = new Map(observed.hosts);
  hosts.set(step.host, kindOf(step).predict(step, seen));
  return { ...observed, hosts, run: { done: [...observed.run.done, { action: step.action, host: step.host }] } };
}

/** The same for many steps: one copy of the hosts for all of them. */
export function predictAll(steps: readonly Step[], observed: Observation): Observation {
  const hosts = new Map(observed.hosts);
  for (const step of steps) {
    const seen = hosts.get(step.host);
    if (seen?.kind === 'reached') hosts.set(step.host, kindOf(step).predict(step, seen));
  }
  const done = steps.map(({ action, host }) => ({ action, host }));
  return { ...observed, hosts, run: { done: [...observed.run.done, ...done] } };
}
