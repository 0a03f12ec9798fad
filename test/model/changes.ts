import { declareFleet } from '../../src/fleet/declare.js';
import type { Fleet, Host } from '../../src/fleet/fleet.js';
import type { Desired, Intent } from '../../src/plan/desired.js';
import { prepare } from '../../src/plan/prepare.js';
import { type InventorySketch, sketchInventory } from '../helpers/inventory.js';
import { hostNamed } from './act.js';
import type { Scenario } from './explore.js';
import { GUARDS, REPOSITORY, SHA } from './observe.js';
import {
  type Commit,
  type Ground,
  type HostState,
  type Member,
  NO_BOX,
  type NodeState,
  PLAIN,
  type RecordState,
  type State,
} from './state.js';

/** How a fleet is made, beside what its inventory says. */
export interface Making {
  /** The guards are in force everywhere at the start. */
  readonly mounted: boolean;
  readonly k3s: Ground['k3s'];
  readonly passwordShared: boolean;
  readonly tokenless?: readonly string[];
  readonly runner?: string;
  readonly rollout?: Intent['rollout'];
}

export const USUAL: Making = { mounted: true, k3s: 'fixed', passwordShared: true };
/** Nothing is mounted yet. */
export const UNGUARDED: Making = { mounted: false, k3s: 'fixed', passwordShared: true };
/** A fleet from before fleet-role: old k3s, two passwords a host, nothing mounted. */
export const OLD: Making = { mounted: false, k3s: 'older', passwordShared: false };

/** What each host is at the base and at the head: a server, an agent, or not there. In inventory order. */
export type Move = 'SS' | 'AA' | 'SA' | 'AS' | 'S-' | 'A-' | '-S' | '-A';

/** One declared change, as the moves of its hosts. */
export type Change = readonly Move[];

const MOVES: readonly Move[] = ['SS', 'AA', 'SA', 'AS', 'S-', 'A-', '-S', '-A'];

const changes = (move: Move): boolean => move !== 'SS' && move !== 'AA';
const servers = (change: Change, at: 0 | 1): number => change.filter((move) => move[at] === 'S').length;
const RANK: Readonly<Record<string, number>> = { S: 0, A: 1, '-': 2 };

/**
 * Every change of one or two of `hosts` hosts that both commits declare validly (an odd number of servers). Hosts stand
 * in the order server, agent, added, so that the first server bootstraps the cluster; of servers that stay, and of those
 * that go, only who comes first matters, so that one order stands for all that are alike.
 */
export function changesOf(hosts: number): readonly Change[] {
  const found: Change[] = [];
  const extend = (change: Change): void => {
    if (change.filter(changes).length > 2) return;
    if (change.length === hosts) {
      const odd = servers(change, 0) % 2 === 1 && servers(change, 1) % 2 === 1;
      if (odd && change.some(changes)) found.push(change);
      return;
    }
    for (const move of MOVES) {
      const last = change.at(-1);
      const rank = RANK[move[0] as string] ?? 0;
      const lastRank = last === undefined ? 0 : (RANK[last[0] as string] ?? 0);
      if (rank < lastRank) continue;
      // Agents and added hosts are alike: one order of their moves is enough. So are servers behind the first.
      const ordered = rank > 0 || change.length > 1;
      if (last !== undefined && ordered && rank === lastRank && MOVES.indexOf(move) < MOVES.indexOf(last)) continue;
      extend([...change, move]);
    }
  };
  extend([]);
  return found;
}

export function nameOf(change: Change): string {
  return change.join(' ');
}

function sketch(change: Change, at: 0 | 1, controller = true): InventorySketch {
  const hosts: Record<string, { node_role: string }> = {};
  change.forEach((move, index) => {
    const role = move[at];
    if (role === 'S' || role === 'A') hosts[`n${index + 1}`] = { node_role: role === 'S' ? 'server' : 'agent' };
  });
  return { groupVars: { controller }, hosts };
}

/** Whether the controller is on in each commit. */
export interface Controller {
  readonly base: boolean;
  readonly head: boolean;
}

const ON: Controller = { base: true, head: true };

function fleetOf(commit: string, inventorySketch: InventorySketch): Fleet {
  const inventory = sketchInventory(inventorySketch);
  return declareFleet(commit, inventory, [...inventory.groups.keys()]);
}

