import { UserError } from '../errors.js';
import type { Mode } from '../plan/plan.js';
import type { Refusal } from '../plan/step.js';
import { Payload } from './payload.js';

/** The environment of a run: `process.env`, or a part of it. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** The inputs that an event is read with; null where the input is empty. */
export interface EventInputs {
  readonly mode: 'auto' | Mode;
  /** `owner/name`, or a git URL or path; null: the workflow's own repository. */
  readonly repository: string | null;
  readonly ref: string | null;
  readonly baseRef: string | null;
  readonly branch: string | null;
  readonly observe: boolean;
}

export type EventContext = NothingToDo | RunContext;

/** A deleted branch or a closed pull request: the run ends with `unchanged`. */
export interface NothingToDo {
  readonly kind: 'nothing';
  readonly reason: string;
}

export interface RunContext {
  readonly kind: 'run';
  /** Null without an event: whoever runs it is the operator. */
  readonly event: string | null;
  readonly mode: Mode;
  /** `not-fleet-branch` where apply or rejoin is asked for and not allowed: nothing may be contacted then. */
  readonly refusal: Refusal | null;
  /** The event belongs to a pull request, `pull_request_target` included. */
  readonly pullRequest: PullRequest | null;
  /** False: no host is contacted, whatever the mode. */
  readonly contactsHosts: boolean;
  /** False: private key files and local connections that the inventory names are not taken. */
  readonly trustsInventory: boolean;
  readonly repository: Repositories;
  readonly head: HeadSpec;
  readonly base: BaseSpec;
  /** The commit of the workflow's repository that the check run stands on; null without an event. */
  readonly checkCommit: string | null;
  /** The branch that is applied, without `refs/heads/`; null when nothing says it and nothing needs it. */
  readonly fleetBranch: string | null;
  readonly defaultBranch: string | null;
}

export interface PullRequest {
  readonly number: number;
  /** Its head is in another repository, or in one that is gone. */
  readonly fork: boolean;
  readonly head: string;
  readonly baseBranch: string;
}

export interface Repositories {
  /** The workflow's own repository as `owner/name`; null outside GitHub. */
  readonly own: string | null;
  /** The fleet repository: `owner/name`, a git URL or a path. */
  readonly fleet: string;
  /** The fleet repository is the workflow's own: annotations stand on its lines. */
  readonly isOwn: boolean;
}

/** Which commit is the head; it is data, `repository/` finds the commit. */
export type HeadSpec =
  | { readonly kind: 'sha'; readonly sha: string }
  /** A SHA or ref name that the input `ref` gives. */
  | { readonly kind: 'ref'; readonly ref: string }
  | { readonly kind: 'default-branch' };

export type BaseSpec =
  /** Every host is added, and nothing counts as removed. */
  | { readonly kind: 'none' }
  | { readonly kind: 'sha'; readonly sha: string }
  /** A SHA or ref name that the input `base-ref` gives. */
  | { readonly kind: 'ref'; readonly ref: string }
  /** The merge base of the head with that branch; `tip` is its commit when the event happened. */
  | { readonly kind: 'merge-base'; readonly branch: string; readonly tip: string }
  /** Per cluster, the commit in its record when that is the head or an ancestor of it. */
  | { readonly kind: 'record'; readonly orElse: RecordFallback };

export type RecordFallback =
  | { readonly kind: 'none' }
  /** That commit when it is a known ancestor of the head, else none. */
  | { readonly kind: 'ancestor'; readonly sha: string };

/**
 * What the event asks for, by the table of section 5. Pure: `payload` is the parsed event file, or undefined when there
 * is none. Throws a `UserError` for an event that needs `mode`, and for a payload that lacks what its event must have.
 *
 * - `ref` and `base-ref` replace head and base of any event; they never move the check run.
 * - Without `GITHUB_EVENT_NAME` the payload is not read.
 */
export function readEvent(env: Environment, payload: unknown, inputs: EventInputs): EventContext {
  const name = nonEmpty(env.GITHUB_EVENT_NAME);
  return name === null ? operatorRun(env, inputs) : eventRun(name, env, new Payload(name, payload), inputs);
}

function operatorRun(env: Environment, inputs: EventInputs): RunContext {
  const mode = inputs.mode === 'auto' ? 'plan' : inputs.mode;
  const contactsHosts = mode === 'plan' ? inputs.observe : mode !== 'explain';
  return {
    kind: 'run',
    event: null,
    mode,
    refusal: null,
    pullRequest: null,
    contactsHosts,
    trustsInventory: true,
    repository: repositoriesOf(env, inputs),
    head: inputs.ref === null ? { kind: 'default-branch' } : { kind: 'ref', ref: inputs.ref },
    base: baseOr(inputs, recordIf(contactsHosts)),
    checkCommit: null,
    fleetBranch: branchName(inputs.branch),
    defaultBranch: null,
  };
}

