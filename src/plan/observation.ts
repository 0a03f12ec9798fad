import type { Service } from '../fleet/fleet.js';
import type { DoneStep } from './step.js';

/** Something that could not be found out, and why. It never counts as healthy, absent or equal. */
export interface Unknown {
  readonly kind: 'unknown';
  readonly why: string;
}

export type Known<T> = { readonly kind: 'known'; readonly value: T } | Unknown;

export function known<T>(value: T): Known<T> {
  return { kind: 'known', value };
}

export function unknown(why: string): Unknown {
  return { kind: 'unknown', why };
}

/** The value, or `fallback` when it is unknown. */
export function valueOr<T, F>(fact: Known<T>, fallback: F): T | F {
  return fact.kind === 'known' ? fact.value : fallback;
}

/** Why a host could not be worked on. */
export type FailureClass = 'name' | 'connect' | 'host-key' | 'authentication' | 'sudo' | 'command' | 'time-out';

export interface Unreachable {
  readonly kind: 'unreachable';
  readonly class: FailureClass;
  /** A sentence for people: what happened, and the way out. */
  readonly message: string;
}

/** One small file of the role directory. `text` is trimmed; an empty file is `text` with "". */
export type FileState =
  | { readonly kind: 'absent' }
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'unreadable' };

export type ServiceState =
  /** k3s runs in it. */
  | 'running'
  /** The container (unit) is up, but only waits: the guards keep k3s from starting. */
  | 'idle'
  /** The entrypoint exits 1 and is restarted: a guard refuses. */
  | 'refusing'
  | 'stopped'
  | 'restarting'
  | 'absent'
  | 'unknown';

export interface ServiceObservation {
  readonly state: ServiceState;
  readonly containerId: string | null;
  readonly restartCount: number;
  /** Docker's restart policy name, or systemd's enabled state; null when absent. */
  readonly restartPolicy: string | null;
  /** The role directory is mounted at /etc/github-runner (native: the drop-in is loaded). */
  readonly mounted: boolean;
  /** The `config_files` label: the Compose files the container was created with; null when it has none. */
  readonly configFiles: readonly string[] | null;
  /** The join URL in the container's own environment (K3S_JOIN_SERVER_URL or K3S_URL); null when empty or absent. */
  readonly joinUrlEnvironment: string | null;
  readonly entrypoint: Entrypoint;
  /**
   * The version of the guards that the container as it is would meet at its next start: the role directory is mounted,
   * and this is what its entrypoint says (an honouring one that names no version runs the role directory's). Null when
   * it would meet none, or when it cannot be told.
   */
  readonly guardsInside: string | null;
}

/**
 * Whose entrypoint a service has: fleet-role's own of any version, one that honours the role directory (it contains the
 * line `# fleet-role-guards`), or another one. Unknown also where there is no container yet.
 */
export type Entrypoint = 'ours' | 'honours' | 'foreign' | 'unknown';

/** What k3s would start from: etcd's log, else a SQLite file. The directories around them prove nothing (fact 1.24). */
export type DatastoreObservation = 'none' | 'sqlite' | 'etcd';

export interface OverrideObservation {
  /**
   * `ours-entrypoint`: the form that replaces the entrypoint as well. `differs`: a file of that name whose content is not
   * ours of this version.
   */
  readonly placed: 'absent' | 'ours' | 'ours-entrypoint' | 'differs';
  /** `COMPOSE_FILE` in `.env` names it. */
  readonly listed: boolean;
}

export interface ReachedHost {
  readonly kind: 'reached';
  /** False: no project directory with a Compose file (native: neither unit). */
  readonly provisioned: boolean;
  /** The project directory as an absolute path. */
  readonly directory: string;
  /** The node name that k3s takes there, as the host itself says it; absent when it does not say. */
  readonly nodeName?: string | null;
  readonly roleDirectory: 'present' | 'absent';
  readonly role: FileState;
  readonly joinUrl: FileState;
  readonly cluster: FileState;
  /** The version of the guard scripts in the role directory; null when they are not there. */
  readonly guardsInstalled: string | null;
  readonly override: OverrideObservation;
  /** The join URL in `.env` (native: the environment file) by variable; null when empty or absent. */
  readonly environment: { readonly [S in Service]: string | null };
  /** Unknown when docker (systemctl) could not be asked. */
  readonly services: Known<{ readonly [S in Service]: ServiceObservation }>;
  /** What `k3s` would start from. `none` only where everything that could hold one was looked into. */
  readonly datastore: Known<DatastoreObservation>;
  /** `server/db/etcd/tombstone` is there: the member was removed. */
  readonly tombstone: Known<boolean>;
  /** A datastore is set aside: `server/db.demoted`, or an older, numbered one. */
  readonly setAside: Known<boolean>;
  /**
   * `k3s` has a token: in the environment, in a token file, or in k3s's own configuration. Never the token itself. True
   * too where only `.env`, or (k3s having no container yet) the agent's container has one.
   */
  readonly token: Known<boolean>;
  /** `restart-policy` in the role directory: the policy that was found before ours set it to `no`. */
  readonly keptPolicy: FileState;
  /** `server/db` and the place of `server/db.demoted` are on one file system (rule 13). */
  readonly oneFileSystem: Known<boolean>;
  /** /etc/rancher/node is a mount in both services: the node password is the same in both roles (fact 4.7). */
  readonly passwordShared: Known<boolean>;
  /** `K3S_TLS_SAN_LIST` in `.env` (native: the environment file), trimmed; null when empty or absent. */
  readonly tlsSans: string | null;
  /** Why the services of this host cannot be steered, with the way out (native: a `server` in config.yaml); else null. */
  readonly unsteerable: string | null;
}

