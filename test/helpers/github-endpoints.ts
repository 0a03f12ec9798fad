import { spawnSync } from 'node:child_process';
import { OpenApi, type Operation } from './openapi.js';

// biome-ignore lint/suspicious/noExplicitAny: bodies of requests and answers are JSON that OpenApi has checked
type Json = any;

export interface WorldRepository {
  readonly fullName: string;
  readonly gitDir: string | null;
  readonly defaultBranch: string;
  readonly private: boolean;
  readonly fork: boolean;
}

export interface WorldAnnotation {
  readonly path: string;
  readonly start_line: number;
  readonly end_line: number;
  readonly annotation_level: 'notice' | 'warning' | 'failure';
  readonly message: string;
  readonly title?: string;
}

/** A check run as it stands, with all that was ever asked of it in `history`. */
export interface WorldCheckRun {
  readonly id: number;
  readonly repository: string;
  readonly headSha: string;
  /** The token that made it: only that one may change it. */
  readonly token: string;
  readonly url: string;
  name: string;
  status: string;
  conclusion: string | null;
  externalId: string | null;
  detailsUrl: string | null;
  startedAt: string;
  completedAt: string | null;
  title: string | null;
  summary: string | null;
  text: string | null;
  /** Of all requests together: GitHub appends them. */
  readonly annotations: WorldAnnotation[];
  /** The body of the create request and of each update, in order. */
  readonly history: Json[];
}

export interface WorldIssue {
  readonly number: number;
  readonly repository: string;
  readonly token: string;
  title: string;
  body: string;
  state: 'open' | 'closed';
  labels: string[];
  /** GitHub lists pull requests among the issues. */
  readonly isPullRequest?: boolean;
  readonly comments: string[];
}

export interface WorldPull {
  readonly repository: string;
  readonly number: number;
  readonly headSha: string;
  readonly headRef: string;
  readonly baseRef: string;
  readonly baseSha: string;
  readonly state: 'open' | 'closed';
  /** The commit that brought it to the base branch, or null. */
  readonly mergeCommitSha: string | null;
  readonly mergedAt: string | null;
  /** `owner/name` of the head's repository; another one than `repository` is a fork. */
  readonly headRepository?: string;
  /** Further commits that GitHub would associate with it. */
  readonly commits?: readonly string[];
}

export interface World {
  readonly repositories: Map<string, WorldRepository>;
  readonly checkRuns: WorldCheckRun[];
  readonly issues: WorldIssue[];
  readonly pulls: WorldPull[];
  nextId: number;
}

export interface Answer {
  readonly status: number;
  readonly body: unknown;
  readonly headers?: Record<string, string>;
  /** Set when the request breaks a rule of GitHub that its description has only in words. */
  readonly violation?: string;
}

export interface Asked {
  readonly query: URLSearchParams;
  readonly body: Json;
  readonly token: string;
  readonly accept: string;
  /** The base URL of the API. */
  readonly api: string;
  /** The path that was asked for, for the link to a list's next page. */
  readonly path: string;
}

interface Call extends Asked {
  readonly world: World;
  readonly repository: WorldRepository;
  readonly parameters: Readonly<Record<string, string>>;
}

