// A server's start: what k3s makes of disk, URL and token, and then what it does as long as it runs.

import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { holdsLease, Leader, removals } from './controller.mjs';
import { backUp, forgetName, hasEtcd, hasTombstone, memberName, peerUrl, startEtcd } from './etcd.mjs';
import { etcdBackend, members } from './etcd-client.mjs';
import { beat, checkPassword, keepMarks, MEMBER_ADDRESS, MEMBER_NAME, registerNode, serves } from './node-object.mjs';
import {
  CONTROLLER_TICK,
  fatal,
  HEARTBEAT,
  LABEL,
  LEADER_TICK,
  log,
  RELEASE,
  RETRY,
  SERVER,
  sleep,
} from './settings.mjs';
import { FileBackend, Store } from './store.mjs';
import { askServer, Supervisor } from './supervisor.mjs';

const SQLITE = `${SERVER}/db/state.db`;

/** Runs a server until the process ends. */
export async function runServer(options) {
  const { name, address, password } = options;
  mkdirSync(`${SERVER}/db`, { recursive: true });
  const token = options.token || serverToken();
  writeFileSync(`${SERVER}/token`, `${token}\n`);
  for (const folder of ['tls', 'cred']) mkdirSync(`${SERVER}/${folder}`, { recursive: true });
  const server = { name, token, store: null, datastore: 'etcd' };
  new Supervisor(server);

  let etcd = null;
  process.once('SIGTERM', async () => {
    await etcd?.stop();
    process.exit(0);
  });

  const begun = await datastore({ ...options, token }, server);
  etcd = begun.etcd;
  const store = new Store(begun.backend);
  await answers(store);
  await kubeSystem(store);
  // It verifies itself against its own file before its API is up, so it starts with a wrong password, too (4.5).
  if (!(await checkPassword(store, name, password))) log('event NodePasswordValidationFailed');
  const labels = { [`${LABEL}/control-plane`]: 'true', [`${LABEL}/master`]: 'true' };
  const etcdLabels = begun.member === null ? {} : { [`${LABEL}/etcd`]: 'true' };
  const annotations = begun.member === null ? {} : { [MEMBER_NAME]: begun.member, [MEMBER_ADDRESS]: address };
  const marks = [{ ...labels, ...etcdLabels }, annotations];
  await registerNode(store, { name, address, labels: marks[0], annotations });
  await beat(store, name);
  await serves(store, address);
  server.store = store;
  log('k3s is up and running');

  every(HEARTBEAT, async () => {
    await beat(store, name);
    await serves(store, address);
    // One that is no member any more must not put its name back; etcd answers it for a moment still.
    if (begun.member === null || (await isMember(begun.member))) await keepMarks(store, name, ...marks);
  });
  if (begun.member === null) return;
  const leader = new Leader();
  every(LEADER_TICK, () => leader.tick(store));
  every(CONTROLLER_TICK, async () => {
    if (await holdsLease(store, name)) await removals(store);
  });
}

/** What it starts from (1.16 to 1.21, 2.3 to 2.9). */
async function datastore(options, server) {
  const { name, address, url, clusterInit, hasToken } = options;
  let fresh = !hasEtcd();
  if (!fresh && hasTombstone()) {
    if (url === '' && RELEASE.removedFirst === 'refuse') {
      fatal(
        'tombstone file has been detected but --server is empty: backup and delete server/db to start a new cluster',
      );
    }
    if (url === '' && RELEASE.removedFirst === 'crash') fatal('panic: removed member cannot be started from its data');
    if (url !== '') await mustAnswer(url);
    backUp();
    fresh = true;
    if (url === '') return newCluster(options);
  }
  if (!fresh) {
    const member = memberName(name);
    return { member, backend: etcdBackend, etcd: startEtcd({ name: member, address, cluster: null }) };
  }
  if (url !== '' && hasToken) return join(options);
  if (clusterInit) return newCluster(options);
  log('no datastore, no server to join and no cluster-init: SQLite');
  server.datastore = 'sqlite';
  return { member: null, backend: new FileBackend(SQLITE), etcd: null };
}

/** k3s ends where nobody answers at the URL, and its policy starts it again (5.4). */
async function mustAnswer(url) {
  try {
    await askServer(url, '', '/ping');
  } catch (error) {
    fatal(`failed to validate token: failed to get CA certs: ${error.message}`);
  }
}

async function isMember(name) {
  return (await members()).some((each) => each.name === name);
}

async function newCluster({ name, address }) {
  log('a new etcd cluster');
  const member = memberName(name);
  const etcd = startEtcd({ name: member, address, cluster: null });
  if (existsSync(SQLITE)) {
    await answers(new Store(etcdBackend));
    await new Store(new FileBackend(SQLITE)).copyTo(etcdBackend);
    renameSync(SQLITE, `${SQLITE}.migrated`);
  }
  return { member, backend: etcdBackend, etcd };
}

/** Joins through the one server of the URL. What may pass is tried again for ever (2.14). */
async function join({ name, address, url, token }) {
  await mustAnswer(url);
  const member = memberName(name);
  const peer = peerUrl(address);
  for (;;) {
    try {
      const { members: listed } = JSON.parse(await askServer(url, token, '/db/info'));
      const twin = listed.find((each) => each.name !== member && each.name?.replace(/-[0-9a-f]{8}$/, '') === name);
      if (twin !== undefined) {
        forgetName();
        return fatal('duplicate node name found, please use a unique name for this node');
      }
      // One without a name at our address is what an earlier try left.
      const mine = listed.some((each) => each.name === member || (!each.name && each.peerURLs.includes(peer)));
      if (!mine) await askServer(url, token, '/v1-k3s/member', { peerUrl: peer });
      const others = listed.filter((each) => each.name && each.name !== member);
      const cluster = others.map((each) => `${each.name}=${each.peerURLs[0]}`);
      return { member, backend: etcdBackend, etcd: startEtcd({ name: member, address, cluster }) };
    } catch (error) {
      if (error.status === 401 || error.status === 400) return fatal(`${url}: ${error.message}`);
      log(`waits to join ${url}: ${error.message}`);
      await sleep(RETRY);
    }
  }
}

/** Waits until the datastore answers and this member may ask it; a learner may not. */
async function answers(store) {
  for (;;) {
    try {
      await store.get('namespaces', '', 'kube-system');
      return;
    } catch {
      await sleep(200);
    }
  }
}

/** The first server of a cluster gives it its identity (6.1). */
async function kubeSystem(store) {
  const metadata = { name: 'kube-system', uid: randomUUID() };
  if ((await store.get('namespaces', '', 'kube-system')) !== null) return;
  await store.put('namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata }, '0').catch(() => {});
}

function serverToken() {
  const file = `${SERVER}/token`;
  return existsSync(file) ? readFileSync(file, 'utf8').trim() : randomUUID();
}

/** Does it again and again; what fails is tried the next time. */
async function every(milliseconds, work) {
  for (;;) {
    await sleep(milliseconds);
    try {
      await work();
    } catch (error) {
      log(error.message);
    }
  }
}
