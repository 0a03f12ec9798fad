import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createApi, systemClock } from '../../src/github/api.js';
import { DRIFT_LABEL, type DriftIssueOptions, keepDriftIssue } from '../../src/github/drift-issue.js';
import { ISSUE_BODY_BUDGET, ISSUE_BODY_LIMIT } from '../../src/report/budget.js';
import { renderIssue } from '../../src/report/markdown.js';
import { behaviours, GitHubServer } from '../helpers/github-server.js';
import { changeOf, clusterOf, clusterPlanOf, hostOf, planOf, reportOf, stepOf } from '../report/builders.js';
import { RecordingLogger } from './recording-logger.js';

const RUN = 'https://github.com/acme/fleet/actions/runs/1/attempts/1';

let server: GitHubServer;
let logger: RecordingLogger;
beforeAll(async () => {
  server = await GitHubServer.start();
  server.addRepository('acme/fleet');
});
afterAll(() => server.close());
beforeEach(() => {
  server.reset();
  logger = new RecordingLogger();
});

const drift = { title: 'Drifted: 2 differences', body: '**Drifted**\n\nnode3 runs an agent.' };

async function keep(more: Partial<DriftIssueOptions> = {}, token = 'full-token') {
  const api = createApi({ token, baseUrl: server.url, logger, clock: { ...systemClock, sleep: async () => {} } });
  const options = { api, logger, owner: 'acme', repo: 'fleet', key: 'fleet-role drift', runUrl: RUN, drift };
  const kept = await keepDriftIssue({ ...options, ...more });
  expect(server.violations).toEqual([]);
  return kept;
}

const notices = () => logger.lines.filter((line) => line.startsWith('notice: '));
const issues = () => server.world.issues;

describe('the issue about drift', () => {
  test('is opened once, kept up to date, and closed with a comment when the drift is gone', async () => {
    expect(await keep()).toEqual({ action: 'created', url: 'https://github.com/acme/fleet/issues/1' });
    expect(issues()).toMatchObject([{ title: drift.title, state: 'open', labels: [DRIFT_LABEL] }]);
    expect(issues()[0]?.body).toMatch(/^<!-- fleet-role drift [0-9a-f]{16} -->\n\*\*Drifted\*\*\n/);
    expect(issues()[0]?.body).toContain(`[The run that found it](${RUN})`);

    expect((await keep()).action).toBe('unchanged');
    expect(server.requestsOf('PATCH', /issues/)).toEqual([]);

    const more = { title: 'Drifted: 3 differences', body: 'node4 too.' };
    expect(await keep({ drift: more })).toMatchObject({ action: 'updated', url: expect.stringContaining('/issues/1') });
    expect(issues()).toMatchObject([{ title: more.title, body: expect.stringContaining('node4 too.') }]);

    expect((await keep({ drift: null })).action).toBe('closed');
    expect(issues()).toMatchObject([{ state: 'closed', comments: [expect.stringContaining('The drift is gone')] }]);
    expect(issues()[0]?.comments[0]).toContain(RUN);

    expect(await keep({ drift: null })).toEqual({ action: 'none', url: null });
    expect((await keep()).action).toBe('created');
    expect(issues().map(({ state }) => state)).toEqual(['closed', 'open']);
    expect(notices()).toEqual([]);
  });

  test('is that of its own fleet alone', async () => {
    await keep();
    expect((await keep({ key: 'another inventory', drift: null })).action).toBe('none');
    expect((await keep({ key: 'another inventory' })).action).toBe('created');
    expect(issues()).toHaveLength(2);
    await keep({ drift: null });
    expect(issues().map(({ state }) => state)).toEqual(['closed', 'open']);
  });

  test('is not somebody else’s: without our label, or a pull request, it stays as it is', async () => {
    await keep();
    const [ours] = issues();
    const forged = { ...(ours as (typeof server.world.issues)[number]), comments: [] };
    server.world.issues.splice(0, 1, { ...forged, labels: ['bug'] }, { ...forged, number: 2, isPullRequest: true });
    expect((await keep({ drift: null })).action).toBe('none');
    expect(issues().map(({ state }) => state)).toEqual(['open', 'open']);
  });

  test('is one: a second of the same fleet is closed', async () => {
    await keep();
    const [first] = issues();
    server.world.issues.push({ ...(first as (typeof server.world.issues)[number]), number: 2, comments: [] });
    expect((await keep()).action).toBe('unchanged');
    expect(issues()).toMatchObject([
      { state: 'open' },
      { state: 'closed', comments: [expect.stringContaining('same')] },
    ]);
  });

  test('is found behind a hundred others with its label', async () => {
    await keep();
    const [first] = issues();
    for (let number = 2; number < 122; number++) {
      server.world.issues.push({
        ...(first as (typeof server.world.issues)[number]),
        number,
        body: 'of another fleet',
      });
    }
    server.requests.length = 0;
    expect((await keep()).action).toBe('unchanged');
    expect(server.requestsOf('GET', /issues$/)).toHaveLength(2);
  });

  test('has a title that GitHub takes', async () => {
    await keep({ drift: { ...drift, title: '😀'.repeat(400) } });
    expect([...(issues()[0]?.title ?? '')]).toHaveLength(256);
  });
});

