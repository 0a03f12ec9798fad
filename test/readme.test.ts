import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { isNeeded, PREFIX } from '../src/fleet/variables.js';
import { readSettings } from '../src/settings.js';
import { type CommandResult, tryCommand } from './helpers/command.js';
import { temporaryFolder } from './helpers/temporary.js';
import { workflowProblems } from './helpers/workflow-schema.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const readme = read('README.md');
const action = parse(read('action.yml')) as { inputs: Record<string, { default: string }> };

let folder = '';
beforeAll(async () => {
  folder = await temporaryFolder('readme');
});
afterAll(() => rm(folder, { recursive: true, force: true }));

interface Step {
  readonly uses: string;
  readonly with?: Readonly<Record<string, string>>;
}

interface Workflow {
  readonly name: string;
  readonly on: unknown;
  readonly permissions: Readonly<Record<string, string>>;
  readonly concurrency: Readonly<Record<string, unknown>>;
  readonly jobs: Readonly<Record<string, { readonly 'runs-on': string; readonly steps: readonly Step[] }>>;
}

const blocks = [...readme.matchAll(/^```yaml\n([\s\S]*?)^```/gm)].map(([, text = '']) => text);
const workflows = blocks
  .filter((text) => /^jobs:/m.test(text))
  .map((text) => ({ text, workflow: parse(text) as Workflow }));
const stepsOf = ({ jobs }: Workflow): readonly Step[] => Object.values(jobs).flatMap((job) => job.steps);
const workflow = (name: string): Workflow => {
  const found = workflows.find((one) => one.workflow.name === name);
  if (found === undefined) throw new Error(`README.md has no workflow called ${name}`);
  return found.workflow;
};

/** The lines of the section under a heading, up to the next one of the same level or above. */
function section(heading: string): string {
  const at = readme.indexOf(`\n${heading}\n`);
  if (at < 0) throw new Error(`README.md has no heading ${heading}`);
  const level = heading.indexOf(' ');
  const rest = readme.slice(at + heading.length + 2);
  const end = rest.search(new RegExp(`^#{1,${level}} `, 'm'));
  return end < 0 ? rest : rest.slice(0, end);
}

