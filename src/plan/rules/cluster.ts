import type { SeenWorld } from '../desired.js';
import { valueOr } from '../observation.js';
import type { Refusal } from '../step.js';

/** Why nothing at all is done in a cluster. None of them names the hosts that go on: there are none. */
export type ClusterRule = (world: SeenWorld) => readonly Refusal[];

const every = (world: SeenWorld): readonly string[] => world.desired.cluster.hosts.map((host) => host.name);

/** Rule 1: two identities or two lists stop everything; the one way out is the rejoin of a host of the smaller side. */
const oneCluster: ClusterRule = (world) => {
  const { membership } = world.members;
  if (membership.kind !== 'split') return [];
  return [{ code: 'two-identities', message: membership.message, hosts: membership.hosts }];
};

/** A record of another repository or group: somebody else is in charge here. */
const ownRecord: ClusterRule = (world) => {
  const record = valueOr(world.observed.record ?? NOBODY, null);
  if (!world.observed.observed || record === null) return [];
  const { desired } = world;
  const { repository } = world.intent;
  if (record.repository === repository && record.group === desired.cluster.name) return [];
  const message = `The record of this cluster is of ${record.repository}, group ${record.group}, and this run is of ${repository}, group ${desired.cluster.name}: two fleet repositories must not steer one cluster. Turn the controller off in the other one, let it apply, or delete the ConfigMap kube-system/fleet-role.`;
  return [{ code: 'other-repository', message, hosts: every(world) }];
};

/** Rule 12: re-running an old workflow run must not bring a removed server back. */
const forwardOnly: ClusterRule = (world) => {
  const { intent, observed } = world;
  if (!observed.observed || intent.allowRollback || intent.relation !== 'behind') return [];
  const record = valueOr(observed.record ?? NOBODY, null);
  const last = record?.started ?? record?.commit ?? 'another commit';
  const message = `${intent.head.slice(0, 12)} is older than ${last.slice(0, 12)}, which was applied or begun here (rule 12). Revert in a new commit, or set allow-rollback: true for this run.`;
  return [{ code: 'rollback', message, hosts: every(world) }];
};

/** No API answers to take the lock from: nothing is written, but where it is proved that there is no cluster yet. */
const lockable: ClusterRule = (world) => {
  const { observed, members, desired } = world;
  if (!observed.observed || members.membership.kind !== 'silent' || world.noCluster) return [];
  // A cluster that is joined outside the inventory is asked through nobody here.
  const servers = desired.cluster.servers.filter((name) => observed.hosts.get(name)?.kind === 'reached');
  const { why } = members.membership;
  const refusals: Refusal[] = [
    {
      code: 'no-lock',
      message: `No API of ${desired.cluster.name} answers to take the lock from, so nothing is written (${why}). Bring a server up and run this again.`,
      hosts: every(world),
    },
  ];
  if (servers.length > 0 && desired.cluster.controller === true && desired.cluster.datastore === 'etcd') {
    refusals.unshift({ code: 'no-quorum', message: recovery(world, why), hosts: desired.cluster.servers });
  }
  return refusals;
};

/** With no quorum at all there is only k3s's own recovery, which is a person's decision. */
function recovery({ desired }: SeenWorld, why: string): string {
  return `No server of ${desired.cluster.name} answers with a quorum (${why}; rule 2). fleet-role changes nothing but what a fence held back. Start the servers that still have their datastore. Only when more than half of the voters are gone for good: on one server that is left, stop k3s, run k3s server --cluster-reset there (it keeps its data and forgets the other members), start it, and rejoin each other server with mode: rejoin; none of them may be started before that.`;
}

/** Input `require-reviewed-plan`: nothing is applied that the pull request did not show. */
const asReviewed: ClusterRule = (world) => {
  const { planDiffers } = world.intent;
  return planDiffers == null ? [] : [{ code: 'plan-differs', message: planDiffers, hosts: [] }];
};

const NOBODY = { kind: 'known', value: null } as const;

/** Every rule that stops a whole cluster before its first step, in the order in which its reasons are shown. */
export const CLUSTER_RULES: readonly ClusterRule[] = [oneCluster, ownRecord, forwardOnly, asReviewed, lockable];
