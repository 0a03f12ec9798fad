import { fallback } from '../fleet/causes.js';
import type { Change } from '../fleet/change.js';
import type { Desired, Intent, World } from './desired.js';
import { Members } from './membership.js';
import { nextSteps, predict } from './next-steps.js';
import { notesOf } from './notes.js';
import type { Observation } from './observation.js';
import type { ClusterPlan } from './plan.js';
import { votersOf } from './quorum.js';
import { rejoinChanges } from './rules/rejoin.js';
import type { Action, Note, PlannedStep, Step, Voters } from './step.js';

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
  const most = MOST_STEPS_A_HOST * Math.max(1, desired.hosts.length);
  let world: World = { desired, observed, intent };
  let next = nextSteps(world);
  while (next.now.length > 0) {
    for (const { step, voters } of withVoters(next.now, world)) {
      steps.push({ ...step, number: steps.length + 1, voters });
    }
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

/** Steps that may change how many voters there are, or how many of them are healthy. */
const MOVES_VOTERS: ReadonlySet<Action> = new Set([
  'confirm-removed',
  'await-eviction',
  'await-voter',
  'start-service',
  'stop-service',
  'recreate-service',
]);

/** Each step with the voters before and after it; only those steps are predicted alone that can move them. */
export function withVoters(
  steps: readonly Step[],
  start: World,
): readonly { readonly step: Step; readonly voters: Voters | null }[] {
  let world = start;
  let before = votersIn(world);
  return steps.map((step) => {
    if (!MOVES_VOTERS.has(step.action)) return { step, voters: around(before, before) };
    world = predict([step], world);
    const after = votersIn(world);
    const voters = around(before, after);
    before = after;
    return { step, voters };
  });
}

interface VoterCount {
  readonly all: number;
  readonly healthy: number;
}

/** Null for SQLite, for a cluster that joins a server outside the inventory, and where no list is believed. */
function votersIn(world: World): VoterCount | null {
  const members = new Members(world);
  if (members.membership.kind !== 'believed' || world.desired.cluster.bootstrap === null) return null;
  return { all: members.voters.length, healthy: members.healthyVoters.length };
}

function around(before: VoterCount | null, after: VoterCount | null): Voters | null {
  return before === null || after === null ? null : votersOf(before.all, after.all, after.healthy);
}

/** Steps that go through a host without being about it. */
const FOR_THE_CLUSTER: ReadonlySet<Action> = new Set(['snapshot', 'write-record', 'delete-record']);

/** Hosts that need something although the inventory changed nothing for them: seen, so only where hosts were looked at. */
function repairs({ desired, changes }: PlanInput, observed: Observation, steps: readonly Step[]): readonly Change[] {
  if (!observed.observed) return [];
  const changed = new Set(changes.map((change) => change.host));
  const needing = new Map<string, Step[]>();
  for (const step of steps) {
    if (FOR_THE_CLUSTER.has(step.action)) continue;
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
