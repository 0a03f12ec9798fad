import { describe, expect, it } from 'vitest';
import type { Intent, World } from '../../src/plan/desired.js';
import { makePlan } from '../../src/plan/make-plan.js';
import { Members } from '../../src/plan/membership.js';
import { nextSteps } from '../../src/plan/next-steps.js';
import {
  type HostObservation,
  known,
  type NodeObservation,
  type Observation,
  type ReachedHost,
  type ServerObservation,
  unknown,
} from '../../src/plan/observation.js';
import type { ClusterPlan } from '../../src/plan/plan.js';
import type { InventorySketch } from '../helpers/inventory.js';
import {
  adopted,
  BASE,
  bare,
  IDENTITY,
  inputOf,
  intent,
  member,
  observeAll,
  on,
  plan,
  record,
  refusals,
  serverNode,
  service,
  settled,
  url,
} from './worlds.js';

const S = { node_role: 'server' };
const A = { node_role: 'agent' };
const fleet = (hosts: InventorySketch['hosts'], vars: InventorySketch['groupVars'] = on): InventorySketch => ({
  groupVars: vars,
  hosts,
});
const three = { n1: S, n2: S, n3: S, n4: A, n5: A };
const five = { n1: S, n2: S, n3: S, n4: S, n5: S, n6: A };
const FIVE = ['n1', 'n2', 'n3', 'n4', 'n5'];
/** Five servers of which the last two go: n4 first. */
const shrink = { ...five, n4: A, n5: A };
const guarded = (role: 'server' | 'agent', more: Partial<Parameters<typeof service>[0]> = {}) => {
  const up = service({
    state: 'running',
    containerId: 'c',
    mounted: true,
    guardsInside: '1',
    restartPolicy: 'unless-stopped',
    ...more,
  });
  return known({ k3s: role === 'server' ? up : service(), 'k3s-agent': role === 'agent' ? up : service() });
};

/** The head as a complete apply of the base left it, seen, with what a test changes. */
function seen(
  base: InventorySketch,
  head: InventorySketch,
  change: (name: string, host: ReachedHost) => HostObservation = (_name, host) => host,
): Observation {
  const input = inputOf(base, head);
  return adopted(
    observeAll(input, (host) => {
      const before = input.desired.hosts.find((entry) => entry.host.name === host.name)?.before ?? null;
      const as = before ?? host;
      const was = before === null ? bare(null) : { ...settled(as), services: guarded(as.role) };
      return change(host.name, { ...was, tlsSans: as.tlsSans.join(' ') });
    }),
    BASE,
  );
}

function of(
  base: InventorySketch,
  head: InventorySketch,
  observed: Observation,
  more: Partial<Intent> = {},
): ClusterPlan {
  return makePlan(inputOf(base, head), observed, { ...intent, ...more });
}

const brief = (made: ClusterPlan): readonly string[] =>
  made.steps.map((step) => [step.action, step.host, step.service].filter((part) => part !== null).join(' '));
const of1 = (made: ClusterPlan, host: string): readonly string[] =>
  made.steps.filter((step) => step.host === host).map((step) => step.action);
const without = <V>(map: ReadonlyMap<string, V>, name: string): ReadonlyMap<string, V> =>
  new Map([...map].filter(([key]) => key !== name));
const withNode = (observed: Observation, name: string, more: Partial<NodeObservation>): Observation => {
  if (observed.nodes?.kind !== 'known') throw new Error('the Nodes are known');
  const node = observed.nodes.value.get(name) ?? serverNode(name);
  return { ...observed, nodes: known(new Map(observed.nodes.value).set(name, { ...node, ...more })) };
};
const down = (observed: Observation, name: string): Observation => ({
  ...observed,
  servers: without(observed.servers, name),
});
const lists = (observed: Observation, names: readonly string[]): Observation => {
  const members = known(names.map((name) => member(name)));
  const servers = new Map(
    [...observed.servers].map(([name, server]): [string, ServerObservation] => [name, { ...server, members }]),
  );
  return { ...observed, servers };
};

const PROMOTION = [
  'drain',
  'write-role',
  'stop-service',
  'write-environment',
  'clear-password',
  'start-service',
  'await-voter',
  'write-identity',
  'settle',
  'uncordon',
];
const DEMOTION = [
  'drain',
  'write-role',
  'remove-member',
  'confirm-removed',
  'stop-service',
  'set-datastore-aside',
  'clean-node',
  'clear-password',
  'start-service',
  'await-ready',
  'settle',
  'uncordon',
];

