import { describe, expect, it } from 'vitest';
import { assumeBase } from '../../src/plan/assume.js';
import type { World } from '../../src/plan/desired.js';
import { makePlan } from '../../src/plan/make-plan.js';
import { nextSteps, predict } from '../../src/plan/next-steps.js';
import { known, unknown } from '../../src/plan/observation.js';
import { prepare } from '../../src/plan/prepare.js';
import { quorumOf, votersOf } from '../../src/plan/quorum.js';
import type { InventorySketch } from '../helpers/inventory.js';
import {
  adopted,
  BASE,
  bare,
  five,
  fleetOf,
  HEAD,
  inputOf,
  intent,
  notes,
  observeAll,
  on,
  plan,
  refusals,
  service,
  settled,
  steps,
  url,
} from './worlds.js';

describe('an unobserved plan', () => {
  it('assumes that the fleet is as the base declares, so the same commit twice needs nothing', () => {
    const made = plan({ groupVars: on, hosts: five }, { groupVars: on, hosts: five });
    expect(made).toMatchObject({ steps: [], refusals: [], changes: [] });
    expect(notes(made)).toEqual(['not-observed']);
  });

  it('writes the join-urls that change, and nothing else', () => {
    const base = { groupVars: on, hosts: five };
    const made = plan(base, { groupVars: on, hosts: { ...five, n5: { ...five.n5, server_url: url('n2') } } });
    expect(made.steps).toEqual([
      {
        number: 1,
        action: 'write-join-url',
        host: 'n5',
        service: null,
        value: url('n2'),
        detail: expect.any(String),
        voters: { before: 3, after: 3, healthy: 3, quorum: 2, tolerance: 1 },
      },
      expect.objectContaining({ number: 2, action: 'write-record', value: HEAD }),
    ]);
  });

  it('needs every file when the controller is turned on, in an order in which a role never precedes its join URL', () => {
    const made = plan({ hosts: five }, { groupVars: on, hosts: five });
    expect(made.refusals).toEqual([]);
    expect(steps(made, 'n4')).toEqual([
      'create-role-directory',
      'install-guards 1',
      'add-override',
      `write-join-url ${url('n1')}`,
      'write-role agent',
    ]);
    expect(steps(made, 'n2')).toEqual([
      'create-role-directory',
      'install-guards 1',
      'add-override',
      `write-join-url ${url('n1')}`,
      'write-role server',
      'write-identity assumed',
    ]);
    expect(steps(made, 'n1').at(-1)).toBe(`write-record ${HEAD}`);
    expect(made.steps.map((step) => step.number)).toEqual(made.steps.map((_, index) => index + 1));
  });

  it('keeps the join URL, clears the role files and removes the override when the controller is turned off', () => {
    const made = plan({ groupVars: on, hosts: five }, { hosts: five });
    expect(steps(made, 'n4')).toEqual([
      `write-environment K3S_URL=${url('n1')}`,
      'clear-role-files role join-url',
      'remove-override',
    ]);
    expect(steps(made, 'n1')).toEqual([
      `write-environment K3S_JOIN_SERVER_URL=${url('n2')}`,
      'clear-role-files role join-url',
      'remove-override',
      'delete-record',
    ]);
    expect(steps(made).some((step) => /recreate|stop|start/.test(step))).toBe(false);
  });

  it('keeps the override of an eligible host when the controller is turned off', () => {
    const eligible = { server_eligible: true };
    const hosts = { ...five, n1: eligible, n2: eligible, n3: eligible };
    const made = plan({ groupVars: on, hosts }, { hosts });
    expect(refusals(made)).toEqual([]);
    expect(steps(made, 'n1')).not.toContain('remove-override');
    expect(steps(made, 'n4')).toContain('remove-override');
  });

  it('gives an eligible host its override while the controller is off, and the others the role directory only', () => {
    const made = plan({ hosts: five }, { hosts: { ...five, n2: { server_eligible: true } } });
    expect(steps(made, 'n2')).toEqual(['create-role-directory', 'install-guards 1', 'add-override']);
    expect(steps(made, 'n4')).toEqual(['create-role-directory']);
  });

  it('does nothing where the controller is off at both ends, but still lists what the inventory changes', () => {
    const made = plan(
      { hosts: five },
      { hosts: { ...five, n2: { node_address: '10.0.0.2' }, n5: { ...five.n5, server_url: url('n2') } } },
    );
    expect(made.changes.map((change) => `${change.kind} ${change.host}`)).toEqual(['join-url n5']);
    expect(made).toMatchObject({ steps: [], refusals: [] });
  });

  it('lists an added agent with all that it needs', () => {
    const made = plan(
      { groupVars: on, hosts: five },
      { groupVars: on, hosts: { ...five, n6: { node_role: 'agent' } } },
    );
    expect(steps(made)).toEqual([
      'create-role-directory',
      'install-guards 1',
      'add-override',
      `write-join-url ${url('n1')}`,
      'write-role agent',
      'write-environment COMPOSE_FILE',
      'start-service',
      'await-ready',
      `write-record ${HEAD}`,
    ]);
    expect(new Set(made.steps.slice(0, -1).map((step) => step.host))).toEqual(new Set(['n6']));
  });

  it('joins nobody through a server that does not vote yet', () => {
    // n1 bootstraps at the base; the head puts an agent in front of it, which therefore should bootstrap and be joined.
    const base = { n1: {}, n2: {}, n3: {}, n4: { node_role: 'agent' }, new: { node_role: 'agent' } };
    const head = { new: {}, n1: {}, n2: {}, n3: { node_role: 'agent' }, n4: { node_role: 'agent' } };
    const made = plan({ groupVars: on, hosts: base }, { groupVars: on, hosts: head });
    expect(made.changes.map((change) => `${change.kind} ${change.host}`)).toContain('join-url n4');
    const order = made.steps.map((step) => `${step.action} ${step.host} ${step.value ?? ''}`);
    const votes = order.findIndex((step) => step.startsWith('await-voter new'));
    const joined = order.flatMap((step, index) => (step.endsWith(url('new')) ? [index] : []));
    expect(joined.length).toBeGreaterThan(0);
    expect(Math.min(...joined)).toBeGreaterThan(votes);
  });

  it('has changes but no steps without a base', () => {
    const made = plan(null, { groupVars: on, hosts: five });
    expect(made.changes.every((change) => change.kind === 'added' && change.role.from === null)).toBe(true);
    expect(made.steps).toEqual([]);
  });

  it('counts no voters for SQLite and for a cluster that joins a server outside the inventory', () => {
    const single = { n1: {}, n2: { node_role: 'agent' } };
    const sqlite = plan(
      { groupVars: { datastore: 'sqlite' }, hosts: single },
      { groupVars: { ...on, datastore: 'sqlite' }, hosts: single },
    );
    const outside = { n1: { server_url: url('x'), node_role: 'server' } };
    const joins = plan({ hosts: outside }, { groupVars: on, hosts: outside });
    for (const made of [sqlite, joins]) {
      expect(made.steps.length).toBeGreaterThan(0);
      expect(made.steps.every((step) => step.voters === null)).toBe(true);
    }
  });

  it('refuses another node name of one host, also across clusters', () => {
    const made = plan(
      { groupVars: on, hosts: five },
      { groupVars: on, hosts: { ...five, n5: { ...five.n5, node_name: 'k3s-5' } } },
    );
    expect(refusals(made)).toEqual(['renamed n5']);
    const both = (a: Record<string, object>, b: Record<string, object>) => [
      { group: 'a', groupVars: on, hosts: a as InventorySketch['hosts'] },
      { group: 'b', groupVars: on, hosts: b as InventorySketch['hosts'] },
    ];
    const base = fleetOf(BASE, ...both({ n1: {}, n2: { node_role: 'agent' } }, { m1: {} }));
    const head = fleetOf(HEAD, ...both({ n1: {} }, { m1: {}, n2: { node_role: 'agent' } }));
    const plans = prepare(head, { commit: BASE, fleet: base, unreadable: null }).map((input) =>
      makePlan(input, assumeBase(input.desired, '1'), intent),
    );
    expect(plans.map(refusals)).toEqual([['renamed n2'], ['renamed n2']]);
    const moved = fleetOf(
      HEAD,
      ...both({ n1: {} }, { m1: {}, n2: { node_role: 'agent', ansible_host: '10.9.9.9', dir: '/srv/x' } }),
    );
    const again = prepare(moved, { commit: BASE, fleet: base, unreadable: null }).map((input) =>
      makePlan(input, assumeBase(input.desired, '1'), intent),
    );
    expect(again.map(refusals)).toEqual([['renamed n2'], ['renamed n2']]);
  });

  it('takes an invalid base as none and says so', () => {
    const made = plan({ groupVars: on, hosts: { n1: { node_role: 'boss' } } }, { groupVars: on, hosts: five });
    expect(made).toMatchObject({ base: null, steps: [] });
    expect(made.notes[0]).toMatchObject({ code: 'base-unreadable', message: expect.stringContaining('unknown-role') });
  });

  it('has no changes, steps and refusals for an invalid head', () => {
    const made = plan({ groupVars: on, hosts: five }, { groupVars: on, hosts: { n1: { node_role: 'boss' } } });
    expect(made).toMatchObject({ changes: [], steps: [], refusals: [] });
  });
});

