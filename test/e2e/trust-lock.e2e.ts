import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { RunActionOptions } from '../helpers/action.js';
import { until } from '../helpers/command.js';
import { pushEvent } from '../helpers/events.js';
import { Scene } from '../helpers/scene.js';
import { told } from '../helpers/trust-fleet.js';

// Two runs that meet, and runs that never come back: the Lease through real hosts.

let scene: Scene;
const agents = { node2: { node_role: 'agent' }, node3: { node_role: 'agent' } };
const off = { hosts: agents };
const on = { cluster: { controller: true }, hosts: agents };
const elsewhere = 'https://vip.example.net:6443';
const further = {
  ...on,
  hosts: { ...agents, node3: { node_role: 'agent', server_url: elsewhere } },
};
const RUN = 'https://github.example/octo/fleet/actions/runs/99';

beforeAll(async () => {
  scene = await Scene.create(3, { host: (index) => ({ running: index === 0 ? 'k3s' : 'k3s-agent' }) });
});
afterAll(() => scene?.close());
beforeEach(() => scene.reset());

async function adopted(): Promise<string> {
  const before = await scene.commit(off);
  const after = await scene.commit(on);
  const run = await scene.run(pushEvent({ before, after }));
  expect([run.exitCode, run.outputs.result], told(run)).toEqual([0, 'applied']);
  return after;
}

const push = (before: string, after: string, options: Omit<RunActionOptions, 'event'> = {}) =>
  scene.run(pushEvent({ before, after }), options);
const lease = async () => (await scene.cluster.object('lease'))?.spec;
const record = async () => (await scene.cluster.object('configmap'))?.data;
const holders = async (): Promise<string[]> => {
  const versions = await scene.cluster.history('lease');
  return versions.map((version) => version?.spec?.holderIdentity ?? '');
};

/** A Lease that another run holds. */
function held(by = `${RUN} attempt 2 0000`): Promise<void> {
  const time = new Date().toISOString().replace('Z', '000Z');
  return scene.cluster.putObject('lease', {
    ...{ apiVersion: 'coordination.k8s.io/v1', kind: 'Lease' },
    spec: { holderIdentity: by, leaseDurationSeconds: 60, acquireTime: time, renewTime: time, leaseTransitions: 7 },
  });
}

/** Until a run has written its name over the Lease. */
function taken(): Promise<unknown> {
  return until('a run holds the lock', async () => (await lease())?.holderIdentity !== undefined, 60_000);
}

describe('two runs at once', () => {
  it('of two commits: the second one waits for the first, then applies what is left to do', async () => {
    const a = await adopted();
    const b = await scene.commit(further);
    const c = await scene.commit({ ...further, cluster: { controller: true, max_servers: 3 } });
    // The first one is slow, with the lock in its hands.
    await scene.cluster.fault('replace.configmap', 'late 3');
    const first = push(a, b);
    await taken();
    const second = push(b, c);
    const [one, two] = await Promise.all([first, second]);
    await scene.cluster.fault('replace.configmap', null);
    expect([one.exitCode, one.outputs.result], told(one)).toEqual([0, 'applied']);
    expect([two.exitCode, ['applied', 'unchanged'].includes(two.outputs.result ?? '')], told(two)).toEqual([0, true]);
    expect(await record()).toMatchObject({ commit: c, started: c });
    expect(await scene.roleFile('node3', 'join-url')).toBe(elsewhere);
    // Never one holder over another: between two there is always nobody.
    const names = await holders();
    names.forEach((name, index) => {
      const next = names[index + 1];
      if (name !== '' && next !== undefined && next !== '') expect(next).toBe(name);
    });
    expect(await lease()).not.toHaveProperty('holderIdentity');
  });

  it('of one commit: one of them does it, and both are well', async () => {
    const a = await adopted();
    const b = await scene.commit(further);
    const runs = await Promise.all([push(a, b), push(a, b)]);
    for (const run of runs) expect(run.exitCode, told(run)).toBe(0);
    expect(runs.map((run) => run.outputs.result)).toContain('applied');
    expect(await scene.roleFile('node3', 'join-url')).toBe(elsewhere);
    expect(await record()).toMatchObject({ commit: b, started: b });
    expect((await push(b, b)).outputs.result).toBe('unchanged');
  });
});

describe('a holder that lives', () => {
  it('is named, by its run, when the wait for it runs out; nothing is written', async () => {
    const a = await adopted();
    const b = await scene.commit(further);
    await held();
    const snapshot = await scene.fleet.hosts.snapshot();
    const before = await record();
    const run = await push(a, b, { inputs: { 'lock-timeout': '2s' } });
    expect([run.exitCode, run.outputs.result], told(run)).toEqual([1, 'failed']);
    expect(run.outputs['failure-reason']).toContain(`${RUN} (attempt 2)`);
    expect(run.outputs['failure-reason']).toContain('lock-timeout');
    expect(run.outputs.changed).toBe('false');
    expect(await scene.fleet.hosts.snapshot()).toEqual(snapshot);
    expect(await record()).toEqual(before);
    expect((await lease()).holderIdentity).toContain(RUN);
  });

  it('does not keep a run with nothing to do from seeing that', async () => {
    const a = await adopted();
    await held();
    const run = await push(a, a, { inputs: { 'lock-timeout': '2s' } });
    expect([run.exitCode, run.outputs.result], told(run)).toEqual([0, 'unchanged']);
  });
});

describe('a holder that was killed', () => {
  it('is followed by the next run once its lease has run out, which finishes its work', async () => {
    const a = await adopted();
    const b = await scene.commit({
      ...on,
      hosts: {
        node2: { node_role: 'agent', server_url: elsewhere },
        node3: { node_role: 'agent', server_url: elsewhere },
      },
    });
    const written = async (): Promise<number> =>
      (await Promise.all(['node2', 'node3'].map((name) => scene.roleFile(name, 'join-url')))).filter(
        (url) => url === elsewhere,
      ).length;
    const killed = await push(a, b, {
      inputs: { parallelism: '1' },
      interrupt: { when: async () => (await written()) > 0, signal: 'SIGKILL', group: true },
      post: false,
    });
    expect(killed.signal).toBe('SIGKILL');
    const dead = (await lease()).holderIdentity;
    expect(dead).toBeDefined();
    expect(await record()).toMatchObject({ commit: a, started: b });

    const run = await push(a, b);
    expect([run.exitCode, run.outputs.result], told(run)).toEqual([0, 'applied']);
    expect(await written()).toBe(2);
    expect(await record()).toMatchObject({ commit: b, started: b });
    const names = await holders();
    expect(names.filter((name) => name !== '' && name !== dead).length).toBeGreaterThan(0);
    expect(await lease()).not.toHaveProperty('holderIdentity');
    // Nothing of the dead run's script is left on a host.
    for (const host of scene.fleet.hosts.list) {
      const left = (await readdir(join(host.dir, 'fleet-role.d'))).filter((name) => name.startsWith('.'));
      expect([host.name, left]).toEqual([host.name, []]);
    }
  });
});
