import { nodeOf, type SeenWorld } from '../desired.js';
import { isListed, type Job } from '../jobs.js';
import type { Step } from '../step.js';
import { step } from './view.js';

/** Rule 10: the member of a host that cannot be reached is asked away by force; the host itself is not touched. */
export function forcedRemoval(world: SeenWorld, { entry, standing }: Job): readonly Step[] {
  const { host } = entry;
  if (!isListed(standing)) return [];
  if (standing === 'unstarted') {
    return [step({ host }, 'await-eviction', 'its member never started, so the leader takes it out')];
  }
  const value = world.members.memberOf(host)?.name ?? '';
  const node = nodeOf(world, host);
  if (node?.removeAsked !== true || node.removedName !== null) {
    const detail = `ask a server to remove the member ${value}: force-unreachable is set`;
    return [step({ host }, 'remove-member', detail, { value })];
  }
  return [step({ host }, 'confirm-removed', `no server may list ${value} any more`, { value })];
}
