import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createEtcdScene, type EtcdScene } from '../helpers/etcd-scene.js';

// The ground of the tests with a real etcd: that what stands in for k3s does what k3s does. The facts are named.

const LABEL = 'node-role.kubernetes.io';
const ANNOTATION = 'etcd.k3s.cattle.io';
const askRemoval = { annotations: { [`${ANNOTATION}/remove`]: 'true', [`${ANNOTATION}/removed-node-name`]: null } };

let scene: EtcdScene;
const tombstone = (host: string): boolean => existsSync(join(scene.host(host).dataDir, 'server/db/etcd/tombstone'));
const annotations = async (node: string, through = 'node1'): Promise<Record<string, string>> =>
  (await scene.nodes(through))?.[node]?.metadata.annotations ?? {};

describe('with our entrypoint', () => {
  beforeAll(async () => {
    scene = await createEtcdScene({ servers: 3, agents: 2, guards: true });
  });
  afterAll(() => scene?.close());

  it('forms one cluster of three voters, whose Nodes say what k3s writes', async () => {
    const identity = await scene.identity('node1');
    expect(identity).toMatch(/^[0-9a-f-]{36}$/);
    for (const name of ['node2', 'node3']) {
      expect(await scene.identity(name)).toBe(identity);
      expect(await scene.voters(name)).toEqual(['node1', 'node2', 'node3']);
    }
    await scene.until('the Nodes say that they vote', async () =>
      Object.values((await scene.nodes()) ?? {}).every(
        (node) =>
          node.metadata.name > 'node3' ||
          node.status.conditions.some((each: { type: string }) => each.type === 'EtcdIsVoter'),
      ),
    );
    const { node2, node4 } = (await scene.nodes()) ?? {};
    const member = (await scene.members())?.find((each) => each.nodeName === 'node2');
    const address = scene.fleet.nodeAddress('node2');
    expect(member).toMatchObject({ addresses: [address], learner: false });
    expect(node2.metadata).toMatchObject({
      labels: { [`${LABEL}/etcd`]: 'true', [`${LABEL}/control-plane`]: 'true', [`${LABEL}/master`]: 'true' },
      annotations: { [`${ANNOTATION}/node-name`]: member?.name, [`${ANNOTATION}/node-address`]: address },
    });
    expect(node2.status).toMatchObject({
      addresses: expect.arrayContaining([{ type: 'InternalIP', address }]),
      nodeInfo: { kubeletVersion: 'v1.33.6+k3s1' },
      conditions: [
        { type: 'EtcdIsVoter', status: 'True', reason: 'MemberNotLearner' },
        { type: 'Ready', status: 'True' },
      ],
    });
    expect(Object.keys(node4.metadata.labels)).toEqual(['kubernetes.io/hostname']);
    expect(node4.status.conditions).toEqual([{ type: 'Ready', status: 'True' }]);
  });

  it('refuses an agent with another node password until its secret is deleted (4.3, 4.4, 4.7)', async () => {
    await scene.host('node4').compose('up', '-d', '--force-recreate', 'k3s-agent');
    await scene.untilSays('node4', 'k3s-agent', 'Node password rejected');
    const secret = ['delete', 'secret', 'node4.node-password.k3s', '--namespace=kube-system', '--ignore-not-found'];
    expect((await scene.kubectl('node2', ...secret)).code).toBe(0);
    await scene.untilSays('node4', 'k3s-agent', 'k3s agent is up and running');
  });

  it('refuses a second member of one node name, and takes the node again once the first is removed (2.15)', async () => {
    await scene.kill('node3');
    await scene.emptyDisk('node3');
    await scene.untilReady(['node1', 'node2', 'node4', 'node5']);
    await scene.start('node3');
    await scene.untilSays('node3', 'k3s', 'duplicate node name found');
    expect(await scene.voters()).toEqual(['node1', 'node2', 'node3']);
    await scene.patchNode('node1', 'node3', askRemoval);
    await scene.untilVoters(['node1', 'node2']);
    await scene.untilVoters(['node1', 'node2', 'node3']);
  });

  it('removes a member whose Node asks for it; it leaves a tombstone and idles (1.2, 1.5, 1.13)', async () => {
    await scene.untilReady(scene.names);
    const name = (await scene.members())?.find((each) => each.nodeName === 'node2')?.name;
    // Without the label nothing happens at all.
    await scene.patchNode('node1', 'node2', { ...askRemoval, labels: { [`${LABEL}/etcd`]: null } });
    await new Promise((resolve) => setTimeout(resolve, 2000));
    expect(await scene.voters()).toEqual(['node1', 'node2', 'node3']);
    await scene.patchNode('node1', 'node2', { labels: { [`${LABEL}/etcd`]: 'true' } });
    await scene.untilVoters(['node1', 'node3']);
    await scene.untilSays('node2', 'k3s', 'tombstone says');
    expect(tombstone('node2')).toBe(true);
    await scene.until('the Node says so', async () => !(`${ANNOTATION}/remove` in (await annotations('node2'))));
    expect(await annotations('node2')).toEqual({ [`${ANNOTATION}/removed-node-name`]: name });
    expect(await scene.identity('node2')).toBeNull();
    await scene.untilReady(['node1', 'node3', 'node4', 'node5']);
  });
});

