import { jobOf } from '../jobs.js';
import { type HostRule, refuse } from './rule.js';

/** Rule 11: a run whose own runner lives on a node would cut itself off when it stops that node. */
export const notItsOwnNode: HostRule = (world, entry) => {
  const { host, leaving } = entry;
  const { runsOn } = world.intent;
  if (runsOn === null || runsOn !== host.nodeName) return [];
  const job = jobOf(world, entry);
  if (!leaving && (job === null || job.kind === 'unfencing' || job.kind === 'start')) return [];
  const message = `The runner of this workflow sits on ${host.name}, and the node would be stopped (rule 11). Run it on a GitHub-hosted runner, or on a node that stays.`;
  return refuse('runs-on-node', entry, message);
};
