import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { tryCommand } from '../helpers/command.js';
import { pushEvent } from '../helpers/events.js';
import { Scene } from '../helpers/scene.js';
import { containerIds, refusalsOf, stepsOf, told, wordsOf } from '../helpers/trust-fleet.js';

// Runs that follow each other on one fleet: what one of them leaves undone, a later one finishes.

let scene: Scene;
const names = ['node1', 'node2', 'node3', 'node4'];
const agents = { node4: { node_role: 'agent' } };
const off = { hosts: agents };
const on = { cluster: { controller: true }, hosts: agents };
/** For seven runs on a busy machine. */
const LONG = 400_000;
const elsewhere = 'https://vip.example.net:6443';
const moved = {
  ...on,
  hosts: { node3: { server_url: elsewhere }, node4: { node_role: 'agent', server_url: elsewhere } },
};

beforeAll(async () => {
  scene = await Scene.create(4);
});
afterAll(() => scene?.close());
beforeEach(() => scene.reset());

/** A fleet that a complete apply of `on` has left: the commit that did it. */
async function adopted(): Promise<string> {
  const before = await scene.commit(off);
  const after = await scene.commit(on);
  const run = await scene.run(pushEvent({ before, after }));
  expect([run.exitCode, run.outputs.result], told(run)).toEqual([0, 'applied']);
  return after;
}

const push = (before: string, after: string, inputs: Readonly<Record<string, string>> = {}) =>
  scene.run(pushEvent({ before, after }), { inputs });
const record = async () => (await scene.cluster.object('configmap'))?.data;

describe('a commit that fails on one host', () => {
  it('is finished by the next commit, which itself touches nothing of the fleet', async () => {
    const a = await adopted();
    const b = await scene.commit(moved);
    // Even root cannot write there.
    const directory = join(scene.fleet.host('node3').dir, 'fleet-role.d');
    await readOnly(directory, true);
    try {
      const failed = await push(a, b);
      expect([failed.exitCode, failed.outputs.result], told(failed)).toEqual([1, 'failed']);
      expect(failed.outputs['failed-step']).toBe('write-join-url node3');
      expect(failed.outputs['failure-reason']).toMatch(/^node3: .*fleet-role\.d/);
      // The other host is as B has it, and the record says which commit is whole and which was begun.
      expect(await scene.roleFile('node4', 'join-url')).toBe(elsewhere);
      expect(await record()).toMatchObject({ commit: a, started: b });
    } finally {
      await readOnly(directory, false);
    }

    const c = await scene.repository.commit({ 'README.md': 'Nothing of the fleet.\n' });
    const run = await push(b, c);
    expect([run.exitCode, run.outputs.result], told(run)).toEqual([0, 'applied']);
    expect(run.json?.clusters[0]?.base).toBe(a);
    expect(stepsOf(run)).toEqual(['write-join-url node3', 'write-record node1']);
    expect(await scene.roleFile('node3', 'join-url')).toBe(elsewhere);
    expect(await record()).toMatchObject({ commit: c, started: c });
    expect((await record()).begun).toBeUndefined();
  });
});

describe('an agent that sleeps through three runs', () => {
  it(
    'is named by each of them, and gets what it missed once it is back',
    async () => {
      const a = await adopted();
      const asleep = (server_url: string) => ({
        ...on,
        hosts: { node3: { server_url }, node4: { node_role: 'agent', ansible_port: 1, server_url } },
      });
      let last = a;
      for (const number of [1, 2, 3]) {
        const next = await scene.commit(asleep(`https://vip${number}.example.net:6443`));
        const run = await push(last, next);
        expect([run.exitCode, run.outputs.result], told(run)).toEqual([1, 'refused']);
        expect(refusalsOf(run)).toEqual(['unreachable node4']);
        expect(wordsOf(run)).toContain('node4');
        expect(await scene.roleFile('node3', 'join-url')).toBe(`https://vip${number}.example.net:6443`);
        expect(await scene.roleFile('node4', 'join-url')).toBe(scene.url('node1'));
        expect(await record()).toMatchObject({ commit: a, started: next });
        last = next;
      }
      const back = await scene.commit(moved);
      const run = await push(last, back);
      expect([run.exitCode, run.outputs.result], told(run)).toEqual([0, 'applied']);
      expect(run.json?.clusters[0]?.base).toBe(a);
      expect(await scene.roleFile('node4', 'join-url')).toBe(elsewhere);
      expect(await record()).toMatchObject({ commit: back });
      expect((await push(back, back)).outputs.result).toBe('unchanged');
    },
    LONG,
  );
});

