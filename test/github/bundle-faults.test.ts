import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import type { ActionResult, RunActionOptions } from '../helpers/action.js';
import { pullRequestEvent, pushEvent } from '../helpers/events.js';
import { type Behaviour, behaviours } from '../helpers/github-server.js';
import { inventory, KNOWN_HOSTS, planOf, UnreachableFleet } from '../helpers/unreachable-fleet.js';

// What GitHub and the way to it do wrong, through the bundle: the run says so, its result is its own, and no check run
// stays open or says something else than the job.

vi.setConfig({ testTimeout: 90_000, hookTimeout: 60_000 });

let fleet: UnreachableFleet;
const sha = { base: '', head: '', later: '' };

beforeAll(async () => {
  fleet = await UnreachableFleet.create();
  const { repository } = fleet;
  sha.base = await repository.commit({ 'inventory.yml': inventory(['node1']) });
  sha.head = await repository.commit(
    { 'inventory.yml': inventory(['node1', 'node2']) },
    { branch: 'change', from: sha.base },
  );
  sha.later = await repository.commit({ 'README.md': 'x\n' });
});
afterAll(() => fleet.close());
beforeEach(() => fleet.github.reset());

const CHECKS = /check-runs/;

async function plan(options: Omit<RunActionOptions, 'event'> = {}): Promise<ActionResult> {
  const result = await fleet.run(pullRequestEvent({ headSha: sha.head, baseSha: sha.later }), options);
  expect([result.exitCode, result.outputs.result], result.log).toEqual([0, 'unchanged']);
  expect(planOf(result)).toMatchObject({ base: sha.base, head: sha.head });
  expect(result.summary).toContain('| `node2` | added |');
  return result;
}

const apply = (): Promise<ActionResult> =>
  fleet.run(pushEvent({ before: sha.base, after: sha.later }), { inputs: KNOWN_HOSTS });

const noticesOf = ({ annotations }: ActionResult): string =>
  annotations.flatMap(({ level, message }) => (level === 'notice' ? [message] : [])).join('\n');
const checkRun = () => fleet.github.checkRuns[0];

describe('a fault that passes', () => {
  test.each<[string, string, RegExp, Behaviour, string[]]>([
    ['a bad gateway', 'POST', CHECKS, behaviours.badGateway, ['GET', 'POST']],
    ['a secondary limit of a second', 'POST', CHECKS, behaviours.secondaryLimit(1), ['POST']],
    ['too many requests', 'POST', CHECKS, behaviours.tooManyRequests(1), ['POST']],
    ['a reset connection', 'POST', CHECKS, behaviours.reset, ['GET', 'POST']],
    ['a connection that is lost behind the answer', 'POST', CHECKS, behaviours.doneThenReset, ['GET']],
    ['a half-open connection', 'GET', /compare/, behaviours.hang, ['GET', 'POST']],
  ])('%s leaves one check run, closed', async (_what, method, path, behaviour, then) => {
    fleet.github.onNext(method, path, behaviour);
    const result = await plan();
    expect(fleet.github.checkRuns).toMatchObject([{ status: 'completed', conclusion: 'success', headSha: sha.head }]);
    const methods = fleet.github.requests.map((request) => request.method);
    expect(methods.slice(methods.indexOf(method) + 1)).toEqual(then);
    expect(result.outputs['check-run-url']).toContain(String(checkRun()?.id));
    expect(noticesOf(result)).toBe('');
  });
});

describe('a refusal', () => {
  test.each<[string, number, string, RegExp]>([
    ['a missing permission', 403, 'Resource not accessible by integration', /permissions: checks: write/],
    ['a repository that is not there', 404, 'Not Found', /must be the job's own github.token/],
    ['a token that is none', 401, 'Bad credentials', /GitHub does not accept the token/],
    ['what GitHub calls invalid, whatever is sent', 422, 'Validation Failed', /Validation Failed/],
  ])('for %s is a notice with the way out, asked once', async (_what, status, message, expected) => {
    fleet.github.onNext('POST', CHECKS, behaviours.answer(status, { message }), 9);
    const result = await plan();
    expect(fleet.github.checkRuns).toEqual([]);
    expect(result.outputs['check-run-url']).toBe('');
    expect(noticesOf(result)).toMatch(expected);
    // Invalid is tried with less, which is another request; anything else is asked once.
    expect(fleet.github.requestsOf('POST', CHECKS)).toHaveLength(status === 422 ? 3 : 1);
  });

  test('to compare is made up for by git', async () => {
    fleet.github.onNext('GET', /compare/, behaviours.answer(404, { message: 'Not Found' }));
    await plan();
    expect(checkRun()).toMatchObject({ externalId: `plan:4711:1:${sha.base}:${sha.head}` });
  });

  test('to read the fleet repository names the permission, and fails the run', async () => {
    const event = pullRequestEvent({ headSha: sha.head, baseSha: sha.later });
    const result = await fleet.run(event, { token: 'no-such-token' });
    expect([result.exitCode, result.outputs.result]).toEqual([1, 'failed']);
    expect(result.outputs['failure-reason']).toMatch(/contents: read/);
    expect(result.log).not.toMatch(/^\s+at .*:\d+:\d+/m);
  });
});

describe('an apply whose end GitHub does not take', () => {
  test('because the token became another app’s says so, and no other conclusion is written over', async () => {
    const changed = { message: 'Invalid app_id - check run can only be modified by the app that created it' };
    fleet.github.onNext('PATCH', CHECKS, behaviours.answer(403, changed), 99);
    const result = await apply();
    expect([result.exitCode, result.outputs.result], result.log).toEqual([0, 'unchanged']);
    expect(noticesOf(result)).toContain('Invalid app_id');
    expect(checkRun()).toMatchObject({ status: 'in_progress' });
    expect(result.post?.log).toContain('stays in progress');
    expect(result.summary).toContain('fleet-role apply');
  });

  test('at once is closed by the post step with what the run came to', async () => {
    fleet.github.onNext('PATCH', CHECKS, behaviours.answer(403, { message: 'Resource not accessible' }), 1);
    const result = await apply();
    expect([result.exitCode, result.outputs.result], result.log).toEqual([0, 'unchanged']);
    expect(checkRun()).toMatchObject({ status: 'completed', conclusion: 'success' });
    expect(checkRun()?.summary).toContain('the job summary has it');
  });

  test('with its texts is closed without them', async () => {
    fleet.github.onNext('PATCH', CHECKS, behaviours.answer(422, { message: 'Invalid request' }), 1);
    const result = await apply();
    expect(result.exitCode, result.log).toBe(0);
    expect(checkRun()).toMatchObject({ status: 'completed', conclusion: 'success' });
    expect(noticesOf(result)).toContain('it shows less');
  });
});