describe('an observed plan', () => {
  const head = { groupVars: on, hosts: five };

  it('needs nothing where every host has what it should', () => {
    const input = inputOf(head, head);
    const made = plan(head, head, adopted(observeAll(input, settled)));
    expect(made).toMatchObject({ steps: [], refusals: [], changes: [] });
  });

  it('is empty after being carried out', () => {
    const input = inputOf({ hosts: five }, head);
    let world: World = { desired: input.desired, observed: observeAll(input, (host) => bare(host.role)), intent };
    for (let next = nextSteps(world); next.now.length > 0; next = nextSteps(world)) world = predict(next.now, world);
    expect(plan({ hosts: five }, head, { ...world.observed, run: { done: [] } }).steps).toEqual([]);
  });

  it('lists the override at once only where docker says that neither service has a container', () => {
    const input = inputOf({ hosts: five }, head);
    const observed = observeAll(input, (host) => bare(host.name === 'n5' ? null : host.role));
    const made = plan({ hosts: five }, head, observed);
    expect(steps(made, 'n5')).toContain('write-environment COMPOSE_FILE');
    expect(steps(made, 'n4')).not.toContain('write-environment COMPOSE_FILE');
  });

  it('refuses a host whose running role differs from the declared one, and goes on with the others', () => {
    const input = inputOf({ hosts: five }, head);
    const observed = observeAll(input, (host) => bare(host.name === 'n4' ? 'server' : host.role));
    const made = plan({ hosts: five }, head, observed);
    expect(refusals(made)).toEqual(['adoption n4']);
    expect(steps(made, 'n4')).toEqual([]);
    expect(steps(made, 'n5')).toContain('write-role agent');
  });

  it('refuses a host of which it is not known what runs: unknown is never absent', () => {
    const input = inputOf({ hosts: five }, head);
    const observed = observeAll(input, (host) =>
      bare(host.role, host.name === 'n5' ? { services: unknown('docker does not answer') } : {}),
    );
    const made = plan({ hosts: five }, head, observed);
    expect(refusals(made)).toEqual(['adoption n5']);
    expect(made.refusals[0]?.message).toContain('docker does not answer');
  });

  it('refuses an unreachable host alone, with why', () => {
    const input = inputOf(head, head);
    const observed = observeAll(input, (host) =>
      host.name === 'n5' ? { kind: 'unreachable', class: 'host-key', message: 'the key changed' } : settled(host),
    );
    const made = plan(head, head, observed);
    expect(made.refusals).toEqual([{ code: 'unreachable', hosts: ['n5'], message: 'host-key: the key changed' }]);
  });

  it('only notes an unreachable host on which there can be nothing to do', () => {
    const off = { hosts: { ...five, n2: { server_eligible: true } } };
    const input = inputOf(off, off);
    const observed = observeAll(input, (host) =>
      host.name === 'n5'
        ? { kind: 'unreachable', class: 'connect', message: 'refused' }
        : {
            ...settled(host),
            role: { kind: 'absent' },
            joinUrl: { kind: 'absent' },
            override: { placed: host.publishesLabels ? 'ours' : 'absent', listed: false },
          },
    );
    const made = plan(off, off, observed);
    expect(refusals(made)).toEqual([]);
    expect(notes(made)).toContain('unreachable');
  });

  it('notes a host without a project directory and does nothing there', () => {
    const input = inputOf({ hosts: five }, head);
    const made = plan(
      { hosts: five },
      head,
      observeAll(input, (host) => bare(host.role, { provisioned: host.name !== 'n5' })),
    );
    expect(notes(made)).toContain('not-provisioned');
    expect(steps(made, 'n5')).toEqual([]);
    expect(made.refusals).toEqual([]);
  });

  it('says that there is no cluster yet, writes the files, and leaves the bootstrap host nothing to join', () => {
    const input = inputOf(null, head);
    const made = plan(
      null,
      head,
      observeAll(input, () => bare(null)),
    );
    expect(notes(made)).toContain('no-cluster');
    expect(steps(made, 'n1').filter((step) => step.startsWith('write-join-url'))).toEqual([]);
    expect(steps(made, 'n2')).toContain(`write-join-url ${url('n1')}`);
    expect(steps(made, 'n1')).toContain('write-role server');
  });

  it('is never no-cluster when docker did not answer on a server', () => {
    const input = inputOf(null, head);
    const made = plan(
      null,
      head,
      observeAll(input, (host) => bare(null, host.name === 'n2' ? { services: unknown('no docker') } : {})),
    );
    expect(notes(made)).not.toContain('no-cluster');
  });

  it('points hosts to the first server that serves while their own server does not, and keeps what a file says', () => {
    const input = inputOf(null, head);
    const down = known({ k3s: service({ state: 'stopped', containerId: 'c' }), 'k3s-agent': service() });
    const observed = observeAll(input, (host) => {
      if (host.name === 'n1') return { ...settled(host), services: down };
      return host.name === 'n4' ? settled(host) : { ...settled(host), joinUrl: { kind: 'absent' } };
    });
    const made = plan(null, head, observed);
    expect(steps(made, 'n5')).toEqual([`write-join-url ${url('n2')}`]);
    expect(steps(made, 'n2')[0]).toBe(`write-join-url ${url('n3')}`);
    expect(steps(made, 'n4')).toEqual([]);
  });

  it('repairs a host whose file was changed by hand, and says so as a change', () => {
    const input = inputOf(head, head);
    const made = plan(
      head,
      head,
      observeAll(input, (host) =>
        host.name === 'n4' ? { ...settled(host), role: { kind: 'text', text: 'server' } } : settled(host),
      ),
    );
    expect(made.changes).toMatchObject([{ kind: 'repaired', host: 'n4', role: { from: 'agent', to: 'agent' } }]);
    expect(steps(made, 'n4')).toEqual(['write-role agent']);
  });

  it('names the hosts whose guards are not in force, and those that a deploy tool recreated without them', () => {
    const input = inputOf(head, head);
    const mounted = (files: string[], more: boolean) =>
      known({ k3s: service({ state: 'running', mounted: more, configFiles: files }), 'k3s-agent': service() });
    const observed = observeAll(input, (host) => {
      if (host.name === 'n1')
        return {
          ...settled(host),
          services: mounted(['/srv/node/docker-compose.yml'], false),
          override: { placed: 'ours', listed: true },
        };
      if (host.name === 'n2')
        return {
          ...settled(host),
          services: mounted(['/srv/node/docker-compose.yml', '/srv/node/docker-compose.fleet-role.yml'], true),
        };
      return settled(host);
    });
    const made = plan(head, head, observed);
    expect(made.notes).toMatchObject([
      { code: 'guards-not-in-force', hosts: ['n1', 'n3', 'n4', 'n5'] },
      { code: 'guards-not-kept', hosts: ['n1'] },
    ]);
  });
});

