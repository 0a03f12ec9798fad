import { describe, expect, test } from 'vitest';
import { UserError } from '../../src/errors.js';
import {
  type BaseSpec,
  type EventContext,
  type EventInputs,
  type HeadSpec,
  readEvent,
  readWorkflowRun,
} from '../../src/github/events.js';
import { webhookProblems } from '../helpers/webhooks.js';
import {
  environmentOf,
  issueComment,
  mergeGroup,
  pullRequest,
  pushes,
  SHA,
  schedule,
  workflowDispatch,
} from './payloads.js';

const NO_INPUTS: EventInputs = {
  mode: 'auto',
  repository: null,
  ref: null,
  baseRef: null,
  branch: null,
  observe: false,
};

const MAIN = 'refs/heads/main';
const events = {
  opened: ['pull_request', 'refs/pull/7/merge', SHA.merge, pullRequest('opened')],
  synchronized: ['pull_request', 'refs/pull/7/merge', SHA.merge, pullRequest('synchronize')],
  reopened: ['pull_request', 'refs/pull/7/merge', SHA.merge, pullRequest('reopened')],
  fromFork: ['pull_request', 'refs/pull/7/merge', SHA.merge, pullRequest('opened', 'stranger/fleet')],
  fromGoneFork: ['pull_request', 'refs/pull/7/merge', SHA.merge, pullRequest('opened', null)],
  closed: ['pull_request', MAIN, SHA.base, pullRequest('closed')],
  target: ['pull_request_target', MAIN, SHA.base, pullRequest('opened', 'stranger/fleet')],
  review: ['pull_request_review', 'refs/pull/7/merge', SHA.merge, pullRequest('submitted')],
  push: ['push', MAIN, SHA.after, pushes.ordinary()],
  several: ['push', MAIN, SHA.after, pushes.several()],
  forced: ['push', MAIN, SHA.after, pushes.forced()],
  newMain: ['push', MAIN, SHA.after, pushes.newMain()],
  otherBranch: ['push', 'refs/heads/move', SHA.after, pushes.otherBranch()],
  newBranch: ['push', 'refs/heads/move', SHA.after, pushes.newBranch()],
  deleted: ['push', 'refs/heads/move', SHA.base, pushes.deletedBranch()],
  tag: ['push', 'refs/tags/v1.0.0', SHA.after, pushes.tag()],
  annotatedTag: ['push', 'refs/tags/v1.0.0', SHA.after, pushes.annotatedTag()],
  mergeGroup: ['merge_group', 'refs/heads/gh-readonly-queue/main/pr-7-4444', SHA.after, mergeGroup()],
  schedule: ['schedule', MAIN, SHA.after, schedule()],
  dispatch: ['workflow_dispatch', MAIN, SHA.after, workflowDispatch()],
  dispatchElsewhere: ['workflow_dispatch', 'refs/heads/move', SHA.after, workflowDispatch(null, 'refs/heads/move')],
  comment: ['issue_comment', MAIN, SHA.after, issueComment()],
  release: ['release', 'refs/tags/v1.0.0', SHA.after, {}],
} as const;

/** `schedule` is no webhook; a review, a release and a comment are read for what they share with the others. */
const NOT_PUBLISHED = ['schedule', 'review', 'release', 'target'];

describe('the payloads of these tests', () => {
  const checked = Object.entries(events).filter(([name]) => !NOT_PUBLISHED.includes(name));

  test.each(checked)('are as GitHub publishes them: %s', (_name, [event, , , payload]) => {
    expect(webhookProblems(event, payload)).toEqual([]);
  });

  test('are found to differ where a field is missing or of another kind', () => {
    const { before: _, ...without } = pushes.ordinary();
    expect(webhookProblems('push', without)).toEqual([expect.stringContaining('before')]);
    expect(webhookProblems('push', { ...pushes.ordinary(), forced: 'no' })).not.toEqual([]);
  });
});

function read(name: keyof typeof events, inputs: Partial<EventInputs> = {}): EventContext {
  const [event, ref, sha, payload] = events[name];
  return readEvent(environmentOf(event, ref, sha), payload, { ...NO_INPUTS, ...inputs });
}

function run(name: keyof typeof events, inputs: Partial<EventInputs> = {}): EventContext & { kind: 'run' } {
  const context = read(name, inputs);
  if (context.kind !== 'run') throw new Error(`nothing to do: ${context.reason}`);
  return context;
}

