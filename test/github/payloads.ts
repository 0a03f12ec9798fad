import {
  dispatchEvent,
  mergeGroupEvent,
  type PullRequestAction,
  pullRequestEvent,
  pushEvent,
} from '../helpers/events.js';
import { exampleOf } from '../helpers/webhooks.js';

/**
 * Webhook payloads as GitHub publishes them, with the facts of the tests.
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

const WHERE = { repository: 'acme/fleet' };

export function pullRequest(
  action: PullRequestAction | 'submitted' = 'opened',
  headRepository: string | null = 'acme/fleet',
): Json {
  const known = action === 'submitted' ? 'opened' : action;
  const facts = { ...WHERE, headSha: SHA.head, baseSha: SHA.base, mergeSha: SHA.merge, headRepository };
  return { ...pullRequestEvent({ ...facts, action: known }).payload, action };
}

const push = (given: Partial<Parameters<typeof pushEvent>[0]> = {}): Json =>
  pushEvent({ ...WHERE, before: SHA.before, after: SHA.after, ...given }).payload;

export const pushes = {
  ordinary: (): Json => push(),
  several: (): Json => push({ commits: [SHA.head, SHA.base, SHA.after] }),
  forced: (): Json => push({ forced: true }),
  otherBranch: (): Json => push({ ref: 'refs/heads/move' }),
  newBranch: (): Json => push({ ref: 'refs/heads/move', before: null }),
  newMain: (): Json => push({ before: null }),
  deletedBranch: (): Json => push({ ref: 'refs/heads/move', after: null }),
  tag: (): Json => push({ ref: 'refs/tags/v1.0.0', before: null }),
  annotatedTag: (): Json => push({ ref: 'refs/tags/v1.0.0', before: null, after: SHA.tagObject, tagged: SHA.after }),
};

export const mergeGroup = (): Json => mergeGroupEvent({ ...WHERE, headSha: SHA.after, baseSha: SHA.base }).payload;

/** All that a scheduled run is sure to have. */
export const schedule = (): Json => ({ schedule: '17 4 * * *', workflow: '.github/workflows/drift.yml' });

export const workflowDispatch = (inputs: Record<string, string> | null = null, ref = 'refs/heads/main'): Json =>
  dispatchEvent({ ...WHERE, sha: SHA.after, inputs, ref }).payload;

export const issueComment = (): Json => {
  const example = exampleOf('issue_comment', ({ action }) => action === 'created');
  return { ...example, repository: pullRequest().repository };
};

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
