import type { Action } from '../step.js';
import { createRoleDirectory } from './create-role-directory.js';
import { installGuards } from './install-guards.js';
import type { StepKind } from './kind.js';
import { deleteNode, drainNode, stopLeaving } from './leave.js';
import { addOverride, listOverride, removeOverride } from './override.js';
import { clearRoleFiles, keepJoinUrl, stopIdle, writeJoinUrl, writeRole } from './role-files.js';

// The order within each list carries meaning: it is the order in which a host's steps are done.

/** What every host has before anything else is done there. */
export const SETUP_KINDS: readonly StepKind[] = [createRoleDirectory, installGuards, addOverride];

/** What a host joins through. */
export const JOIN_KINDS: readonly StepKind[] = [writeJoinUrl];

/**
 * The files of a host whose service runs as declared. A role is written after the join URL that it needs, and the
 * override is listed last of these, since whoever starts the services then meets it; the join URL
 * is kept and the idle service stopped before the role files go; the override goes last.
 */
export const FILE_KINDS: readonly StepKind[] = [
  writeJoinUrl,
  writeRole,
  listOverride,
  keepJoinUrl,
  stopIdle,
  clearRoleFiles,
  removeOverride,
];

/** How an agent leaves: fenced, drained, stopped, and its Node last. */
export const LEAVE_KINDS: readonly StepKind[] = [writeRole, drainNode, stopLeaving, deleteNode];

/** Every kind of step that looks at one host alone. */
export const STEP_KINDS: readonly StepKind[] = [...SETUP_KINDS, ...FILE_KINDS, ...LEAVE_KINDS];

/** The kind that predicts a step: two kinds may share an action, told apart by the step's value. Null for others. */
export function kindOf(step: {
  readonly action: Action;
  readonly service: string | null;
  readonly value: string | null;
}): StepKind | null {
  if (step.action === 'write-environment') {
    if (step.value?.startsWith('K3S_TLS_SAN_LIST=') === true) return tlsSans;
    // Of the two that are left, the one that keeps a join URL names a service.
    return step.service === null ? listOverride : keepJoinUrl;
  }
  return STEP_KINDS.find((kind) => kind.action === step.action) ?? null;
}

const tlsSans: StepKind = {
  action: 'write-environment',
  wanted: () => [],
  predict: (step, now) => ({ ...now, tlsSans: step.value?.slice('K3S_TLS_SAN_LIST='.length) ?? null }),
};
