import type { SeenWorld } from './desired.js';
import { unsettled } from './finish.js';
import { isListed, isMembershipJob, isUp, type Job, jobOf } from './jobs.js';
import { valueOr } from './observation.js';

/** The jobs of a cluster, and the one membership job whose turn it is (rule 3). */
export interface Jobs {
  /** By inventory name. */
  readonly all: ReadonlyMap<string, Job>;
  readonly turn: Job | null;
}

/** Works out what every host needs and whose turn it is. Hosts in `stopped` need nothing now. */
export function jobsOf(world: SeenWorld, stopped: ReadonlySet<string>): Jobs {
  const all = new Map<string, Job>();
  for (const entry of world.desired.hosts) {
    if (stopped.has(entry.host.name)) continue;
    const job = jobOf(world, entry);
    if (job !== null) all.set(entry.host.name, job);
  }
  // What a change of this run left to do on its host comes before any other change.
  const open = unsettled(world);
  const own = open === null ? undefined : all.get(open);
  if (own !== undefined && isMembershipJob(own)) return { all, turn: own };
  return { all, turn: turnOf(world, [...all.values()].filter(isMembershipJob)) };
}

/**
 * First a learner that was begun; then an unhealthy voter that the inventory no longer declares a server; then whoever
 * joins without being listed yet, and what else was begun; then promotions before removals, so that a server is added
 * before one goes; the rollout last. Within each the order of the inventory.
 */
function turnOf(world: SeenWorld, jobs: readonly Job[]): Job | null {
  let best: Job | null = null;
  let rank = Number.POSITIVE_INFINITY;
  for (const job of jobs) {
    const own = rankOf(world, job);
    if (own < rank) [best, rank] = [job, own];
  }
  return best;
}

function rankOf(world: SeenWorld, job: Job): number {
  if (job.kind === 'rejoin') return 0;
  const open = job.begun && (job.standing === 'learner' || job.standing === 'unstarted');
  if (open && job.kind === 'promotion') return 1;
  const removes = isListed(job.standing) && (job.kind === 'demotion' || job.kind === 'removal');
  const unhealthy = job.standing === 'voter' && !isHealthy(world, job);
  // Nothing can join past it (fact 7.2).
  if (job.kind === 'forced-removal' || (removes && unhealthy)) return 2;
  // k3s runs there and is not listed: it joins at any moment, which is an addition that is open.
  if (job.standing === 'none' && runsServer(job)) return 3;
  if (open) return 4;
  // What was taken out already only needs its tail.
  if (job.begun && job.kind !== 'rollout') return 5;
  if (job.kind === 'promotion') return 6;
  if (removes || job.kind === 'demotion' || job.kind === 'removal') return 7;
  return job.begun ? 8 : 9;
}

function runsServer({ now }: Job): boolean {
  const services = now === null ? null : valueOr(now.services, null);
  return services !== null && isUp(services.k3s);
}

function isHealthy(world: SeenWorld, { entry }: Job): boolean {
  const member = world.members.memberOf(entry.host);
  return member !== null && world.members.healthy(member);
}
