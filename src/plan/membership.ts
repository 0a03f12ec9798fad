import type { Host } from '../fleet/fleet.js';
import type { DesiredHost, World } from './desired.js';
import { type Member, type ReachedHost, type ServerObservation, valueOr } from './observation.js';
import { quorumOf } from './quorum.js';

type Seen = Pick<World, 'desired' | 'observed'>;

/** Who is a member of the cluster, as far as it can be believed. */
export type Membership =
  | {
      readonly kind: 'believed';
      readonly identity: string;
      readonly members: readonly Member[];
      /** The hosts whose API answers: declared servers in inventory order, then the others. */
      readonly through: readonly Host[];
    }
  /** A cluster on SQLite has an identity, but no members. */
  | { readonly kind: 'sqlite'; readonly identity: string; readonly through: readonly Host[] }
  /** Two identities, or two member lists (rule 1). */
  | { readonly kind: 'split'; readonly message: string; readonly hosts: readonly string[] }
  /** An API answers, and what it says of members cannot be believed. */
  | { readonly kind: 'doubtful'; readonly why: string; readonly identity: string; readonly through: readonly Host[] }
  /** No API answers. */
  | { readonly kind: 'silent'; readonly why: string };

/** How one host stands in the member list; `unknown` where the list is not believed or its node name is not known. */
export type Standing = 'voter' | 'learner' | 'unstarted' | 'none' | 'unknown';

/** The node name of a host; an unobserved plan takes the inventory name where only the host itself knows it. */
export function nodeNameOf(host: Host, observed: boolean): string | null {
  return host.nodeName ?? (observed ? null : host.name);
}

/**
 * Reads identity and member list on every server that answers (section 4, observation). A list is believed only when
 * it names every host whose own k3s serves the same identity; two identities, an identity other than the one written
 * on a declared server, or two lists under one identity (a restored cluster keeps its UID) are a split.
 */
export function membershipOf(world: Seen): Membership {
  const { desired, observed } = world;
  const answers = answering(world);
  const [first] = answers;
  if (first === undefined) return { kind: 'silent', why: whySilent(world) };
  const through = answers.map((answer) => answer.entry.host);
  const split = splitBetween(world, answers);
  if (split !== null) return split;
  const { identity } = first;
  if (desired.cluster.datastore === 'sqlite') return { kind: 'sqlite', identity, through };
  const told = answers.find((answer) => answer.server.members.kind === 'known');
  if (told === undefined || told.server.members.kind === 'unknown') {
    const { members } = first.server;
    const why = members.kind === 'unknown' ? members.why : 'no server told its member list';
    return { kind: 'doubtful', why: `${first.entry.host.name}: ${why}`, identity, through };
  }
  const members = told.server.members.value;
  const named = new Set(members.map((member) => member.nodeName));
  const missing = answers.find(({ entry }) => !named.has(nodeNameOf(entry.host, observed.observed)));
  if (missing !== undefined) {
    const why = `${missing.entry.host.name} serves the cluster, and the member list of ${told.entry.host.name} does not name it`;
    return { kind: 'doubtful', why, identity, through };
  }
  return { kind: 'believed', identity, members, through };
}

interface Answering {
  readonly entry: DesiredHost;
  readonly server: ServerObservation;
  readonly identity: string;
}

/** The hosts whose API told its identity: the declared servers first, since they stay. */
function answering({ desired, observed }: Seen): readonly Answering[] {
  const answers = desired.hosts.flatMap((entry): Answering[] => {
    const server = observed.servers.get(entry.host.name);
    return server?.identity.kind === 'known' ? [{ entry, server, identity: server.identity.value }] : [];
  });
  const stays = ({ entry }: Answering): boolean => entry.host.role === 'server' && !entry.leaving;
  return [...answers.filter(stays), ...answers.filter((answer) => !stays(answer))];
}

function whySilent({ observed }: Seen): string {
  for (const [name, server] of observed.servers) {
    if (server.identity.kind === 'unknown') return `${name}: ${server.identity.why}`;
  }
  return 'no host of the cluster was seen running k3s as a server';
}

function splitBetween(world: Seen, answers: readonly Answering[]): Membership | null {
  const served = new Map<string, string[]>();
  for (const { entry, identity } of answers) served.set(identity, [...(served.get(identity) ?? []), entry.host.name]);
  const sides = (map: ReadonlyMap<string, readonly string[]>): string =>
    [...map].map(([identity, hosts]) => `${hosts.join(', ')}: ${identity}`).join('; ');
  const out = 'Find out which one is the fleet, and rejoin each host of the other with mode: rejoin and its name.';
  if (served.size > 1) {
    const message = `Two clusters answer (rule 1). By host: ${sides(served)}. ${out}`;
    return { kind: 'split', message, hosts: answers.map(({ entry }) => entry.host.name) };
  }
  const [identity] = [...served.keys()];
  const written = writtenIdentities(world);
  const other = [...written].filter(([, text]) => text !== identity);
  if (other.length > 0 && identity !== undefined) {
    const by = other.map(([name, text]) => `${name}: ${text}`).join('; ');
    const message = `The cluster that answers is ${identity}, and another identity is written on declared servers (rule 1): ${by}. ${out}`;
    return { kind: 'split', message, hosts: other.map(([name]) => name) };
  }
  const lists = new Map<string, string[]>();
  for (const { entry, server } of answers) {
    if (server.members.kind === 'unknown') continue;
    const list = listKey(server.members.value);
    lists.set(list, [...(lists.get(list) ?? []), entry.host.name]);
  }
  if (lists.size <= 1) return null;
  const message = `Servers of one identity tell two member lists (rule 1; a cluster restored from a snapshot keeps its identity). By host: ${sidesOfLists(lists)}. ${out}`;
  return { kind: 'split', message, hosts: answers.map(({ entry }) => entry.host.name) };
}