describe('with an entrypoint that knows no guards', () => {
  let identity: string | null;
  beforeAll(async () => {
    scene = await createEtcdScene({ servers: 3, agents: 1, guards: false });
    identity = await scene.identity();
  });
  afterAll(() => scene?.close());

  it('a removed server comes back by itself as another member of the same cluster (1.16)', async () => {
    const name = (await scene.members())?.find((each) => each.nodeName === 'node3')?.name;
    await scene.patchNode('node1', 'node3', askRemoval);
    await scene.until('node3 is a member of another name', async () => {
      const member = (await scene.members())?.find((each) => each.nodeName === 'node3');
      return member !== undefined && member.name !== name && !member.learner;
    });
    await scene.until('node3 answers', async () => (await scene.identity('node3')) === identity);
  });

  it('the second removal of a server is swallowed unless what the first one left is cleared (1.7)', async () => {
    await scene.until('the Node is up to date', async () => `${ANNOTATION}/node-name` in (await annotations('node3')));
    expect(Object.keys(await annotations('node3'))).toContain(`${ANNOTATION}/removed-node-name`);
    const members = await scene.members();
    await scene.patchNode('node1', 'node3', { annotations: { [`${ANNOTATION}/remove`]: 'true' } });
    await scene.until('both are gone', async () => {
      const found = await annotations('node3');
      return !(`${ANNOTATION}/remove` in found) && !(`${ANNOTATION}/removed-node-name` in found);
    });
    expect(await scene.members()).toEqual(members);
  });

  it('a server with a URL and no token makes a cluster of its own on SQLite (2.7)', async () => {
    const host = scene.host('node4');
    await scene.kill('node4');
    const name = `${host.containers.k3s}-run`;
    const ran = await host.compose('run', '-d', '--name', name, '-e', 'K3S_TOKEN=', 'k3s');
    expect(ran.code, ran.stderr).toBe(0);
    const ask = (...args: string[]) => scene.inContainer(name, 'kubectl', ...args);
    await scene.until('it is up', async () => (await ask('get', '--raw', '/readyz')).stdout === 'ok');
    expect((await ask('get', 'nodes', '-o', 'json')).stdout).not.toContain('node1');
    expect((await ask('get', '--raw', '/db/info')).stderr).toContain('etcd datastore disabled');
    expect((await ask('get', 'namespace', 'kube-system', '-o', 'json')).stdout).not.toContain(identity);
    expect(existsSync(join(host.dataDir, 'server/db/state.db'))).toBe(true);
  });

  it('a removed first server makes a second cluster, whose last voter cannot be removed (1.19, 1.10)', async () => {
    await scene.patchNode('node2', 'node1', askRemoval);
    await scene.untilVoters(['node2', 'node3'], 'node2');
    await scene.untilVoters(['node1'], 'node1');
    await scene.until('node1 answers', async () => (await scene.identity('node1')) !== null);
    expect(await scene.identity('node1')).not.toBe(identity);
    expect(await scene.identity('node2')).toBe(identity);

    await scene.patchNode('node1', 'node1', askRemoval);
    await scene.until('k3s takes it back', async () => !(`${ANNOTATION}/remove` in (await annotations('node1'))));
    expect(await scene.voters('node1')).toEqual(['node1']);
    expect(Object.keys(await annotations('node1'))).not.toContain(`${ANNOTATION}/removed-node-name`);
  });
});
