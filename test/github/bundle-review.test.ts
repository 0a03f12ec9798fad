import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import type { ActionResult } from '../helpers/action.js';
import { dispatchEvent, pullRequestEvent, pushEvent } from '../helpers/events.js';
import { inventory, KNOWN_HOSTS, planOf, UnreachableFleet } from '../helpers/unreachable-fleet.js';

// The way of a reviewed plan through the bundle: shown on a pull request, merged, compared on the push.

vi.setConfig({ testTimeout: 90_000, hookTimeout: 60_000 });

const THREE = ['node1', 'node2', 'node3'];
const FOUR = [...THREE, 'node4'];
const REQUIRED = { ...KNOWN_HOSTS, 'require-reviewed-plan': 'true' };

let fleet: UnreachableFleet;
const sha = { base: '', head: '', merge: '', direct: '' };

beforeAll(async () => {
  const read = { metadata: 'read', contents: 'read', checks: 'write' } as const;
  fleet = await UnreachableFleet.create({
    tokens: { 'full-token': { ...read, 'pull-requests': 'read' }, 'no-pulls': read },
  });
  const { repository } = fleet;
  const all = (first: string) => ({ 'inventory.yml': first + inventory(['m1'], true, 'quiet') });
  sha.base = await repository.commit(all(inventory(THREE, true)));
  sha.head = await repository.commit(all(inventory(FOUR, true)), { branch: 'change', from: sha.base });
  sha.merge = await repository.commit(all(inventory(FOUR, true)), { merge: [sha.head] });
  sha.direct = await repository.commit(all(inventory([...FOUR, 'node5'], true)));
});
afterAll(() => fleet.close());

beforeEach(() => {
  fleet.github.reset();
  merged(sha.merge);
});

/** GitHub says that the pull request was merged by that commit. */
function merged(by: string): void {
  fleet.github.world.pulls.splice(0, 1, {
    repository: 'octo/fleet',
    number: 7,
    headSha: sha.head,
    headRef: 'change',
    baseRef: 'main',
    baseSha: sha.base,
    state: 'closed',
    mergeCommitSha: by,
    mergedAt: '2026-09-01T10:00:00Z',
  });
}

const inputs = { 'cluster-groups': 'github_runner_cluster, quiet' };

async function plan(more: Record<string, string> = {}): Promise<void> {
  const event = pullRequestEvent({ headSha: sha.head, baseSha: sha.base });
  const result = await fleet.run(event, { inputs: { ...inputs, ...more } });
  expect(result.exitCode, result.log).toBe(0);
  fleet.github.requests.length = 0;
}

async function push(given: Record<string, string>, to = sha.merge, token = 'full-token'): Promise<ActionResult> {
  const event = pushEvent({ before: sha.base, after: to });
  const result = await fleet.run(event, { inputs: { ...inputs, ...given }, token });
  // No host answers, so that nothing can be applied anyway; what matters is what is said beside that.
  expect([result.exitCode, result.outputs.result], result.log).toEqual([1, 'refused']);
  return result;
}

const refusals = (result: ActionResult) =>
  planOf(result).clusters.map(({ refusals }) =>
    refusals.map(({ code }) => code).filter((code) => code === 'plan-differs'),
  );
const messageOf = (result: ActionResult) =>
  planOf(result).clusters[0]?.refusals.find(({ code }) => code === 'plan-differs')?.message;
const applied = () => fleet.github.checkRuns.find(({ name }) => name === 'fleet-role apply');

describe('an apply', () => {
  test('that is what the pull request showed says so, and is not refused for it', async () => {
    await plan();
    const result = await push(REQUIRED);
    expect(refusals(result)).toEqual([[], []]);
    const sentence = `This is the plan that pull request \`7\` showed at \`${sha.head}\``;
    expect(applied()?.summary).toContain(sentence);
    expect(result.summary).toContain(sentence);
    expect(fleet.calls()).toContain(`GET /commits/${sha.merge}/pulls`);
  });

  test('of more than that is refused in every cluster, and the report lists the difference', async () => {
    merged(sha.direct);
    await plan();
    const result = await push(REQUIRED, sha.direct);
    expect(applied()).toMatchObject({ status: 'completed', conclusion: 'failure', headSha: sha.direct });
    expect(refusals(result)).toEqual([['plan-differs'], ['plan-differs']]);
    expect(messageOf(result)).toContain('This is not what pull request 7 showed: github_runner_cluster: ');
    expect(planOf(result).clusters.flatMap(({ steps }) => steps)).toEqual([]);
    expect(result.summary).toContain('Not as in the reviewed plan');
    expect(result.summary).toMatch(/- `github_runner_cluster`: added of node5 .*is not in the reviewed plan/);
  });

  test('of a direct push has no reviewed plan, which is a difference', async () => {
    fleet.github.world.pulls.length = 0;
    const result = await push(REQUIRED, sha.direct);
    expect(refusals(result)).toEqual([['plan-differs'], ['plan-differs']]);
    expect(messageOf(result)).toContain(`No pull request into main brought ${sha.direct}`);
    expect(messageOf(result)).toContain('run this once with require-reviewed-plan: false');
  });

  test('whose pull request was not planned is refused with the way out', async () => {
    const result = await push(REQUIRED);
    expect(messageOf(result)).toContain('let the plan workflow run on every pull request');
  });

  test('is refused where the token may not read pull requests, with the permission that is missing', async () => {
    const result = await push(REQUIRED, sha.merge, 'no-pulls');
    expect(messageOf(result)).toContain('permissions: pull-requests: read');
  });

  test('with other inputs than the plan had is refused, for the hash is another one', async () => {
    await plan({ 'cluster-groups': 'github_runner_cluster' });
    const result = await push(REQUIRED);
    expect(messageOf(result)).toContain('is not what this run makes of the same commits');
  });

  test('by hand is compared as well', async () => {
    merged(sha.direct);
    await plan();
    const event = dispatchEvent({ sha: sha.direct });
    const result = await fleet.run(event, { inputs: { ...inputs, ...REQUIRED, mode: 'apply' } });
    expect(refusals(result)).toEqual([['plan-differs'], ['plan-differs']]);
  });

  test('without that input is not refused, and asks nobody while it has nothing to do', async () => {
    fleet.github.world.pulls.length = 0;
    const result = await push(KNOWN_HOSTS, sha.direct);
    expect(refusals(result)).toEqual([[], []]);
    expect(fleet.calls().filter((call) => call.endsWith('/pulls'))).toEqual([]);
  });
});
