import { spawn } from 'node:child_process';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import { parse } from 'yaml';
import type { ActionEvent } from './events.js';
import { temporaryFolder } from './temporary.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

export interface Interrupt {
  /** Asked every 20 ms, one call at a time, with the log so far; the signal is sent once it gives true. */
  readonly when: (log: string) => boolean | Promise<boolean>;
  /** SIGINT and SIGTERM are what a cancelled job gets; SIGKILL is a runner that died. */
  readonly signal: NodeJS.Signals;
  /** true: to the processes it started as well (a machine that lost its power). Default: to node alone. */
  readonly group?: boolean;
}

export interface RunActionOptions {
  /** By the names of action.yml. What is not given gets its default, as the runner does it. */
  readonly inputs?: Readonly<Record<string, string>>;
  /** Without an event the bundle runs as outside GitHub: given inputs and the four usual files, nothing else. */
  readonly event?: ActionEvent;
  /** GITHUB_REPOSITORY. Default: octo/fleet. */
  readonly repository?: string;
  /** What `${{ github.token }}` in action.yml stands for. Default: full-token. */
  readonly token?: string;
  readonly serverUrl?: string;
  readonly apiUrl?: string;
  /** Laid over the environment; `undefined` removes a variable. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** The folder with action.yml. Default: this repository. */
  readonly action?: string;
  /** Runs this file as main and as post instead of those that action.yml names. */
  readonly bundle?: string;
  /** Default: the Node 24 of node_modules. */
  readonly node?: string;
  /** GITHUB_WORKSPACE. Default: an empty folder. */
  readonly workspace?: string;
  /** Signals for main, in order. */
  readonly interrupt?: Interrupt | readonly Interrupt[];
  /** false: post does not run (the runner died with the job). Default: true, whatever main did. */
  readonly post?: boolean;
  /** Secrets that must not be in any process's arguments: see `seenInArguments`. */
  readonly watch?: readonly string[];
  /** Milliseconds until main is killed and the call throws. Default: 150,000. */
  readonly timeout?: number;
}

export interface WorkflowAnnotation {
  readonly level: 'error' | 'warning' | 'notice';
  readonly file: string | null;
  readonly line: number | null;
  readonly title: string | null;
  readonly message: string;
}

export interface PhaseResult {
  /** null when a signal ended it. */
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  /** Standard output and standard error as they came, workflow commands included. */
  readonly log: string;
  /** As a person sees it on GitHub: without `::add-mask::` lines, what was masked before a line shown as `***`. */
  readonly visibleLog: string;
  readonly masks: readonly string[];
  readonly annotations: readonly WorkflowAnnotation[];
  readonly summary: string;
}

export interface ActionResult extends PhaseResult {
  readonly outputs: Readonly<Record<string, string>>;
  /** What main saved for post. */
  readonly state: Readonly<Record<string, string>>;
  /** null when it was not to run. */
  readonly post: PhaseResult | null;
  readonly runnerTemp: string;
  /** Command lines of any process in which a watched secret was seen while main or post ran. */
  readonly seenInArguments: readonly string[];
  /** Paths of what lies in RUNNER_TEMP now. */
  leftInTemp(): Promise<string[]>;
  /** Processes of this machine that the run started (main, post, and theirs) and that still run. */
  leftovers(): Promise<{ pid: number; command: string }[]>;
  /** Runs post now, e.g. for a run that was made with `post: false`. */
  runPost(): Promise<PhaseResult>;
  /** Ends what is left over and removes the run's folders. Done by itself at the end of a test, not of a hook. */
  dispose(): Promise<void>;
}

interface ActionFile {
  readonly inputs?: Readonly<Record<string, { readonly default?: unknown } | null>>;
  readonly runs: { readonly main: string; readonly post?: string };
}

/**
 * Runs a JavaScript action as GitHub's runner does: INPUT_* variables, command files, main, then post with the state
 * that main saved. The environment is clean: PATH, HOME, and what the runner sets.
 * Throws when an input is not in action.yml, and when main or post does not end in time.
 */
