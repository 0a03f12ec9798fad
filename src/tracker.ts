import type { ClusterPlan } from './plan/plan.js';
import { type PlannedStep, type Step, type StepState, stepKey, type Voters } from './plan/step.js';

/** Who listens to an apply: the plan so far (steps may be added); `states` has been brought up to it. */
export type Progress = (plan: ClusterPlan) => void;

/** What became of a batch of steps on one host. */
export interface Batch {
  readonly done: readonly Step[];
  readonly failed: { readonly step: Step } | null;
}

/**
 * Keeps the plan that is shown in step with what is done; a step that the plan did not foresee is appended. One step
 * may be wanted twice in a run (a join URL that goes there and back): each time is a planned step of its own.
 */
export class Tracker {
  plan: ClusterPlan;
  readonly #states: Map<string, StepState>;
  readonly #numbers = new Map<string, number[]>();
  readonly #last = new Map<string, Step>();
  readonly #progress: Progress;

  constructor(plan: ClusterPlan, states: Map<string, StepState>, progress: Progress) {
    this.plan = plan;
    this.#states = states;
    this.#progress = progress;
    for (const step of plan.steps) this.#note(step, step.number);
    progress(plan);
  }

  /** It is the last thing that was done to this place, and is wanted again: the host does not show what was done. */
  isRepeated(step: Step): boolean {
    const last = this.#last.get(place(step));
    return last !== undefined && identity(last) === identity(step);
  }

  running(steps: readonly Step[], voters: readonly (Voters | null)[]): void {
    steps.forEach((step, index) => {
      this.#states.set(this.#key(this.#open(step, voters[index] ?? null)), 'running');
    });
    this.#progress(this.plan);
  }

  finish(steps: readonly Step[], result: Batch): void {
    const done = new Set(result.done.map(identity));
    for (const step of steps) {
      const failed = result.failed !== null && identity(result.failed.step) === identity(step);
      const key = this.#key(this.#open(step, null));
      this.#states.set(key, failed ? 'failed' : done.has(identity(step)) ? 'done' : 'to-come');
      if (!failed && done.has(identity(step))) this.#last.set(place(step), step);
    }
    this.#progress(this.plan);
  }

  /** Leaves the steps that are done, numbered from 1 again: no other is needed. */
  dropRest(): void {
    const { name } = this.plan.cluster;
    const done = this.plan.steps.filter(({ number }) => this.#states.get(stepKey(name, number)) === 'done');
    if (done.length === this.plan.steps.length) return;
    for (const { number } of this.plan.steps) this.#states.delete(stepKey(name, number));
    this.plan = { ...this.plan, steps: done.map((step, index) => ({ ...step, number: index + 1 })) };
    this.#numbers.clear();
    for (const step of this.plan.steps) {
      this.#note(step, step.number);
      this.#states.set(stepKey(name, step.number), 'done');
    }
    this.#progress(this.plan);
  }

  #key(number: number): string {
    return stepKey(this.plan.cluster.name, number);
  }

  /** The planned step that this one is: the first of its kind that is neither done nor failed, else a new one. */
  #open(step: Step, voters: Voters | null): number {
    for (const number of this.#numbers.get(identity(step)) ?? []) {
      const state = this.#states.get(this.#key(number));
      if (state !== 'done' && state !== 'failed') return number;
    }
    const number = this.plan.steps.length + 1;
    const planned: PlannedStep = { ...step, number, voters };
    this.plan = { ...this.plan, steps: [...this.plan.steps, planned] };
    this.#note(step, number);
    return number;
  }

  #note(step: Step, number: number): void {
    const key = identity(step);
    const numbers = this.#numbers.get(key);
    if (numbers === undefined) this.#numbers.set(key, [number]);
    else numbers.push(number);
  }
}

function identity(step: Step): string {
  return JSON.stringify([step.action, step.host, step.service, step.value]);
}

/** What a step changes: a later step there with another value takes its place. */
function place(step: Step): string {
  return JSON.stringify([step.action, step.host, step.service]);
}
