import { type Comparison, compareClusters, machineOf } from '../fleet/changes.js';
import type { Cluster, Fleet, Host } from '../fleet/fleet.js';
import { type Desired, desire } from './desired.js';
import type { PlanInput } from './make-plan.js';
import type { Note } from './step.js';

/** What a cluster's head is compared with. */
export interface Base {
  readonly commit: string | null;
  readonly fleet: Fleet | null;
  /** Why the base cannot be read, when there should be one. */
  readonly unreadable: string | null;
}

export const NO_BASE: Base = { commit: null, fleet: null, unreadable: null };

/**
 * Puts every cluster of the head beside its base: changes, warnings, and what is desired. A base that cannot be read,
 * or that was invalid and so never applied, is the note `base-unreadable` and counts as none.
 */
export function prepare(head: Fleet, base: Base): readonly PlanInput[] {
  const clustersOf = (fleet: Fleet | null): ReadonlyMap<string, string> =>
    new Map((fleet?.clusters ?? []).flatMap((cluster) => cluster.hosts.map((host) => [machineOf(host), cluster.name])));
  const atBase = clustersOf(base.fleet);
  const atHead = clustersOf(head);
  return head.clusters.map((cluster) => {
    const found = base.fleet?.clusters.find((candidate) => candidate.name === cluster.name) ?? null;
    const why = base.unreadable ?? unusable(found, base.commit);
    const before = why === null ? found : null;
    const notes: Note[] =
      why === null
        ? []
        : [
            {
              code: 'base-unreadable',
              message: `${why} Every host of ${cluster.name} counts as added and none as removed.`,
              hosts: [],
            },
          ];
    const comparison: Comparison = cluster.valid
      ? compareClusters(before, cluster)
      : { changes: [], warnings: [], leaving: [], pairs: new Map() };
    const elsewhere = (host: Host): string | null => {
      const others = [atBase.get(machineOf(host)), atHead.get(machineOf(host))];
      return others.find((name) => name !== undefined && name !== cluster.name) ?? null;
    };
    const warned: Cluster = { ...cluster, warnings: [...cluster.warnings, ...comparison.warnings] };
    const desired: Desired = desire(warned, before, comparison.pairs, comparison.leaving, elsewhere);
    return { desired, baseCommit: before === null ? null : base.commit, changes: comparison.changes, notes };
  });
}

/** Why a base that was found is of no use, or null. A cluster that the base does not have is new, which is fine. */
function unusable(cluster: Cluster | null, commit: string | null): string | null {
  if (cluster === null || cluster.valid) return null;
  const problem = cluster.problems[0];
  return `The base ${commit?.slice(0, 12) ?? ''} is invalid (${problem?.code ?? 'unknown'}) and was never applied.`;
}
