import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { isIdentity, parseMembers, readIdentity, readMembers, readReady } from '../../src/cluster/identity.js';
import { CLUSTER_UID } from '../helpers/kubectl.js';
import { kubectlBy, LocalCluster } from './world.js';

vi.setConfig({ testTimeout: 60_000 });

let cluster: LocalCluster;
beforeEach(async () => {
  cluster = await LocalCluster.create();
});
afterEach(() => cluster.close());

const answering = (text: string) => kubectlBy(async () => ({ kind: 'answered', text }));

describe('the identity of a cluster', () => {
  it('is the UID of the namespace kube-system', async () => {
    expect(await readIdentity(cluster.kubectl)).toEqual({ kind: 'known', value: CLUSTER_UID });
  });

  it.each(['down', 'error', 'nonsense', 'plain-404'] as const)('is unknown from an API that is %s', async (fault) => {
    await cluster.fault('get.namespace', fault);
    expect(await readIdentity(cluster.kubectl)).toMatchObject({ kind: 'unknown' });
  });

  it('is unknown where there is no such namespace', async () => {
    await cluster.identity(null);
    expect(await readIdentity(cluster.kubectl)).toMatchObject({ kind: 'unknown' });
  });

  it.each([
    ['another namespace', { kind: 'Namespace', metadata: { name: 'default', uid: 'u' } }],
    ['another kind', { kind: 'Node', metadata: { name: 'kube-system', uid: 'u' } }],
    ['no UID', { kind: 'Namespace', metadata: { name: 'kube-system' } }],
    ['a UID that is a number', { kind: 'Namespace', metadata: { name: 'kube-system', uid: 7 } }],
    ['a UID with a line break', { kind: 'Namespace', metadata: { name: 'kube-system', uid: 'a\nb' } }],
    ['null', null],
  ])('is unknown from %s', async (_what, json) => {
    expect(await readIdentity(answering(JSON.stringify(json)))).toMatchObject({ kind: 'unknown' });
  });

  it.each([
    ['5f0c7a3e-0000-4000-8000-c0ffee000001', true],
    ['', false],
    ['-a', false],
    ['a b', false],
    ['a\n', false],
    ['a'.repeat(65), false],
  ])('can be %j: %s', (text, right) => {
    expect(isIdentity(text)).toBe(right);
  });
});

describe('/readyz', () => {
  it('says ok, or nobody knows', async () => {
    expect(await readReady(cluster.kubectl)).toEqual({ kind: 'known', value: true });
    await cluster.ready(false);
    expect(await readReady(cluster.kubectl)).toMatchObject({ kind: 'unknown' });
    await cluster.ready(true);
    await cluster.fault('get.raw', 'nonsense');
    expect(await readReady(cluster.kubectl)).toMatchObject({ kind: 'unknown' });
  });
});

const url = (host: string, port = 2380): string => `https://${host}:${port}`;
const voter = `{"ID":10276657743932975437,"name":"node1-0a1b2c3d","peerURLs":["${url('n1')}"],"clientURLs":["${url('n1', 2379)}"]}`;

describe('the member list', () => {
  it('has nodes, addresses, and voters where nothing says learner', async () => {
    const learner = `{"ID":9007199254740993,"name":"node2-ffffffff","peerURLs":["${url('n2')}"],"clientURLs":["${url('n2', 2379)}"],"isLearner":true}`;
    const unstarted = `{"ID":18446744073709551615,"peerURLs":["${url('n3')}"],"isLearner":true}`;
    await cluster.memberList(`{"members":[${voter},${learner},${unstarted}]}\n`);
    expect(await readMembers(cluster.kubectl)).toEqual({
      kind: 'known',
      value: [
        { name: 'node1-0a1b2c3d', nodeName: 'node1', addresses: ['n1'], learner: false },
        { name: 'node2-ffffffff', nodeName: 'node2', addresses: ['n2'], learner: true },
        { name: '', nodeName: null, addresses: ['n3'], learner: true },
      ],
    });
  });

  it('takes an empty name and lists that are null as not started', () => {
    const text = '{"members":[{"ID":1,"name":"","peerURLs":null,"clientURLs":null,"isLearner":false}]}';
    expect(parseMembers(text)).toEqual({
      kind: 'known',
      value: [{ name: '', nodeName: null, learner: false, addresses: [] }],
    });
  });

  it('keeps digits in names, whatever stands around them', () => {
    const name = 'n \\"ID\\":123, 7 \\\\';
    const parsed = parseMembers(`{"members":[{"ID":42,"name":"${name}"}]}`);
    expect(parsed).toMatchObject({ kind: 'known', value: [{ name: 'n "ID":123, 7 \\', nodeName: null }] });
  });

  it('tells two members apart whose ids are equal as JavaScript numbers, and strips the brackets of IPv6', () => {
    const text =
      '{"members":[{"ID":9007199254740993,"name":"a-00000000","peerURLs":["https://[fd00::1]:2380"]},{"ID":9007199254740992,"name":"b-00000000"}]}';
    expect(parseMembers(text)).toMatchObject({ kind: 'known', value: [{ addresses: ['fd00::1'] }, { nodeName: 'b' }] });
  });

  it.each([
    ['is empty', '{"members":[]}'],
    ['is missing', '{}'],
    ['is a map', '{"members":{}}'],
    ['is no JSON', `{"members":[${voter}`],
    ['is nothing', ''],
    ['holds null', '{"members":[null]}'],
    ['holds a member without an id', '{"members":[{"name":"a"}]}'],
    ['holds a broken id', '{"members":[{"ID":1.8e19,"name":"a"}]}'],
    ['holds a negative id', '{"members":[{"ID":-1,"name":"a"}]}'],
    ['holds an id that is a word', '{"members":[{"ID":"a","name":"a"}]}'],
    ['holds a name that is a number', '{"members":[{"ID":1,"name":7}]}'],
    ['holds a learner that is a word', '{"members":[{"ID":1,"name":"a","isLearner":"false"}]}'],
    ['holds a URL that is a number', '{"members":[{"ID":1,"name":"a","peerURLs":[7]}]}'],
    ['holds one good member and one bad', `{"members":[${voter},{"ID":0}]}`],
    ['names a member twice', `{"members":[${voter},${voter}]}`],
    ['is endless', `{"members":[${voter}]${' '.repeat(300_000)}}`],
  ])('that %s is unknown as a whole', (_what, text) => {
    expect(parseMembers(text)).toMatchObject({ kind: 'unknown' });
  });

  it('is unknown where the server has none, or does not answer', async () => {
    expect(await readMembers(cluster.kubectl)).toMatchObject({ kind: 'unknown' });
    await cluster.fault('get.raw', 'down');
    expect(await readMembers(cluster.kubectl)).toMatchObject({
      kind: 'unknown',
      why: expect.stringContaining('refused'),
    });
  });
});
