import { readConnection } from './connection.js';
import type { Cluster, ClusterSettings, Host, Role, Source } from './fleet.js';
import type { Inventory, InventoryGroup } from './inventory/inventory.js';
import { joinUrlOf, parseJoinUrl } from './join-url.js';
import type { Place, Problem } from './problem.js';
import { clusterProblems, settingProblems } from './topology-problems.js';
import { isNeeded, PREFIX, show, VariableReader } from './variables.js';

/** What the topology rule looks at of one host; a `Host` is one too, so that a plan can ask "what if". */
export type RoleInput = Pick<Host, 'name' | 'nodeRole' | 'declaredBootstrap' | 'serverUrl' | 'eligible' | 'pinned'>;

/** One host as its own variables describe it, before the topology rule gives it a role. */
export interface DeclaredHost extends RoleInput {
  readonly place: Place;
  readonly address: string;
  /** Null when only the host knows it. */
  readonly nodeName: string | null;
  readonly tlsSans: readonly string[] | null;
  readonly settings: ClusterSettings;
  readonly rest: Pick<
    Host,
    | 'runtime'
    | 'connection'
    | 'directory'
    | 'composeProject'
    | 'composeFiles'
    | 'containers'
    | 'dockerContext'
    | 'dataDir'
    | 'sources'
    | 'ignoredSshOptions'
  >;
  readonly problems: readonly Problem[];
  readonly reader: VariableReader;
}

const DEFAULT_MAX_SERVERS = 5;
const DEFAULT_API_PORT = 6443;

/** Reads every host of the group, in inventory order. */
export function declareHosts(inventory: Inventory, group: InventoryGroup): readonly DeclaredHost[] {
  return group.hosts.map((name) => {
    const found = inventory.hosts.get(name);
    if (found === undefined) throw new Error(`the inventory lists ${name} in ${group.name} but does not hold it`);
    const place = group.places.get(name) ?? group.place;
    return declareHost(new VariableReader(found, place), place);
  });
}

function declareHost(reader: VariableReader, place: Place): DeclaredHost {
  const name = reader.host.name;
  const own = (variable: string): string => PREFIX + variable;
  const maxServers = reader.integer(own('max_servers'), DEFAULT_MAX_SERVERS, 1, 99, 'bad-max-servers');
  const settings: ClusterSettings = {
    controller: reader.boolean(own('controller'), false),
    maxServers: maxServers ?? DEFAULT_MAX_SERVERS,
    apiPort: reader.integer(own('api_port'), DEFAULT_API_PORT, 1, 65_535) ?? DEFAULT_API_PORT,
    datastore: reader.choice(own('datastore'), ['etcd', 'sqlite'], 'etcd'),
  };
  const nodeName = reader.string(own('node_name'), name);
  const domain = reader.string(own('tailnet_domain'), '').replace(/^\.+/, '');
  const { connection, ignored } = readConnection(reader);
  const host = {
    name,
    place,
    nodeRole: readRole(reader),
    declaredBootstrap: reader.boolean(own('bootstrap'), null),
    serverUrl: readServerUrl(reader),
    eligible: reader.boolean(own('server_eligible'), null),
    pinned: reader.boolean(own('server_pinned'), false),
    nodeName,
    address: readAddress(reader, domain === '' ? nodeName : `${nodeName}.${domain}`),
    tlsSans: reader.strings(own('tls_sans')) ?? null,
    settings,
    rest: {
      runtime: reader.choice(own('runtime'), ['compose', 'native'], 'compose'),
      connection,
      directory: readDirectory(reader),
      composeProject: readComposeName(reader, 'compose_project', 'github-runner', /^[a-z0-9][a-z0-9_-]*$/),
      composeFiles: reader.strings(own('compose_files')) ?? [],
      containers: {
        k3s: readComposeName(reader, 'container_name', 'github-runner-k3s', /^[A-Za-z0-9][A-Za-z0-9_.-]+$/),
        'k3s-agent': readComposeName(
          reader,
          'agent_container_name',
          'github-runner-k3s-agent',
          /^[A-Za-z0-9][A-Za-z0-9_.-]+$/,
        ),
      },
      dockerContext: readDockerContext(reader),
      dataDir: reader.string(own('data_dir'), '/var/lib/rancher/k3s'),
      sources: readSources(reader),
      ignoredSshOptions: ignored,
    },
    reader,
  } as const;
  return { ...host, problems: reader.problems };
}

