import type { Role } from './fleet.js';
import type { Place } from './problem.js';

export const CHANGE_KINDS = [
  'promotion',
  'demotion',
  'rejoin',
  'join-url',
  'added',
  'removed',
  'renamed',
  'controller-on',
  'controller-off',
  'override-added',
  'override-removed',
  'connection',
  'repaired',
] as const;

export type ChangeKind = (typeof CHANGE_KINDS)[number];

/** One difference of one host between base and head. */
export interface Change {
  readonly host: string;
  readonly kind: ChangeKind;
  readonly cause: Cause;
  /** `from` is null for an added host, `to` for a removed one. */
  readonly role: { readonly from: Role | null; readonly to: Role | null };
  readonly joinUrl: { readonly from: string | null; readonly to: string | null };
}

/** The line that made the change: a person asks why a host changed whose own lines did not. */
export interface Cause extends Place {
  /** Which of the two commits the file and line are in. */
  readonly commit: 'base' | 'head';
  readonly reason: string;
}
