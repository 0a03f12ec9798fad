import type { LimitFunction } from 'p-limit';
import type { Host } from './fleet/fleet.js';
import { hostsToContact, type Intent, type World } from './plan/desired.js';
import { makePlan, type PlanInput, withVoters } from './plan/make-plan.js';
import { nextSteps, seeAs, spokesmen } from './plan/next-steps.js';
import { notesOf } from './plan/notes.js';
import type { HostObservation, Member, Observation, ReachedHost } from './plan/observation.js';
import type { ClusterPlan } from './plan/plan.js';
import { isDoneButForTheRecord, mayHeal, needsLock } from './plan/run-rules.js';
import { CLUSTER_ACTIONS, type DoneStep, type Refusal, type Step, type StepState } from './plan/step.js';
import { type Progress, Tracker } from './tracker.js';

export type { Progress } from './tracker.js';

/** What a run can do to a host. `hosts/` is the real one. */
export interface Hands {
  lookAt(host: Host): Promise<HostObservation>;
  /**
   * Does the steps in order, stops at the first that fails, and looks again. `seen` is what the plan saw: a host that
   * was changed since is left alone. Never throws for a host's fault.
   */
  carryOut(host: Host, steps: readonly Step[], seen: ReachedHost): Promise<CarriedOut>;
}

export interface CarriedOut {
  readonly done: readonly Step[];
  readonly failed: { readonly step: Step; readonly message: string } | null;
  readonly observation: HostObservation;
}

/** What a step that goes through the API must know beside its host. */
export interface ClusterFacts {
  /** The host's own member; null when none is listed. */
  readonly member: Member | null;
  readonly identity: string | null;
  /** The hosts of the voters; null among them: a voter that is no host of the inventory. */
  readonly voters: readonly (Host | null)[];
  readonly group: string;
}

/** What servers, Nodes and record say. */
export type ClusterLook = Pick<Observation, 'servers' | 'nodes' | 'record'>;

/** A lock on a cluster that this run holds. */
export interface ClusterLock {
  /** Why this run may do nothing further; null while the lock is held. Asked before every step. */
  lost(): Promise<string | null>;
  release(): Promise<void>;
}

export type Acquired =
  | { readonly kind: 'held'; readonly lock: ClusterLock }
  /** Another run holds it; the message names it. */
  | { readonly kind: 'busy'; readonly message: string }
  /** No API answers to take it from. */
  | { readonly kind: 'no-lock'; readonly message: string }
  | { readonly kind: 'cancelled' };

/** What a run can do to a cluster through its servers, in order of preference. `cluster/` is the real one. */
export interface ClusterHands {
  look(servers: readonly Host[]): Promise<ClusterLook>;
  /** Does one step that goes through the API; null when it is done, else why it failed. */
  carryOut(through: readonly Host[], step: Step, host: Host, facts: ClusterFacts): Promise<string | null>;
  acquire(through: readonly Host[]): Promise<Acquired>;
  /** Writes `head` as started into the record. Null when it is done, else why not. */
  markStarted(through: readonly Host[], facts: ClusterFacts): Promise<string | null>;
  /** The node of the cluster that this run sits on (rule 11); null when none is found. */
  ownNode(through: readonly Host[]): Promise<string | null>;
}

/** A step that failed, and why. `step` is null where the run as a whole could not go on. */
export interface StepFailure {
  readonly step: Step | null;
  readonly message: string;
}

/** What an apply of one cluster came to. */
export interface Applied {
  readonly plan: ClusterPlan;
  readonly failures: readonly StepFailure[];
}

/** What is judged about one cluster, from one observation: base and head in the light of its record. */
export interface Judged {
  readonly input: PlanInput;
  readonly intent: Intent;
  readonly observed: Observation;
}

export interface ApplyOptions {
  readonly hands: Hands;
  readonly cluster: ClusterHands;
  /** How many hosts are worked on at the same time, over all clusters of the run. */
  readonly limit: LimitFunction;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  readonly sleep: (milliseconds: number) => Promise<void>;
  /** Seconds that an unhealthy voter is waited for. */
  readonly stepSeconds: number;
  /** Once aborted, no new step starts. */
  readonly signal: AbortSignal;
  /** Looks again at everything, and judges base, head and record from it. */
  readonly judge: (input: PlanInput) => Promise<Judged>;
}