function readRole(reader: VariableReader): Role | null {
  const variable = `${PREFIX}node_role`;
  const text = reader.string(variable);
  if (text === undefined) return null;
  if (text === 'server' || text === 'agent') return text;
  reader.problem(
    'unknown-role',
    variable,
    `${variable} of ${reader.host.name} is ${show(text)}; give server or agent.`,
  );
  return null;
}

function readServerUrl(reader: VariableReader): string | null {
  const variable = `${PREFIX}server_url`;
  const text = reader.string(variable);
  if (text === undefined) return null;
  if (parseJoinUrl(text) === null) {
    reader.problem(
      'bad-join-url',
      variable,
      `${variable} of ${reader.host.name} is ${show(text)}; give https://HOST:PORT with nothing behind it.`,
    );
  }
  return text;
}

function readAddress(reader: VariableReader, fallback: string): string {
  const variable = `${PREFIX}node_address`;
  const text = reader.string(variable, fallback).replace(/^\[(.*)\]$/, '$1');
  if (parseJoinUrl(joinUrlOf(text, DEFAULT_API_PORT)) === null) {
    // A bad node name is a problem of its own; the address made of it needs no second one.
    if (reader.get(variable) !== undefined) {
      reader.problem(
        'bad-value',
        variable,
        `${variable} of ${reader.host.name} is ${show(text)}; give a name or an IP address.`,
      );
    } else if (reader.get(`${PREFIX}tailnet_domain`) !== undefined && isDnsName(reader.host.name)) {
      const domain = `${PREFIX}tailnet_domain`;
      reader.problem(
        'bad-value',
        domain,
        `${domain} of ${reader.host.name} gives the address ${show(text)}; give a DNS domain.`,
      );
    }
  }
  return text;
}

function readDirectory(reader: VariableReader): string {
  const variable = `${PREFIX}dir`;
  const text = reader.string(variable, '~/.github-runner').replace(/(?<=[^/])\/+$/, '');
  if (!/^(?:\/|~\/|~$)/.test(text) || /(?:^|\/)\.\.(?:\/|$)/.test(text) || text.includes(':')) {
    // A colon would split COMPOSE_FILE and a bind mount's short form.
    reader.problem(
      'bad-value',
      variable,
      `${variable} of ${reader.host.name} is ${show(text)}; give an absolute path, or one that begins with "~/", without ".." and ":".`,
    );
  }
  return text;
}

function readComposeName(reader: VariableReader, short: string, fallback: string, form: RegExp): string {
  const variable = PREFIX + short;
  const text = reader.string(variable, fallback);
  if (form.test(text)) return text;
  reader.problem(
    'bad-value',
    variable,
    `${variable} of ${reader.host.name} is ${show(text)}; Compose and Docker do not take such a name.`,
  );
  return fallback;
}

function readDockerContext(reader: VariableReader): string | null {
  const variable = `${PREFIX}docker_context`;
  const text = reader.string(variable);
  if (text === undefined) return null;
  if (/^[A-Za-z0-9][A-Za-z0-9_.+-]*$/.test(text)) return text;
  reader.problem(
    'bad-value',
    variable,
    `${variable} of ${reader.host.name} is ${show(text)}; it is no name of a Docker context.`,
  );
  return null;
}

function readSources(reader: VariableReader): ReadonlyMap<string, Source> {
  const sources = new Map<string, Source>();
  for (const variable of reader.host.variables.values()) {
    if (!isNeeded(variable.name) || reader.get(variable.name) === undefined) continue;
    sources.set(variable.name, {
      file: variable.file,
      line: variable.line,
      value: typeof variable.value === 'string' ? variable.value : JSON.stringify(variable.value),
      source: variable.source,
    });
  }
  return sources;
}

/** A lower-case DNS name (RFC 1123 subdomain): what Kubernetes takes as the name of a Node. */
export function isDnsName(text: string): boolean {
  const label = /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/;
  return text.length <= 253 && text.split('.').every((part) => part.length <= 63 && label.test(part));
}

/** What the topology rule makes of a cluster's hosts. */
export interface Roles<H extends RoleInput> {
  readonly roles: ReadonlyMap<string, Role>;
  readonly bootstrap: H | null;
}

