import type { Snapshot } from '../repository/snapshot.js';

/** The base branch of a pull request has gone on, and changed files that the inventory is read from. */
export interface MovedBase {
  readonly branch: string;
  /** The commit that the plan compares with. */
  readonly mergeBase: string;
  /** The branch's commit when the event happened. */
  readonly tip: string;
  /** Paths from the repository root, sorted; at least one. */
  readonly files: readonly string[];
}

/**
 * The inventory files that differ between the merge base and the tip of the base branch, by what they hold; null where
 * none does, and without a tip. `wanted` names the files that the inventory is read from.
 */
export function movedBase(
  branch: string,
  mergeBase: Snapshot,
  tip: Snapshot | null,
  wanted: (entries: Snapshot['entries']) => readonly string[],
): MovedBase | null {
  if (tip === null) return null;
  const paths = [...new Set([...wanted(mergeBase.entries), ...wanted(tip.entries)])];
  const files = paths.filter((path) => mergeBase.entries.get(path)?.oid !== tip.entries.get(path)?.oid).sort();
  return files.length === 0 ? null : { branch, mergeBase: mergeBase.commit, tip: tip.commit, files };
}
