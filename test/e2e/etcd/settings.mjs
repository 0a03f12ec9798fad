// The times of k3s, shortened so that a test does not wait for them. Milliseconds, with the fact that names the real one.
// And which release of k3s is played.

import { existsSync, readFileSync } from 'node:fs';

const number = (name, usual) => Number(process.env[name] ?? usual);

/** How often the etcd leader's k3s looks at learners and conditions; 15 s (2.12). */
export const LEADER_TICK = number('STAND_IN_LEADER_TICK', 1000);
/** How long a learner may stay without progress before it is evicted; 5 min (2.13). */
export const LEARNER_STALL = number('STAND_IN_LEARNER_STALL', 15_000);
/** How often the controllers look at the Nodes; k3s watches. */
export const CONTROLLER_TICK = number('STAND_IN_CONTROLLER_TICK', 500);
/** How long a lease without renewal counts; 45 s (1.4). */
export const LEASE = number('STAND_IN_LEASE', 5000);
/** How often a node says that it lives, and how long it is believed; 10 s and 40 s. */
export const HEARTBEAT = number('STAND_IN_HEARTBEAT', 1500);
export const HEARTBEAT_GRACE = number('STAND_IN_HEARTBEAT_GRACE', 8000);
/** How long the agents are told of a server that says nothing more; 15 s (5.7). */
export const ENDPOINT = number('STAND_IN_ENDPOINT', 6000);
/** How often what k3s tries for ever is tried (2.14, 4.4). */
export const RETRY = 1000;

/**
 * What releases do differently. `removeStays`: a removal leaves `remove` on the Node (1.6), and a leader is removed
 * without handing over (1.11). `removedFirst`: what a tombstone means to a server without a URL (1.18 to 1.20).
 */
const RELEASES = {
  worst: { version: 'v1.33.6+k3s1', removeStays: false, removedFirst: 'new cluster' },
  old: { version: 'v1.32.9+k3s1', removeStays: true, removedFirst: 'crash' },
  january: { version: 'v1.33.7+k3s3', removeStays: false, removedFirst: 'new cluster' },
  new: { version: 'v1.33.8+k3s1', removeStays: false, removedFirst: 'refuse' },
};
/** A host's own file of this name, when a test has written it, beats the variable. */
const RELEASE_FILE = '/stand-in/release';
const chosen = existsSync(RELEASE_FILE) ? readFileSync(RELEASE_FILE, 'utf8').trim() : process.env.STAND_IN_K3S_RELEASE;
if (!Object.hasOwn(RELEASES, chosen ?? 'worst')) throw new Error(`no release ${chosen}`);
export const RELEASE = RELEASES[chosen ?? 'worst'];
export const VERSION = process.env.STAND_IN_K3S_VERSION ?? RELEASE.version;
export const DATA = '/var/lib/rancher/k3s';
export const SERVER = `${DATA}/server`;
export const ETCD = `${SERVER}/db/etcd`;

export const LABEL = 'node-role.kubernetes.io';
export const ANNOTATION = 'etcd.k3s.cattle.io';

export const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

export function log(text) {
  process.stderr.write(`k3s: ${text}\n`);
}

/** k3s's last words, and its end. */
export function fatal(text) {
  process.stderr.write(`level=fatal msg="${text}"\n`);
  process.exit(1);
}
