import type { Host } from '../fleet/fleet.js';
import {
  type FailureClass,
  type FileState,
  type HostObservation,
  type Known,
  known,
  type ReachedHost,
  type Unreachable,
  unknown,
} from '../plan/observation.js';
import { failureMessage } from './classify.js';
import type { Connection, Result } from './connection.js';
import { type HostRuntime, runtimeOf } from './runtime.js';
import { Answer, hostData, hostScript } from './script.js';
import { clean, show } from './words.js';

export interface LookOptions {
  /** The most that the one remote command may take. */
  readonly seconds: number;
}

/** The most that one question to docker may take: the rest of the host is told all the same. */
const DOCKER_SECONDS = 20;

/** What this host is like now, by one command that changes nothing. Never throws for a host's fault. */
export async function lookAt(connection: Connection, host: Host, options: LookOptions): Promise<HostObservation> {
  const runtime = runtimeOf(host);
  const rejected = rejection(host, runtime);
  if (rejected !== null) return rejected;
  const data = hostData(host, runtime.data(host, dockerSeconds(options.seconds)), []);
  return observationOf(host, await connection.run(hostScript(runtime.parts), data, options.seconds));
}

/** Seconds for one question to docker within a command of `seconds`. */
export function dockerSeconds(seconds: number): number {
  return Math.max(1, Math.min(DOCKER_SECONDS, Math.floor(seconds / 3)));
}

/** Why nothing can be sent to this host, because of what its inventory says; null when nothing speaks against it. */
export function rejection(host: Host, runtime: HostRuntime): Unreachable | null {
  const values = [host.directory, host.composeProject, host.dataDir, ...host.composeFiles];
  // Answers are read line by line, and no path has a reason to hold a control character.
  const bad = values.find((value) => /\p{Cc}/u.test(value));
  const why = bad === undefined ? runtime.reject(host) : `${show(bad)} holds a control character`;
  if (why === null) return null;
  return { kind: 'unreachable', class: 'command', message: `${host.name}: ${why}. Correct it in the inventory.` };
}

/** The observation in the host script's answer, or why there is none. */
export function observationOf(host: Host, result: Result): HostObservation {
  switch (result.kind) {
    case 'unreachable':
      return result;
    case 'timed-out':
      return failed(host, 'time-out', `its answer did not come within ${result.seconds} seconds`);
    case 'exited': {
      const words = clean(result.stderr);
      return failed(host, 'command', `the host script ended with status ${result.code}${words && `: ${words}`}`);
    }
    case 'done':
      return read(host, new Answer(result.stdout));
  }
}

function failed(host: Host, failure: FailureClass, what: string): Unreachable {
  return { kind: 'unreachable', class: failure, message: failureMessage(host.name, failure, what) };
}

function read(host: Host, answer: Answer): HostObservation {
  if (answer.get('end') === null) return failed(host, 'command', 'the host script did not reach its end');
  const blocked = answer.get('blocked');
  if (blocked !== null) {
    return { kind: 'unreachable', class: 'command', message: `${host.name}: ${blocked}.` };
  }
  const runtime = runtimeOf(host);
  const [guards = '', ...others] = answer.all('guards');
  const reached: ReachedHost = {
    kind: 'reached',
    provisioned: answer.get('provisioned') === 'yes',
    directory: answer.get('directory') ?? '',
    nodeName: textOf(answer, 'node-name'),
    roleDirectory: answer.get('role-directory') === 'present' ? 'present' : 'absent',
    role: file(answer, 'role'),
    joinUrl: file(answer, 'join-url'),
    cluster: file(answer, 'cluster'),
    guardsInstalled: guards !== '' && others.every((version) => version === guards) ? guards : null,
    override: runtime.override(answer),
    environment: { k3s: textOf(answer, 'env-k3s'), 'k3s-agent': textOf(answer, 'env-k3s-agent') },
    services: runtime.services(answer, host, answer.all('role-directory-path')),
    datastore: fact(answer, 'datastore', 'data', { none: 'none', sqlite: 'sqlite', etcd: 'etcd' }),
    tombstone: fact(answer, 'tombstone', 'data', YES_OR_NO),
    setAside: fact(answer, 'set-aside', 'data', YES_OR_NO),
    token: fact(answer, 'token', 'token', YES_OR_NO),
    keptPolicy: file(answer, 'restart-policy'),
    oneFileSystem: fact(answer, 'one-file-system', 'data', YES_OR_NO),
    passwordShared: fact(answer, 'password-shared', 'password', YES_OR_NO),
    tlsSans: textOf(answer, 'env-tls-sans'),
    unsteerable: textOf(answer, 'unsteerable'),
  };
  return reached;
}

const YES_OR_NO = { yes: true, no: false } as const;

/** One fact by the script's word for it. Any other word, and none, is unknown; the line `WHY-why` says why. */
function fact<T>(answer: Answer, key: string, why: string, words: Readonly<Record<string, T>>): Known<T> {
  const word = answer.get(key) ?? '';
  if (Object.hasOwn(words, word)) return known(words[word] as T);
  return unknown(clean(answer.get(`${why}-why`) ?? '') || 'it was not looked at');
}

function textOf(answer: Answer, key: string): string | null {
  const text = answer.get(key)?.trim() ?? '';
  return text === '' ? null : text;
}

/** White space, CR included, around what a role file holds does not count. */
function file(answer: Answer, key: string): FileState {
  const kind = answer.get(key);
  if (kind === 'absent') return { kind: 'absent' };
  if (kind !== 'text') return { kind: 'unreadable' };
  return { kind: 'text', text: answer.all(`${key}:`).join('\n').trim() };
}
