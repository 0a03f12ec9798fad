import type { Voters } from './step.js';

/** `floor(voters / 2) + 1`: how many healthy voters a cluster needs to write. */
export function quorumOf(voters: number): number {
  return Math.floor(voters / 2) + 1;
}

/** Voters around a step that changes their number from `before` to `after`, `healthy` of them healthy afterwards. */
export function votersOf(before: number, after: number, healthy: number): Voters {
  const quorum = quorumOf(after);
  return { before, after, healthy, quorum, tolerance: Math.max(0, healthy - quorum) };
}
