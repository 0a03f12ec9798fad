import type { Logger } from '../log.js';
import { type Annotation, batchesOf } from '../report/annotations.js';
import { prose } from '../report/escape.js';
import type { RenderedReport } from '../report/markdown.js';
import type { Verdict } from '../report/result.js';
import { type ApiAnswer, type Clock, type GitHubApi, ONCE, type Patience, systemClock, URGENT } from './api.js';

export interface CheckRunOptions {
  readonly api: GitHubApi;
  readonly logger: Logger;
  readonly owner: string;
  readonly repo: string;
  readonly name: string;
  /** The commit it stands on. */
  readonly headSha: string;
  /** By `externalId`. */
  readonly externalId: string;
  /** The workflow run's page. */
  readonly detailsUrl: string | null;
  readonly clock?: Clock;
  /** Milliseconds between two reports of progress. */
  readonly progressInterval?: number;
}

/** What a finished check run says. */
export interface FinalReport {
  readonly output: RenderedReport;
  readonly annotations: readonly Annotation[];
  readonly conclusion: Verdict['conclusion'];
}

/** What the post step needs to close a check run that main left open; it goes through the runner's state. */
export interface CheckRunState {
  readonly owner: string;
  readonly repo: string;
  readonly id: number;
  /** What the run came to, where it ended and GitHub did not take it; left out for a run that was killed. */
  readonly ended?: Ending;
}

export interface Ending {
  readonly conclusion: Verdict['conclusion'];
  /** One line. */
  readonly title: string;
}

/** A check run that this run created; nothing else is ever changed. */
export interface CheckRun {
  readonly state: CheckRunState;
  /** Its page. */
  readonly url: string;
  /** The id of the app that made it: that of the token. Null where GitHub does not say. */
  readonly app: number | null;
  /**
   * Shows how far the run is. Returns at once and never throws: reports that follow each other faster than the interval
   * are one, the last, and `render` is called only for a report that is sent.
   */
  progress(render: () => RenderedReport): void;
  /** Closes it, all annotations included. False when GitHub did not take the conclusion; a notice says why. */
  close(final: FinalReport): Promise<boolean>;
  /** Closes it as cancelled within two seconds; nothing when it is closed already. */
  cancel(output: RenderedReport): Promise<boolean>;
}

const PROGRESS_INTERVAL = 5_000;
const ROUTE = '/repos/{owner}/{repo}/check-runs';

/** The `external_id` of a run's check run, by which later runs know what it compared. */
export function externalId(
  mode: string,
  run: { id: string; attempt: string },
  base: string | null,
  head: string,
): string {
  return [mode, run.id, run.attempt, base ?? '', head].join(':');
}

/**
 * Creates a check run in progress. Null when GitHub refuses or cannot be reached: a notice says why and what to do, and
 * the run goes on, its report in the job summary.
 */
export async function openCheckRun(options: CheckRunOptions, output: RenderedReport): Promise<CheckRun | null> {
  const created = await create(options, [{ ...beginning(options), status: 'in_progress', output: outputOf(output) }]);
  return created === null ? null : new OpenCheckRun(options, created);
}

/** Creates a check run that is finished already, in one call where its annotations fit into it. Null as above. */
export async function postCheckRun(options: CheckRunOptions, final: FinalReport): Promise<CheckRun | null> {
  const [first = [], ...others] = batchesOf(final.annotations);
  const ends = { status: 'completed', conclusion: final.conclusion, completed_at: timeOf(options) };
  const bodies = outputsOf(final.output, first).map((output) => ({ ...beginning(options), ...ends, output }));
  const created = await create(options, bodies);
  if (created === null) return null;
  const run = new OpenCheckRun(options, created);
  await run.annotate(final.output, first.length, others);
  return run;
}

/** The state from what was saved; null when it is none of ours. */
export function readCheckRunState(text: string): CheckRunState | null {
  try {
    const { owner, repo, id, ended } = JSON.parse(text);
    if (typeof owner !== 'string' || typeof repo !== 'string' || !Number.isSafeInteger(id)) return null;
    return { owner, repo, id, ...(isEnding(ended) ? { ended } : {}) };
  } catch {
    return null;
  }
}

/**
 * Closes a check run that a run left open, for the post step: with what the run came to, so that the check says what the
 * job says, or as cancelled where that is not known. Only one that is seen open: one that is
 * completed, or that GitHub does not show, stays as it is, for a conclusion must not be written over.
 * Never throws. True when it is closed in the end.
 */
