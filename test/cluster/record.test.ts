import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Kubectl } from '../../src/cluster/kubectl.js';
import { type ClusterRecord, deleteRecord, markStarted, readRecord, writeRecord } from '../../src/cluster/record.js';
import { CLUSTER_UID } from '../helpers/kubectl.js';
import { kubectlBy, LocalCluster } from './world.js';

vi.setConfig({ testTimeout: 60_000 });

let cluster: LocalCluster;
let kubectl: Kubectl;
beforeEach(async () => {
  cluster = await LocalCluster.create();
  kubectl = cluster.kubectl;
});
afterEach(() => cluster.close());

const A = 'a'.repeat(40);
const B = 'b'.repeat(40);
const record: ClusterRecord = {
  commit: A,
  started: A,
  begun: null,
  repository: 'o/fleet',
  group: 'github_runner_cluster',
  identity: CLUSTER_UID,
  run: 'https://github.example/o/fleet/actions/runs/1',
};
const start = { started: B, repository: 'o/fleet', group: 'github_runner_cluster', identity: CLUSTER_UID };
/** What the API stores of it: a key for each field that there is. */
const stored = (fields: unknown): unknown =>
  typeof fields === 'object' && fields !== null && !Array.isArray(fields)
    ? Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null))
    : fields;
const put = (data: unknown) =>
  cluster.putObject('configmap', { apiVersion: 'v1', kind: 'ConfigMap', data: stored(data) });
const none = { commit: null, started: null, begun: null, repository: null, group: null, identity: null, run: null };

/** Does something once, right before the first call of this verb reaches the API. */
function before(verb: string, meddle: () => Promise<unknown>): Kubectl {
  let done = false;
  return kubectlBy(async (args, seconds, input) => {
    if (args[0] === verb && !done) {
      done = true;
      await meddle();
    }
    return kubectl.run(args, seconds, input);
  });
}

describe('a record', () => {
  it('is a ConfigMap with a key for each field that there is', async () => {
    expect(await writeRecord(kubectl, record, null)).toEqual({ kind: 'written', resourceVersion: '100001' });
    expect(await cluster.object('configmap')).toMatchObject({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'fleet-role', namespace: 'kube-system' },
    });
    expect((await cluster.object('configmap')).data).toEqual(stored(record));
    expect(await readRecord(kubectl)).toEqual({ kind: 'known', value: { record, resourceVersion: '100001' } });
    const begun = { ...record, commit: null, run: null };
    expect(await writeRecord(kubectl, begun, '100001')).toMatchObject({ kind: 'written' });
    expect(Object.keys((await cluster.object('configmap')).data)).toEqual([
      'started',
      'repository',
      'group',
      'identity',
    ]);
    expect(await readRecord(kubectl)).toMatchObject({ value: { record: begun } });
  });

  it('is none only where the API has no ConfigMap', async () => {
    expect(await readRecord(kubectl)).toEqual({ kind: 'known', value: null });
  });

  it.each(['down', 'error', 'nonsense', 'plain-404'] as const)('is unknown from an API that is %s', async (fault) => {
    await cluster.fault('all', fault);
    expect(await readRecord(kubectl)).toMatchObject({ kind: 'unknown' });
  });

  it('is unknown, and not none, where only the question for it is answered by some other server', async () => {
    await writeRecord(kubectl, record, null);
    await cluster.fault('get.configmap', 'plain-404');
    await cluster.fault('get.namespace', 'plain-404');
    expect(await readRecord(kubectl)).toMatchObject({ kind: 'unknown' });
  });

  it('without anything in it has no complete commit', async () => {
    await put(undefined);
    expect(await readRecord(kubectl)).toMatchObject({ kind: 'known', value: { record: none } });
    await put({ 'somebody-elses': 'key' });
    expect(await readRecord(kubectl)).toMatchObject({ kind: 'known', value: { record: none } });
  });

  it.each([
    ['a commit that is none', { ...record, commit: 'main' }, 'commit'],
    ['a short commit', { ...record, commit: 'abcdef0' }, 'commit'],
    ['a commit with a line break', { ...record, commit: `${A}\n` }, 'commit'],
    ['an empty started commit', { ...record, started: '' }, 'started'],
    ['a value that is a number', { ...record, group: 7 }, 'group'],
    ['an identity of two words', { ...record, identity: 'a b' }, 'identity'],
    ['a run on two lines', { ...record, run: 'a\nb' }, 'run'],
    ['an endless group', { ...record, group: 'g'.repeat(2000) }, 'group'],
    ['a commit and no repository', { ...record, repository: undefined }, 'repository'],
    ['a started commit and no identity', { started: A, repository: 'r', group: 'g' }, 'identity'],
    ['data that is a list', [], 'data'],
    ['data that is null', null, 'data'],
  ])('with %s is unknown and says what is wrong', async (_what, data, word) => {
    await put(data);
    expect(await readRecord(kubectl)).toEqual({
      kind: 'unknown',
      why: expect.stringContaining(`damaged: ${word}`),
    });
  });

  it.each([
    ['of another kind', { apiVersion: 'v1', kind: 'Secret', data: record }],
    ['of another version of it', { apiVersion: 'v2', kind: 'ConfigMap', data: record }],
  ])('%s is unknown', async (_what, object) => {
    await cluster.putObject('configmap', object);
    expect(await readRecord(kubectl)).toMatchObject({ kind: 'unknown' });
  });

  it('that is no JSON, of another name, or without a version is unknown', async () => {
    await writeRecord(kubectl, record, null);
    const good = JSON.stringify(await cluster.object('configmap'));
    for (const text of [
      good.slice(0, -2),
      good.replace('"fleet-role"', '"other"'),
      good.replace('"kube-system"', '"default"'),
      good.replace('"100001"', '""'),
    ]) {
      await cluster.putObject('configmap', text);
      expect(await readRecord(kubectl), text).toMatchObject({ kind: 'unknown' });
    }
  });
});