/** The scenario of a change: a healthy fleet as the base declares it, and the head to be applied. */
export function scenarioOf(change: Change, making: Making = USUAL, controller: Controller = ON): Scenario {
  const sketches: { readonly [C in Commit]: InventorySketch } = {
    base: sketch(change, 0, controller.base),
    head: sketch(change, 1, controller.head),
    back: sketch(change, 0, controller.base),
  };
  const known = new Map<string, Desired>();
  const desired = (target: Commit, recorded: Commit, headBegun: boolean): Desired => {
    const key = `${target} after ${recorded} ${headBegun}`;
    const found = known.get(key);
    if (found !== undefined) return found;
    const base = { commit: SHA[recorded], fleet: fleetOf(SHA[recorded], sketches[recorded]), unreadable: null };
    const [input] = prepare(fleetOf(SHA[target], sketches[target]), base);
    if (input === undefined || !input.desired.cluster.valid) throw new Error(`${nameOf(change)} is no valid change`);
    const wanted = headBegun && target !== 'head' ? withBegun(input.desired, sketches.head) : input.desired;
    known.set(key, wanted);
    return wanted;
  };
  const base = fleetOf(SHA.base, sketches.base).clusters[0]?.hosts ?? [];
  const head = fleetOf(SHA.head, sketches.head).clusters[0]?.hosts ?? [];
  const names = change.map((_, index) => `n${index + 1}`);
  const stay = names.filter((_, index) => change[index] === 'AA');
  const ground: Ground = {
    hosts: names,
    k3s: making.k3s,
    passwordShared: making.passwordShared,
    profile: new Map(
      names.map((name, index) => [name, (change[index] as Move).replace('-', '')[0] === 'S' ? 'k3s' : 'k3s-agent']),
    ),
    tokenless: making.tokenless ?? [],
    runner: making.runner ?? null,
    alike: stay.length > 1 ? [stay] : [],
  };
  const group = 'github_runner_cluster';
  return {
    name: nameOf(change),
    ground,
    start: startOf(names, base, head, making, controller.base),
    group,
    desired,
    intent: (target, state) => ({
      mode: 'apply',
      host: null,
      rollout: making.rollout ?? 'changed',
      installGuards: 'auto',
      drain: 'wait',
      guardsVersion: GUARDS,
      forceUnreachable: false,
      allowRollback: false,
      runsOn: making.runner ?? null,
      head: SHA[target],
      repository: REPOSITORY,
      relation: relationOf(target, state.record),
    }),
  };
}

/** Hosts that a commit which was begun and never completed brought count as leaving. */
function withBegun(desired: Desired, begun: InventorySketch): Desired {
  const known = new Set(desired.hosts.map(({ host }) => host.name));
  const more = (fleetOf(SHA.head, begun).clusters[0]?.hosts ?? []).filter(({ name }) => !known.has(name));
  const entries = more.map((host) => ({ host, leaving: true, before: host, movedAcross: null }));
  return { ...desired, hosts: [...desired.hosts, ...entries] };
}

const ORDER: readonly Commit[] = ['base', 'head', 'back'];

function relationOf(target: Commit, record: RecordState | null): Intent['relation'] {
  if (record === null) return 'none';
  if (record.started === target) return 'same';
  return ORDER.indexOf(record.started) < ORDER.indexOf(target) ? 'forward' : 'behind';
}

function startOf(
  names: readonly string[],
  base: readonly Host[],
  head: readonly Host[],
  making: Making,
  on: boolean,
): State {
  const hosts = new Map<string, HostState>();
  const nodes = new Map<string, NodeState>();
  const members: Member[] = [];
  for (const name of names) {
    const declared = base.find((host) => host.name === name);
    const later = head.find((host) => host.name === name);
    const host = declared === undefined ? added(later) : settled(declared, making);
    hosts.set(name, on ? host : { ...host, ...UNTOUCHED });
    if (declared === undefined) continue;
    if (declared.role === 'server') members.push({ host: name, name: memberName(name), voter: true, started: true });
    const secret = making.passwordShared ? 'shared' : `${declared.role === 'server' ? 'k3s' : 'k3s-agent'}1`;
    const server = { etcdLabel: true, memberName: memberName(name), traces: true };
    nodes.set(name, { ...PLAIN, ...(declared.role === 'server' ? server : {}), secret });
  }
  const record = on ? ({ commit: 'base', started: 'base', headBegun: false } as const) : null;
  return { hosts, clusters: [members], nodes, record };
}

/** What a host lacks while the controller was never on. */
const UNTOUCHED = {
  dir: false,
  guards: false,
  placed: false,
  listed: false,
  role: null,
  joinUrl: null,
  cluster: null,
} as const;

const memberName = (name: string): string => `${name}-00000000`;

function settled(host: Host, making: Making): HostState {
  const server = host.role === 'server';
  const box = { is: 'running', policy: 'unless-stopped', mounted: making.mounted, byHand: false, id: 1 } as const;
  return {
    at: 'up',
    db: server ? { kind: 'etcd', cluster: 0, member: memberName(host.name) } : null,
    tombstone: false,
    aside: 0,
    dir: true,
    guards: true,
    placed: true,
    listed: making.mounted,
    role: host.roleFile,
    joinUrl: hostNamed(host.joinUrlFile ?? ''),
    cluster: server ? 0 : null,
    kept: null,
    env: environment(host),
    sans: host.tlsSans.join(' '),
    k3s: server ? box : NO_BOX,
    agent: server ? NO_BOX : box,
  };
}

function environment(host: Host): HostState['env'] {
  const url = host.joinUrl === null ? null : hostNamed(host.joinUrl);
  return { k3s: url, 'k3s-agent': url };
}

/** A host that its provisioning has made ready, and on which nothing has been started. */
function added(host: Host | undefined): HostState {
  if (host === undefined) throw new Error('a host of neither commit');
  return {
    ...settled(host, USUAL),
    ...UNTOUCHED,
    db: null,
    k3s: NO_BOX,
    agent: NO_BOX,
  };
}