describe('the controller turned off, observed', () => {
  const base = { groupVars: on, hosts: five };
  const head = { hosts: five };
  const of = (make: Parameters<typeof observeAll>[1]) => plan(base, head, observeAll(inputOf(base, head), make));
  const before = inputOf(null, base).desired.hosts;
  const asBefore = (name: string) => {
    const entry = before.find((candidate) => candidate.host.name === name);
    if (entry === undefined) throw new Error(`no host ${name}`);
    return settled(entry.host);
  };

  it('refuses a host that runs another role than the one declared without the controller, and frees the others', () => {
    const made = of((host) =>
      host.name === 'n4' ? { ...asBefore('n4'), services: bare('server').services } : asBefore(host.name),
    );
    expect(refusals(made)).toEqual(['running-role n4']);
    expect(steps(made, 'n4')).toEqual([]);
    expect(steps(made, 'n5')).toContain('clear-role-files role join-url');
  });

  it('stops a service that idles, by name, before its role file goes', () => {
    const idle = known({
      k3s: service({ state: 'idle', containerId: 'c' }),
      'k3s-agent': service({ state: 'running' }),
    });
    const made = of((host) => (host.name === 'n4' ? { ...asBefore('n4'), services: idle } : asBefore(host.name)));
    const own = made.steps.filter((step) => step.host === 'n4');
    expect(own.map((step) => [step.action, step.service])).toEqual([
      ['write-environment', 'k3s-agent'],
      ['stop-service', 'k3s'],
      ['clear-role-files', null],
      ['remove-override', null],
    ]);
  });

  it('keeps the join-url file where a running container that mounts it has another URL in its own environment', () => {
    const running = (joinUrlEnvironment: string | null) =>
      known({ k3s: service(), 'k3s-agent': service({ state: 'running', mounted: true, joinUrlEnvironment }) });
    const made = of((host) => ({
      ...asBefore(host.name),
      ...(host.role === 'agent' ? { services: running(host.name === 'n4' ? url('old') : url('n1')) } : {}),
    }));
    expect(steps(made, 'n4')).toContain('clear-role-files role');
    expect(steps(made, 'n5')).toContain('clear-role-files role join-url');
  });

  it('needs nothing once it is done', () => {
    const made = of((host) => bare(host.role, { roleDirectory: 'present', guardsInstalled: '1' }));
    expect(made).toMatchObject({ steps: [], refusals: [] });
  });
});