describe('the controller', () => {
  it(
    'is turned off and on again, with hosts demoted by hand in between',
    async () => {
      // Two of three: of two servers one would be made an agent, to have an odd number.
      const demoted = ['node2', 'node3'].map((name) => scene.fleet.host(name));
      const a = await adopted();
      const withoutController = await scene.commit(off);
      const turnedOff = await push(a, withoutController);
      expect([turnedOff.exitCode, turnedOff.outputs.result], told(turnedOff)).toEqual([0, 'applied']);
      expect(stepsOf(turnedOff).at(-1)).toBe('delete-record node1');
      expect(await scene.cluster.object('configmap')).toBeNull();
      try {
        for (const host of demoted) {
          await host.compose('rm', '-sf', 'k3s');
          await host.up('k3s-agent');
        }
        const ids = await containerIds(scene);
        const b = await scene.commit(on);
        const refused = await push(withoutController, b);
        expect([refused.exitCode, refused.outputs.result], told(refused)).toEqual([1, 'refused']);
        expect(refusalsOf(refused)).toEqual(['adoption node2', 'adoption node3']);
        expect(wordsOf(refused)).toContain('node3 is evidently an agent and is declared a server');
        expect(wordsOf(refused)).toContain('set github_runner_cluster_node_role: agent for node3');
        expect(await scene.roleFile('node3', 'role')).toBeNull();
        expect(await containerIds(scene)).toEqual(ids);

        // What the words say is done.
        const agent = Object.fromEntries(names.slice(1).map((name) => [name, { node_role: 'agent' }]));
        const c = await scene.commit({ ...on, hosts: agent });
        const applied = await push(b, c);
        expect([applied.exitCode, applied.outputs.result], told(applied)).toEqual([0, 'applied']);
        expect(await scene.roleFile('node3', 'role')).toBe('agent');
        expect(await record()).toMatchObject({ commit: c });
        expect(await containerIds(scene)).toEqual(ids);

        // Off again, by a commit that says of this host what it was at first.
        const d = await scene.commit(off);
        const wrong = await push(c, d);
        expect([wrong.exitCode, wrong.outputs.result], told(wrong)).toEqual([1, 'refused']);
        expect(refusalsOf(wrong)).toEqual(['running-role node2', 'running-role node3']);
        expect(wordsOf(wrong)).toContain('node3 runs as agent and is declared server without the controller');
        expect(wordsOf(wrong)).toContain('Set github_runner_cluster_node_role: agent for it in the same commit');
        expect(await scene.roleFile('node3', 'role')).toBe('agent');

        const e = await scene.commit({ hosts: agent });
        const right = await push(d, e);
        expect([right.exitCode, right.outputs.result], told(right)).toEqual([0, 'applied']);
        expect(await scene.roleFile('node3', 'role')).toBeNull();
        expect(await scene.cluster.object('configmap')).toBeNull();
        expect(await containerIds(scene)).toEqual(ids);
      } finally {
        for (const host of demoted) {
          await host.compose('rm', '-sf', 'k3s-agent');
          await rm(join(host.dir, '.env'), { force: true });
          await rm(join(host.dir, 'docker-compose.fleet-role.yml'), { force: true });
          await host.up('k3s');
        }
      }
    },
    LONG,
  );
});

describe('forward only', () => {
  it('refuses a commit older than the record, on every host, until it is allowed', async () => {
    const a = await adopted();
    const b = await scene.commit(moved);
    expect((await push(a, b)).outputs.result).toBe('applied');
    const snapshot = await scene.fleet.hosts.snapshot();
    const again = await push(a, a);
    expect([again.exitCode, again.outputs.result], told(again)).toEqual([1, 'refused']);
    expect(refusalsOf(again)).toEqual([`rollback ${names.join(' ')}`]);
    expect(wordsOf(again)).toContain('Revert in a new commit, or set allow-rollback: true');
    expect(await scene.fleet.hosts.snapshot()).toEqual(snapshot);
    expect(await record()).toMatchObject({ commit: b, started: b });

    const allowed = await push(a, a, { 'allow-rollback': 'true' });
    expect([allowed.exitCode, allowed.outputs.result], told(allowed)).toEqual([0, 'applied']);
    expect(await scene.roleFile('node4', 'join-url')).toBe(scene.url('node1'));
    expect(await record()).toMatchObject({ commit: a, started: a });
  });

  it('leaves a cluster alone that another repository steers', async () => {
    const a = await adopted();
    const stored = await scene.cluster.object('configmap');
    const data = { ...stored.data, repository: 'https://github.com/other/fleet' };
    await scene.cluster.putObject('configmap', { ...stored, data });
    const b = await scene.commit(moved);
    const snapshot = await scene.fleet.hosts.snapshot();
    const run = await push(a, b);
    expect([run.exitCode, run.outputs.result], told(run)).toEqual([1, 'refused']);
    expect(refusalsOf(run)).toEqual([`other-repository ${names.join(' ')}`]);
    expect(wordsOf(run)).toContain('https://github.com/other/fleet');
    expect(wordsOf(run)).toContain('Turn the controller off in the other one');
    expect(await scene.fleet.hosts.snapshot()).toEqual(snapshot);
    expect(await record()).toEqual(data);
  });
});

/** Nobody may write in the directory, root included. */
async function readOnly(directory: string, yes: boolean): Promise<void> {
  if (yes) {
    const result = await tryCommand('mount', ['--bind', directory, directory]);
    if (result.code !== 0) throw new Error(result.stderr);
    await tryCommand('mount', ['-o', 'remount,bind,ro', directory]);
  } else {
    await tryCommand('umount', [directory]);
  }
}