/**
 * The topology rule, steps 1 to 4 of section 2 of the specification: forced roles, candidates, the odd target, and the
 * bootstrap host. It has no memory: the same hosts in the same order always give the same roles.
 */
export function assignRoles<H extends RoleInput>(hosts: readonly H[], settings: ClusterSettings): Roles<H> {
  const forced = new Map<string, Role>();
  for (const host of hosts) {
    if (host.nodeRole !== null) forced.set(host.name, host.nodeRole);
    else if (host.declaredBootstrap === true || (settings.controller && host.pinned)) forced.set(host.name, 'server');
  }
  const free = hosts.filter((host) => !forced.has(host.name));
  const anyEligible = settings.controller && hosts.some((host) => host.eligible === true);
  const eligible = settings.controller
    ? free.filter((host) => host.eligible !== false && (!anyEligible || host.eligible === true))
    : free;
  const forcedServers = [...forced.values()].filter((role) => role === 'server').length;
  const most = Math.min(forcedServers + eligible.length, settings.datastore === 'sqlite' ? 1 : settings.maxServers);
  const target = most % 2 === 0 ? most - 1 : most;
  const chosen = new Set(eligible.slice(0, Math.max(0, target - forcedServers)).map((host) => host.name));
  const roles = new Map<string, Role>();
  for (const host of hosts) {
    roles.set(host.name, forced.get(host.name) ?? (chosen.has(host.name) ? 'server' : 'agent'));
  }
  const bootstrap =
    hosts.find((host) => host.declaredBootstrap === true) ??
    hosts.find(
      (host) => roles.get(host.name) === 'server' && host.serverUrl === null && host.declaredBootstrap !== false,
    ) ??
    null;
  return { roles, bootstrap };
}

/**
 * The cluster that a group declares: the topology rule over its hosts, and every problem that it has.
 * `problems` are those found while reading the inventory; any of them makes the cluster invalid.
 */
export function declareCluster(
  group: InventoryGroup,
  declared: readonly DeclaredHost[],
  problems: readonly Problem[],
): Cluster {
  const first = declared[0];
  if (first === undefined) throw new Error(`the group ${group.name} has no hosts`);
  const settings = first.settings;
  const { roles, bootstrap } = assignRoles(declared, settings);
  const servers = declared.filter((host) => roles.get(host.name) === 'server');
  const automaticSans = servers.map((host) => host.address);
  const bootstrapUrl = bootstrap === null ? null : joinUrlOf(bootstrap.address, settings.apiPort);
  const joinUrl = (host: DeclaredHost): string | null => host.serverUrl ?? (host === bootstrap ? null : bootstrapUrl);

  const hosts = declared.map((host): Host => {
    const role = roles.get(host.name) ?? 'agent';
    return {
      name: host.name,
      nodeName: host.nodeName,
      address: host.address,
      role,
      bootstrap: host === bootstrap,
      nodeRole: host.nodeRole,
      declaredBootstrap: host.declaredBootstrap,
      joinUrl: joinUrl(host),
      serverUrl: host.serverUrl,
      tlsSans: host.tlsSans ?? automaticSans,
      publishesLabels: settings.controller || host.eligible === true || host.pinned,
      eligible: host.eligible,
      pinned: host.pinned,
      ...host.rest,
      roleFile: settings.controller ? role : null,
      joinUrlFile: settings.controller ? (joinUrl(host) ?? otherServerUrl(host, servers, settings.apiPort)) : null,
      place: host.place,
    };
  });
  const found = [
    ...problems,
    ...settingProblems(group, declared),
    ...declared.flatMap((host) => host.problems),
    ...clusterProblems({ group, declared, settings, roles, bootstrap, servers, joinUrl }),
  ];
  return {
    name: group.name,
    readable: true,
    valid: found.length === 0,
    settings,
    controller: settings.controller,
    datastore: settings.datastore,
    bootstrap: bootstrap?.name ?? null,
    servers: servers.map((host) => host.name),
    problems: found,
    warnings: [],
    hosts,
  };
}

/** Rule 8: the bootstrap host's file names the first other server, so that an emptied data volume rejoins. */
function otherServerUrl(host: DeclaredHost, servers: readonly DeclaredHost[], apiPort: number): string | null {
  const other = servers.find((server) => server !== host);
  return other === undefined ? null : joinUrlOf(other.address, apiPort);
}