export type HostObservation = ReachedHost | Unreachable;

/** One etcd member as `/db/info` lists it (fact 6.2). Its id is left out: JavaScript would round it (fact 6.3). */
export interface Member {
  /** `NODENAME-8HEX` (fact 1.1); "" while it has not started. */
  readonly name: string;
  /** The node name in `name`; null where `name` has not k3s's form. */
  readonly nodeName: string | null;
  /** Hosts (no scheme, no port) of its peer URLs. */
  readonly addresses: readonly string[];
  readonly learner: boolean;
}

/** What the API of one server answered. */
export interface ServerObservation {
  /** UID of namespace kube-system (fact 6.1). */
  readonly identity: Known<string>;
  readonly members: Known<readonly Member[]>;
  /** Its /readyz, etcd checks included, said ok. */
  readonly ready: Known<boolean>;
}

/** A Kubernetes Node. */
export interface NodeObservation {
  readonly ready: boolean;
  /** Cordoned, by whomever. */
  readonly unschedulable: boolean;
  /** The run whose cordon it is, by our annotation; null when it is not ours. */
  readonly cordonedBy: string | null;
  /** The label key node-role.kubernetes.io/etcd is there. */
  readonly etcdLabel: boolean;
  /** Condition EtcdIsVoter; null where this k3s writes none. */
  readonly isVoter: boolean | null;
  /** Annotation etcd.k3s.cattle.io/node-name: its member's name. */
  readonly memberName: string | null;
  /** Annotation etcd.k3s.cattle.io/node-address. */
  readonly memberAddress: string | null;
  /** Annotation etcd.k3s.cattle.io/removed-node-name. A stale one swallows the next removal (fact 1.7). */
  readonly removedName: string | null;
  /** Annotation etcd.k3s.cattle.io/remove is "true". */
  readonly removeAsked: boolean;
  /** Any server label, etcd annotation or encryption hash that `clean-node` would take away (fact 3.6). */
  readonly serverTraces: boolean;
  readonly internalAddress: string | null;
  /** kubeletVersion, such as v1.33.4+k3s1. */
  readonly version: string | null;
}

/** A Node that is ready and has nothing of a server. */
export const PLAIN_NODE: NodeObservation = {
  ready: true,
  unschedulable: false,
  cordonedBy: null,
  etcdLabel: false,
  isVoter: null,
  memberName: null,
  memberAddress: null,
  removedName: null,
  removeAsked: false,
  serverTraces: false,
  internalAddress: null,
  version: null,
};

/** The ConfigMap kube-system/fleet-role: what was applied to this cluster. */
export interface RecordObservation {
  /** The last complete commit; null: none yet, which counts as no record except for rule 12. */
  readonly commit: string | null;
  /** The commit that was last begun. */
  readonly started: string | null;
  /** The other commits that were begun since the last complete one: what they brought may still be there. */
  readonly begun: readonly string[];
  readonly repository: string;
  readonly group: string;
  readonly identity: string;
  readonly run: string;
}

/** What hosts and cluster report at one moment, or what an unobserved plan assumes. */
export interface Observation {
  /** Milliseconds since 1970, read once. */
  readonly at: number;
  /** False: assumed from the base commit, nothing was contacted. */
  readonly observed: boolean;
  /** By inventory name: hosts of the head and leaving hosts of the base. A host that is missing was not looked at. */
  readonly hosts: ReadonlyMap<string, HostObservation>;
  /** By inventory name: what the API of every host whose k3s server runs said. */
  readonly servers: ReadonlyMap<string, ServerObservation>;
  /** The cluster's Nodes by node name, as one server told them; null when nothing asked for them. */
  readonly nodes: Known<ReadonlyMap<string, NodeObservation>> | null;
  /** Null when nothing asked for it; known(null): there is none. */
  readonly record: Known<RecordObservation | null> | null;
  readonly run: RunMemory;
}

/** What this run has done so far: rules about "first in this run" need no memory inside. */
export interface RunMemory {
  readonly done: readonly DoneStep[];
}
