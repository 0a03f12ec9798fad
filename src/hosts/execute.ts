// node:child_process and not @actions/exec: exec has no abort, and every command here has a time limit.
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { messageOf } from '../errors.js';
import type { Result } from './connection.js';
import { endedByTimeout, frame, unframe } from './frame.js';

/** The most that a script may print, in bytes. */
export const OUTPUT_LIMIT = 4 * 1024 * 1024;
const ERROR_LIMIT = 64 * 1024;
/** Seconds that the host's own `timeout` gets to act before the runner does. */
const GRACE_SECONDS = 10;
/** Milliseconds that output may still come after the program itself has ended. */
const DRAIN_MILLISECONDS = 2000;

/** Variables that ssh and a local docker need. The rest of the runner's environment holds secrets. */
const PASSED_ON = [
  ...['PATH', 'HOME', 'USER', 'LOGNAME', 'TMPDIR', 'SSH_AUTH_SOCK', 'XDG_RUNTIME_DIR'],
  ...['DOCKER_HOST', 'DOCKER_CONTEXT', 'DOCKER_CONFIG', 'DOCKER_CERT_PATH', 'DOCKER_TLS_VERIFY'],
];

export type Outcome =
  | { readonly kind: 'answered'; readonly result: Result }
  | { readonly kind: 'timed-out'; readonly begun: boolean }
  | { readonly kind: 'too-much' }
  | { readonly kind: 'no-program'; readonly message: string }
  /** It ended, but the script's end line did not come. */
  | {
      readonly kind: 'broken';
      readonly begun: boolean;
      readonly code: number;
      readonly stdout: string;
      readonly stderr: string;
    };

export interface FramedRun {
  readonly script: string;
  readonly stdin: string;
  readonly seconds: number;
  /** False where killing the process group ends everything: a local script as our own user. */
  readonly boundThere: boolean;
  /** Seconds until the script must have begun. */
  readonly first: number;
  readonly running: Set<ChildProcess>;
}

/** Runs one framed script by `program`, which hands its input to `sh -s`, and reads the answer. Never throws for a host's fault. */
export async function runFramed(program: string, args: readonly string[], run: FramedRun): Promise<Outcome> {
  const mark = `fleet-role-${randomBytes(16).toString('hex')}`;
  const input = frame(run.script, run.stdin, run.boundThere ? run.seconds : null, mark);
  const begun = (stdout: string): boolean => stdout.includes(`\n${mark} begin\n`);
  const rest = run.boundThere ? run.seconds + GRACE_SECONDS : run.seconds;
  const limits = { first: run.first, rest, begun };
  const ended = await execute(program, args, input, limits, run.running);
  if (ended.kind === 'no-program' || ended.kind === 'too-much') return ended;
  const answer = unframe(ended.stdout, mark);
  if (answer.code !== null) {
    const { code, text } = answer;
    if (code === 0) return { kind: 'answered', result: { kind: 'done', stdout: text } };
    if (run.boundThere && endedByTimeout(code)) return { kind: 'timed-out', begun: true };
    const stderr = unframe(ended.stderr, mark).text;
    return { kind: 'answered', result: { kind: 'exited', code, stdout: text, stderr } };
  }
  if (ended.kind === 'timed-out') return { kind: 'timed-out', begun: answer.begun };
  return { kind: 'broken', begun: answer.begun, code: ended.code, stdout: ended.stdout, stderr: ended.stderr };
}

export type Ended =
  | { readonly kind: 'ended' | 'timed-out'; readonly code: number; readonly stdout: string; readonly stderr: string }
  | { readonly kind: 'too-much' }
  | { readonly kind: 'no-program'; readonly message: string };

export interface Limits {
  /** Seconds until `begun` must be true of what was printed, and seconds from then on. */
  readonly first: number;
  readonly rest: number;
  readonly begun: (stdout: string) => boolean;
}

/** Runs a program with `input`, bounded in time and output. Ends it with everything in its process group. */
export function execute(
  program: string,
  args: readonly string[],
  input: string,
  limits: Limits,
  running?: Set<ChildProcess>,
): Promise<Ended> {
  return new Promise((done) => {
    const child = spawn(program, args, { env: environment(), stdio: ['pipe', 'pipe', 'pipe'], detached: true });
    running?.add(child);
    const stdout: Buffer[] = [];
    const stderr: Buffer[] = [];
    const size = { stdout: 0, stderr: 0 };
    const text = (chunks: readonly Buffer[]): string => Buffer.concat(chunks).toString('utf8');
    let verdict: 'ended' | 'timed-out' | 'too-much' = 'ended';
    let begun = false;
    let settled = false;
    const stop = (why: 'timed-out' | 'too-much'): void => {
      if (verdict === 'ended') verdict = why;
      end(child);
    };
    let timer = setTimeout(() => stop('timed-out'), limits.first * 1000);
    const settle = (result: Ended): void => {
      if (settled) return;
      settled = true;
      clearTimeout(timer);
      running?.delete(child);
      child.stdout.destroy();
      child.stderr.destroy();
      done(result);
    };
    const finish = (code: number | null): void =>
      settle(
        verdict === 'too-much'
          ? { kind: 'too-much' }
          : { kind: verdict, code: code ?? 255, stdout: text(stdout), stderr: text(stderr) },
      );
    child.stdout.on('data', (chunk: Buffer) => {
      size.stdout += chunk.length;
      if (size.stdout > OUTPUT_LIMIT) return stop('too-much');
      stdout.push(chunk);
      if (begun || !limits.begun(text(stdout))) return;
      begun = true;
      clearTimeout(timer);
      timer = setTimeout(() => stop('timed-out'), limits.rest * 1000);
    });
    child.stderr.on('data', (chunk: Buffer) => {
      size.stderr += chunk.length;
      if (size.stderr <= ERROR_LIMIT) stderr.push(chunk);
    });
    child.on('error', (error) => settle({ kind: 'no-program', message: messageOf(error) }));
    child.on('close', finish);
    // A process that was left behind may hold the pipes open for ever after the program itself has ended.
    child.on('exit', (code) => setTimeout(() => finish(code), DRAIN_MILLISECONDS).unref());
    // The program may end before it has read everything; its exit says why, not the broken pipe.
    child.stdin.on('error', () => undefined);
    child.stdin.end(input);
  });
}

/** Kills a child's whole process group: ssh with its jump hosts, or a local script with what it started. */
export function end(child: ChildProcess): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    child.kill('SIGKILL');
  }
}

function environment(): Record<string, string> {
  const passed: Record<string, string> = {};
  for (const name of PASSED_ON) {
    const value = process.env[name];
    if (value !== undefined) passed[name] = value;
  }
  // ssh's words are read (LC_ALL), and it runs a ProxyCommand by SHELL, which may be anything.
  return { ...passed, LC_ALL: 'C', SHELL: '/bin/sh' };
}
