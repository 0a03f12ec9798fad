import { describe, expect, it } from 'vitest';
import { known, PLAIN_NODE } from '../../src/plan/observation.js';
import { bare, five, inputOf, notes, observeAll, on, plan, refusals, service, settled, steps, url } from './worlds.js';

describe('what is not proved', () => {
  const one = { groupVars: on, hosts: { n1: {}, n2: { node_role: 'agent' } } };
  const stopped = (role: 'server' | 'agent') =>
    known({
      k3s: service({ state: role === 'server' ? 'stopped' : 'idle', containerId: 'a' }),
      'k3s-agent': service({ state: role === 'agent' ? 'stopped' : 'idle', containerId: 'b' }),
    });

  it('is never a first cluster: a fresh machine does not replace the only server while that one runs', () => {
    const head = { groupVars: on, hosts: { n3: {}, n2: { node_role: 'agent' }, n4: { node_role: 'agent' } } };
    const observed = observeAll(inputOf(one, head), (host) =>
      ['n3', 'n4'].includes(host.name) ? bare(null) : settled(host),
    );
    const made = plan(one, head, observed);
    expect(refusals(made)).toContain('adoption n3');
    expect(refusals(made)).toContain('adoption n1');
    expect(steps(made, 'n3')).toEqual([]);
    expect(notes(made)).not.toContain('no-cluster');
    // The added agent joins who serves, not who should.
    expect(steps(made, 'n4')).toContain(`write-join-url ${url('n1')}`);
  });

  it.each([
    ['a datastore', { datastore: known('etcd' as const) }],
    ['a tombstone', { tombstone: known(true) }],
    ['a datastore set aside', { setAside: known(true) }],
  ])('is no first cluster where a host without containers has %s', (_what, trace) => {
    const observed = observeAll(inputOf(null, one), (host) => bare(null, host.name === 'n1' ? trace : {}));
    const made = plan(null, one, observed);
    expect(notes(made)).not.toContain('no-cluster');
    expect(refusals(made)).toContain('no-lock n1 n2');
    expect(steps(made)).toEqual([]);
  });

  it('gives a fresh bootstrap host nothing while the other servers cannot be seen', () => {
    const head = { groupVars: on, hosts: { n3: { bootstrap: true }, n1: {}, n2: {} } };
    const observed = observeAll(inputOf(null, head), (host) =>
      host.name === 'n3' ? bare(null) : { kind: 'unreachable', class: 'connect', message: 'refused' },
    );
    const made = plan(null, head, observed);
    expect(refusals(made)).toContain('no-lock n3 n1 n2');
    expect(steps(made)).toEqual([]);
  });

  it('points nobody to a host that is only declared a server, also while another serves that is declared an agent', () => {
    const head = {
      groupVars: on,
      hosts: { a: { bootstrap: true }, s: { node_role: 'agent' }, b: { node_role: 'agent' } },
    };
    const roles = { a: 'agent', s: 'server', b: 'agent' } as const;
    const observed = observeAll(inputOf(null, head), (host) => bare(roles[host.name as keyof typeof roles]));
    const made = plan(null, head, observed);
    expect(refusals(made)).toEqual(['adoption a', 'adoption s']);
    expect(steps(made, 'b')).toContain(`write-join-url ${url('s')}`);
  });

  it('refuses a host that has nothing to join', () => {
    const observed = observeAll(inputOf(null, one), (host) =>
      bare(host.role, host.name === 'n1' ? { services: stopped('server') } : {}),
    );
    const made = plan(null, one, observed);
    expect(refusals(made)).toEqual(['no-quorum n1', 'no-lock n1 n2']);
    expect(steps(made, 'n2')).toEqual([]);
  });

  it.each([
    ['agent', 'server'],
    ['server', 'agent'],
  ] as const)('is decided by the role file where nothing runs: %s stays while %s is declared', (word, declared) => {
    const hosts = {
      ...five,
      n4: { node_role: declared },
      n5: declared === 'server' ? { node_role: 'server' } : five.n5,
    };
    const head = { groupVars: on, hosts };
    const observed = observeAll(inputOf(head, head), (host) =>
      host.name === 'n4'
        ? { ...settled(host), role: { kind: 'text', text: word }, services: stopped(word) }
        : settled(host),
    );
    const made = plan(head, head, observed);
    expect(refusals(made)).toEqual(['adoption n4']);
    expect(steps(made, 'n4')).toEqual([]);
  });

  it('keeps a leaving agent that is evidently a server', () => {
    const base = { groupVars: on, hosts: five };
    const head = { groupVars: on, hosts: { n1: {}, n2: {}, n3: {}, n4: five.n4 } };
    const seen = observeAll(inputOf(base, head), (host) =>
      host.name === 'n5'
        ? {
            ...settled(host),
            role: { kind: 'text', text: 'server' },
            services: known({ k3s: service({ state: 'refusing' }), 'k3s-agent': service({ state: 'idle' }) }),
          }
        : settled(host),
    );
    const made = plan(base, head, seen);
    expect(refusals(made)).toEqual(['adoption n5']);
    expect(steps(made, 'n5')).toEqual([]);
  });

  it('keeps a leaving agent whose Node the cluster does not know by that name', () => {
    const base = { groupVars: on, hosts: five };
    const head = { groupVars: on, hosts: { n1: {}, n2: {}, n3: {}, n4: five.n4 } };
    const seen = observeAll(inputOf(base, head), settled);
    const made = plan(base, head, {
      ...seen,
      nodes: known(
        new Map([...['n1', 'n2', 'n3', 'n4'].map((name) => [name, PLAIN_NODE] as const), ['ip-10-0-0-5', PLAIN_NODE]]),
      ),
    });
    expect(refusals(made)).toEqual(['unknown-node n5']);
    expect(made.refusals[0]?.message).toContain('ip-10-0-0-5');
    expect(steps(made, 'n5')).toEqual([]);
  });

  it('makes the directory that a leaving host needs for its fence, and deletes the Node of one whose project is gone', () => {
    const base = { groupVars: on, hosts: five };
    const head = { groupVars: on, hosts: { n1: {}, n2: {}, n3: {}, n4: five.n4 } };
    const nodes = known(
      new Map([
        ...['n1', 'n2', 'n3', 'n4'].map((name) => [name, PLAIN_NODE] as const),
        ['n5', { ...PLAIN_NODE, ready: false }],
      ]),
    );
    const of = (more: Parameters<typeof bare>[1]) =>
      plan(base, head, {
        ...observeAll(inputOf(base, head), (host) => (host.name === 'n5' ? bare('agent', more) : settled(host))),
        nodes,
      });
    expect(steps(of({}), 'n5').slice(0, 2)).toEqual(['create-role-directory', 'write-role ']);
    const gone = of({ provisioned: false, services: known({ k3s: service(), 'k3s-agent': service() }) });
    expect(steps(gone, 'n5')).toEqual(['delete-node']);
  });

  it('keeps the role files of a host whose join-url file cannot be read when the controller is turned off', () => {
    const base = { groupVars: on, hosts: five };
    const observed = observeAll(inputOf(base, { hosts: five }), (host) => ({
      ...settled(host),
      role: { kind: 'text', text: host.role },
      joinUrl: host.name === 'n4' ? { kind: 'unreadable' } : { kind: 'text', text: url('n1') },
    }));
    const made = plan(base, { hosts: five }, observed);
    expect(refusals(made)).toEqual(['running-role n4']);
    expect(steps(made, 'n4')).toEqual([]);
  });

  it('stops no service that the role file names when the controller is turned off: it may only be starting', () => {
    const base = { groupVars: on, hosts: five };
    const starting = known({ k3s: service(), 'k3s-agent': service({ state: 'idle', containerId: 'c' }) });
    const observed = observeAll(inputOf(base, { hosts: five }), (host) => ({
      ...settled(host),
      role: { kind: 'text', text: host.role },
      joinUrl: { kind: 'text', text: url('n1') },
      ...(host.name === 'n4' ? { services: starting } : {}),
    }));
    expect(steps(plan(base, { hosts: five }, observed), 'n4').filter((step) => step.startsWith('stop'))).toEqual([]);
  });
});
