import type { FailureClass } from '../plan/observation.js';
import { clean } from './words.js';

/** What went wrong, from the words of ssh: it has one exit status (255) for everything, so nothing else tells. */
export interface SshFailure {
  readonly class: FailureClass;
  /** From 1: the jump host that failed; null: the host itself. */
  readonly jump: number | null;
  /** What happened, without the host's name and without a full stop. */
  readonly what: string;
}

const HOST_KEY = /Host key verification failed|REMOTE HOST IDENTIFICATION HAS CHANGED|host key .*revoked/i;
const AUTHENTICATION =
  /Permission denied \(|Too many authentication failures|No more authentication methods|not allowed because|Unable to authenticate/;
const NAME = /Could not resolve hostname|Name or service not known|Temporary failure in name resolution/;
const CONNECT = [
  'Connection refused',
  'Connection timed out',
  'Operation timed out',
  'No route to host',
  'Network is unreachable',
  'Connection reset',
  'Connection closed',
  'no matching',
  'open failed',
  'banner',
];

/**
 * The failure in ssh's logs. `logs` holds one text for each hop, the nearest to the runner first and the host itself
 * last (LC_ALL=C, LogLevel DEBUG1); the nearest hop that failed by itself is the cause.
 */
export function classifySsh(logs: readonly string[]): SshFailure {
  for (const [index, log] of logs.entries()) {
    const last = index === logs.length - 1;
    const jump = last ? null : index + 1;
    const failure = classifyHop(log, last);
    if (failure !== null) return { ...failure, jump };
  }
  return { class: 'connect', jump: null, what: 'ssh ended without a word' };
}

function classifyHop(log: string, last: boolean): Omit<SshFailure, 'jump'> | null {
  const lines = log.split(/\r\n|\r|\n/);
  const said = lines.filter((line) => line !== '' && !/^debug\d: /.test(line));
  if (HOST_KEY.test(log)) return { class: 'host-key', what: hostKeyWords(log) };
  const authentication = said.find((line) => AUTHENTICATION.test(line));
  if (authentication !== undefined) {
    const offered = /Load key|no such identity|not accessible/.exec(log) === null ? '' : ` (${keyTrouble(said)})`;
    return { class: 'authentication', what: `no key was accepted: ${clean(authentication)}${offered}` };
  }
  const name = said.find((line) => NAME.test(line));
  if (name !== undefined) return { class: 'name', what: clean(name) };
  // What a jump host says about the host behind it stands in the jump host's log, and is about that host.
  const connect = said.find((line) => CONNECT.some((words) => line.includes(words)));
  if (connect !== undefined && (last || !/^stdio forwarding|^channel /.test(connect))) {
    return { class: 'connect', what: clean(connect) };
  }
  if (last) return { class: 'connect', what: clean(said.at(-1) ?? 'ssh ended without a word') };
  return null;
}

function keyTrouble(said: readonly string[]): string {
  return clean(said.find((line) => /Load key|no such identity|not accessible/.test(line)) ?? 'a key could not be read');
}

/** What is known about the key that was offered: ssh prints its fingerprint before it refuses it. */
function hostKeyWords(log: string): string {
  const keys = [...log.matchAll(/Server host key: (\S+) (SHA256:\S+)/g)];
  const [, type = '', fingerprint = ''] = keys.at(-1) ?? [];
  const seen = fingerprint === '' ? 'its fingerprint is not known' : `it offered ${type} ${fingerprint}`;
  if (/IDENTIFICATION HAS CHANGED/.test(log)) return `its host key is not the one in ssh-known-hosts: ${seen}`;
  if (/revoked/i.test(log)) return `its host key is revoked in ssh-known-hosts: ${seen}`;
  return `its host key is not in ssh-known-hosts: ${seen}`;
}

const WAYS_OUT: Record<FailureClass, string> = {
  name: 'Check ansible_host, or the name service of the runner.',
  connect: 'Check that the machine is on and that the runner reaches it by ansible_host and ansible_port.',
  'host-key':
    'Compare the fingerprint with the one on the machine (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub) and correct ssh-known-hosts.',
  authentication: 'Check ansible_user and ssh-private-key, and that the public key is in authorized_keys there.',
  sudo: 'Allow that user to run sudo without a password (NOPASSWD), or take ansible_become away.',
  command: 'Log in as that user and see whether `sh` runs there.',
  'time-out': 'Log in and see what hangs there, or raise step-timeout.',
};

/** One message for people: the host by its inventory name, what happened, and the way out. */
export function failureMessage(name: string, failure: FailureClass, what: string): string {
  return `${name}: ${what}. ${WAYS_OUT[failure]}`;
}
