import { CHANGE_KINDS, type ChangeKind } from '../fleet/change.js';
import type { ClusterPlan, Mode } from '../plan/plan.js';
import type { PlannedStep } from '../plan/step.js';
import { type StepState, stepKey } from '../plan/step.js';
import { CHECK_RUN_TITLE_BUDGET, cutText } from './budget.js';
import { visible } from './escape.js';
import { RESULTS, type Result, type RunReport } from './run.js';

/** What a run came to, by cluster, without anything that the result does not depend on. */
export interface RunOutcome {
  readonly mode: Mode;
  readonly dryRun: boolean;
  /** A step or host failed, or bad input, a lock not had, our own error. */
  readonly failed: boolean;
  readonly cancelled: boolean;
  readonly clusters: readonly ClusterOutcome[];
}

export interface ClusterOutcome {
  readonly invalid: boolean;
  /** How many refusals there are. */
  readonly refused: number;
  /** How many steps there are to see, those that are done among them. */
  readonly listed: number;
  readonly done: number;
}

export interface Verdict {
  readonly result: Result;
  readonly changed: boolean;
  readonly exitCode: 0 | 1;
  readonly conclusion: 'success' | 'failure' | 'cancelled';
}

/** What of a report decides its result. The report's own `result` is not read. */
export function outcomeOf(report: Omit<RunReport, 'result'>): RunOutcome {
  return {
    mode: report.plan.mode,
    dryRun: report.dryRun,
    failed: report.failure !== null,
    cancelled: report.cancelled,
    clusters: report.plan.clusters.map((cluster) => ({
      invalid: !cluster.cluster.valid,
      refused: cluster.refusals.length,
      listed: cluster.steps.length,
      done: cluster.steps.filter((step) => stateOf(report.states, cluster, step) === 'done').length,
    })),
  };
}

/**
 * The result of a run, by the table of section 5: of all that its clusters came to, the first of `RESULTS` wins.
 * Steps that an apply left without a reason are our own error: `failed`.
 */
export function resultOf(outcome: RunOutcome): Verdict {
  const results = new Set(outcome.clusters.map((cluster) => clusterResult(outcome, cluster)));
  if (outcome.failed || outcome.cancelled) results.add('failed');
  const result = RESULTS.find((one) => results.has(one)) ?? 'unchanged';
  const done = outcome.clusters.some((cluster) => cluster.done > 0);
  const listed = outcome.clusters.some((cluster) => cluster.listed > 0);
  const ok = result === 'applied' || result === 'planned' || result === 'unchanged';
  return {
    result,
    changed:
      result === 'refused' ? done || listed : result === 'failed' ? done : result === 'planned' || result === 'applied',
    exitCode: ok ? 0 : 1,
    conclusion: outcome.cancelled ? 'cancelled' : ok ? 'success' : 'failure',
  };
}

function clusterResult({ mode, dryRun }: RunOutcome, { invalid, refused, listed, done }: ClusterOutcome): Result {
  if (mode === 'explain') return 'unchanged';
  if (invalid || refused > 0) return 'refused';
  if (listed === 0) return 'unchanged';
  if (mode === 'drift') return 'drifted';
  if (mode === 'plan' || dryRun) return 'planned';
  return done === listed ? 'applied' : 'failed';
}

/** The state of one step; one that nothing is known of is to come. */
export function stateOf(states: RunReport['states'], cluster: ClusterPlan, step: PlannedStep): StepState {
  return states.get(stepKey(cluster.cluster.name, step.number)) ?? 'to-come';
}

/** `ACTION HOST` of the step that failed, else "": the output `failed-step`. */
export function failedStep(report: RunReport): string {
  return visible(report.failure?.step ?? '');
}

/**
 * Why the run did not end well, as one line; "" when it did: the output `failure-reason`. Where nothing failed but
 * something was refused, that is the first refusal or problem.
 */
export function failureReason(report: RunReport): string {
  if (report.failure !== null) return visible(report.failure.reason);
  if (report.cancelled) return 'the run was cancelled';
  if (report.result === 'drifted') return title(report);
  if (report.result !== 'refused') return '';
  for (const { cluster, refusals } of report.plan.clusters) {
    const [first] = [...cluster.problems, ...refusals];
    if (first !== undefined) return visible(`${first.code}: ${first.message}`);
  }
  return '';
}

/** The one line that says it all, as plain text without markup; it fits where GitHub lists checks. */
export function title(report: RunReport): string {
  return cutText(visible(sentence(report)), CHECK_RUN_TITLE_BUDGET);
}

