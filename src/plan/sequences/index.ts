import type { JobKind } from '../jobs.js';
import { demotion, removal } from './demotion.js';
import { forcedRemoval } from './forced-removal.js';
import { promotion } from './promotion.js';
import { rejoin } from './rejoin.js';
import { rollout, start } from './restart.js';
import { unfencing } from './unfencing.js';
import type { Sequence } from './view.js';

/** The sequence of each job on a host that was reached. */
export const SEQUENCES: { readonly [K in Exclude<JobKind, 'forced-removal'>]: Sequence } = {
  promotion,
  demotion,
  removal,
  unfencing,
  rejoin,
  start,
  rollout,
};

export { forcedRemoval };
