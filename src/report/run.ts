import type { Explanation } from '../fleet/explain.js';
import type { MovedBase } from '../fleet/moved-base.js';
import type { Plan } from '../plan/plan.js';
import type { Difference } from '../plan/reviewed.js';
import type { PlannedStep, StepState } from '../plan/step.js';

export const RESULTS = ['failed', 'refused', 'drifted', 'applied', 'planned', 'unchanged'] as const;

/** What a run came to. Over several clusters the first of RESULTS that occurs wins. */
export type Result = (typeof RESULTS)[number];

/** One run as its readers see it: the check run, the job summary and the outputs are made of this alone. */
export interface RunReport {
  readonly plan: Plan;
  readonly dryRun: boolean;
  /** Null while the run is still going on (an apply in progress). */
  readonly result: Result | null;
  /** The state of each step by `stepKey`; a step that is not in it is to come. Empty for a plan. */
  readonly states: ReadonlyMap<string, StepState>;
  /** The first failure; it stands for the run. */
  readonly failure: Failure | null;
  /** Every step that failed, the first one too; left out for a run in which none did. */
  readonly failures?: readonly FailedStep[];
  /** The run was cancelled (SIGINT, SIGTERM). */
  readonly cancelled: boolean;
  /** A pull request whose base branch changed the inventory's files since the merge base. */
  readonly movedBase?: MovedBase | null;
  /** How what is applied compares with the plan that was reviewed; left out where nothing was compared. */
  readonly review?: ReviewReport | null;
  /** What mode explain was asked for; then it is shown instead of the plan. */
  readonly explanation?: Explanation;
}

/** A step that failed, and why. */
export interface FailedStep {
  /** `ACTION HOST`. */
  readonly step: string;
  readonly reason: string;
}

export interface Failure {
  /** `ACTION HOST`, or null when no step failed (bad input, our own error). */
  readonly step: string | null;
  /** One line. */
  readonly reason: string;
  /** What state the run left and what to do next; null when there is nothing to add. */
  readonly advice: string | null;
}

/** The plan that the pull request showed, beside what is applied. */
export interface ReviewReport {
  /** Null for a direct push, and where GitHub does not say. */
  readonly pullRequest: number | null;
  /** The commit whose plan was reviewed; null where there is none. */
  readonly head: string | null;
  /** Why there is no reviewed plan to compare with, as sentences; null where there is one. */
  readonly why: string | null;
  readonly differences: readonly Difference[];
  /** Steps that only the observed fleet needs, by cluster; never a difference. */
  readonly unseen: readonly { readonly cluster: string; readonly steps: readonly PlannedStep[] }[];
}
