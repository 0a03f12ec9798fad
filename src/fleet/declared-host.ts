import { readConnection } from './connection.js';
import type { ClusterSettings, Host, HostConnection, Role, Source } from './fleet.js';
import type { Inventory } from './inventory/inventory.js';
import { joinUrlOf, parseJoinUrl } from './join-url.js';
import type { ClusterGroup, LayoutKind, Member } from './layout.js';
import type { Place, Problem } from './problem.js';
import { type HostVariable, isNeeded, own, ROLE_GROUP, show, VariableReader } from './variables.js';

/** What the topology rule looks at of one host; a `Host` is one too, so that a plan can ask "what if". */
export type RoleInput = Pick<Host, 'name' | 'nodeRole' | 'declaredBootstrap' | 'serverUrl' | 'eligible' | 'pinned'>;

/** One host as its own variables describe it, before the topology rule gives it a role. */
export interface DeclaredHost extends RoleInput {
  readonly place: Place;
  /** What gives it its role in the layout of groups. */
  readonly group: Member['group'];
  readonly address: string;
  /** `api_endpoint`: what every node but the bootstrap host joins through; null where it is not set. */
  readonly endpoint: string | null;
  /** The variable that sets the API's port, for problems. */
  readonly portVariable: string;
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

const DEFAULT_DIRECTORY = '~/.github-runner';
const DEFAULT_DATA_DIR = '/var/lib/rancher/k3s';

/** Reads the members of a cluster, in their order. */
export function declareHosts(inventory: Inventory, cluster: ClusterGroup, layout: LayoutKind): readonly DeclaredHost[] {
  return (cluster.members ?? []).map((member) => {
    const found = inventory.hosts.get(member.name);
    if (found === undefined)
      throw new Error(`the inventory lists ${member.name} for ${cluster.name} and has no such host`);
    return declareHost(new VariableReader(found, member.place, layout), member);
  });
}

function declareHost(reader: VariableReader, { name, place, group }: Member): DeclaredHost {
  const portVariable = reader.nameOf('api_port', 'api_port');
  const maxServers = reader.integer(own('max_servers'), DEFAULT_MAX_SERVERS, 1, 99, 'bad-max-servers');
  const settings: ClusterSettings = {
    controller: reader.boolean(own('controller'), false),
    maxServers: maxServers ?? DEFAULT_MAX_SERVERS,
    apiPort: reader.integer(portVariable, DEFAULT_API_PORT, 1, 65_535) ?? DEFAULT_API_PORT,
    datastore: reader.choice(own('datastore'), ['etcd', 'sqlite'], 'etcd'),
  };
  // In the other layout nobody tells k3s a node name: it takes the one that the machine has.
  const nodeName = reader.string(own('node_name')) ?? (reader.layout === 'groups' ? null : name);
  const { connection, ignored } = readConnection(reader);
  return {
    name,
    place,
    group,
    nodeRole: readRole(reader) ?? group?.role ?? null,
    declaredBootstrap: reader.boolean(own('bootstrap'), null),
    serverUrl: readServerUrl(reader),
    eligible: reader.boolean(own('server_eligible'), null),
    pinned: reader.boolean(own('server_pinned'), false),
    nodeName,
    address: readAddress(reader, nodeName, connection),
    endpoint: readEndpoint(reader),
    portVariable,
    tlsSans: reader.strings(own('tls_sans')) ?? null,
    settings,
    rest: {
      runtime: reader.choice(own('runtime'), ['compose', 'native'], reader.layout === 'groups' ? 'native' : 'compose'),
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
      dataDir: reader.string(reader.nameOf('data_dir', 'k3s_server_location'), DEFAULT_DATA_DIR),
      sources: new HostSources(reader, group, place),
      ignoredSshOptions: ignored,
    },
    // The reader adds to it while the lines above are read.
    problems: reader.problems,
    reader,
  };
}

function readRole(reader: VariableReader): Role | null {
  const variable = own('node_role');
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
  const variable = own('server_url');
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

function readAddress(reader: VariableReader, nodeName: string | null, connection: HostConnection): string {
  const variable = own('node_address');
  const { text: fallback, from } = defaultAddress(reader, nodeName, connection);
  const text = reader.string(variable, fallback).replace(/^\[(.*)\]$/, '$1');
  if (parseJoinUrl(joinUrlOf(text, DEFAULT_API_PORT)) === null) {
    // A bad node name is a problem of its own; the address made of it needs no second one.
    if (reader.get(variable) !== undefined) {
      reader.problem(
        'bad-value',
        variable,
        `${variable} of ${reader.host.name} is ${show(text)}; give a name or an IP address.`,
      );
    } else if (from !== null) {
      reader.problem(
        'bad-value',
        from.variable,
        `${from.variable} of ${reader.host.name} gives the address ${show(text)}; give ${from.accepted}.`,
      );
    }
  }
  return text;
}

interface DefaultAddress {
  readonly text: string;
  /** The variable that is to blame when the text is no address; null when none is, or when it has a problem already. */
  readonly from: { readonly variable: string; readonly accepted: string } | null;
}

/** The address where `node_address` is not set: made of the node name, or, in the layout of groups, of the connection. */
function defaultAddress(reader: VariableReader, nodeName: string | null, connection: HostConnection): DefaultAddress {
  const variable = own('tailnet_domain');
  const domain = reader.string(variable, '').replace(/^\.+/, '');
  if (domain !== '' && nodeName !== null) {
    const from = isDnsName(nodeName) ? { variable, accepted: 'a DNS domain' } : null;
    return { text: `${nodeName}.${domain}`, from };
  }
  if (reader.layout === 'ordered') return { text: nodeName ?? reader.host.name, from: null };
  if (domain !== '' && reader.get(own('node_address')) === undefined) {
    reader.problem(
      'bad-value',
      variable,
      `${variable} makes an address of the node name, and that of ${reader.host.name} is known to the host only; give it ${own('node_name')} or ${own('node_address')}.`,
    );
  }
  const named = reader.get('ansible_host') !== undefined;
  return {
    text: connection.host,
    from: named
      ? { variable: 'ansible_host', accepted: `an address that other nodes can join, or ${own('node_address')}` }
      : null,
  };
}

function readEndpoint(reader: VariableReader): string | null {
  const text = reader.layout === 'groups' ? reader.string('api_endpoint')?.replace(/^\[(.*)\]$/, '$1') : undefined;
  if (text === undefined) return null;
  if (parseJoinUrl(joinUrlOf(text, DEFAULT_API_PORT)) !== null) return text;
  reader.problem(
    'bad-value',
    'api_endpoint',
    `api_endpoint of ${reader.host.name} is ${show(text)}; give a name or an IP address, without scheme and port.`,
  );
  return null;
}

function readDirectory(reader: VariableReader): string {
  const variable = own('dir');
  const given = reader.string(variable);
  if (given === undefined) return DEFAULT_DIRECTORY;
  const text = given.replace(/(?<=[^/])\/+$/, '');
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

function readComposeName(reader: VariableReader, short: HostVariable, fallback: string, form: RegExp): string {
  const variable = own(short);
  const text = reader.string(variable);
  if (text === undefined) return fallback;
  if (form.test(text)) return text;
  reader.problem(
    'bad-value',
    variable,
    `${variable} of ${reader.host.name} is ${show(text)}; Compose and Docker do not take such a name.`,
  );
  return fallback;
}

function readDockerContext(reader: VariableReader): string | null {
  const variable = own('docker_context');
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

/**
 * What gives a host its values, worked out when somebody asks: only a host that changed is asked, and a map for each
 * host would be a good part of a big fleet's memory.
 */
class HostSources {
  readonly #reader: VariableReader;
  readonly #group: Member['group'];
  readonly #place: Place;

  constructor(reader: VariableReader, group: Member['group'], place: Place) {
    this.#reader = reader;
    this.#group = group;
    this.#place = place;
  }

  get(name: string): Source | undefined {
    const group = this.#group;
    if (name === ROLE_GROUP) {
      return group === null ? undefined : { ...this.#place, value: group.name, source: `a group of ${group.role}s` };
    }
    const variable = isNeeded(name, this.#reader.layout) ? this.#reader.get(name) : undefined;
    if (variable === undefined) return undefined;
    const { file, line, value, source } = variable;
    return { file, line, value: typeof value === 'string' ? value : JSON.stringify(value), source };
  }

  has(name: string): boolean {
    return this.get(name) !== undefined;
  }
}

/** A lower-case DNS name (RFC 1123 subdomain): what Kubernetes takes as the name of a Node. */
export function isDnsName(text: string): boolean {
  const isLabel = (part: string): boolean => part.length <= 63 && /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/.test(part);
  return text.includes('.') ? text.length <= 253 && text.split('.').every(isLabel) : isLabel(text);
}
