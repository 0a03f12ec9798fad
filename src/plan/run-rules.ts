import type { World } from './desired.js';
import { type NextSteps, nextSteps, seeAs, seeWorld } from './next-steps.js';
import { valueOr } from './observation.js';
import { step } from './sequences/view.js';
import type { Step } from './step.js';

// What an apply asks about its run as a whole.

/** Whether the lock is needed: something would be written, or may be in a moment, and there is an API to take it from. */
export function needsLock(world: World): boolean {
  if (seeAs(world).members.through.length === 0) return false;
  const next = nextSteps(world);
  return next.now.length > 0 || mayHeal(world, next);
}

/**
 * Whether waiting may mend what is refused: an unhealthy voter, or one still open, of a host whose k3s runs or is on
 * its way. What nobody starts does not come back by itself.
 */
export function mayHeal(world: World, { refused }: NextSteps): boolean {
  if (!refused.some(({ code }) => code === 'unhealthy-voter' || code === 'no-quorum' || code === 'pending-change'))
    return false;
  const { members } = seeWorld(world);
  if (members.membership.kind === 'split') return false;
  return world.desired.hosts.some(({ host }) => {
    const seen = world.observed.hosts.get(host.name);
    if (seen?.kind !== 'reached') return false;
    const state = valueOr(seen.services, null)?.k3s.state;
    if (state !== 'running' && state !== 'restarting') return false;
    const member = members.memberOf(host);
    return member === null ? members.membership.kind !== 'believed' : !members.healthy(member);
  });
}

/** The record of an apply that is complete without a step, where it does not name this commit yet; else null. */
export function isDoneButForTheRecord(world: World): Step | null {
  const { observed, intent, desired } = world;
  const { record } = observed;
  if (desired.cluster.controller !== true || intent.mode !== 'apply' || record?.kind !== 'known') return null;
  if (record.value !== null && record.value.commit === intent.head) return null;
  const through = seeWorld(world).members.through[0];
  if (through === undefined) return null;
  return step({ host: through }, 'write-record', 'everything is as this commit declares it', { value: intent.head });
}
