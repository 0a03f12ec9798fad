import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type ApiCall, type Clock, createApi, type GitHubApi } from '../../src/github/api.js';
import {
  type CheckRunOptions,
  closeLeftOver,
  externalId,
  type FinalReport,
  openCheckRun,
  postCheckRun,
  readCheckRunState,
} from '../../src/github/check-run.js';
import { mergeBaseLookup } from '../../src/github/compare.js';
import type { Annotation } from '../../src/report/annotations.js';
import type { RenderedReport } from '../../src/report/markdown.js';
import { behaviours, GitHubServer } from '../helpers/github-server.js';
import { RecordingLogger } from './recording-logger.js';

const SHA = '3333333333333333333333333333333333333333';
const BASE = '4444444444444444444444444444444444444444';
const CHECKS = /check-runs/;
const OUTPUT: RenderedReport = { title: 'Planned: 2 steps', summary: '**Planned**', text: '| a |' };

/** A clock that jumps: who sleeps has slept. Everything that waited is listed. */
class JumpingClock implements Clock {
  readonly slept: number[] = [];
  #now = Date.UTC(2026, 8, 1, 10);
  now(): number {
    return this.#now;
  }
  async sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted) return;
    this.slept.push(ms);
    this.#now += ms;
  }
}

let server: GitHubServer;
let logger: RecordingLogger;
let clock: JumpingClock;

beforeAll(async () => {
  server = await GitHubServer.start();
  server.addRepository('acme/fleet');
});
afterAll(() => server.close());
beforeEach(() => {
  server.reset();
  logger = new RecordingLogger();
  clock = new JumpingClock();
});

function apiOf(token = 'full-token'): GitHubApi {
  return createApi({ token, baseUrl: server.url, logger, clock });
}

function options(overrides: Partial<CheckRunOptions> = {}): CheckRunOptions {
  return {
    api: apiOf(),
    logger,
    owner: 'acme',
    repo: 'fleet',
    name: 'fleet-role plan',
    headSha: SHA,
    externalId: externalId('plan', { id: '1', attempt: '2' }, BASE, SHA),
    detailsUrl: 'https://github.com/acme/fleet/actions/runs/1/attempts/2',
    clock,
    ...overrides,
  };
}

function finalOf(annotations = 0, overrides: Partial<FinalReport> = {}): FinalReport {
  const list = Array.from(
    { length: annotations },
    (_, at): Annotation => ({
      path: 'inventory.yml',
      line: at + 1,
      level: 'warning',
      title: `title ${at}`,
      message: `message ${at}`,
    }),
  );
  return { output: OUTPUT, annotations: list, conclusion: 'success', ...overrides };
}

function updates(): unknown[] {
  return server.requestsOf('PATCH', CHECKS).map(({ body }) => body);
}

describe('a check run of a plan', () => {
  test('is created completed in one call', async () => {
    const run = await postCheckRun(options(), finalOf(2));
    expect(server.requests.map(({ method }) => method)).toEqual(['POST']);
    expect(server.requests[0]?.body).toEqual({
      name: 'fleet-role plan',
      head_sha: SHA,
      external_id: `plan:1:2:${BASE}:${SHA}`,
      details_url: 'https://github.com/acme/fleet/actions/runs/1/attempts/2',
      started_at: '2026-09-01T10:00:00.000Z',
      status: 'completed',
      conclusion: 'success',
      completed_at: '2026-09-01T10:00:00.000Z',
      output: {
        ...OUTPUT,
        annotations: [0, 1].map((at) => ({
          path: 'inventory.yml',
          start_line: at + 1,
          end_line: at + 1,
          annotation_level: 'warning',
          title: `title ${at}`,
          message: `message ${at}`,
        })),
      },
    });
    expect(run?.url).toBe(`https://github.com/acme/fleet/runs/${server.checkRuns[0]?.id}`);
    expect(server.violations).toEqual([]);
    expect(logger.lines).toEqual([]);
  });

  test.each([
    [0, 0],
    [50, 0],
    [51, 1],
    [130, 2],
  ])('with %i annotations is updated %i times, each at most 50', async (count, times) => {
    await postCheckRun(options(), finalOf(count));
    expect(updates()).toHaveLength(times);
    expect(server.checkRuns[0]?.annotations.map(({ start_line }) => start_line)).toEqual(
      Array.from({ length: count }, (_, at) => at + 1),
    );
    expect(server.checkRuns[0]).toMatchObject({ status: 'completed', conclusion: 'success', text: OUTPUT.text });
    expect(server.violations).toEqual([]);
  });
});