const ENDPOINTS: Readonly<Record<string, (call: Call) => Answer>> = {
  'GET /repos/{owner}/{repo}': (c) => ({ status: 200, body: repositoryOf(c.repository) }),
  'POST /repos/{owner}/{repo}/check-runs': createCheckRun,
  'PATCH /repos/{owner}/{repo}/check-runs/{check_run_id}': updateCheckRun,
  'GET /repos/{owner}/{repo}/check-runs/{check_run_id}': (c) => withCheckRun(c, (run) => ok(checkRunOf(run))),
  'GET /repos/{owner}/{repo}/check-runs/{check_run_id}/annotations': (c) =>
    withCheckRun(c, (run) =>
      page(
        c,
        run.annotations.map((a) => ({ ...sample('check-annotation'), ...a })),
      ),
    ),
  'GET /repos/{owner}/{repo}/commits/{ref}/check-runs': listCheckRuns,
  'GET /repos/{owner}/{repo}/commits/{ref}': getCommit,
  'GET /repos/{owner}/{repo}/commits/{commit_sha}/pulls': (c) => {
    const sha = c.parameters.commit_sha ?? '';
    return page(
      c,
      pullsOf(c)
        .filter((p) => [p.headSha, p.mergeCommitSha, ...(p.commits ?? [])].includes(sha))
        .map(pullOf),
    );
  },
  'GET /repos/{owner}/{repo}/compare/{basehead}': compare,
  'GET /repos/{owner}/{repo}/compare/{base}...{head}': compare,
  'GET /repos/{owner}/{repo}/git/ref/{ref}': (c) => {
    const ref = `refs/${c.parameters.ref}`;
    const sha = git(c.repository, ['rev-parse', '--verify', '--quiet', ref]);
    return sha === null ? notFound() : ok(refOf(ref, sha));
  },
  'GET /repos/{owner}/{repo}/git/matching-refs/{ref}': (c) => {
    const list = git(c.repository, ['for-each-ref', '--format=%(refname) %(objectname)']) ?? '';
    const refs = list.split('\n').filter((line) => line.startsWith(`refs/${c.parameters.ref}`));
    return ok(refs.map((line) => refOf(...(line.split(' ') as [string, string]))));
  },
  'GET /repos/{owner}/{repo}/pulls': (c) => {
    const state = c.query.get('state') ?? 'open';
    const [head, base] = [c.query.get('head'), c.query.get('base')];
    const found = pullsOf(c).filter(
      (p) =>
        (state === 'all' || p.state === state) &&
        (base === null || p.baseRef === base) &&
        (head === null || head === `${(p.headRepository ?? p.repository).split('/')[0]}:${p.headRef}`),
    );
    return page(c, found.map(pullOf));
  },
  'POST /repos/{owner}/{repo}/issues': createIssue,
  'GET /repos/{owner}/{repo}/issues': (c) => {
    const state = c.query.get('state') ?? 'open';
    const labels = (c.query.get('labels') ?? '').split(',').filter((l) => l !== '');
    const found = issuesOf(c).filter(
      (i) => (state === 'all' || i.state === state) && labels.every((l) => i.labels.includes(l)),
    );
    return page(c, found.toReversed().map(issueOf));
  },
  'GET /repos/{owner}/{repo}/issues/{issue_number}': (c) => withIssue(c, (issue) => ok(issueOf(issue))),
  'PATCH /repos/{owner}/{repo}/issues/{issue_number}': (c) =>
    withIssue(c, (issue) => {
      if (c.body.title !== undefined) issue.title = String(c.body.title);
      if (c.body.body !== undefined) issue.body = c.body.body ?? '';
      if (c.body.state !== undefined) issue.state = c.body.state;
      if (c.body.labels !== undefined) issue.labels = labelNames(c.body.labels);
      return ok(issueOf(issue));
    }),
  'POST /repos/{owner}/{repo}/issues/{issue_number}/comments': (c) =>
    withIssue(c, (issue) => {
      issue.comments.push(c.body.body);
      return { status: 201, body: { ...sample('issue-comment'), id: c.world.nextId++, body: c.body.body } };
    }),
};

/** The ordinary answer to a request that is well formed and permitted, or null when this endpoint is not played. */
export function answerOf(world: World, operation: Operation, asked: Asked): Answer | null {
  const endpoint = ENDPOINTS[`${operation.method} ${operation.path}`];
  if (endpoint === undefined) return null;
  const fullName = `${operation.parameters.owner}/${operation.parameters.repo}`;
  const repository = world.repositories.get(fullName.toLowerCase());
  if (repository === undefined) return notFound();
  return endpoint({ ...asked, world, repository, parameters: operation.parameters });
}

function createCheckRun(c: Call): Answer {
  const sha: string = c.body.head_sha;
  if (!/^[0-9a-f]{40}$/.test(sha)) return invalid(`head_sha ${sha} is not a full SHA`);
  if (c.repository.gitDir !== null && git(c.repository, ['cat-file', '-e', `${sha}^{commit}`]) === null) {
    return { status: 422, body: { message: `No commit found for SHA: ${sha}` } };
  }
  const broken = checkRunRules(c.body);
  if (broken !== null) return invalid(broken);
  const id = c.world.nextId++;
  const run: WorldCheckRun = {
    id,
    repository: c.repository.fullName,
    headSha: sha,
    token: c.token,
    url: `${c.api}/repos/${c.repository.fullName}/check-runs/${id}`,
    name: c.body.name,
    status: 'queued',
    conclusion: null,
    externalId: null,
    detailsUrl: null,
    startedAt: new Date().toISOString(),
    completedAt: null,
    title: null,
    summary: null,
    text: null,
    annotations: [],
    history: [],
  };
  merge(run, c.body);
  c.world.checkRuns.push(run);
  return { status: 201, body: checkRunOf(run) };
}

