import pLimit from 'p-limit';
import { describe, expect, it } from 'vitest';
import { type ApplyOptions, applyCluster, type CarriedOut, type Judged, observe } from '../src/apply.js';
import type { Host } from '../src/fleet/fleet.js';
import type { PlanInput } from '../src/plan/make-plan.js';
import { nextSteps, predict } from '../src/plan/next-steps.js';
import { type HostObservation, known, type Observation, PLAIN_NODE, unknown } from '../src/plan/observation.js';
import type { Step, StepState } from '../src/plan/step.js';
import { adopted, bare, inputOf, intent, observeAll, service, settled } from './plan/worlds.js';

const on = { controller: true };
const hosts = { n1: {}, n2: {}, n3: {}, n4: { node_role: 'agent' }, n5: { node_role: 'agent' } };

/** Hosts that do what they are told, by the predictions of the plan, except where a test says otherwise. */
class World {
  readonly #input: PlanInput;
  readonly done: string[] = [];
  readonly looks: string[] = [];
  atOnce = 0;
  most = 0;
  observed: Observation;
  /** Called before a batch is done; what it returns replaces the result. */
  lost: string | null = null;
  sleeps = 0;
  wake: (sleeps: number) => void = () => {};
  interfere: (host: Host, steps: readonly Step[]) => CarriedOut | null = () => null;

  constructor(input: PlanInput, make: (host: Host) => HostObservation) {
    this.#input = input;
    this.observed = observeAll(input, make);
  }

  see(name: string): HostObservation {
    const seen = this.observed.hosts.get(name);
    if (seen === undefined) throw new Error(`no host ${name}`);
    return seen;
  }