/** What stands as code in the first cells of the table whose head begins with that word. */
function firstCells(head: string): string[] {
  const table = new RegExp(`^\\| ${head} \\|.*\\n\\| ---.*\\n((?:\\|.*\\n)+)`, 'm').exec(readme)?.[1];
  if (table === undefined) throw new Error(`README.md has no table with the head ${head}`);
  return table
    .trim()
    .split('\n')
    .flatMap((row) => [...(row.split('|')[1] ?? '').matchAll(/`([^`]+)`/g)].map(([, code = '']) => code));
}

function sourcesBelow(path: string): string[] {
  return readdirSync(join(root, path), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.(ts|sh)$/.test(entry.name))
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), 'utf8'));
}

describe('the generated parts of README.md', () => {
  const check = (path: string): Promise<CommandResult> =>
    tryCommand(process.execPath, [join(root, 'test/tools/readme.mjs'), '--check', path]);

  test('are what action.yml and the bundle say', async () => {
    expect(await check(join(root, 'README.md'))).toMatchObject({ code: 0, stderr: '' });
  });

  test.each([
    ['an input', '| `parallelism` | `20` |', '| `parallelism` | `21` |'],
    ['an output', '| `failed-step` |', '| `failing-step` |'],
    ['the plan', '| `mini-5` | added |', '| `mini-5` | removed |'],
  ])('are found to differ when %s is another', async (_what, from, to) => {
    expect(readme).toContain(from);
    const path = join(folder, 'README.md');
    await writeFile(path, readme.replace(from, to));
    const result = await check(path);
    expect(result.code).toBe(1);
    expect(result.stderr).toContain('Run "node test/tools/readme.mjs"');
  });

  test('name every input with its default', () => {
    for (const [name, input] of Object.entries(action.inputs)) {
      expect(readme).toContain(`| \`${name}\` | ${input.default === '' ? '' : `\`${input.default}\``} |`);
    }
  });
});

describe('the workflows of README.md', () => {
  test('are a plan on pull requests, an apply on pushes, a rejoin by hand and a look for drift by the clock', () => {
    const names = ['plan', 'apply', 'rejoin', 'drift'].map((mode) => `fleet-role ${mode}`);
    expect(workflows.map((one) => one.workflow.name)).toEqual(names);
    expect(workflow('fleet-role plan').on).toBe('pull_request');
    expect(workflow('fleet-role apply').on).toEqual({ push: { branches: ['main'] } });
    expect(workflow('fleet-role rejoin').on).toEqual({ workflow_dispatch: { inputs: { host: { required: true } } } });
    expect(workflow('fleet-role drift').on).toEqual({
      schedule: [{ cron: expect.stringMatching(/^\d+ \d+ \* \* \*$/) }],
    });
  });

  describe.each(workflows.map((one) => [one.workflow.name, one] as const))('%s', (_name, { text, workflow }) => {
    test('has at most 15 lines', () => {
      expect(text.trimEnd().split('\n').length).toBeLessThanOrEqual(15);
    });

    test('is a workflow as GitHub reads it', () => {
      expect(workflowProblems(text)).toEqual([]);
      expect(workflowProblems(text.replace('runs-on:', 'run-on:'))).not.toEqual([]);
    });

    test('has the permissions that are needed and no others', () => {
      const reviewed = workflow.name === 'fleet-role apply' ? { 'pull-requests': 'read' } : {};
      expect(workflow.permissions).toEqual({ contents: 'read', checks: 'write', ...reviewed });
    });

    test('is never cancelled by the next run, and has a group', () => {
      expect(workflow.concurrency).toEqual({ group: expect.stringMatching(/\S/), 'cancel-in-progress': false });
    });

    test('gives fleet-role inputs that action.yml has, with values that it takes', () => {
      const steps = stepsOf(workflow).filter((step) => step.uses.startsWith('OWNER/fleet-role@'));
      expect(steps).toHaveLength(1);
      for (const { with: given = {} } of steps) {
        for (const name of Object.keys(given)) expect(Object.keys(action.inputs)).toContain(name);
        expect(() => readSettings((name) => given[name] ?? action.inputs[name]?.default ?? '')).not.toThrow();
      }
    });

    test('runs on a hosted runner', () => {
      for (const job of Object.values(workflow.jobs)) expect(job['runs-on']).toBe('ubuntu-latest');
    });
  });

  test('that contact hosts never run at the same time', () => {
    const groups = ['apply', 'rejoin', 'drift'].map((mode) => workflow(`fleet-role ${mode}`).concurrency.group);
    expect(new Set(groups).size).toBe(1);
  });

  test('give the plan no secret, and the apply what ssh needs', () => {
    expect(JSON.stringify(workflow('fleet-role plan'))).not.toContain('secrets.');
    const [step] = stepsOf(workflow('fleet-role apply'));
    expect(Object.keys(step?.with ?? {}).sort()).toEqual(['ssh-known-hosts', 'ssh-private-key']);
  });

  test('pin every action by a placeholder for its full SHA and version', () => {
    const uses = blocks.flatMap((text) => [...text.matchAll(/uses: *(.*)$/gm)].map(([, value = '']) => value));
    expect(uses.length).toBeGreaterThan(workflows.length);
    for (const value of uses) expect(value).toMatch(/^[\w.-]+\/[\w.-]+@SHA # vX\.Y\.Z$/);
  });
});

describe('the lists of README.md', () => {
  test('have every problem, and no other', () => {
    const codes = [...read('src/fleet/problem.ts').matchAll(/^ {2}\| '([a-z-]+)'/gm)].map(([, code]) => code);
    expect(codes.length).toBeGreaterThan(20);
    expect(firstCells('problem').sort()).toEqual(codes.sort());
  });

  test('have every refusal that the rules and the events give, and no other', () => {
    const text = [...sourcesBelow('src/plan/rules'), read('src/github/events.ts')].join('\n');
    const codes = new Set(
      [...text.matchAll(/(?:(?:refuse|add)\(\s*|code: )'([a-z0-9-]+)'/g)].map(([, code = '']) => code),
    );
    expect(codes.size).toBeGreaterThan(5);
    expect(firstCells('refusal').sort()).toEqual([...codes].sort());
  });

  test('have every note that a plan gives, and no other', () => {
    const text = [read('src/plan/notes.ts'), read('src/plan/prepare.ts')].join('\n');
    const codes = new Set([...text.matchAll(/code: '([a-z-]+)'/g)].map(([, code = '']) => code));
    expect(codes.size).toBeGreaterThan(5);
    expect(firstCells('note').sort()).toEqual([...codes].sort());
  });

  test('have every variable of the inventory', () => {
    const text = read('src/fleet/variables.ts');
    const listed = ['CLUSTER_VARIABLES', 'HOST_VARIABLES'].flatMap((name) => {
      const array = new RegExp(`const ${name} = \\[([\\s\\S]*?)\\]`).exec(text)?.[1] ?? '';
      return [...array.matchAll(/'([a-z_]+)'/g)].map(([, short = '']) => short);
    });
    expect(listed.length).toBeGreaterThan(15);
    expect(firstCells('variable').sort()).toEqual(listed.sort());
    for (const short of firstCells('variable')) expect(isNeeded(PREFIX + short), short).toBe(true);
  });

  test('have every environment variable that the entrypoint reads', () => {
    const script = read('src/node/node-entrypoint.sh').replaceAll(/^\s*#.*$/gm, '');
    const names = new Set([...script.matchAll(/\$\{?(K3S_[A-Z_]+)/g)].map(([, name = '']) => name));
    // Where k3s itself writes its kubeconfig: nothing that the guards or the start depend on.
    names.delete('K3S_KUBECONFIG_OUTPUT');
    expect(names.size).toBeGreaterThan(5);
    expect(firstCells('environment').sort()).toEqual([...names].sort());
  });
});

describe('what README.md quotes', () => {
  // A value in a template or a shell string stands between two of the texts that people see.
  const sources = sourcesBelow('src').join('\n');

  const quotes = firstCells('text');
  test('is a list', () => expect(quotes.length).toBeGreaterThan(20));

  test.each(quotes)('is in the sources, part by part: %s', (quote) => {
    const parts = quote
      .split('…')
      .map((part) => part.trim())
      .filter((part) => part !== '');
    expect(parts.length).toBeGreaterThan(0);
    for (const part of parts) expect(sources).toContain(part);
  });

  test.each([
    "tombstone says this server's etcd member was removed",
    'is no https URL',
    'has no server to join',
    'has no token',
    'a cluster answers at ',
    'Starting k3s',
  ])('of the guards is in both: %s', (words) => {
    expect(section('## The node guards')).toContain(words);
    expect(read('src/node/node-entrypoint.sh')).toContain(words);
  });

  test('of places is there: files by their links, headings by theirs', () => {
    const targets = [...readme.matchAll(/\]\((?!https?:)([^)]+)\)/g)].map(([, target = '']) => target);
    expect(targets.length).toBeGreaterThan(5);
    const anchors = [...readme.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\w\- ]/g, '')
        .replaceAll(' ', '-'),
    );
    for (const target of targets) {
      if (target.startsWith('#')) expect(anchors).toContain(target.slice(1));
      else expect(existsSync(join(root, target)), target).toBe(true);
    }
    expect(existsSync(join(root, 'examples/node/docker-compose.yml'))).toBe(true);
  });

  test('of npm scripts is in package.json', () => {
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
    const named = [...readme.matchAll(/npm run ([a-z0-9-]+)/g)].map(([, name = '']) => name);
    expect(named).toContain('demo');
    for (const name of named) expect(Object.keys(scripts)).toContain(name);
  });
});

test('the command for a run outside GitHub makes a plan, with nothing else in its environment', async () => {
  const [, command = ''] = /```sh\n(env INPUT_MODE=[\s\S]*?)```/.exec(readme) ?? [];
  expect(command).toContain(
    'env INPUT_MODE=plan INPUT_REPOSITORY=/path/to/repo INPUT_REF=SHA INPUT_BASE-REF=SHA INPUT_CHECK-RUN=false',
  );
  const identity = ['-c', 'user.name=A', '-c', 'user.email=a@example.net'];
  const git = async (...args: string[]): Promise<string> => {
    const result = await tryCommand('git', ['-C', folder, ...identity, ...args]);
    expect(result, result.stderr).toMatchObject({ code: 0 });
    return result.stdout.trim();
  };
  const inventory =
    'github_runner_cluster:\n  hosts: { mini-1: }\n  vars: { github_runner_cluster_controller: true }\n';
  await writeFile(join(folder, 'inventory.yml'), inventory);
  await git('init', '-q', '-b', 'main', '.');
  await git('add', 'inventory.yml');
  await git('commit', '-qm', 'one');
  const sha = await git('rev-parse', 'HEAD');
  const output = join(folder, 'output');
  await writeFile(output, '');
  const filled = command.replace('/path/to/repo', folder).replaceAll('=SHA', `=${sha}`).replace('node ', '"$NODE" ');
  const files = [`GITHUB_OUTPUT=${output}`, `GITHUB_WORKSPACE=${folder}`, `RUNNER_TEMP=${folder}`];
  const clean = ['-i', `PATH=${process.env.PATH}`, `HOME=${folder}`, `NODE=${process.execPath}`, ...files];
  const result = await tryCommand('env', [...clean, 'sh', '-c', filled], { cwd: root });
  expect(result.code, result.stdout + result.stderr).toBe(0);
  const written = readFileSync(output, 'utf8');
  const plan = /^plan<<(\S+)\n([\s\S]*?)\n\1$/m.exec(written)?.[2] ?? '';
  expect(JSON.parse(plan)).toMatchObject({
    version: 1,
    mode: 'plan',
    base: sha,
    head: sha,
    inventory: 'inventory.yml',
  });
});

test('README.md is short enough to be read', () => {
  expect(readme.split('\n').length).toBeLessThan(650);
});
