import { adoption } from './adoption.js';
import { apiAnswers } from './api-answers.js';
import { knownNode } from './known-node.js';
import { nativeHost } from './native.js';
import { renamed } from './renamed.js';
import type { HostRule } from './rule.js';
import { runningRoleMatches } from './running-role.js';
import { unreachable } from './unreachable.js';

/** Every rule that is asked of each host, in the order in which its reasons are shown. A new rule is one line here. */
export const HOST_RULES: readonly HostRule[] = [
  nativeHost,
  renamed,
  unreachable,
  runningRoleMatches,
  adoption,
  apiAnswers,
  knownNode,
];
