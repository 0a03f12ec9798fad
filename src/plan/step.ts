import type { Service } from '../fleet/fleet.js';

/** Every step that fleet-role knows; the words of the `plan` output. */
export const ACTIONS = [
  'create-role-directory',
  'install-guards',
  'add-override',
  'remove-override',
  'write-environment',
  'write-join-url',
  'write-role',
  'write-identity',
  'clear-role-files',
  'set-restart-policy',
  'recreate-service',
  'drain',
  'snapshot',
  'remove-member',
  'cancel-removal',
  'confirm-removed',
  'await-eviction',
  'stop-service',
  'set-datastore-aside',
  'clean-node',
  'delete-node',
  'clear-password',
  'start-service',
  'await-ready',
  'await-voter',
  'settle',
  'uncordon',
  'write-record',
  'delete-record',
] as const;

export type Action = (typeof ACTIONS)[number];

/** The steps that go through the API of the cluster; all others are done on the host itself. */
export const CLUSTER_ACTIONS: ReadonlySet<Action> = new Set([
  'drain',
  'snapshot',
  'remove-member',
  'cancel-removal',
  'confirm-removed',
  'await-eviction',
  'clean-node',
  'delete-node',
  'clear-password',
  'await-ready',
  'await-voter',
  'settle',
  'uncordon',
  'write-record',
  'delete-record',
]);

/** One thing done on one host (or through it, on its cluster). */
export interface Step {
  readonly action: Action;
  /** Inventory name. */
  readonly host: string;
  readonly service: Service | null;
  /** What is written; null when nothing is. */
  readonly value: string | null;
  /** One line for people: what is done and why. */
  readonly detail: string;
}

/** How far a step of a run is. */
export type StepState = 'done' | 'running' | 'to-come' | 'failed';

/** Names one planned step among those of all clusters. */
export function stepKey(cluster: string, number: number): string {
  return `${cluster}#${number}`;
}

/** Voters at a step, counted before and after it. */
export interface Voters {
  readonly before: number;
  readonly after: number;
  /** Healthy voters after the step. */
  readonly healthy: number;
  readonly quorum: number;
  /** How many more servers may fail before quorum is lost. */
  readonly tolerance: number;
}

/** A step that a run has done. */
export interface DoneStep {
  readonly action: string;
  readonly host: string;
  readonly service: Service | null;
}

export interface PlannedStep extends Step {
  /** From 1 in each cluster. */
  readonly number: number;
  /** Null for SQLite, for a cluster that joins a server outside the inventory, and where nothing is known. */
  readonly voters: Voters | null;
}

export const REFUSAL_CODES = [
  'quorum',
  'pending-change',
  'unhealthy-voter',
  'two-identities',
  'no-quorum',
  'unreachable',
  'running-role',
  'adoption',
  'unknown-node',
  'renamed',
  'foreign-entrypoint',
  'guards',
  'no-token',
  'old-k3s',
  'sqlite-moves',
  'needs-rejoin',
  'runs-on-node',
  'rollback',
  'other-repository',
  'plan-differs',
  'not-fleet-branch',
  'no-lock',
  'controller-off',
  'not-a-server',
  'joins-leaving',
] as const;

export type RefusalCode = (typeof REFUSAL_CODES)[number];

/** Why fleet-role will not do something, with the fact, the rule and the way out in the message. */
export interface Refusal {
  readonly code: RefusalCode;
  readonly message: string;
  readonly hosts: readonly string[];
}

export const NOTE_CODES = [
  'not-observed',
  'base-unreadable',
  'unreachable',
  'not-provisioned',
  'no-cluster',
  'guards-not-in-force',
  'guards-not-kept',
  'ghost-member',
  'ignored-ssh-option',
] as const;

export type NoteCode = (typeof NOTE_CODES)[number];

export interface Note {
  readonly code: NoteCode;
  readonly message: string;
  readonly hosts: readonly string[];
}