const mergeBase: BaseSpec = { kind: 'merge-base', branch: 'main', tip: SHA.base };
const record: BaseSpec = { kind: 'record', orElse: { kind: 'none' } };
const recordOrBefore: BaseSpec = { kind: 'record', orElse: { kind: 'ancestor', sha: SHA.before } };
const none: BaseSpec = { kind: 'none' };

describe('readEvent without a mode', () => {
  test.each<[keyof typeof events, string, BaseSpec, string, boolean]>([
    ['opened', 'plan', mergeBase, SHA.head, false],
    ['synchronized', 'plan', mergeBase, SHA.head, false],
    ['reopened', 'plan', mergeBase, SHA.head, false],
    ['fromFork', 'plan', mergeBase, SHA.head, false],
    ['fromGoneFork', 'plan', mergeBase, SHA.head, false],
    ['push', 'apply', recordOrBefore, SHA.after, true],
    ['several', 'apply', recordOrBefore, SHA.after, true],
    ['forced', 'apply', recordOrBefore, SHA.after, true],
    ['newMain', 'apply', record, SHA.after, true],
    ['otherBranch', 'plan', { kind: 'sha', sha: SHA.before }, SHA.after, false],
    ['newBranch', 'plan', none, SHA.after, false],
    ['tag', 'plan', none, SHA.after, false],
    ['annotatedTag', 'plan', none, SHA.after, false],
    ['mergeGroup', 'plan', none, SHA.after, false],
    ['schedule', 'drift', record, SHA.after, true],
    ['dispatch', 'plan', none, SHA.after, false],
    ['dispatchElsewhere', 'plan', none, SHA.after, false],
  ])('takes %s as %s, with its base, head and check run', (name, mode, base, commit, contactsHosts) => {
    expect(run(name)).toMatchObject({
      mode,
      refusal: null,
      base,
      head: { kind: 'sha', sha: commit },
      checkCommit: commit,
      contactsHosts,
      fleetBranch: 'main',
      repository: { own: 'acme/fleet', fleet: 'acme/fleet', isOwn: true },
    });
  });

  test.each(['deleted', 'closed'] as const)('has nothing to do for %s', (name) => {
    expect(read(name).kind).toBe('nothing');
    expect(read(name, { mode: 'plan' }).kind).toBe('nothing');
  });

  test.each(['target', 'review', 'comment', 'release'] as const)('asks for the mode on %s', (name) => {
    expect(() => read(name)).toThrow(UserError);
    expect(() => read(name)).toThrow('set the input mode');
    expect(run(name, { mode: 'plan' }).mode).toBe('plan');
  });

  test('applies the branch that the input names, and plans the default branch then', () => {
    expect(run('otherBranch', { branch: 'move' }).mode).toBe('apply');
    expect(run('otherBranch', { branch: 'refs/heads/move' }).mode).toBe('apply');
    expect(run('push', { branch: 'move' }).mode).toBe('plan');
  });

  test('never takes a tag or a longer name for the fleet branch', () => {
    expect(run('tag', { branch: 'v1.0.0' }).mode).toBe('plan');
    expect(run('otherBranch', { branch: 'mov' }).mode).toBe('plan');
  });
});

describe('apply and rejoin', () => {
  test.each<[keyof typeof events, Partial<EventInputs>]>([
    ['push', {}],
    ['dispatch', {}],
    ['schedule', {}],
    ['comment', {}],
    ['otherBranch', { branch: 'move' }],
  ])('are allowed on %s', (name, inputs) => {
    for (const mode of ['apply', 'rejoin'] as const) {
      const context = run(name, { ...inputs, mode });
      expect(context).toMatchObject({ mode, refusal: null, contactsHosts: true, trustsInventory: true });
    }
  });

  test.each<[keyof typeof events, Partial<EventInputs>]>([
    ['opened', {}],
    ['fromFork', { observe: true }],
    ['opened', { observe: true, branch: 'refs/pull/7/merge' }],
    ['closed', {}],
    ['target', {}],
    ['review', {}],
    ['otherBranch', {}],
    ['push', { branch: 'move' }],
    ['tag', {}],
    ['tag', { branch: 'v1.0.0' }],
    ['mergeGroup', {}],
    ['dispatchElsewhere', {}],
    ['release', { branch: 'main' }],
  ])('are refused on %s', (name, inputs) => {
    for (const mode of ['apply', 'rejoin'] as const) {
      const { refusal, pullRequest, contactsHosts } = run(name, { ...inputs, mode });
      expect(refusal).toMatchObject({ code: 'not-fleet-branch', hosts: [] });
      expect(refusal?.message).toMatch(/use mode plan here|run the workflow there/);
      if (pullRequest !== null) expect(contactsHosts).toBe(false);
    }
  });

  test('need a branch that the event or the input names', () => {
    const env = environmentOf('workflow_dispatch', MAIN, SHA.after);
    expect(() => readEvent(env, {}, { ...NO_INPUTS, mode: 'apply' })).toThrow('set the input branch');
    expect(readEvent(env, {}, { ...NO_INPUTS, mode: 'apply', branch: 'main' })).toMatchObject({ refusal: null });
  });
});