/** Looks at every host that the cluster's plan has business with; those of `known` are taken as they were seen. */
export async function observe(
  input: PlanInput,
  options: Pick<ApplyOptions, 'hands' | 'cluster' | 'limit' | 'clock'>,
  known: Observation | null = null,
): Promise<Observation> {
  const { limit } = options;
  const at = options.clock();
  const entries = hostsToContact(input.desired);
  const seen = await Promise.all(
    entries.map(({ host }) =>
      limit(async () => [host.name, known?.hosts.get(host.name) ?? (await options.hands.lookAt(host))] as const),
    ),
  );
  const hosts = new Map(seen);
  const run = known?.run ?? { done: [] };
  const look =
    known === null || entries.some(({ host }) => !known.hosts.has(host.name))
      ? await lookAtCluster(input, hosts, options.cluster)
      : { servers: known.servers, nodes: known.nodes, record: known.record };
  return { at, observed: true, hosts, ...look, run };
}

/**
 * Of a cluster that nothing else has business with, one server after the other is asked for the record, until one
 * answers. Null where there is other business, and where nobody answers or there is no record: then nothing else of it
 * is contacted.
 */
export async function askForRecord(
  input: PlanInput,
  options: Pick<ApplyOptions, 'hands' | 'cluster' | 'clock'>,
): Promise<Observation | null> {
  const { desired } = input;
  if (!desired.cluster.valid || hostsToContact(desired).length > 0) return null;
  const at = options.clock();
  const hosts = new Map<string, HostObservation>();
  for (const host of desired.cluster.hosts.filter((each) => each.role === 'server')) {
    const seen = await options.hands.lookAt(host);
    hosts.set(host.name, seen);
    if (!runsServer(seen)) continue;
    const look = await options.cluster.look([host]);
    if (look.record?.kind === 'known') return { at, observed: true, hosts, ...look, run: { done: [] } };
  }
  return { at, observed: true, hosts, ...NOBODY, run: { done: [] } };
}

const NOBODY: ClusterLook = { servers: new Map(), nodes: null, record: null };

/** What the cluster says, through every host whose k3s server service was seen to run. */
async function lookAtCluster(
  input: PlanInput,
  hosts: ReadonlyMap<string, HostObservation>,
  cluster: ClusterHands,
): Promise<ClusterLook> {
  const stays = (entry: (typeof input.desired.hosts)[number]): boolean =>
    entry.host.role === 'server' && !entry.leaving;
  const { hosts: entries } = input.desired;
  const servers = [...entries.filter(stays), ...entries.filter((entry) => !stays(entry))]
    .map((entry) => entry.host)
    .filter((host) => runsServer(hosts.get(host.name)));
  return servers.length === 0 ? NOBODY : cluster.look(servers);
}

function runsServer(seen: HostObservation | undefined): boolean {
  return seen?.kind === 'reached' && seen.services.kind === 'known' && seen.services.value.k3s.state === 'running';
}

/**
 * Applies one cluster: takes the lock, judges everything again, and then next steps, doing them, and looking afresh in
 * turns, until nothing is left that may be done. Hosts are independent: one that fails is left as it is and the others
 * go on. The state of each step is kept in `states` by `stepKey`, beside those of other clusters.
 */
export async function applyCluster(
  first: Judged,
  options: ApplyOptions,
  states: Map<string, StepState>,
  progress: Progress,
): Promise<Applied> {
  const run = new ClusterRun(first, options, states, progress);
  try {
    return await run.apply();
  } finally {
    await run.release();
  }
}

class ClusterRun {
  #judged: Judged;
  #world: World;
  #lock: ClusterLock | null = null;
  #started = false;
  readonly #most: number;
  readonly #options: ApplyOptions;
  readonly #states: Map<string, StepState>;
  readonly #progress: Progress;
  readonly #failures: StepFailure[] = [];

  constructor(first: Judged, options: ApplyOptions, states: Map<string, StepState>, progress: Progress) {
    this.#judged = first;
    this.#world = worldOf(first);
    this.#options = options;
    this.#states = states;
    this.#progress = progress;
    this.#most = MOST_STEPS_A_HOST * Math.max(1, first.input.desired.hosts.length);
  }

  async release(): Promise<void> {
    await this.#lock?.release();
  }

