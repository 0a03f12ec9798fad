import type { LimitFunction } from 'p-limit';
import type { Host } from './fleet/fleet.js';
import { hostsToContact, type Intent, type World } from './plan/desired.js';
import { makePlan, type PlanInput } from './plan/make-plan.js';
import { nextSteps } from './plan/next-steps.js';
import { notesOf } from './plan/notes.js';
import { type HostObservation, type Observation, unknown } from './plan/observation.js';
import type { ClusterPlan } from './plan/plan.js';
import { spokesman } from './plan/serving.js';
import { type Action, type PlannedStep, type Step, type StepState, stepKey } from './plan/step.js';

/** What a run can do to a host. `hosts/` is the real one. */
export interface Hands {
  lookAt(host: Host): Promise<HostObservation>;
  /** Does the steps in order, stops at the first that fails, and looks again. Never throws for a host's fault. */
  carryOut(host: Host, steps: readonly Step[]): Promise<CarriedOut>;
}

export interface CarriedOut {
  readonly done: readonly Step[];
  readonly failed: { readonly step: Step; readonly message: string } | null;
  readonly observation: HostObservation;
}

/** What a run can do to a cluster through one of its servers. `cluster/` is the real one. */
export interface ClusterHands {
  /** The cluster's Nodes by node name. */
  nodes(through: Host): Promise<Observation['nodes']>;
  /** Does one step that goes through the API; null when it is done, else why it failed. */
  carryOut(through: Host, step: Step, host: Host): Promise<string | null>;
}

const CLUSTER_ACTIONS: ReadonlySet<Action> = new Set(['drain', 'delete-node']);

/** A step that failed, and why. */
export interface StepFailure {
  readonly step: Step;
  readonly message: string;
}

/** What an apply of one cluster came to. */
export interface Applied {
  readonly plan: ClusterPlan;
  readonly failures: readonly StepFailure[];
}

/** Who listens to an apply: the plan so far (steps may be added); `states` has been brought up to it. */
export type Progress = (plan: ClusterPlan) => void;

export interface ApplyOptions {
  readonly hands: Hands;
  readonly cluster: ClusterHands;
  /** How many hosts are worked on at the same time, over all clusters of the run. */
  readonly limit: LimitFunction;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  /** Once aborted, no new step starts. */
  readonly signal: AbortSignal;
}

/** Looks at every host that the cluster's plan has business with. */
export async function observe(input: PlanInput, options: ApplyOptions): Promise<Observation> {
  const { limit } = options;
  const at = options.clock();
  const entries = hostsToContact(input.desired);
  const seen = await Promise.all(
    entries.map(({ host }) => limit(async () => [host.name, await options.hands.lookAt(host)] as const)),
  );
  const observed: Observation = {
    at,
    observed: true,
    hosts: new Map(seen),
    servers: new Map(),
    nodes: null,
    record: null,
    run: { done: [] },
  };
  return { ...observed, nodes: await observeNodes(input, observed, options) };
}

/** The cluster's Nodes through the first server that serves, where the plan needs them. */
async function observeNodes(
  input: PlanInput,
  observed: Observation,
  options: ApplyOptions,
): Promise<Observation['nodes']> {
  const through = spokesman({ desired: input.desired, observed });
  return through === null ? unknown('no declared server was seen running k3s') : options.cluster.nodes(through);
}

/**
 * Applies one cluster: next steps, doing them, and looking afresh in turns, until nothing is left that may be done.
 * Hosts are independent: one that fails is left as it is and the others go on. The state of each step is kept in
 * `states` by `stepKey`, beside those of other clusters: copied at every turn they would cost the square of the hosts.
 */
