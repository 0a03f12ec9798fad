import { rm } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readIdentity } from '../../src/cluster/identity.js';
import { type Kubectl, kubectlOn } from '../../src/cluster/kubectl.js';
import { acquireLease, holderIdentity, timerTicker } from '../../src/cluster/lease.js';
import { type ClusterRecord, deleteRecord, readRecord, writeRecord } from '../../src/cluster/record.js';
import { type Connector, createConnector } from '../../src/hosts/connection.js';
import { type Hosts, makeHosts } from '../helpers/fleet.js';
import { CLUSTER_UID, StandInCluster } from '../helpers/kubectl.js';
import { temporaryFolder } from '../helpers/temporary.js';
import { composeHost, LOCAL, silentLogger } from '../hosts/helpers.js';

// Lock and record through `docker exec -i` of a real engine, and the stand-in kubectl in its own container.

let hosts: Hosts;
let cluster: StandInCluster;
let connector: Connector;
let kubectl: Kubectl;
let temp: string;

beforeAll(async () => {
  hosts = await makeHosts(1, { host: { running: 'k3s' } });
  const host = hosts.get('node1');
  cluster = await StandInCluster.create(host, ['node1']);
  temp = await temporaryFolder('connector');
  connector = createConnector({
    ...{ temp, privateKeys: [], knownHosts: null, sshUser: null },
    ...{ useInventoryKeyFiles: false, logger: silentLogger },
  });
  kubectl = kubectlOn(connector.connect('node1', LOCAL), composeHost({ containers: host.containers }));
});
afterAll(async () => {
  await connector?.close();
  await hosts?.remove();
  if (temp !== undefined) await rm(temp, { recursive: true, force: true });
});

describe('through kubectl in a container', () => {
  it('eight runs at once get the lock one after the other', async () => {
    let inside = 0;
    let most = 0;
    const runs = Array.from({ length: 8 }, async (_, index) => {
      const result = await acquireLease(kubectl, {
        holder: holderIdentity(`run ${index}`, 1, `r${index}`),
        lockTimeout: 600,
        clock: Date.now,
        // Nobody waits for an expiry here, only for a release.
        sleep: () => new Promise((resolve) => setTimeout(resolve, 50)),
        ticker: timerTicker,
        signal: new AbortController().signal,
      });
      if (result.kind !== 'held') throw new Error(JSON.stringify(result));
      most = Math.max(most, ++inside);
      expect(await result.lease.stillHeld()).toEqual({ kind: 'held' });
      inside--;
      expect(await result.lease.release()).toEqual({ kind: 'released' });
    });
    await Promise.all(runs);
    expect(most).toBe(1);
    expect((await cluster.object('lease')).spec).not.toHaveProperty('holderIdentity');
  });

  it('a record is written, read, not overwritten from an old version, and deleted', async () => {
    const commit = 'a'.repeat(40);
    const record: ClusterRecord = {
      ...{
        commit,
        started: commit,
        begun: null,
        repository: 'o/fleet',
        group: `g'"$(id)\\`,
        identity: CLUSTER_UID,
        run: 'run 1',
      },
    };
    expect(await readIdentity(kubectl)).toEqual({ kind: 'known', value: CLUSTER_UID });
    expect(await readRecord(kubectl)).toEqual({ kind: 'known', value: null });
    const written = await writeRecord(kubectl, record, null);
    if (written.kind !== 'written') throw new Error(JSON.stringify(written));
    expect(await readRecord(kubectl)).toMatchObject({ kind: 'known', value: { record } });
    expect(await writeRecord(kubectl, { ...record, run: 'run 2' }, written.resourceVersion)).toMatchObject({
      kind: 'written',
    });
    expect(await writeRecord(kubectl, record, written.resourceVersion)).toEqual({ kind: 'conflict' });
    expect(await deleteRecord(kubectl)).toBeNull();
    expect(await readRecord(kubectl)).toEqual({ kind: 'known', value: null });
  });
});
