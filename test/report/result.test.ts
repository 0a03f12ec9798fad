import { describe, expect, test } from 'vitest';
import type { Mode } from '../../src/plan/plan.js';
import { stepKey } from '../../src/plan/step.js';
import {
  type ClusterOutcome,
  countKinds,
  failedStep,
  failureReason,
  outcomeOf,
  type RunOutcome,
  resultOf,
  title,
} from '../../src/report/result.js';
import type { RunReport } from '../../src/report/run.js';
import { changeOf, clusterPlanOf, planOf, reportOf, stepOf, unreadableOf } from './builders.js';

const cluster = (overrides: Partial<ClusterOutcome> = {}): ClusterOutcome => ({
  invalid: false,
  refused: 0,
  listed: 0,
  done: 0,
  ...overrides,
});
const quiet = cluster();
const todo = cluster({ listed: 3 });
const done = cluster({ listed: 3, done: 3 });
const half = cluster({ listed: 3, done: 1 });
const refused = cluster({ refused: 1 });
const invalid = cluster({ invalid: true });

describe('resultOf follows the table of results', () => {
  const dry = { dryRun: true };
  const failed = { failed: true };
  const cancelled = { cancelled: true };
  test.each<[Mode, Partial<RunOutcome>, ClusterOutcome[], string, boolean, 0 | 1, string]>([
    ['plan', {}, [quiet], 'unchanged', false, 0, 'success'],
    ['plan', {}, [], 'unchanged', false, 0, 'success'],
    ['plan', {}, [quiet, todo], 'planned', true, 0, 'success'],
    ['plan', {}, [todo, refused], 'refused', true, 1, 'failure'],
    ['plan', {}, [quiet, refused], 'refused', false, 1, 'failure'],
    ['plan', {}, [todo, invalid], 'refused', true, 1, 'failure'],
    ['plan', {}, [invalid], 'refused', false, 1, 'failure'],
    ['plan', failed, [todo], 'failed', false, 1, 'failure'],
    ['apply', {}, [quiet], 'unchanged', false, 0, 'success'],
    ['apply', {}, [done, quiet], 'applied', true, 0, 'success'],
    ['apply', {}, [done, refused], 'refused', true, 1, 'failure'],
    ['apply', {}, [quiet, refused], 'refused', false, 1, 'failure'],
    ['apply', {}, [done, invalid], 'refused', true, 1, 'failure'],
    ['apply', failed, [half, refused], 'failed', true, 1, 'failure'],
    ['apply', failed, [todo], 'failed', false, 1, 'failure'],
    ['apply', failed, [], 'failed', false, 1, 'failure'],
    ['apply', {}, [half], 'failed', true, 1, 'failure'],
    ['apply', cancelled, [half], 'failed', true, 1, 'cancelled'],
    ['apply', { ...cancelled, ...failed }, [todo], 'failed', false, 1, 'cancelled'],
    ['apply', dry, [todo], 'planned', true, 0, 'success'],
    ['apply', dry, [quiet], 'unchanged', false, 0, 'success'],
    ['apply', dry, [todo, refused], 'refused', true, 1, 'failure'],
    ['rejoin', {}, [done], 'applied', true, 0, 'success'],
    ['rejoin', dry, [todo], 'planned', true, 0, 'success'],
    ['rejoin', {}, [quiet], 'unchanged', false, 0, 'success'],
    ['drift', {}, [quiet], 'unchanged', false, 0, 'success'],
    ['drift', {}, [todo, quiet], 'drifted', false, 1, 'failure'],
    ['drift', {}, [todo, refused], 'refused', true, 1, 'failure'],
    ['explain', {}, [invalid, todo, refused], 'unchanged', false, 0, 'success'],
    ['explain', failed, [quiet], 'failed', false, 1, 'failure'],
  ])('%s %j with %j is %s, changed %s, exit %i, %s', (mode, flags, clusters, result, changed, exitCode, conclusion) => {
    const outcome = { mode, dryRun: false, failed: false, cancelled: false, ...flags, clusters };
    expect(resultOf(outcome)).toEqual({ result, changed, exitCode, conclusion });
  });
});

