import type { Cause } from './change.js';
import type { Cluster, ClusterSettings, Host, Role } from './fleet.js';
import { joinUrlOf } from './join-url.js';
import { assignRoles } from './topology.js';
import { PREFIX, ROLE_GROUP } from './variables.js';

/** Hosts of two commits that are one host: by head name, the host as the base has it. */
export type Pairs = ReadonlyMap<string, Host>;

/** What the topology rule makes of a fleet: enough to see whether an edit explains an outcome. */
interface Outcome {
  readonly roles: ReadonlyMap<string, Role>;
  readonly bootstrap: string | null;
}

/** One edit between base and head: who made it, and what the rule would say without it. */
interface Edit {
  readonly cause: Cause;
  readonly without: Outcome;
}

// Each edit costs one run of the topology rule over the whole cluster; a commit with more edits names none of them.
const MOST_EDITS = 200;

const ROLE_VARIABLES = ['node_role', 'bootstrap', 'server_pinned', 'server_eligible'];
const BOOTSTRAP_VARIABLES = ['bootstrap', 'node_role', 'server_url', 'server_pinned', 'server_eligible'];
const ADDRESS_VARIABLES = ['node_address', 'node_name', 'tailnet_domain'];

/**
 * Finds which line of which commit made a host's outcome differ: its own variables first, then the single edit without
 * which the topology rule would still say what it said before.
 */
export class CauseFinder {
  readonly #base: Cluster;
  readonly #head: Cluster;
  readonly #pairs: Pairs;
  #edits: readonly Edit[] | undefined;

  constructor(base: Cluster, head: Cluster, pairs: Pairs) {
    this.#base = base;
    this.#head = head;
    this.#pairs = pairs;
  }

  /** Whether the host's own role-deciding lines changed. */
  ownRoleEdit(before: Host, after: Host): Cause | null {
    return ownEdit(before, after, ROLE_VARIABLES);
  }

