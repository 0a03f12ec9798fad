import { serviceOf } from '../fleet/fleet.js';
import { type DesiredHost, nodeOf, type SeenWorld } from './desired.js';
import { isFenced, type Standing } from './membership.js';
import { type ReachedHost, type ServiceObservation, valueOr } from './observation.js';

/** What a host needs beyond its files. */
export type JobKind =
  | 'promotion'
  | 'demotion'
  /** A host that left the inventory and is, or was, a server. */
  | 'removal'
  | 'unfencing'
  | 'rejoin'
  /** A member that cannot be reached is taken out of the cluster, by force. */
  | 'forced-removal'
  /** The service of its role is to be started; nobody becomes or stops being a member. */
  | 'start'
  /** Its running service is recreated, to bring the guards into force. */
  | 'rollout';

export interface Job {
  readonly kind: JobKind;
  readonly entry: DesiredHost;
  /** Null for a host that was not reached. */
  readonly now: ReachedHost | null;
  readonly standing: Standing;
  /** An earlier step of it was done, by this run or another. */
  readonly begun: boolean;
}

/** A job that changes who is a member, or restarts a member: at most one is worked on at a time (rule 3). */
export function isMembershipJob({ kind }: Job): boolean {
  return kind !== 'start' && kind !== 'unfencing';
}

/**
 * What this host needs, told from what is seen alone: a run that died is continued by the next one. Null when its
 * service runs as declared, and where it is not known what it would need (a rule then says why nothing is done).
 */
export function jobOf(world: SeenWorld, entry: DesiredHost): Job | null {
  let jobs = MEMORY.get(world);
  if (jobs === undefined) {
    jobs = new Map();
    MEMORY.set(world, jobs);
  }
  const known = jobs.get(entry);
  if (known !== undefined) return known;
  const job = workOut(world, entry);
  jobs.set(entry, job);
  return job;
}

/** Rules and turns ask the same question of the same world again. */
const MEMORY = new WeakMap<SeenWorld, Map<DesiredHost, Job | null>>();

function workOut(world: SeenWorld, entry: DesiredHost): Job | null {
  const { host, leaving } = entry;
  const { cluster } = world.desired;
  if (cluster.controller !== true) return null;
  const seen = world.observed.hosts.get(host.name);
  const standing = world.members.standing(host);
  const job = (kind: JobKind, begun = false): Job => ({
    kind,
    entry,
    now: seen?.kind === 'reached' ? seen : null,
    standing,
    begun,
  });
  if (seen === undefined) return null;
  if (seen.kind === 'unreachable') {
    const staysServer = host.role === 'server' && !leaving;
    return isListed(standing) && !staysServer && world.intent.forceUnreachable ? job('forced-removal', true) : null;
  }
  if (world.intent.mode === 'rejoin') return rejoinJob(world, entry, seen, standing, job);
  const services = valueOr(seen.services, null);
  if (services === null) return null;
  const parts: Parts = { world, entry, now: seen, standing, server: services.k3s, agent: services['k3s-agent'], job };
  const unfenced = unfencing(parts);
  if (unfenced !== null) return unfenced;
  if (!seen.provisioned && !leaving) return null;
  if (!world.adopted) return null;
  if (cluster.datastore === 'sqlite') return leaving ? null : (startOf(parts) ?? rolloutOf(parts));
  if (leaving) return removal(parts);
  return host.role === 'server' ? serverJob(parts) : agentJob(parts);
}

interface Parts {
  readonly world: SeenWorld;
  readonly entry: DesiredHost;
  readonly now: ReachedHost;
  readonly standing: Standing;
  readonly server: ServiceObservation;
  readonly agent: ServiceObservation;
  readonly job: (kind: JobKind, begun?: boolean) => Job;
}

export function isListed(standing: Standing): boolean {
  return standing === 'voter' || standing === 'learner' || standing === 'unstarted';
}

/** k3s runs in it, or is on its way. */
export function isUp({ state }: ServiceObservation): boolean {
  return state === 'running' || state === 'restarting';
}

/** Nothing of it is left that could start k3s by itself. */
export function isDown({ state }: ServiceObservation): boolean {
  return state === 'stopped' || state === 'absent';
}

/** It could serve from what it has: a datastore, and no tombstone on it. */
function keepsDatastore(now: ReachedHost): boolean {
  return valueOr(now.datastore, 'none') === 'etcd' && valueOr(now.tombstone, true) === false;
}

/**
 * A fenced host whose member is still listed, or whose cluster has no quorum to say so, takes up its service again when
 * the inventory declares it a server, or when without it there is no quorum. It starts from its own datastore, so that
 * it can make no second cluster.
 */
