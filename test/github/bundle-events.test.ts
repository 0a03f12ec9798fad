import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import type { ActionResult } from '../helpers/action.js';
import { dispatchEvent, mergeGroupEvent, pullRequestEvent, pushEvent, scheduleEvent } from '../helpers/events.js';
import { GitHubServer } from '../helpers/github-server.js';
import { expectAgreement, inventory, KNOWN_HOSTS, planOf, UnreachableFleet } from '../helpers/unreachable-fleet.js';

// Every row of the table of events, through the bundle, against GitHub's API as it describes itself. No host is there:
// whatever is contacted refuses the connection.

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const THREE = ['node1', 'node2', 'node3'];
const FOUR = [...THREE, 'node4'];

let fleet: UnreachableFleet;
let git: UnreachableFleet['git'];
let github: GitHubServer;
let enterprise: GitHubServer;
/** main: one, two (a README), three (the inventory). change: from one. */
const sha = { one: '', change: '', two: '', three: '', orphan: '', invalid: '' };

beforeAll(async () => {
  fleet = await UnreachableFleet.create();
  ({ git, github } = fleet);
  const { repository } = fleet;
  sha.one = await repository.commit({ 'inventory.yml': inventory(THREE) });
  sha.change = await repository.commit({ 'inventory.yml': inventory(FOUR) }, { branch: 'change', from: sha.one });
  sha.two = await repository.commit({ 'README.md': 'later\n' });
  sha.three = await repository.commit({
    'inventory.yml': inventory([...THREE, 'node9']),
    'group_vars/all.yml': 'a: 1\n',
  });
  sha.invalid = await repository.commit(
    { 'inventory.yml': inventory(THREE).replace('node2: {', 'node2: { github_runner_cluster_node_role: boss,') },
    { branch: 'invalid', from: sha.one },
  );
  // A commit that no branch has: what `before` names once a branch was forced.
  sha.orphan = await repository.commit({ 'inventory.yml': inventory(THREE, true) }, { branch: 'orphan', from: null });
  await repository.deleteBranch('orphan');
  enterprise = await GitHubServer.start({ prefix: '/api/v3' });
  enterprise.addRepository('octo/fleet', { gitDir: repository.dir });
});
afterAll(async () => {
  await Promise.all([fleet.close(), enterprise.close()]);
});
beforeEach(() => {
  github.reset();
  enterprise.reset();
});

const run = async (...given: Parameters<UnreachableFleet['run']>): Promise<ActionResult> => {
  const result = await fleet.run(...given);
  expect(enterprise.violations).toEqual([]);
  return result;
};
const calls = (): string[] => fleet.calls();
const compare = (from: string, to: string): string => `GET /compare/${from}...${to}`;

