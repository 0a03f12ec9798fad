import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Inventory, Value } from '../../src/fleet/inventory/inventory.js';
import { type ReadOptions, readInventory, wantedEntries } from '../../src/fleet/inventory/read.js';
import type { SnapshotEntry } from '../../src/repository/snapshot.js';
import { type DocumentAnswer, documentDifference, documentOf } from './documents.js';
import { PASSWORD, type Sample, sampleOf } from './generate.js';

interface Answer {
  readonly error?: string;
  readonly groups: Record<string, { readonly real: readonly string[]; readonly fixed: readonly string[] }>;
  readonly hosts: Record<string, Record<string, { readonly value?: Value; readonly failed?: string }>>;
}

/** Names of the values that both readers are compared in. */
const deciding = (name: string) => name.startsWith('github_runner_cluster_') || name.startsWith('ansible_');
/** fleet-role says no, on purpose, where Ansible guesses, drops, or runs something. */
const STRICTER = new Set([
  'duplicate-key',
  'bad-range',
  'bad-host-name',
  'bad-structure',
  'bad-syntax',
  'group-loop',
  'undefined-group',
  'unreadable-file',
  'vault-locked',
]);

/** One Python process that reads inventories with ansible-core, in turn. */
class Ansible {
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #waiting: ((line: string) => void)[] = [];

  constructor() {
    const script = fileURLToPath(new URL('read_with_ansible.py', import.meta.url));
    this.#child = spawn('/usr/bin/python3', ['-W', 'ignore', script], { stdio: 'pipe' });
    this.#child.stderr.pipe(process.stderr);
    createInterface({ input: this.#child.stdout }).on('line', (line) => this.#waiting.shift()?.(line));
    this.#child.on('exit', (code) => {
      for (const answer of this.#waiting) answer(JSON.stringify({ error: `python ended with ${code}` }));
    });
  }

  /** A document as Ansible's loader reads it, types written out. */
  readDocument(document: string): Promise<DocumentAnswer> {
    return this.#ask({ document });
  }

  read(sample: Sample): Promise<Answer> {
    const { files, inventory, playbookDir } = sample;
    return this.#ask({ files, inventory, playbookDir, password: PASSWORD });
  }

  #ask<T>(request: object): Promise<T> {
    return new Promise((resolve) => {
      this.#waiting.push((line) => resolve(JSON.parse(line) as T));
      this.#child.stdin.write(`${JSON.stringify(request)}\n`);
    });
  }

  end(): void {
    this.#child.stdin.end();
  }
}

function readOurs(sample: Sample): Inventory {
  const options: ReadOptions = {
    inventory: sample.inventory,
    playbookDir: sample.playbookDir,
    vaultPassword: PASSWORD,
    needed: deciding,
  };
  const entries = new Map<string, SnapshotEntry>();
  const contents = new Map<string, Uint8Array>();
  for (const [path, text] of Object.entries(sample.files)) {
    const bytes = new TextEncoder().encode(text);
    const oid = createHash('sha1').update(bytes).digest('hex');
    entries.set(path, { type: 'file', oid, size: bytes.length });
    contents.set(oid, bytes);
  }
  const blobs = new Map<string, Uint8Array>();
  for (const path of wantedEntries(entries, options)) {
    const oid = (entries.get(path) as SnapshotEntry).oid;
    blobs.set(oid, contents.get(oid) as Uint8Array);
  }
  return readInventory({ commit: '0'.repeat(40), entries, blobs }, options);
}

/** What was compared, for the last line. */
interface Tally {
  compared: number;
  refused: number;
  values: number;
  unresolved: number;
  openOrders: number;
}

/** The first difference, or null. */
function differenceOf(sample: Sample, answer: Answer, tally: Tally): string | null {
  let ours: Inventory;
  try {
    ours = readOurs(sample);
  } catch (error) {
    return `fleet-role crashed: ${error instanceof Error ? error.stack : error}`;
  }
  const problems = ours.problems.map(({ code, file, line, message }) => `${code} ${file}:${line} ${message}`);
  if (ours.problems.length > 0) {
    if (answer.error === undefined && (sample.wellFormed || ours.problems.some(({ code }) => !STRICTER.has(code)))) {
      return `refused ${ours.problems[0]?.code}: Ansible reads it, fleet-role does not: ${problems.join(' | ')}`;
    }
    if (ours.problems.some(({ file, line }) => file === null || line === null))
      return `a problem without place: ${problems.join(' | ')}`;
    tally.refused++;
    return null;
  }
  if (answer.error !== undefined) return `fleet-role reads it, Ansible does not: ${answer.error}`;
  tally.compared++;
  const names = Object.keys(answer.groups).sort().join(' ');
  if ([...ours.groups.keys()].sort().join(' ') !== names)
    return `groups: ${[...ours.groups.keys()].join(' ')} instead of ${names}`;
  for (const [name, { real, fixed }] of Object.entries(answer.groups)) {
    const group = ours.groups.get(name);
    const hosts = group?.hosts.join(' ');
    if (hosts !== fixed.join(' ')) return `order of ${name}: ${hosts} instead of ${fixed.join(' ')}`;
    if (group?.orderWarning) tally.openOrders++;
    else if (hosts !== real.join(' '))
      return `order of ${name} without a warning: ${hosts} instead of ${real.join(' ')}`;
  }
  for (const [name, variables] of Object.entries(answer.hosts)) {
    const host = ours.hosts.get(name);
    if (host === undefined) return `no host ${name}`;
    for (const variable of host.variables.keys()) {
      if (deciding(variable) && variables[variable] === undefined) return `value: ${variable} of ${name} is only here`;
    }
    for (const [variable, theirs] of Object.entries(variables)) {
      const failure = host.failures.get(variable);
      if (failure !== undefined) {
        tally.unresolved++;
        if (theirs.failed === undefined && !isBeyond(sample, failure.message))
          return `unresolved: ${variable} of ${name}: ${failure.message} Ansible has ${JSON.stringify(theirs.value)}`;
        continue;
      }
      const value = plain(host.variables.get(variable)?.value);
      tally.values++;
      if (theirs.failed !== undefined)
        return `value: ${variable} of ${name}: ${value}, but Ansible fails: ${theirs.failed}`;
      if (value !== plain(theirs.value))
        return `value: ${variable} of ${name}: ${value} instead of ${plain(theirs.value)}`;
    }
  }
  return null;
}