describe('a check run of an apply', () => {
  test('is in progress, then closed', async () => {
    const run = await openCheckRun(options(), OUTPUT);
    expect(server.checkRuns[0]).toMatchObject({ status: 'in_progress', conclusion: null, title: OUTPUT.title });
    expect(await run?.close(finalOf(51, { conclusion: 'failure' }))).toBe(true);
    expect(server.checkRuns[0]).toMatchObject({ status: 'completed', conclusion: 'failure' });
    expect(server.checkRuns[0]?.annotations).toHaveLength(51);
    // Closed with the first of the updates: nothing that follows can leave it open.
    expect(updates()[0]).toMatchObject({ conclusion: 'failure' });
    expect(server.violations).toEqual([]);
  });

  test('shows the progress at most once an interval, the latest only, and never renders for nothing', async () => {
    const waits: (() => void)[] = [];
    let now = 0;
    const held: Clock = {
      now: () => now,
      sleep: (ms, signal) =>
        new Promise((resolve) => {
          waits.push(() => {
            now += ms;
            resolve();
          });
          signal?.addEventListener('abort', () => resolve());
        }),
    };
    const run = await openCheckRun(options({ clock: held, progressInterval: 5_000 }), OUTPUT);
    let rendered = 0;
    const report = (title: string) => (): RenderedReport => {
      rendered++;
      return { ...OUTPUT, title };
    };
    for (let step = 1; step <= 40; step++) run?.progress(report(`step ${step}`));
    expect(rendered).toBe(0);
    waits.shift()?.();
    await until(() => updates().length === 1);
    expect(updates()[0]).toEqual({ output: { ...OUTPUT, title: 'step 40' } });
    expect(rendered).toBe(1);
    await until(() => server.checkRuns[0]?.title === 'step 40');
    run?.progress(report('step 41'));
    run?.progress(report('step 42'));
    await until(() => waits.length === 1);
    // The end does not wait for its turn.
    expect(await run?.close(finalOf())).toBe(true);
    expect(rendered).toBe(1);
    expect(server.checkRuns[0]).toMatchObject({ status: 'completed', title: OUTPUT.title });
    run?.progress(report('too late'));
    await new Promise((resolve) => setImmediate(resolve));
    expect(rendered).toBe(1);
  });

  test('goes on without progress when GitHub refuses it once', async () => {
    const run = await openCheckRun(options({ progressInterval: 0 }), OUTPUT);
    server.onNext('PATCH', CHECKS, behaviours.answer(403, { message: 'Resource not accessible by integration' }));
    run?.progress(() => OUTPUT);
    await until(() => logger.lines.length === 1);
    expect(logger.lines[0]).toContain('no longer shows the progress');
    run?.progress(() => OUTPUT);
    expect(updates()).toHaveLength(1);
    expect(await run?.close(finalOf())).toBe(true);
  });

  test('waits for a report on its way before it is closed, and gives it up when it is cancelled', async () => {
    for (const cancelled of [false, true]) {
      const calls: ApiCall[] = [];
      let arrive = (): void => undefined;
      const api: GitHubApi = {
        async request(call) {
          calls.push(call);
          if (calls.length === 2) await new Promise<void>((resolve) => (arrive = resolve));
          return { kind: 'ok', status: 200, data: { id: 7, html_url: 'https://github.com/acme/fleet/runs/7' } };
        },
      };
      const run = await openCheckRun(options({ api, progressInterval: 0 }), OUTPUT);
      run?.progress(() => OUTPUT);
      await until(() => calls.length === 2);
      const end = cancelled ? run?.cancel(OUTPUT) : run?.close(finalOf());
      await new Promise((resolve) => setTimeout(resolve, 20));
      expect(calls).toHaveLength(cancelled ? 3 : 2);
      expect(calls[1]?.signal?.aborted).toBe(cancelled);
      arrive();
      expect(await end).toBe(true);
      expect(calls).toHaveLength(3);
      expect(calls[2]?.parameters).toMatchObject({ conclusion: cancelled ? 'cancelled' : 'success' });
    }
  });

  test('is cancelled at once, even while a report hangs', async () => {
    const run = await openCheckRun(options({ progressInterval: 0 }), OUTPUT);
    server.onNext('PATCH', CHECKS, behaviours.hang);
    run?.progress(() => OUTPUT);
    await until(() => updates().length === 1);
    expect(await run?.cancel({ ...OUTPUT, title: 'Cancelled' })).toBe(true);
    expect(server.checkRuns[0]).toMatchObject({ status: 'completed', conclusion: 'cancelled', title: 'Cancelled' });
  });

  test('is left to the post step when GitHub does not answer at all', async () => {
    const run = await openCheckRun(options(), OUTPUT);
    server.onNext('PATCH', CHECKS, behaviours.hang, 10);
    expect(await run?.cancel(OUTPUT)).toBe(false);
    expect(logger.lines).toEqual([expect.stringContaining('the post step tries again')]);
  });

  test('stays as it was closed when it is cancelled afterwards', async () => {
    const run = await openCheckRun(options(), OUTPUT);
    await run?.close(finalOf());
    expect(await run?.cancel(OUTPUT)).toBe(true);
    expect(server.checkRuns[0]?.conclusion).toBe('success');
  });
});

