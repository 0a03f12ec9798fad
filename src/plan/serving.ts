import type { Host } from '../fleet/fleet.js';
import { joinUrlOf } from '../fleet/join-url.js';
import type { HostView, World } from './desired.js';

/** Whether a declared server was seen running k3s as a server. A host that was not reached is not known to serve. */
export function serves(world: Pick<World, 'observed'>, host: Host): boolean {
  const seen = world.observed.hosts.get(host.name);
  if (seen?.kind !== 'reached' || seen.services.kind === 'unknown') return false;
  return seen.services.value.k3s.state === 'running';
}

/** The first declared server that serves: the one that the cluster is asked and told things through. */
export function spokesman(world: Pick<World, 'desired' | 'observed'>): Host | null {
  return world.desired.cluster.hosts.find((host) => host.role === 'server' && serves(world, host)) ?? null;
}

/**
 * Every declared server was reached, docker answered there, and none has a k3s container: there is no cluster yet.
 * A host whose services are unknown is never "no cluster".
 */
export function noClusterYet(world: World): boolean {
  const servers = world.desired.cluster.hosts.filter((host) => host.role === 'server');
  return (
    servers.length > 0 &&
    servers.every((host) => {
      const seen = world.observed.hosts.get(host.name);
      return seen?.kind === 'reached' && seen.services.kind === 'known' && seen.services.value.k3s.state === 'absent';
    })
  );
}

/**
 * What this host's join-url file should hold now (rule 5 and rule 8): its own `server_url`; else its topology join
 * URL while that server serves, or when the file says so already; else the first declared server that serves; never
 * its own. "" for the only server, and for the bootstrap host of a cluster that does not exist yet.
 */
export function joinUrlNow(view: HostView): string {
  const { world, desired, now } = view;
  const { cluster } = world.desired;
  const host = desired.host;
  if (host.serverUrl !== null) return host.serverUrl;
  const wanted = host.joinUrlFile ?? '';
  const urlOf = (server: Host): string => joinUrlOf(server.address, cluster.settings?.apiPort ?? 6443);
  const others = cluster.hosts.filter((server) => server.role === 'server' && server.name !== host.name);
  const target = others.find((server) => urlOf(server) === wanted);
  const written = now.joinUrl.kind === 'text' ? now.joinUrl.text : '';
  if (target === undefined) return wanted;
  if (serves(world, target) || written === wanted) return wanted;
  const serving = others.find((server) => serves(world, server));
  if (serving !== undefined) return urlOf(serving);
  // Nobody else is seen to serve. The bootstrap host must not wait for servers that wait for it, and what a file says
  // already is better than a guess.
  if (host.bootstrap) return written;
  return written === '' ? wanted : written;
}
