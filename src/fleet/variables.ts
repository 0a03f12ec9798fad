import type { InventoryHost, Value, Variable } from './inventory/inventory.js';
import type { LayoutKind } from './layout.js';
import type { Place, Problem } from './problem.js';

/** The prefix of fleet-role's variables, whatever the cluster's group is called. */
export const PREFIX = 'github_runner_cluster_';

export const CLUSTER_VARIABLES = ['controller', 'max_servers', 'api_port', 'datastore'] as const;

const HOST_VARIABLES = [
  'tailnet_domain',
  'node_role',
  'bootstrap',
  'server_url',
  'tls_sans',
  'node_name',
  'node_address',
  'server_eligible',
  'server_pinned',
  'runtime',
  'dir',
  'compose_project',
  'compose_files',
  'container_name',
  'agent_container_name',
  'docker_context',
  'data_dir',
] as const;

/** Ansible's connection variables that fleet-role reads; every other `ansible_*` is left alone. */
export const CONNECTION_VARIABLES = [
  'ansible_host',
  'ansible_port',
  'ansible_user',
  'ansible_connection',
  'ansible_become',
  'ansible_ssh_private_key_file',
  'ansible_ssh_common_args',
  'ansible_ssh_extra_args',
] as const;

/** Stands among a host's sources for the group that gives it its role, which is no variable. */
export const ROLE_GROUP = 'the group';

/** What the layout of groups reads besides: k3s-ansible's own names, where fleet-role's are not set. */
const GROUPS_VARIABLES = ['api_endpoint', 'api_port', 'k3s_server_location'] as const;

export type ClusterVariable = (typeof CLUSTER_VARIABLES)[number];
export type HostVariable = (typeof HOST_VARIABLES)[number];
export type ConnectionVariable = (typeof CONNECTION_VARIABLES)[number];

/** Each of fleet-role's own variables by its name without the prefix. */
const OWN_NAMES: ReadonlyMap<string, string> = new Map(
  [...CLUSTER_VARIABLES, ...HOST_VARIABLES].map((short) => [short, PREFIX + short]),
);

/** The full name of one of fleet-role's own variables; put together once and not for every host. */
export function own(short: HostVariable | ClusterVariable): string {
  return OWN_NAMES.get(short) as string;
}

const NEEDED: ReadonlySet<string> = new Set([...OWN_NAMES.values(), ...CONNECTION_VARIABLES]);

const NEEDED_IN_GROUPS: ReadonlySet<string> = new Set(GROUPS_VARIABLES);

/** Whether a plan in this layout depends on this variable: its templates and vaults must be resolved. */
export function isNeeded(variable: string, layout: LayoutKind = 'ordered'): boolean {
  return NEEDED.has(variable) || (layout === 'groups' && NEEDED_IN_GROUPS.has(variable));
}

// Ansible's own words: ansible.module_utils.parsing.convert_bool.
const TRUE_WORDS = new Set(['y', 'yes', 'on', '1', 'true', 't', '1.0']);
const FALSE_WORDS = new Set(['n', 'no', 'off', '0', 'false', 'f', '0.0']);

/**
 * Reads the variables of one host with their types. A value of the wrong type becomes a `bad-value` problem that names
 * its file and line, and the default is used so that all problems are found in one go.
 */
export class VariableReader {
  readonly problems: Problem[] = [];
  readonly host: InventoryHost;
  readonly layout: LayoutKind;
  readonly #fallback: Place;

  /** `fallback` is where the host is listed: the place of problems that have no other. */
  constructor(host: InventoryHost, fallback: Place, layout: LayoutKind) {
    this.host = host;
    this.layout = layout;
    this.#fallback = fallback;
    for (const [name, failure] of host.failures) {
      if (isNeeded(name, layout)) this.problems.push({ ...failure, hosts: [host.name] });
    }
  }

  /** The variable, or undefined when it is not set, null, or (fleet-role's own and text) empty: all mean the default. */
  get(name: string): Variable | undefined {
    const { variables, failures } = this.host;
    const variable = variables.get(name);
    if (variable === undefined || (failures.size > 0 && failures.has(name))) return undefined;
    if (variable.value === null || variable.value === '') return undefined;
    return variable;
  }

