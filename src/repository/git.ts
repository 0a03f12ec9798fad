// node:child_process and not @actions/exec: exec has no abort, cannot close standard input, and takes quadratic time for
// output without lines; working around that cost a shell and two files a command.
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { messageOf } from '../errors.js';
import type { Logger } from '../log.js';

/** How one git command ended. A command that fails is an answer, not an exception. */
export type GitResult =
  | { readonly ok: true; readonly stdout: Buffer }
  | {
      readonly ok: false;
      /** Exit code; null when git was killed, or did not start. */
      readonly code: number | null;
      /** The bound of the command that it met. */
      readonly bound: 'time' | 'output' | null;
      /** One line for people: what git said, or which bound it met; without secrets and control characters. */
      readonly why: string;
    };

export interface GitCommand {
  /** Arguments after `git`, passed as they are. */
  readonly args: readonly string[];
  /** Text for its standard input; without it the input is empty. */
  readonly input?: string;
  /** Settings for this command alone, stronger than every configuration file. */
  readonly config?: GitConfig;
  /** Protocols that git may use for it. None by default: the command works on what is on disk. */
  readonly protocols?: readonly string[];
  /** Milliseconds until the command is stopped. */
  readonly timeout: number;
  /** Bytes of standard output after which the command is stopped. */
  readonly maxOutput?: number;
}

/** Name and value, in order; a list setting is emptied by the value "". */
export type GitConfig = readonly (readonly [name: string, value: string])[];

export type Git = (command: GitCommand) => Promise<GitResult>;

export interface GitOptions {
  /** The environment to choose from; never passed on whole. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Texts that never leave this function. */
  readonly secrets: readonly string[];
  readonly logger: Logger;
}

/**
 * What git may know of the runner's environment: where programs and homes are, proxies, certificates, the ssh agent
 * and the operator's own git and ssh settings. Everything else stays out: inputs and tokens, and the variables that
 * would turn git to another repository, another object store, or a trace.
 */
const PASSED_ON =
  /^(?:PATH|HOME|USER|LOGNAME|SHELL|TMPDIR|LD_LIBRARY_PATH|DYLD_LIBRARY_PATH|XDG_CONFIG_HOME|KRB5CCNAME|SSH_AUTH_SOCK|(?:https?|all|no)_proxy|SSL_CERT_FILE|SSL_CERT_DIR|CURL_CA_BUNDLE|GIT_EXEC_PATH|GIT_SSL_CAINFO|GIT_SSL_CAPATH|GIT_SSL_CERT|GIT_SSL_KEY|GIT_SSH|GIT_SSH_COMMAND|GIT_SSH_VARIANT|GIT_CONFIG_GLOBAL|GIT_CONFIG_SYSTEM|GIT_CONFIG_NOSYSTEM)$/i;

/** Batch mode and keep-alives: ssh never asks and never waits for ever. The operator's own GIT_SSH_COMMAND wins. */
const SSH_COMMAND = 'ssh -o BatchMode=yes -o ConnectTimeout=30 -o ServerAliveInterval=15 -o ServerAliveCountMax=4';

const ALWAYS: GitConfig = [
  ['core.hooksPath', '/dev/null'],
  ['core.fsmonitor', 'false'],
  ['core.quotePath', 'false'],
  ['core.alternateRefsCommand', ''],
  // Our repositories live for one run; a disk that loses power loses nothing.
  ['core.fsync', 'none'],
  ['gc.auto', '0'],
  ['maintenance.auto', 'false'],
  ['protocol.version', '2'],
  // A pack is one file where 1,000 loose objects are 1,000 (measured: 65 ms instead of 107 ms for 220 objects).
  ['fetch.unpackLimit', '1'],
  ['fetch.recurseSubmodules', 'false'],
  ['submodule.recurse', 'false'],
  ['credential.interactive', 'false'],
  // Dead silence only: a server that packs for long sends a byte now and then.
  ['http.lowSpeedLimit', '1'],
  ['http.lowSpeedTime', '60'],
  // A local repository may belong to another user: we run nothing that stands in it.
  ['safe.directory', '*'],
];

/**
 * A runner of git with a clean environment: no prompt, no hook, no configuration variable of the caller, English
 * messages, no replaced objects, no lazy fetch. A command that needs longer than its bound, or says more, is stopped
 * by a signal (then by a second one that cannot be refused). It never throws.
 */
export function createGit(options: GitOptions): Git {
  return (command) => {
    options.logger.debug(`git ${command.args.map(quoted).join(' ')}`);
    return run(command, options).catch((error: unknown) => noGit(null, messageOf(error), options));
  };
}