function eventRun(event: string, env: Environment, payload: Payload, inputs: EventInputs): EventContext {
  const pullRequest = pullRequestOf(event, payload);
  const eventRef = nonEmpty(env.GITHUB_REF) ?? payload.optionalText('ref');
  const defaultBranch = defaultBranchOf(event, eventRef, payload);
  const fleetBranch = branchName(inputs.branch) ?? defaultBranch;

  if (event === 'push' && isDeletion(payload)) {
    return { kind: 'nothing', reason: `the push deleted ${payload.optionalText('ref') ?? 'a branch'}` };
  }
  const mode = inputs.mode === 'auto' ? modeOf(event, eventRef, fleetBranch) : inputs.mode;
  const writes = mode === 'apply' || mode === 'rejoin';
  if (!writes && pullRequest !== null && payload.optionalText('action') === 'closed') {
    return { kind: 'nothing', reason: `pull request ${pullRequest.number} is closed` };
  }

  const repository = repositoriesOf(env, inputs);
  const eventCommit = commitOf(event, eventRef, env, payload, pullRequest);
  const contactsHosts = mayContact(mode, inputs, pullRequest);
  const head: HeadSpec = repository.isOwn ? { kind: 'sha', sha: eventCommit } : { kind: 'default-branch' };
  const base = repository.isOwn ? baseOf(event, mode, contactsHosts, payload, pullRequest) : recordIf(contactsHosts);
  return {
    kind: 'run',
    event,
    mode,
    refusal: writes ? writeRefusal(mode, event, pullRequest, eventRef, fleetBranch) : null,
    pullRequest,
    contactsHosts,
    trustsInventory: pullRequest === null,
    repository,
    head: inputs.ref === null ? head : { kind: 'ref', ref: inputs.ref },
    base: baseOr(inputs, base),
    checkCommit: eventCommit,
    fleetBranch,
    defaultBranch,
  };
}

/** The mode that `auto` means. */
function modeOf(event: string, eventRef: string | null, fleetBranch: string | null): Mode {
  switch (event) {
    case 'pull_request':
    case 'merge_group':
    case 'workflow_dispatch':
      return 'plan';
    case 'schedule':
      return 'drift';
    case 'push':
      if (eventRef?.startsWith('refs/tags/')) return 'plan';
      return isFleetBranch(eventRef, needed(fleetBranch)) ? 'apply' : 'plan';
    default:
      throw new UserError(
        `The event ${event} does not say whether to plan or to apply: set the input mode to plan, apply, rejoin, drift or explain.`,
      );
  }
}

/** Why apply or rejoin is not allowed on this event; null when it is. */
function writeRefusal(
  mode: Mode,
  event: string,
  pullRequest: PullRequest | null,
  eventRef: string | null,
  fleetBranch: string | null,
): Refusal | null {
  const refuse = (message: string): Refusal => ({ code: 'not-fleet-branch', message, hosts: [] });
  if (pullRequest !== null || event.startsWith('pull_request')) {
    return refuse(
      `${mode} never runs on a pull request, and this is the event ${event}: use mode plan here, and ${mode} after the merge.`,
    );
  }
  const branch = needed(fleetBranch);
  if (isFleetBranch(eventRef, branch)) return null;
  return refuse(
    `${mode} runs only on the fleet branch ${branch}, and this event is on ${eventRef ?? 'no ref'}: ` +
      'run the workflow there, or name another fleet branch with the input branch.',
  );
}

/** Throws where a plan's or drift's event and inputs contradict each other. */
function mayContact(mode: Mode, inputs: EventInputs, pullRequest: PullRequest | null): boolean {
  if (mode === 'explain') return false;
  if (pullRequest === null) return mode !== 'plan' || inputs.observe;
  const may = inputs.observe && !pullRequest.fork;
  if (mode === 'drift' && !may) {
    throw new UserError(
      pullRequest.fork
        ? 'drift contacts hosts, which never happens for a pull request from a fork: run it on schedule or workflow_dispatch.'
        : 'drift contacts hosts, which happens on a pull request only with observe: true. Set it, or run drift on schedule.',
    );
  }
  // Apply and rejoin are refused on a pull request: nothing is contacted for them.
  return may && (mode === 'plan' || mode === 'drift');
}

function baseOf(
  event: string,
  mode: Mode,
  contactsHosts: boolean,
  payload: Payload,
  pullRequest: PullRequest | null,
): BaseSpec {
  if (pullRequest !== null) {
    return { kind: 'merge-base', branch: pullRequest.baseBranch, tip: payload.commit('pull_request.base.sha') };
  }
  if (event !== 'push') return recordIf(contactsHosts);
  const before = payload.commit('before');
  const known = !isZero(before);
  if (mode === 'apply' || mode === 'rejoin' || mode === 'drift') {
    return { kind: 'record', orElse: known ? { kind: 'ancestor', sha: before } : { kind: 'none' } };
  }
  return known ? { kind: 'sha', sha: before } : { kind: 'none' };
}

function recordIf(contactsHosts: boolean): BaseSpec {
  return contactsHosts ? { kind: 'record', orElse: { kind: 'none' } } : { kind: 'none' };
}