/** A learner becomes a voter between two answers; only who is there makes two lists. */
function listKey(members: readonly Member[]): string {
  return members
    .map((member) => (member.name === '' ? `(unstarted at ${member.addresses.join(' ')})` : member.name))
    .sort()
    .join(', ');
}

function sidesOfLists(lists: ReadonlyMap<string, readonly string[]>): string {
  return [...lists].map(([list, hosts]) => `${hosts.join(', ')}: [${list}]`).join('; ');
}

/** By inventory name: the identity in the `cluster` file of every declared server that was reached. */
export function writtenIdentities({ desired, observed }: Seen): ReadonlyMap<string, string> {
  const written = new Map<string, string>();
  for (const { host, leaving } of desired.hosts) {
    const seen = observed.hosts.get(host.name);
    if (leaving || host.role !== 'server' || seen?.kind !== 'reached') continue;
    if (seen.cluster.kind === 'text' && seen.cluster.text !== '') written.set(host.name, seen.cluster.text);
  }
  return written;
}

/** The identity that more than half of the declared servers with one have written down; null without such a majority. */
export function mostWritten(world: Seen, except: string | null = null): string | null {
  const votes = new Map<string, number>();
  let all = 0;
  for (const [name, identity] of writtenIdentities(world)) {
    if (name === except) continue;
    all += 1;
    votes.set(identity, (votes.get(identity) ?? 0) + 1);
  }
  for (const [identity, count] of votes) if (count * 2 > all) return identity;
  return null;
}

/** Answers about one member list, worked out once for all hosts. */
export class Members {
  readonly membership: Membership;
  readonly #seen: Seen;
  readonly #byNode: ReadonlyMap<string, Member>;
  readonly #hostOfNode: ReadonlyMap<string, DesiredHost>;
  #voting: readonly DesiredHost[] | null = null;

  constructor(seen: Seen) {
    this.#seen = seen;
    this.membership = membershipOf(seen);
    const { observed } = seen.observed;
    const byNode = new Map<string, Member>();
    for (const member of this.all) if (member.nodeName !== null) byNode.set(member.nodeName, member);
    this.#byNode = byNode;
    this.#hostOfNode = new Map(
      seen.desired.hosts.flatMap((entry) => {
        const node = nodeNameOf(entry.host, observed);
        return node === null ? [] : [[node, entry] as const];
      }),
    );
  }

  /** The believed list; empty where there is none. */
  get all(): readonly Member[] {
    return this.membership.kind === 'believed' ? this.membership.members : [];
  }

  get voters(): readonly Member[] {
    return this.all.filter((member) => !member.learner && member.name !== '');
  }

  /** The hosts through which the cluster can be told something. */
  get through(): readonly Host[] {
    return 'through' in this.membership ? this.membership.through : [];
  }

  /** The identity that is served; null where none or two are. */
  get identity(): string | null {
    return 'identity' in this.membership ? this.membership.identity : null;
  }

  memberOf(host: Host): Member | null {
    const node = nodeNameOf(host, this.#seen.observed.observed);
    if (node === null) return null;
    return this.#byNode.get(node) ?? this.#unstartedOf(node);
  }

  standing(host: Host): Standing {
    if (this.membership.kind !== 'believed') return 'unknown';
    if (nodeNameOf(host, this.#seen.observed.observed) === null) return 'unknown';
    const member = this.memberOf(host);
    if (member === null) return 'none';
    if (member.name === '') return 'unstarted';
    return member.learner ? 'learner' : 'voter';
  }

  /** The hosts of the voters in the order of the desired hosts: few, however many hosts there are. */
  get votingHosts(): readonly DesiredHost[] {
    this.#voting ??= this.#seen.desired.hosts.filter(({ host }) => this.standing(host) === 'voter');
    return this.#voting;
  }

  hostOf(member: Member): DesiredHost | null {
    return member.nodeName === null ? null : (this.#hostOfNode.get(member.nodeName) ?? null);
  }

  /** A voter is healthy when its own API says that it is ready: unknown is never healthy. */
  healthy(member: Member): boolean {
    if (member.learner || member.name === '') return false;
    const entry = this.hostOf(member);
    // Of two members of one node only one can be the k3s that answers there.
    if (entry === null || this.memberOf(entry.host) !== member) return false;
    return valueOr(this.#seen.observed.servers.get(entry.host.name)?.ready ?? NOT_ASKED, false);
  }

  get healthyVoters(): readonly Member[] {
    return this.voters.filter((member) => this.healthy(member));
  }

  get hasQuorum(): boolean {
    return this.voters.length > 0 && this.healthyVoters.length >= quorumOf(this.voters.length);
  }

  /** An unstarted member has no name yet: it is the host's whose Node has one of its addresses. */
  #unstartedOf(node: string): Member | null {
    const { nodes } = this.#seen.observed;
    const seen = nodes?.kind === 'known' ? nodes.value.get(node) : undefined;
    const address = seen?.internalAddress ?? seen?.memberAddress ?? null;
    if (address === null) return null;
    return this.all.find((member) => member.name === '' && member.addresses.includes(address)) ?? null;
  }
}

const NOT_ASKED = { kind: 'unknown', why: 'its API was not asked' } as const;

/** The role file says something else than `server`: the host is fenced. An absent file fences nobody. */
export function isFenced(now: ReachedHost): boolean {
  return now.role.kind === 'text' && now.role.text !== 'server';
}