describe('a pull request', () => {
  const facts = () => ({ headSha: sha.change, baseSha: sha.two });

  test.each(['opened', 'synchronize', 'reopened'] as const)('that was %s is planned at its head', async (action) => {
    const result = await run(pullRequestEvent({ ...facts(), action }));
    expectAgreement(github, result, 'success');
    expect(calls()).toEqual([compare(sha.two, sha.change), 'POST /check-runs']);
    const json = planOf(result);
    expect(json).toMatchObject({ mode: 'plan', base: sha.one, head: sha.change, observed: false });
    expect(json.clusters[0]?.changes).toMatchObject([{ host: 'node4', kind: 'added' }]);
    expect(github.checkRuns).toMatchObject([
      {
        name: 'fleet-role plan',
        headSha: sha.change,
        externalId: `plan:4711:1:${sha.one}:${sha.change}`,
        detailsUrl: `${git.url}/octo/fleet/actions/runs/4711/attempts/1`,
      },
    ]);
    expect(github.checkRuns[0]?.summary).toMatch(/Decisions: `sha256:[0-9a-f]{64}`/);
    expect(github.checkRuns[0]?.text).toContain('| `node4` | added |');
    expect(result.outputs['check-run-url']).toBe(`https://github.com/octo/fleet/runs/${github.checkRuns[0]?.id}`);
    expect(result.summary).not.toContain('has gone on');
  });

  test('says that the base branch has changed the inventory since, and names both commits and the files', async () => {
    const result = await run(pullRequestEvent({ ...facts(), baseSha: sha.three }));
    expectAgreement(github, result, 'success');
    expect(planOf(result)).toMatchObject({ base: sha.one, head: sha.change });
    const sentence = `The plan compares with \`${sha.one}\`, and \`main\` at \`${sha.three}\` has since changed \`group_vars/all.yml\`, \`inventory.yml\`.`;
    expect(github.checkRuns[0]?.summary).toContain(sentence);
    expect(result.summary).toContain(sentence);
  });

  test('whose base branch was forced to a commit that nobody has is planned all the same', async () => {
    const result = await run(pullRequestEvent({ ...facts(), baseSha: 'f'.repeat(40) }));
    expectAgreement(github, result, 'success');
    const [cluster] = planOf(result).clusters;
    expect(cluster?.base).toBeNull();
    expect(cluster?.notes.map(({ code }) => code)).toContain('base-unreadable');
    expect(result.summary).toContain('merge base of the pull request with');
  });

  test.each([
    ['from a fork', { headRepository: 'stranger/fleet' }],
    ['from a fork that is gone', { headRepository: null }],
    ['by Dependabot', { author: 'dependabot[bot]' }],
  ])('%s has no check run where its token may not write one, and is told in the job summary', async (_what, more) => {
    const options = { token: 'read-token', inputs: { observe: 'true', ...KNOWN_HOSTS } };
    const fork = 'headRepository' in more;
    const result = await run(pullRequestEvent({ ...facts(), ...more }), fork ? options : { token: 'read-token' });
    expectAgreement(github, result, 'success');
    expect(planOf(result)).toMatchObject({ base: sha.one, head: sha.change, observed: false });
    expect(github.checkRuns).toEqual([]);
    expect(github.requests.at(-1)).toMatchObject({ method: 'POST', status: 403 });
    expect(result.outputs['check-run-url']).toBe('');
    const notices = result.annotations.filter(({ level }) => level === 'notice').map(({ message }) => message);
    expect(notices.join('\n')).toContain('permissions: checks: write');
    expect(notices.join('\n')).toContain('A pull request from a fork or by Dependabot never has it');
    expect(result.summary).toContain('| `node4` | added |');
  });

  test.each([
    ['merged, its branch deleted', { merged: true }],
    ['closed', {}],
  ])('that was %s asks for nothing and calls nobody', async (_what, more) => {
    const result = await run(pullRequestEvent({ ...facts(), action: 'closed', ...more }));
    expect(result.exitCode, result.log).toBe(0);
    expect(result.outputs).toMatchObject({ result: 'unchanged', changed: 'false', plan: '' });
    expect(result.summary).toContain('Nothing to do: pull request 7 is closed');
    expect(github.requests).toEqual([]);
  });

  test('of pull_request_target needs a mode, and plans at the head of the pull request with it', async () => {
    const event = pullRequestEvent({ ...facts(), target: true, headRepository: 'stranger/fleet' });
    const without = await run(event);
    expect([without.exitCode, without.outputs.result]).toEqual([1, 'failed']);
    expect(without.outputs['failure-reason']).toContain('pull_request_target');
    expect(github.requests).toEqual([]);
    const result = await run(event, { inputs: { mode: 'plan', observe: 'true', ...KNOWN_HOSTS } });
    expectAgreement(github, result, 'success');
    expect(planOf(result)).toMatchObject({ base: sha.one, head: sha.change, observed: false });
    expect(github.checkRuns).toMatchObject([{ headSha: sha.change }]);
  });

  test.each(['apply', 'rejoin'] as const)('never lets %s begin, whatever the event is called', async (mode) => {
    for (const target of [false, true]) {
      github.reset();
      const host: Record<string, string> = mode === 'rejoin' ? { host: 'node1' } : {};
      const result = await run(pullRequestEvent({ ...facts(), target }), { inputs: { mode, ...host, ...KNOWN_HOSTS } });
      expectAgreement(github, result, 'failure');
      expect(result.outputs).toMatchObject({ result: 'refused', changed: 'false' });
      expect(planOf(result).clusters[0]?.refusals).toMatchObject([{ code: 'not-fleet-branch' }]);
      expect(calls()).toEqual(['POST /check-runs']);
      expect(github.checkRuns).toMatchObject([{ headSha: sha.change, conclusion: 'failure' }]);
    }
  });

  test('whose inventory is invalid fails its check with the problem on its line', async () => {
    const result = await run(pullRequestEvent({ ...facts(), headSha: sha.invalid }));
    expectAgreement(github, result, 'failure');
    expect(result.outputs.result).toBe('refused');
    expect(github.checkRuns[0]).toMatchObject({
      headSha: sha.invalid,
      annotations: [{ path: 'inventory.yml', start_line: 5, annotation_level: 'failure', title: 'unknown-role' }],
    });
  });
});