describe('a fault', () => {
  test('after GitHub made the issue does not make a second one', async () => {
    server.onNext('POST', /issues$/, behaviours.doneThenReset);
    expect((await keep()).action).toBe('created');
    expect(issues()).toHaveLength(1);
  });

  test.each([
    ['a bad gateway', behaviours.badGateway],
    ['a reset', behaviours.reset],
    ['a secondary limit', behaviours.secondaryLimit(2)],
    ['too many requests', behaviours.tooManyRequests(1)],
  ])('such as %s is waited out', async (_what, behaviour) => {
    server.onNext('*', /issues/, behaviour, 2);
    expect((await keep()).action).toBe('created');
    expect(issues()).toHaveLength(1);
  });

  test('that stays is a notice, and the run goes on', async () => {
    server.onNext('GET', /issues$/, behaviours.badGateway, 10);
    expect(await keep()).toEqual({ action: 'failed', url: null });
    expect(notices()).toEqual([expect.stringContaining('GitHub answered 502')]);
  });

  test('of a comment leaves the issue closed', async () => {
    await keep();
    server.onNext('POST', /comments$/, behaviours.badGateway);
    expect((await keep({ drift: null })).action).toBe('closed');
    expect(issues()).toMatchObject([{ state: 'closed', comments: [] }]);
  });

  test.each([
    ['a token that may only read', () => keep({}, 'read-token'), /permissions: issues: write/],
    ['a repository without issues', () => keep(), /Issues are turned off/],
    ['a repository that the token does not see', () => keep({ repo: 'gone' }), /permissions: issues: write/],
    ['what GitHub calls invalid', () => keep(), /Validation Failed/],
  ])('of %s says what is missing', async (what, act, expected) => {
    if (what.includes('without')) server.onNext('GET', /issues$/, behaviours.answer(410, { message: 'Gone' }));
    if (what.includes('invalid')) {
      server.onNext('POST', /issues$/, behaviours.answer(422, { message: 'Validation Failed' }));
    }
    expect(await act()).toEqual({ action: 'failed', url: null });
    expect(notices()).toEqual([expect.stringMatching(expected)]);
  });
});

describe('the text of the issue', () => {
  test('has what the job summary has, within the limit of an issue', async () => {
    const names = Array.from({ length: 1_000 }, (_, at) => `runner-${at}.rack.example.net`);
    const changes = names
      .slice(0, 300)
      .map((name, at) => changeOf(name, { kind: 'repaired', joinUrl: { from: `${at}`, to: null } }));
    const steps = names.map((name, at) => stepOf(at + 1, name, { detail: `reason ${at}` }));
    const cluster = clusterPlanOf({ cluster: clusterOf({ hosts: names.map((name) => hostOf(name)) }), changes, steps });
    const report = reportOf(planOf({ mode: 'drift', observed: true, clusters: [cluster] }), { result: 'drifted' });
    const text = renderIssue(report);
    expect(text.title).toMatch(/^Drift/);
    expect(Buffer.byteLength(text.body)).toBeLessThanOrEqual(ISSUE_BODY_BUDGET);
    expect(ISSUE_BODY_BUDGET).toBeLessThan(ISSUE_BODY_LIMIT - 1_000);
    expect(text.body).toContain('Differences, as the steps that would mend them');
    expect(text.body).toMatch(/more rows: see the job summary/);
    expect((await keep({ drift: text })).action).toBe('created');
  });
});
