import type { Change } from '../fleet/change.js';
import type { Cluster } from '../fleet/fleet.js';
import type { Note, PlannedStep, Refusal } from './step.js';

export type Mode = 'plan' | 'apply' | 'rejoin' | 'drift' | 'explain';

/** What is to be done in one cluster, and why not. */
export interface ClusterPlan {
  /** As the head declares it. */
  readonly cluster: Cluster;
  /** The commit it is compared with; null when there is none. */
  readonly base: string | null;
  readonly changes: readonly Change[];
  readonly steps: readonly PlannedStep[];
  readonly refusals: readonly Refusal[];
  readonly notes: readonly Note[];
}

/** The base that all clusters share; null when they differ, and without clusters. */
export function commonBase(clusters: readonly ClusterPlan[]): string | null {
  const bases = new Set(clusters.map((cluster) => cluster.base));
  return bases.size === 1 ? (clusters[0]?.base ?? null) : null;
}

export interface Plan {
  readonly mode: Mode;
  /** Null when there is none, or when the clusters' bases differ. */
  readonly base: string | null;
  readonly head: string;
  readonly inventory: string | null;
  /** True when hosts were contacted for it. */
  readonly observed: boolean;
  readonly clusters: readonly ClusterPlan[];
}
