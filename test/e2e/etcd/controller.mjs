// What k3s's controllers do to members and Nodes. The removal acts on whichever server holds the lease `k3s-etcd`;
// learners and conditions are looked after by the k3s of the etcd leader.

import * as etcd from './etcd-client.mjs';
import { ETCD_LABEL, forgetNode, MEMBER_ADDRESS, MEMBER_NAME, REMOVE, REMOVED_NAME } from './node-object.mjs';
import { LEARNER_STALL, LEASE, log, RELEASE } from './settings.mjs';

const hostOf = (url) => new URL(url).hostname.replace(/^\[|\]$/g, '');

/** Takes or renews the lease `k3s-etcd`; true while this server holds it (1.3). */
export async function holdsLease(store, holder) {
  const now = Date.now();
  const lease = await store.get('leases', 'kube-system', 'k3s-etcd');
  const theirs = lease !== null && lease.spec.holderIdentity !== holder && now - lease.spec.renewed < LEASE;
  if (theirs) return false;
  if (lease !== null && lease.spec.holderIdentity === holder && now - lease.spec.renewed < LEASE / 3) return true;
  const next = {
    ...{ apiVersion: 'coordination.k8s.io/v1', kind: 'Lease' },
    metadata: { name: 'k3s-etcd', namespace: 'kube-system' },
    spec: { holderIdentity: holder, renewed: now },
  };
  try {
    await store.put('leases', next, lease?.metadata.resourceVersion ?? '0');
    return true;
  } catch {
    return false;
  }
}

/** Looks at every Node for a removal that is asked for, or a deletion that waits for one. */
export async function removals(store) {
  for (const node of await store.list('nodes')) {
    const { name } = node.metadata;
    try {
      if (node.metadata.deletionTimestamp !== undefined) await onRemove(store, node);
      else await sync(store, node);
    } catch (error) {
      // It is tried again, for ever.
      log(`error syncing ${name}: ${error.message}`);
    }
  }
}

async function sync(store, node) {
  const { name, labels, annotations } = node.metadata;
  // Without the label it is skipped without a word (1.2).
  if (labels[ETCD_LABEL] === undefined || annotations[REMOVE]?.toLowerCase() !== 'true') return;
  const member = annotations[MEMBER_NAME];
  const address = annotations[MEMBER_ADDRESS];
  const removed = annotations[REMOVED_NAME];
  // What an old release leaves behind it errs on for ever (1.6).
  if (member === undefined) throw new Error(`node name annotation for node ${name} not found`);
  if (address === undefined) throw new Error(`node address annotation for node ${name} not found`);
  if (removed !== undefined) {
    if (removed === member) return;
    // A second demotion: both go, and the member stays (1.7).
    log(`resetting removed node flag of ${name}`);
    await annotate(store, name, { [REMOVE]: null, [REMOVED_NAME]: null });
    return;
  }
  try {
    await removePeer(member, address);
  } catch (error) {
    // The last voter: the request goes, the member stays (1.10).
    if (!error.message.includes('not enough started members')) throw error;
    log(`refused to remove ${member}: ${error.message}`);
    await annotate(store, name, { [REMOVE]: null });
    return;
  }
  const asked = RELEASE.removeStays ? {} : { [REMOVE]: null };
  await annotate(store, name, { [REMOVED_NAME]: member, ...asked, [MEMBER_NAME]: null, [MEMBER_ADDRESS]: null });
}

/** A Node that is deleted takes its member with it (3.10), unless one was noted as removed before (1.8). */
async function onRemove(store, node) {
  const { name, labels, annotations } = node.metadata;
  if (labels[ETCD_LABEL] !== undefined && annotations[REMOVED_NAME] === undefined) {
    const member = annotations[MEMBER_NAME];
    const address = annotations[MEMBER_ADDRESS];
    if (member === undefined || address === undefined)
      throw new Error(`node name annotation for node ${name} not found`);
    await removePeer(member, address);
  }
  await forgetNode(store, name);
}

/** Removes the member of exactly this name and address; that there is none is success as well (1.9). */
async function removePeer(name, address) {
  const members = await etcd.members();
  const found = members.find(
    (member) => member.name === name && member.peerUrls.some((url) => hostOf(url) === address),
  );
  if (found === undefined) return;
  const { leader, header } = await etcd.status();
  if (leader === found.id && !RELEASE.removeStays) {
    // A leader hands over first; the request goes to itself, so it has to be up (1.11).
    const others = members.filter((each) => !each.learner && each.id !== leader);
    const next = others.find((each) => each.id === header.member_id) ?? others[0];
    if (next !== undefined) {
      log(`the leader ${name} hands over to ${next.name}`);
      await etcd.moveLeader(found.clientUrls[0], next.id);
    }
  }
  log(`removing etcd member ${name}`);
  await etcd.remove(found.id);
}

function annotate(store, name, changes) {
  return store.update('nodes', '', name, (node) => {
    for (const [key, value] of Object.entries(changes)) {
      if (value === null) delete node.metadata.annotations[key];
      else node.metadata.annotations[key] = value;
    }
    return node;
  });
}

/** The leader's part: learners become voters or are evicted, and Nodes say whether they vote. */
export class Leader {
  /** Since when a learner is where it is, by its id. */
  #progress = new Map();

  async tick(store) {
    const { leader, header } = await etcd.status();
    if (leader !== header.member_id) {
      this.#progress.clear();
      return;
    }
    const members = await etcd.members();
    for (const id of this.#progress.keys()) if (!members.some((each) => each.id === id)) this.#progress.delete(id);
    for (const member of members.filter((each) => each.learner)) await this.#learner(member);
    await conditions(store, await etcd.members());
  }

  async #learner(member) {
    const status = await statusOf(member);
    const index = BigInt(status?.raftIndex ?? 0);
    const before = this.#progress.get(member.id);
    if (before === undefined || index > before.index) this.#progress.set(member.id, { index, since: Date.now() });
    // One that has a name has started; etcd itself says when it has caught up.
    if (member.name !== '') {
      const promoted = await etcd.promote(member.id).then(
        () => true,
        () => false,
      );
      if (promoted) {
        log(`promoted learner ${member.name}`);
        return;
      }
    }
    if (Date.now() - (this.#progress.get(member.id)?.since ?? 0) < LEARNER_STALL) return;
    log(`removing learner ${member.name || member.id} due to no raft progress`);
    await etcd.remove(member.id);
  }
}

/** What a member says of itself; null where it says nothing. */
async function statusOf({ clientUrls: [url] }) {
  return url === undefined ? null : etcd.status(url).catch(() => null);
}

/** EtcdIsVoter, only of Nodes with the label (3.1, 3.3). */
async function conditions(store, members) {
  const health = new Map(
    await Promise.all(members.map(async (member) => [member.id, (await statusOf(member)) !== null])),
  );
  for (const node of await store.list('nodes')) {
    if (node.metadata.labels[ETCD_LABEL] !== 'true') continue;
    const address = node.status.addresses[0].address;
    const member = members.find((each) => each.peerUrls.some((url) => hostOf(url) === address));
    const [status, reason] =
      member === undefined
        ? ['False', 'NotAMember']
        : member.learner
          ? ['False', 'MemberIsLearner']
          : health.get(member.id)
            ? ['True', 'MemberNotLearner']
            : ['False', 'Unhealthy'];
    await store.update('nodes', '', node.metadata.name, (now) => {
      now.status.conditions = [{ type: 'EtcdIsVoter', status, reason }];
      return now;
    });
  }
}
