/**
 * What the model knows of a fleet at one moment. Every value is immutable: a step or a fault makes a new state and
 * shares what it did not change. Host name, node name and address are one word here.
 */

export type Policy = 'unless-stopped' | 'no';

/** A container of one of the two services. */
export interface Box {
  /**
   * `idle`: a guard keeps it waiting. `refusing`: a guard exits 1. `crashing`: k3s itself exits, again and again.
   * `created`: made, never started, so that no restart of the engine starts it.
   */
  readonly is: 'absent' | 'created' | 'running' | 'idle' | 'refusing' | 'crashing' | 'stopped';
  readonly policy: Policy;
  /** The role directory is mounted: the guards hold here. */
  readonly mounted: boolean;
  /** `docker stop` was the last word: no restart of the engine starts it (fact 8.16). */
  readonly byHand: boolean;
  /** Which container it is; another one after each recreate. */
  readonly id: number;
}

export interface Db {
  readonly kind: 'etcd' | 'sqlite';
  /** Index of the cluster. */
  readonly cluster: number;
  /** The member that it was written by. */
  readonly member: string;
}

export interface HostState {
  /** `cut`: neither fleet-role nor the other nodes reach it; what runs there runs on. `dead`: gone for good. */
  readonly at: 'up' | 'cut' | 'dead';
  readonly db: Db | null;
  readonly tombstone: boolean;
  /** How many datastores are set aside; three count as many. */
  readonly aside: number;
  readonly dir: boolean;
  readonly guards: boolean;
  readonly placed: boolean;
  readonly listed: boolean;
  readonly role: string | null;
  /** The host that it names; "" is an empty file. */
  readonly joinUrl: string | null;
  readonly cluster: number | null;
  /** `restart-policy` in the role directory. */
  readonly kept: Policy | null;
  /** The join URL in `.env`, by the host that it names. */
  readonly env: { readonly k3s: string | null; readonly 'k3s-agent': string | null };
  readonly sans: string | null;
  readonly k3s: Box;
  readonly agent: Box;
}

export interface Member {
  readonly host: string;
  /** `NODENAME-8HEX`; it is known here before it started, and shown as "" until then. */
  readonly name: string;
  readonly voter: boolean;
  readonly started: boolean;
}

export interface NodeState {
  readonly etcdLabel: boolean;
  /** Annotations node-name and node-address, which come and go together. */
  readonly memberName: string | null;
  readonly removedName: string | null;
  readonly removeAsked: boolean;
  /** The other labels and annotations of a server. */
  readonly traces: boolean;
  readonly cordon: 'no' | 'ours' | 'other';
  /** The password that its secret holds; null: no secret. */
  readonly secret: string | null;
}

export interface RecordState {
  readonly commit: Commit;
  readonly started: Commit;
  /** The head was begun and not completed: the hosts that it brought may be there. */
  readonly headBegun: boolean;
}

/** The base, the head, and the commit that takes the head back. */
export type Commit = 'base' | 'head' | 'back';

export interface State {
  /** In the order of `Ground.hosts`. */
  readonly hosts: ReadonlyMap<string, HostState>;
  /** The members of each cluster that ever was; the first is the fleet's. */
  readonly clusters: readonly (readonly Member[])[];
  /** The Nodes of the first cluster. */
  readonly nodes: ReadonlyMap<string, NodeState>;
  readonly record: RecordState | null;
}

/** What does not change on a path: how k3s and the hosts are made. */
export interface Ground {
  readonly hosts: readonly string[];
  /**
   * `fixed`: the releases of fact 1.5 and 1.18. `older`: `remove` stays after success (1.6), and a tombstone without a
   * server to join makes a new cluster (1.19).
   */
  readonly k3s: 'fixed' | 'older';
  /** One node password for both services of a host (fact 4.7). */
  readonly passwordShared: boolean;
  /** The service that a plain `docker compose up -d` starts on a host, by COMPOSE_PROFILES. */
  readonly profile: ReadonlyMap<string, 'k3s' | 'k3s-agent'>;
  /** Hosts whose k3s has no token. */
  readonly tokenless: readonly string[];
  /** The node that the run's own runner sits on. */
  readonly runner: string | null;
  /** Hosts with equal declarations before and after, whose states may change places. */
  readonly alike: readonly (readonly string[])[];
}

export const NO_BOX: Box = { is: 'absent', policy: 'unless-stopped', mounted: false, byHand: false, id: 0 };

export const PLAIN: NodeState = {
  etcdLabel: false,
  memberName: null,
  removedName: null,
  removeAsked: false,
  traces: false,
  cordon: 'no',
  secret: null,
};

export function hostOf(state: State, name: string): HostState {
  const host = state.hosts.get(name);
  if (host === undefined) throw new Error(`the model has no host ${name}`);
  return host;
}

export function withHost(state: State, name: string, change: Partial<HostState>): State {
  const hosts = new Map(state.hosts);
  hosts.set(name, { ...hostOf(state, name), ...change });
  return { ...state, hosts };
}

