import { describe, expect, it } from 'vitest';
import { nextSteps } from '../../src/plan/next-steps.js';
import { BROKEN_RULES } from './broken.js';
import { explore } from './explore.js';

describe('the exploration finds out when a rule is broken', () => {
  it.each(BROKEN_RULES)('rule $rule: it overlooks $overlooks', ({ scenario, faults, decide, more, finds }) => {
    // A broken rule may break more than one thing; the way that shows it best is kept.
    const { violations } = explore(scenario, { faults, decide, violations: 8, ...more });
    const found = violations.find(({ what }) => finds.test(what));
    expect(found, violations.map(({ what }) => what).join('; ') || 'nothing was found').toBeDefined();
    expect([found?.what, ...(found?.path ?? [])].join('\n')).toMatchSnapshot();
  });

  // Where the rule holds nothing is found, so that it was the breaking that was seen. (Rule 8 starts from a fleet that
  // broke it, and rule 1 from two clusters.)
  it.each(BROKEN_RULES.filter(({ rule }) => !rule.startsWith('8')))('rule $rule: nothing while it holds', (broken) => {
    const { scenario, faults, more } = broken;
    expect(explore(scenario, { faults, decide: nextSteps, ...more }).violations).toEqual([]);
  });
});