export async function applyCluster(
  input: PlanInput,
  observed: Observation,
  intent: Intent,
  options: ApplyOptions,
  states: Map<string, StepState>,
  progress: Progress,
): Promise<Applied> {
  const tracker = new Tracker(makePlan(input, observed, intent), states, progress);
  const failures: StepFailure[] = [];
  const { limit } = options;
  const hostByName = new Map(input.desired.hosts.map(({ host }) => [host.name, host]));
  const hostOf = (name: string): Host => {
    const host = hostByName.get(name);
    if (host === undefined) throw new Error(`a step on ${name}, which is no host of ${input.desired.cluster.name}`);
    return host;
  };
  let world: World = { desired: input.desired, observed, intent };
  let next = nextSteps(world);
  for (;;) {
    const lost = new Set(failures.map((failure) => failure.step.host));
    const batches = [...byHost(next.now)].filter(([name]) => !lost.has(name));
    if (batches.length === 0 || options.signal.aborted) break;
    const results = await Promise.all(
      batches.map(([name, steps]) =>
        limit(async () => {
          if (options.signal.aborted) return null;
          const again = steps.find((step) => tracker.isDone(step));
          if (again !== undefined) return unproved(again, world.observed.hosts.get(name));
          tracker.set(steps, 'running');
          const result = await carryOut(world, hostOf(name), steps, options);
          tracker.finish(steps, result);
          return result;
        }),
      ),
    );
    const hosts = new Map(world.observed.hosts);
    const done: Step[] = [];
    batches.forEach(([name], index) => {
      const result = results[index];
      if (result == null) return;
      hosts.set(name, result.observation);
      done.push(...result.done);
      if (result.failed !== null) failures.push(result.failed);
      else if (result.observation.kind === 'unreachable') {
        const step = result.done.at(-1);
        if (step !== undefined) failures.push({ step, message: result.observation.message });
      }
    });
    const observed = { ...world.observed, hosts, run: { done: [...world.observed.run.done, ...done] } };
    world = { ...world, observed: { ...observed, nodes: await observeNodes(input, observed, options) } };
    next = nextSteps(world);
  }
  // A good end: what is planned still is not wanted any more, such as the deletion of a Node that went by itself. Where
  // the Nodes cannot be seen there is a refusal.
  if (next.now.length === 0 && next.refused.length === 0 && failures.length === 0) tracker.dropRest();
  const lost = new Set(failures.map((failure) => failure.step.host));
  // A host that was lost on the way is a failure, not a refusal as well.
  const refusals = next.refused.filter((refusal) => !refusal.hosts.every((host) => lost.has(host)));
  return { plan: { ...tracker.plan, refusals, notes: [...input.notes, ...notesOf(world)] }, failures };
}

/** On the host itself, or, for the steps that go through the API, through the server that speaks for the cluster. */
async function carryOut(world: World, host: Host, steps: readonly Step[], options: ApplyOptions): Promise<CarriedOut> {
  const [step] = steps;
  if (step === undefined || !CLUSTER_ACTIONS.has(step.action)) return options.hands.carryOut(host, steps);
  const observation = world.observed.hosts.get(host.name);
  const through = spokesman(world);
  if (observation === undefined || through === null) throw new Error(`${step.action} of ${host.name} without a server`);
  const message = await options.cluster.carryOut(through, step, host);
  return message === null
    ? { done: [step], failed: null, observation }
    : { done: [], failed: { step, message }, observation };
}

/** A step that was done and is wanted again: the host does not show what was done. */
function unproved(step: Step, observation: HostObservation | undefined): CarriedOut {
  const message = `${step.action} was done, but ${step.host} does not show it; something else writes there.`;
  if (observation === undefined) throw new Error(`a step on ${step.host}, which was never looked at`);
  return { done: [], failed: { step, message }, observation };
}

function byHost(steps: readonly Step[]): ReadonlyMap<string, readonly Step[]> {
  const batches = new Map<string, Step[]>();
  for (const step of steps) {
    const batch = batches.get(step.host);
    if (batch === undefined) batches.set(step.host, [step]);
    else batch.push(step);
  }
  return batches;
}

/** Keeps the plan that is shown in step with what is done; a step that the plan did not foresee is appended. */
class Tracker {
  plan: ClusterPlan;
  readonly #states: Map<string, StepState>;
  readonly #numbers = new Map<string, number>();
  readonly #progress: Progress;

  constructor(plan: ClusterPlan, states: Map<string, StepState>, progress: Progress) {
    this.plan = plan;
    this.#states = states;
    this.#progress = progress;
    for (const step of plan.steps) this.#numbers.set(identity(step), step.number);
    progress(plan);
  }

  isDone(step: Step): boolean {
    const number = this.#numbers.get(identity(step));
    return number !== undefined && this.#states.get(stepKey(this.plan.cluster.name, number)) === 'done';
  }

  set(steps: readonly Step[], state: StepState): void {
    for (const step of steps) this.#states.set(stepKey(this.plan.cluster.name, this.#number(step)), state);
    this.#progress(this.plan);
  }

  finish(steps: readonly Step[], result: CarriedOut): void {
    const done = new Set(result.done.map(identity));
    for (const step of steps) {
      const failed = result.failed !== null && identity(result.failed.step) === identity(step);
      const state = failed ? 'failed' : done.has(identity(step)) ? 'done' : 'to-come';
      this.#states.set(stepKey(this.plan.cluster.name, this.#number(step)), state);
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
      this.#numbers.set(identity(step), step.number);
      this.#states.set(stepKey(name, step.number), 'done');
    }
    this.#progress(this.plan);
  }

  #number(step: Step): number {
    const found = this.#numbers.get(identity(step));
    if (found !== undefined) return found;
    const number = this.plan.steps.length + 1;
    const planned: PlannedStep = { ...step, number, voters: null };
    this.plan = { ...this.plan, steps: [...this.plan.steps, planned] };
    this.#numbers.set(identity(step), number);
    return number;
  }
}

function identity(step: Step): string {
  return JSON.stringify([step.action, step.host, step.service, step.value]);
}
