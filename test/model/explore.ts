import type { Desired, Intent, World } from '../../src/plan/desired.js';
import type { NextSteps } from '../../src/plan/next-steps.js';
import type { DoneStep, Step } from '../../src/plan/step.js';
import { type Acted, act, ONLY_FILES, QUIET, THROUGH_API } from './act.js';
import { type Fault, type FaultKind, faultsOf } from './faults.js';
import { brokenByChange, brokenByDecision, brokenByStep, wrongEnd } from './invariants.js';
import { type Happening, happenings, servedBy } from './k3s.js';
import { memoryKey, remember } from './memory.js';
import { observe } from './observe.js';
import { type Commit, type Ground, hostOf, type State, stateKey } from './state.js';
import { Ways } from './ways.js';

/** A declared change on a healthy fleet, and how that fleet is made. */
export interface Scenario {
  readonly name: string;
  readonly ground: Ground;
  readonly start: State;
  readonly group: string;
  /** What is desired when `target` is applied, and `recorded` was the last complete apply. */
  readonly desired: (target: Commit, recorded: Commit, headBegun: boolean) => Desired;
  readonly intent: (target: Commit, state: State) => Intent;
  /** The host of a rejoin: only it is judged at an end, and only it is changed while two identities are served. */
  readonly rejoins?: string;
}

export interface Options {
  /** The most faults on one path. */
  readonly faults: number;
  readonly decide: (world: World) => NextSteps;
  /** Leaves these faults out. */
  readonly without?: ReadonlySet<FaultKind>;
  /** Stops after so many states. */
  readonly limit?: number;
  /** An old run may be run again after the commit was reverted. */
  readonly reruns?: boolean;
  /** Goes on after a violation, until there are so many different ones; 1 unless told. */
  readonly violations?: number;
}

export interface Violation {
  readonly what: string;
  /** The shortest way there, fewest faults first. */
  readonly path: readonly string[];
}

export interface Explored {
  readonly states: number;
  /** Transitions taken. */
  readonly edges: number;
  /** Ends of runs that were judged. */
  readonly ends: number;
  /** Each kind once, by its shortest way. */
  readonly violations: readonly Violation[];
  /** The limit was reached. */
  readonly cut: boolean;
}

/** The steps of one host that a run does in one go, and what was seen of the host when they were decided. */
interface Batch {
  readonly host: string;
  readonly steps: readonly Step[];
  readonly seen: string;
  readonly begun: boolean;
}

/** The fleet, and the run that is at work on it; a fresh run remembers nothing and has nothing in hand. */
interface Moment {
  readonly state: State;
  readonly inHand: readonly Batch[];
  readonly done: readonly DoneStep[];
  readonly target: Commit;
  /** A script that its run did not live to see. */
  readonly late: Batch | null;
}

interface Way {
  readonly label: string;
  readonly to: Moment;
  readonly cost: 0 | 1;
  readonly step?: Step;
  /** The end of a run that says what is in its way: the next one may well say the same. */
  readonly refused?: boolean;
}

/** Explores every interleaving, fewest faults first, and stops at the first violation. */
export function explore(scenario: Scenario, options: Options): Explored {
  return new Explorer(scenario, options).run();
}

/**
 * A late script whose host has changed since it was decided stops when it looks. That a later change makes all of it as
 * it was, files and container, is left out.
 */
function withoutVainScript(moment: Moment): Moment {
  const { late, state } = moment;
  return late === null || seenOf(state, late.host) === late.seen ? moment : { ...moment, late: null };
}

/** What a changing script compares under the lock of its host before it acts. */
function seenOf(state: State, host: string): string {
  const { role, joinUrl, cluster, kept, k3s, agent } = hostOf(state, host);
  return [role, joinUrl, cluster, kept, k3s.is === 'absent', k3s.id, agent.is === 'absent', agent.id].join(';');
}

class Explorer {
  readonly #scenario: Scenario;
  readonly #options: Options;
  readonly #ways = new Ways();
  #ends = 0;
  readonly #violations = new Map<string, Violation>();

  constructor(scenario: Scenario, options: Options) {
    this.#scenario = scenario;
    this.#options = options;
  }