describe('the sequences', () => {
  const swap = fleet({ ...three, n3: A, n4: S });

  it.each([false, true])(
    'promote before they demote, one member at a time, with the quorum at every step (observed: %s)',
    (observed) => {
      const made = observed ? of(fleet(three), swap, seen(fleet(three), swap)) : plan(fleet(three), swap);
      expect(made.refusals).toEqual([]);
      expect(of1(made, 'n4')).toEqual(PROMOTION);
      expect(of1(made, 'n3')).toEqual(DEMOTION);
      const order = brief(made);
      expect(order.indexOf('settle n4')).toBeLessThan(order.indexOf('drain n3'));
      const voters = made.steps.map((step) => step.voters?.after);
      expect(new Set(voters)).toEqual(new Set([3, 4]));
      for (const { voters } of made.steps) expect(voters?.healthy).toBeGreaterThanOrEqual(voters?.quorum ?? 99);
      expect(order[0]).toMatch(/^snapshot /);
      expect(order.at(-1)).toMatch(/^write-record /);
    },
  );

  it('replace the only server: nothing is left to join once it is gone', () => {
    const made = plan(fleet({ n1: S, n2: A }), fleet({ n1: A, n2: S }));
    expect(made.refusals).toEqual([]);
    const last = (host: string) =>
      made.steps.findLast((step) => step.host === host && step.action === 'write-join-url')?.value;
    expect(last('n2')).toBe('');
    expect(last('n1')).toBe(url('n2'));
    const order = brief(made);
    expect(order.indexOf('write-join-url n2')).toBeLessThan(order.indexOf('remove-member n1'));
  });

  it.each([
    ['grow from one to three', { n1: S, n2: A, n3: A }, { n1: S, n2: S, n3: S }, 3],
    ['grow from three to five', { n1: S, n2: S, n3: S, n4: A, n5: A }, { n1: S, n2: S, n3: S, n4: S, n5: S }, 5],
    ['shrink from five to three', { n1: S, n2: S, n3: S, n4: S, n5: S }, { n1: S, n2: S, n3: S, n4: A, n5: A }, 3],
    ['shrink from three to one', { n1: S, n2: S, n3: S }, { n1: S, n2: A, n3: A }, 1],
    [
      'replace all three',
      { a1: S, a2: S, a3: S, b1: A, b2: A, b3: A },
      { a1: A, a2: A, a3: A, b1: S, b2: S, b3: S },
      3,
    ],
  ] as const)('%s without ever having two changes open', (_what, base, head, end) => {
    const made = plan(fleet(base), fleet(head));
    expect(made.refusals).toEqual([]);
    expect(made.steps.at(-1)?.voters?.after).toBe(end);
    let open: string | null = null;
    for (const step of made.steps) {
      if (step.action === 'drain') {
        expect(open).toBeNull();
        open = step.host;
      }
      if (step.action === 'settle') open = null;
    }
  });

  it('re-point every host before a removal is asked for', () => {
    const made = plan(fleet(three), fleet({ ...three, n1: A, n4: S }));
    const asked = made.steps.findIndex((step) => step.action === 'remove-member');
    const pointed = made.steps.flatMap((step, index) =>
      step.action === 'write-join-url' && index < asked ? [step.host] : [],
    );
    expect(new Set(pointed)).toEqual(new Set(['n2', 'n3', 'n4', 'n5']));
  });

  it('take a removed server out, without starting an agent, and delete its Node last', () => {
    const { n3: _gone, ...rest } = three;
    const made = plan(fleet(three), fleet({ ...rest, n4: S }));
    expect(of1(made, 'n3')).toEqual([
      'drain',
      'write-role',
      'remove-member',
      'confirm-removed',
      'stop-service',
      'set-datastore-aside',
      'delete-node',
      'settle',
    ]);
    expect(made.steps.find((step) => step.action === 'write-role' && step.host === 'n3')?.value).toBe('');
  });

  it('keep a server down by its restart policy where the guards are not in force, and give it the guards before its datastore goes', () => {
    const head = fleet(shrink);
    const observed = seen(fleet(five), head, (name, host) =>
      name === 'n4' ? { ...host, services: guarded('server', { mounted: false, guardsInside: null }) } : host,
    );
    const made = of(fleet(five), head, observed);
    const steps = of1(made, 'n4');
    expect(steps[0]).toBe('set-restart-policy');
    expect(steps.indexOf('recreate-service')).toBeLessThan(steps.indexOf('set-datastore-aside'));
    expect(steps.filter((action) => action === 'set-restart-policy').length).toBe(2);
    expect(made.steps.findLast((step) => step.action === 'set-restart-policy')?.value).toBe('unless-stopped');
  });

  it('clear a stale removal from the Node before a former server joins again', () => {
    const head = fleet({ ...three, n4: S, n5: S });
    const observed = withNode(seen(fleet(three), head), 'n4', { removedName: 'n4-9999' });
    expect(of1(of(fleet(three), head, observed), 'n4')).toContain('clean-node');
  });
});

