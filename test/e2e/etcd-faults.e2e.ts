import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { tryCommand } from '../helpers/command.js';
import { createEtcdScene, type EtcdScene } from '../helpers/etcd-scene.js';

// The ground of the tests with a real etcd, second part: faults, the words of kubectl, and what releases do differently.

const ANNOTATION = 'etcd.k3s.cattle.io';
const askRemoval = { annotations: { [`${ANNOTATION}/remove`]: 'true', [`${ANNOTATION}/removed-node-name`]: null } };

/** Nobody waits long for an eviction here. */
const environment = () => ({ STAND_IN_LEARNER_STALL: '4000' });

let scene: EtcdScene;
const annotations = async (node: string, through = 'node1'): Promise<Record<string, string>> =>
  (await scene.nodes(through))?.[node]?.metadata.annotations ?? {};
const memberName = async (node: string, through = 'node1') =>
  (await scene.members(through))?.find((each) => each.nodeName === node)?.name;
const isVoter = async (node: string, through = 'node1'): Promise<string | undefined> =>
  (await scene.nodes(through))?.[node]?.status.conditions.find((each: { type: string }) => each.type === 'EtcdIsVoter')
    ?.reason;

describe('three servers and two agents', () => {
  let identity: string | null;
  beforeAll(async () => {
    scene = await createEtcdScene({ servers: 3, agents: 2, guards: true, environment });
    identity = await scene.identity();
  });
  afterAll(() => scene?.close());

  it('objects have versions, and kubectl refuses in the words of the API', async () => {
    const metadata = { name: 'fleet-role', namespace: 'kube-system' };
    const lease = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata, spec: { holderIdentity: 'a' } };
    const made = await scene.write('node1', 'create', lease);
    const { resourceVersion } = JSON.parse(made.stdout).metadata;
    expect((await scene.write('node2', 'create', lease)).stderr.trim()).toBe(
      'Error from server (AlreadyExists): error when creating "STDIN": leases.coordination.k8s.io "fleet-role" already exists',
    );
    const mine = { ...lease, metadata: { ...metadata, resourceVersion } };
    const both = await Promise.all(
      ['b', 'c'].map((holderIdentity) => scene.write('node2', 'replace', { ...mine, spec: { holderIdentity } })),
    );
    expect(both.map((each) => each.code).sort()).toEqual([0, 1]);
    expect(both.map((each) => each.stderr.trim()).join('')).toBe(
      'Error from server (Conflict): error when replacing "STDIN": Operation cannot be fulfilled on leases.coordination.k8s.io "fleet-role": the object has been modified; please apply your changes to the latest version and try again',
    );
    const map = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { ...metadata, resourceVersion: '1' }, data: {} };
    expect((await scene.write('node1', 'replace', map)).stderr.trim()).toBe(
      'Error from server (NotFound): error when replacing "STDIN": configmaps "fleet-role" not found',
    );
    expect((await scene.kubectl('node1', 'get', 'node', 'ghost', '-o', 'json')).stderr.trim()).toBe(
      'Error from server (NotFound): nodes "ghost" not found',
    );
  });

  it('a Node is drained of its pods, but not of those of daemons', async () => {
    const pod = (name: string, kind?: string) => ({
      ...{ apiVersion: 'v1', kind: 'Pod', spec: { nodeName: 'node4' } },
      metadata: { name, namespace: 'runners', ...(kind === undefined ? {} : { ownerReferences: [{ kind }] }) },
    });
    for (const each of [pod('runner'), pod('mesh', 'DaemonSet')]) await scene.create('node1', each);
    const left = async (): Promise<string[]> => {
      const args = ['get', 'pods', '--all-namespaces', '-o', 'json', '--field-selector=spec.nodeName=node4'];
      const { items } = JSON.parse((await scene.kubectl('node2', ...args)).stdout);
      return items.map((each: { metadata: { name: string } }) => each.metadata.name).sort();
    };
    expect((await scene.kubectl('node1', 'drain', 'node4', '--ignore-daemonsets')).stderr).toContain('use --force');
    expect(await left()).toEqual(['mesh', 'runner']);
    const drained = await scene.kubectl('node1', 'drain', 'node4', '--ignore-daemonsets', '--force');
    expect(drained.code, drained.stderr).toBe(0);
    expect(await left()).toEqual(['mesh']);
    expect((await scene.nodes('node3'))?.node4.spec.unschedulable).toBe(true);
    await scene.kubectl('node1', 'uncordon', 'node4');
    expect((await scene.nodes('node3'))?.node4.spec.unschedulable).toBeUndefined();
  });

  it('an agent lives on its own list of servers while the one of its URL is down (5.1 to 5.3)', async () => {
    await scene.host('node1').compose('stop', 'k3s');
    await scene.untilReady(['node2', 'node3', 'node4', 'node5'], 'node2');
    await scene.until('node1 is known as unhealthy', async () => (await isVoter('node1', 'node2')) === 'Unhealthy');
    await scene.host('node4').compose('restart', 'k3s-agent');
    await scene.until('the list has no node1', async () => {
      const list = '/var/lib/rancher/k3s/agent/etc/k3s-agent-load-balancer.json';
      const { ServerAddresses } = JSON.parse((await scene.host('node4').exec('k3s-agent', 'cat', list)).stdout);
      const expected = ['node2', 'node3'].map((name) => `${scene.fleet.nodeAddress(name)}:6443`);
      return JSON.stringify(ServerAddresses.sort()) === JSON.stringify(expected);
    });
    await scene.untilReady(['node2', 'node3', 'node4', 'node5'], 'node2');
    await scene.start('node1');
    await scene.untilReady(scene.names, 'node2');
  });

  it('an unstarted learner keeps others from joining until the leader evicts it (2.13, 2.14)', async () => {
    const nowhere = scene.fleet.nodeAddress('node1').replace(/\d+$/, '99');
    const learner = JSON.stringify({ peerURLs: [`http://${nowhere}:2380`], isLearner: true });
    const add = ['wget', '-q', '-O', '-', '--post-data', learner, 'http://127.0.0.1:2379/v3/cluster/member/add'];
    await scene.until('it is added', async () => (await scene.host('node1').exec('k3s', ...add)).code === 0);
    expect((await scene.members())?.find((each) => each.learner)).toMatchObject({ name: '', addresses: [nowhere] });
    await scene.host('node4').compose('stop', 'k3s-agent');
    await scene.host('node4').compose('up', '-d', 'k3s');
    await scene.untilSays('node4', 'k3s', 'too many learner members in cluster');
    await scene.untilVoters(['node1', 'node2', 'node3', 'node4']);
    expect(await scene.members()).toHaveLength(4);
  });

  it('without a quorum no API answers, and with it again it is the same cluster (6.2, 7.1)', async () => {
    await scene.host('node2').compose('stop', 'k3s');
    await scene.cutNetwork('node3');
    await scene.until('node1 tells no members', async () => (await scene.members()) === null);
    expect(await scene.identities()).toEqual([]);
    expect((await scene.kubectl('node4', 'get', '--raw', '/readyz')).code).not.toBe(0);
    await scene.cutNetwork('node3', false);
    for (const name of ['node1', 'node3']) await scene.untilVoters(['node1', 'node2', 'node3', 'node4'], name);
    await scene.start('node2');
    await scene.untilReady(scene.names);
    expect(await scene.identities()).toEqual([identity]);
  });

  it('a service that crashes is brought back by its policy', async () => {
    const before = await scene.host('node2').inspect('k3s');
    await scene.crash('node2');
    await scene.until('it is up again', async () => (await scene.identity('node2')) === identity);
    const now = await scene.host('node2').inspect('k3s');
    expect(now).toMatchObject({ id: before?.id, restartCount: (before?.restartCount ?? 0) + 1 });
  });

  it('the whole fleet is powered off, and comes back as it was', async () => {
    const ssh = (name: string) =>
      tryCommand('ssh', [
        ...['-p', String(scene.fleet.sshd.port), '-i', scene.fleet.sshd.privateKeyFile, '-o', 'BatchMode=yes'],
        ...['-o', 'StrictHostKeyChecking=no', '-o', 'UserKnownHostsFile=/dev/null', '-o', 'ConnectTimeout=5'],
        ...[`${scene.fleet.user.name}@${scene.fleet.address(name)}`, 'true'],
      ]);
    await scene.powerOff(...scene.names);
    expect((await ssh('node2')).code).toBe(255);
    for (const { containers } of Object.values(await scene.fleet.hosts.snapshot())) {
      expect([containers.k3s?.running ?? false, containers['k3s-agent']?.running ?? false]).toEqual([false, false]);
    }
    await scene.powerOn(...scene.names);
    expect((await ssh('node2')).code).toBe(0);
    await scene.untilVoters(['node1', 'node2', 'node3', 'node4']);
    await scene.untilReady(scene.names);
    expect(await scene.identities()).toEqual([identity]);
    // What somebody had stopped before stays so.
    expect((await scene.host('node4').inspect('k3s-agent'))?.running).toBe(false);
  });

  it('a leader that is removed hands over first (1.11)', async () => {
    const servers = ['node1', 'node2', 'node3', 'node4'];
    const status = ['wget', '-q', '-O', '-', '--post-data', '{}', 'http://127.0.0.1:2379/v3/maintenance/status'];
    const { leader } = JSON.parse((await scene.host('node1').exec('k3s', ...status)).stdout);
    const found = await Promise.all(
      servers.map(async (name) => {
        const { header } = JSON.parse((await scene.host(name).exec('k3s', ...status)).stdout);
        return header.member_id === leader ? [name] : [];
      }),
    );
    const [name] = found.flat() as [string];
    const [other, ...more] = servers.filter((each) => each !== name) as [string, ...string[]];
    await scene.patchNode(other, name, askRemoval);
    await scene.untilVoters([other, ...more], other);
    await scene.untilSays(name, 'k3s', 'tombstone says');
    // Whoever held the lease has said it, and that may be the one that went.
    const logs = await Promise.all(servers.map((each) => scene.host(each).logs('k3s')));
    expect(logs.some((log) => log.includes('hands over to'))).toBe(true);
    expect(await scene.identities()).toEqual([identity]);
  });
});