describe('writing a record', () => {
  it('over a version that is not the newest is a conflict, and changes nothing', async () => {
    await writeRecord(kubectl, record, null);
    await writeRecord(kubectl, { ...record, commit: B }, '100001');
    expect(await writeRecord(kubectl, record, '100001')).toEqual({ kind: 'conflict' });
    expect((await cluster.object('configmap')).data.commit).toBe(B);
  });

  it('as new where there is one is a conflict, and over one that is gone, too', async () => {
    await writeRecord(kubectl, { ...record, commit: B }, null);
    expect(await writeRecord(kubectl, record, null)).toEqual({ kind: 'conflict' });
    await cluster.putObject('configmap', null);
    expect(await writeRecord(kubectl, record, '100001')).toEqual({ kind: 'conflict' });
  });

  it('is a conflict when somebody writes between the read and the replace', async () => {
    await writeRecord(kubectl, record, null);
    const meddling = before('replace', () => put({ ...record, commit: B }));
    expect(await writeRecord(meddling, { ...record, group: 'other' }, '100001')).toEqual({ kind: 'conflict' });
    expect((await cluster.object('configmap')).data).toMatchObject({ commit: B, group: record.group });
  });

  it('by ten at once is done by one of them', async () => {
    await writeRecord(kubectl, record, null);
    const results = await Promise.all(
      Array.from({ length: 10 }, (_, index) => writeRecord(kubectl, { ...record, run: `run ${index}` }, '100001')),
    );
    expect(results.map((result) => result.kind).sort()).toEqual([...Array(9).fill('conflict'), 'written']);
    const winner = results.findIndex((result) => result.kind === 'written');
    expect((await cluster.object('configmap')).data.run).toBe(`run ${winner}`);
  });

  it.each([null, '100001'])('that is done and reported as a failure is written (over %s)', async (version) => {
    if (version !== null) await writeRecord(kubectl, record, null);
    await cluster.fault(version === null ? 'create' : 'replace', 'applied');
    const wanted = { ...record, commit: B };
    expect(await writeRecord(kubectl, wanted, version)).toMatchObject({ kind: 'written' });
    expect((await cluster.object('configmap')).data.commit).toBe(B);
  });

  it.each(['down', 'error', 'nonsense'] as const)('through an API that is %s has failed', async (fault) => {
    await cluster.fault('create', fault);
    expect(await writeRecord(kubectl, record, null)).toMatchObject({ kind: 'failed' });
    await cluster.fault('all', fault);
    expect(await writeRecord(kubectl, record, null)).toMatchObject({ kind: 'failed' });
    expect(await cluster.history('configmap')).toEqual([]);
  });

  it('that changes nothing has failed, and is no conflict, whatever kubectl says', async () => {
    await writeRecord(kubectl, record, null);
    const old = JSON.stringify(await cluster.object('configmap'));
    const wanted = { ...record, commit: B };
    await cluster.fault('replace', 'error');
    expect(await writeRecord(kubectl, wanted, '100001')).toMatchObject({ kind: 'failed' });
    const lying = kubectlBy(async (args, seconds) =>
      args[0] === 'replace' ? { kind: 'answered', text: old } : kubectl.run(args, seconds),
    );
    expect(await writeRecord(lying, wanted, '100001')).toMatchObject({ kind: 'failed' });
  });

  it('keeps values away from the arguments, whatever they hold', async () => {
    const wild = { ...record, group: `g'"\\$(touch x)\`;{}`, run: '--server=https://x "resourceVersion"' };
    expect(await writeRecord(kubectl, wild, null)).toMatchObject({ kind: 'written' });
    expect(await readRecord(kubectl)).toMatchObject({ value: { record: wild } });
    expect((await cluster.asked()).join('\n')).not.toContain('touch');
  });

  it.each([
    ['half of it', { ...record, identity: null }],
    ['a commit that is none', { ...record, commit: 'HEAD' }],
  ])('of %s is a mistake of ours', async (_what, wrong) => {
    await expect(writeRecord(kubectl, wrong, null)).rejects.toThrow('a record is to be written');
  });

  it('over an empty version, which kubectl takes for any, is a mistake of ours', async () => {
    await expect(writeRecord(kubectl, record, '')).rejects.toThrow('without a resourceVersion');
  });
});

