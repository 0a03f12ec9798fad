import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { parse } from 'yaml';
import { tryCommand } from '../helpers/command.js';
import { temporaryFolder } from '../helpers/temporary.js';
import { actionProblems, workflowProblems } from '../helpers/workflow-schema.js';

// Programs of their own, on a machine that may be busy.
vi.setConfig({ testTimeout: 60_000 });

const root = fileURLToPath(new URL('../..', import.meta.url));
const folder = join(root, '.github/workflows');
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

interface Job {
  readonly permissions?: Readonly<Record<string, string>>;
  readonly 'timeout-minutes'?: number;
  readonly steps: readonly {
    readonly uses?: string;
    readonly run?: string;
    readonly with?: Readonly<Record<string, unknown>>;
  }[];
}
interface Workflow {
  readonly permissions?: unknown;
  readonly concurrency?: { readonly group: string };
  readonly jobs: Readonly<Record<string, Job>>;
}

const files = readdirSync(folder).map((name) => `.github/workflows/${name}`);
const scripts = readdirSync(join(root, '.github'), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.sh') && !name.includes('node_modules'))
  .map((name) => `.github/${name}`);

describe('action.yml', () => {
  test('is an action as GitHub reads it', () => {
    expect(actionProblems(read('action.yml'))).toEqual([]);
  });

  test('would be found wrong', () => {
    expect(actionProblems(read('action.yml').replace('using: node24', 'using: node23'))).not.toEqual([]);
    expect(actionProblems(read('action.yml').replace('main: ', 'mian: '))).not.toEqual([]);
  });
});

describe('the workflows of this repository', () => {
  test('are a check, the mesh scenario and a release', () => {
    expect(files.map((name) => name.replace(/.*\//, '')).sort()).toEqual(['ci.yml', 'mesh.yml', 'release.yml']);
  });

  describe.each(files)('%s', (file) => {
    const text = read(file);
    const workflow = parse(text) as Workflow;
    const jobs = Object.values(workflow.jobs);
    const steps = jobs.flatMap((job) => job.steps);

    test('is a workflow as GitHub reads it', () => {
      expect(workflowProblems(text)).toEqual([]);
      expect(workflowProblems(text.replace('runs-on:', 'run-on:'))).not.toEqual([]);
      expect(workflowProblems(text.replace('contents:', 'content:'))).not.toEqual([]);
    });

    test('grants nothing but what each job asks for, and ends in time', () => {
      expect(workflow.permissions).toEqual({});
      expect(workflow.concurrency?.group).toMatch(/\S/);
      for (const job of jobs) {
        const release = file.endsWith('release.yml');
        expect(job.permissions).toEqual({ contents: release ? 'write' : 'read' });
        expect(job['timeout-minutes']).toBeLessThanOrEqual(60);
      }
    });

    test('pins every action by its full SHA with its version, and leaves no credentials in the checkout', () => {
      const uses = [...text.matchAll(/uses: *(.*)$/gm)].map(([, value = '']) => value);
      expect(uses.length).toBeGreaterThan(0);
      for (const value of uses) expect(value).toMatch(/^[\w.-]+\/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
      const checkouts = steps.filter((step) => step.uses?.startsWith('actions/checkout@'));
      expect(checkouts.length).toBeGreaterThan(0);
      for (const step of checkouts) expect(step.with).toMatchObject({ 'persist-credentials': false });
    });

    test('runs scripts that are there, and puts nothing of an event into a shell', () => {
      for (const { run = '' } of steps) {
        expect(run).not.toContain('${{');
        for (const [path] of run.matchAll(/\.github\/(?:mesh|release)\/[\w.-]+\.(?:sh|mjs)|\.ci\/run/g)) {
          expect(existsSync(join(root, path)), path).toBe(true);
        }
      }
    });
  });

  test('have all their shell scripts in order', async () => {
    expect(scripts.length).toBeGreaterThan(4);
    const result = await tryCommand('shellcheck', ['-x', ...scripts], { cwd: root }).catch(() => null);
    if (result === null && process.env.FLEET_ROLE_ALL_SHELLS !== '1') return;
    expect(result).toMatchObject({ code: 0, stdout: '' });
  });
});

describe('the mesh scenario', () => {
  const rejoin = read('.github/mesh/rejoin.sh');

  test('has the steps in their order', () => {
    const headings = [...rejoin.matchAll(/^say '(\d)\. (.*)'$/gm)].map(([, number]) => Number(number));
    expect(headings).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    expect(read('.github/workflows/mesh.yml')).toMatch(/set-up\.sh[\s\S]*rejoin\.sh[\s\S]*controller-off\.sh/);
  });

  test('waits for words that the guards say', () => {
    const guards = read('src/node/node-entrypoint.sh');
    for (const words of [
      "tombstone says this server's etcd member was removed",
      'has no server to join',
      'Starting k3s',
    ]) {
      expect(rejoin).toContain(words);
      expect(guards).toContain(words);
    }
  });
});

describe('a release', () => {
  test('is what the lock file of its own says, with every plugin that its configuration names', async () => {
    const { devDependencies } = JSON.parse(read('.github/release/package.json')) as {
      devDependencies: Record<string, string>;
    };
    const lock = JSON.parse(read('.github/release/package-lock.json')) as {
      packages: Record<string, { resolved?: string; devDependencies?: Record<string, string> }>;
    };
    expect(lock.packages['']?.devDependencies).toEqual(devDependencies);
    for (const { resolved } of Object.values(lock.packages)) expect(resolved).toBeUndefined();
    const path = join(root, '.github/release/release.config.mjs');
    const { default: config } = (await import(path)) as { default: { branches: string[]; plugins: unknown[] } };
    expect(config.branches).toEqual(['main']);
    for (const plugin of config.plugins.flatMap((one) => (Array.isArray(one) ? [one[0]] : [one]))) {
      expect(Object.keys(devDependencies)).toContain(plugin);
    }
  });

  test.each([
    ['v1.4.2', 'v1'],
    ['v12.0.0', 'v12'],
  ])('moves the major tag of %s, as a tag of its commit', async (tag, major) => {
    const { folder: work, origin } = await repositoryWith(tag);
    const script = join(root, '.github/release/move-major-tag.sh');
    const env = { GITHUB_TOKEN: 'a-token', GITHUB_SERVER_URL: `file://${origin}`, GITHUB_REPOSITORY: 'o/r' };
    const result = await tryCommand('bash', [script, tag], { cwd: work, env });
    expect(result).toMatchObject({ code: 0 });
    expect(result.stdout + result.stderr).not.toContain('a-token');
    const tags = await tryCommand('git', [
      '-C',
      join(origin, 'o/r.git'),
      'for-each-ref',
      '--format=%(refname) %(objecttype)',
    ]);
    expect(tags.stdout.trim()).toBe(`refs/tags/${major} commit`);
  });

  test('moves no tag for what is no release', async () => {
    const script = join(root, '.github/release/move-major-tag.sh');
    const result = await tryCommand('bash', [script, 'v2.0.0-beta.1'], { cwd: root });
    expect(result).toMatchObject({ code: 0, stdout: '' });
  });
});

/** A repository with an annotated tag, and an empty one to push to. */
async function repositoryWith(tag: string): Promise<{ folder: string; origin: string }> {
  const origin = await temporaryFolder('release-origin');
  const work = await temporaryFolder('release-work');
  const git = async (...args: string[]): Promise<void> => {
    const identity = ['-c', 'user.name=t', '-c', 'user.email=t@example.net'];
    expect(await tryCommand('git', ['-C', work, ...identity, ...args])).toMatchObject({ code: 0 });
  };
  expect(await tryCommand('git', ['init', '-q', '--bare', join(origin, 'o/r.git')])).toMatchObject({ code: 0 });
  await git('init', '-q');
  await git('commit', '-q', '--allow-empty', '-m', 'feat: x');
  await git('tag', '-a', tag, '-m', tag);
  onTestFinished(() => Promise.all([rm(origin, { recursive: true }), rm(work, { recursive: true })]).then(() => {}));
  return { folder: work, origin };
}
