import type { ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { assertNever, messageOf } from '../errors.js';
import type { HostConnection } from '../fleet/fleet.js';
import type { Logger } from '../log.js';
import type { FailureClass } from '../plan/observation.js';
import { classifySsh, failureMessage } from './classify.js';
import { end, execute, OUTPUT_LIMIT, type Outcome, runFramed } from './execute.js';
import { BECOME_COMMAND, BECOME_SCRIPT, PLAIN_COMMAND, SHELL_LINE } from './frame.js';
import {
  connectSeconds,
  fastKeyExchange,
  type Hop,
  isConfigPath,
  jumpHosts,
  type Rejected,
  sshConfig,
} from './ssh-config.js';
import { clean } from './words.js';

/** What became of one script on one host: always a value, never an exception. */
export type Result =
  | { readonly kind: 'done'; readonly stdout: string }
  /** The script ended with a status other than 0. */
  | { readonly kind: 'exited'; readonly code: number; readonly stdout: string; readonly stderr: string }
  | { readonly kind: 'unreachable'; readonly class: FailureClass; readonly message: string }
  | { readonly kind: 'timed-out'; readonly seconds: number };

/** The whole interface to a host. */
export interface Connection {
  /**
   * Runs `script` by the host's `sh`, with `stdin` as its standard input and the connecting user's home as `$1`, for at
   * most `seconds`. Both travel over standard input only: nothing of them stands on a command line or is expanded.
   * `stdin` is text without NUL; a missing final newline is added.
   */
  run(script: string, stdin: string, seconds: number): Promise<Result>;
}

export interface ConnectorOptions {
  /** The runner's temporary directory; it must exist. */
  readonly temp: string;
  /** As `readPrivateKeys` gives them. Empty: the agent, the inventory's key files where allowed, ssh's own defaults. */
  readonly privateKeys: readonly string[];
  /** The text of ssh-known-hosts; null means that no host key is known, so that no ssh host is reached. */
  readonly knownHosts: string | null;
  /** The user where the inventory names none. */
  readonly sshUser: string | null;
  /** Whether `ansible_ssh_private_key_file` counts. Never for an inventory that is not trusted. */
  readonly useInventoryKeyFiles: boolean;
  readonly logger: Logger;
  /** Told the paths (directories) of secret files before they are made, so that they can be removed whatever happens. */
  readonly onSecretFiles?: (paths: readonly string[]) => void;
}

export interface Connector {
  /** A connection to one host; nothing is contacted before its first `run`. `name` is the inventory name, for words. */
  connect(name: string, connection: HostConnection): Connection;
  /** Ends what still runs, closes every connection and removes every file. What cannot be removed is a warning. */
  close(): Promise<void>;
}

/** Seconds beyond the hops' connect time for key exchange, authentication, login shell and sudo. */
const LOGIN_SECONDS = 30;
const CLOSED_AT_ONCE = 20;
/** A unix socket's path has at most 104 bytes where it is shortest; ssh adds 17 of its own while it binds. */
const SOCKET_PATH_LIMIT = 104 - 17 - 1;

/** Makes connections that share one set of keys, known hosts and temporary files. */
export function createConnector(options: ConnectorOptions): Connector {
  const running = new Set<ChildProcess>();
  const opened: SshConnection[] = [];
  let files: Files | null = null;
  let closed = false;

  let keyExchange: Promise<string | null> | null = null;
  const shared: Shared = {
    running,
    isClosed: () => closed,
    keyExchange() {
      keyExchange ??= askKeyExchange();
      return keyExchange;
    },
  };
  const prepare = (): Files => {
    files ??= makeFiles(options);
    return files;
  };

  return {
    connect(name, connection) {
      if (connection.type === 'local') return localConnection(name, connection.become, shared);
      const wanted: HostConnection = {
        ...connection,
        user: connection.user ?? options.sshUser,
        keyFile: options.useInventoryKeyFiles ? connection.keyFile : null,
      };
      const made = sshConnection(name, wanted, opened.length + 1, options.sshUser, prepare, shared);
      opened.push(made);
      return made;
    },
    async close() {
      if (closed) return;
      closed = true;
      for (const child of running) end(child);
      // A few at a time: a fleet may be large.
      for (let from = 0; from < opened.length; from += CLOSED_AT_ONCE) {
        await Promise.all(opened.slice(from, from + CLOSED_AT_ONCE).map((each) => each.disconnect()));
      }
      for (const directory of files === null ? [] : new Set([files.directory, files.sockets ?? files.directory])) {
        try {
          rmSync(directory, { recursive: true, force: true });
        } catch (error) {
          options.logger.warning(`Could not remove ${directory}: ${messageOf(error)}. Remove it by hand.`);
        }
      }
    },
  };
}

interface Files {
  readonly directory: string;
  /** Null: no path is short enough, so connections are not reused. */
  readonly sockets: string | null;
  readonly knownHosts: string;
  readonly keys: readonly string[];
}

/** Writes what every connection needs, after the caller was told where. */
function makeFiles(options: ConnectorOptions): Files {
  const unique = randomBytes(6).toString('hex');
  const named = (parent: string): string => join(resolve(parent), `fleet-role-${unique}`);
  const parents = [options.temp, tmpdir(), '/tmp'];
  // ssh takes a few characters in a path for its own; such a temporary directory is passed over.
  const parent = parents.find((each) => isConfigPath(named(each)));
  if (parent === undefined) throw new Error('no temporary directory has a path that ssh accepts');
  const directory = named(parent);
  const short = parents.find((each) => {
    const path = join(named(each), 'c99999');
    return isConfigPath(path) && Buffer.byteLength(path) <= SOCKET_PATH_LIMIT;
  });
  const sockets = short === undefined ? null : named(short);
  const paths = [...new Set([directory, ...(sockets === null ? [] : [sockets])])];
  options.onSecretFiles?.(paths);
  for (const path of paths) mkdirSync(path, { mode: 0o700 });
  const write = (name: string, text: string): string => {
    const path = join(directory, name);
    writeFileSync(path, text, { mode: 0o600, flag: 'wx' });
    return path;
  };
  const knownHosts = write('known_hosts', `${(options.knownHosts ?? '').replace(/\r\n?/g, '\n')}\n`);
  const keys = options.privateKeys.map((key, index) => write(`key${index + 1}`, key));
  return { directory, sockets, knownHosts, keys };
}

interface SshConnection extends Connection {
  /** Ends the shared connection, if one is open. */
  disconnect(): Promise<void>;
}

interface Shared {
  readonly running: Set<ChildProcess>;
  readonly isClosed: () => boolean;
  /** Asked of ssh once a run. */
  readonly keyExchange: () => Promise<string | null>;
}

/** What KexAlgorithms should be on this runner; null too where ssh does not say its version. */
async function askKeyExchange(): Promise<string | null> {
  const said = await execute('ssh', ['-V'], '', { first: 5, rest: 5, begun: () => true });
  return said.kind === 'ended' ? fastKeyExchange(said.stderr) : null;
}

function sshConnection(
  name: string,
  connection: HostConnection,
  number: number,
  defaultUser: string | null,
  prepare: () => Files,
  shared: Shared,
): SshConnection {
  interface Ready {
    readonly config: string;
    readonly logs: readonly string[];
    readonly hops: readonly Hop[];
    /** The socket of the shared connection; null where none is shared. */
    readonly control: string | null;
  }
  let ready: Ready | null = null;

  const setUp = (keyExchange: string | null): Ready | Rejected => {
    if (ready !== null) return ready;
    const hops = jumpHosts(connection, defaultUser);
    if ('rejected' in hops) return hops;
    const files = prepare();
    const path = (suffix: string): string => join(files.directory, `${number}.${suffix}`);
    const logs = [...hops.map((_, index) => path(`jump${index + 1}.log`)), path('log')];
    const control = files.sockets === null ? null : join(files.sockets, `c${number}`);
    const config = path('config');
    const paths = { config, knownHosts: files.knownHosts, keys: files.keys, control, logs };
    const text = sshConfig(connection, hops, paths, keyExchange);
    if (typeof text !== 'string') return text;
    writeFileSync(config, text, { mode: 0o600 });
    ready = { config, logs, hops, control };
    return ready;
  };

  const disconnect = async (): Promise<void> => {
    if (ready === null || ready.control === null || !existsSync(ready.control)) return;
    // Not counted among the running: close() must not end what ends the shared connection.
    await execute('ssh', ['-F', ready.config, '-O', 'exit', 'host'], '', { first: 5, rest: 5, begun: () => true });
  };

  return {
    disconnect,
    async run(script, stdin, seconds) {
      const keyExchange = await shared.keyExchange();
      if (shared.isClosed()) return closedResult(name);
      const set = setUp(keyExchange);
      if ('rejected' in set) {
        const message = `${name}: ${set.rejected}, so nothing connects there. Correct it in the inventory.`;
        return { kind: 'unreachable', class: 'connect', message };
      }
      for (const log of set.logs) rmSync(log, { force: true });
      const log = set.logs.at(-1) ?? '/dev/null';
      const args = ['-F', set.config, '-E', log, 'host', connection.become ? BECOME_COMMAND : PLAIN_COMMAND];
      const first = connectSeconds(connection) * set.logs.length + LOGIN_SECONDS;
      const outcome = await runFramed('ssh', args, {
        ...{ script, stdin, seconds, first, boundThere: true, running: shared.running },
      });
      // A script that hangs holds the shared connection; the next command must not wait behind it.
      if (outcome.kind === 'timed-out') await disconnect();
      const ssh = outcome.kind === 'broken' && !outcome.begun && outcome.code === 255 && !shared.isClosed();
      if (!ssh) return resultOf(name, connection.become, outcome, { program: 'ssh', seconds, first }, shared);
      const failure = classifySsh(set.logs.map(readText));
      const hop = failure.jump === null ? undefined : set.hops[failure.jump - 1];
      const what = hop === undefined ? failure.what : `at the jump host ${hop.host}: ${failure.what}`;
      return { kind: 'unreachable', class: failure.class, message: failureMessage(name, failure.class, what) };
    },
  };
}

function localConnection(name: string, become: boolean, shared: Shared): Connection {
  return {
    async run(script, stdin, seconds) {
      if (shared.isClosed()) return closedResult(name);
      const args = become ? ['-c', BECOME_SCRIPT] : ['-s'];
      const first = LOGIN_SECONDS;
      const outcome = await runFramed('sh', args, {
        ...{ script, stdin, seconds, first, boundThere: become, running: shared.running },
      });
      return resultOf(name, become, outcome, { program: 'sh', seconds, first }, shared);
    },
  };
}

/** What an outcome means where ssh itself has nothing to say about it. */
function resultOf(
  name: string,
  become: boolean,
  outcome: Outcome,
  run: { readonly program: string; readonly seconds: number; readonly first: number },
  shared: Shared,
): Result {
  switch (outcome.kind) {
    case 'answered':
      return outcome.result;
    case 'timed-out':
      if (outcome.begun) return { kind: 'timed-out', seconds: run.seconds };
      return unreachable(name, 'time-out', `it answered, but started no shell within ${run.first} seconds`);
    case 'too-much': {
      const limit = `${OUTPUT_LIMIT / 1024 / 1024} MiB`;
      return unreachable(name, 'command', `a script there printed more than ${limit} and was ended`);
    }
    case 'no-program': {
      const what = `${run.program} could not be started on the runner (${clean(outcome.message)})`;
      return { kind: 'unreachable', class: 'command', message: `${name}: ${what}. Install ${run.program} there.` };
    }
    case 'broken':
      if (shared.isClosed()) return closedResult(name);
      if (outcome.begun) return unreachable(name, 'connect', 'the connection was lost while a script ran there');
      return noScript(name, become, outcome);
    default:
      return assertNever(outcome);
  }
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    // ssh makes the file when it has something to say.
    return '';
  }
}

function unreachable(name: string, failure: FailureClass, what: string): Result {
  return { kind: 'unreachable', class: failure, message: failureMessage(name, failure, what) };
}

/** The host's shell or sudo ended before our script began. */
function noScript(name: string, become: boolean, outcome: Outcome & { kind: 'broken' }): Result {
  const said = clean(outcome.stderr) || clean(outcome.stdout.replace(SHELL_LINE, ''));
  const words = said === '' ? `exit status ${outcome.code}` : said;
  if (become && outcome.stdout.includes(SHELL_LINE)) return unreachable(name, 'sudo', `sudo refused: ${words}`);
  return unreachable(name, 'command', `its login shell ran nothing: ${words}`);
}

function closedResult(name: string): Result {
  return { kind: 'unreachable', class: 'connect', message: `${name}: the run is ending and connects no more.` };
}