describe('a check run that cannot be had', () => {
  test.each([
    ['read-token', 'permissions: checks: write'],
    ['no-such-token', 'github.token'],
  ])('is one notice with the token %s', async (token, way) => {
    for (const make of [
      openCheckRun(options({ api: apiOf(token) }), OUTPUT),
      postCheckRun(options({ api: apiOf(token) }), finalOf()),
    ]) {
      expect(await make).toBeNull();
    }
    expect(logger.lines).toHaveLength(2);
    for (const line of logger.lines) {
      expect(line).toMatch(/^notice: There is no check run/);
      expect(line).toContain(way);
    }
    // A refusal is never repeated.
    expect(server.requests).toHaveLength(2);
    expect(clock.slept).toEqual([]);
  });

  test.each([400, 401, 403, 404, 410, 451])('is not asked for again after a %i', async (status) => {
    server.onNext('POST', CHECKS, behaviours.answer(status, { message: 'no' }), 10);
    expect(await openCheckRun(options(), OUTPUT)).toBeNull();
    expect(server.requests).toHaveLength(1);
  });

  test('is a notice when nobody answers', async () => {
    server.onNext('*', CHECKS, behaviours.badGateway, 100);
    expect(await postCheckRun(options(), finalOf())).toBeNull();
    expect(clock.slept).toEqual([1_000, 4_000, 10_000]);
    expect(logger.lines).toEqual([expect.stringContaining('502')]);
  });
});

