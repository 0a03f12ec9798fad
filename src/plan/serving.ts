import type { Host } from '../fleet/fleet.js';
import { joinUrlOf } from '../fleet/join-url.js';
import { type DesiredHost, type HostView, nodeOf, type World } from './desired.js';
import { isFenced } from './membership.js';
import { type Known, known, type Member, type ReachedHost, unknown, valueOr } from './observation.js';

type Seen = Pick<World, 'desired' | 'observed'>;

/** Rule 5 where it is known who votes. */
function byVotes(view: HostView, urlOf: (server: Host) => string, wanted: string, written: string): Known<string> {
  const { world, desired } = view;
  const { members } = world;
  const { host } = desired;
  const votes = members.votingHosts.filter((entry) => entry.host.name !== host.name);
  const up = votes.filter((entry) => members.healthy(members.memberOf(entry.host) as Member));
  // One whose removal is asked for may be gone before the request is taken back.
  const stays = (entry: DesiredHost): boolean =>
    entry.host.role === 'server' && !entry.leaving && nodeOf(world, entry.host)?.removeAsked !== true;
  const topology = votes.find((entry) => stays(entry) && urlOf(entry.host) === wanted);
  if (topology !== undefined && (up.includes(topology) || written === wanted)) return known(wanted);
  const next = up.find(stays) ?? votes.find((entry) => stays(entry) && urlOf(entry.host) === written);
  if (next !== undefined) return known(urlOf(next.host));
  // No other stays. Who leaves last is joined until it is the only other voter; then nothing is, by the only server.
  const staysItself = stays(desired) && members.standing(host) === 'voter';
  if (staysItself && votes.length < 2) return known('');
  const last = up.filter(({ host: other }) => !fenced(world, other)).at(-1) ?? up.at(-1) ?? votes.at(-1);
  if (last !== undefined) return known(urlOf(last.host));
  // A cluster that is joined outside the inventory.
  if (world.desired.cluster.bootstrap === null && wanted !== '') return known(wanted);
  return known('');
}

function fenced({ observed }: Seen, host: Host): boolean {
  const seen = observed.hosts.get(host.name);
  return seen?.kind === 'reached' && isFenced(seen);
}

/** Whether a host was seen running k3s as a server, whatever it is declared. One that was not reached is not known to. */
export function serves(world: Pick<World, 'observed'>, host: Host): boolean {
  const seen = world.observed.hosts.get(host.name);
  if (seen?.kind !== 'reached' || seen.services.kind === 'unknown') return false;
  return seen.services.value.k3s.state === 'running';
}

/**
 * The hosts that were seen to serve: the declared servers in inventory order, which stay, then those that are declared
 * agents or leave.
 */
export function serving(world: Seen): readonly Host[] {
  const hosts = world.desired.hosts.filter(({ host }) => serves(world, host));
  const stays = ({ host, leaving }: DesiredHost): boolean => host.role === 'server' && !leaving;
  return [...hosts.filter(stays), ...hosts.filter((entry) => !stays(entry))].map((entry) => entry.host);
}

/** The host that the cluster is asked and told things through; null when none was seen to serve. */
export function spokesman(world: Seen): Host | null {
  return serving(world)[0] ?? null;
}

/**
 * It is proved that there is no cluster yet: every host that head or base know was reached, docker answered there, and
 * none has a container of either service or a trace of having been a server. What could not be seen proves nothing.
 */
export function noClusterYet(world: Seen): boolean {
  return (
    world.desired.hosts.length > 0 &&
    world.desired.hosts.every(({ host }) => {
      const seen = world.observed.hosts.get(host.name);
      if (seen?.kind !== 'reached' || seen.services.kind === 'unknown') return false;
      const absent = Object.values(seen.services.value).every((service) => service.state === 'absent');
      return absent && !wasMember(seen);
    })
  );
}

/** A datastore, a tombstone or a datastore set aside was seen: its containers were removed, its past was not. */
function wasMember(seen: ReachedHost): boolean {
  return valueOr(seen.datastore, 'none') !== 'none' || valueOr(seen.tombstone, false) || valueOr(seen.setAside, false);
}

/**
 * What this host's join-url file should hold now (rules 5 and 8): its own `server_url`; else its topology join URL while
 * that server serves, or when the file says so already; else the first host that serves; never its own. "" for a server
 * that serves itself while nobody else does, and for the bootstrap host of a cluster that is proved not to exist yet.
 * Unknown when nobody is seen to serve and nothing is proved: then no file may be written there.
 */
export function joinUrlNow(view: HostView): Known<string> {
  const { world, desired, now } = view;
  const { cluster } = world.desired;
  const { host } = desired;
  if (host.serverUrl !== null) return known(host.serverUrl);
  const apiPort = cluster.settings?.apiPort ?? 6443;
  const urlOf = (server: Host): string => joinUrlOf(server.address, apiPort);
  const wanted = host.joinUrlFile ?? '';
  const written = now.joinUrl.kind === 'text' ? now.joinUrl.text : '';
  if (world.members.membership.kind === 'believed') return byVotes(view, urlOf, wanted, written);
  if (wanted !== '' && written === wanted) return known(wanted);
  const others = world.serving.filter((server) => server.name !== host.name);
  if (wanted !== '' && others.some((server) => urlOf(server) === wanted)) return known(wanted);
  const first = others[0];
  if (first !== undefined) return known(urlOf(first));
  if (written !== '') return known(written);
  if (serves(world, host)) return known('');
  // The bootstrap host must not wait for servers that wait for it.
  if (world.noCluster) return known(host.bootstrap ? '' : wanted);
  // A cluster joined outside the inventory has no server here that could be seen.
  if (cluster.bootstrap === null && wanted !== '') return known(wanted);
  return unknown('no server of the cluster was seen to run, and it is not proved that there is no cluster yet');
}