describe('what was left half-way is finished', () => {
  const head = fleet(shrink);
  const base = fleet(five);
  const fenced = (host: ReachedHost): ReachedHost => ({ ...host, role: { kind: 'text', text: 'agent' } });

  it('a fenced member is asked away', () => {
    const observed = seen(base, head, (name, host) => (name === 'n4' ? fenced(host) : host));
    expect(of1(of(base, head, observed), 'n4').slice(0, 2)).toEqual(['drain', 'remove-member']);
  });

  it('an asked removal is proved', () => {
    const observed = withNode(
      seen(base, head, (name, host) => (name === 'n4' ? fenced(host) : host)),
      'n4',
      { removeAsked: true },
    );
    expect(of1(of(base, head, observed, { drain: 'none' }), 'n4')[0]).toBe('confirm-removed');
  });

  it('a stopped former member becomes an agent', () => {
    const stopped = known({
      k3s: service({ state: 'stopped', mounted: true, guardsInside: '1' }),
      'k3s-agent': service(),
    });
    const observed = lists(
      seen(base, head, (name, host) => (name === 'n4' ? { ...fenced(host), services: stopped } : host)),
      ['n1', 'n2', 'n3', 'n5'],
    );
    expect(of1(of(base, head, withNode(observed, 'n4', { ready: false })), 'n4')).toEqual([
      'set-datastore-aside',
      'clean-node',
      'clear-password',
      'start-service',
      'await-ready',
    ]);
  });

  it('a cordon of ours on a node that no step needs is lifted; one of somebody else stays', () => {
    const ours = withNode(adopted(seen(base, base)), 'n2', { unschedulable: true, cordonedBy: 'a run' });
    expect(brief(of(base, base, ours))).toContain('uncordon n2');
    const theirs = withNode(adopted(seen(base, base)), 'n2', { unschedulable: true });
    expect(brief(of(base, base, theirs))).toEqual([]);
  });

  it('a learner that was left behind is awaited', () => {
    const three0 = fleet(three);
    const up = fleet({ ...three, n4: S, n5: S });
    const observed = seen(three0, up, (name, host) =>
      name === 'n4'
        ? { ...host, role: { kind: 'text', text: 'server' }, datastore: known('etcd'), services: guarded('server') }
        : host,
    );
    const members = known([member('n1'), member('n2'), member('n3'), member('n4', { learner: true })]);
    const servers = new Map(
      [...without(observed.servers, 'n4')].map(([name, server]): [string, ServerObservation] => [
        name,
        { ...server, members },
      ]),
    );
    expect(of1(of(three0, up, { ...observed, servers }), 'n4')[0]).toBe('await-voter');
  });
});

describe('an agent whose Node is not Ready', () => {
  const base = fleet(three);
  const sick = (shared: boolean) =>
    withNode(
      adopted(seen(base, base, (name, host) => (name === 'n5' ? { ...host, passwordShared: known(shared) } : host))),
      'n5',
      { ready: false },
    );

  it('gets its password cleared once where its container has one of its own', () => {
    expect(of1(of(base, base, sick(false)), 'n5')).toEqual(['clear-password']);
    expect(of1(of(base, base, sick(true)), 'n5')).toEqual([]);
  });
});

