import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createEtcdScene, type EtcdScene } from '../helpers/etcd-scene.js';

// The ground of the tests with a real etcd: that what stands in for k3s does what k3s does (the facts are named).

describe('with our entrypoint', () => {
  let scene: EtcdScene;
  beforeAll(async () => {
    scene = await createEtcdScene({ servers: 3, agents: 2, guards: true });
  });
  afterAll(() => scene?.close());

  it('forms one cluster of three voters, whose Nodes say what k3s writes', async () => {
    const identity = await scene.identity('node1');
    for (const name of ['node2', 'node3']) {
      expect(await scene.identity(name)).toBe(identity);
      expect(await scene.voters(name)).toEqual(['node1', 'node2', 'node3']);
    }
    const nodes = await scene.nodes();
    expect(Object.keys(nodes ?? {}).sort()).toEqual(scene.names);
  });
});
