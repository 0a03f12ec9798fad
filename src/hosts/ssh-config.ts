import type { HostConnection, SshOption } from '../fleet/fleet.js';
import { show } from './words.js';

/** Paths of one connection's files. Each must pass `configPath`. */
export interface SshPaths {
  readonly config: string;
  readonly knownHosts: string;
  /** Empty: the agent, and what the inventory or ssh's own defaults name. */
  readonly keys: readonly string[];
  /** Null: connections are not reused. */
  readonly control: string | null;
  /** Where ssh writes what it does: the connection itself, then each jump host from the runner on. */
  readonly logs: readonly string[];
}

/** A jump host: one hop of a ProxyJump list, the nearest to the runner first. */
export interface Hop {
  readonly host: string;
  readonly port: number;
  readonly user: string | null;
}

/** Why no config can be written for a host: its inventory says something that must not reach ssh. */
export interface Rejected {
  readonly rejected: string;
}

/** Seconds that connecting may take, for each hop, unless the inventory says otherwise. */
export const CONNECT_SECONDS = 15;
/** Seconds that an unused connection stays open for the next command of the same run. */
const PERSIST_SECONDS = 120;

// Host and user names come from the inventory and are hostile: what ssh, a shell or ssh's own %-tokens could take for
// something else has no place in them. A `%` is an IPv6 zone and is escaped where it is written.
const HOST = /^[A-Za-z0-9_:][A-Za-z0-9._:%-]*$/;
const USER = /^[A-Za-z0-9._][A-Za-z0-9._@+-]*\$?$/;

const OPTION_VALUES: Record<Exclude<SshOption['keyword'], 'ProxyJump'>, RegExp> = {
  ConnectTimeout: /^[1-9][0-9]{0,3}$/,
  ServerAliveInterval: /^[0-9]{1,4}$/,
  ServerAliveCountMax: /^[0-9]{1,4}$/,
  Compression: /^(?:yes|no)$/i,
  AddressFamily: /^(?:any|inet|inet6)$/i,
  IPQoS: /^[A-Za-z0-9]{1,12}(?: [A-Za-z0-9]{1,12})?$/,
};

/**
 * The jump hosts of `connection`, the nearest to the runner first; none for no ProxyJump or `none`.
 * A jump host without a user gets `defaultUser`; null leaves it to ssh.
 * The form is ssh's: `[user@]host[:port]`, commas between them, IPv6 addresses with a port in brackets, `ssh://` allowed.
 */
export function jumpHosts(connection: HostConnection, defaultUser: string | null): readonly Hop[] | Rejected {
  const option = connection.options.find((each) => each.keyword === 'ProxyJump');
  if (option === undefined || option.value.toLowerCase() === 'none') return [];
  const hops: Hop[] = [];
  for (const item of option.value.split(',')) {
    const match = /^(?:ssh:\/\/)?(?:([^@]*)@)?(\[[^\]]+\]|[^:[\]]+|[^[\]]*:[^[\]]*:[^[\]]*)(?::([0-9]{1,5}))?\/?$/.exec(
      item.trim(),
    );
    const host = match?.[2]?.replace(/^\[|\]$/g, '') ?? '';
    const port = match?.[3] === undefined ? 22 : Number(match[3]);
    const hop: Hop = { host, port, user: match?.[1] ?? defaultUser };
    const why = match === null ? 'is not [user@]host[:port]' : rejection(hop);
    if (why !== null) return { rejected: `its jump host ${show(item)} ${why}` };
    hops.push(hop);
  }
  return hops;
}

/**
 * The ssh config for one connection: a block for each jump host and for the host, by aliases of our own (`host`,
 * `jump1` …), then what holds for every hop. No other config is read (`ssh -F`).
 *
 * `keyExchange` is a value for KexAlgorithms as `fastKeyExchange` gives it; null leaves that to ssh.
 *
 * - Every hop checks host keys against the same file, uses the same keys, and never asks anybody anything.
 * - Jump hosts are written as a ProxyCommand of our own and not as ProxyJump, which is the same but for one thing: each
 *   hop keeps its own log, so a failure is told from the hop that failed.
 */