describe('a pull request', () => {
  test.each<[keyof typeof events, boolean, boolean, boolean]>([
    ['opened', false, false, false],
    ['opened', true, false, true],
    ['fromFork', false, true, false],
    ['fromFork', true, true, false],
    ['fromGoneFork', true, true, false],
    ['target', true, true, false],
  ])('%s with observe %s is a fork: %s, contacts hosts: %s', (name, observe, fork, contactsHosts) => {
    const context = run(name, { mode: 'plan', observe });
    expect(context).toMatchObject({ contactsHosts, trustsInventory: false, pullRequest: { number: 7, fork } });
    expect(context.base).toEqual(mergeBase);
    expect(context.head).toEqual({ kind: 'sha', sha: SHA.head });
  });

  test('is told by the repository of its head whatever the case of its name', () => {
    const env = environmentOf('pull_request', 'refs/pull/7/merge', SHA.merge);
    expect(readEvent(env, pullRequest('opened', 'Acme/Fleet'), NO_INPUTS)).toMatchObject({
      pullRequest: { fork: false },
    });
  });

  test('has drift only where hosts may be contacted', () => {
    expect(() => run('opened', { mode: 'drift' })).toThrow('observe: true');
    expect(() => run('fromFork', { mode: 'drift', observe: true })).toThrow('fork');
    expect(run('opened', { mode: 'drift', observe: true }).contactsHosts).toBe(true);
  });
});

describe('the inputs ref and base-ref', () => {
  test.each(['opened', 'push', 'tag', 'schedule', 'dispatch'] as const)(
    'replace head and base of %s and leave the check run where it is',
    (name) => {
      const plain = run(name);
      const moved = run(name, { ref: 'release', baseRef: 'v1' });
      expect(moved.head).toEqual({ kind: 'ref', ref: 'release' });
      expect(moved.base).toEqual({ kind: 'ref', ref: 'v1' });
      expect(moved.checkCommit).toBe(plain.checkCommit);
      expect(moved.mode).toBe(plain.mode);
    },
  );
});

describe('another repository', () => {
  test.each<[string, boolean]>([
    ['acme/fleet', true],
    ['ACME/Fleet', true],
    ['https://github.com/acme/fleet', true],
    ['https://github.com/acme/fleet.git', true],
    ['acme/other', false],
    ['https://github.com/acme/fleet2', false],
    ['https://evil.example/acme/fleet', false],
    ['/srv/fleet', false],
  ])('named %s is the own one: %s', (repository, isOwn) => {
    expect(run('push', { repository }).repository).toEqual({ own: 'acme/fleet', fleet: repository, isOwn });
  });

  test.each<[keyof typeof events, Partial<EventInputs>, HeadSpec, BaseSpec, string]>([
    ['push', {}, { kind: 'default-branch' }, record, SHA.after],
    ['opened', {}, { kind: 'default-branch' }, none, SHA.head],
    ['dispatch', { ref: 'v2', baseRef: 'v1' }, { kind: 'ref', ref: 'v2' }, { kind: 'ref', ref: 'v1' }, SHA.after],
  ])('is read at its own head on %s, the check run stays on the event', (name, inputs, head, base, checkCommit) => {
    const context = run(name, { repository: 'acme/other', ...inputs });
    expect(context).toMatchObject({ head, base, checkCommit });
  });
});