describe('a push', () => {
  const inputs = KNOWN_HOSTS;

  test.each([
    ['to the fleet branch', () => pushEvent({ before: sha.one, after: sha.two }), () => sha.one],
    [
      'of several commits',
      () => pushEvent({ before: sha.one, after: sha.three, commits: [sha.two, sha.three] }),
      () => sha.one,
    ],
    [
      'that was forced, with `before` gone',
      () => pushEvent({ before: 'f'.repeat(40), after: sha.two, forced: true }),
      () => null,
    ],
    [
      'that was forced, with `before` on no branch',
      () => pushEvent({ before: sha.orphan, after: sha.two, forced: true }),
      () => null,
    ],
    ['that made the fleet branch', () => pushEvent({ before: null, after: sha.two }), () => null],
  ])('%s is applied at what it brought', async (_what, event, base) => {
    const { sha: head } = event();
    const result = await run(event(), { inputs });
    expectAgreement(github, result, 'success');
    const json = planOf(result);
    expect(json).toMatchObject({ mode: 'apply', head, base: base() });
    expect(calls()[0]).toBe('POST /check-runs');
    expect(calls().at(-1)).toBe('PATCH /check-runs/ID');
    expect(github.checkRuns).toMatchObject([{ name: 'fleet-role apply', headSha: head }]);
    expect(github.checkRuns[0]?.history[0]).toMatchObject({ status: 'in_progress' });
  });

  test.each([
    [
      'to another branch',
      () => pushEvent({ before: sha.one, after: sha.change, ref: 'refs/heads/change' }),
      () => sha.one,
    ],
    [
      'that made another branch',
      () => pushEvent({ before: null, after: sha.change, ref: 'refs/heads/change' }),
      () => null,
    ],
    ['of a tag', () => pushEvent({ before: null, after: sha.change, ref: 'refs/tags/v1' }), () => null],
    [
      'of an annotated tag',
      () => pushEvent({ before: null, after: 'd'.repeat(40), tagged: sha.change, ref: 'refs/tags/v2' }),
      () => null,
    ],
  ])('%s is planned, and its check run stands on the commit', async (_what, event, base) => {
    const result = await run(event());
    expectAgreement(github, result, 'success');
    expect(planOf(result)).toMatchObject({ mode: 'plan', head: sha.change, base: base(), observed: false });
    expect(calls()).toEqual(['POST /check-runs']);
    expect(github.checkRuns).toMatchObject([{ name: 'fleet-role plan', headSha: sha.change }]);
  });

  test('that deleted a branch asks for nothing', async () => {
    const result = await run(pushEvent({ before: sha.change, after: null, ref: 'refs/heads/change' }));
    expect([result.exitCode, result.outputs.result]).toEqual([0, 'unchanged']);
    expect(result.summary).toContain('the push deleted');
    expect(github.requests).toEqual([]);
  });
});

