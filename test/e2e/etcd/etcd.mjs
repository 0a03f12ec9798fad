// The etcd of one server: started with what lies on disk or with what it joins, and what k3s does when it ends.

import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { ETCD, fatal, log, SERVER, sleep } from './settings.mjs';

export const TOMBSTONE = `${ETCD}/tombstone`;
const NAME = `${ETCD}/name`;

/** k3s's own test for "has etcd" (1.24). */
export const hasEtcd = () => existsSync(`${ETCD}/member/wal`);
export const hasTombstone = () => existsSync(TOMBSTONE);

/** The member name on disk, or a new one: the node's name and eight hexadecimal digits (1.1). */
export function memberName(node) {
  if (!existsSync(NAME)) {
    mkdirSync(ETCD, { recursive: true, mode: 0o700 });
    writeFileSync(NAME, `${node}-${randomBytes(4).toString('hex')}`);
  }
  return readFileSync(NAME, 'utf8').trim();
}

export const forgetName = () => rmSync(NAME, { force: true });

/** What a removed member leaves is moved away, and at most five such directories are kept (1.16, 1.17). */
export function backUp() {
  renameSync(ETCD, `${SERVER}/db/etcd-backup-${Math.floor(Date.now() / 1000)}`);
  const old = readdirSync(`${SERVER}/db`).filter((name) => name.startsWith('etcd-backup-'));
  for (const name of old.sort().slice(0, -6)) rmSync(`${SERVER}/db/${name}`, { recursive: true });
}

/** etcd's words when it learns that it was removed. */
const REMOVED = /permanently removed from the cluster|data-dir used by this member must be removed/;

/**
 * Starts etcd. `cluster` is null for data that is there and for a new cluster, else the members that it joins as
 * `name=peerURL`. Once etcd has been removed, a tombstone is written and k3s exits, as it does in practice (1.13, 1.14);
 * once it has failed, k3s exits.
 */
export function startEtcd({ name, address, cluster }) {
  const peer = peerUrl(address);
  const child = spawn(
    'etcd',
    [
      ...['--name', name, '--data-dir', ETCD, '--logger', 'zap', '--log-outputs', 'stderr', '--log-level', 'warn'],
      ...['--listen-client-urls', `http://127.0.0.1:2379,http://${address}:2379`],
      ...['--advertise-client-urls', `http://${address}:2379`],
      ...['--listen-peer-urls', peer, '--initial-advertise-peer-urls', peer],
      ...['--initial-cluster', [...(cluster ?? []), `${name}=${peer}`].join(',')],
      ...['--initial-cluster-state', cluster === null ? 'new' : 'existing'],
      ...['--heartbeat-interval', '200', '--election-timeout', '2000'],
    ],
    { stdio: ['ignore', 'inherit', 'pipe'] },
  );
  let removed = false;
  child.stderr.setEncoding('utf8');
  child.stderr.on('data', (text) => {
    removed ||= REMOVED.test(text);
    process.stderr.write(text);
  });
  let stopping = false;
  const ended = new Promise((resolve) => child.on('close', resolve));
  ended.then(async (code) => {
    if (stopping) return;
    if (!removed) fatal(`etcd ended with ${code}`);
    writeFileSync(TOMBSTONE, '', { mode: 0o600 });
    log('This node has been removed from the cluster - please restart k3s to rejoin the cluster');
    await sleep(500);
    fatal('leaderelection lost for k3s');
  });
  return {
    async stop() {
      stopping = true;
      child.kill('SIGTERM');
      await ended;
    },
  };
}

export const peerUrl = (address) => `http://${address}:2380`;
