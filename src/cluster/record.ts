import { type Known, known, unknown } from '../plan/observation.js';
import { isIdentity } from './identity.js';
import { at } from './json.js';
import type { Kubectl } from './kubectl.js';
import { deleteStored, type Kind, questionFor, readStored, type Written, writeStored } from './stored-object.js';

const CONFIG_MAP: Kind = { resource: 'configmaps', apiVersion: 'v1', kind: 'ConfigMap' };
export const RECORD_QUESTION = questionFor(CONFIG_MAP);

/**
 * The record: the `data` of the ConfigMap `kube-system/fleet-role`, a key for each field; a field that is null has no
 * key. `repository`, `group` and `identity` are there from the first write on.
 */
export interface ClusterRecord {
  /** Of the last complete apply: the only commit that may be a base. Null: there was none, which counts as no record. */
  readonly commit: string | null;
  /** The commit whose apply was started last; the same as `commit` when that one was completed. */
  readonly started: string | null;
  /** The other commits begun since `commit`, with a space between: hosts that only they know may still be there. */
  readonly begun: string | null;
  /** The fleet repository that was applied, as the run names it. */
  readonly repository: string | null;
  /** The inventory group of the cluster. */
  readonly group: string | null;
  /** The UID of kube-system. */
  readonly identity: string | null;
  /** The URL (or name) of the run that completed `commit`. */
  readonly run: string | null;
}

/** A record as it was read, with the version that `writeRecord` may replace. */
export interface StoredRecord {
  readonly record: ClusterRecord;
  readonly resourceVersion: string;
}

/** What an apply that begins knows about itself. */
export type Start = { readonly [K in 'started' | 'repository' | 'group' | 'identity']: string };

/** How often a start is tried again on what somebody else wrote in between. */
const START_ATTEMPTS = 3;

/**
 * The record. Null only where the API says that there is no ConfigMap; one that holds anything that fleet-role does not
 * write there (half a record, a commit that is none) is unknown, as is everything else. Keys that are not ours are
 * passed over.
 */
export async function readRecord(kubectl: Kubectl): Promise<Known<StoredRecord | null>> {
  const stored = await readStored(kubectl, CONFIG_MAP);
  if (stored.kind === 'unknown' || stored.value === null) return stored as Known<null>;
  const record = recordOf(at(stored.value.json, 'data'));
  if (typeof record === 'string') return unknown(`the record (ConfigMap kube-system/fleet-role) is damaged: ${record}`);
  return known({ record, resourceVersion: stored.value.resourceVersion });
}

/**
 * Writes the whole record: over the version that was read, or as a new one (`resourceVersion` null). A conflict is a
 * value: somebody wrote in between. Throws for a record that `readRecord` would not take, which is a mistake of ours.
 */
export async function writeRecord(
  kubectl: Kubectl,
  record: ClusterRecord,
  resourceVersion: string | null,
): Promise<Written> {
  const data = Object.fromEntries(Object.entries(record).filter(([, value]) => value !== null));
  const wrong = recordOf(data);
  if (typeof wrong === 'string') throw new Error(`a record is to be written whose ${wrong}`);
  return writeStored(kubectl, CONFIG_MAP, { data }, resourceVersion, (json) => {
    const written = recordOf(at(json, 'data'));
    return typeof written !== 'string' && KEYS.every((key) => written[key] === record[key]);
  });
}

/**
 * Writes the commit as started, when the lock was taken and before anything else is done. Of a record that is there
 * nothing else changes; where there is none it is made, with what the run knows and no complete commit.
 */
export async function markStarted(kubectl: Kubectl, start: Start): Promise<Written> {
  let result: Written = { kind: 'conflict' };
  for (let attempt = 0; attempt < START_ATTEMPTS && result.kind === 'conflict'; attempt++) {
    const read = await readRecord(kubectl);
    if (read.kind === 'unknown') return { kind: 'failed', why: read.why };
    const there = read.value?.record;
    const record = {
      commit: there?.commit ?? null,
      started: start.started,
      begun: begunBefore(there, start.started),
      repository: there?.repository ?? start.repository,
      group: there?.group ?? start.group,
      identity: there?.identity ?? start.identity,
      run: there?.run ?? null,
    };
    result = await writeRecord(kubectl, record, read.value?.resourceVersion ?? null);
  }
  return result;
}

/** More begun commits than anybody lets pile up; the oldest are forgotten. */
const MOST_BEGUN = 20;

function begunBefore(there: ClusterRecord | undefined, next: string): string | null {
  const before = there?.begun?.split(' ') ?? [];
  const last = there?.started;
  if (last != null && last !== there?.commit) before.push(last);
  const kept = [...new Set(before)].filter((commit) => commit !== next).slice(-MOST_BEGUN);
  return kept.length === 0 ? null : kept.join(' ');
}

/** Deletes the record. Null when the API has none afterwards, else why not. */
export function deleteRecord(kubectl: Kubectl): Promise<string | null> {
  return deleteStored(kubectl, CONFIG_MAP);
}

const isCommit = (text: string): boolean => /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(text);
/** One line of something. What it says is data, shown and compared and never run. */
const isLine = (text: string): boolean => /^\P{Cc}{1,1000}$/u.test(text);

const FIELDS: { readonly [K in keyof ClusterRecord]: (text: string) => boolean } = {
  commit: isCommit,
  started: isCommit,
  begun: (text) => text.split(' ').every(isCommit),
  repository: isLine,
  group: isLine,
  identity: isIdentity,
  run: isLine,
};
const KEYS = Object.keys(FIELDS) as readonly (keyof ClusterRecord)[];

/** The record in a ConfigMap's `data`, or what is wrong with it. */
function recordOf(data: unknown): ClusterRecord | string {
  if (data !== undefined && (typeof data !== 'object' || data === null || Array.isArray(data))) return 'data is no map';
  const record: { -readonly [K in keyof ClusterRecord]: string | null } = {
    ...{ commit: null, started: null, begun: null, repository: null, group: null, identity: null, run: null },
  };
  for (const key of KEYS) {
    const value = at(data, key);
    if (value === undefined) continue;
    if (typeof value !== 'string' || !FIELDS[key](value)) return `${key} is not what fleet-role writes`;
    record[key] = value;
  }
  const applied = record.commit !== null || record.started !== null;
  const missing = (['repository', 'group', 'identity'] as const).find((key) => record[key] === null);
  if (applied && missing !== undefined) return `${missing} is missing`;
  return record;
}