function updateCheckRun(c: Call): Answer {
  return withCheckRun(c, (run) => {
    if (run.token !== c.token) {
      return {
        status: 403,
        body: { message: 'Invalid app_id - check run can only be modified by the app that created it' },
      };
    }
    const broken = checkRunRules(c.body);
    if (broken !== null) return invalid(broken);
    merge(run, c.body);
    return ok(checkRunOf(run));
  });
}

/** Rules that stand only in the words of GitHub's description. */
function checkRunRules(body: Json): string | null {
  if (body.status === 'completed' && body.conclusion === undefined) return 'a completed check run needs a conclusion';
  if (body.completed_at !== undefined && body.conclusion === undefined) return 'completed_at needs a conclusion';
  if (body.conclusion === 'stale') return 'only GitHub sets the conclusion stale';
  if (body.name === '') return 'the name is empty';
  for (const a of body.output?.annotations ?? []) {
    const at = `annotation on ${a.path}:${a.start_line}`;
    if (a.path === '' || a.path.startsWith('/')) return `${at}: the path is not relative to the repository`;
    if (a.start_line < 1 || a.end_line < a.start_line) return `${at}: lines start at 1 and do not run backwards`;
    if (a.start_column !== undefined && a.start_line !== a.end_line) return `${at}: columns need one line`;
    if (a.message === '') return `${at}: the message is empty`;
    if (Buffer.byteLength(a.message) > 64 * 1024) return `${at}: the message is over 64 KB`;
    if (Buffer.byteLength(a.raw_details ?? '') > 64 * 1024) return `${at}: raw_details is over 64 KB`;
    if ([...(a.title ?? '')].length > 255) return `${at}: the title is over 255 characters`;
  }
  return null;
}

function merge(run: WorldCheckRun, body: Json): void {
  run.history.push(body);
  if (body.name !== undefined) run.name = body.name;
  if (body.external_id !== undefined) run.externalId = body.external_id;
  if (body.details_url !== undefined) run.detailsUrl = body.details_url;
  if (body.started_at !== undefined) run.startedAt = body.started_at;
  if (body.status !== undefined) {
    run.status = body.status;
    if (body.status !== 'completed') {
      run.conclusion = null;
      run.completedAt = null;
    }
  }
  if (body.conclusion !== undefined) {
    // GitHub: giving a conclusion completes the run.
    run.conclusion = body.conclusion;
    run.status = 'completed';
    run.completedAt = body.completed_at ?? new Date().toISOString();
  }
  if (body.output !== undefined) {
    if (body.output.title !== undefined) run.title = body.output.title;
    run.summary = body.output.summary;
    run.text = body.output.text ?? null;
    run.annotations.push(...(body.output.annotations ?? []));
  }
}

function listCheckRuns(c: Call): Answer {
  const sha = resolve(c.repository, c.parameters.ref ?? '');
  if (sha === null) return { status: 422, body: { message: `No commit found for SHA: ${c.parameters.ref}` } };
  const [name, status, app] = [c.query.get('check_name'), c.query.get('status'), c.query.get('app_id')];
  let found = c.world.checkRuns.filter(
    (r) =>
      r.repository === c.repository.fullName &&
      r.headSha === sha &&
      (name === null || r.name === name) &&
      (app === null || appOf(r.token).id === Number(app)) &&
      (status === null || r.status === status),
  );
  if (c.query.get('filter') !== 'all') {
    // "latest": the newest of each name.
    found = found.filter((r) => !found.some((o) => o.name === r.name && o.id > r.id));
  }
  const answer = page(c, found.toReversed().map(checkRunOf));
  return { ...answer, body: { total_count: found.length, check_runs: answer.body } };
}

function getCommit(c: Call): Answer {
  const ref = c.parameters.ref ?? '';
  const sha = resolve(c.repository, ref);
  if (sha === null) return { status: 422, body: { message: `No commit found for SHA: ${ref}` } };
  if (c.accept.includes('.sha')) return { status: 200, body: sha };
  return ok(commitOf(c.repository, sha));
}

