import { type Known, known, type Member, unknown } from '../plan/observation.js';
import { at, parseJson, stringAt } from './json.js';
import type { Kubectl } from './kubectl.js';

const ASK_SECONDS = 30;
const REQUEST_TIMEOUT = '--request-timeout=10s';
export const IDENTITY_QUESTION = ['get', 'namespace', 'kube-system', '-o', 'json', REQUEST_TIMEOUT];
export const READY_QUESTION = ['get', '--raw', '/readyz', REQUEST_TIMEOUT];
export const MEMBERS_QUESTION = ['get', '--raw', '/db/info', REQUEST_TIMEOUT];
/** Characters. A member takes a few hundred. */
const LIST_LIMIT = 256 * 1024;

/** The UID of the namespace kube-system: which cluster answers (fact 6.1). */
export async function readIdentity(kubectl: Kubectl): Promise<Known<string>> {
  const answer = await kubectl.run(IDENTITY_QUESTION, ASK_SECONDS);
  if (answer.kind === 'failed') return unknown(answer.why);
  const namespace = parseJson(answer.text);
  const uid = stringAt(namespace, 'metadata', 'uid');
  const right = at(namespace, 'kind') === 'Namespace' && at(namespace, 'metadata', 'name') === 'kube-system';
  if (!right || uid === null || !isIdentity(uid)) {
    return unknown('the namespace kube-system is not what Kubernetes answers');
  }
  return known(uid);
}

/** Whether a text can be an identity: one word that is safe in a file, a ConfigMap and a message. */
export function isIdentity(text: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9-]{0,63}$/.test(text);
}

/**
 * True when the answering server's API says that it is ready. It says "not ready" and "no answer" the same way, so
 * everything but the one word is unknown.
 */
export async function readReady(kubectl: Kubectl): Promise<Known<true>> {
  const answer = await kubectl.run(READY_QUESTION, ASK_SECONDS);
  if (answer.kind === 'failed') return unknown(answer.why);
  return answer.text.trim() === 'ok' ? known(true) : unknown('/readyz does not answer ok');
}

/** The member list that the answering server serves. On a cluster without etcd there is none: unknown. */
export async function readMembers(kubectl: Kubectl): Promise<Known<readonly Member[]>> {
  const answer = await kubectl.run(MEMBERS_QUESTION, ASK_SECONDS);
  return answer.kind === 'failed' ? unknown(answer.why) : parseMembers(answer.text);
}

/**
 * The members in the text of `/db/info`, in its order. A list that is empty, names a member twice, or holds anything
 * that etcd does not write is unknown as a whole: half a list would be read as members that are gone.
 */
export function parseMembers(text: string): Known<readonly Member[]> {
  if (text.length > LIST_LIMIT) return unknown('the member list is too long to be one');
  const listed = at(parseJson(markNumbers(text)), 'members');
  if (!Array.isArray(listed)) return unknown('/db/info holds no member list');
  if (listed.length === 0) return unknown('the member list is empty');
  const members: Member[] = [];
  const ids = new Set<string>();
  for (const entry of listed) {
    const found = memberOf(entry);
    if (found === null) return unknown('the member list is not what etcd writes');
    if (ids.has(found.id)) return unknown(`the member list names member ${found.id} twice`);
    ids.add(found.id);
    members.push(found.member);
  }
  return known(members);
}

/** k3s names a member after its node and eight hexadecimal digits (fact 1.1). */
const MEMBER_NAME = /^(.+)-[0-9a-f]{8}$/;

/** A member, and its id: the decimal digits of an unsigned 64-bit number, which a JavaScript number would round. */
function memberOf(entry: unknown): { readonly id: string; readonly member: Member } | null {
  const id = stringAt(entry, 'ID', 'digits');
  const name = at(entry, 'name') ?? '';
  const learner = at(entry, 'isLearner') ?? false;
  const peerUrls = texts(at(entry, 'peerURLs'));
  if (id === null || !/^[1-9][0-9]{0,19}$/.test(id) || typeof name !== 'string' || typeof learner !== 'boolean') {
    return null;
  }
  if (peerUrls === null || texts(at(entry, 'clientURLs')) === null) return null;
  const nodeName = MEMBER_NAME.exec(name)?.[1] ?? null;
  return { id, member: { name, nodeName, addresses: peerUrls.flatMap(hostOf), learner } };
}

/** The host of a peer URL, without brackets; none where it is no URL. */
function hostOf(url: string): readonly string[] {
  return URL.canParse(url) ? [new URL(url).hostname.replace(/^\[|\]$/g, '')] : [];
}

/** A list of strings; etcd writes an empty one as null or leaves it out. */
function texts(value: unknown): readonly string[] | null {
  if (value === undefined || value === null) return [];
  return Array.isArray(value) && value.every((one) => typeof one === 'string') ? value : null;
}

/** The same JSON with `{"digits":"N"}` for every number N. Strings are stepped over whole, digits in them stay. */
function markNumbers(json: string): string {
  return json.replace(/"[^"\\]*(?:\\.[^"\\]*)*"|-?[0-9][0-9.eE+-]*/g, (token) =>
    token.startsWith('"') ? token : `{"digits":"${token}"}`,
  );
}
