import { type Known, known, unknown } from '../plan/observation.js';
import { readIdentity } from './identity.js';
import { at, parseJson, stringAt } from './json.js';
import type { Kubectl } from './kubectl.js';

/** Lease and record have one name, beside each other. */
export const NAMESPACE = 'kube-system';
export const NAME = 'fleet-role';

/** Less than the 15 s between two renewals of the lease, with room for a second question. */
const REQUEST_TIMEOUT = '--request-timeout=5s';
/** kubectl may ask the API what it serves before it asks the question; each request has its own limit. */
const ASK_SECONDS = 15;

/** A kind of object, as kubectl and as the API name it. */
export interface Kind {
  /** With its group: another group may serve a resource of the same short name. */
  readonly resource: string;
  readonly apiVersion: string;
  readonly kind: string;
}

/** The arguments that ask for the object of a kind. */
export function questionFor({ resource }: Kind): readonly string[] {
  return ['get', resource, NAME, `--namespace=${NAMESPACE}`, '--ignore-not-found', '-o', 'json', REQUEST_TIMEOUT];
}

/** An object that the API has, with the version that a conditional replace needs. */
export interface StoredObject {
  /** Never empty: without one kubectl replaces an object whatever it holds now (MEASURED, kubectl 1.32). */
  readonly resourceVersion: string;
  readonly json: unknown;
}

/** What became of a write. */
export type Written =
  | { readonly kind: 'written'; readonly resourceVersion: string }
  /** Somebody else wrote (made, deleted) the object in between: read it again and decide again. */
  | { readonly kind: 'conflict' }
  /** It is not written as far as anybody can tell, or nobody can tell. */
  | { readonly kind: 'failed'; readonly why: string };

/**
 * The object of this kind. Null only when the API itself says that there is none: `--ignore-not-found` makes kubectl
 * say so by no output and exit status 0. It says the same of any 404, also one that no Kubernetes wrote (MEASURED,
 * kubectl 1.32), so that is believed only from an API that shows the namespace right after.
 */
export async function readStored(kubectl: Kubectl, kind: Kind): Promise<Known<StoredObject | null>> {
  const answer = await kubectl.run(questionFor(kind), ASK_SECONDS);
  if (answer.kind === 'failed') return unknown(answer.why);
  if (answer.text.trim() === '') {
    const identity = await readIdentity(kubectl);
    return identity.kind === 'unknown' ? identity : known(null);
  }
  const stored = storedIn(answer.text, kind);
  return stored === null ? unknown(`the ${nameOf(kind)} is not what Kubernetes answers`) : known(stored);
}

/**
 * Creates the object (`resourceVersion` null) or replaces that version of it; `content` is what stands beside its
 * metadata. The outcome is told by what the API has afterwards and not by kubectl's words: after a failure the object
 * is read again. `isWritten` tells our content from anybody else's.
 */
export async function writeStored(
  kubectl: Kubectl,
  kind: Kind,
  content: Readonly<Record<string, unknown>>,
  resourceVersion: string | null,
  isWritten: (json: unknown) => boolean,
): Promise<Written> {
  if (resourceVersion === '') throw new Error(`a replace of the ${nameOf(kind)} without a resourceVersion`);
  const { apiVersion, kind: name } = kind;
  const metadata = { name: NAME, namespace: NAMESPACE, ...(resourceVersion === null ? {} : { resourceVersion }) };
  const answer = await kubectl.run(
    // Unless told not to, kubectl fetches the API's whole schema before each write.
    [resourceVersion === null ? 'create' : 'replace', '-f', '-', '-o', 'json', '--validate=false', REQUEST_TIMEOUT],
    ASK_SECONDS,
    `${JSON.stringify({ apiVersion, kind: name, metadata, ...content })}\n`,
  );
  if (answer.kind === 'answered') {
    const stored = storedIn(answer.text, kind);
    if (stored !== null && isWritten(stored.json)) {
      return { kind: 'written', resourceVersion: stored.resourceVersion };
    }
  }
  const why = answer.kind === 'failed' ? answer.why : `the answer to ${nameOf(kind)} is not what Kubernetes answers`;
  const now = await readStored(kubectl, kind);
  if (now.kind === 'unknown') return { kind: 'failed', why };
  // Nothing there: our create did not happen, or what we wanted to replace is gone.
  if (now.value === null) return resourceVersion === null ? { kind: 'failed', why } : { kind: 'conflict' };
  const { json, resourceVersion: version } = now.value;
  if (isWritten(json)) return { kind: 'written', resourceVersion: version };
  return version === resourceVersion ? { kind: 'failed', why } : { kind: 'conflict' };
}

/** Deletes the object. Null when the API has none afterwards, else why not. */
export async function deleteStored(kubectl: Kubectl, kind: Kind): Promise<string | null> {
  const answer = await kubectl.run(
    [
      ...['delete', kind.resource, NAME, `--namespace=${NAMESPACE}`],
      ...['--ignore-not-found', '--wait=false', REQUEST_TIMEOUT],
    ],
    ASK_SECONDS,
  );
  const now = await readStored(kubectl, kind);
  if (now.kind === 'known' && now.value === null) return null;
  if (answer.kind === 'failed') return answer.why;
  return now.kind === 'unknown' ? now.why : `the ${nameOf(kind)} is still there`;
}

function storedIn(text: string, kind: Kind): StoredObject | null {
  const json = parseJson(text);
  const resourceVersion = stringAt(json, 'metadata', 'resourceVersion');
  const right =
    at(json, 'kind') === kind.kind &&
    at(json, 'apiVersion') === kind.apiVersion &&
    at(json, 'metadata', 'name') === NAME &&
    at(json, 'metadata', 'namespace') === NAMESPACE;
  return right && resourceVersion !== null && resourceVersion !== '' ? { resourceVersion, json } : null;
}

function nameOf(kind: Kind): string {
  return `${kind.kind} ${NAMESPACE}/${NAME}`;
}
