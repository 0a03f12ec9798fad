import { adoption } from './adoption.js';
import { apiAnswers } from './api-answers.js';
import { knownNode } from './known-node.js';
import { nativeHost } from './native.js';
import { needsRejoin } from './needs-rejoin.js';
import { renamed } from './renamed.js';
import { roleKnown } from './role-known.js';
import type { HostRule } from './rule.js';
import { runningRoleMatches } from './running-role.js';
import { notItsOwnNode } from './runs-on-node.js';
import { sqliteStays } from './sqlite.js';
import { unreachable } from './unreachable.js';

/** Every rule that is asked of each host, in the order in which its reasons are shown. A new rule is one line here. */
export const HOST_RULES: readonly HostRule[] = [
  nativeHost,
  renamed,
  unreachable,
  runningRoleMatches,
  adoption,
  sqliteStays,
  roleKnown,
  apiAnswers,
  knownNode,
  needsRejoin,
  notItsOwnNode,
];