  /**
   * The name by which a variable is set for this host: fleet-role's own, else, in the layout of groups, the other
   * fleet's. Fleet-role's own where neither is set.
   */
  nameOf(short: HostVariable | ClusterVariable, theirs: (typeof GROUPS_VARIABLES)[number]): string {
    const ours = own(short);
    if (this.layout === 'ordered' || this.get(ours) !== undefined || this.host.failures.has(ours)) return ours;
    return this.get(theirs) === undefined && !this.host.failures.has(theirs) ? ours : theirs;
  }

  place(name: string): Place {
    const variable = this.host.variables.get(name);
    return variable === undefined ? this.#fallback : { file: variable.file, line: variable.line };
  }

  boolean<F extends boolean | null>(name: string, fallback: F): boolean | F {
    const variable = this.get(name);
    if (variable === undefined) return fallback;
    const word = String(variable.value).trim().toLowerCase();
    const simple = typeof variable.value !== 'object';
    if (simple && TRUE_WORDS.has(word)) return true;
    if (simple && FALSE_WORDS.has(word)) return false;
    this.#bad(variable, 'true or false (yes, no, on, off, 1, 0 count as such)');
    return fallback;
  }

  /** A whole number; text that is one counts. Undefined when it is set but is no number (the problem is recorded). */
  integer(name: string, fallback: number, min: number, max: number, code?: Problem['code']): number | undefined {
    const variable = this.get(name);
    if (variable === undefined) return fallback;
    const text = typeof variable.value === 'number' ? String(variable.value) : variable.value;
    const number = typeof text === 'string' && /^\s*[+-]?\d+\s*$/.test(text) ? Number(text) : Number.NaN;
    if (Number.isSafeInteger(number) && number >= min && number <= max) return number;
    this.#bad(variable, `a whole number from ${min} to ${max}`, code);
    return undefined;
  }

  string(name: string): string | undefined;
  string(name: string, fallback: string): string;
  string(name: string, fallback?: string): string | undefined {
    const variable = this.get(name);
    if (variable === undefined) return fallback;
    if (typeof variable.value === 'object') {
      this.#bad(variable, 'text');
      return fallback;
    }
    const text = String(variable.value).trim();
    if (hasControlCharacter(text)) {
      this.#bad(variable, 'text without line breaks and control characters');
      return fallback;
    }
    return text === '' ? fallback : text;
  }

  choice<T extends string>(name: string, choices: readonly T[], fallback: T): T {
    const text = this.string(name);
    if (text === undefined) return fallback;
    const found = choices.find((choice) => choice === text.toLowerCase());
    if (found !== undefined) return found;
    const variable = this.get(name);
    if (variable !== undefined) this.#bad(variable, choices.join(' or '));
    return fallback;
  }

  /** A list of texts; one text counts as a list of one. */
  strings(name: string): readonly string[] | undefined {
    const variable = this.get(name);
    if (variable === undefined) return undefined;
    const items: readonly Value[] = Array.isArray(variable.value) ? variable.value : [variable.value];
    const texts = items.map((item) => (typeof item === 'object' ? '' : String(item).trim()));
    if (texts.some((text) => text === '' || hasControlCharacter(text))) {
      this.#bad(variable, 'a list of texts');
      return undefined;
    }
    return texts;
  }

  #bad(variable: Variable, accepted: string, code: Problem['code'] = 'bad-value'): void {
    this.problem(
      code,
      variable.name,
      `${variable.name} of ${this.host.name} is ${show(variable.value)}; give ${accepted}.`,
    );
  }

  problem(code: Problem['code'], variable: string, message: string): void {
    this.problems.push({ code, message, ...this.place(variable), hosts: [this.host.name] });
  }
}

/** A value of the inventory in one short line for a message; the report escapes it. */
export function show(value: Value): string {
  const text = JSON.stringify(value);
  return text.length > 80 ? `${text.slice(0, 77)}…` : text;
}

const CONTROL_CHARACTER = /[\p{Cc}\u2028\u2029]/u;

export function hasControlCharacter(text: string): boolean {
  // Control characters (C0, DEL, C1), and the line separators that some readers treat as line breaks.
  return CONTROL_CHARACTER.test(text);
}
