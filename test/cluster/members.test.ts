import { describe, expect, it } from 'vitest';
import { cancelRemoval, clearPassword, clearServerTraces, removeMember } from '../../src/cluster/members.js';
import type { Member } from '../../src/plan/observation.js';
import { kubectlBy } from './world.js';

const PREFIX = 'etcd.k3s.cattle.io/';
const MEMBER: Member = { name: 'n1-0a1b2c3d', nodeName: 'n1', addresses: ['10.0.0.1'], learner: false };

/** A cluster with the one Node n1, and what is asked of it beside its Nodes. */
function cluster(labels = '{}', memberName = '', memberAddress = '') {
  const asked: string[][] = [];
  const node = ['n1', labels, '', 'True', '', '', '', '', '', '', memberName, memberAddress, '', '', ''].join('\t');
  const kubectl = kubectlBy(async (args) => {
    if (args[1] === 'nodes') return { kind: 'answered', text: `List\n${node}\nend\n` };
    asked.push([...args]);
    return { kind: 'answered', text: '' };
  });
  const patches = (): unknown[] => asked.map((args) => JSON.parse(args[args.indexOf('--patch') + 1] ?? '').metadata);
  return { kubectl, asked, patches };
}
const ETCD = '{"node-role.kubernetes.io/etcd":"true"}';
const asking = { [`${PREFIX}remove`]: 'true', [`${PREFIX}removed-node-name`]: null };
const naming = { [`${PREFIX}node-name`]: 'n1-0a1b2c3d', [`${PREFIX}node-address`]: '10.0.0.1' };

describe('asking for the removal of a member', () => {
  it('clears the name of an earlier removal in the same patch', async () => {
    const { kubectl, patches } = cluster(ETCD, 'n1-0a1b2c3d', '10.0.0.1');
    expect(await removeMember(kubectl, 'n1', MEMBER)).toBeNull();
    expect(patches()).toEqual([{ annotations: asking }]);
  });

  it('gives the Node what k3s finds the member by, where it lacks that or names another member', async () => {
    for (const [labels, name, address] of [
      ['{}', '', ''],
      ['{}', 'n1-0a1b2c3d', ''],
      ['{}', 'n1-ffffffff', '10.0.0.9'],
    ] as const) {
      const { kubectl, patches } = cluster(labels, name, address);
      expect(await removeMember(kubectl, 'n1', MEMBER)).toBeNull();
      expect(patches()).toEqual([
        { labels: { 'node-role.kubernetes.io/etcd': 'true' }, annotations: { ...asking, ...naming } },
      ]);
    }
  });

  it('asks for nothing where no Node, or no member list, says which member it is', async () => {
    const { kubectl, asked } = cluster();
    expect(await removeMember(kubectl, 'n2', MEMBER)).toContain('no Node n2');
    expect(await removeMember(kubectl, 'n1', null)).toContain('No member list');
    expect(await removeMember(kubectl, 'n1', { ...MEMBER, addresses: [] })).toContain('No member list');
    expect(asked).toEqual([]);
  });
});

it('a request is taken back alone, and the traces of a server go in one patch', async () => {
  const { kubectl, patches } = cluster();
  expect(await cancelRemoval(kubectl, 'n1')).toBeNull();
  expect(await clearServerTraces(kubectl, 'n1')).toBeNull();
  const [taken, traces] = patches() as { labels?: object; annotations: object }[];
  expect(taken).toEqual({ annotations: { [`${PREFIX}remove`]: null } });
  expect(Object.keys(traces?.labels ?? {})).toHaveLength(3);
  expect(Object.keys(traces?.annotations ?? {})).toEqual(
    expect.arrayContaining([`${PREFIX}node-name`, 'k3s.io/encryption-config-hash']),
  );
});

it('the password secret is named after the node in lower case', async () => {
  const { kubectl, asked } = cluster();
  expect(await clearPassword(kubectl, 'Node-1')).toBeNull();
  expect(asked[0]?.slice(0, 4)).toEqual(['delete', 'secret', 'node-1.node-password.k3s', '--namespace=kube-system']);
});
