import type { SnapshotEntry } from './snapshot.js';

/**
 * Reads what `git ls-tree -r -l` writes: every file of a tree by its path. A path that is not UTF-8 is read with
 * replacement characters. Records: `MODE TYPE OID SIZE\tPATH\n`, the size padded, `-` for a submodule, `BAD` for an
 * object that is not there (its size is 0 here; reading it fails later).
 */
export function parseTree(output: Buffer): Map<string, SnapshotEntry> {
  const entries = new Map<string, SnapshotEntry>();
  for (const record of output.toString('utf8').split('\n')) {
    const tab = record.indexOf('\t');
    if (tab < 0) continue;
    const mode = record.slice(0, 6);
    const oidStart = record.indexOf(' ', 7) + 1;
    const oidEnd = record.indexOf(' ', oidStart);
    const size = Number.parseInt(record.slice(oidEnd, tab), 10);
    entries.set(unquotePath(record.slice(tab + 1)), {
      type: mode === '120000' ? 'link' : mode === '160000' ? 'module' : 'file',
      oid: record.slice(oidStart, oidEnd),
      size: Number.isNaN(size) ? 0 : size,
    });
  }
  return entries;
}

/** A path as git writes it: in C's quotes when it has quotes, backslashes or control characters (core.quotePath off). */
function unquotePath(path: string): string {
  if (!path.startsWith('"')) return path;
  return path
    .slice(1, -1)
    .replace(/\\(?:([0-7]{3})|(.))/g, (_, octal: string | undefined, letter: string) =>
      octal === undefined ? (ESCAPES[letter] ?? letter) : String.fromCharCode(Number.parseInt(octal, 8)),
    );
}

/** Octal stands for control characters alone: bytes of UTF-8 are not quoted. */
const ESCAPES: Readonly<Record<string, string>> = {
  a: '\u0007',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
};

/** One answer of `git cat-file --batch`; null for an object that is not there. */
export type BatchObject = { readonly oid: string; readonly type: string; readonly content: Buffer } | null;

/**
 * Reads what `git cat-file --batch` writes for `count` objects, in the order in which they were asked for. Contents
 * are views of `output`, byte for byte. Records: `OID TYPE SIZE\nCONTENT\n`, or one line that says what is missing.
 * @throws Error when the output ends early.
 */
export function parseBatch(output: Buffer, count: number): BatchObject[] {
  const objects: BatchObject[] = [];
  let at = 0;
  while (objects.length < count) {
    const end = output.indexOf(10, at);
    if (end < 0) throw new Error('git cat-file ended early');
    const header = /^([0-9a-f]{40,64}) ([a-z]+) (\d+)$/.exec(output.toString('latin1', at, end));
    at = end + 1;
    if (header?.[1] === undefined || header[2] === undefined) {
      objects.push(null);
      continue;
    }
    const size = Number(header[3]);
    if (at + size >= output.length) throw new Error('git cat-file ended early');
    objects.push({ oid: header[1], type: header[2], content: output.subarray(at, at + size) });
    at += size + 1;
  }
  return objects;
}