describe('a removed host', () => {
  const base = { groupVars: on, hosts: five };
  const without = { n1: {}, n2: {}, n3: {}, n4: five.n4 };

  it('is left alone unless the controller is on at both ends', () => {
    expect(steps(plan(base, { hosts: without }), 'n5')).toEqual([]);
    expect(steps(plan({ hosts: five }, { groupVars: on, hosts: without }), 'n5')).toEqual([]);
  });

  it('goes one stage at a time when it is an agent: fenced, drained, stopped, and its Node last', () => {
    const made = plan(base, { groupVars: on, hosts: without });
    expect(made.refusals).toEqual([]);
    expect(made.steps.map((step) => [step.action, step.host, step.service ?? step.value])).toEqual([
      ['write-role', 'n5', ''],
      ['drain', 'n5', null],
      ['stop-service', 'n5', 'k3s-agent'],
      ['delete-node', 'n5', null],
      ['write-record', 'n1', HEAD],
    ]);
  });

  it('is refused where no API answers, since nothing is begun that cannot be finished', () => {
    const input = inputOf(base, { groupVars: on, hosts: without });
    const observed = { ...observeAll(input, settled), nodes: unknown('no declared server was seen running k3s') };
    const made = plan(base, { groupVars: on, hosts: without }, observed);
    expect(refusals(made)).toEqual(['no-lock n5']);
    expect(steps(made, 'n5')).toEqual([]);
  });

  it('needs nothing once its services are stopped and its Node is gone', () => {
    const input = inputOf(base, { groupVars: on, hosts: without });
    const stopped = known({ k3s: service(), 'k3s-agent': service({ state: 'stopped', containerId: 'c' }) });
    const seen = observeAll(input, (host) =>
      host.name === 'n5' ? { ...settled(host), role: { kind: 'text', text: '' }, services: stopped } : settled(host),
    );
    const made = plan(base, { groupVars: on, hosts: without }, adopted(seen));
    expect(made).toMatchObject({ steps: [], refusals: [] });
  });

  it('is refused when it is a server and there is no record yet', () => {
    const head = { groupVars: on, hosts: { n1: {}, n3: { node_role: 'agent' }, n4: five.n4, n5: five.n5 } };
    const made = plan(base, head, observeAll(inputOf(base, head), settled));
    expect(refusals(made)).toContain('adoption n2');
    expect(steps(made, 'n2')).toEqual([]);
  });
});