  #do(steps: readonly Step[]): void {
    this.done.push(...steps.map((step) => `${step.action} ${step.host}`));
    this.observed = predict(steps, { desired: this.#input.desired, observed: this.observed, intent }).observed;
  }

  options(more: Partial<ApplyOptions> = {}): ApplyOptions {
    return {
      hands: {
        lookAt: async (host) => {
          this.looks.push(host.name);
          return this.see(host.name);
        },
        carryOut: async (host, steps) => {
          this.atOnce += 1;
          this.most = Math.max(this.most, this.atOnce);
          await Promise.resolve();
          this.atOnce -= 1;
          const result = this.interfere(host, steps);
          if (result !== null) return result;
          this.#do(steps);
          return { done: steps, failed: null, observation: this.see(host.name) };
        },
      },
      cluster: {
        look: async () => {
          const { servers, nodes, record } = this.observed;
          return { servers, nodes, record };
        },
        carryOut: async (_through, step) => {
          this.#do([step]);
          return null;
        },
        acquire: async () => {
          this.done.push('lock');
          return {
            kind: 'held',
            lock: { lost: async () => this.lost, release: async () => void this.done.push('release') },
          };
        },
        markStarted: async () => null,
        ownNode: async () => null,
      },
      sleep: async () => {
        this.sleeps += 1;
        this.wake(this.sleeps);
      },
      stepSeconds: 600,
      judge: (input) => this.judge(input),
      limit: pLimit(20),
      clock: () => 0,
      signal: new AbortController().signal,
      ...more,
    };
  }

  async judge(input: PlanInput): Promise<Judged> {
    return { input, intent, observed: await observe(input, this.options()) };
  }

  async apply(more: Partial<ApplyOptions> = {}) {
    const options = this.options(more);
    const states: string[][] = [];
    const all = new Map<string, StepState>();
    const applied = await applyCluster(await this.judge(this.#input), options, all, () => {
      states.push([...all.values()]);
    });
    return { ...applied, states };
  }
}

const head = { groupVars: on, hosts };
const turningOn = () => new World(inputOf({ hosts }, head), (host) => bare(host.role));

describe('an apply', () => {
  it('does what the plan shows, in each host by its order, and ends with nothing left', async () => {
    const world = turningOn();
    const { plan, failures, states } = await world.apply();
    expect(failures).toEqual([]);
    expect(plan.refusals).toEqual([]);
    expect(world.done.filter((step) => step.endsWith(' n4'))).toEqual(
      plan.steps.filter((step) => step.host === 'n4').map((step) => `${step.action} n4`),
    );
    expect(states.at(-1)).toEqual(plan.steps.map(() => 'done'));
    expect(states[0]).toEqual([]);
  });

  it('leaves the states of other clusters as they are', async () => {
    const world = turningOn();
    const options = world.options();
    const states = new Map<string, StepState>([['elsewhere#1', 'failed']]);
    const input = inputOf({ hosts }, head);
    await applyCluster(await world.judge(input), options, states, () => {});
    expect(states.get('elsewhere#1')).toBe('failed');
    expect(states.get('github_runner_cluster#1')).toBe('done');
  });

  it('works on no more hosts at the same time than it may', async () => {
    const world = turningOn();
    await world.apply({ limit: pLimit(2) });
    expect(world.most).toBe(2);
  });

  it('leaves a host that fails as it is and goes on with the others', async () => {
    const world = turningOn();
    world.interfere = (host, steps) => {
      const [first, second] = steps;
      if (host.name !== 'n2' || first === undefined || second === undefined) return null;
      return { done: [first], failed: { step: second, message: 'The disk is full.' }, observation: world.see('n2') };
    };
    const { failures, plan, states } = await world.apply();
    expect(failures).toMatchObject([{ step: { host: 'n2' }, message: 'The disk is full.' }]);
    expect(plan.refusals).toEqual([]);
    expect(new Set(states.at(-1))).toEqual(new Set(['done', 'failed', 'to-come']));
    expect(world.done.filter((step) => step.endsWith(' n3')).length).toBeGreaterThan(0);
    expect(world.done.some((step) => step.endsWith(' n2'))).toBe(false);
  });

  it('takes a host that is lost after its steps as failed, not as refused', async () => {
    const world = turningOn();
    world.interfere = (host, steps) =>
      host.name === 'n5'
        ? { done: steps, failed: null, observation: { kind: 'unreachable', class: 'connect', message: 'It is gone.' } }
        : null;
    const { failures, plan } = await world.apply();
    expect(failures).toMatchObject([{ step: { host: 'n5' }, message: 'It is gone.' }]);
    expect(plan.refusals).toEqual([]);
  });

  it('does not do a step for ever that its host does not show', async () => {
    const world = turningOn();
    world.interfere = (host, steps) =>
      host.name === 'n4' ? { done: steps, failed: null, observation: bare('agent') } : null;
    const { failures } = await world.apply();
    expect(failures).toMatchObject([{ step: { host: 'n4' }, message: expect.stringContaining('does not show it') }]);
  });

  it('starts no new step once it is cancelled', async () => {
    const world = turningOn();
    const cancel = new AbortController();
    world.interfere = () => {
      cancel.abort();
      return null;
    };
    const { plan, states } = await world.apply({ limit: pLimit(1), signal: cancel.signal });
    expect(new Set(world.done.flatMap((step) => step.split(' ')[1] ?? []))).toEqual(new Set(['n1']));
    expect(states.at(-1)?.filter((state) => state === 'done').length).toBeLessThan(plan.steps.length);
  });

  it('looks at no host of a cluster that has no business with any', async () => {
    const world = new World(inputOf({ hosts }, { hosts }), (host) => bare(host.role));
    await world.apply();
    expect(world.looks).toEqual([]);
  });
});

function withoutN5({ nodes }: Observation): Observation['nodes'] {
  if (nodes?.kind !== 'known') throw new Error('the Nodes are known');
  return known(new Map([...nodes.value].filter(([name]) => name !== 'n5')));
}

describe('a leaving agent', () => {
  const without = { n1: {}, n2: {}, n3: {}, n4: { node_role: 'agent' } };
  const leaving = () => {
    const world = new World(inputOf(head, { groupVars: on, hosts: without }), settled);
    world.observed = adopted(world.observed);
    return world;
  };

  it('is asked one stage at a time: what a stage needs is looked at before the next one', () => {
    const input = inputOf(head, { groupVars: on, hosts: without });
    const fenced = leaving().observed;
    const all = new Map(fenced.hosts);
    const n5 = all.get('n5');
    if (n5?.kind !== 'reached') throw new Error('n5 is reached');
    all.set('n5', { ...n5, role: { kind: 'text', text: '' } });
    const stage = (observed: Observation) =>
      nextSteps({ desired: input.desired, observed, intent }).now.map((step) => step.action);
    expect(stage({ ...fenced, hosts: all })).toEqual(['drain']);
    const cordoned = known(new Map([['n5', { ...PLAIN_NODE, unschedulable: true, cordonedBy: 'this run' }]]));
    const done = [{ action: 'drain', host: 'n5', service: null }];
    const drained = { ...fenced, hosts: all, nodes: cordoned, run: { done } };
    expect(stage(drained)).toEqual(['stop-service']);
    const stopped = new Map(all).set('n5', {
      ...n5,
      role: { kind: 'text', text: '' },
      services: known({ k3s: service(), 'k3s-agent': service({ state: 'stopped' }) }),
    });
    expect(stage({ ...drained, hosts: stopped })).toEqual(['delete-node']);
  });

  it('whose Node disappears when it is stopped is applied: what is not needed any more is no step', async () => {
    const world = leaving();
    world.interfere = (_host, steps) => {
      if (steps.some((step) => step.action === 'stop-service'))
        world.observed = { ...world.observed, nodes: withoutN5(world.observed) };
      return null;
    };
    const { failures, plan, states } = await world.apply();
    expect(failures).toEqual([]);
    expect(plan.refusals).toEqual([]);
    expect(world.done.slice(1, -1)).toEqual(plan.steps.map((step) => `${step.action} ${step.host}`));
    expect(plan.steps.map((step) => step.number)).toEqual(plan.steps.map((_, index) => index + 1));
    expect(plan.steps.some((step) => step.action === 'delete-node')).toBe(false);
    expect(states.at(-1)).toEqual(plan.steps.map(() => 'done'));
  });

  it('keeps its steps in the plan where the Nodes cannot be seen any more', async () => {
    const world = leaving();
    world.interfere = (_host, steps) => {
      if (steps.some((step) => step.action === 'stop-service'))
        world.observed = { ...world.observed, nodes: unknown('the API does not answer') };
      return null;
    };
    const { plan } = await world.apply();
    expect(plan.steps.map((step) => step.action)).toContain('delete-node');
  });

  it('is not stopped when its drain fails', async () => {
    const world = leaving();
    const options = world.options();
    const { failures } = await world.apply({
      cluster: { ...options.cluster, carryOut: async () => 'A runner pod still works.' },
    });
    expect(failures).toMatchObject([{ step: { action: 'drain', host: 'n5' } }]);
    expect(world.done).toEqual(['lock', 'write-role n5', 'release']);
  });
});

describe('the lock', () => {
  it('is taken before the first write, and everything is judged again under it', async () => {
    const world = turningOn();
    await world.apply();
    expect(world.done[0]).toBe('lock');
    expect(world.done.at(-1)).toBe('release');
    // Once before it, and once under it.
    expect(world.looks.filter((name) => name === 'n4').length).toBe(2);
  });

  it('is not taken where nothing is to be done and nothing to be written down', async () => {
    const world = new World(inputOf(head, head), settled);
    world.observed = adopted(world.observed);
    const { plan } = await world.apply();
    expect(plan.steps).toEqual([]);
    expect(world.done).toEqual([]);
  });

  it('that another run holds fails this one, which then writes nothing', async () => {
    const world = turningOn();
    const { cluster } = world.options();
    const busy = async () => ({ kind: 'busy', message: 'run 7 holds it' }) as const;
    const { failures, plan } = await world.apply({ cluster: { ...cluster, acquire: busy } });
    expect(failures).toEqual([{ step: null, message: 'run 7 holds it' }]);
    expect(plan.refusals).toEqual([]);
    expect(world.done).toEqual([]);
  });

  it('that cannot be had is a refusal of every host', async () => {
    const world = turningOn();
    const { cluster } = world.options();
    const none = async () => ({ kind: 'no-lock', message: 'no API answers' }) as const;
    const { failures, plan } = await world.apply({ cluster: { ...cluster, acquire: none } });
    expect(failures).toEqual([]);
    expect(plan.refusals).toMatchObject([{ code: 'no-lock', hosts: ['n1', 'n2', 'n3', 'n4', 'n5'] }]);
    expect(world.done).toEqual([]);
  });

  it('that is lost ends the run before its next step', async () => {
    const world = turningOn();
    world.lost = 'another run took it';
    const { failures } = await world.apply();
    expect(failures).toEqual([{ step: null, message: 'another run took it' }]);
    expect(world.done).toEqual(['lock', 'release']);
  });
});

describe('a voter that is not healthy', () => {
  const three = { n1: { node_role: 'server' }, n2: { node_role: 'server' }, n3: { node_role: 'server' } };
  const five = { ...three, n4: { node_role: 'agent' }, n5: { node_role: 'agent' } };
  const grown = { ...three, n4: { node_role: 'server' }, n5: { node_role: 'server' } };
  const growing = () => {
    const world = new World(inputOf({ groupVars: on, hosts: five }, { groupVars: on, hosts: grown }), (host) =>
      settled(['n4', 'n5'].includes(host.name) ? { ...host, role: 'agent', roleFile: 'agent' } : host),
    );
    world.observed = adopted(world.observed, 'a'.repeat(40));
    return world;
  };
  const ready = (world: World, yes: boolean): void => {
    const n2 = world.observed.servers.get('n2');
    if (n2 === undefined) throw new Error('n2 serves');
    const servers = new Map(world.observed.servers).set('n2', { ...n2, ready: known(yes) });
    world.observed = { ...world.observed, servers };
  };

  it('is waited for, and the change goes on once it is back', async () => {
    const world = growing();
    ready(world, false);
    world.wake = (sleeps) => {
      if (sleeps === 3) ready(world, true);
    };
    const { failures, plan } = await world.apply();
    expect(world.sleeps).toBe(3);
    expect(failures).toEqual([]);
    expect(plan.refusals).toEqual([]);
    expect(world.done).toContain('await-voter n5');
  });

  it('is a refusal when it does not come back in time', async () => {
    const world = growing();
    ready(world, false);
    let now = 0;
    const { plan } = await world.apply({ clock: () => (now += 30_000) });
    expect(plan.refusals.map((refusal) => refusal.code)).toContain('unhealthy-voter');
    expect(world.done.some((step) => step.startsWith('start-service'))).toBe(false);
  });
});