function unfencing({ world, entry, now, standing, server, job }: Parts): Job | null {
  const { members } = world;
  if (!keepsDatastore(now) || world.desired.cluster.datastore === 'sqlite') return null;
  const declared = entry.host.role === 'server' && !entry.leaving;
  if (members.membership.kind === 'silent') {
    // Without role files nobody was fenced, and the fleet is not ours to start.
    const marked = now.role.kind === 'text';
    return marked && !isUp(server) && (isFenced(now) || declared) ? job('unfencing', true) : null;
  }
  if (!isListed(standing)) return null;
  if (!declared) {
    if (members.hasQuorum || isUp(server) || !isFenced(now)) return null;
    return job('unfencing', true);
  }
  const node = nodeOf(world, entry.host);
  const kept = now.keptPolicy.kind === 'text' && standing === 'voter';
  return isFenced(now) || node?.removeAsked === true || kept ? job('unfencing', true) : null;
}

function serverJob(parts: Parts): Job | null {
  const { world, entry, now, standing, server, agent, job } = parts;
  switch (standing) {
    case 'voter':
      if (server.state === 'unknown') return null;
      return isDown(server) || server.state === 'idle' || server.state === 'refusing'
        ? keepsDatastore(now)
          ? job('start')
          : null
        : rolloutOf(parts);
    case 'learner':
    case 'unstarted':
      // A member that has lost what it started from cannot go on: that is rejoin's.
      return isUp(server) || keepsDatastore(now) ? job('promotion', true) : null;
    case 'none': {
      const begun =
        (now.role.kind === 'text' && now.role.text === 'server' && !isUp(agent) && agent.state !== 'absent') ||
        isUp(server) ||
        nodeOf(world, entry.host)?.cordonedBy != null;
      return job('promotion', begun);
    }
    case 'unknown':
      return null;
  }
}

function agentJob(parts: Parts): Job | null {
  const { world, entry, now, standing, server, agent, job } = parts;
  const node = nodeOf(world, entry.host);
  if (isListed(standing)) return job('demotion', isFenced(now) || node?.removeAsked === true);
  if (standing === 'unknown') return null;
  // Both containers absent and nothing of a server: it was never one.
  const wasServer = !isDown(server) || node?.serverTraces === true || now.keptPolicy.kind === 'text';
  const idles = server.state === 'idle' && agent.state === 'running' && node?.serverTraces !== true;
  if (wasServer && !idles) return job('demotion', true);
  if (agent.state === 'running') return rolloutOf(parts);
  if (agent.state === 'restarting' || agent.state === 'unknown') return null;
  const past = valueOr(now.datastore, 'none') !== 'none' || valueOr(now.tombstone, false);
  return past && server.state !== 'absent' ? job('demotion', true) : job('start');
}

function removal(parts: Parts): Job | null {
  const { now, standing, server, job } = parts;
  if (isListed(standing)) return job('removal', isFenced(now));
  if (standing === 'unknown') return null;
  const past = valueOr(now.datastore, 'none') !== 'none' || valueOr(now.tombstone, false);
  return !isDown(server) || (past && server.state !== 'absent') ? job('removal', true) : null;
}

/** The service of the declared role does not run, and nothing stands in its way. */
function startOf({ entry, server, agent, job }: Parts): Job | null {
  const [own, other] = entry.host.role === 'server' ? [server, agent] : [agent, server];
  if (own.state === 'running' || own.state === 'restarting' || own.state === 'unknown') return null;
  return isUp(other) ? null : job('start');
}

/** Input `rollout` asks that the guards come into force here although nothing else changes. */
function rolloutOf({ world, entry, now, job }: Parts): Job | null {
  return asksForRollout(world, entry, now) ? job('rollout', nodeOf(world, entry.host)?.cordonedBy != null) : null;
}

/** The service of the declared role runs without our guards, and the input `rollout` means this host. */
export function asksForRollout({ intent }: SeenWorld, { host, leaving }: DesiredHost, now: ReachedHost): boolean {
  const { rollout, installGuards } = intent;
  if (rollout === 'changed' || installGuards === 'never' || !host.publishesLabels || leaving) return false;
  if (rollout === 'servers' && host.role !== 'server') return false;
  const service = valueOr(now.services, null)?.[serviceOf(host.role)];
  if (service === undefined || service.state !== 'running' || guardsInForce(service)) return false;
  // Without the guard scripts there is nothing to bring into force.
  return now.guardsInstalled !== null;
}

/** The service as it is would meet our guards at its next start. */
export function guardsInForce(service: ServiceObservation): boolean {
  return service.mounted && service.guardsInside !== null;
}

/** Nothing to do when the host's member votes in the right identity and its k3s serves it. */
function rejoinJob(
  world: SeenWorld,
  { host }: DesiredHost,
  now: ReachedHost,
  standing: Standing,
  job: Parts['job'],
): Job | null {
  if (world.intent.host !== host.name) return null;
  const server = world.observed.servers.get(host.name);
  const serves =
    standing === 'voter' && server !== undefined && valueOr(server.ready, false) && now.role.kind !== 'unreadable';
  if (serves && !isFenced(now) && now.keptPolicy.kind !== 'text') return null;
  return job('rejoin', isFenced(now));
}