describe('a change is refused', () => {
  const base = fleet(five);
  const demote = fleet(shrink);
  const trio = fleet(three);
  const grow = fleet({ ...three, n4: S, n5: S });
  const code = (head: InventorySketch, observed: Observation, more: Partial<Intent> = {}): readonly string[] =>
    refusals(of(base, head, observed, more));

  it('with quorum, where it would be lost', () => {
    const one = fleet({ n1: S, n2: A });
    const none = fleet({ n2: { ...S }, n1: A });
    const observed = seen(one, none, (name, host) => (name === 'n2' ? { ...host, token: known(false) } : host));
    expect(refusals(of(one, none, observed))).toEqual(['no-token n2']);
  });

  it('with unhealthy-voter, where another voter is not seen to be healthy', () => {
    const made = code(demote, down(seen(base, demote), 'n2'));
    expect(made).toEqual(['unhealthy-voter n4']);
  });

  it('but an unhealthy voter that is declared no server any more goes first', () => {
    const head = fleet({ ...three, n3: A, n4: S });
    const made = of(trio, head, down(seen(trio, head), 'n3'));
    expect(made.refusals).toEqual([]);
    expect(brief(made).indexOf('remove-member n3')).toBeLessThan(brief(made).indexOf('start-service n4 k3s'));
  });

  it('with unhealthy-voter, where a member is no host of the inventory', () => {
    const made = of(base, demote, lists(seen(base, demote), [...FIVE, 'ghost']));
    expect(refusals(made)).toEqual(['unhealthy-voter n4']);
    expect(made.refusals[0]?.message).toContain('github_runner_cluster_node_role: agent');
  });

  it('with pending-change, where a learner or a removal of another host is open', () => {
    const observed = seen(base, demote);
    const members = known([...FIVE.map((name) => member(name)), member('x', { learner: true })]);
    const servers = new Map(
      [...observed.servers].map(([name, server]): [string, ServerObservation] => [name, { ...server, members }]),
    );
    expect(code(demote, { ...observed, servers })).toEqual(['pending-change n4']);
    expect(code(demote, withNode(observed, 'n2', { removeAsked: true }))).toEqual([]);
  });

  it('with two-identities, where two clusters answer, where another one is written down, and where two lists are told', () => {
    const observed = seen(base, demote);
    const n2 = observed.servers.get('n2') as ServerObservation;
    const other = new Map(observed.servers).set('n2', { ...n2, identity: known('other') });
    expect(code(demote, { ...observed, servers: other })).toEqual(['two-identities n1 n2 n3 n4 n5']);
    const written = seen(base, demote, (name, host) =>
      name === 'n1' ? { ...host, cluster: { kind: 'text', text: 'other' } } : host,
    );
    expect(code(demote, written)).toEqual(['two-identities n1']);
    const lost = new Map(observed.servers).set('n2', { ...n2, members: known([member('n2')]) });
    expect(code(demote, { ...observed, servers: lost })[0]).toMatch(/^two-identities/);
  });

  it('with unhealthy-voter, where the list does not name who serves', () => {
    expect(code(demote, lists(seen(base, demote), ['n1', 'n2', 'n3', 'n4']))).toEqual([
      'unhealthy-voter n4',
      'unhealthy-voter n5',
    ]);
  });

  it.each([
    ['no-token', { token: known(false) }],
    ['no-token', { token: unknown('docker is silent') }],
    ['guards', { oneFileSystem: known(false) }],
    ['guards', { unsteerable: 'config.yaml sets server' }],
    ['foreign-entrypoint', { services: guarded('agent', { entrypoint: 'foreign' }) }],
  ] as const)('with %s, before anything is begun', (expected, more) => {
    const observed = seen(trio, grow, (name, host) => (name === 'n4' ? { ...host, ...more } : host));
    const made = of(trio, grow, observed);
    expect(refusals(made)).toEqual([`${expected} n4`]);
    expect(made.steps.filter((step) => step.action === 'drain')).toEqual([]);
  });

  it('with old-k3s', () => {
    expect(code(demote, withNode(seen(base, demote), 'n4', { version: 'v1.29.9+k3s1' }))).toEqual(['old-k3s n4']);
  });

  it('with adoption, as long as there is no record', () => {
    expect(code(demote, { ...seen(base, demote), record: known(null) })).toEqual(['adoption n4', 'adoption n5']);
    expect(code(demote, { ...seen(base, demote), record: record({ commit: null }) })).toEqual([
      'adoption n4',
      'adoption n5',
    ]);
  });

  it('with rollback, other-repository and runs-on-node', () => {
    const observed = seen(base, demote);
    expect(code(demote, observed, { relation: 'behind' })[0]).toMatch(/^rollback/);
    expect(code(demote, observed, { relation: 'behind', allowRollback: true })).toEqual([]);
    expect(code(demote, observed, { relation: 'unknown' })).toEqual(['rollback n4']);
    expect(code(demote, observed, { repository: 'other/one' })[0]).toMatch(/^other-repository/);
    expect(code(demote, observed, { runsOn: 'n4' })).toEqual(['runs-on-node n4']);
    expect(code(demote, observed, { runsOn: 'n2' })).toEqual([]);
  });

  it('with joins-leaving, where a host joins by its own server_url through the member that goes', () => {
    const pinned = { ...five, n6: { ...A, server_url: url('n4') } };
    const head = fleet({ ...pinned, n4: A, n5: A });
    const observed = seen(fleet(pinned), head);
    expect(refusals(of(fleet(pinned), head, observed))).toEqual(['joins-leaving n4']);
  });

  it('with needs-rejoin, where a listed member has nothing to start from', () => {
    const observed = seen(base, base, (name, host) =>
      name === 'n2'
        ? {
            ...host,
            datastore: known('none'),
            services: known({ k3s: service({ state: 'stopped' }), 'k3s-agent': service() }),
          }
        : host,
    );
    expect(refusals(of(base, base, observed))).toEqual(['needs-rejoin n2']);
  });

  it('with unreachable, where a listed member cannot be reached, unless it is taken out by force', () => {
    const gone = () => ({ kind: 'unreachable', class: 'connect', message: 'refused' }) as const;
    const observed = down(
      seen(base, demote, (name, host) => (name === 'n4' ? gone() : host)),
      'n4',
    );
    const listed = lists(observed, FIVE);
    expect(code(demote, listed)).toEqual(['unreachable n4']);
    const forced = of(base, demote, withNode(listed, 'n4', {}), { forceUnreachable: true });
    expect(brief(forced)).toEqual(expect.arrayContaining(['remove-member n4', 'confirm-removed n4']));
  });
});