  run(): Explored {
    const { faults, limit = Number.POSITIVE_INFINITY } = this.#options;
    const first: Moment = {
      state: this.#scenario.start,
      inHand: [],
      done: [],
      target: 'head',
      late: null,
    };
    let level: [number, Moment][] = [];
    this.#ways.add(this.#key(first), -1, 'start', (id) => level.push([id, first]));
    for (let used = 0; used <= faults && level.length > 0 && !this.#enough; used += 1) {
      const next: [number, Moment][] = [];
      // The queue grows while it is worked on: what costs no fault belongs to the same level.
      for (let index = 0; index < level.length; index += 1) {
        const [id, moment] = level[index] as [number, Moment];
        level[index] = undefined as unknown as [number, Moment];
        for (const each of this.#from(moment, id, used < faults)) {
          const way = { ...each, to: withoutVainScript(each.to) };
          // What is wrong already is not followed any further.
          if (this.#isBroken(moment, way, id)) continue;
          const target = way.cost === 0 ? level : next;
          const known = this.#ways.add(this.#key(way.to), id, way.label, (to) => target.push([to, way.to]));
          if (way.cost === 0 && way.refused !== true) this.#ways.connect(id, known);
        }
        if (this.#enough || this.#ways.size > limit) break;
      }
      if (this.#ways.size > limit) break;
      level = next;
    }
    const loop = this.#enough ? null : this.#ways.loop();
    if (loop !== null) this.#found('it does not end: this comes back', loop, null);
    return {
      states: this.#ways.size,
      edges: this.#ways.edges,
      ends: this.#ends,
      violations: [...this.#violations.values()],
      cut: this.#ways.size > limit,
    };
  }

  get #enough(): boolean {
    return this.#violations.size >= (this.#options.violations ?? 1);
  }

  /** Remembers the first of its kind, which is the one with the shortest way. */
  #found(what: string, at: number, last: string | null): void {
    const kind = what.replace(/n\d+/g, 'nN').slice(0, 160);
    if (this.#enough || this.#violations.has(kind)) return;
    const path = this.#ways.pathTo(at);
    this.#violations.set(kind, { what, path: last === null ? path : [...path, last] });
  }

  #key({ state, inHand, done, target, late }: Moment): string {
    const hand = inHand.map(({ host, steps, seen, begun }) =>
      [host, begun ? '' : seen, ...steps.map(stepKey)].join('/'),
    );
    const script = late === null ? '' : [late.host, late.seen, ...late.steps.map(stepKey)].join('/');
    const memory = memoryKey(done);
    return [stateKey(this.#scenario.ground, state), hand.join('&'), memory, target, script].join('$');
  }

  /** Everything that can come next. */
  #from(moment: Moment, id: number, faults: boolean): readonly Way[] {
    const batch = moment.inHand.find(({ steps }) => steps[0] !== undefined && ONLY_FILES.has(steps[0].action));
    // A step that writes files of one host commutes with whatever happens elsewhere: only what concerns that host may
    // come before it; the rest comes after it with the same outcome.
    const only = batch?.host ?? null;
    const concerned = only === null ? hostsInHand(moment) : new Set([only]);
    const here = (host: string): boolean => concerned === null || concerned.has(host);
    const happening = happenings(this.#scenario.ground, moment.state);
    const ways: Way[] = [...this.#controller(moment, id, happening, only)];
    // Nobody looks so long before it stops a server that a learner becomes a voter in between.
    const stopping = new Set(moment.inHand.filter(({ steps }) => steps.some(stopsServer)).map(({ host }) => host));
    for (const { what, host, next } of happening) {
      if (stopping.has(host) && what.endsWith('becomes a voter')) continue;
      if (here(host)) ways.push({ label: what, to: { ...moment, state: next }, cost: 0 });
    }
    if (moment.late !== null && here(moment.late.host)) ways.push(...this.#late(moment, moment.late));
    if (!faults) return ways;
    ways.push(...this.#faultsOfRun(moment));
    const without = this.#options.without;
    for (const fault of this.#faults(moment.state)) {
      if (without?.has(fault.kind) === true) continue;
      if (!here(fault.host) && (only !== null || !STOPS_API.has(fault.kind))) continue;
      if (fault.unguarded && moment.inHand.length > 0) continue;
      ways.push({ label: `! ${fault.what}`, to: { ...moment, state: fault.next }, cost: 1 });
    }
    return ways;
  }

  #faults(state: State): readonly Fault[] {
    const key = stateKey(this.#scenario.ground, state);
    return faultsOf(this.#scenario.ground, state).filter(
      ({ next }) => next !== state && stateKey(this.#scenario.ground, next) !== key,
    );
  }

  #faultsOfRun(moment: Moment): readonly Way[] {
    const ways: Way[] = [];
    const without = this.#options.without;
    const fresh: Moment = { ...moment, inHand: [], done: [] };
    if (moment.inHand.length > 0 || moment.done.length > 0) {
      if (without?.has('run-dies') !== true) ways.push({ label: '! the run dies', to: fresh, cost: 1 });
    }
    if (moment.late === null && without?.has('late-script') !== true) {
      for (const batch of moment.inHand) {
        const [step] = batch.steps;
        if (batch.begun || step === undefined || THROUGH_API.has(step.action)) continue;
        const label = `! the run dies, and its script for ${batch.host} (${batch.steps.map(told).join(', ')}) lives on`;
        ways.push({ label, to: { ...fresh, late: batch }, cost: 1 });
      }
    }
    const begun = moment.state.record?.started;
    if (this.#options.reruns === true && moment.target === 'back' && begun === 'back' && moment.inHand.length === 0) {
      ways.push({ label: '! the run of the head is run again', to: { ...fresh, target: 'head' }, cost: 1 });
    }
    if (moment.target === 'head' && moment.inHand.length === 0 && without?.has('reverted') !== true) {
      ways.push({ label: '! the commit is reverted', to: { ...fresh, target: 'back' }, cost: 1 });
    }
    return ways;
  }

  /** The script runs to its end at once: it holds the lock of its host, and looks first whether all is as it was. */
  #late(moment: Moment, late: Batch): readonly Way[] {
    const gone: Moment = { ...moment, late: null };
    if (hostOf(moment.state, late.host).at !== 'up') return [];
    let { state } = moment;
    for (const step of late.steps) {
      const acted = act(this.#scenario.ground, state, step, moment.target);
      if (acted.kind !== 'done') break;
      state = acted.state;
    }
    return [{ label: `the late script on ${late.host} runs`, to: { ...gone, state }, cost: 0 }];
  }

  #controller(moment: Moment, id: number, happening: readonly Happening[], only: string | null): readonly Way[] {
    if (moment.inHand.length === 0) return this.#look(moment, id);
    const hands = only === null ? quietFirst(moment.inHand) : moment.inHand.filter(({ host }) => host === only);
    return hands.flatMap((batch) => {
      const [step] = batch.steps;
      return step === undefined ? [] : this.#do(moment, batch, step, happening);
    });
  }

  /** One look: the run decides what it does next, or ends. */
  #look(moment: Moment, id: number): readonly Way[] {
    const { ground, group, desired, intent } = this.#scenario;
    const { state, done, target } = moment;
    const wanted = desired(target, state.record?.commit ?? 'base', state.record?.headBegun ?? false);
    const world: World = {
      desired: wanted,
      observed: observe(
        ground,
        state,
        done,
        group,
        wanted.hosts.map(({ host }) => host.name),
      ),
      intent: intent(target, state),
    };
    const { now, refused } = this.#options.decide(world);
    if (now.length === 0) {
      this.#ends += 1;
      // A run that has written the record is over, whatever happens after that: the next one is judged.
      const wrong = done.some(({ action }) => RECORDS.has(action))
        ? null
        : wrongEnd(ground, state, wanted, refused, this.#scenario.rejoins);
      if (wrong !== null) this.#found(wrong, id, ends(refused));
      const ended = {
        label: ends(refused),
        to: { ...moment, done: [] },
        cost: 0,
        refused: refused.length > 0,
      } as const;
      return done.length === 0 ? [] : [ended];
    }
    const wrong = this.#wrongDecision(moment, now, wanted);
    if (wrong !== null) this.#found(wrong, id, `the run decides: ${now.map(told).join(', ')}`);
    const batches = new Map<string, Step[]>();
    for (const step of now) {
      const batch = batches.get(step.host);
      if (batch === undefined) batches.set(step.host, [step]);
      else batch.push(step);
    }
    const inHand = [...batches].map(([host, steps]) => ({ host, steps, seen: seenOf(state, host), begun: false }));
    const label = `the run decides: ${now.map(told).join(', ')}`;
    return [{ label, to: { ...moment, state: this.#started(state, target), inHand }, cost: 0 }];
  }

  #wrongDecision({ state, target }: Moment, now: readonly Step[], wanted: Desired): string | null {
    if (state.record?.started === 'back' && target === 'head') return 'an older commit is applied again';
    const { ground, rejoins } = this.#scenario;
    // What a rejoin does to its own host is the way out of two identities.
    const judged =
      rejoins === undefined ? now : now.filter(({ host, action }) => host !== rejoins && action !== 'snapshot');
    return brokenByDecision(ground, state, judged, wanted);
  }

  /** The commit is written as started under the lock, where an API answers. */
  #started(state: State, target: Commit): State {
    const { record } = state;
    const answers = this.#scenario.ground.hosts.some((name) => servedBy(state, name) === 0);
    if (record === null || record.started === target || !answers) return state;
    const headBegun = record.headBegun || target === 'head';
    return { ...state, record: { ...record, started: target, headBegun } };
  }

  #do(moment: Moment, batch: Batch, step: Step, happening: readonly Happening[]): readonly Way[] {
    const { ground } = this.#scenario;
    const { state, target } = moment;
    const others = moment.inHand.filter((other) => other !== batch);
    const fails = (why: string): readonly Way[] => [
      { label: `${told(step)} fails: ${why}`, to: { ...moment, inHand: [], done: [] }, cost: 0 },
    ];
    const changed = !batch.begun && !THROUGH_API.has(step.action) && seenOf(state, batch.host) !== batch.seen;
    if (changed) return fails('changed since it was looked at');
    const acted: Acted = act(ground, state, step, target);
    if (acted.kind === 'failed') return fails(acted.why);
    if (acted.kind === 'waiting') {
      // It waits as long as the fleet itself still moves; nobody knows whether a host that is cut off comes back.
      const moves = happening.some(({ what }) => !what.endsWith('reachable again'));
      return moves ? [] : fails(acted.why);
    }
    const rest = batch.steps.slice(1);
    const inHand =
      rest.length === 0
        ? others
        : moment.inHand.map((one) => (one === batch ? { ...one, steps: rest, begun: true } : one));
    const done = remember(moment.done, step);
    return [{ label: told(step), to: { ...moment, state: acted.state, inHand, done }, cost: 0, step }];
  }

  #isBroken(before: Moment, way: Way, id: number): boolean {
    if (before.state === way.to.state) return false;
    const { ground, desired } = this.#scenario;
    const { target, state } = before;
    const wanted = desired(target, state.record?.commit ?? 'base', state.record?.headBegun ?? false);
    const byStep = way.step === undefined ? null : brokenByStep(ground, state, way.to.state, way.step, wanted);
    const what = byStep ?? brokenByChange(state, way.to.state, this.#scenario.start);
    if (what !== null) this.#found(what, id, way.label);
    return what !== null;
  }
}

/** Faults after which an API may answer no more: no step through it commutes with them. */
const STOPS_API: ReadonlySet<FaultKind> = new Set<FaultKind>(['cut', 'dead', 'emptied']);

/**
 * The hosts that the steps in hand concern. What happens to another host commutes with them, and comes after them. Null
 * for all hosts, where nothing is in hand or a step looks at the whole cluster.
 */
function hostsInHand({ inHand }: Moment): ReadonlySet<string> | null {
  if (inHand.length === 0 || inHand.some(({ steps }) => steps.some(({ action }) => WIDE.has(action)))) return null;
  return new Set(inHand.map(({ host }) => host));
}

/** Steps whose outcome depends on other hosts than their own. */
const WIDE: ReadonlySet<string> = new Set(['start-service', 'settle', 'delete-node', 'remove-member', 'write-record']);

/** One batch alone where its next step commutes with those of the others; else all of them. */
function quietFirst(hands: readonly Batch[]): readonly Batch[] {
  const quiet = hands.find(({ steps }) => steps[0] !== undefined && QUIET.has(steps[0].action));
  return quiet === undefined ? hands : [quiet];
}

const RECORDS: ReadonlySet<string> = new Set(['write-record', 'delete-record']);

const stopsServer = ({ action, service }: Step): boolean => action === 'stop-service' && service === 'k3s';

const stepKey = ({ action, service, value }: Step): string => `${action} ${service ?? ''} ${value ?? ''}`;

export function told({ action, host, service, value }: Step): string {
  return [action, host, service, value === null ? null : `"${value}"`].filter((part) => part !== null).join(' ');
}

function ends(refused: NextSteps['refused']): string {
  if (refused.length === 0) return 'the run ends, all done';
  return `the run ends, refused: ${refused.map(({ code, hosts }) => `${code} ${hosts.join(' ')}`).join('; ')}`;
}
