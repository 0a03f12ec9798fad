import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Answer, Kubectl } from '../../src/cluster/kubectl.js';
import { drainNode, readNodes, uncordonNode } from '../../src/cluster/nodes.js';
import { PLAIN_NODE } from '../../src/plan/observation.js';
import { kubectlBy, LocalCluster } from './world.js';

const saying = (text: string): Kubectl => kubectlBy(async (): Promise<Answer> => ({ kind: 'answered', text }));
/** A line of the list: fields as kubectl 1.32 prints them. */
const line = (...fields: string[]): string => [...fields, ...Array(15 - fields.length).fill('')].join('\t');
const list = (...lines: string[]): string => `${['List', ...lines, 'end'].join('\n')}\n`;

describe('the list of Nodes', () => {
  it('tells a server, an agent, and a Node that says next to nothing', async () => {
    const labels = '{"node-role.kubernetes.io/etcd":"true","node-role.kubernetes.io/control-plane":""}';
    const etcd = ['True', '', 'n1-0a1b2c3d', '10.0.0.1', '', '', ''];
    const text = list(
      line('n1', labels, 'true', 'True', 'False', '10.0.0.1 fd00::1', 'v1.33.4+k3s1', 'run 1', ...etcd),
      line('n2', '{"a":"b"}', '', 'True'),
      line('n3', '', '', 'Unknown'),
    );
    const nodes = await readNodes(saying(text));
    expect(nodes.kind === 'known' && [...nodes.value]).toEqual([
      [
        'n1',
        {
          ...{ ready: true, unschedulable: true, cordonedBy: 'run 1', etcdLabel: true, isVoter: false },
          ...{ memberName: 'n1-0a1b2c3d', memberAddress: '10.0.0.1', removedName: null, removeAsked: true },
          ...{ serverTraces: true, internalAddress: '10.0.0.1', version: 'v1.33.4+k3s1' },
        },
      ],
      ['n2', PLAIN_NODE],
      ['n3', { ...PLAIN_NODE, ready: false }],
    ]);
  });

  it('of a cluster without Nodes is empty and not unknown', async () => {
    expect(await readNodes(saying(list()))).toEqual({ kind: 'known', value: new Map() });
  });

  it.each([
    ['nothing', ''],
    ['a page', '<html>nonsense</html>'],
    ['half a list', list(line('n1')).slice(0, -5)],
    ['a field with a line break or a tab in it', list(line('n1', '', '', '', '', '', '', 'a\tb'))],
    ['a Node without a name', list(line(''))],
    ['labels that are none', list(line('n1', '{"a"'))],
  ])('that is %s is unknown as a whole', async (_, text) => {
    expect(await readNodes(saying(text))).toMatchObject({ kind: 'unknown' });
  });
});

describe('a Node of the stand-in cluster', () => {
  let cluster: LocalCluster;
  beforeEach(async () => {
    cluster = await LocalCluster.create();
  });
  afterEach(() => cluster.close());

  it('is cordoned by the run that drains it, and by nobody after the cordon was lifted', async () => {
    const signal = new AbortController().signal;
    const time = { clock: () => 0, sleep: async () => {}, signal, drainSeconds: 1, stepSeconds: 1 };
    const options = { ...time, run: 'https://x/run 1', how: 'wait', runnerSelector: 'a=b' } as const;
    expect(await drainNode(cluster.kubectl, 'node1', options)).toBeNull();
    const cordoned = await readNodes(cluster.kubectl);
    expect(cordoned).toMatchObject({ kind: 'known' });
    expect(cordoned.kind === 'known' && cordoned.value.get('node1')).toEqual({
      ...{ ...PLAIN_NODE, unschedulable: true, cordonedBy: 'https://x/run 1' },
    });
    expect(await uncordonNode(cluster.kubectl, 'node1')).toBeNull();
    const free = await readNodes(cluster.kubectl);
    expect(free.kind === 'known' && free.value.get('node1')).toEqual(PLAIN_NODE);
  });

  it.each(['down', 'nonsense'] as const)('is not known from an API that is %s', async (fault) => {
    await cluster.fault('get', fault);
    expect(await readNodes(cluster.kubectl)).toMatchObject({ kind: 'unknown' });
  });
});