function run(command: GitCommand, options: GitOptions): Promise<GitResult> {
  return new Promise((resolve) => {
    const output: Buffer[] = [];
    const errors: Buffer[] = [];
    let outputBytes = 0;
    let errorBytes = 0;
    const maxOutput = command.maxOutput ?? Number.POSITIVE_INFINITY;
    const child = spawn('git', command.args, {
      env: gitEnvironment(command, options.environment),
      stdio: [command.input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    }) as ChildProcessByStdio<Writable | null, Readable, Readable>;
    // Whoever stopped it does not wait: a helper of git (git-remote-https) can hold the streams until it notices.
    const stop = (bound: 'time' | 'output', why: string): void => {
      child.kill('SIGTERM');
      setTimeout(() => child.kill('SIGKILL'), KILL_AFTER).unref();
      for (const stream of [child.stdin, child.stdout, child.stderr]) stream?.destroy();
      child.unref();
      resolve(noGit(bound, why, options));
    };
    const timer = setTimeout(() => stop('time', `git did not end within ${command.timeout / 1000} s`), command.timeout);
    child.stdout.on('data', (data: Buffer) => {
      outputBytes += data.length;
      if (outputBytes <= maxOutput) output.push(data);
      else if (outputBytes - data.length <= maxOutput) stop('output', `git wrote more than ${maxOutput} bytes`);
    });
    child.stderr.on('data', (data: Buffer) => {
      errorBytes += data.length;
      if (errorBytes <= ERROR_BYTES) errors.push(data);
    });
    child.on('error', (error: NodeJS.ErrnoException) => {
      clearTimeout(timer);
      const why = error.code === 'ENOENT' ? 'git is not on the PATH of this machine' : messageOf(error);
      resolve(noGit(null, why, options));
    });
    child.on('close', (code) => {
      clearTimeout(timer);
      if (code === 0) resolve({ ok: true, stdout: Buffer.concat(output) });
      else {
        const why = reasonOf(Buffer.concat(errors).toString('utf8'), code, options.secrets);
        resolve({ ok: false, code, bound: null, why });
      }
    });
    // It may end before it has read everything; its exit says why, not the broken pipe.
    child.stdin?.on('error', () => undefined);
    child.stdin?.end(command.input);
  });
}

function noGit(bound: 'time' | 'output' | null, why: string, { secrets }: GitOptions): GitResult {
  return { ok: false, code: null, bound, why: withoutSecrets(why, secrets) };
}

const KILL_AFTER = 2_000;
const ERROR_BYTES = 64 * 1024;

function gitEnvironment(command: GitCommand, environment: GitOptions['environment']): Record<string, string> {
  const chosen: Record<string, string> = {};
  for (const [name, value] of Object.entries(environment)) {
    if (value !== undefined && PASSED_ON.test(name)) chosen[name] = value;
  }
  if (chosen.GIT_SSH_COMMAND === undefined && chosen.GIT_SSH === undefined) chosen.GIT_SSH_COMMAND = SSH_COMMAND;
  const config = [...ALWAYS, ...(command.config ?? [])];
  chosen.GIT_CONFIG_COUNT = String(config.length);
  for (const [index, [name, value]] of config.entries()) {
    chosen[`GIT_CONFIG_KEY_${index}`] = name;
    chosen[`GIT_CONFIG_VALUE_${index}`] = value;
  }
  return {
    ...chosen,
    LC_ALL: 'C',
    LANGUAGE: 'C',
    GIT_TERMINAL_PROMPT: '0',
    GIT_ASKPASS: '',
    SSH_ASKPASS_REQUIRE: 'never',
    GCM_INTERACTIVE: 'never',
    GIT_OPTIONAL_LOCKS: '0',
    GIT_NO_REPLACE_OBJECTS: '1',
    GIT_NO_LAZY_FETCH: '1',
    GIT_GRAFT_FILE: '/dev/null',
    GIT_ALLOW_PROTOCOL: (command.protocols ?? []).join(':'),
  };
}

/** What git said, as one line: its advice and its labels are left out. The text may come from a hostile server. */
function reasonOf(stderr: string, code: number | null, secrets: readonly string[]): string {
  const lines = stderr
    .split(/[\r\n]+/)
    .map((line) => line.replace(/^(?:fatal|error):\s*/, '').trim())
    .filter((line) => line !== '' && !/^(?:hint|warning):/.test(line));
  const said = withoutSecrets(lines.join('; '), secrets);
  if (said !== '') return said.length > REASON_LENGTH ? `${said.slice(0, REASON_LENGTH)}…` : said;
  return code === null ? 'git was killed' : `git ended with exit code ${code}`;
}

const REASON_LENGTH = 400;

/** The text without the given secrets, without the credentials of any URL, and without control and format characters. */
function withoutSecrets(text: string, secrets: readonly string[]): string {
  let clean = text;
  for (const secret of secrets) if (secret !== '') clean = clean.replaceAll(secret, '***');
  return clean
    .replace(/(https?:\/\/)[^/\s@]*@/gi, '$1***@')
    .replace(/[\p{Cc}\p{Cf}\u2028\u2029]+/gu, ' ')
    .trim();
}

function quoted(argument: string): string {
  return /^[\w@%+=:,./^{}-]+$/.test(argument) ? argument : JSON.stringify(argument);
}
