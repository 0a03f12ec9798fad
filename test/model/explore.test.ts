import { describe, expect, it } from 'vitest';
import { nextSteps } from '../../src/plan/next-steps.js';
import { changesOf, nameOf, OLD, scenarioOf, UNGUARDED, USUAL } from './changes.js';
import { type Explored, explore, type Options, type Scenario } from './explore.js';
import { controllerScenarios, rejoinScenarios } from './scenarios.js';

// What continuous integration explores in a minute or two. `npm run model -- --hosts N --faults K` goes further.

function told(found: Explored): string {
  return found.violations.map(({ what, path }) => [what, ...path].join('\n')).join('\n\n');
}

function exploreAll(scenarios: readonly Scenario[], faults: number, more: Partial<Options> = {}): void {
  it.each(scenarios.map((scenario) => [scenario.name, scenario] as const))(
    '%s',
    (_name, scenario) => {
      const found = explore(scenario, { faults, decide: nextSteps, violations: 3, ...more });
      expect(told(found)).toBe('');
      expect(found.states).toBeGreaterThan(1);
    },
    120_000,
  );
}

describe('guards in force, two faults at most', () => {
  exploreAll(
    [2, 3].flatMap((hosts) => changesOf(hosts)).map((change) => scenarioOf(change, USUAL)),
    2,
  );
});

describe.each([
  ['nothing mounted', UNGUARDED],
  ['nothing mounted, an older k3s, a node password in each container', OLD],
])('%s, one fault at most', (_what, making) => {
  exploreAll(
    [2, 3].flatMap((hosts) => changesOf(hosts)).map((change) => scenarioOf(change, making)),
    1,
  );
});

describe('the controller is turned on and off, two faults at most', () => {
  // A commit that turned it on and was reverted before it was complete leaves its files, which match what runs.
  exploreAll(controllerScenarios(), 2, { without: new Set(['reverted']) });
});

describe('rejoin, two faults at most', () => {
  exploreAll(rejoinScenarios(), 2);
});

it('knows every change of one or two hosts by one name each', () => {
  const names = [1, 2, 3, 4, 5].flatMap((hosts) => changesOf(hosts).map(nameOf));
  expect(new Set(names).size).toBe(names.length);
  expect(names).toContain('SS AS AS');
  expect(names).toContain('SA SS SS AS');
});