describe('a start', () => {
  it('makes a record without a complete commit where there is none', async () => {
    expect(await markStarted(kubectl, start)).toMatchObject({ kind: 'written' });
    expect(await readRecord(kubectl)).toMatchObject({ value: { record: { ...none, ...start } } });
  });

  it('changes nothing else of a record that is there', async () => {
    await writeRecord(kubectl, record, null);
    await markStarted(kubectl, { ...start, repository: 'o/other', group: 'other', identity: 'other' });
    expect(await readRecord(kubectl)).toMatchObject({ value: { record: { ...record, started: B } } });
  });

  it('fills what an empty ConfigMap lacks', async () => {
    await put({});
    expect(await markStarted(kubectl, start)).toMatchObject({ kind: 'written' });
    expect(await readRecord(kubectl)).toMatchObject({ value: { record: { ...none, ...start } } });
  });

  it('is written over what somebody else wrote in between, and keeps that', async () => {
    await writeRecord(kubectl, record, null);
    const meddling = before('replace', () => put({ ...record, run: 'another run' }));
    expect(await markStarted(meddling, start)).toMatchObject({ kind: 'written' });
    expect((await cluster.object('configmap')).data).toMatchObject({ started: B, run: 'another run' });
  });

  it('never writes over a record that it cannot read', async () => {
    await put({ ...record, commit: 'damaged' });
    expect(await markStarted(kubectl, start)).toMatchObject({ kind: 'failed' });
    expect((await cluster.object('configmap')).data.commit).toBe('damaged');
    await cluster.fault('get', 'down');
    expect(await markStarted(kubectl, start)).toMatchObject({ kind: 'failed' });
  });
});

describe('deleting the record', () => {
  it('leaves none, and is done where there is none', async () => {
    await writeRecord(kubectl, record, null);
    expect(await deleteRecord(kubectl)).toBeNull();
    expect(await readRecord(kubectl)).toEqual({ kind: 'known', value: null });
    expect(await deleteRecord(kubectl)).toBeNull();
  });

  it('that is done and reported as a failure is done', async () => {
    await writeRecord(kubectl, record, null);
    await cluster.fault('delete', 'applied');
    expect(await deleteRecord(kubectl)).toBeNull();
  });

  it('says why it is not done', async () => {
    await writeRecord(kubectl, record, null);
    await cluster.fault('delete', 'error');
    expect(await deleteRecord(kubectl)).toContain('InternalError');
    await cluster.fault('delete', 'nonsense');
    expect(await deleteRecord(kubectl)).toContain('still there');
    await cluster.fault('all', 'down');
    expect(await deleteRecord(kubectl)).toContain('refused');
    await cluster.fault('delete', null);
  });

  it('keeps every commit that was begun since the last complete one', async () => {
    await writeRecord(kubectl, record, null);
    const begin = (commit: string) => markStarted(kubectl, { ...start, started: commit });
    const C = 'c'.repeat(40);
    for (const commit of [B, C, B, C]) await begin(commit);
    expect(await readRecord(kubectl)).toMatchObject({ value: { record: { commit: A, started: C, begun: B } } });
  });
});