export async function runAction(options: RunActionOptions): Promise<ActionResult> {
  const folder = options.action ?? ROOT;
  const file = parse(await readFile(join(folder, 'action.yml'), 'utf8')) as ActionFile;
  const base = await temporaryFolder('run');
  const runnerTemp = join(base, 'temp');
  const workspace = options.workspace ?? join(base, 'workspace');
  const leftovers = () => processesWith(`RUNNER_TEMP=${runnerTemp}`);
  const dispose = async () => {
    for (const { pid } of await leftovers()) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // It ended by itself.
      }
    }
    await rm(base, { recursive: true, force: true });
  };
  try {
    onTestFinished(dispose);
  } catch {
    // Called from a hook, whose run outlives each test: the caller disposes of it.
  }
  await mkdir(runnerTemp);
  await mkdir(workspace, { recursive: true });

  const environment = await environmentOf(options, file, base, runnerTemp, workspace);
  const seen = new Set<string>();
  const phase = async (name: 'main' | 'post', state: Record<string, string>, interrupts: readonly Interrupt[]) => {
    const files = await commandFiles(base, name, options.event !== undefined);
    const env: Record<string, string> = { ...environment, ...files };
    for (const [key, value] of Object.entries(state)) env[`STATE_${key}`] = value;
    for (const [key, value] of Object.entries(options.env ?? {})) {
      if (value === undefined) delete env[key];
      else env[key] = value;
    }
    const script = options.bundle ?? join(folder, (name === 'main' ? file.runs.main : file.runs.post) ?? '');
    const ended = await runNode(options, script, env, workspace, interrupts, seen);
    const summary = await readFile(files.GITHUB_STEP_SUMMARY as string, 'utf8');
    return { result: { ...ended, ...readLog(ended.log), summary }, files };
  };

  const main = await phase('main', {}, [options.interrupt ?? []].flat());
  const outputs = parseCommandFile(await readFile(main.files.GITHUB_OUTPUT as string, 'utf8'));
  const stateFile = main.files.GITHUB_STATE;
  const state = stateFile === undefined ? {} : parseCommandFile(await readFile(stateFile, 'utf8'));
  const runPost = async () => (await phase('post', state, [])).result;
  const hasPost = options.post !== false && (file.runs.post !== undefined || options.bundle !== undefined);
  // Outside GitHub nobody runs a post step.
  const post = hasPost && options.event !== undefined ? await runPost() : null;

  return {
    ...main.result,
    outputs,
    state,
    post,
    runnerTemp,
    seenInArguments: [...seen],
    leftInTemp: async () => (await readdir(runnerTemp, { recursive: true })).sort(),
    leftovers,
    runPost,
    dispose,
  };
}