describe('other modes and events', () => {
  test.each<[keyof typeof events, Partial<EventInputs>, BaseSpec]>([
    ['dispatch', { mode: 'apply' }, record],
    ['dispatch', { observe: true }, record],
    ['dispatch', { mode: 'explain' }, none],
    ['dispatch', { mode: 'drift' }, record],
    ['push', { mode: 'plan' }, { kind: 'sha', sha: SHA.before }],
    ['push', { mode: 'plan', observe: true }, { kind: 'sha', sha: SHA.before }],
    ['mergeGroup', { observe: true }, record],
  ])('%s with %j has its base', (name, inputs, base) => {
    expect(run(name, inputs).base).toEqual(base);
  });

  test('without an event leave everything to the operator', () => {
    const env = { GITHUB_REPOSITORY: undefined };
    const inputs = { ...NO_INPUTS, repository: '/srv/fleet' };
    expect(readEvent(env, pullRequest(), inputs)).toEqual({
      kind: 'run',
      event: null,
      mode: 'plan',
      refusal: null,
      pullRequest: null,
      contactsHosts: false,
      trustsInventory: true,
      repository: { own: null, fleet: '/srv/fleet', isOwn: false },
      head: { kind: 'default-branch' },
      base: none,
      checkCommit: null,
      fleetBranch: null,
      defaultBranch: null,
    });
    expect(
      readEvent({ GITHUB_EVENT_NAME: '' }, null, { ...inputs, mode: 'apply', ref: 'main', baseRef: SHA.base }),
    ).toMatchObject({
      mode: 'apply',
      refusal: null,
      contactsHosts: true,
      head: { kind: 'ref', ref: 'main' },
      base: { kind: 'ref', ref: SHA.base },
    });
    expect(() => readEvent({}, null, NO_INPUTS)).toThrow('set the input repository');
  });
});

describe('a payload that lacks what its event must have', () => {
  const head = (fields: object) => ({ ...pullRequest().pull_request.head, ...fields });
  test.each<[string, string, unknown, string]>([
    ['push', 'undefined', undefined, 'after'],
    ['push', 'no object', 'text', 'after'],
    ['push', 'null', null, 'after'],
    ['push', 'a list', [], 'after'],
    ['push', 'no after', { ...pushes.ordinary(), after: undefined }, 'after'],
    ['push', 'an after that is no SHA', { ...pushes.ordinary(), after: '--upload-pack=x' }, 'after'],
    ['push', 'a before that is a number', { ...pushes.ordinary(), before: 1 }, 'before'],
    ['pull_request', 'nothing', {}, 'pull_request.base.repo.full_name'],
    [
      'pull_request',
      'a head without SHA',
      { ...pullRequest(), pull_request: { ...pullRequest().pull_request, head: head({ sha: null }) } },
      'pull_request.head.sha',
    ],
  ])('of %s with %s is the user’s to mend', (event, _what, payload, field) => {
    const env = environmentOf(event, MAIN, SHA.after);
    const reading = (): unknown => readEvent(env, payload, NO_INPUTS);
    expect(reading).toThrow(UserError);
    expect(reading).toThrow(field);
    expect(reading).toThrow('GITHUB_EVENT_PATH');
  });

  test('is no matter where nothing of it is needed', () => {
    const env = environmentOf('schedule', MAIN, SHA.after);
    expect(readEvent(env, undefined, NO_INPUTS)).toMatchObject({ mode: 'drift', fleetBranch: 'main' });
    expect(() => readEvent({ ...env, GITHUB_SHA: '' }, undefined, NO_INPUTS)).toThrow('GITHUB_SHA');
  });
});

describe('readWorkflowRun', () => {
  test('names the run and its page', () => {
    expect(readWorkflowRun(environmentOf('push', MAIN, SHA.after))).toEqual({
      serverUrl: 'https://github.com',
      apiUrl: 'https://api.github.com',
      id: '123456',
      attempt: '2',
      url: 'https://github.com/acme/fleet/actions/runs/123456/attempts/2',
    });
  });

  test('takes an Enterprise Server from the environment', () => {
    const env = {
      ...environmentOf('push', MAIN, SHA.after),
      GITHUB_SERVER_URL: 'https://ghe.acme.test/',
      GITHUB_API_URL: 'https://ghe.acme.test/api/v3/',
    };
    expect(readWorkflowRun(env)).toMatchObject({
      apiUrl: 'https://ghe.acme.test/api/v3',
      url: 'https://ghe.acme.test/acme/fleet/actions/runs/123456/attempts/2',
    });
  });

  test('has no page outside GitHub', () => {
    expect(readWorkflowRun({})).toMatchObject({ id: '0', attempt: '1', url: null });
  });
});
