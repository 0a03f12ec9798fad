import { describe, expect, it } from 'vitest';
import { nextSteps } from '../../src/plan/next-steps.js';
import { changesOf, nameOf, scenarioOf } from './changes.js';
import { explore } from './explore.js';

describe('four hosts, one fault at most', () => {
  it.each(changesOf(4).map((change) => [nameOf(change), change] as const))(
    '%s',
    (_name, change) => {
      const { violations } = explore(scenarioOf(change), { faults: 1, decide: nextSteps, violations: 3 });
      expect(violations.map(({ what, path }) => [what, ...path].join('\n'))).toEqual([]);
    },
    120_000,
  );
});
