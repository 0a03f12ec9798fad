import { createHash } from 'node:crypto';
import type { Inventory, Value } from '../../../src/fleet/inventory/inventory.js';
import { type ReadOptions, readInventory, wantedEntries } from '../../../src/fleet/inventory/read.js';
import type { Problem } from '../../../src/fleet/problem.js';
import type { Snapshot, SnapshotEntry } from '../../../src/repository/snapshot.js';

/** What a test puts at a path: a text, bytes, or something that is no file. */
export type Content = string | Uint8Array | { readonly link: string } | { readonly module: true };

export const deciding = (name: string) => name.startsWith('github_runner_cluster_') || name.startsWith('ansible_');

/** A commit with these files, holding only the contents that `wantedEntries` asks for. */
export function snapshotOf(files: Readonly<Record<string, Content>>, options: Partial<ReadOptions> = {}): Snapshot {
  const entries = new Map<string, SnapshotEntry>();
  const contents = new Map<string, Uint8Array>();
  for (const [path, content] of Object.entries(files)) {
    const isFile = typeof content === 'string' || content instanceof Uint8Array;
    const text = isFile ? content : 'link' in content ? content.link : '';
    const bytes = typeof text === 'string' ? new TextEncoder().encode(text) : text;
    const type = isFile ? 'file' : 'link' in content ? 'link' : 'module';
    const oid = createHash('sha1').update(bytes).digest('hex');
    entries.set(path, { type, oid, size: bytes.length });
    contents.set(oid, bytes);
  }
  const blobs = new Map<string, Uint8Array>();
  for (const path of wantedEntries(entries, { ...DEFAULTS, ...options })) {
    const { oid } = entries.get(path) as SnapshotEntry;
    blobs.set(oid, contents.get(oid) as Uint8Array);
  }
  return { commit: '0'.repeat(40), entries, blobs };
}

const DEFAULTS: ReadOptions = { inventory: null, playbookDir: null, vaultPassword: null, needed: deciding };

/** Reads a commit with these files. */
export function read(files: Readonly<Record<string, Content>>, options: Partial<ReadOptions> = {}): Inventory {
  return readInventory(snapshotOf(files, options), { ...DEFAULTS, ...options });
}

/** `file:line code` of each problem. */
export function problemsOf(inventory: Inventory): string[] {
  return inventory.problems.map(placeAndCode);
}

export function placeAndCode({ file, line, code }: Problem): string {
  return `${file}:${line} ${code}`;
}

/** The hosts of a group in order. */
export function order(inventory: Inventory, group = 'all'): readonly string[] {
  return inventory.groups.get(group)?.hosts ?? [];
}

/** The values of a host's variables. */
export function values(inventory: Inventory, host: string): Record<string, Value> {
  const variables = inventory.hosts.get(host)?.variables ?? new Map();
  return Object.fromEntries([...variables].map(([name, variable]) => [name, variable.value]));
}

/** The value of one variable of one host. */
export function value(inventory: Inventory, host: string, variable: string): Value | undefined {
  return inventory.hosts.get(host)?.variables.get(variable)?.value;
}

/** `file:line` of one variable of one host. */
export function placeOf(inventory: Inventory, host: string, variable: string): string {
  const found = inventory.hosts.get(host)?.variables.get(variable);
  return `${found?.file}:${found?.line}`;
}
