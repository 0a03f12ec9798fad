import { fallback } from '../fleet/causes.js';
import type { Change } from '../fleet/change.js';
import type { Desired, Intent, World } from './desired.js';
import { nextSteps, predict } from './next-steps.js';
import { notesOf } from './notes.js';
import type { Observation } from './observation.js';
import type { ClusterPlan } from './plan.js';
import { votersOf } from './quorum.js';
import { rejoinChanges } from './rules/rejoin.js';
import type { Note, PlannedStep, Step, Voters } from './step.js';

/** What one cluster's plan is made of, beside what is observed. */
export interface PlanInput {
  readonly desired: Desired;
  readonly baseCommit: string | null;
  readonly changes: readonly Change[];
  readonly notes: readonly Note[];
}

// A host needs fewer steps than this in any sequence; more means that steps and predictions disagree.
const MOST_STEPS_A_HOST = 60;

/**
 * The plan of one cluster: next steps and prediction in turns until only refusals are left. What is shown is computed
 * by the code that acts. Throws when the turns do not end, which is our own error.
 */
export function makePlan(input: PlanInput, observed: Observation, intent: Intent): ClusterPlan {
  const { desired, baseCommit } = input;
  const { cluster } = desired;
  if (!cluster.valid) {
    return { cluster, base: baseCommit, changes: [], steps: [], refusals: [], notes: input.notes };
  }
  const steps: PlannedStep[] = [];
  const voters = declaredVoters(desired, observed);
  const most = MOST_STEPS_A_HOST * Math.max(1, desired.hosts.length);
  let world: World = { desired, observed, intent };
  let next = nextSteps(world);
  while (next.now.length > 0) {
    for (const step of next.now) steps.push({ ...step, number: steps.length + 1, voters });
    if (steps.length > most) throw new Error(`the plan of ${cluster.name} does not end`);
    world = predict(next.now, world);
    next = nextSteps(world);
  }
  return {
    cluster,
    base: baseCommit,
    changes: [...input.changes, ...rejoinChanges(cluster, intent), ...repairs(input, observed, steps)],
    steps,
    refusals: next.refused,
    notes: [...input.notes, ...notesOf(world)],
  };
}

/**
 * The voters of a plan that changes no membership. An unobserved plan counts the base's declared servers; what is
 * observed says nothing of voters yet.
 */
function declaredVoters({ cluster, base }: Desired, observed: Observation): Voters | null {
  if (observed.observed || cluster.datastore !== 'etcd' || base?.bootstrap == null) return null;
  const voters = base.servers.length;
  return votersOf(voters, voters, voters);
}

/** Hosts that need something although the inventory changed nothing for them: seen, so only where hosts were looked at. */
function repairs({ desired, changes }: PlanInput, observed: Observation, steps: readonly Step[]): readonly Change[] {
  if (!observed.observed) return [];
  const changed = new Set(changes.map((change) => change.host));
  const needing = new Map<string, Step[]>();
  for (const step of steps) {
    const list = needing.get(step.host);
    if (list === undefined) needing.set(step.host, [step]);
    else list.push(step);
  }
  return desired.hosts.flatMap(({ host }): Change[] => {
    const wanted = needing.get(host.name);
    if (wanted === undefined || changed.has(host.name)) return [];
    const what = [...new Set(wanted.map((step) => step.action))].join(', ');
    return [
      {
        host: host.name,
        kind: 'repaired',
        cause: fallback(host, `the host differs from what is declared: ${what}`),
        role: { from: host.role, to: host.role },
        joinUrl: { from: host.joinUrl, to: host.joinUrl },
      },
    ];
  });
}
