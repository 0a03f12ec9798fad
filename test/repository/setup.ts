import { execFileSync } from 'node:child_process';
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import type { Logger } from '../../src/log.js';
import { openRepository, type Repository, type RepositoryOptions } from '../../src/repository/repository.js';
import type { Snapshot } from '../../src/repository/snapshot.js';

/** A logger that keeps every line. */
export function recorder(): Logger & { readonly lines: string[] } {
  const lines: string[] = [];
  const keep = (level: string) => (message: string) => {
    lines.push(`${level}: ${message}`);
  };
  return {
    lines,
    debug: keep('debug'),
    info: keep('info'),
    notice: keep('notice'),
    warning: keep('warning'),
    error: keep('error'),
    group: (_name, work) => work(),
  };
}

/** A directory for one test file, with the means to open repositories in it; `remove` closes and deletes everything. */
export interface Bench {
  readonly dir: string;
  readonly temp: string;
  readonly logger: ReturnType<typeof recorder>;
  open(options: Partial<RepositoryOptions>): Promise<Repository>;
  /** Every git command since the start, one a line. */
  commands(): Promise<string[]>;
  remove(): Promise<void>;
}

export async function makeBench(): Promise<Bench> {
  const dir = await mkdtemp(join(tmpdir(), 'fleet-repository-'));
  const temp = join(dir, 'temp');
  const bin = join(dir, 'bin');
  const log = join(dir, 'commands');
  await mkdir(temp);
  await mkdir(bin);
  // A git that writes down its command line and environment, and then is git.
  const git = execFileSync('sh', ['-c', 'command -v git'], { encoding: 'utf8' }).trim();
  await writeFile(log, '');
  await writeFile(join(bin, 'git'), `#!/bin/sh\necho "$*" >>'${log}'\nenv >>'${log}.env'\nexec '${git}' "$@"\n`);
  await chmod(join(bin, 'git'), 0o755);
  const logger = recorder();
  const opened: Repository[] = [];
  return {
    dir,
    temp,
    logger,
    async open(options) {
      const repository = await openRepository({
        repository: null,
        thisRepository: null,
        serverUrl: 'https://github.com',
        token: '',
        workspace: dir,
        temp,
        logger,
        ...options,
        environment: {
          ...process.env,
          GIT_CONFIG_NOSYSTEM: '1',
          GIT_CONFIG_GLOBAL: '/dev/null',
          PATH: `${bin}${delimiter}${process.env.PATH}`,
          ...options.environment,
        },
      });
      opened.push(repository);
      return repository;
    },
    commands: async () => (await readFile(log, 'utf8')).split('\n').filter((line) => line !== ''),
    async remove() {
      for (const repository of opened) await repository.close();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** The content of a path as text; undefined when it was not read. */
export function textOf(snapshot: Snapshot | undefined, path: string): string | undefined {
  const entry = snapshot?.entries.get(path);
  const content = entry && snapshot?.blobs.get(entry.oid);
  return content && Buffer.from(content).toString('utf8');
}

export const everything = (entries: ReadonlyMap<string, unknown>): string[] => [...entries.keys()];
export const nothing = (): string[] => [];