describe('a report', () => {
  const plan = planOf({
    mode: 'apply',
    clusters: [
      clusterPlanOf({
        changes: [changeOf('node4'), changeOf('node1', { kind: 'demotion' })],
        steps: [stepOf(1, 'node4'), stepOf(2, 'node4', { action: 'drain' })],
      }),
    ],
  });
  const first = stepKey('github_runner_cluster', 1);
  const second = stepKey('github_runner_cluster', 2);
  const refusedPlan = planOf({
    clusters: [
      clusterPlanOf({
        refusals: [
          { code: 'quorum', message: 'two of\nthree', hosts: ['node3'] },
          { code: 'adoption', message: 'declare', hosts: ['a', 'b', 'c', 'd', 'e'] },
        ],
      }),
      clusterPlanOf({ cluster: unreadableOf({ name: 'other' }) }),
    ],
  });

  test('gives the facts that decide its result', () => {
    expect(outcomeOf(reportOf(plan, { states: new Map([[first, 'done']]) }))).toEqual({
      mode: 'apply',
      dryRun: false,
      failed: false,
      cancelled: false,
      clusters: [{ invalid: false, refused: 0, listed: 2, done: 1 }],
    });
    expect(outcomeOf(reportOf(refusedPlan)).clusters).toEqual([
      { invalid: false, refused: 2, listed: 0, done: 0 },
      { invalid: true, refused: 0, listed: 0, done: 0 },
    ]);
  });

  test.each<[string, Partial<RunReport>, string]>([
    [
      'going on',
      {
        result: null,
        states: new Map([
          [first, 'done'],
          [second, 'running'],
        ]),
      },
      'Applying: 1 of 2 steps done, now drain node4',
    ],
    ['planned', { result: 'planned' }, 'Planned: 1 promotion, 1 demotion; 2 steps to do'],
    ['dry', { result: 'planned', dryRun: true }, 'Dry run: Planned: 1 promotion, 1 demotion; 2 steps to do'],
    [
      'applied',
      {
        result: 'applied',
        states: new Map([
          [first, 'done'],
          [second, 'done'],
        ]),
      },
      'Applied: 1 promotion, 1 demotion; 2 steps done',
    ],
    ['unchanged', { result: 'unchanged', plan: planOf() }, 'Nothing to do'],
    [
      'unchanged on hosts',
      { result: 'unchanged', plan: planOf({ clusters: [clusterPlanOf({ changes: [changeOf('a')] })] }) },
      'Nothing to do on the hosts: 1 promotion; no step follows',
    ],
    ['drifted', { result: 'drifted' }, 'Drifted: 2 differences on 1 host'],
    [
      'failed',
      { result: 'failed', failure: { step: 'drain node4', reason: 'timed\nout', advice: null } },
      'Failed at drain node4: timed out',
    ],
    [
      'failed early',
      { result: 'failed', failure: { step: null, reason: 'no such mode', advice: null } },
      'Failed: no such mode',
    ],
    [
      'cancelled',
      { result: 'failed', cancelled: true, states: new Map([[first, 'done']]) },
      'Cancelled: 1 of 2 steps done',
    ],
    [
      'refused',
      { result: 'refused', plan: refusedPlan },
      'Refused: quorum (node3), adoption (a, b, c and 2 more), bad-syntax',
    ],
  ])('%s says it all in one line', (_what, overrides, line) => {
    expect(title(reportOf(plan, overrides))).toBe(line);
  });

  test('keeps its line short', () => {
    const failure = { step: null, reason: 'ä'.repeat(1000), advice: null };
    expect(Buffer.byteLength(title(reportOf(plan, { result: 'failed', failure })))).toBeLessThanOrEqual(200);
  });

  test.each<[string, Partial<RunReport>, string, string]>([
    ['applied', { result: 'applied' }, '', ''],
    [
      'failed',
      { result: 'failed', failure: { step: 'drain node4', reason: 'timed\nout', advice: null } },
      'drain node4',
      'timed out',
    ],
    ['cancelled', { result: 'failed', cancelled: true }, '', 'the run was cancelled'],
    ['refused', { result: 'refused', plan: refusedPlan }, '', 'quorum: two of three'],
    ['drifted', { result: 'drifted' }, '', 'Drifted: 2 differences on 1 host'],
  ])('%s names the failed step and the reason in one line', (_what, overrides, step, reason) => {
    const report = reportOf(plan, overrides);
    expect(failedStep(report)).toBe(step);
    expect(failureReason(report)).toBe(reason);
  });

  test('counts kinds in the order of the specification', () => {
    expect(countKinds(['join-url', 'demotion', 'promotion', 'join-url'])).toBe('1 promotion, 1 demotion, 2 join URLs');
  });
});
