import { adoption } from './adoption.js';
import { apiAnswers } from './api-answers.js';
import { renamed } from './renamed.js';
import type { HostRule } from './rule.js';
import { runningRoleMatches } from './running-role.js';
import { unreachable } from './unreachable.js';

/** Every rule that is asked of each host, in the order in which its reasons are shown. A new rule is one line here. */
export const HOST_RULES: readonly HostRule[] = [renamed, unreachable, runningRoleMatches, adoption, apiAnswers];