export async function closeLeftOver(state: CheckRunState, api: GitHubApi, logger: Logger): Promise<boolean> {
  const parameters = { owner: state.owner, repo: state.repo, check_run_id: state.id };
  const seen = await api.request({ route: `GET ${ROUTE}/{check_run_id}`, parameters });
  if (seen.kind !== 'ok') {
    logger.notice(`The check run ${state.id} stays as it is, it may be in progress still: ${seen.message}.`);
    return false;
  }
  if (member(seen.data, 'status') === 'completed') return true;
  const title = state.ended?.title ?? 'Cancelled: the run ended before it could report';
  const rest =
    state.ended === undefined
      ? 'What it left is not known. Run the same workflow again: it looks at every host afresh and goes on from what it finds.'
      : 'GitHub did not take the report when the run ended; the job summary has it.';
  const summary = `**${prose(title)}**\n\n${rest}`;
  const conclusion = state.ended?.conclusion ?? 'cancelled';
  const answer = await api.request({
    route: `PATCH ${ROUTE}/{check_run_id}`,
    parameters: { ...parameters, status: 'completed', conclusion, output: { title, summary } },
  });
  if (answer.kind === 'ok') return true;
  logger.notice(`The check run ${state.id} stays in progress: ${answer.message}.`);
  return false;
}

function isEnding(value: unknown): value is Ending {
  const conclusions: readonly unknown[] = ['success', 'failure', 'cancelled'] satisfies Verdict['conclusion'][];
  return conclusions.includes(member(value, 'conclusion')) && typeof member(value, 'title') === 'string';
}

class OpenCheckRun implements CheckRun {
  readonly state: CheckRunState;
  readonly url: string;
  readonly app: number | null;
  readonly #options: CheckRunOptions;
  readonly #clock: Clock;
  /** No further report of progress starts. */
  readonly #stop = new AbortController();
  /** The one that is on its way is given up. */
  readonly #giveUp = new AbortController();
  #pending: (() => RenderedReport) | null = null;
  #pump: Promise<void> | null = null;
  #lastSent: number;
  /** GitHub refused a report of progress; there is no point in another. */
  #mute = false;
  #closed = false;