describe('quorum', () => {
  it.each([
    [1, 1, 0],
    [2, 2, 0],
    [3, 2, 1],
    [4, 3, 1],
    [5, 3, 2],
  ])('%i voters need %i and tolerate the loss of %i', (voters, quorum, tolerance) => {
    expect(quorumOf(voters)).toBe(quorum);
    expect(votersOf(voters, voters, voters)).toEqual({
      before: voters,
      after: voters,
      healthy: voters,
      quorum,
      tolerance,
    });
  });
});

describe('a native host', () => {
  const native = { ...five, n5: { ...five.n5, runtime: 'native' } };

  const head = { groupVars: on, hosts: native };
  const seenAs = (role: 'server' | 'agent' | null, more: Parameters<typeof bare>[1] = {}) =>
    observeAll(inputOf({ hosts: native }, head), (host) => (host.name === 'n5' ? bare(role, more) : bare(host.role)));

  it('gets its role files like any other, and no role directory or override of its own', () => {
    const made = plan({ hosts: native }, head, seenAs('agent'));
    expect(refusals(made)).toEqual([]);
    expect(steps(made, 'n5')).toEqual([
      'install-guards 1',
      expect.stringMatching(/^write-join-url /),
      'write-role agent',
    ]);
    expect(refusals(plan({ hosts: native }, head))).toEqual([]);
  });

  it('is refused where something beats what is written there, with the way out', () => {
    const why = '/etc/rancher/k3s/config.yaml line 3 (server: https://x:6443) beats the join URL: remove that line';
    const made = plan({ hosts: native }, head, seenAs('agent', { unsteerable: why }));
    expect(refusals(made)).toEqual(['guards n5']);
    expect(made.refusals[0]?.message).toContain(why);
    expect(steps(made, 'n5')).toEqual([]);
    expect(steps(made, 'n4')).toContain('write-role agent');
  });

  it('is refused where it lacks the unit of its role, with the command to run', () => {
    const made = plan({ hosts: native }, head, seenAs('server'));
    expect(refusals(made)).toContain('guards n5');
    expect(made.refusals.find(({ code }) => code === 'guards')?.message).toMatch(
      /no k3s-agent\.service\. .*INSTALL_K3S_SKIP_ENABLE=true sh -s - agent\./,
    );
    expect(steps(made, 'n5')).toEqual([]);
  });

  it('without either unit is not provisioned yet, which is no error', () => {
    const made = plan({ hosts: native }, head, seenAs(null, { provisioned: false, unsteerable: 'never asked' }));
    expect(refusals(made)).toEqual([]);
    expect(steps(made, 'n5')).toEqual([]);
  });

  it('is not refused for its command line while the controller is off', () => {
    const seen = seenAs('agent', { unsteerable: 'x', role: { kind: 'text', text: 'agent' } });
    const made = plan(head, { hosts: native }, seen);
    expect(refusals(made)).not.toContain('guards n5');
    expect(steps(made, 'n5')).toContain('clear-role-files role');
  });
});

describe('a rejoin', () => {
  const rejoin = (sketch: InventorySketch, host: string) => {
    const input = inputOf(sketch, sketch);
    return makePlan(input, assumeBase(input.desired, '1'), { ...intent, mode: 'rejoin', host });
  };

  it.each([
    ['controller-off', { hosts: five }, 'n2'],
    ['not-a-server', { groupVars: on, hosts: five }, 'n4'],
    ['not-a-server', { groupVars: { ...on, datastore: 'sqlite' }, hosts: { n1: {}, n2: {} } }, 'n1'],
  ])('is shown as a change and refused with %s', (code, sketch, host) => {
    const made = rejoin(sketch as InventorySketch, host);
    expect(refusals(made)).toEqual([`${code} ${host}`]);
    expect(made.changes).toMatchObject([{ kind: 'rejoin', host }]);
    expect(made.steps).toEqual([]);
  });
});