describe('without a quorum', () => {
  const base = fleet(five);
  const silent = (head: InventorySketch, change: (name: string, host: ReachedHost) => ReachedHost): Observation => ({
    ...seen(base, head, change),
    servers: new Map(),
    nodes: unknown('no API'),
    record: unknown('no API'),
  });

  it('only what a fence held back is started again', () => {
    const head = fleet(shrink);
    const observed = silent(head, (name, host) =>
      name === 'n4'
        ? {
            ...host,
            role: { kind: 'text', text: 'agent' },
            services: known({
              k3s: service({ state: 'idle', mounted: true, guardsInside: '1' }),
              'k3s-agent': service(),
            }),
          }
        : host,
    );
    const world: World = { desired: inputOf(base, head).desired, observed, intent };
    const next = nextSteps(world);
    expect(next.now.map((step) => `${step.action} ${step.host} ${step.value}`)).toEqual(['write-role n4 server']);
    expect(next.refused.map((refusal) => refusal.code)).toEqual(['no-quorum', 'no-lock']);
    expect(next.refused[0]?.message).toContain('--cluster-reset');
  });

  it('nothing with a tombstone and nothing without a datastore is started', () => {
    for (const more of [
      { tombstone: known(true) },
      { datastore: known('none' as const) },
      { datastore: unknown('?') },
    ]) {
      const observed = silent(base, (name, host) =>
        name === 'n4'
          ? {
              ...host,
              ...more,
              role: { kind: 'text', text: 'agent' },
              services: known({ k3s: service({ state: 'idle' }), 'k3s-agent': service() }),
            }
          : host,
      );
      expect(nextSteps({ desired: inputOf(base, base).desired, observed, intent }).now).toEqual([]);
    }
  });
});

describe('a rejoin', () => {
  const base = fleet(three);
  const rejoin = (host: string): Partial<Intent> => ({ mode: 'rejoin', host });
  const lost = (more: Partial<ReachedHost> = {}) =>
    down(
      seen(base, base, (name, host) =>
        name === 'n2'
          ? {
              ...host,
              datastore: known('none'),
              services: known({
                k3s: service({ state: 'stopped', mounted: true, guardsInside: '1' }),
                'k3s-agent': service(),
              }),
              ...more,
            }
          : host,
      ),
      'n2',
    );

  it('needs nothing where the member votes in the right cluster', () => {
    const made = of(base, base, adopted(seen(base, base)), rejoin('n2'));
    expect(made).toMatchObject({ steps: [], refusals: [] });
  });

  it('fences, asks away, proves, and joins again, with the others re-pointed', () => {
    const made = of(base, base, lost(), rejoin('n2'));
    expect(made.refusals).toEqual([]);
    expect(of1(made, 'n2')).toEqual([
      'write-role',
      'remove-member',
      'confirm-removed',
      'clean-node',
      'write-role',
      'clear-password',
      'start-service',
      'await-voter',
      'settle',
    ]);
    expect(made.steps.filter((step) => step.action === 'write-role').map((step) => step.value)).toEqual(['', 'server']);
  });

  it('sets a datastore of another cluster aside, with its certificates, and writes the right identity', () => {
    const observed = seen(base, base, (name, host) =>
      name === 'n2' ? { ...host, cluster: { kind: 'text', text: 'other' } } : host,
    );
    const n2 = observed.servers.get('n2') as ServerObservation;
    const split = {
      ...lists(observed, ['n1', 'n3']),
    };
    const servers = new Map(split.servers).set('n2', {
      ...n2,
      identity: known('other'),
      members: known([member('n2')]),
    });
    const made = of(base, base, { ...split, servers }, rejoin('n2'));
    expect(made.refusals).toEqual([]);
    expect(made.steps.find((step) => step.action === 'set-datastore-aside')?.value).toBe('db tls cred');
    expect(made.steps.find((step) => step.action === 'write-identity')?.value).toBe(IDENTITY);
    // The other way round it would throw the fleet away.
    expect(refusals(of(base, base, { ...split, servers }, rejoin('n1')))[0]).toMatch(/^two-identities/);
  });

  it('is refused with unhealthy-voter while another voter is down', () => {
    expect(refusals(of(base, base, down(lost(), 'n3'), rejoin('n2')))).toEqual(['no-quorum n2', 'quorum n2']);
  });
});