async function environmentOf(
  options: RunActionOptions,
  file: ActionFile,
  base: string,
  runnerTemp: string,
  workspace: string,
): Promise<Record<string, string>> {
  const env: Record<string, string> = {
    // Without the folders that npm adds: a runner has none of this repository's tools on its PATH.
    PATH: (process.env.PATH ?? '')
      .split(':')
      .filter((folder) => !folder.includes('node_modules'))
      .join(':'),
    HOME: process.env.HOME ?? '/root',
    RUNNER_TEMP: runnerTemp,
    GITHUB_WORKSPACE: workspace,
  };
  for (const [name, value] of Object.entries(options.inputs ?? {})) {
    if (!(name in (file.inputs ?? {}))) throw new Error(`action.yml has no input "${name}"`);
    env[inputVariable(name)] = value;
  }
  const { event } = options;
  if (event === undefined) return env;

  for (const [name, input] of Object.entries(file.inputs ?? {})) {
    if (input?.default === undefined || inputVariable(name) in env) continue;
    env[inputVariable(name)] = String(input.default).replace(/\$\{\{\s*(.*?)\s*\}\}/g, (_, expression: string) => {
      if (expression !== 'github.token') throw new Error(`the default of input ${name} uses ${expression}`);
      return options.token ?? 'full-token';
    });
  }
  const eventPath = join(base, 'event.json');
  await writeFile(eventPath, JSON.stringify(event.payload));
  const repository = options.repository ?? 'octo/fleet';
  const serverUrl = options.serverUrl ?? 'https://github.invalid';
  const apiUrl = options.apiUrl ?? 'https://api.github.invalid';
  return {
    ...env,
    CI: 'true',
    GITHUB_ACTIONS: 'true',
    GITHUB_ACTION: '__self',
    GITHUB_ACTOR: 'octocat',
    GITHUB_API_URL: apiUrl,
    GITHUB_GRAPHQL_URL: `${apiUrl.replace(/\/v3$/, '')}/graphql`,
    GITHUB_BASE_REF: event.baseRef ?? '',
    GITHUB_HEAD_REF: event.headRef ?? '',
    GITHUB_EVENT_NAME: event.name,
    GITHUB_EVENT_PATH: eventPath,
    GITHUB_JOB: 'fleet',
    GITHUB_REF: event.ref,
    GITHUB_REF_NAME: event.ref.replace(/^refs\/(heads|tags|pull)\//, ''),
    GITHUB_REF_TYPE: event.ref.startsWith('refs/tags/') ? 'tag' : 'branch',
    GITHUB_REPOSITORY: repository,
    GITHUB_REPOSITORY_OWNER: repository.split('/')[0] ?? '',
    GITHUB_RUN_ATTEMPT: '1',
    GITHUB_RUN_ID: '4711',
    GITHUB_RUN_NUMBER: '12',
    GITHUB_SERVER_URL: serverUrl,
    GITHUB_SHA: event.sha,
    GITHUB_WORKFLOW: 'fleet',
    RUNNER_ARCH: 'X64',
    RUNNER_ENVIRONMENT: 'github-hosted',
    RUNNER_NAME: 'runner-of-the-test',
    RUNNER_OS: 'Linux',
  };
}

/** The variable of an input: upper case, spaces to underscores, hyphens kept. */
function inputVariable(name: string): string {
  return `INPUT_${name.replaceAll(' ', '_').toUpperCase()}`;
}

/** Each phase has command files of its own. Outside GitHub there are only those that a person would give. */
async function commandFiles(base: string, phase: string, all: boolean): Promise<Record<string, string>> {
  const names = ['GITHUB_OUTPUT', 'GITHUB_STEP_SUMMARY', ...(all ? ['GITHUB_STATE', 'GITHUB_ENV', 'GITHUB_PATH'] : [])];
  const files = Object.fromEntries(names.map((name) => [name, join(base, `${phase}-${name.toLowerCase()}`)]));
  for (const file of Object.values(files)) await writeFile(file, '');
  return files;
}

function runNode(
  options: RunActionOptions,
  script: string,
  env: Record<string, string>,
  cwd: string,
  interrupts: readonly Interrupt[],
  seen: Set<string>,
): Promise<{ exitCode: number | null; signal: NodeJS.Signals | null; log: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(options.node ?? join(ROOT, 'node_modules', '.bin', 'node'), [script], {
      cwd,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
      // A process group of its own, so that a power cut can be played.
      detached: true,
    });
    let log = '';
    let exited = false;
    let timedOut = false;
    child.stdout.setEncoding('utf8').on('data', (text: string) => (log += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (log += text));
    const send = (signal: NodeJS.Signals, group: boolean) => {
      try {
        process.kill(group ? -(child.pid as number) : (child.pid as number), signal);
      } catch {
        // It ended just now.
      }
    };
    const limit = options.timeout ?? 150_000;
    const timer = setTimeout(() => {
      timedOut = true;
      send('SIGKILL', true);
    }, limit);
    const watch = async () => {
      const waiting = [...interrupts];
      while (!exited && (waiting.length > 0 || options.watch !== undefined)) {
        const next = waiting[0];
        if (next !== undefined && (await next.when(log))) {
          waiting.shift();
          if (!exited) send(next.signal, next.group ?? false);
        }
        for (const secret of options.watch ?? []) await findInArguments(secret, seen);
        await new Promise((wake) => setTimeout(wake, 20));
      }
    };
    watch().catch((error: unknown) => {
      send('SIGKILL', true);
      reject(error);
    });
    child.on('error', reject);
    child.on('exit', (exitCode, signal) => {
      exited = true;
      clearTimeout(timer);
      const done = () => {
        clearTimeout(patience);
        if (timedOut) reject(new Error(`${script} did not end within ${limit} ms; its log:\n${log.slice(-4000)}`));
        else resolve({ exitCode, signal, log });
      };
      // A process that it left behind may hold the pipes open for long: what is there by then is the log.
      const patience = setTimeout(done, 500);
      child.once('close', done);
    });
  });
}