function sentence(report: RunReport): string {
  const { plan, result } = report;
  const { listed, done, running } = progressOf(report);
  const progress = `${done} of ${count(listed, 'step')} done`;
  const dry = report.dryRun ? 'Dry run: ' : '';
  if (report.cancelled) return `Cancelled: ${progress}`;
  if (report.failure !== null) {
    return `Failed${report.failure.step === null ? '' : ` at ${report.failure.step}`}: ${report.failure.reason}`;
  }
  const clusters = plan.clusters.length === 1 ? '' : ` in ${count(plan.clusters.length, 'cluster')}`;
  switch (result) {
    case null:
      return `${dry}${GOING_ON[plan.mode]}: ${progress}${running === null ? '' : `, now ${running.action} ${running.host}`}`;
    case 'failed':
      return `Failed: ${progress}`;
    case 'refused':
      return `${dry}Refused: ${reasonsOf(report)}`;
    case 'drifted':
      return `Drifted: ${count(listed, 'difference')} on ${count(hostsWithSteps(report), 'host')}${clusters}`;
    case 'applied':
      return `Applied: ${changesOf(report)}${count(done, 'step')} done${clusters}`;
    case 'planned':
      return `${dry}Planned: ${changesOf(report)}${count(listed, 'step')} to do${clusters}`;
    case 'unchanged': {
      const changes = changesOf(report);
      return changes === '' ? `${dry}Nothing to do` : `${dry}Nothing to do on the hosts: ${changes}no step follows`;
    }
  }
}

const GOING_ON: Readonly<Record<Mode, string>> = {
  plan: 'Planning',
  apply: 'Applying',
  rejoin: 'Rejoining',
  drift: 'Looking for drift',
  explain: 'Explaining',
};

export interface Progress {
  readonly listed: number;
  readonly done: number;
  readonly running: PlannedStep | null;
}

/** How far the steps of all clusters are. */
export function progressOf(report: Pick<RunReport, 'plan' | 'states'>): Progress {
  let listed = 0;
  let done = 0;
  let running: PlannedStep | null = null;
  for (const cluster of report.plan.clusters) {
    for (const step of cluster.steps) {
      const state = stateOf(report.states, cluster, step);
      listed++;
      if (state === 'done') done++;
      if (state === 'running') running ??= step;
    }
  }
  return { listed, done, running };
}

const KIND_WORDS: Readonly<Record<ChangeKind, readonly [one: string, many: string]>> = {
  promotion: ['promotion', 'promotions'],
  demotion: ['demotion', 'demotions'],
  rejoin: ['rejoin', 'rejoins'],
  'join-url': ['join URL', 'join URLs'],
  added: ['added host', 'added hosts'],
  removed: ['removed host', 'removed hosts'],
  renamed: ['renamed host', 'renamed hosts'],
  'controller-on': ['host with the controller turned on', 'hosts with the controller turned on'],
  'controller-off': ['host with the controller turned off', 'hosts with the controller turned off'],
  'override-added': ['added override', 'added overrides'],
  'override-removed': ['removed override', 'removed overrides'],
  connection: ['changed connection', 'changed connections'],
  repaired: ['repaired host', 'repaired hosts'],
};

/** The kinds of change and how many there are of each, in the order of `CHANGE_KINDS`: `1 promotion, 2 demotions`. */
export function countKinds(kinds: readonly ChangeKind[]): string {
  const counts = new Map<ChangeKind, number>();
  for (const kind of kinds) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return CHANGE_KINDS.flatMap((kind) => {
    const number = counts.get(kind);
    return number === undefined ? [] : [count(number, ...KIND_WORDS[kind])];
  }).join(', ');
}

function changesOf({ plan }: RunReport): string {
  const counted = countKinds(plan.clusters.flatMap(({ changes }) => changes.map(({ kind }) => kind)));
  return counted === '' ? '' : `${counted}; `;
}

/** Why it is refused: each code once, with the first hosts. */
function reasonsOf({ plan }: RunReport): string {
  const hosts = new Map<string, Set<string>>();
  for (const { cluster, refusals } of plan.clusters) {
    for (const { code, hosts: named } of [...cluster.problems, ...refusals]) {
      const known = hosts.get(code) ?? new Set();
      for (const host of named) known.add(host);
      hosts.set(code, known);
    }
  }
  return Array.from(hosts, ([code, named]) => {
    const first = [...named].slice(0, 3).join(', ');
    const more = named.size > 3 ? ` and ${named.size - 3} more` : '';
    return named.size === 0 ? code : `${code} (${first}${more})`;
  }).join(', ');
}

function hostsWithSteps({ plan }: RunReport): number {
  return plan.clusters.reduce((total, { steps }) => total + new Set(steps.map(({ host }) => host)).size, 0);
}

/** `1 step`, `2 steps`. */
export function count(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}
