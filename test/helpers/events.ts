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
  },
): ActionEvent {
  const ref = given.ref ?? 'refs/heads/main';
  const after = given.after ?? ZEROS;
  const payload = {
    ref,
    before: given.before ?? ZEROS,
    after,
    created: given.before === null,
    deleted: given.after === null,
    forced: given.forced ?? false,
    head_commit: given.after === null ? null : { id: after },
    commits: given.after === null ? [] : [{ id: after, distinct: true }],
    ...common(given),
  };
  // For a deleted branch GitHub runs the workflow of the default branch.
  return { name: 'push', payload, sha: after, ref };
}

/** A pull request from a branch, or from a fork when `headRepository` is another one. */
export function pullRequestEvent(
  given: RepositoryFacts & {
    readonly number?: number;
    readonly headSha: string;
    readonly headRef?: string;
    readonly headRepository?: string;
    readonly baseSha: string;
    readonly baseRef?: string;
    /** The merge commit that GitHub makes for the run: GITHUB_SHA. Default: a SHA that is nowhere. */
    readonly mergeSha?: string;
    readonly action?: 'opened' | 'synchronize' | 'reopened' | 'closed';
    readonly target?: boolean;
  },
): ActionEvent {
  const number = given.number ?? 7;
  const repository = given.repository ?? 'octo/fleet';
  const headRef = given.headRef ?? 'change';
  const baseRef = given.baseRef ?? 'main';
  const headRepository = given.headRepository ?? repository;
  const side = (fullName: string, ref: string, sha: string) => ({
    label: `${fullName.split('/')[0]}:${ref}`,
    ref,
    sha,
    repo: { ...repositoryOf(fullName, given.defaultBranch), fork: fullName !== repository },
  });
  const payload = {
    action: given.action ?? 'opened',
    number,
    pull_request: {
      number,
      state: given.action === 'closed' ? 'closed' : 'open',
      merged: false,
      html_url: `https://github.com/${repository}/pull/${number}`,
      head: side(headRepository, headRef, given.headSha),
      base: side(repository, baseRef, given.baseSha),
      merge_commit_sha: given.mergeSha ?? null,
      user: { login: 'octocat', type: 'User' },
    },
    ...common(given),
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

/** A workflow started by hand on a branch. */
export function dispatchEvent(
  given: RepositoryFacts & {
    readonly sha: string;
    readonly ref?: string;
    readonly inputs?: Readonly<Record<string, string>>;
  },
): ActionEvent {
  const ref = given.ref ?? 'refs/heads/main';
  const payload = { ref, inputs: given.inputs ?? {}, workflow: '.github/workflows/fleet.yml', ...common(given) };
  return { name: 'workflow_dispatch', payload, sha: given.sha, ref };
}

/** A scheduled run: always on the default branch. */
export function scheduleEvent(given: RepositoryFacts & { readonly sha: string }): ActionEvent {
  const payload = { schedule: '0 4 * * *', workflow: '.github/workflows/fleet.yml', ...common(given) };
  return { name: 'schedule', payload, sha: given.sha, ref: `refs/heads/${given.defaultBranch ?? 'main'}` };
}

/** A merge queue's group of pull requests. */
export function mergeGroupEvent(
  given: RepositoryFacts & { readonly headSha: string; readonly baseSha: string },
): ActionEvent {
  const ref = `refs/heads/gh-readonly-queue/main/pr-7-${given.baseSha}`;
  const payload = {
    action: 'checks_requested',
    merge_group: { head_sha: given.headSha, head_ref: ref, base_sha: given.baseSha, base_ref: 'refs/heads/main' },
    ...common(given),
  };
  return { name: 'merge_group', payload, sha: given.headSha, ref };
}

function common(given: RepositoryFacts): Record<string, unknown> {
  return {
    repository: repositoryOf(given.repository ?? 'octo/fleet', given.defaultBranch),
    sender: { login: 'octocat', type: 'User' },
  };
}

function repositoryOf(fullName: string, defaultBranch = 'main') {
  const [owner, name] = fullName.split('/');
  return {
    id: 1,
    name,
    full_name: fullName,
    owner: { login: owner },
    default_branch: defaultBranch,
    private: true,
    fork: false,
    html_url: `https://github.com/${fullName}`,
  };
}
