import { exampleOf } from './webhooks.js';

/** What the runner knows of the event that started a workflow. */
export interface ActionEvent {
  /** GITHUB_EVENT_NAME */
  readonly name: string;
  /** The file at GITHUB_EVENT_PATH. */
  readonly payload: Readonly<Record<string, unknown>>;
  /** GITHUB_SHA */
  readonly sha: string;
  /** GITHUB_REF, e.g. `refs/heads/main`. */
  readonly ref: string;
  /** GITHUB_HEAD_REF and GITHUB_BASE_REF: set for pull requests only. */
  readonly headRef?: string;
  readonly baseRef?: string;
}

const ZEROS = '0'.repeat(40);

export interface RepositoryFacts {
  /** `owner/name`. Default: octo/fleet. */
  readonly repository?: string;
  readonly defaultBranch?: string;
}

/** A push to a branch or tag. `before: null` is a new branch, `after: null` a deleted one (GitHub sends zeros). */
export function pushEvent(
  given: RepositoryFacts & {
    readonly before: string | null;
    readonly after: string | null;
    /** Default: `refs/heads/main`. */
    readonly ref?: string;
    readonly forced?: boolean;
    /** The commits of the push, oldest first. Default: `after` alone. */
    readonly commits?: readonly string[];
    /** The commit of an annotated tag, whose `after` is the tag's own object. Default: `after`. */
    readonly tagged?: string;
  },
): ActionEvent {
  const ref = given.ref ?? 'refs/heads/main';
  const after = given.after ?? ZEROS;
  const commit = given.tagged ?? after;
  const example = exampleOf('push', (push) => push.ref.startsWith('refs/heads/') && push.head_commit !== null);
  const one = example.head_commit;
  const deleted = given.after === null;
  const payload = {
    ...example,
    ref,
    before: given.before ?? ZEROS,
    after,
    created: given.before === null,
    deleted,
    forced: given.forced ?? false,
    base_ref: ref.startsWith('refs/tags/') ? 'refs/heads/main' : null,
    head_commit: deleted ? null : { ...one, id: commit },
    // GitHub lists none for a tag: its commits were pushed with their branch.
    commits: deleted || ref.startsWith('refs/tags/') ? [] : (given.commits ?? [after]).map((id) => ({ ...one, id })),
  };
  // For a deleted branch GitHub runs the workflow of the default branch.
  return { name: 'push', payload: within(payload, given), sha: commit, ref };
}

export type PullRequestAction = 'opened' | 'synchronize' | 'reopened' | 'closed';

/** A pull request from a branch, or from a fork when `headRepository` is another one (null: a fork that is gone). */
export function pullRequestEvent(
  given: RepositoryFacts & {
    readonly number?: number;
    readonly headSha: string;
    readonly headRef?: string;
    readonly headRepository?: string | null;
    readonly baseSha: string;
    readonly baseRef?: string;
    /** The merge commit that GitHub makes for the run: GITHUB_SHA. Default: a SHA that is nowhere. */
    readonly mergeSha?: string;
    readonly action?: PullRequestAction;
    readonly target?: boolean;
    /** Who opened it. Default: octocat. */
    readonly author?: string;
    readonly merged?: boolean;
  },
): ActionEvent {
  const number = given.number ?? 7;
  const repository = given.repository ?? 'octo/fleet';
  const headRef = given.headRef ?? 'change';
  const baseRef = given.baseRef ?? 'main';
  const headRepository = given.headRepository === undefined ? repository : given.headRepository;
  const action = given.action ?? 'opened';
  const example = within(
    exampleOf('pull_request', (event) => event.action === action),
    given,
  );
  const { pull_request: pull } = example;
  const author = given.author ?? 'octocat';
  const user = { ...pull.user, login: author, type: author.endsWith('[bot]') ? 'Bot' : 'User' };
  const side = (fullName: string | null, ref: string, sha: string, was: Json) => ({
    ...was,
    label: `${(fullName ?? 'unknown').split('/')[0]}:${ref}`,
    ref,
    sha,
    repo: fullName === null ? null : { ...named(was.repo, fullName), fork: fullName !== repository },
  });
  const payload = {
    ...example,
    number,
    ...(action === 'synchronize' ? { after: given.headSha } : {}),
    pull_request: {
      ...pull,
      number,
      user,
      state: action === 'closed' ? 'closed' : 'open',
      merged: given.merged ?? false,
      html_url: `https://github.com/${repository}/pull/${number}`,
      head: side(headRepository, headRef, given.headSha, pull.head),
      base: side(repository, baseRef, given.baseSha, pull.base),
      merge_commit_sha: given.mergeSha ?? null,
    },
    sender: { ...example.sender, login: author, type: user.type },
  };
  return given.target === true
    ? { name: 'pull_request_target', payload, sha: given.baseSha, ref: `refs/heads/${baseRef}`, headRef, baseRef }
    : {
        name: 'pull_request',
        payload,
        sha: given.mergeSha ?? 'e'.repeat(40),
        ref: `refs/pull/${number}/merge`,
        headRef,
        baseRef,
      };
}