describe('a fault on the way', () => {
  test.each([
    ['a 502', behaviours.badGateway, [1_000]],
    ['a reset', behaviours.reset, [1_000]],
    ['a 429', behaviours.tooManyRequests(7), [7_000]],
    ['a secondary rate limit', behaviours.secondaryLimit(11), [11_000]],
    ['a 403 that says when', behaviours.answer(403, { message: 'Forbidden' }, { 'retry-after': '3' }), [3_000]],
    [
      'a secondary rate limit without a time',
      behaviours.answer(403, { message: 'You have exceeded a secondary rate limit' }),
      [60_000],
    ],
    ['the primary rate limit', behaviours.primaryLimit(Date.UTC(2026, 8, 1, 10) / 1000 + 20), [21_000]],
  ])('such as %s is waited out, with one check run in the end', async (_what, behaviour, slept) => {
    server.onNext('POST', CHECKS, behaviour);
    const run = await openCheckRun(options(), OUTPUT);
    server.onNext('PATCH', CHECKS, behaviour);
    expect(await run?.close(finalOf(3))).toBe(true);
    expect(server.checkRuns).toHaveLength(1);
    expect(server.checkRuns[0]?.annotations).toHaveLength(3);
    expect(clock.slept.slice(0, 1)).toEqual(slept);
    expect(server.violations).toEqual([]);
    expect(logger.lines).toEqual([]);
  });

  test('such as a rate limit of an hour is not waited out', async () => {
    server.onNext('POST', CHECKS, behaviours.tooManyRequests(3_600));
    expect(await openCheckRun(options(), OUTPUT)).toBeNull();
    expect(clock.slept).toEqual([]);
    expect(logger.lines).toEqual([expect.stringContaining('rate limit')]);
  });

  test('after GitHub made the check run does not make a second one', async () => {
    server.onNext('POST', CHECKS, behaviours.doneThenReset);
    const run = await openCheckRun(options(), OUTPUT);
    expect(server.checkRuns).toHaveLength(1);
    expect(run?.state.id).toBe(server.checkRuns[0]?.id);
    expect(server.requestsOf('POST', CHECKS)).toHaveLength(1);
  });

  test('takes no other check run of the same commit for its own', async () => {
    await postCheckRun(options({ externalId: 'plan:0:1::x' }), finalOf());
    server.onNext('POST', CHECKS, behaviours.reset);
    const run = await postCheckRun(options(), finalOf());
    expect(server.checkRuns).toHaveLength(2);
    expect(run?.state.id).toBe(server.checkRuns[1]?.id);
  });

  test('after GitHub took the annotations does not append them again', async () => {
    const run = await openCheckRun(options(), OUTPUT);
    server.onNext('PATCH', CHECKS, behaviours.doneThenReset, 2);
    expect(await run?.close(finalOf(80))).toBe(true);
    expect(server.checkRuns[0]?.annotations).toHaveLength(80);
    expect(server.checkRuns[0]?.conclusion).toBe('success');
  });

  test('such as an answer that never comes ends with the patience for it', async () => {
    server.onNext('GET', /compare/, behaviours.hang, 2);
    const answer = await apiOf().request({
      route: 'GET /repos/{owner}/{repo}/compare/{basehead}',
      parameters: { owner: 'acme', repo: 'fleet', basehead: `${BASE}...${SHA}` },
      patience: { timeout: 40, waits: [5], limitWait: 0 },
    });
    expect(answer.kind).toBe('unavailable');
    expect(clock.slept).toEqual([5]);
  });
});

describe('what GitHub calls invalid', () => {
  const invalid = behaviours.answer(422, { message: 'Validation Failed' });

  test('is sent without annotations, then without the long text', async () => {
    server.onNext('POST', CHECKS, invalid, 2);
    const run = await postCheckRun(options(), finalOf(3));
    expect(run).not.toBeNull();
    expect(server.checkRuns[0]).toMatchObject({ conclusion: 'success', text: null, annotations: [] });
    expect(logger.lines).toHaveLength(2);
  });

  test('is at last closed with nothing but the conclusion', async () => {
    const run = await openCheckRun(options(), OUTPUT);
    server.onNext('PATCH', CHECKS, invalid, 3);
    expect(await run?.close(finalOf(3, { conclusion: 'failure' }))).toBe(true);
    expect(server.checkRuns[0]).toMatchObject({ status: 'completed', conclusion: 'failure', title: OUTPUT.title });
  });

  test('is a notice when nothing helps', async () => {
    const run = await openCheckRun(options(), OUTPUT);
    server.onNext('PATCH', CHECKS, invalid, 10);
    expect(await run?.close(finalOf())).toBe(false);
    expect(logger.lines.at(-1)).toContain('could not be closed');
  });

  test('or forbidden with a token that changed on the way is a notice', async () => {
    const run = await openCheckRun(options(), OUTPUT);
    server.onNext('PATCH', CHECKS, behaviours.answer(403, { message: 'Resource not accessible by integration' }), 10);
    expect(await run?.close(finalOf())).toBe(false);
    expect(logger.lines).toEqual([expect.stringContaining('permissions: checks: write')]);
    expect(updates()).toHaveLength(1);
  });
});

