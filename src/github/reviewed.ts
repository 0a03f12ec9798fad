import { type GitHubApi, PATIENT } from './api.js';

/** A plan check run that a pull request showed. */
export interface ShownPlan {
  readonly pullRequest: number;
  /** The pull request's head, on which the check run stands. */
  readonly head: string;
  /** The commit that it compared with, by its external id; null when it compared with none. */
  readonly base: string | null;
  /** The SHA-256 of its decisions, in hex digits. */
  readonly hash: string;
}

export type ShownPlanLookup =
  | { readonly kind: 'found'; readonly shown: ShownPlan }
  /** There is none. `why` is a sentence with the way out. */
  | { readonly kind: 'none'; readonly pullRequest: number | null; readonly why: string }
  /** GitHub does not say. */
  | { readonly kind: 'unknown'; readonly why: string };

export interface ShownPlanQuestion {
  readonly owner: string;
  readonly repo: string;
  /** The commit that is applied. */
  readonly commit: string;
  /** The branch that is applied, without `refs/heads/`. */
  readonly branch: string;
  /** The id of the app that made this run's own check run; null when it has none: then GitHub's own, which a job's token is. */
  readonly app: number | null;
}

/**
 * The newest plan check run of our app on the head of the pull request that brought a commit (section 5, "a plan that a
 * reviewer can trust"). Never throws.
 *
 * - The pull request is one that was merged into that branch; of several the one whose merge commit it is, else the
 *   newest.
 * - A check run counts by its app, by an external id that begins with `plan:` and by the hash in its summary; its name
 *   may be any.
 */
export async function findShownPlan(api: GitHubApi, question: ShownPlanQuestion): Promise<ShownPlanLookup> {
  const { owner, repo, commit, branch, app } = question;
  const pulls = await api.request({
    route: 'GET /repos/{owner}/{repo}/commits/{commit_sha}/pulls',
    parameters: { owner, repo, commit_sha: commit, per_page: 100 },
    patience: PATIENT,
  });
  if (pulls.kind !== 'ok') return { kind: 'unknown', why: explain(pulls, 'pull requests', 'pull-requests: read') };
  const pull = broughtBy(pulls.data, commit, branch);
  if (pull === null) {
    const why = `No pull request into ${branch} brought ${commit}: nobody reviewed a plan of it.`;
    return { kind: 'none', pullRequest: null, why };
  }
  const runs: unknown[] = [];
  // Every job of a workflow is a check run of GitHub's own app, so that one commit may have many.
  for (let page = 1; page <= MOST_PAGES; page++) {
    const answer = await api.request({
      route: 'GET /repos/{owner}/{repo}/commits/{ref}/check-runs',
      parameters: {
        owner,
        repo,
        ref: pull.head,
        filter: 'all',
        per_page: PAGE,
        page,
        ...(app === null ? {} : { app_id: app }),
      },
      patience: PATIENT,
    });
    if (answer.kind !== 'ok') return { kind: 'unknown', why: explain(answer, 'check runs', 'checks: write') };
    const found = list(at(answer.data, 'check_runs'));
    runs.push(...found);
    if (found.length < PAGE) break;
  }
  const shown = newestPlan(runs, app, pull);
  if (shown !== null) return { kind: 'found', shown };
  const why = `Pull request ${pull.number}, which brought ${commit}, has no plan check run of fleet-role on its head ${pull.head}: let the plan workflow run on every pull request.`;
  return { kind: 'none', pullRequest: pull.number, why };
}

const PAGE = 100;
const MOST_PAGES = 10;

interface Pull {
  readonly number: number;
  readonly head: string;
}

function broughtBy(data: unknown, commit: string, branch: string): Pull | null {
  const merged = list(data).filter(
    (pull) => typeof at(pull, 'merged_at') === 'string' && at(pull, 'base', 'ref') === branch,
  );
  const number = (pull: unknown): number => Number(at(pull, 'number'));
  const newest = merged.toSorted((a, b) => number(b) - number(a))[0];
  const pull = merged.find((one) => at(one, 'merge_commit_sha') === commit) ?? newest;
  const head = at(pull, 'head', 'sha');
  return pull === undefined || typeof head !== 'string' ? null : { number: number(pull), head };
}

function newestPlan(runs: readonly unknown[], app: number | null, pull: Pull): ShownPlan | null {
  const plans = runs.flatMap((run) => {
    const [mode, , , base = '', head] = String(at(run, 'external_id') ?? '').split(':');
    const hash = /sha256:([0-9a-f]{64})/.exec(String(at(run, 'output', 'summary') ?? ''))?.[1];
    const id = Number(at(run, 'id'));
    const isApp = app === null ? at(run, 'app', 'slug') === 'github-actions' : at(run, 'app', 'id') === app;
    const ours = isApp && mode === 'plan' && head === pull.head && hash !== undefined;
    const shown = { pullRequest: pull.number, head: pull.head, base: base === '' ? null : base };
    return ours && (base === '' || isCommit(base)) ? [{ id, shown: { ...shown, hash } }] : [];
  });
  return plans.toSorted((a, b) => b.id - a.id)[0]?.shown ?? null;
}

function isCommit(text: string): boolean {
  return /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(text);
}

type Answer = Awaited<ReturnType<GitHubApi['request']>>;

function explain(answer: Exclude<Answer, { kind: 'ok' }>, what: string, permission: string): string {
  if (answer.kind === 'refused' && (answer.status === 403 || answer.status === 404)) {
    return `The token may not read ${what}: give the job "permissions: ${permission}". (${answer.message})`;
  }
  return `GitHub does not say what was reviewed: ${answer.message}.`;
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function at(value: unknown, ...path: readonly string[]): unknown {
  let found = value;
  for (const name of path) {
    if (typeof found !== 'object' || found === null) return undefined;
    found = (found as Record<string, unknown>)[name];
  }
  return found;
}