export type Service = 'k3s' | 'k3s-agent';

export function boxOf(host: HostState, service: Service): Box {
  return service === 'k3s' ? host.k3s : host.agent;
}

export function withBox(state: State, name: string, service: Service, change: Partial<Box>): State {
  const host = hostOf(state, name);
  const box = { ...boxOf(host, service), ...change };
  return withHost(state, name, service === 'k3s' ? { k3s: box } : { agent: box });
}

export function withNode(state: State, name: string, change: Partial<NodeState> | null): State {
  const nodes = new Map(state.nodes);
  if (change === null) nodes.delete(name);
  else nodes.set(name, { ...(nodes.get(name) ?? PLAIN), ...change });
  return { ...state, nodes };
}

export function withMembers(state: State, cluster: number, members: readonly Member[]): State {
  return { ...state, clusters: state.clusters.map((old, index) => (index === cluster ? members : old)) };
}

const hostKeys = new WeakMap<HostState, string>();

function boxKey({ is, policy, mounted, byHand, id }: Box): string {
  return `${is}${policy === 'no' ? '!' : ''}${mounted ? '*' : ''}${byHand ? '-' : ''}${id}`;
}

/** A host in one word, without its name. */
export function hostKey(host: HostState): string {
  const known = hostKeys.get(host);
  if (known !== undefined) return known;
  const { db } = host;
  const key = [
    host.at,
    db === null ? '' : `${db.kind}${db.cluster}${db.member}`,
    host.tombstone ? 't' : '',
    host.aside,
    `${host.dir ? 'd' : ''}${host.guards ? 'g' : ''}${host.placed ? 'p' : ''}${host.listed ? 'l' : ''}`,
    host.role ?? '~',
    host.joinUrl ?? '~',
    host.cluster ?? '~',
    host.kept ?? '',
    host.env.k3s ?? '',
    host.env['k3s-agent'] ?? '',
    host.sans ?? '',
    boxKey(host.k3s),
    boxKey(host.agent),
  ].join(';');
  hostKeys.set(host, key);
  return key;
}

const nodeKeys = new WeakMap<NodeState, string>();

function nodeKey(node: NodeState): string {
  const known = nodeKeys.get(node);
  if (known !== undefined) return known;
  const key = [
    node.etcdLabel ? 'e' : '',
    node.memberName ?? '',
    node.removedName ?? '',
    node.removeAsked ? 'r' : '',
    node.traces ? 't' : '',
    node.cordon,
    node.secret ?? '',
  ].join(';');
  nodeKeys.set(node, key);
  return key;
}

/**
 * The state as one text, equal exactly for states that are equal up to the places of hosts that are alike. A host that
 * may change places is written under its rank; its own name in what it holds is written as `@`.
 */
export function stateKey(ground: Ground, state: State): string {
  const movable = new Set(ground.alike.flat());
  const alone = (name: string): string => {
    const node = state.nodes.get(name);
    const own = state.clusters.map((members) => {
      const mine = members.find((member) => member.host === name);
      return mine === undefined ? '' : `${mine.name}${mine.voter ? 'v' : ''}${mine.started ? 's' : ''}`;
    });
    const key = `${hostKey(hostOf(state, name))}|${node === undefined ? '' : nodeKey(node)}|${own.join(',')}`;
    return movable.has(name) ? key.replaceAll(name, '@') : key;
  };
  const fixed = ground.hosts.filter((name) => !movable.has(name)).map(alone);
  const groups = ground.alike.map((group) => group.map(alone).sort().join('&'));
  const { record } = state;
  return [...fixed, ...groups, record === null ? '' : `${record.commit},${record.started},${record.headBegun}`].join(
    '#',
  );
}

/** The first member name of a host that nothing in the state bears: names of the past that left no trace are free. */
export function freshMemberName(state: State, host: string): string {
  const taken = new Set<string>();
  const { db } = hostOf(state, host);
  if (db !== null) taken.add(db.member);
  for (const members of state.clusters) for (const member of members) taken.add(member.name);
  const node = state.nodes.get(host);
  if (node?.memberName != null) taken.add(node.memberName);
  if (node?.removedName != null) taken.add(node.removedName);
  for (let number = 0; ; number += 1) {
    const name = `${host}-0000000${number}`;
    if (!taken.has(name)) return name;
  }
}

/** The password that a service of this host shows. */
export function passwordOf(ground: Ground, host: HostState, service: Service): string {
  return ground.passwordShared ? 'shared' : `${service}${boxOf(host, service).id}`;
}

/** A container id that neither the container has that it replaces, nor the Node's secret remembers. */
export function freshBoxId(state: State, name: string, service: Service): number {
  const old = boxOf(hostOf(state, name), service).id;
  const secret = state.nodes.get(name)?.secret;
  for (let id = 1; ; id += 1) if (id !== old && secret !== `${service}${id}`) return id;
}
