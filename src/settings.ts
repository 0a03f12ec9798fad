import { UserError } from './errors.js';
import { isUserName } from './fleet/connection.js';
import { DEFAULT_CLUSTER_GROUP } from './fleet/declare.js';
import type { LayoutInputs } from './fleet/layout.js';
import { hasControlCharacter } from './fleet/variables.js';
import type { Mode } from './plan/plan.js';

/** Every input of the Action, checked and typed. An empty input is its default; no other file knows an input's name. */
export interface Settings {
  readonly mode: 'auto' | Mode;
  readonly host: string | null;
  /** `owner/name`, a git URL or a path; null: the workflow's own repository. */
  readonly repository: string | null;
  readonly ref: string | null;
  readonly baseRef: string | null;
  readonly branch: string | null;
  readonly token: string | null;
  readonly inventory: string | null;
  readonly playbookDir: string | null;
  readonly clusterGroups: readonly string[];
  readonly layout: LayoutInputs['layout'];
  /** Null: the first of the usual names that the inventory has. */
  readonly serverGroup: string | null;
  readonly agentGroup: string | null;
  readonly vaultPassword: string | null;
  readonly observe: boolean;
  /** PEM text as given; `hosts/private-key` reads it. */
  readonly sshPrivateKey: string | null;
  readonly sshKnownHosts: string | null;
  readonly sshUser: string | null;
  readonly checkRun: boolean;
  readonly checkName: string | null;
  readonly rollout: 'changed' | 'servers' | 'all';
  readonly drain: 'wait' | 'evict' | 'none';
  readonly runnerSelector: string;
  /** Seconds, like every duration here. */
  readonly drainTimeout: number;
  readonly stepTimeout: number;
  readonly lockTimeout: number;
  readonly parallelism: number;
  readonly forceUnreachable: boolean;
  readonly allowRollback: boolean;
  readonly requireReviewedPlan: boolean;
  readonly driftIssue: boolean;
  readonly dryRun: boolean;
  readonly installGuards: 'auto' | 'always' | 'never';
}

const MODES = ['auto', 'plan', 'apply', 'rejoin', 'drift', 'explain'] as const;

/**
 * Reads all inputs through `read`, which gives an input's text ("" when it is not given). Throws a UserError that names
 * the input and what it accepts.
 */
export function readSettings(read: (name: string) => string): Settings {
  const text = (name: string): string | null => {
    const value = read(name).trim();
    return value === '' ? null : value;
  };
  const line = (name: string): string | null => {
    const value = text(name);
    if (value === null || !hasControlCharacter(value)) return value;
    throw new UserError(`The input ${name} is ${quote(value)}; give one line without control characters.`);
  };
  const choice = <T extends string>(name: string, choices: readonly T[], fallback: T): T => {
    const value = text(name);
    if (value === null) return fallback;
    const found = choices.find((candidate) => candidate === value);
    if (found === undefined)
      throw new UserError(`The input ${name} is ${quote(value)}; give one of ${choices.join(', ')}.`);
    return found;
  };
  const boolean = (name: string, fallback: boolean): boolean => {
    const value = text(name);
    if (value === null) return fallback;
    if (/^(?:true|True|TRUE)$/.test(value)) return true;
    if (/^(?:false|False|FALSE)$/.test(value)) return false;
    throw new UserError(`The input ${name} is ${quote(value)}; give true or false.`);
  };
  const settings: Settings = {
    mode: choice('mode', MODES, 'auto'),
    host: line('host'),
    repository: line('repository'),
    ref: line('ref'),
    baseRef: line('base-ref'),
    branch: line('branch'),
    token: text('token'),
    inventory: line('inventory'),
    playbookDir: line('playbook-dir'),
    clusterGroups: readGroups(text('cluster-groups')),
    layout: choice('layout', ['auto', 'ordered', 'groups'], 'auto'),
    serverGroup: line('server-group'),
    agentGroup: line('agent-group'),
    vaultPassword: text('vault-password'),
    observe: boolean('observe', false),
    sshPrivateKey: text('ssh-private-key'),
    sshKnownHosts: text('ssh-known-hosts'),
    sshUser: userName(line('ssh-user')),
    checkRun: boolean('check-run', true),
    checkName: line('check-name'),
    rollout: choice('rollout', ['changed', 'servers', 'all'], 'changed'),
    drain: choice('drain', ['wait', 'evict', 'none'], 'wait'),
    runnerSelector: line('runner-selector') ?? 'actions-ephemeral-runner=True',
    drainTimeout: duration('drain-timeout', text('drain-timeout'), 3600, 1),
    // k3s may need most of five minutes for one membership change (facts 1.4 and 2.13).
    stepTimeout: duration('step-timeout', text('step-timeout'), 600, 300),
    lockTimeout: duration('lock-timeout', text('lock-timeout'), 1800, 1),
    parallelism: wholeNumber('parallelism', text('parallelism'), 20, 1, 200),
    forceUnreachable: boolean('force-unreachable', false),
    allowRollback: boolean('allow-rollback', false),
    requireReviewedPlan: boolean('require-reviewed-plan', false),
    driftIssue: boolean('drift-issue', false),
    dryRun: boolean('dry-run', false),
    installGuards: choice('install-guards', ['auto', 'always', 'never'], 'auto'),
  };

  checkLayout(settings);
  const ofOneHost = settings.mode === 'rejoin' || settings.mode === 'explain';
  if (ofOneHost && settings.host === null) {
    throw new UserError(`The input host is empty, and mode: ${settings.mode} needs the inventory name of one host.`);
  }
  if (settings.host !== null && !ofOneHost) {
    throw new UserError('The input host goes with mode: rejoin or explain; remove it.');
  }
  return settings;
}