function baseOr(inputs: EventInputs, base: BaseSpec): BaseSpec {
  return inputs.baseRef === null ? base : { kind: 'ref', ref: inputs.baseRef };
}

/** The commit of the workflow's repository that the event is about: the head, and where the check run stands. */
function commitOf(
  event: string,
  eventRef: string | null,
  env: Environment,
  payload: Payload,
  pullRequest: PullRequest | null,
): string {
  if (pullRequest !== null) return pullRequest.head;
  if (event === 'push') {
    // `after` of an annotated tag is the tag's own object, and a check run needs a commit.
    const tagged = eventRef?.startsWith('refs/tags/') ? payload.optionalText('head_commit.id') : null;
    return tagged ?? payload.commit('after');
  }
  const sha = nonEmpty(env.GITHUB_SHA);
  if (sha === null) throw new UserError(`The event ${event} has no commit: GITHUB_SHA is empty. Set the input ref.`);
  return sha;
}

function pullRequestOf(event: string, payload: Payload): PullRequest | null {
  if (!event.startsWith('pull_request') && !payload.has('pull_request')) return null;
  const head = payload.optionalText('pull_request.head.repo.full_name');
  const base = payload.text('pull_request.base.repo.full_name');
  return {
    number: payload.number('pull_request.number'),
    // The head's repository is null once the fork is deleted; what it was can no longer be told.
    fork: head === null || head.toLowerCase() !== base.toLowerCase(),
    head: payload.commit('pull_request.head.sha'),
    baseBranch: payload.text('pull_request.base.ref'),
  };
}

function isDeletion(payload: Payload): boolean {
  return payload.flag('deleted') || isZero(payload.commit('after'));
}

function defaultBranchOf(event: string, eventRef: string | null, payload: Payload): string | null {
  const said = payload.optionalText('repository.default_branch');
  // Scheduled workflows run on the default branch only, and their payload may hold nothing but the schedule.
  return said ?? (event === 'schedule' ? branchName(eventRef) : null);
}

function repositoriesOf(env: Environment, inputs: EventInputs): Repositories {
  const own = nonEmpty(env.GITHUB_REPOSITORY);
  const fleet = inputs.repository ?? own;
  if (fleet === null) {
    throw new UserError('There is no repository: set the input repository to owner/name, a git URL or a path.');
  }
  const isOwn = own !== null && isSameRepository(fleet, own, env.GITHUB_SERVER_URL);
  return { own, fleet, isOwn };
}

/** `fleet` is `own`, written as `owner/name` or as its URL on this GitHub. GitHub's names have no case. */
function isSameRepository(fleet: string, own: string, serverUrl: string | undefined): boolean {
  const prefix = `${(nonEmpty(serverUrl) ?? DEFAULT_SERVER_URL).replace(/\/+$/, '')}/`.toLowerCase();
  const name = fleet.toLowerCase();
  const path = name.startsWith(prefix)
    ? name
        .slice(prefix.length)
        .replace(/\/$/, '')
        .replace(/\.git$/, '')
    : name;
  return path === own.toLowerCase();
}

const DEFAULT_SERVER_URL = 'https://github.com';

function isFleetBranch(eventRef: string | null, fleetBranch: string): boolean {
  return eventRef === `refs/heads/${fleetBranch}`;
}

function needed(fleetBranch: string | null): string {
  if (fleetBranch !== null) return fleetBranch;
  throw new UserError('The event does not name the default branch: set the input branch to the fleet branch.');
}

function branchName(ref: string | null): string | null {
  return ref === null ? null : ref.replace(/^refs\/heads\//, '');
}

/** Git's "no commit", as in `before` of a new branch. */
function isZero(sha: string): boolean {
  return /^0+$/.test(sha);
}

function nonEmpty(text: string | undefined): string | null {
  return text === undefined || text === '' ? null : text;
}

/** This workflow run: where it is, and what names it. */
export interface WorkflowRun {
  readonly serverUrl: string;
  readonly apiUrl: string;
  readonly id: string;
  readonly attempt: string;
  /** Its page; null outside GitHub. */
  readonly url: string | null;
}

/** The run of this environment. Only `GITHUB_API_URL` and `GITHUB_SERVER_URL` name GitHub. */
export function readWorkflowRun(env: Environment): WorkflowRun {
  const serverUrl = (nonEmpty(env.GITHUB_SERVER_URL) ?? DEFAULT_SERVER_URL).replace(/\/+$/, '');
  const repository = nonEmpty(env.GITHUB_REPOSITORY);
  const id = nonEmpty(env.GITHUB_RUN_ID);
  const attempt = nonEmpty(env.GITHUB_RUN_ATTEMPT) ?? '1';
  return {
    serverUrl,
    apiUrl: (nonEmpty(env.GITHUB_API_URL) ?? 'https://api.github.com').replace(/\/+$/, ''),
    id: id ?? '0',
    attempt,
    url:
      repository === null || id === null ? null : `${serverUrl}/${repository}/actions/runs/${id}/attempts/${attempt}`,
  };
}