/** A workflow started by hand on a branch. `inputs: null`: it has none. */
export function dispatchEvent(
  given: RepositoryFacts & {
    readonly sha: string;
    readonly ref?: string;
    readonly inputs?: Readonly<Record<string, string>> | null;
  },
): ActionEvent {
  const ref = given.ref ?? 'refs/heads/main';
  const payload = {
    ...exampleOf('workflow_dispatch'),
    ref,
    inputs: given.inputs === undefined ? {} : given.inputs,
    workflow: '.github/workflows/fleet.yml',
  };
  return { name: 'workflow_dispatch', payload: within(payload, given), sha: given.sha, ref };
}

/** A scheduled run: always on the default branch. No webhook: its payload is the schedule and what every event has. */
export function scheduleEvent(given: RepositoryFacts & { readonly sha: string }): ActionEvent {
  const { repository, sender } = exampleOf('workflow_dispatch');
  const payload = { schedule: '17 4 * * *', workflow: '.github/workflows/fleet.yml', repository, sender };
  const ref = `refs/heads/${given.defaultBranch ?? 'main'}`;
  return { name: 'schedule', payload: within(payload, given), sha: given.sha, ref };
}

/** A merge queue's group of pull requests. */
export function mergeGroupEvent(
  given: RepositoryFacts & { readonly headSha: string; readonly baseSha: string },
): ActionEvent {
  const ref = `refs/heads/gh-readonly-queue/main/pr-7-${given.baseSha}`;
  const example = exampleOf('merge_group');
  const payload = {
    ...example,
    merge_group: {
      ...example.merge_group,
      head_sha: given.headSha,
      head_ref: ref,
      base_sha: given.baseSha,
      base_ref: 'refs/heads/main',
      head_commit: { ...example.merge_group.head_commit, id: given.headSha },
    },
  };
  return { name: 'merge_group', payload: within(payload, given), sha: given.headSha, ref };
}

// biome-ignore lint/suspicious/noExplicitAny: payloads are JSON
type Json = any;

/** The payload with the repository of the test in place of the example's. */
function within(payload: Json, given: RepositoryFacts): Json {
  const repository = named(payload.repository, given.repository ?? 'octo/fleet');
  return { ...payload, repository: { ...repository, default_branch: given.defaultBranch ?? 'main' } };
}

/** A repository under another name, its addresses included. */
function named(repository: Json, fullName: string): Json {
  const renamed = JSON.parse(JSON.stringify(repository).replaceAll(repository.full_name, fullName));
  const [login, name] = fullName.split('/');
  return { ...renamed, name, owner: { ...renamed.owner, login }, default_branch: 'main' };
}
