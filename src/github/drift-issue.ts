import { createHash } from 'node:crypto';
import type { Logger } from '../log.js';
import { type ApiAnswer, type GitHubApi, ONCE } from './api.js';

export interface DriftIssueOptions {
  readonly api: GitHubApi;
  readonly logger: Logger;
  readonly owner: string;
  readonly repo: string;
  /**
   * What tells this fleet's issue from others of the same repository, such as the check run's name with the inventory's
   * path. The same text in every run.
   */
  readonly key: string;
  /** The workflow run's page; null: it is not linked. */
  readonly runUrl: string | null;
  /** What was found; null: there is no drift. Where it is not known, do not call. */
  readonly drift: DriftText | null;
}

/** The issue as people read it; `report/` makes both texts, safe and within GitHub's limits. */
export interface DriftText {
  /** One line. */
  readonly title: string;
  /** Markdown, at most `ISSUE_BODY_BUDGET` bytes. */
  readonly body: string;
}

export interface KeptIssue {
  readonly action: 'none' | 'created' | 'updated' | 'unchanged' | 'closed' | 'failed';
  /** Its page; null where there is none. */
  readonly url: string | null;
}

/**
 * The label by which the issue is found. Only who may write to a repository can set labels, so that nobody else's issue
 * is taken for ours. GitHub makes it when it is first used.
 */
export const DRIFT_LABEL = 'fleet-role-drift';

/** Characters of an issue's title that GitHub takes. */
const TITLE_LIMIT = 256;
const PAGE = 100;
const MOST_PAGES = 5;

/**
 * Keeps one issue in step with the drift: opens it, rewrites it (which notifies nobody), and closes it with a comment
 * once the drift is gone. Issues of other keys, pull requests and issues without our label are left alone; of several
 * of one key the oldest is kept and the others are closed. Never throws: what GitHub refuses is a notice that says what
 * is missing, and `failed`.
 */
export async function keepDriftIssue(options: DriftIssueOptions): Promise<KeptIssue> {
  const found = await openIssues(options);
  if (found.kind !== 'ok') return failed(options, found);
  const [kept, ...others] = found.issues;
  for (const issue of others) await close(options, issue, 'Another issue tells of the same drift.');
  const { drift } = options;
  if (drift === null) {
    if (kept === undefined) return { action: 'none', url: null };
    const by = options.runUrl === null ? '' : ` Seen by ${options.runUrl}.`;
    const closed = await close(options, kept, `The drift is gone: every host is as the last apply left it.${by}`);
    return closed === null ? { action: 'closed', url: kept.url } : failed(options, closed);
  }
  const text = { title: cut(drift.title), body: bodyOf(options, drift) };
  if (kept === undefined) return create(options, text);
  if (kept.title === text.title && kept.body === text.body) return { action: 'unchanged', url: kept.url };
  const answer = await update(options, kept, text);
  return answer.kind === 'ok' ? { action: 'updated', url: kept.url } : failed(options, answer);
}

interface Issue {
  readonly number: number;
  readonly url: string | null;
  readonly title: string;
  readonly body: string;
}

type Refused = Exclude<ApiAnswer, { kind: 'ok' }>;

/** Ours, the oldest first. */
async function openIssues(
  options: DriftIssueOptions,
  patience: { patience?: typeof ONCE } = {},
): Promise<{ kind: 'ok'; issues: readonly Issue[] } | Refused> {
  const { api, owner, repo } = options;
  const issues: Issue[] = [];
  for (let page = 1; page <= MOST_PAGES; page++) {
    const answer = await api.request({
      route: 'GET /repos/{owner}/{repo}/issues',
      parameters: { owner, repo, labels: DRIFT_LABEL, state: 'open', per_page: PAGE, page },
      ...patience,
    });
    if (answer.kind !== 'ok') return answer;
    const list: readonly unknown[] = Array.isArray(answer.data) ? answer.data : [];
    issues.push(...list.flatMap((item) => readIssue(item, markerOf(options))));
    if (list.length < PAGE) break;
  }
  return { kind: 'ok', issues: issues.toSorted((a, b) => a.number - b.number) };
}

function readIssue(item: unknown, marker: string): Issue[] {
  const { number, html_url: url, title, body, pull_request: pull } = item as Record<string, unknown>;
  if (typeof number !== 'number' || typeof body !== 'string' || !body.startsWith(marker)) return [];
  // GitHub lists pull requests among the issues.
  if (pull !== undefined && pull !== null) return [];
  return [{ number, url: typeof url === 'string' ? url : null, title: String(title ?? ''), body }];
}

async function create(options: DriftIssueOptions, text: DriftText): Promise<KeptIssue> {
  const { api, owner, repo } = options;
  const answer = await api.request({
    route: 'POST /repos/{owner}/{repo}/issues',
    parameters: { owner, repo, ...text, labels: [DRIFT_LABEL] },
    landed: async () => {
      const found = await openIssues(options, { patience: ONCE });
      const issue = found.kind === 'ok' ? found.issues[0] : undefined;
      return issue === undefined ? null : { html_url: issue.url };
    },
  });
  if (answer.kind !== 'ok') return failed(options, answer);
  const { html_url: url } = answer.data as Record<string, unknown>;
  return { action: 'created', url: typeof url === 'string' ? url : null };
}

function update({ api, owner, repo }: DriftIssueOptions, { number }: Issue, changes: object): Promise<ApiAnswer> {
  return api.request({
    route: 'PATCH /repos/{owner}/{repo}/issues/{issue_number}',
    parameters: { owner, repo, issue_number: number, ...changes },
  });
}

/** Closes it first and says why then: a comment that is missing is less than an issue that stays open. Null: done. */
async function close(options: DriftIssueOptions, issue: Issue, why: string): Promise<Refused | null> {
  const { api, owner, repo, logger } = options;
  const closed = await update(options, issue, { state: 'closed', state_reason: 'completed' });
  if (closed.kind !== 'ok') return closed;
  const answer = await api.request({
    route: 'POST /repos/{owner}/{repo}/issues/{issue_number}/comments',
    parameters: { owner, repo, issue_number: issue.number, body: why },
    // Said twice is worse than not at all.
    patience: ONCE,
  });
  if (answer.kind !== 'ok') logger.debug(`issue ${issue.number} is closed without a word: ${answer.message}`);
  return null;
}

/** The line that names the fleet. People do not see it; the key itself could hold anything. */
function markerOf({ key }: DriftIssueOptions): string {
  return `<!-- fleet-role drift ${createHash('sha256').update(key).digest('hex').slice(0, 16)} -->`;
}

function bodyOf(options: DriftIssueOptions, { body }: DriftText): string {
  const by = options.runUrl === null ? '' : `\n\n[The run that found it](${options.runUrl}).`;
  return `${markerOf(options)}\n${body.trim()}${by}\n`;
}

function cut(title: string): string {
  const characters = [...title];
  return characters.length <= TITLE_LIMIT ? title : `${characters.slice(0, TITLE_LIMIT - 1).join('')}…`;
}

function failed({ logger }: DriftIssueOptions, answer: Refused): KeptIssue {
  logger.notice(`The issue about drift is not kept up to date. ${explain(answer)}`);
  return { action: 'failed', url: null };
}

function explain(answer: Refused): string {
  if (answer.kind === 'unavailable') return `${answer.message}.`;
  if (answer.status === 403 || answer.status === 404) {
    return `The token may not write issues: give the job "permissions: issues: write". (${answer.message})`;
  }
  if (answer.status === 410) return `Issues are turned off in this repository. (${answer.message})`;
  return `${answer.message}.`;
}
