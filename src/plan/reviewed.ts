import type { Change } from '../fleet/change.js';
import type { Cluster } from '../fleet/fleet.js';
import type { Step } from './step.js';

/** What a plan decides about one cluster. */
export interface Decided {
  readonly cluster: Cluster;
  readonly changes: readonly Change[];
}

/**
 * The changes that a reviewer decides on: all but those that only the observed fleet needs (`repaired`), which no pull
 * request shows.
 */
export function decidedChanges(changes: readonly Change[]): readonly Change[] {
  return changes.filter((change) => change.kind !== 'repaired');
}

/** A decision that the reviewed plan does not have, or has otherwise. */
export interface Difference {
  /** The cluster that it concerns. */
  readonly cluster: string;
  /** A sentence without a full stop. */
  readonly what: string;
  /** Inventory names. */
  readonly hosts: readonly string[];
}

/**
 * What `now` decides otherwise than `reviewed`, cluster by cluster: validity, controller, bootstrap host, servers in
 * their order, and changes without their causes. Empty exactly where `canonicalDecisions` of both are the same, as long
 * as each cluster has one name.
 */
export function differencesOf(reviewed: readonly Decided[], now: readonly Decided[]): readonly Difference[] {
  const names = [...new Set([...now, ...reviewed].map(({ cluster }) => cluster.name))];
  return names.flatMap((name) => {
    const before = reviewed.find(({ cluster }) => cluster.name === name);
    const after = now.find(({ cluster }) => cluster.name === name);
    if (before === undefined)
      return [{ cluster: name, what: 'the reviewed plan does not have this cluster', hosts: [] }];
    if (after === undefined) return [{ cluster: name, what: 'only the reviewed plan has this cluster', hosts: [] }];
    return [...settings(before.cluster, after.cluster), ...changes(name, before, after)];
  });
}

function settings(before: Cluster, after: Cluster): readonly Difference[] {
  const facts: readonly (readonly [string, (cluster: Cluster) => string])[] = [
    ['the cluster is', ({ valid }) => (valid ? 'valid' : 'invalid')],
    ['the controller is', ({ readable, controller }) => (readable ? (controller ? 'on' : 'off') : 'not known')],
    ['the bootstrap host is', ({ readable, bootstrap }) => (readable ? (bootstrap ?? 'none') : 'not known')],
    ['the servers are', ({ readable, servers }) => (readable ? servers.join(', ') || 'none' : 'not known')],
  ];
  return facts.flatMap(([fact, of]) => {
    const [then, now] = [of(before), of(after)];
    if (then === now) return [];
    return [{ cluster: after.name, what: `${fact} ${now}, and ${then} in the reviewed plan`, hosts: [] }];
  });
}

function changes(cluster: string, before: Decided, after: Decided): readonly Difference[] {
  const of = (decided: Decided): Map<string, Change> =>
    new Map((decided.cluster.valid ? decidedChanges(decided.changes) : []).map((one) => [keyOf(one), one]));
  const [then, now] = [of(before), of(after)];
  const differs = (one: Change, what: string): Difference => ({
    cluster,
    what: `${describe(one)} ${what}`,
    hosts: [one.host],
  });
  const inOrder = [...then.keys()].join('\n') === [...now.keys()].join('\n');
  const found = [
    ...[...now].filter(([key]) => !then.has(key)).map(([, one]) => differs(one, 'is not in the reviewed plan')),
    ...[...then].filter(([key]) => !now.has(key)).map(([, one]) => differs(one, 'is in the reviewed plan alone')),
  ];
  if (found.length > 0 || inOrder) return found;
  return [{ cluster, what: 'the changes have another order than in the reviewed plan', hosts: [] }];
}

function keyOf({ host, kind, role, joinUrl }: Change): string {
  return JSON.stringify([host, kind, role.from, role.to, joinUrl.from, joinUrl.to]);
}

function describe({ host, kind, role, joinUrl }: Change): string {
  const to = (from: string | null, to: string | null): string => `${from ?? 'none'} → ${to ?? 'none'}`;
  const parts = [
    ...(role.from === role.to ? [] : [`role ${to(role.from, role.to)}`]),
    ...(joinUrl.from === joinUrl.to ? [] : [`join URL ${to(joinUrl.from, joinUrl.to)}`]),
  ];
  return `${kind} of ${host}${parts.length === 0 ? '' : ` (${parts.join(', ')})`}`;
}

/** The steps of `observed` that `unobserved`, the plan of the same commits that looked at nothing, does not have. */
export function notVisibleInReview<T extends Step>(observed: readonly T[], unobserved: readonly Step[]): readonly T[] {
  const known = new Set(unobserved.map(stepKeyOf));
  return observed.filter((step) => !known.has(stepKeyOf(step)));
}

function stepKeyOf({ action, host, service, value }: Step): string {
  return JSON.stringify([action, host, service, value]);
}
