import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createApi, systemClock } from '../../src/github/api.js';
import { findShownPlan, type ShownPlanQuestion } from '../../src/github/reviewed.js';
import type { WorldPull } from '../helpers/github-endpoints.js';
import { behaviours, GitHubServer } from '../helpers/github-server.js';
import { RecordingLogger } from './recording-logger.js';

const COMMIT = '2'.repeat(40);
const HEAD = '3'.repeat(40);
const BASE = '4'.repeat(40);
const HASH = 'f'.repeat(64);
const ACTIONS = 15_368;

let server: GitHubServer;
const tokens = {
  'full-token': { contents: 'read', checks: 'write', 'pull-requests': 'read' },
  'app-token': { contents: 'read', checks: 'write', 'pull-requests': 'read' },
  'no-pulls': { contents: 'read', checks: 'write' },
} as const;
beforeAll(async () => {
  server = await GitHubServer.start({ tokens });
  server.addRepository('acme/fleet');
});
afterAll(() => server.close());
beforeEach(() => server.reset());

const apiOf = (token = 'full-token') =>
  createApi({
    token,
    baseUrl: server.url,
    logger: new RecordingLogger(),
    clock: { ...systemClock, sleep: async () => {} },
  });

function pull(given: Partial<WorldPull> = {}): void {
  server.world.pulls.push({
    repository: 'acme/fleet',
    number: 7,
    headSha: HEAD,
    headRef: 'move',
    baseRef: 'main',
    baseSha: BASE,
    state: 'closed',
    mergeCommitSha: COMMIT,
    mergedAt: '2026-09-01T10:00:00Z',
    ...given,
  });
}

/** A check run on the pull request's head, as a plan posts it. */
async function checkRun(given: { id?: string; hash?: string; token?: string; head?: string } = {}): Promise<void> {
  const { id = `plan:1:1:${BASE}:${HEAD}`, hash = HASH, head = HEAD } = given;
  const made = await apiOf(given.token).request({
    route: 'POST /repos/{owner}/{repo}/check-runs',
    parameters: {
      owner: 'acme',
      repo: 'fleet',
      name: 'any name',
      head_sha: head,
      external_id: id,
      status: 'completed',
      conclusion: 'success',
      output: { title: 't', summary: `Decisions: \`sha256:${hash}\`` },
    },
  });
  expect(made.kind).toBe('ok');
}

async function find(more: Partial<ShownPlanQuestion> = {}, token?: string) {
  const question = { owner: 'acme', repo: 'fleet', commit: COMMIT, branch: 'main', app: ACTIONS, ...more };
  const found = await findShownPlan(apiOf(token), question);
  expect(server.violations).toEqual([]);
  return found;
}

const shown = { pullRequest: 7, head: HEAD, base: BASE, hash: HASH };

describe('the plan that a pull request showed', () => {
  test('is the newest of our app on the head of the pull request that brought the commit', async () => {
    pull();
    await checkRun({ hash: '1'.repeat(64) });
    await checkRun();
    await checkRun({ hash: '2'.repeat(64), token: 'app-token' });
    await checkRun({ hash: '3'.repeat(64), id: `apply:1:1:${BASE}:${HEAD}` });
    await checkRun({ hash: '4'.repeat(64), id: `plan:1:1:${BASE}:${COMMIT}` });
    await checkRun({ hash: '5'.repeat(64), id: `plan:1:1:--upload-pack=x:${HEAD}` });
    await checkRun({ hash: 'no hash' });
    expect(await find()).toEqual({ kind: 'found', shown });
    expect(await find({ app: null })).toEqual({ kind: 'found', shown });
    expect(await find({ app: 4_711 })).toMatchObject({ kind: 'found', shown: { hash: '2'.repeat(64) } });
  });

  test('may have no base', async () => {
    pull();
    await checkRun({ id: `plan:1:1::${HEAD}` });
    expect(await find()).toEqual({ kind: 'found', shown: { ...shown, base: null } });
  });

  test('is found behind the check runs of many jobs', async () => {
    pull();
    await checkRun();
    for (let at = 0; at < 120; at++) await checkRun({ id: `job ${at}` });
    expect(await find()).toEqual({ kind: 'found', shown });
    expect(server.requestsOf('GET', /check-runs/)).toHaveLength(2);
  });

  test('is that of the pull request whose merge the commit is, else of the newest', async () => {
    pull({ number: 9, headSha: '9'.repeat(40), mergeCommitSha: '8'.repeat(40), commits: [COMMIT] });
    pull();
    await checkRun();
    expect(await find()).toMatchObject({ kind: 'found', shown: { pullRequest: 7 } });
    server.world.pulls.length = 0;
    pull({ number: 6, headSha: '6'.repeat(40), mergeCommitSha: '8'.repeat(40), commits: [COMMIT] });
    pull({ mergeCommitSha: '7'.repeat(40), commits: [COMMIT] });
    expect(await find()).toMatchObject({ kind: 'found', shown: { pullRequest: 7 } });
  });
});

describe('there is no such plan', () => {
  test.each<[string, Partial<WorldPull> | null]>([
    ['for a direct push', null],
    ['where the pull request is open still', { mergedAt: null, state: 'open', commits: [COMMIT] }],
    ['where it went into another branch', { baseRef: 'release' }],
  ])('%s', async (_what, given) => {
    if (given !== null) pull(given);
    await checkRun();
    expect(await find()).toEqual({
      kind: 'none',
      pullRequest: null,
      why: `No pull request into main brought ${COMMIT}: nobody reviewed a plan of it.`,
    });
  });

  test('where the plan workflow did not run', async () => {
    pull();
    expect(await find()).toMatchObject({
      kind: 'none',
      pullRequest: 7,
      why: expect.stringContaining('let the plan workflow run on every pull request'),
    });
  });
});

describe('what GitHub does not say', () => {
  test('for want of a permission names it', async () => {
    const found = await find({}, 'no-pulls');
    expect(found).toMatchObject({ kind: 'unknown', why: expect.stringContaining('permissions: pull-requests: read') });
  });

  test.each([
    ['the pull requests', /pulls$/],
    ['the check runs', /check-runs$/],
  ])('of %s in time is not known', async (_what, path) => {
    pull();
    server.onNext('GET', path, behaviours.badGateway, 10);
    expect(await find()).toMatchObject({ kind: 'unknown', why: expect.stringContaining('GitHub answered 502') });
  });

  test('at once is asked again', async () => {
    pull();
    await checkRun();
    server.onNext('GET', /pulls$/, behaviours.badGateway, 2);
    server.onNext('GET', /check-runs$/, behaviours.reset, 1);
    expect(await find()).toEqual({ kind: 'found', shown });
  });
});