/** Whether some template of the sample is one that fleet-role leaves alone on purpose. */
function isBeyond(sample: Sample, message: string): boolean {
  return (
    /read through hostvars|and that is not defined|leaves to chance|encrypted value/.test(message) ||
    Object.values(sample.files).some((text) => /lookup|\{%|regex_replace|1 \+ 1/.test(text)) ||
    !sample.wellFormed
  );
}

function plain(value: Value | undefined): string {
  return (
    JSON.stringify(value, (_, item) => {
      if (typeof item === 'number' && !Number.isFinite(item))
        return Number.isNaN(item) ? 'nan' : item > 0 ? 'inf' : '-inf';
      if (item !== null && typeof item === 'object' && !Array.isArray(item))
        return Object.fromEntries(Object.entries(item).sort());
      return item;
    }) ?? 'nothing'
  );
}

/** The smallest sample that still differs in the same way: files, then lines, taken out one by one. */
async function minimal(
  sample: Sample,
  ansible: Ansible,
  kind: string,
): Promise<{ sample: Sample; difference: string }> {
  const tally: Tally = { compared: 0, refused: 0, values: 0, unresolved: 0, openOrders: 0 };
  let best = sample;
  let difference = differenceOf(sample, await ansible.read(sample), tally) ?? kind;
  const attempt = async (files: Record<string, string>) => {
    const next = { ...best, files };
    const found = differenceOf(next, await ansible.read(next), tally);
    if (found === null || kindOf(found) !== kind) return false;
    best = next;
    difference = found;
    return true;
  };
  for (let again = true; again; ) {
    again = false;
    for (const path of Object.keys(best.files)) {
      const { [path]: _, ...others } = best.files;
      if (path !== best.inventory && (await attempt(others))) {
        again = true;
        continue;
      }
      for (let line = (best.files[path]?.split('\n').length ?? 0) - 1; line >= 0; line--) {
        const lines = (best.files[path] as string).split('\n');
        if (lines.length === 1) break;
        lines.splice(line, 1);
        if (await attempt({ ...best.files, [path]: lines.join('\n') })) again = true;
      }
    }
  }
  return { sample: best, difference };
}

function kindOf(difference: string): string {
  return difference.split(':')[0]?.split(' ').slice(0, 2).join(' ') ?? difference;
}

/** Compares; returns the exit status. */
export async function main(args: readonly string[]): Promise<number> {
  const option = (name: string, fallback: string) => args[args.indexOf(`--${name}`) + 1 || args.length] ?? fallback;
  const asked = option('seed', '1');
  const seed = asked === 'random' ? Date.now() % 1_000_000 : Number(asked);
  const count = Number(option('count', '600'));
  const documents = Number(option('documents', '4000'));
  if (!Number.isInteger(seed) || !Number.isInteger(count) || !Number.isInteger(documents) || count < 1) {
    console.error('usage: conformance [--seed NUMBER|random] [--count NUMBER] [--documents NUMBER]');
    return 2;
  }
  const ansible = new Ansible();
  const tally: Tally = { compared: 0, refused: 0, values: 0, unresolved: 0, openOrders: 0 };
  const kinds = new Map<string, number>();
  for (let index = 0; index < count; index++) {
    const sample = sampleOf(seed * 1_000_003 + index);
    const difference = differenceOf(sample, await ansible.read(sample), tally);
    if (difference === null) continue;
    const kind = kindOf(difference);
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
    if ((kinds.get(kind) as number) > 3) continue;
    const smallest = await minimal(sample, ansible, kind);
    console.log(`\ndifference in inventory ${index} of seed ${seed}: ${smallest.difference}`);
    for (const [path, text] of Object.entries(smallest.sample.files)) console.log(`--- ${path}\n${text}`);
  }
  let documentDifferences = 0;
  for (let index = 0; index < documents; index++) {
    const text = documentOf(seed * 1_000_003 + index);
    const difference = documentDifference(text, await ansible.readDocument(text));
    if (difference === null) continue;
    if (++documentDifferences <= 5)
      console.log(`\ndifference in document ${index} of seed ${seed}: ${difference}\n${JSON.stringify(text)}`);
  }
  ansible.end();
  const differences = [...kinds.values()].reduce((sum, number) => sum + number, documentDifferences);
  console.log(
    `seed ${seed}: ${count} inventories, ${tally.compared} read alike by ansible-core and compared in ${tally.values} values ` +
      `(${tally.unresolved} not resolved by either or on purpose, ${tally.openOrders} orders that Ansible leaves open), ` +
      `${tally.refused} refused with file and line, ${documents} YAML documents, ${differences} differences`,
  );
  return differences === 0 ? 0 : 1;
}