describe('other events', () => {
  test('a merge group is planned at the commit of the group', async () => {
    const result = await run(mergeGroupEvent({ headSha: sha.change, baseSha: sha.one }));
    expectAgreement(github, result, 'success');
    expect(planOf(result)).toMatchObject({ mode: 'plan', head: sha.change, base: null });
    expect(github.checkRuns).toMatchObject([{ headSha: sha.change, name: 'fleet-role plan' }]);
  });

  test.each([
    ['without inputs', null],
    ['with none given', {}],
    ['with inputs of its own', { host: 'node1', reason: 'a `text` that nobody reads' }],
  ])('a dispatch %s is planned, its own inputs are not ours', async (_what, inputs) => {
    const result = await run(dispatchEvent({ sha: sha.two, inputs }));
    expectAgreement(github, result, 'success');
    expect(planOf(result)).toMatchObject({ mode: 'plan', head: sha.two, base: null });
    expect(github.checkRuns).toMatchObject([{ headSha: sha.two }]);
  });

  test('a dispatch may not apply another branch', async () => {
    const event = dispatchEvent({ sha: sha.change, ref: 'refs/heads/change' });
    const result = await run(event, { inputs: { mode: 'apply', ...KNOWN_HOSTS } });
    expectAgreement(github, result, 'failure');
    expect(planOf(result).clusters[0]?.refusals).toMatchObject([{ code: 'not-fleet-branch' }]);
  });

  test('a reusable workflow works for the event of its caller', async () => {
    const caller = {
      GITHUB_WORKFLOW_REF: 'octo/fleet/.github/workflows/caller.yml@refs/heads/main',
      GITHUB_WORKFLOW: 'caller',
    };
    const result = await run(pullRequestEvent({ headSha: sha.change, baseSha: sha.two }), { env: caller });
    expectAgreement(github, result, 'success');
    expect(planOf(result)).toMatchObject({ mode: 'plan', head: sha.change, base: sha.one });
  });

  test('an event that nobody knows asks for the mode', async () => {
    const event = { ...dispatchEvent({ sha: sha.two }), name: 'repository_dispatch' };
    const result = await run(event);
    expect([result.exitCode, result.outputs.result]).toEqual([1, 'failed']);
    expect(result.outputs['failure-reason']).toContain('set the input mode');
  });

  test('a schedule looks for drift on the head of the default branch', async () => {
    const result = await run(scheduleEvent({ sha: sha.three }), { inputs: KNOWN_HOSTS });
    expect(planOf(result)).toMatchObject({ mode: 'drift', head: sha.three });
    expect(github.checkRuns).toMatchObject([{ name: 'fleet-role drift', headSha: sha.three, status: 'completed' }]);
  });
});

describe('a run again', () => {
  test('of an old pull request event plans the same two commits, in a check run of its own', async () => {
    const event = pullRequestEvent({ headSha: sha.change, baseSha: sha.two });
    const first = await run(event);
    const second = await run(event, { env: { GITHUB_RUN_ATTEMPT: '2' } });
    expect(planOf(second)).toEqual(planOf(first));
    expect(github.checkRuns.map(({ externalId }) => externalId)).toEqual([
      `plan:4711:1:${sha.one}:${sha.change}`,
      `plan:4711:2:${sha.one}:${sha.change}`,
    ]);
    expect(github.requestsOf('PATCH', /check-runs/)).toEqual([]);
  });

  test('of an old push goes to the commit of that push, not to the newest', async () => {
    const event = pushEvent({ before: sha.one, after: sha.two });
    const result = await run(event, { env: { GITHUB_RUN_ATTEMPT: '3' }, inputs: KNOWN_HOSTS });
    expect(planOf(result)).toMatchObject({ head: sha.two });
    expect(github.checkRuns).toMatchObject([{ headSha: sha.two }]);
  });
});

describe('elsewhere', () => {
  test('another repository is read at its own default branch, the check run stays here, without annotations', async () => {
    const other = await git.createRepository('octo/hosts');
    const head = await other.commit({ 'inventory.yml': inventory(THREE).replace('node3', 'Node_3') });
    const result = await run(pushEvent({ before: sha.one, after: sha.two }), {
      inputs: { repository: 'octo/hosts', mode: 'plan' },
    });
    expectAgreement(github, result, 'failure');
    expect(planOf(result)).toMatchObject({ head, base: null });
    expect(github.checkRuns).toMatchObject([{ headSha: sha.two, repository: 'octo/fleet', annotations: [] }]);
    expect(result.annotations.filter(({ file }) => file !== null)).toEqual([]);
    expect(planOf(result).clusters[0]?.problems.length).toBeGreaterThan(0);
  });

  test('Enterprise Server is asked below its own address and nowhere else', async () => {
    const result = await run(pullRequestEvent({ headSha: sha.change, baseSha: sha.two }), { apiUrl: enterprise.url });
    expect(result.exitCode, result.log).toBe(0);
    expect(
      enterprise.requests.map(({ method, path }) => `${method} ${path.slice('/repos/octo/fleet'.length)}`),
    ).toEqual([compare(sha.two, sha.change), 'POST /check-runs']);
    expect(enterprise.checkRuns).toMatchObject([
      { headSha: sha.change, detailsUrl: `${git.url}/octo/fleet/actions/runs/4711/attempts/1`, conclusion: 'success' },
    ]);
    expect(github.requests).toEqual([]);
  });
});