/** The name/value pairs of a command file: `NAME=VALUE` and `NAME<<DELIMITER … DELIMITER`. */
export function parseCommandFile(text: string): Record<string, string> {
  const pairs: Record<string, string> = {};
  const lines = text.split('\n');
  while (lines.length > 0) {
    const line = (lines.shift() as string).replace(/\r$/, '');
    if (line === '') continue;
    const heredoc = /^([^=]+?)<<(.+)$/.exec(line);
    if (heredoc !== null) {
      const end = lines.findIndex((l) => l.replace(/\r$/, '') === heredoc[2]);
      if (end < 0) throw new Error(`command file: no end "${heredoc[2]}" for ${heredoc[1]}`);
      pairs[heredoc[1] as string] = lines.splice(0, end).join('\n');
      lines.shift();
      continue;
    }
    const equals = line.indexOf('=');
    if (equals < 1) throw new Error(`command file: no name in "${line}"`);
    pairs[line.slice(0, equals)] = line.slice(equals + 1);
  }
  return pairs;
}

function readLog(log: string): Pick<PhaseResult, 'visibleLog' | 'masks' | 'annotations'> {
  const masks: string[] = [];
  const annotations: WorkflowAnnotation[] = [];
  const visible: string[] = [];
  for (const line of log.split('\n')) {
    const command = /^\s*::([\w-]+)(?: ([^:]*(?::(?!:)[^:]*)*))?::(.*)$/.exec(line);
    const name = command?.[1];
    if (name === 'add-mask') {
      // The runner masks each line of a secret with several.
      masks.push(
        ...decode(command?.[3] ?? '')
          .split(/\r?\n/)
          .filter((part) => part !== ''),
      );
      continue;
    }
    const hide = (text: string) => masks.reduce((shown, mask) => shown.replaceAll(mask, '***'), text);
    visible.push(hide(line));
    if (name === 'error' || name === 'warning' || name === 'notice') {
      const properties = Object.fromEntries(
        (command?.[2] ?? '').split(',').map((pair) => {
          const equals = pair.indexOf('=');
          return [
            pair.slice(0, equals).trim(),
            decode(pair.slice(equals + 1))
              .replaceAll('%3A', ':')
              .replaceAll('%2C', ','),
          ];
        }),
      );
      annotations.push({
        level: name,
        file: properties.file ?? null,
        line: properties.line === undefined ? null : Number(properties.line),
        title: properties.title ?? null,
        message: hide(decode(command?.[3] ?? '')),
      });
    }
  }
  return { visibleLog: visible.join('\n'), masks, annotations };
}

function decode(text: string): string {
  return text.replaceAll('%0D', '\r').replaceAll('%0A', '\n').replaceAll('%25', '%');
}

async function pids(): Promise<number[]> {
  return (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
}

async function argumentsOf(pid: number): Promise<string> {
  const text = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
  return text.replaceAll('\0', ' ').trim();
}

async function findInArguments(secret: string, seen: Set<string>): Promise<void> {
  for (const pid of await pids()) {
    const line = await argumentsOf(pid);
    if (line.includes(secret)) seen.add(line);
  }
}

async function processesWith(variable: string): Promise<{ pid: number; command: string }[]> {
  const found: { pid: number; command: string }[] = [];
  for (const pid of await pids()) {
    if (pid === process.pid) continue;
    const environment = await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '');
    if (environment.split('\0').includes(variable)) found.push({ pid, command: await argumentsOf(pid) });
  }
  return found;
}