  constructor(options: CheckRunOptions, { state, url, app }: Created) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#lastSent = this.#clock.now();
    this.state = state;
    this.url = url;
    this.app = app;
  }

  progress(render: () => RenderedReport): void {
    if (this.#mute || this.#stop.signal.aborted) return;
    this.#pending = render;
    this.#pump ??= this.#sendPending().finally(() => {
      this.#pump = null;
    });
  }

  async #sendPending(): Promise<void> {
    const interval = this.#options.progressInterval ?? PROGRESS_INTERVAL;
    while (this.#pending !== null) {
      const wait = this.#lastSent + interval - this.#clock.now();
      if (wait > 0) await this.#clock.sleep(wait, this.#stop.signal);
      const render = this.#pending;
      if (this.#stop.signal.aborted || render === null) return;
      this.#pending = null;
      this.#lastSent = this.#clock.now();
      // Without a status: should it arrive after the end, it does not open the check run again.
      const answer = await this.#update(
        { output: outputOf(render()) },
        { patience: ONCE, signal: this.#giveUp.signal },
      );
      if (answer.kind === 'refused') {
        this.#mute = true;
        this.#options.logger.notice(`The check run no longer shows the progress: ${answer.message}.`);
        return;
      }
    }
  }

  async close(final: FinalReport): Promise<boolean> {
    this.#pending = null;
    const pump = this.#pump;
    // A report that is on its way is waited for: it must not arrive after the end. One that waits for its turn is not.
    this.#stop.abort();
    await pump?.catch(() => undefined);
    const [first = [], ...others] = batchesOf(final.annotations);
    const ends = { status: 'completed', conclusion: final.conclusion, completed_at: timeOf(this.#options) };
    // The conclusion goes first: whatever happens to the rest, the check run is closed.
    const bodies = [...outputsOf(final.output, first).map((output) => ({ ...ends, output })), ends];
    const answer = await this.#mended(bodies, first.length);
    if (answer.kind !== 'ok') {
      this.#options.logger.notice(`The check run could not be closed: ${explain(answer)}`);
      return false;
    }
    this.#closed = true;
    await this.annotate(final.output, first.length, others);
    return true;
  }

  async cancel(output: RenderedReport): Promise<boolean> {
    if (this.#closed) return true;
    this.#pending = null;
    this.#stop.abort();
    this.#giveUp.abort();
    const body = { status: 'completed', conclusion: 'cancelled', output: outputOf(output) };
    const answer = await this.#update(body, { patience: URGENT });
    this.#closed = answer.kind === 'ok';
    if (!this.#closed) this.#options.logger.notice('The check run could not be closed yet; the post step tries again.');
    return this.#closed;
  }

  /** Appends further batches of annotations; `before` are there already. */
  async annotate(output: RenderedReport, before: number, batches: readonly (readonly Annotation[])[]): Promise<void> {
    let there = before;
    for (const batch of batches) {
      const answer = await this.#update({ output: outputOf(output, batch) }, { annotations: there + batch.length });
      if (answer.kind !== 'ok') {
        const missing = batches.flat().length - (there - before);
        this.#options.logger.notice(`${missing} annotations are not shown: ${explain(answer)}`);
        return;
      }
      there += batch.length;
    }
  }

  /** Tries the bodies in turn as long as GitHub calls them invalid (422). */
  async #mended(bodies: readonly object[], annotations: number): Promise<ApiAnswer> {
    return firstValid(bodies, this.#options.logger, (body, full) =>
      this.#update(body, full && annotations > 0 ? { annotations } : {}),
    );
  }

  #update(body: object, how: { patience?: Patience; signal?: AbortSignal; annotations?: number }): Promise<ApiAnswer> {
    const { api } = this.#options;
    const parameters = { owner: this.state.owner, repo: this.state.repo, check_run_id: this.state.id };
    const { annotations, ...rest } = how;
    // GitHub appends annotations: sent twice they would stand there twice.
    const landed = async (): Promise<unknown> => {
      const seen = await api.request({ route: `GET ${ROUTE}/{check_run_id}`, parameters, patience: ONCE });
      if (seen.kind !== 'ok') return null;
      const count = member(member(seen.data, 'output'), 'annotations_count');
      return typeof count === 'number' && count >= (annotations ?? 0) ? seen.data : null;
    };
    return api.request({
      route: `PATCH ${ROUTE}/{check_run_id}`,
      parameters: { ...parameters, ...body },
      ...rest,
      ...(annotations === undefined ? {} : { landed }),
    });
  }
}

interface Created {
  readonly state: CheckRunState;
  readonly url: string;
  readonly app: number | null;
}

async function create(options: CheckRunOptions, bodies: readonly object[]): Promise<Created | null> {
  const { api, owner, repo, logger } = options;
  const answer = await firstValid(bodies, logger, (body) =>
    api.request({
      route: `POST ${ROUTE}`,
      parameters: { owner, repo, ...body },
      landed: () => find(options),
    }),
  );
  if (answer.kind === 'ok') {
    const id = member(answer.data, 'id');
    const url = member(answer.data, 'html_url');
    const app = member(member(answer.data, 'app'), 'id');
    if (typeof id === 'number') {
      return {
        state: { owner, repo, id },
        url: typeof url === 'string' ? url : '',
        app: typeof app === 'number' ? app : null,
      };
    }
  }
  logger.notice(`There is no check run, the job summary has the whole report. ${explain(answer)}`);
  return null;
}

/** The check run that this run made, if it did: by commit, name and external id. */
async function find({ api, owner, repo, headSha, name, externalId }: CheckRunOptions): Promise<unknown> {
  const seen = await api.request({
    route: 'GET /repos/{owner}/{repo}/commits/{ref}/check-runs',
    parameters: { owner, repo, ref: headSha, check_name: name, filter: 'all', per_page: 100 },
    patience: ONCE,
  });
  const runs = seen.kind === 'ok' ? member(seen.data, 'check_runs') : null;
  return Array.isArray(runs) ? (runs.find((run) => member(run, 'external_id') === externalId) ?? null) : null;
}

async function firstValid(
  bodies: readonly object[],
  logger: Logger,
  send: (body: object, full: boolean) => Promise<ApiAnswer>,
): Promise<ApiAnswer> {
  let answer: ApiAnswer = { kind: 'unavailable', message: 'nothing was sent' };
  for (const [index, body] of bodies.entries()) {
    answer = await send(body, index === 0);
    if (answer.kind !== 'refused' || answer.status !== 422) return answer;
    if (index < bodies.length - 1)
      logger.notice(`GitHub did not take all of the check run, it shows less: ${answer.message}.`);
  }
  return answer;
}

/** The output, and what is tried when GitHub calls it invalid: without annotations, then without the long text. */
function outputsOf(output: RenderedReport, annotations: readonly Annotation[]): object[] {
  const { title, summary } = output;
  const full = outputOf(output, annotations);
  return annotations.length > 0 ? [full, outputOf(output), { title, summary }] : [full, { title, summary }];
}

function outputOf({ title, summary, text }: RenderedReport, annotations: readonly Annotation[] = []): object {
  return {
    title,
    summary,
    ...(text === '' ? {} : { text }),
    ...(annotations.length === 0 ? {} : { annotations: annotations.map(annotationOf) }),
  };
}

function annotationOf({ path, line, level, title, message }: Annotation): object {
  return { path, start_line: line, end_line: line, annotation_level: level, title, message };
}

function beginning(options: CheckRunOptions): object {
  const { name, headSha, externalId, detailsUrl } = options;
  return {
    name,
    head_sha: headSha,
    external_id: externalId,
    started_at: timeOf(options),
    ...(detailsUrl === null ? {} : { details_url: detailsUrl }),
  };
}

function timeOf({ clock = systemClock }: CheckRunOptions): string {
  return new Date(clock.now()).toISOString();
}

function explain(answer: ApiAnswer): string {
  if (answer.kind === 'refused' && answer.status === 403) {
    return `The token may not write checks: give the job "permissions: checks: write". A pull request from a fork or by Dependabot never has it. (${answer.message})`;
  }
  if (answer.kind === 'refused' && answer.status === 404) {
    return `GitHub does not show the token this repository: the input token must be the job's own github.token. (${answer.message})`;
  }
  if (answer.kind === 'refused' && answer.status === 401) {
    return `GitHub does not accept the token: the input token must be the job's own github.token. (${answer.message})`;
  }
  return answer.kind === 'ok' ? 'GitHub answered without an id.' : `${answer.message}.`;
}

function member(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}