describe('what releases do differently', () => {
  let identity: string | null;
  beforeAll(async () => {
    scene = await createEtcdScene({
      ...{ servers: 2, agents: 0, guards: false },
      environment: () => ({ STAND_IN_K3S_RELEASE: 'old' }),
    });
    identity = await scene.identity();
  });
  afterAll(() => scene?.close());

  it('an old one leaves the request on the Node until the server is back (1.6)', async () => {
    expect((await scene.nodes())?.node2.status.nodeInfo.kubeletVersion).toBe('v1.32.9+k3s1');
    const name = await memberName('node2');
    await scene.restartPolicy('node2', 'k3s', 'no');
    await scene.patchNode('node1', 'node2', askRemoval);
    await scene.untilVoters(['node1']);
    await scene.until('it is written down', async () => !(`${ANNOTATION}/node-name` in (await annotations('node2'))));
    expect(await annotations('node2')).toEqual({
      [`${ANNOTATION}/remove`]: 'true',
      [`${ANNOTATION}/removed-node-name`]: name,
    });
    await scene.untilSays('node1', 'k3s', 'node name annotation for node node2 not found');
    await scene.until('k3s has ended', async () => (await scene.host('node2').inspect('k3s'))?.running === false);
    await scene.restartPolicy('node2', 'k3s', 'unless-stopped');
    await scene.start('node2');
    await scene.untilVoters(['node1', 'node2']);
    await scene.until('the request is gone', async () => !(`${ANNOTATION}/remove` in (await annotations('node2'))));
    expect(await memberName('node2')).not.toBe(name);
  });

  it('a removed first server crashes, refuses or makes a second cluster (1.18 to 1.20)', async () => {
    await scene.patchNode('node2', 'node1', askRemoval);
    await scene.untilVoters(['node2'], 'node2');
    await scene.untilSays('node1', 'k3s', 'panic: removed member cannot be started');
    await scene.release('node1', 'new');
    await scene.untilSays('node1', 'k3s', 'tombstone file has been detected but --server is empty');
    expect(await scene.identities()).toEqual([identity]);
    await scene.release('node1', 'january');
    await scene.untilVoters(['node1'], 'node1');
    await scene.until('node1 answers', async () => (await scene.identity('node1')) !== null);
    expect(await scene.identities()).toHaveLength(2);
    expect(await scene.identity('node2')).toBe(identity);
  });
});
