import type { Layout } from './layout.js';
import type { Place, Problem, Warning } from './problem.js';

export type Role = 'server' | 'agent';
export type Service = 'k3s' | 'k3s-agent';
export type Runtime = 'compose' | 'native';
export type Datastore = 'etcd' | 'sqlite';

/** What one commit of the fleet repository declares. */
export interface Fleet {
  readonly commit: string;
  /** The inventory's path from the repository root; null when there is none. */
  readonly inventory: string | null;
  readonly layout: Layout;
  readonly clusters: readonly Cluster[];
}

export interface Cluster {
  /** The inventory group's name. */
  readonly name: string;
  /** False when the inventory or the group could not be read: then nothing but `problems` is filled. */
  readonly readable: boolean;
  /** True when there is no problem. An invalid cluster is never applied. */
  readonly valid: boolean;
  /** The values that hold for the whole cluster; null when it is not readable. */
  readonly settings: ClusterSettings | null;
  readonly controller: boolean | null;
  readonly datastore: Datastore | null;
  /** Inventory name of the bootstrap host; null when no host of the inventory bootstraps the cluster. */
  readonly bootstrap: string | null;
  /** Inventory names in inventory order. */
  readonly servers: readonly string[];
  readonly problems: readonly Problem[];
  readonly warnings: readonly Warning[];
  readonly hosts: readonly Host[];
}

export interface ClusterSettings {
  readonly controller: boolean;
  readonly maxServers: number;
  readonly apiPort: number;
  readonly datastore: Datastore;
}

export interface Host {
  readonly name: string;
  /**
   * Its Kubernetes node name. Null while only the host knows it (layout of groups, no `node_name`, not yet asked): an
   * unknown name is never equal to another, not even to another unknown one.
   */
  readonly nodeName: string | null;
  readonly address: string;
  readonly role: Role;
  /** It is the host that bootstraps the cluster. */
  readonly bootstrap: boolean;
  /** The forced role of its own variables, or, in the layout of groups, that of its group. */
  readonly nodeRole: Role | null;
  /** `bootstrap: true`, `false`, or not set. */
  readonly declaredBootstrap: boolean | null;
  /** By the topology rule; null for the bootstrap host, and where there is nothing to join. */
  readonly joinUrl: string | null;
  /** The host's own `server_url`. */
  readonly serverUrl: string | null;
  readonly tlsSans: readonly string[];
  /** The host has the override: the controller is on, or the host is eligible or pinned. */
  readonly publishesLabels: boolean;
  readonly eligible: boolean | null;
  readonly pinned: boolean;
  readonly runtime: Runtime;
  readonly connection: HostConnection;
  /** The Compose project directory; a leading `~` is the home of the connecting user, before become. */
  readonly directory: string;
  readonly composeProject: string;
  /** Further Compose files, relative to the directory or absolute. */
  readonly composeFiles: readonly string[];
  readonly containers: { readonly [S in Service]: string };
  readonly dockerContext: string | null;
  /** Native: k3s's data directory. */
  readonly dataDir: string;
  /** What the role file should hold; null while the controller is off. */
  readonly roleFile: Role | null;
  /** What the join-url file should hold; null while the controller is off, and where there is nothing to join. */
  readonly joinUrlFile: string | null;
  /** Where the host is first listed in its cluster's group. */
  readonly place: Place;
  /** Where each deciding variable of this host got its value (by full variable name). */
  readonly sources: Pick<ReadonlyMap<string, Source>, 'get' | 'has'>;
  /** ssh options of the inventory that fleet-role sets itself and therefore ignored. */
  readonly ignoredSshOptions: readonly string[];
}

export interface Source extends Place {
  /** The value in words, for causes: `server`, `true` … */
  readonly value: string;
  /** `host`, `group NAME`, or the vars file: where the value came from, for people. */
  readonly source: string;
}

export interface HostConnection {
  readonly type: 'ssh' | 'local';
  /** The name or address to connect to. */
  readonly host: string;
  readonly port: number;
  /** Null: the ssh client's own default. */
  readonly user: string | null;
  readonly become: boolean;
  /** A private key file of the runner named by the inventory; never used on a pull request. */
  readonly keyFile: string | null;
  /** Options of the inventory's ssh arguments that fleet-role writes to its own ssh config, as `Keyword value`. */
  readonly options: readonly SshOption[];
}

export interface SshOption {
  readonly keyword:
    | 'ProxyJump'
    | 'ConnectTimeout'
    | 'ServerAliveInterval'
    | 'ServerAliveCountMax'
    | 'Compression'
    | 'AddressFamily'
    | 'IPQoS';
  readonly value: string;
}

/** The variable that gives a service its join URL where there is no join-url file (the entrypoint reads them). */
export const JOIN_VARIABLES: { readonly [S in Service]: string } = {
  k3s: 'K3S_JOIN_SERVER_URL',
  'k3s-agent': 'K3S_URL',
};

/** The service that runs on a host of this role. */
export function serviceOf(role: Role): Service {
  return role === 'server' ? 'k3s' : 'k3s-agent';
}