describe('the rollout', () => {
  const base = fleet(three);
  const bareOf = (role: 'server' | 'agent') => guarded(role, { mounted: false, guardsInside: null });
  const observed = adopted(
    seen(base, base, (name, host) => ({ ...host, services: bareOf(['n4', 'n5'].includes(name) ? 'agent' : 'server') })),
  );

  it('recreates nobody by default', () => {
    expect(brief(of(base, base, observed))).toEqual([]);
  });

  it('recreates one server at a time, settled in between, and agents only where all is asked for', () => {
    const servers = of(base, base, observed, { rollout: 'servers' });
    expect(servers.refusals).toEqual([]);
    expect(of1(servers, 'n1')).toEqual(['drain', 'recreate-service', 'start-service', 'settle', 'uncordon']);
    expect(of1(servers, 'n4')).toEqual([]);
    const order = brief(servers).filter((step) => /^(?:recreate|settle)/.test(step));
    expect(order).toEqual([
      'recreate-service n1 k3s',
      'settle n1',
      'recreate-service n2 k3s',
      'settle n2',
      'recreate-service n3 k3s',
      'settle n3',
    ]);
    const all = of(base, base, observed, { rollout: 'all' });
    expect(of1(all, 'n4')).toEqual([
      'drain',
      'recreate-service',
      'clear-password',
      'start-service',
      'await-ready',
      'uncordon',
    ]);
  });
});

describe('a rollout', () => {
  const unguarded = (role: 'server' | 'agent') => guarded(role, { mounted: false, guardsInside: null });

  it('on SQLite recreates without members to settle', () => {
    const sqlite = fleet({ n1: S, n2: A }, { ...on, datastore: 'sqlite' });
    const observed = adopted(
      seen(sqlite, sqlite, (name, host) => ({
        ...host,
        datastore: known(name === 'n1' ? 'sqlite' : 'none'),
        services: unguarded(name === 'n1' ? 'server' : 'agent'),
      })),
    );
    const made = of(sqlite, sqlite, observed, { rollout: 'all' });
    expect(made.refusals).toEqual([]);
    expect(of1(made, 'n1')).toEqual(['drain', 'recreate-service', 'start-service', 'uncordon']);
    expect(of1(made, 'n2')).toContain('recreate-service');
  });

  it('is refused, not left out in silence, where the members are not known', () => {
    const base = fleet(three);
    const all = seen(base, base, (name, host) => ({
      ...host,
      services: unguarded(['n4', 'n5'].includes(name) ? 'agent' : 'server'),
    }));
    const made = of(base, base, lists(adopted(all), ['n1', 'n2']), { rollout: 'servers' });
    expect(new Set(made.refusals.map((refusal) => refusal.code))).toEqual(new Set(['unhealthy-voter']));
    expect(made.steps).toEqual([]);
  });
});

describe('the members', () => {
  it('are believed only where every host that serves is named', () => {
    const base = fleet(three);
    const input = inputOf(base, base);
    expect(new Members({ desired: input.desired, observed: seen(base, base) }).membership.kind).toBe('believed');
    expect(
      new Members({ desired: input.desired, observed: lists(seen(base, base), ['n1', 'n2']) }).membership.kind,
    ).toBe('doubtful');
  });
});
