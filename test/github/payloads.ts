/**
 * Webhook payloads in the shape that GitHub documents for each event, cut to the fields around those that are read.
 * Each call makes a new one, so that a test may spoil it.
 */

export const SHA = {
  before: '1111111111111111111111111111111111111111',
  after: '2222222222222222222222222222222222222222',
  head: '3333333333333333333333333333333333333333',
  base: '4444444444444444444444444444444444444444',
  merge: '5555555555555555555555555555555555555555',
  tagObject: '6666666666666666666666666666666666666666',
  zeros: '0000000000000000000000000000000000000000',
} as const;

// biome-ignore lint/suspicious/noExplicitAny: JSON that tests spoil on purpose
type Json = any;

const repository = (fullName = 'acme/fleet'): Json => {
  const [login, name] = fullName.split('/');
  return {
    id: 186853002,
    name,
    full_name: fullName,
    private: false,
    owner: { login, id: 21031067, type: 'Organization' },
    html_url: `https://github.com/${fullName}`,
    fork: false,
    default_branch: 'main',
  };
};

const sender = { login: 'octocat', id: 583231, type: 'User' };

export function pullRequest(action = 'opened', headRepository: string | null = 'acme/fleet'): Json {
  const head =
    headRepository === null ? null : { ...repository(headRepository), fork: headRepository !== 'acme/fleet' };
  return {
    action,
    number: 7,
    pull_request: {
      id: 279147437,
      number: 7,
      state: action === 'closed' ? 'closed' : 'open',
      title: 'Move the server from node1 to node4',
      user: sender,
      merged: false,
      merge_commit_sha: SHA.merge,
      head: { label: 'acme:move', ref: 'move', sha: SHA.head, user: sender, repo: head },
      base: { label: 'acme:main', ref: 'main', sha: SHA.base, user: sender, repo: repository() },
      draft: false,
    },
    repository: repository(),
    sender,
    ...(action === 'synchronize' ? { before: SHA.before, after: SHA.head } : {}),
  };
}

export function push(ref = 'refs/heads/main', fields: Json = {}): Json {
  return {
    ref,
    before: SHA.before,
    after: SHA.after,
    created: false,
    deleted: false,
    forced: false,
    base_ref: null,
    compare: 'https://github.com/acme/fleet/compare/111111111111...222222222222',
    commits: [
      {
        id: SHA.after,
        message: 'Move the server',
        timestamp: '2026-09-01T10:00:00+02:00',
        added: [],
        removed: [],
        modified: ['inventory.yml'],
      },
    ],
    head_commit: { id: SHA.after, message: 'Move the server', timestamp: '2026-09-01T10:00:00+02:00' },
    repository: { ...repository(), master_branch: 'main' },
    pusher: { name: 'octocat', email: 'octocat@example.com' },
    sender,
    ...fields,
  };
}

export const pushes = {
  ordinary: (): Json => push(),
  forced: (): Json => push('refs/heads/main', { forced: true }),
  otherBranch: (): Json => push('refs/heads/move'),
  newBranch: (): Json => push('refs/heads/move', { before: SHA.zeros, created: true, commits: [] }),
  newMain: (): Json => push('refs/heads/main', { before: SHA.zeros, created: true }),
  deletedBranch: (): Json =>
    push('refs/heads/move', { after: SHA.zeros, deleted: true, commits: [], head_commit: null }),
  tag: (): Json =>
    push('refs/tags/v1.0.0', { before: SHA.zeros, created: true, base_ref: 'refs/heads/main', commits: [] }),
  annotatedTag: (): Json =>
    push('refs/tags/v1.0.0', {
      before: SHA.zeros,
      after: SHA.tagObject,
      created: true,
      base_ref: 'refs/heads/main',
      commits: [],
    }),
};

export const mergeGroup = (): Json => ({
  action: 'checks_requested',
  merge_group: {
    head_sha: SHA.after,
    head_ref: 'refs/heads/gh-readonly-queue/main/pr-7-4444444444444444444444444444444444444444',
    base_sha: SHA.base,
    base_ref: 'refs/heads/main',
    head_commit: { id: SHA.after, tree_id: SHA.merge, message: 'Merge pull request #7' },
  },
  repository: repository(),
  sender,
});

export const schedule = (): Json => ({ schedule: '17 4 * * *', workflow: '.github/workflows/drift.yml' });

export const workflowDispatch = (inputs: Json = null, ref = 'refs/heads/main'): Json => ({
  inputs,
  ref,
  workflow: '.github/workflows/rejoin.yml',
  repository: repository(),
  sender,
});

export const issueComment = (): Json => ({
  action: 'created',
  issue: {
    number: 7,
    title: 'Move the server',
    pull_request: { url: 'https://api.github.com/repos/acme/fleet/pulls/7' },
  },
  comment: { id: 1, body: '/apply', user: sender },
  repository: repository(),
  sender,
});

/** The environment that GitHub gives a run of this event. */
export function environmentOf(event: string, ref: string, sha: string): Record<string, string> {
  return {
    GITHUB_EVENT_NAME: event,
    GITHUB_REF: ref,
    GITHUB_SHA: sha,
    GITHUB_REPOSITORY: 'acme/fleet',
    GITHUB_SERVER_URL: 'https://github.com',
    GITHUB_API_URL: 'https://api.github.com',
    GITHUB_RUN_ID: '123456',
    GITHUB_RUN_ATTEMPT: '2',
  };
}
