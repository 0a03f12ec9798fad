import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createEtcdScene, type EtcdScene } from '../helpers/etcd-scene.js';
import { pushEvent } from '../helpers/events.js';
import type { InventoryOptions } from '../helpers/ssh-fleet.js';

// The committed bundle against clusters with a real etcd: every step from the pushed commit to the voters that etcd lists.

const PATIENCE = 420_000;

let scene: EtcdScene;
beforeAll(async () => {
  scene = await createEtcdScene({ servers: 3, agents: 2, guards: true });
});
afterAll(() => scene?.close());

/** The fleet with these agents; every other host is a server. */
const fleet = (...agents: readonly string[]): InventoryOptions => ({
  cluster: { controller: true },
  hosts: Object.fromEntries(
    scene.names.map((name) => [name, { node_role: agents.includes(name) ? 'agent' : 'server' }]),
  ),
});

/** The container that runs on each host, and since when. */
async function containers(): Promise<Record<string, unknown>> {
  const snapshot = await scene.fleet.hosts.snapshot();
  return Object.fromEntries(
    Object.entries(snapshot).map(([name, { containers: of }]) => [
      name,
      [of.k3s, of['k3s-agent']].map(
        (each) => each && { id: each.id, startedAt: each.startedAt, running: each.running },
      ),
    ]),
  );
}

/** Pushes a commit after another and runs the action for it. */
async function apply(before: string, options: InventoryOptions) {
  const after = await scene.commit(options);
  const run = await scene.run(pushEvent({ before, after }), { inputs: { 'step-timeout': '5m' }, timeout: PATIENCE });
  return { after, run };
}

describe('moving the server part', () => {
  let identity: string | null;
  let head: string;

  it('writes roles and a record when the controller is turned on, and touches no container', async () => {
    identity = await scene.identity();
    const before = await containers();
    const off = await scene.commit({ ...fleet('node4', 'node5'), cluster: {} });
    const { after, run } = await apply(off, fleet('node4', 'node5'));
    expect([run.exitCode, run.outputs.result], run.log).toEqual([0, 'applied']);
    for (const name of scene.names) {
      expect(await scene.roleFile(name, 'role')).toBe(['node4', 'node5'].includes(name) ? 'agent' : 'server');
    }
    expect(await scene.record()).toMatchObject({ commit: after, started: after, identity });
    expect(await containers()).toEqual(before);
    head = after;
  }, 180_000);

  it(
    'replaces a server in one commit: the agent votes before the server leaves, and that one goes on as an agent',
    async () => {
      const before = await containers();
      const { after, run } = await apply(head, fleet('node3', 'node5'));
      expect([run.exitCode, run.outputs.result], run.log).toEqual([0, 'applied']);
      await scene.untilVoters(['node1', 'node2', 'node4']);
      await scene.untilReady(scene.names);
      for (const name of ['node1', 'node2', 'node4']) expect(await scene.identity(name)).toBe(identity);
      const steps = run.json?.clusters[0]?.steps.map((step) => `${step.action} ${step.host}`) ?? [];
      // Whether it is waited for shows how fast etcd was; that it votes by then, that the removal left two others.
      expect(steps).toContain('start-service node4');
      expect(steps.indexOf('start-service node4')).toBeLessThan(steps.indexOf('remove-member node3'));
      expect(await scene.roleFile('node4', 'role')).toBe('server');
      expect((await scene.host('node4').inspect('k3s-agent'))?.running).not.toBe(true);
      expect(await scene.roleFile('node3', 'role')).toBe('agent');
      const node = (await scene.nodes())?.node3;
      expect(Object.keys(node.metadata.labels)).not.toContain('node-role.kubernetes.io/etcd');
      expect(JSON.stringify(node.metadata.annotations)).not.toContain('etcd.k3s.cattle.io');
      expect(node.spec.unschedulable).toBeUndefined();
      const now = await containers();
      for (const name of ['node1', 'node2', 'node5']) expect(now[name]).toEqual(before[name]);
      expect(await scene.record()).toMatchObject({ commit: after, started: after, identity });
      head = after;
    },
    PATIENCE,
  );

  it('keeps a demoted server an agent, whoever starts everything there', async () => {
    await scene.host('node3').compose('up', '-d');
    await scene.untilSays('node3', 'k3s', '; idle until');
    expect(await scene.voters()).toEqual(['node1', 'node2', 'node4']);
    await scene.untilReady(scene.names);
  });

  it(
    'promotes two agents, one of which was a server before',
    async () => {
      const before = await containers();
      const { after, run } = await apply(head, fleet());
      expect([run.exitCode, run.outputs.result], run.log).toEqual([0, 'applied']);
      await scene.untilVoters(scene.names);
      await scene.untilReady(scene.names);
      for (const name of scene.names) expect(await scene.identity(name)).toBe(identity);
      const now = await containers();
      for (const name of ['node1', 'node2', 'node4']) expect(now[name]).toEqual(before[name]);
      expect(await scene.record()).toMatchObject({ commit: after, started: after, identity });
    },
    PATIENCE,
  );
});