function compare(c: Call): Answer {
  const [baseRef, headRef] = (c.parameters.basehead ?? `${c.parameters.base}...${c.parameters.head}`).split('...');
  const base = resolve(c.repository, baseRef ?? '');
  const head = resolve(c.repository, headRef ?? '');
  if (base === null || head === null || c.repository.gitDir === null) return notFound();
  const mergeBase = git(c.repository, ['merge-base', base, head]);
  if (mergeBase === null)
    return { status: 404, body: { message: `No common ancestor between ${baseRef} and ${headRef}.` } };
  const list = (range: string) =>
    (git(c.repository, ['rev-list', '--reverse', range]) ?? '').split('\n').filter(Boolean);
  const ahead = list(`${base}..${head}`);
  const behind = list(`${head}..${base}`).length;
  const status =
    ahead.length > 0 && behind > 0 ? 'diverged' : ahead.length > 0 ? 'ahead' : behind > 0 ? 'behind' : 'identical';
  const perPage = Number(c.query.get('per_page') ?? 250);
  const first = (Number(c.query.get('page') ?? 1) - 1) * perPage;
  const files = (git(c.repository, ['diff', '--name-status', '--no-renames', mergeBase, head]) ?? '')
    .split('\n')
    .filter(Boolean);
  return ok({
    ...sample('commit-comparison'),
    base_commit: commitOf(c.repository, base),
    merge_base_commit: commitOf(c.repository, mergeBase),
    status,
    ahead_by: ahead.length,
    behind_by: behind,
    total_commits: ahead.length,
    commits: ahead.slice(first, first + perPage).map((sha) => commitOf(c.repository, sha)),
    files: files.slice(0, 300).map((line) => {
      const [letter, filename] = line.split('\t');
      return {
        ...sample('diff-entry'),
        filename,
        status: letter === 'A' ? 'added' : letter === 'D' ? 'removed' : 'modified',
      };
    }),
  });
}

function createIssue(c: Call): Answer {
  const issue: WorldIssue = {
    number: c.world.issues.length + 1,
    repository: c.repository.fullName,
    token: c.token,
    title: String(c.body.title),
    body: c.body.body ?? '',
    state: 'open',
    labels: labelNames(c.body.labels ?? []),
    comments: [],
  };
  c.world.issues.push(issue);
  return { status: 201, body: issueOf(issue) };
}

function labelNames(labels: Json[]): string[] {
  return labels.map((label) => (typeof label === 'string' ? label : label.name));
}

function withCheckRun(c: Call, then: (run: WorldCheckRun) => Answer): Answer {
  const id = Number(c.parameters.check_run_id);
  const run = c.world.checkRuns.find((r) => r.id === id && r.repository === c.repository.fullName);
  return run === undefined ? notFound() : then(run);
}

function withIssue(c: Call, then: (issue: WorldIssue) => Answer): Answer {
  const issue = issuesOf(c).find((i) => i.number === Number(c.parameters.issue_number));
  return issue === undefined ? notFound() : then(issue);
}

function issuesOf(c: Call): WorldIssue[] {
  return c.world.issues.filter((i) => i.repository === c.repository.fullName);
}

function pullsOf(c: Call): WorldPull[] {
  return c.world.pulls.filter((p) => p.repository === c.repository.fullName);
}

/** One page of a list, with GitHub's Link header where there are more. */
function page(c: Call, all: Json[]): Answer {
  const perPage = Math.min(Number(c.query.get('per_page') ?? 30), 100);
  const number = Number(c.query.get('page') ?? 1);
  const body = all.slice((number - 1) * perPage, number * perPage);
  if (number * perPage >= all.length) return ok(body);
  const next = new URLSearchParams(c.query);
  next.set('page', String(number + 1));
  return { status: 200, body, headers: { link: `<${c.api}${c.path}?${next}>; rel="next"` } };
}

function ok(body: unknown): Answer {
  return { status: 200, body };
}

function notFound(): Answer {
  return {
    status: 404,
    body: { message: 'Not Found', documentation_url: 'https://docs.github.com/rest', status: '404' },
  };
}

function invalid(message: string): Answer {
  return { status: 422, body: { message: `Validation Failed: ${message}` }, violation: message };
}

/** Output of git in the repository without its last newline, or null when it fails or there is no repository. */
function git(repository: WorldRepository, args: readonly string[]): string | null {
  if (repository.gitDir === null) return null;
  const result = spawnSync('git', ['-C', repository.gitDir, ...args], { encoding: 'utf8' });
  return result.status === 0 ? result.stdout.replace(/\n$/, '') : null;
}

