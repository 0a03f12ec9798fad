import type { Pairs } from '../fleet/causes.js';
import type { Cluster, Host } from '../fleet/fleet.js';
import type { Members } from './membership.js';
import type { NodeObservation, Observation, ReachedHost } from './observation.js';
import type { Mode } from './plan.js';

/** A host as the plan wants it: declared at the head, or leaving (declared at the base only). */
export interface DesiredHost {
  readonly host: Host;
  /** The host left the inventory; `host` is as the base declares it, its connection included. */
  readonly leaving: boolean;
  /** The same host at the base; null for an added host, and without a base. */
  readonly before: Host | null;
  /** The same machine is in another cluster of the other commit: the name of that cluster. */
  readonly movedAcross: string | null;
}

/** What one cluster should become. */
export interface Desired {
  readonly cluster: Cluster;
  /** The cluster at the base; null without a usable base. */
  readonly base: Cluster | null;
  /** The head's hosts in inventory order, then the leaving ones. */
  readonly hosts: readonly DesiredHost[];
}

/** What the run was asked to do, beside what the inventory says. */
export interface Intent {
  readonly mode: Mode;
  /** Inventory name: the host of a rejoin. */
  readonly host: string | null;
  readonly rollout: 'changed' | 'servers' | 'all';
  readonly installGuards: 'auto' | 'always' | 'never';
  readonly drain: 'wait' | 'evict' | 'none';
  /** The version of the guard scripts that this fleet-role ships. */
  readonly guardsVersion: string;
  /** Input `force-unreachable`: a server that cannot be reached may be taken out of the cluster. */
  readonly forceUnreachable: boolean;
  /** Input `allow-rollback`: a head behind the record may be applied. */
  readonly allowRollback: boolean;
  /** What this run applies, for the record. */
  readonly head: string;
  readonly repository: string;
  /** How the head stands to the commit that was last started or completed. */
  readonly relation: Relation;
  /** Why this is not the plan that was reviewed, where one is required; null or left out: it is, or none is required. */
  readonly planDiffers?: string | null;
  /** The node that this run itself sits on (rule 11); null: on none of the cluster, or not known. */
  readonly runsOn: string | null;
}

/** `none`: there is no record. `unknown`: the ancestry could not be found out. */
export type Relation = 'none' | 'forward' | 'same' | 'behind' | 'diverged' | 'unknown';

/** Everything that a rule or a step looks at. */
export interface World {
  readonly desired: Desired;
  readonly observed: Observation;
  readonly intent: Intent;
}

/** A world with what all its hosts ask for, worked out once. */
export interface SeenWorld extends World {
  /** By `serving`. */
  readonly serving: readonly Host[];
  /** By `noClusterYet`. */
  readonly noCluster: boolean;
  /** Who is a member. */
  readonly members: Members;
  /** The cluster has a record of a complete apply: membership may be changed (Adoption). */
  readonly adopted: boolean;
}

/** A world seen from one host that was reached. */
export interface HostView {
  readonly world: SeenWorld;
  readonly desired: DesiredHost;
  readonly now: ReachedHost;
}

/** Puts head and base of one cluster together. `elsewhere` maps a machine to the other cluster that claims it. */
export function desire(
  head: Cluster,
  base: Cluster | null,
  pairs: Pairs,
  leaving: readonly Host[],
  elsewhere: (host: Host) => string | null,
): Desired {
  return {
    cluster: head,
    base,
    hosts: [
      ...head.hosts.map((host) => {
        const before = pairs.get(host.name) ?? null;
        return { host, leaving: false, before, movedAcross: before === null ? elsewhere(host) : null };
      }),
      ...leaving.map((host) => ({ host, leaving: true, before: host, movedAcross: elsewhere(host) })),
    ],
  };
}

/** Whether any host of the cluster has the override; without one its hosts are not contacted. */
export function anyPublishes(cluster: Cluster | null): boolean {
  return cluster?.hosts.some((host) => host.publishesLabels) === true;
}

/** Leaving hosts are acted on only where the controller was on at the base and is on at the head. */
export function controllerStaysOn(desired: Desired): boolean {
  return desired.base?.controller === true && desired.cluster.controller === true;
}

/** A complete apply is written down for this cluster. A record that could not be read is none. */
export function isAdopted({ record }: Observation): boolean {
  return record?.kind === 'known' && record.value !== null && record.value.commit !== null;
}

/** The Node of a host; null where there is none, and where the Nodes or the host's node name are not known. */
export function nodeOf({ observed }: World, host: Host): NodeObservation | null {
  const name = host.nodeName ?? (observed.observed ? null : host.name);
  if (name === null || observed.nodes?.kind !== 'known') return null;
  return observed.nodes.value.get(name) ?? null;
}

/**
 * The hosts that a run has business with; none of an invalid cluster. While the controller is off at both ends and no host publishes at either,
 * there are none.
 */
export function hostsToContact(desired: Desired): readonly DesiredHost[] {
  const { cluster, base } = desired;
  if (!cluster.valid) return [];
  if (!anyPublishes(cluster) && !anyPublishes(base)) return [];
  return desired.hosts.filter((entry) => !entry.leaving || controllerStaysOn(desired));
}