  async apply(): Promise<Applied> {
    const { signal } = this.#options;
    const locked = await this.#takeLock();
    const tracker = new Tracker(
      makePlan(this.#judged.input, this.#judged.observed, this.#judged.intent),
      this.#states,
      this.#progress,
    );
    let next = nextSteps(this.#world);
    if (locked !== null) return this.#end(tracker, [...next.refused, ...locked]);
    let healing: number | null = null;
    for (;;) {
      if (signal.aborted) break;
      const batches = [...byHost(next.now)].filter(([name]) => !this.#isLost(name));
      if (this.#world.observed.run.done.length > this.#most) {
        this.#failures.push({ step: null, message: ENDLESS });
        break;
      }
      if (batches.length > 0 && this.#lock === null && needsLock(this.#world)) {
        this.#failures.push({ step: null, message: ANSWERS_NOW });
        break;
      }
      if (batches.length > 0) {
        // Only what changes the members gives a voter new time to heal.
        if (batches.some(([, [first]]) => first !== undefined && CLUSTER_ACTIONS.has(first.action))) healing = null;
        // Where no API answers nobody can tell, and nothing is left to do but what needs no lock.
        const lost = spokesmen(this.#world, null).length === 0 ? null : await this.#lock?.lost();
        if (lost != null) {
          this.#failures.push({ step: null, message: lost });
          break;
        }
        const unmarked = await this.#markStarted();
        if (unmarked !== null) {
          this.#failures.push({ step: null, message: `The record could not be written: ${unmarked}.` });
          break;
        }
        await this.#carryOut(tracker, batches);
      } else {
        // An unhealthy voter may be on its way back.
        healing ??= this.#options.clock() + this.#options.stepSeconds * 1000;
        if (this.#lock === null || !mayHeal(this.#world, next) || this.#options.clock() >= healing) break;
        await this.#options.sleep(POLL_MILLISECONDS);
        await this.#lookAgain();
      }
      next = nextSteps(this.#world);
    }
    if (!this.#failures.some((failure) => failure.step === null)) await this.#uncordonBegun();
    const done = next.now.length === 0 && next.refused.length === 0 && this.#failures.length === 0;
    // What is planned still is not wanted any more, such as the deletion of a Node that went by itself.
    if (done) tracker.dropRest();
    if (done && !signal.aborted) await this.#recordQuietly();
    return this.#end(tracker, next.refused);
  }

  #end(tracker: Tracker, refused: readonly Refusal[]): Applied {
    // A host that was lost on the way is a failure, not a refusal as well.
    const refusals = refused.filter(
      (refusal) => refusal.hosts.length === 0 || !refusal.hosts.every((host) => this.#isLost(host)),
    );
    const notes = [...this.#judged.input.notes, ...notesOf(this.#world)];
    return { plan: { ...tracker.plan, refusals, notes }, failures: this.#failures };
  }

  #isLost(host: string): boolean {
    return this.#failures.some((failure) => failure.step?.host === host);
  }

  /** Takes the lock before the first write and judges again under it. Why nothing may be written, or null. */
  async #takeLock(): Promise<readonly Refusal[] | null> {
    const { cluster, signal } = this.#options;
    if (signal.aborted || !needsLock(this.#world)) return null;
    const through = spokesmen(this.#world, null);
    const acquired = await cluster.acquire(through);
    switch (acquired.kind) {
      case 'cancelled':
        return [];
      case 'busy':
        this.#failures.push({ step: null, message: acquired.message });
        return [];
      case 'no-lock':
        return [
          {
            code: 'no-lock',
            message: acquired.message,
            hosts: this.#judged.input.desired.cluster.hosts.map((host) => host.name),
          },
        ];
      case 'held': {
        this.#lock = acquired.lock;
        this.#judged = await this.#options.judge(this.#judged.input);
        this.#world = worldOf(this.#judged);
        return null;
      }
    }
  }

  /** Before the first write under the lock the commit is written as started. Null when it is, else why not. */
  async #markStarted(): Promise<string | null> {
    if (this.#started || this.#lock === null || this.#world.desired.cluster.controller !== true) return null;
    this.#started = true;
    return this.#options.cluster.markStarted(spokesmen(this.#world, null), this.#facts(null));
  }

  async #carryOut(tracker: Tracker, batches: readonly (readonly [string, readonly Step[]])[]): Promise<void> {
    const { limit, signal } = this.#options;
    const start = this.#world;
    const hostByName = new Map(start.desired.hosts.map(({ host }) => [host.name, host]));
    const results = await Promise.all(
      batches.map(([name, steps]) =>
        limit(async () => {
          if (signal.aborted) return null;
          const host = hostByName.get(name);
          if (host === undefined)
            throw new Error(`a step on ${name}, which is no host of ${start.desired.cluster.name}`);
          const observation = start.observed.hosts.get(name);
          if (observation === undefined) throw new Error(`a step on ${name}, which was never looked at`);
          const again = steps.find((step) => tracker.isRepeated(step));
          if (again !== undefined) return { done: [], failed: unproved(again), observation };
          tracker.running(
            steps,
            withVoters(steps, start).map((each) => each.voters),
          );
          const result = await this.#onHost(host, steps, observation);
          tracker.finish(steps, result);
          return result;
        }),
      ),
    );
    const hosts = new Map(start.observed.hosts);
    const done: DoneStep[] = [];
    batches.forEach(([name], index) => {
      const result = results[index];
      if (result == null) return;
      hosts.set(name, result.observation);
      done.push(...result.done.map(({ action, host, service }) => ({ action, host, service })));
      const last = result.done.at(-1);
      if (result.failed !== null) this.#failures.push(result.failed);
      else if (result.observation.kind === 'unreachable' && last !== undefined && !CLUSTER_ACTIONS.has(last.action)) {
        this.#failures.push({ step: last, message: result.observation.message });
      }
    });
    const look = await lookAtCluster(this.#judged.input, hosts, this.#options.cluster);
    const run = { done: [...start.observed.run.done, ...done] };
    this.#world = { ...start, observed: { ...start.observed, at: this.#options.clock(), hosts, ...look, run } };
  }

  /** On the host itself, or, for the steps that go through the API, through the servers that speak for the cluster. */
  async #onHost(host: Host, steps: readonly Step[], observation: HostObservation): Promise<CarriedOut> {
    const { hands, cluster } = this.#options;
    const [step] = steps;
    if (step === undefined || !CLUSTER_ACTIONS.has(step.action)) {
      if (observation.kind !== 'reached') throw new Error(`a step on ${host.name}, which was not reached`);
      // A step of the API among them is planned again in the next round.
      const until = steps.findIndex((each) => CLUSTER_ACTIONS.has(each.action));
      return hands.carryOut(host, until < 0 ? steps : steps.slice(0, until), observation);
    }
    const message = await cluster.carryOut(spokesmen(this.#world, host), step, host, this.#facts(host));
    if (message !== null) return { done: [], failed: { step, message }, observation };
    // What the cluster did shows on the host: a tombstone, a service that ended.
    const after = observation.kind === 'reached' ? await hands.lookAt(host) : observation;
    return { done: [step], failed: null, observation: after };
  }

  #facts(host: Host | null): ClusterFacts {
    const { members } = seeAs(this.#world);
    return {
      member: host === null ? null : members.memberOf(host),
      identity: members.identity,
      voters: members.voters.map((member) => members.hostOf(member)?.host ?? null),
      group: this.#world.desired.cluster.name,
    };
  }

  async #lookAgain(): Promise<void> {
    const observed = await observe(this.#judged.input, this.#options);
    this.#world = { ...this.#world, observed: { ...observed, run: this.#world.observed.run } };
  }

  /** A complete apply that no host needed is written down all the same. */
  async #recordQuietly(): Promise<void> {
    const step = isDoneButForTheRecord(this.#world);
    if (step === null) return;
    const through = spokesmen(this.#world, null);
    const host = through[0];
    if (host === undefined) return;
    if (this.#lock === null) {
      const acquired = await this.#options.cluster.acquire(through);
      // Somebody else applies right now, and writes what is true then.
      if (acquired.kind !== 'held') return;
      this.#lock = acquired.lock;
    }
    const message = await this.#options.cluster.carryOut(through, step, host, this.#facts(host));
    if (message !== null) this.#failures.push({ step: null, message: `The record could not be written: ${message}.` });
  }

  /** Cancelled, or failed there: a node that this run only drained takes work again. */
  async #uncordonBegun(): Promise<void> {
    const { done } = this.#world.observed.run;
    for (const { host } of this.#world.desired.hosts) {
      if (!this.#options.signal.aborted && !this.#isLost(host.name)) continue;
      const own = done.filter((step) => step.host === host.name);
      const drained = own.findLastIndex((step) => step.action === 'drain');
      if (drained < 0 || drained < own.length - 1) continue;
      const through = spokesmen(this.#world, host);
      const step: Step = {
        action: 'uncordon',
        host: host.name,
        service: null,
        value: null,
        detail: 'the run was cancelled',
      };
      await this.#options.cluster.carryOut(through, step, host, this.#facts(host));
    }
  }
}

/** More steps than any sequence has for one host: what is done does not lead to what is wanted. */
const MOST_STEPS_A_HOST = 80;
const ENDLESS =
  'The steps do not lead to an end: something else changes the hosts at the same time. Find out what it is (a deploy tool, another controller), then run this again.';

const ANSWERS_NOW =
  'The API of the cluster answers now, and this run began without its lock. Run the same commit again: it takes the lock and goes on.';

/** Milliseconds between two looks at a voter that may heal. */
const POLL_MILLISECONDS = 5000;

function worldOf({ input, intent, observed }: Judged): World {
  return { desired: input.desired, observed, intent };
}

/** A step that was done and is wanted again: the host does not show what was done. */
function unproved(step: Step): { readonly step: Step; readonly message: string } {
  return { step, message: `${step.action} was done, but ${step.host} does not show it; something else writes there.` };
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
