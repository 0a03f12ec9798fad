import type { Action } from '../step.js';
import { createRoleDirectory } from './create-role-directory.js';
import { installGuards } from './install-guards.js';
import type { StepKind } from './kind.js';
import { deleteNode, drainNode, stopLeaving } from './leave.js';
import { addOverride, listOverride, removeOverride } from './override.js';
import { clearRoleFiles, keepJoinUrl, stopIdle, writeJoinUrl, writeRole } from './role-files.js';

/**
 * Every kind of step in the order in which a host's steps are done. The order carries meaning: a role is written after
 * the join URL that it needs; the join URL is kept and the idle service stopped before the role files go; the override
 * goes last.
 */
export const STEP_KINDS: readonly StepKind[] = [
  createRoleDirectory,
  installGuards,
  addOverride,
  listOverride,
  writeJoinUrl,
  writeRole,
  keepJoinUrl,
  stopIdle,
  clearRoleFiles,
  removeOverride,
  drainNode,
  stopLeaving,
  deleteNode,
];

/** The kind that predicts a step: two kinds may share an action, told apart by the step's value. */
export function kindOf(step: { readonly action: Action; readonly service: string | null }): StepKind {
  const kinds = STEP_KINDS.filter((kind) => kind.action === step.action);
  // Of the two kinds that write the environment, the one that keeps a join URL names a service.
  const kind = step.action === 'write-environment' && step.service !== null ? keepJoinUrl : kinds[0];
  if (kind === undefined) throw new Error(`no kind of step does ${step.action}`);
  return kind;
}