  ofRole(before: Host, after: Host): Cause {
    return (
      this.ownRoleEdit(before, after) ??
      this.#settingEdit(
        ['controller', 'max_servers', 'datastore'],
        (without) => without.roles.get(after.name) === before.role,
      ) ??
      this.#find((without) => without.roles.get(after.name) === before.role) ??
      fallback(after, `${after.name} becomes ${after.role} by the order of hosts`)
    );
  }

  ofJoinUrl(before: Host, after: Host): Cause {
    const own = ownEdit(before, after, ['server_url']);
    if (own !== null) return own;
    // An endpoint that names the bootstrap host often follows it by a template: then the host is the cause.
    const isOf = (cluster: Cluster, url: string | null): boolean => url === null || url === bootstrapUrl(cluster);
    const follows = isOf(this.#base, before.joinUrl) && isOf(this.#head, after.joinUrl);
    return (follows ? null : ownEdit(before, after, ['api_endpoint'])) ?? this.ofBootstrap(after);
  }

  /** Why the join URL of the bootstrap host differs: another host bootstraps, or its address or port changed. */
  ofBootstrap(affected: Host): Cause {
    const now = this.#head.hosts.find((host) => host.name === this.#head.bootstrap);
    const then = this.#base.hosts.find((host) => host.name === this.#base.bootstrap);
    const same = now !== undefined && then !== undefined && this.#pairs.get(now.name) === then;
    if (same) {
      return (
        ownEdit(then, now, ADDRESS_VARIABLES) ??
        this.#settingEdit(['api_port'], () => true) ??
        fallback(affected, `the address of ${now.name} changed`)
      );
    }
    const before = now === undefined ? undefined : this.#pairs.get(now.name);
    const own = now === undefined || before === undefined ? null : ownEdit(before, now, BOOTSTRAP_VARIABLES);
    const after = this.#head.hosts.find((host) => this.#pairs.get(host.name) === then);
    const stillThere = then === undefined ? null : (after?.name ?? then.name);
    return (
      own ??
      this.#settingEdit(['controller', 'max_servers', 'datastore'], (without) => without.bootstrap === stillThere) ??
      this.#find((without) => without.bootstrap === stillThere) ??
      fallback(now ?? affected, `${now?.name ?? 'no host'} bootstraps the cluster now`)
    );
  }

  #settingEdit(shorts: readonly string[], explains: (without: Outcome) => boolean): Cause | null {
    const before = this.#base.hosts[0];
    const after = this.#head.hosts[0];
    if (before === undefined || after === undefined) return null;
    for (const short of shorts) {
      const cause = ownEdit(before, after, [short]);
      const key = SETTING_KEYS[short];
      if (cause === null || key === undefined || this.#base.settings?.[key] === this.#head.settings?.[key]) continue;
      if (explains(this.#outcome(this.#head.hosts, this.#settingsWith(key)))) return cause;
    }
    return null;
  }

  #settingsWith(key: keyof ClusterSettings): ClusterSettings {
    const { base, head } = { base: this.#base.settings, head: this.#head.settings };
    if (base === null || head === null) throw new Error('only readable clusters are compared');
    return { ...head, [key]: base[key] };
  }

  #outcome(hosts: readonly Host[], settings: ClusterSettings): Outcome {
    const { roles, bootstrap } = assignRoles(hosts, settings);
    return { roles, bootstrap: bootstrap?.name ?? null };
  }

  #find(explains: (without: Outcome) => boolean): Cause | null {
    this.#edits ??= this.#listEdits();
    return this.#edits.find((edit) => explains(edit.without))?.cause ?? null;
  }

  #listEdits(): readonly Edit[] {
    const settings = this.#head.settings;
    if (settings === null) return [];
    const hosts = this.#head.hosts;
    const kept = new Set(this.#pairs.values());
    const edits: { cause: Cause; hosts: () => readonly Host[] }[] = [];
    for (const [index, host] of hosts.entries()) {
      const before = this.#pairs.get(host.name);
      if (before === undefined) {
        edits.push({ cause: fallback(host, `${host.name} was added here`), hosts: () => hosts.toSpliced(index, 1) });
        continue;
      }
      const cause = ownEdit(before, host, BOOTSTRAP_VARIABLES);
      if (cause !== null) edits.push({ cause, hosts: () => hosts.with(index, { ...before, name: host.name }) });
    }
    for (const removed of this.#base.hosts.filter((host) => !kept.has(host))) {
      const cause: Cause = { commit: 'base', ...removed.place, reason: `${removed.name} was removed` };
      edits.push({ cause, hosts: () => this.#reinsert(removed) });
    }
    const moved = this.#firstMoved();
    if (moved !== null) {
      edits.push({ cause: fallback(moved, `${moved.name} was moved here`), hosts: () => this.#inBaseOrder() });
    }
    if (edits.length > MOST_EDITS) return [];
    return edits.map((edit) => ({ cause: edit.cause, without: this.#outcome(edit.hosts(), settings) }));
  }

  /** The head's hosts with a removed one back behind the host it stood behind. */
  #reinsert(removed: Host): readonly Host[] {
    const behind = new Set(this.#base.hosts.slice(0, this.#base.hosts.indexOf(removed)));
    const at = this.#head.hosts.findLastIndex((host) => behind.has(this.#pairs.get(host.name) as Host));
    return this.#head.hosts.toSpliced(at + 1, 0, removed);
  }

  /** The first host that both commits have and that stands elsewhere among those than before; null when none does. */
  #firstMoved(): Host | null {
    const common = this.#head.hosts.filter((host) => this.#pairs.has(host.name));
    const ranks = new Map(this.#base.hosts.map((host, index) => [host, index]));
    const rank = (host: Host): number => ranks.get(this.#pairs.get(host.name) as Host) ?? 0;
    const sorted = common.toSorted((a, b) => rank(a) - rank(b));
    return common.find((host, index) => sorted[index] !== host) ?? null;
  }

  #inBaseOrder(): readonly Host[] {
    const ranks = new Map(this.#base.hosts.map((host, index) => [host, index]));
    const rank = (host: Host): number => {
      const before = this.#pairs.get(host.name);
      return before === undefined ? Number.MAX_SAFE_INTEGER : (ranks.get(before) ?? 0);
    };
    return this.#head.hosts.toSorted((a, b) => rank(a) - rank(b));
  }
}

const SETTING_KEYS: Readonly<Record<string, keyof ClusterSettings>> = {
  controller: 'controller',
  max_servers: 'maxServers',
  api_port: 'apiPort',
  datastore: 'datastore',
};

/** The line of the first of these variables whose value differs between base and head for this host, or null. */
export function ownEdit(before: Host, after: Host, shorts: readonly string[]): Cause | null {
  for (const name of shorts.flatMap((short) => namesOf(short, before, after))) {
    const from = before.sources.get(name);
    const to = after.sources.get(name);
    if (from?.value === to?.value) continue;
    if (to !== undefined) {
      return {
        commit: 'head',
        file: to.file,
        line: to.line,
        reason: `${name} of ${after.name} is now ${to.value} (${to.source})`,
      };
    }
    if (from !== undefined) {
      return {
        commit: 'base',
        file: from.file,
        line: from.line,
        reason: `${name} of ${after.name} was ${from.value} and is gone`,
      };
    }
  }
  return null;
}

/** What else sets the same thing in the layout of groups, while fleet-role's own variable is not set. */
const THEIRS: Readonly<Record<string, string>> = {
  node_role: ROLE_GROUP,
  api_port: 'api_port',
  data_dir: 'k3s_server_location',
  node_address: 'ansible_host',
};

function namesOf(short: string, before: Host, after: Host): readonly string[] {
  if (short.startsWith('ansible_') || short === 'api_endpoint') return [short];
  const own = PREFIX + short;
  const theirs = THEIRS[short];
  if (theirs === undefined || !after.sources.has(ROLE_GROUP)) return [own];
  return before.sources.has(own) && after.sources.has(own) ? [own] : [own, theirs];
}

/** A cause on the host's own line of the head. */
export function fallback(host: Host, reason: string): Cause {
  return { commit: 'head', file: host.place.file, line: host.place.line, reason };
}

/** The join URL that the bootstrap host's address gives; null without one. */
export function bootstrapUrl(cluster: Cluster): string | null {
  const host = cluster.hosts.find((candidate) => candidate.name === cluster.bootstrap);
  return host === undefined || cluster.settings === null ? null : joinUrlOf(host.address, cluster.settings.apiPort);
}
