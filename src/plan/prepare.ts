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
 * Puts every cluster of the head beside its base (`baseOf`: one of its own for each cluster): changes, warnings, and what is desired. A base that cannot be read,
 * or that was invalid and so never applied, is the note `base-unreadable` and counts as none.
 */
export function prepare(head: Fleet, baseOf: Base | ((cluster: string) => Base)): readonly PlanInput[] {
  const compared = head.clusters.map((cluster) => {
    const base = typeof baseOf === 'function' ? baseOf(cluster.name) : baseOf;
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
    const added = cluster.hosts.filter((host) => !comparison.pairs.has(host.name));
    return { cluster, commit: base.commit, before, notes, comparison, added };
  });
  // One host by its inventory name, node name, or machine: who leaves one cluster and is added to another has moved.
  const leaves = new Map<string, string>();
  const comes = new Map<string, string>();
  for (const { cluster, comparison, added } of compared) {
    for (const key of comparison.leaving.flatMap(identitiesOf)) leaves.set(key, cluster.name);
    for (const key of added.flatMap(identitiesOf)) comes.set(key, cluster.name);
  }
  return compared.map(({ cluster, commit, before, notes, comparison }) => {
    const elsewhere = (host: Host): string | null => {
      const others = identitiesOf(host).flatMap((key) => [leaves.get(key), comes.get(key)]);
      return others.find((name) => name !== undefined && name !== cluster.name) ?? null;
    };
    const warned: Cluster = { ...cluster, warnings: [...cluster.warnings, ...comparison.warnings] };
    const desired: Desired = desire(warned, before, comparison.pairs, comparison.leaving, elsewhere);
    return { desired, baseCommit: before === null ? null : commit, changes: comparison.changes, notes };
  });
}

function identitiesOf(host: Host): readonly string[] {
  const names = [`host ${host.name}`, `machine ${machineOf(host)}`];
  return host.nodeName === null ? names : [...names, `node ${host.nodeName}`];
}

/** Why a base that was found is of no use, or null. A cluster that the base does not have is new, which is fine. */
function unusable(cluster: Cluster | null, commit: string | null): string | null {
  if (cluster === null || cluster.valid) return null;
  const problem = cluster.problems[0];
  const why = cluster.readable ? 'is invalid' : 'does not have this cluster';
  return `The base ${commit?.slice(0, 12) ?? ''} ${why} (${problem?.code ?? 'unknown'}), so it was never applied.`;
}