/** The commit that a ref or SHA names, or null. Without a real repository a full SHA names itself. */
function resolve(repository: WorldRepository, ref: string): string | null {
  if (repository.gitDir === null) return /^[0-9a-f]{40}$/.test(ref) ? ref : null;
  if (ref === '' || ref.startsWith('-')) return null;
  return git(repository, ['rev-parse', '--verify', '--quiet', `${ref}^{commit}`]);
}

function sample(component: string): Json {
  return OpenApi.shared().sample(component);
}

function repositoryOf(repository: WorldRepository): Json {
  const [owner, name] = repository.fullName.split('/');
  return {
    ...sample('full-repository'),
    name,
    full_name: repository.fullName,
    owner: { ...sample('simple-user'), login: owner },
    default_branch: repository.defaultBranch,
    private: repository.private,
    fork: repository.fork,
  };
}

function checkRunOf(run: WorldCheckRun): Json {
  return {
    ...sample('check-run'),
    id: run.id,
    name: run.name,
    head_sha: run.headSha,
    external_id: run.externalId,
    url: run.url,
    html_url: `https://github.com/${run.repository}/runs/${run.id}`,
    details_url: run.detailsUrl,
    status: run.status,
    conclusion: run.conclusion,
    started_at: run.startedAt,
    completed_at: run.completedAt,
    output: {
      title: run.title,
      summary: run.summary,
      text: run.text,
      annotations_count: run.annotations.length,
      annotations_url: `${run.url}/annotations`,
    },
    app: { ...sample('integration'), ...appOf(run.token) },
  };
}

/** Tokens of jobs are GitHub's own app; one that is called `app-…` is that of another app. */
function appOf(token: string): { id: number; slug: string; name: string } {
  return token.startsWith('app-')
    ? { id: 4_711, slug: 'another-app', name: 'Another App' }
    : { id: 15_368, slug: 'github-actions', name: 'GitHub Actions' };
}

function commitOf(repository: WorldRepository, sha: string): Json {
  const format =
    git(repository, ['log', '-1', '--format=%T %cI %P%n%B', sha]) ?? `${'0'.repeat(40)} 2026-01-01T00:00:00Z `;
  const [head, ...message] = format.split('\n');
  const [tree, date, ...parents] = (head ?? '').split(' ').filter(Boolean);
  const base = sample('commit');
  const person = { name: 'Fleet', email: 'fleet@example.com', date };
  return {
    ...base,
    sha,
    html_url: `https://github.com/${repository.fullName}/commit/${sha}`,
    parents: parents.map((parent) => ({ sha: parent, url: 'https://example.com/', html_url: 'https://example.com/' })),
    commit: {
      ...base.commit,
      message: message.join('\n').trim(),
      tree: { ...base.commit.tree, sha: tree },
      author: person,
      committer: person,
    },
  };
}

function refOf(ref: string, sha: string): Json {
  const base = sample('git-ref');
  return { ...base, ref, object: { ...base.object, type: 'commit', sha } };
}

function pullOf(pull: WorldPull): Json {
  const base = sample('pull-request-simple');
  const side = (given: Json, repository: string, ref: string, sha: string): Json => ({
    ...given,
    label: `${repository.split('/')[0]}:${ref}`,
    ref,
    sha,
    repo: { ...sample('repository'), full_name: repository, name: repository.split('/')[1] },
  });
  return {
    ...base,
    number: pull.number,
    state: pull.state,
    html_url: `https://github.com/${pull.repository}/pull/${pull.number}`,
    merge_commit_sha: pull.mergeCommitSha,
    merged_at: pull.mergedAt,
    head: side(base.head, pull.headRepository ?? pull.repository, pull.headRef, pull.headSha),
    base: side(base.base, pull.repository, pull.baseRef, pull.baseSha),
  };
}

const PULL_OF_ISSUE = Object.fromEntries([
  ...['url', 'html_url', 'diff_url', 'patch_url'].map((name) => [name, 'https://github.com/octo/fleet/pull/2']),
  ['merged_at', null],
]);

function issueOf(issue: WorldIssue): Json {
  return {
    ...sample('issue'),
    number: issue.number,
    title: issue.title,
    body: issue.body,
    state: issue.state,
    labels: issue.labels.map((name) => ({ name })),
    ...(issue.isPullRequest === true ? { pull_request: PULL_OF_ISSUE } : {}),
    comments: issue.comments.length,
    html_url: `https://github.com/${issue.repository}/issues/${issue.number}`,
  };
}
