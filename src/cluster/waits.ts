import { type Known, known, type Member, type Observation, unknown } from '../plan/observation.js';
import { readIdentity, readMembers, readReady } from './identity.js';
import type { Kubectl } from './kubectl.js';
import { readNodes } from './nodes.js';

/** How a wait passes its time, and when it ends without what it waits for. */
export interface WaitOptions {
  /** The longest wait. */
  readonly seconds: number;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  readonly sleep: (milliseconds: number) => Promise<void>;
  /** Once aborted, waiting ends. */
  readonly signal: AbortSignal;
}

const POLL_MILLISECONDS = 2000;

/** What one look came to: it is so; not yet, and why; or it will never be. */
export type Looked =
  | { readonly kind: 'so' }
  | { readonly kind: 'not-yet'; readonly why: string }
  | { readonly kind: 'never'; readonly why: string };

const so: Looked = { kind: 'so' };
const notYet = (why: string): Looked => ({ kind: 'not-yet', why });

/** Looks again and again. Null once it is so, else why it did not come to that. */
export async function waitFor(look: () => Promise<Looked>, options: WaitOptions): Promise<string | null> {
  const end = options.clock() + options.seconds * 1000;
  for (;;) {
    const looked = await look();
    if (looked.kind === 'so') return null;
    if (looked.kind === 'never') return looked.why;
    if (options.signal.aborted) return 'The run was cancelled while it waited.';
    const left = end - options.clock();
    if (left <= 0) return `${looked.why} (waited ${options.seconds} seconds, input step-timeout)`;
    await options.sleep(Math.min(POLL_MILLISECONDS, left));
  }
}

/**
 * The proof of a removal: no server that answers lists the member any more. k3s clears a request that it refuses
 * without a word (facts 1.7, 1.10), so a vanished request with the member still there is the end of waiting.
 */
export async function lookRemoved(servers: readonly Kubectl[], node: string, member: string): Promise<Looked> {
  const lists = await listsOf(servers);
  if (lists.kind === 'unknown') return notYet(`No member list is to be had: ${lists.why}`);
  const listed = lists.value.some((list) => list.some((each) => each.name === member));
  if (!listed) return so;
  const nodes = await nodesOf(servers);
  const seen = nodes.kind === 'known' ? nodes.value.get(node) : undefined;
  if (seen !== undefined && !seen.removeAsked) {
    // The list may be older than the Node by one answer.
    const again = await listsOf(servers);
    if (again.kind === 'known' && !again.value.some((list) => list.some((each) => each.name === member))) return so;
    return {
      kind: 'never',
      why: `k3s took the request back and ${member} is still a member: it refuses to remove it. Run this again; if it stays so, look at the k3s log of the servers.`,
    };
  }
  return notYet(`${member} is still listed as a member`);
}

/** The unstarted member was taken out by the leader: no server lists one at these addresses. */
export async function lookEvicted(servers: readonly Kubectl[], addresses: readonly string[]): Promise<Looked> {
  const lists = await listsOf(servers);
  if (lists.kind === 'unknown') return notYet(`No member list is to be had: ${lists.why}`);
  const there = lists.value.some((list) =>
    list.some((each) => each.name === '' && each.addresses.some((address) => addresses.includes(address))),
  );
  return there ? notYet('the unstarted member is still listed') : so;
}

/** The list shows a voter of that node in the same cluster, and `EtcdIsVoter` agrees where this k3s writes it. */
export async function lookVotes(servers: readonly Kubectl[], node: string, identity: string): Promise<Looked> {
  const lists = await listsOf(servers);
  if (lists.kind === 'unknown') return notYet(`No member list is to be had: ${lists.why}`);
  const found = lists.value.map((list) => list.find((each) => each.nodeName === node));
  const member = found.find((each) => each !== undefined);
  if (member === undefined) return notYet(`${node} is not listed as a member`);
  if (found.some((each) => each === undefined || each.learner)) return notYet(`${member.name} is a learner still`);
  const served = await firstKnown(servers, readIdentity);
  if (served.kind === 'unknown') return notYet(`The cluster does not say which one it is: ${served.why}`);
  if (served.value !== identity) {
    return { kind: 'never', why: `another cluster answers (${served.value}, not ${identity})` };
  }
  const nodes = await nodesOf(servers);
  if (nodes.kind === 'unknown') return notYet(`The Nodes are not known: ${nodes.why}`);
  const seen = nodes.value.get(node);
  if (seen === undefined) return notYet(`there is no Node ${node} yet`);
  return seen.isVoter === false ? notYet(`the Node ${node} does not say that it votes`) : so;
}

/** The Node is Ready, and without the etcd role where it is an agent's. */
export async function lookReady(servers: readonly Kubectl[], node: string, agent: boolean): Promise<Looked> {
  const nodes = await nodesOf(servers);
  if (nodes.kind === 'unknown') return notYet(`The Nodes are not known: ${nodes.why}`);
  const seen = nodes.value.get(node);
  if (seen === undefined) return notYet(`there is no Node ${node}`);
  if (!seen.ready) return notYet(`the Node ${node} is not Ready`);
  return agent && seen.etcdLabel ? notYet(`the Node ${node} still has the etcd role`) : so;
}

/** `EtcdIsVoter` is no longer True: dropped before, it would stay so for ever (fact 3.7). */
export async function lookNoVoter(servers: readonly Kubectl[], node: string): Promise<Looked> {
  const nodes = await nodesOf(servers);
  if (nodes.kind === 'unknown') return notYet(`The Nodes are not known: ${nodes.why}`);
  return nodes.value.get(node)?.isVoter === true ? notYet(`the Node ${node} says that it votes`) : so;
}

/** All voters have been ready for so many seconds without a break. Null then, else why not. */
export function settled(voters: readonly Kubectl[], seconds: number, options: WaitOptions): Promise<string | null> {
  let since: number | null = null;
  return waitFor(async () => {
    const ready = await Promise.all(voters.map(readReady));
    const sick = ready.find((each) => each.kind === 'unknown' || !each.value);
    const now = options.clock();
    if (sick !== undefined || voters.length === 0) {
      since = null;
      const why = sick?.kind === 'unknown' ? sick.why : 'no voter is known';
      return notYet(`not all voters are healthy: ${why}`);
    }
    since ??= now;
    return now - since >= seconds * 1000 ? so : notYet('the voters are not healthy for long enough yet');
  }, options);
}

/** The lists of all servers that tell one; unknown when none does. */
async function listsOf(servers: readonly Kubectl[]): Promise<Known<readonly (readonly Member[])[]>> {
  const answers = await Promise.all(servers.map(readMembers));
  const lists = answers.flatMap((answer) => (answer.kind === 'known' ? [answer.value] : []));
  if (lists.length > 0) return known(lists);
  const why = answers.flatMap((answer) => (answer.kind === 'unknown' ? [answer.why] : []));
  return unknown(why[0] ?? 'there is no server to ask');
}

function nodesOf(servers: readonly Kubectl[]): Promise<NonNullable<Observation['nodes']>> {
  return firstKnown(servers, readNodes);
}

/** The first answer that is known, one server after the other. */
export async function firstKnown<T>(
  servers: readonly Kubectl[],
  read: (kubectl: Kubectl) => Promise<Known<T>>,
): Promise<Known<T>> {
  let why = 'there is no server to ask';
  for (const server of servers) {
    const answer = await read(server);
    if (answer.kind === 'known') return answer;
    why = answer.why;
  }
  return unknown(why);
}