describe('the post step', () => {
  test('closes as cancelled what main left open', async () => {
    const run = await openCheckRun(options(), OUTPUT);
    const state = readCheckRunState(JSON.stringify(run?.state));
    if (state === null) throw new Error('the state was not read');
    expect(await closeLeftOver(state, apiOf(), logger)).toBe(true);
    expect(server.checkRuns[0]).toMatchObject({ status: 'completed', conclusion: 'cancelled' });
    expect(server.violations).toEqual([]);
  });

  test.each(['success', 'failure'] as const)(
    'closes with %s where that is what the run came to',
    async (conclusion) => {
      const run = await openCheckRun(options(), OUTPUT);
      const ended = { conclusion, title: 'Applied: 3 steps' };
      const state = readCheckRunState(JSON.stringify({ ...run?.state, ended }));
      if (state === null) throw new Error('the state was not read');
      expect(await closeLeftOver(state, apiOf(), logger)).toBe(true);
      expect(server.checkRuns[0]).toMatchObject({ status: 'completed', conclusion, title: ended.title });
      expect(server.checkRuns[0]?.summary).toContain('the job summary has it');
      expect(server.violations).toEqual([]);
    },
  );

  test('takes no other ending than those of a run', () => {
    const state = { owner: 'a', repo: 'b', id: 7 };
    for (const ended of [{ conclusion: 'stale', title: 't' }, { conclusion: 'success' }, 'success', null]) {
      expect(readCheckRunState(JSON.stringify({ ...state, ended }))).toEqual(state);
    }
  });

  test('leaves a completed one as it is', async () => {
    const run = await postCheckRun(options(), finalOf());
    if (run === null) throw new Error('no check run');
    expect(await closeLeftOver(run.state, apiOf(), logger)).toBe(true);
    expect(updates()).toEqual([]);
    expect(server.checkRuns[0]?.conclusion).toBe('success');
  });

  test('writes nothing over a check run that GitHub does not show', async () => {
    const run = await postCheckRun(options(), finalOf());
    if (run === null) throw new Error('no check run');
    server.onNext('GET', /check-runs/, behaviours.badGateway, 9);
    expect(await closeLeftOver(run.state, apiOf(), logger)).toBe(false);
    expect(updates()).toEqual([]);
    expect(server.checkRuns[0]?.conclusion).toBe('success');
    expect(logger.lines).toEqual([expect.stringContaining('stays as it is')]);
  });

  test('says so when it cannot', async () => {
    const run = await openCheckRun(options(), OUTPUT);
    if (run === null) throw new Error('no check run');
    server.onNext('PATCH', CHECKS, behaviours.answer(403, { message: 'No' }));
    expect(await closeLeftOver(run.state, apiOf(), logger)).toBe(false);
    expect(logger.lines).toEqual([expect.stringContaining(`The check run ${run.state.id} stays in progress`)]);
  });

  test.each(['', 'null', '[]', '{}', '{"owner":"a","repo":"b","id":"7"}', '{"owner":1,"repo":"b","id":7}', '{'])(
    'takes %j for no state',
    (text) => {
      expect(readCheckRunState(text)).toBeNull();
    },
  );
});

describe('mergeBaseLookup', () => {
  const repository = { owner: 'acme', repo: 'fleet' };

  test('gives null where GitHub does not say', async () => {
    expect(await mergeBaseLookup(apiOf('no-such-token'))(repository, BASE, SHA)).toBeNull();
    server.onNext('GET', /compare/, behaviours.answer(404, { message: 'Not Found' }));
    expect(await mergeBaseLookup(apiOf())(repository, BASE, SHA)).toBeNull();
    server.onNext('GET', /compare/, behaviours.answer(200, { status: 'ahead' }));
    expect(await mergeBaseLookup(apiOf())(repository, BASE, SHA)).toBeNull();
    server.onNext('GET', /compare/, behaviours.reset, 5);
    expect(await mergeBaseLookup(apiOf())(repository, BASE, SHA)).toBeNull();
  });

  test('gives the commit that GitHub names', async () => {
    server.onNext('GET', /compare/, behaviours.answer(200, { merge_base_commit: { sha: BASE } }));
    expect(await mergeBaseLookup(apiOf())(repository, BASE, SHA)).toBe(BASE);
    expect(server.requests.at(-1)?.path).toMatch(/compare\/4{40}(?:\.\.\.|%2E%2E%2E)3{40}$/);
    expect(server.violations).toEqual([]);
  });
});

async function until(condition: () => boolean): Promise<void> {
  for (let turn = 0; !condition(); turn++) {
    if (turn > 400) throw new Error('it did not happen');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