export function sshConfig(
  connection: HostConnection,
  hops: readonly Hop[],
  paths: SshPaths,
  keyExchange: string | null,
): string | Rejected {
  const why = rejection({ host: connection.host, port: connection.port, user: connection.user });
  if (why !== null) return { rejected: `its address ${show(connection.host)} ${why}` };
  const keyFile = paths.keys.length === 0 ? connection.keyFile : null;
  if (keyFile !== null && !/^[^\p{Cc}"'\\$`%]+$/u.test(keyFile)) {
    return { rejected: `its private key file ${show(keyFile)} is not a plain path` };
  }
  const lines: string[] = [];
  const target = { host: connection.host, port: connection.port, user: connection.user };
  [...hops, target].forEach((hop, index) => {
    const last = index === hops.length;
    lines.push(`Host ${last ? 'host' : `jump${index + 1}`}`);
    lines.push(`  HostName ${hop.host.replace(/%/g, '%%')}`, `  Port ${hop.port}`);
    if (hop.user !== null) lines.push(`  User ${hop.user}`);
    if (index > 0) {
      const log = paths.logs[index - 1] ?? '/dev/null';
      const words = `ssh -F ${configPath(paths.config)} -E ${configPath(log)} -W [%h]:%p jump${index}`;
      // ssh runs it with an `exec` of its own.
      lines.push(`  ProxyCommand ${words}`);
    }
    if (last && paths.control !== null) {
      lines.push('  ControlMaster auto', `  ControlPath ${configPath(paths.control)}`);
      lines.push(`  ControlPersist ${PERSIST_SECONDS}`);
    }
  });
  lines.push('Host *');
  for (const option of connection.options) {
    if (option.keyword === 'ProxyJump') continue;
    const form = OPTION_VALUES[option.keyword];
    if (form === undefined || !form.test(option.value)) {
      return {
        rejected: `its ssh option ${option.keyword} has a value that ssh does not accept: ${show(option.value)}`,
      };
    }
    // First value wins in an ssh config, so these stand before our own.
    lines.push(`  ${option.keyword} ${option.value}`);
  }
  if (keyFile !== null) lines.push(`  IdentityFile "${keyFile}"`);
  if (keyExchange !== null) lines.push(`  KexAlgorithms ${keyExchange}`);
  lines.push(...common(paths).map((line) => `  ${line}`));
  return `${lines.join('\n')}\n`;
}

const CURVE25519 = 'curve25519-sha256,curve25519-sha256@libssh.org';

/**
 * The value for KexAlgorithms that lets ssh offer its fastest key exchange first and all others behind it; null where
 * it does so by itself. `version` is what `ssh -V` says.
 *
 * OpenSSH 9.0 to 9.9 begins with sntrup761, which takes most of the processor time of a connection (measured: 4 of 5 s
 * for 20 hosts on two cores). mlkem768x25519 (from 9.9 on) costs about what curve25519 costs, and stays in front of it.
 * Older versions begin with curve25519, and may not know the `^`. Ciphers are left alone: at some kB a host none shows.
 */
export function fastKeyExchange(version: string): string | null {
  const [, major, minor] = /^OpenSSH_(\d+)\.(\d+)/.exec(version) ?? [];
  if (major === undefined || Number(major) < 9) return null;
  const hasMlkem = Number(major) > 9 || Number(minor) >= 9;
  return `^${hasMlkem ? 'mlkem768x25519-sha256,' : ''}${CURVE25519}`;
}

/** What holds for every hop. */
function common(paths: SshPaths): string[] {
  const keys = paths.keys.map((key) => `IdentityFile ${configPath(key)}`);
  return [
    ...keys,
    ...(keys.length > 0 ? ['IdentitiesOnly yes'] : []),
    'BatchMode yes',
    'NumberOfPasswordPrompts 0',
    'PasswordAuthentication no',
    'KbdInteractiveAuthentication no',
    'StrictHostKeyChecking yes',
    `UserKnownHostsFile ${configPath(paths.knownHosts)}`,
    'GlobalKnownHostsFile /dev/null',
    'UpdateHostKeys no',
    'VerifyHostKeyDNS no',
    'CheckHostIP no',
    `ConnectTimeout ${CONNECT_SECONDS}`,
    'ConnectionAttempts 1',
    'ServerAliveInterval 15',
    'ServerAliveCountMax 3',
    'ForwardAgent no',
    'ForwardX11 no',
    'PermitLocalCommand no',
    'RequestTTY no',
    'EscapeChar none',
    'Tunnel no',
    'AddKeysToAgent no',
    'CanonicalizeHostname no',
    // The log is read only when a connection fails: at this level it holds the fingerprint of the key that was offered.
    'LogLevel DEBUG1',
  ];
}

/** Seconds that one hop may take to connect. */
export function connectSeconds(connection: HostConnection): number {
  const option = connection.options.find((each) => each.keyword === 'ConnectTimeout');
  const seconds = Number(option?.value ?? CONNECT_SECONDS);
  return Number.isInteger(seconds) && seconds > 0 ? seconds : CONNECT_SECONDS;
}

function rejection(hop: Hop): string | null {
  if (!HOST.test(hop.host)) return 'is not a host name or an address';
  if (!Number.isInteger(hop.port) || hop.port < 1 || hop.port > 65535) return `has no valid port (${hop.port})`;
  if (hop.user !== null && !USER.test(hop.user)) return `has a user name that is not allowed: ${show(hop.user)}`;
  return null;
}

/** True when ssh takes this path as it is: in its config, quoted, and with no token or variable of ssh in it. */
export function isConfigPath(path: string): boolean {
  return /^\/[^\p{Cc}"'\\$`!]*$/u.test(path);
}

/** A path as a word of the config; in a ProxyCommand it means the same to ssh's tokens and to `sh`. */
function configPath(path: string): string {
  if (!isConfigPath(path)) throw new Error('a path that ssh would not take as it is');
  return `"${path.replace(/%/g, '%%')}"`;
}