function checkLayout({ layout, clusterGroups, serverGroup, agentGroup }: Settings): void {
  if (layout === 'ordered' && (serverGroup !== null || agentGroup !== null)) {
    const name = serverGroup === null ? 'agent-group' : 'server-group';
    throw new UserError(`The input ${name} goes with layout: groups; remove it, or layout: ordered.`);
  }
  if (layout === 'groups' && clusterGroups.length > 1) {
    throw new UserError(
      `The input cluster-groups names ${clusterGroups.length} groups, and layout: groups reads one cluster; name one group.`,
    );
  }
  if (serverGroup !== null && serverGroup === agentGroup) {
    throw new UserError(
      `The inputs server-group and agent-group both name ${quote(serverGroup)}; a host has one role: name two groups.`,
    );
  }
}

function userName(value: string | null): string | null {
  if (value === null || isUserName(value)) return value;
  throw new UserError(`The input ssh-user is ${quote(value)}; give a user name of letters, digits, "_", ".", "-".`);
}

function readGroups(value: string | null): readonly string[] {
  if (value === null) return [DEFAULT_CLUSTER_GROUP];
  const names = value
    .split(/[,\r\n]+/)
    .map((name) => name.trim())
    .filter((name) => name !== '');
  if (names.length === 0)
    throw new UserError('The input cluster-groups names no group; give group names by comma or one a line.');
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) throw new UserError(`The input cluster-groups names ${quote(twice)} twice.`);
  return names;
}

/** Seconds; `90`, `90s`, `5m`, `1h`. */
function duration(name: string, value: string | null, fallback: number, min: number): number {
  if (value === null) return fallback;
  const match = /^(\d{1,9})([smh]?)$/.exec(value);
  const seconds =
    match === null ? Number.NaN : Number(match[1]) * { '': 1, s: 1, m: 60, h: 3600 }[match[2] as '' | 's' | 'm' | 'h'];
  // A timer of Node.js holds 2^31 milliseconds; 24 days are more than any run has.
  if (seconds >= min && seconds <= 2_000_000) return seconds;
  throw new UserError(
    `The input ${name} is ${quote(value)}; give seconds, or a number with s, m or h, of at least ${min} seconds.`,
  );
}

function wholeNumber(name: string, value: string | null, fallback: number, min: number, max: number): number {
  if (value === null) return fallback;
  const number = /^\d{1,9}$/.test(value) ? Number(value) : Number.NaN;
  if (number >= min && number <= max) return number;
  throw new UserError(`The input ${name} is ${quote(value)}; give a whole number from ${min} to ${max}.`);
}

function quote(value: string): string {
  const text = JSON.stringify(value);
  return text.length > 60 ? `${text.slice(0, 57)}…` : text;
}

/** Every secret among the inputs, line by line where it has lines: what must be masked before anything is printed. */
export function secretsOf(read: (name: string) => string): readonly string[] {
  const secrets = ['token', 'vault-password', 'ssh-private-key'].map(read).filter((secret) => secret.trim() !== '');
  const lines = secrets.flatMap((secret) => secret.split(/\r?\n/)).map((line) => line.trim());
  // The frame of a PEM block is no secret, and masking it would blot out harmless texts.
  return [...new Set([...secrets, ...lines.filter((line) => line.length >= 8 && !line.startsWith('-----'))])];
}
