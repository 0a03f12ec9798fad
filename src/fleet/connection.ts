import type { HostConnection } from './fleet.js';
import { parseSshArguments, type SshArguments } from './ssh-arguments.js';
import { hasControlCharacter, type VariableReader } from './variables.js';

/** Shared by all hosts without ssh arguments. */
const NONE: readonly never[] = [];

/** What the inventory says of the way to a host, and the names of ssh options that were ignored. */
export interface ReadConnection {
  readonly connection: HostConnection;
  /** Options that fleet-role sets itself and therefore ignored, for the note `ignored-ssh-option`. */
  readonly ignored: readonly string[];
}

/**
 * The connection of a host by Ansible's connection variables. `ansible_ssh_common_args` and `ansible_ssh_extra_args`
 * are parsed as words; what fleet-role cannot write to its own ssh config is a `bad-value` problem, because ssh would
 * run it as shell on the runner.
 */
export function readConnection(reader: VariableReader): ReadConnection {
  const type = reader.choice('ansible_connection', ['ssh', 'smart', 'local'], 'ssh');
  const host = address(reader, 'ansible_host', reader.host.name);
  const user = reader.string('ansible_user');
  if (user !== undefined && !isUserName(user)) {
    reader.problem(
      'bad-value',
      'ansible_user',
      `ansible_user of ${reader.host.name} is no user name; give letters, digits, "_", ".", "-".`,
    );
  }
  const parsed = readArguments(reader);
  const port = reader.integer('ansible_port', 22, 1, 65_535) ?? 22;
  const portArgument = parsed.findLast((result) => result.port !== undefined)?.port;
  const userArgument = parsed.findLast((result) => result.user !== undefined)?.user;
  return {
    connection: {
      type: type === 'local' ? 'local' : 'ssh',
      host,
      port: reader.get('ansible_port') === undefined ? (portArgument ?? port) : port,
      user: user ?? userArgument ?? null,
      become: reader.boolean('ansible_become', false),
      keyFile: reader.string('ansible_ssh_private_key_file') ?? null,
      options: parsed.length === 0 ? NONE : parsed.flatMap((result) => result.options),
    },
    ignored: parsed.length === 0 ? NONE : [...new Set(parsed.flatMap((result) => result.ignored))],
  };
}

/** The ssh arguments that are set, the stronger last. */
function readArguments(reader: VariableReader): readonly SshArguments[] {
  const found: SshArguments[] = [];
  for (const name of ARGUMENTS) {
    const text = reader.string(name);
    if (text === undefined) continue;
    const result = parseSshArguments(text);
    for (const error of result.errors) {
      reader.problem('bad-value', name, `${name} of ${reader.host.name}: ${error}`);
    }
    found.push(result);
  }
  return found;
}

const ARGUMENTS = ['ansible_ssh_common_args', 'ansible_ssh_extra_args'] as const;

function address(reader: VariableReader, name: string, fallback: string): string {
  const text = reader.string(name, fallback);
  // ssh would read a leading "-" as an option, and "%" as a token of its config.
  if (/^[A-Za-z0-9_.:[\]-]+$/.test(text) && !text.startsWith('-') && !hasControlCharacter(text)) return text;
  reader.problem(
    'bad-value',
    name,
    `${name} of ${reader.host.name} is no host name or address that ssh can be given safely; give a name or an IP address.`,
  );
  return fallback;
}

/** A name that ssh can be given as a user: it cannot be taken for an option, a token of its config, or two words. */
export function isUserName(text: string): boolean {
  return /^[A-Za-z0-9_][A-Za-z0-9_.@$-]*$/.test(text);
}
