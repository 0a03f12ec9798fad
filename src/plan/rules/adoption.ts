import { controllerStaysOn, type DesiredHost, type SeenWorld } from '../desired.js';
import { evidentRole } from '../evidence.js';
import type { ReachedHost } from '../observation.js';
import { joinUrlNow } from '../serving.js';
import type { Refusal } from '../step.js';
import { type HostRule, refuse } from './rule.js';

const NO_RECORD = 'as long as this cluster has no record of a complete apply, fleet-role changes no membership.';

/**
 * As long as a cluster has no record, apply changes no membership, and a role file never contradicts what its host
 * runs: it is declared first, and applied once, what is.
 */
export const adoption: HostRule = (world, entry) => {
  const { host, leaving } = entry;
  const seen = world.observed.hosts.get(host.name);
  if (world.desired.cluster.controller !== true || seen?.kind !== 'reached' || world.adopted) return [];
  if (leaving) return controllerStaysOn(world.desired) ? leavingServer(seen, entry) : [];
  if (!seen.provisioned) return [];
  const role = evidentRole(seen, entry.before);
  if (role.kind === 'unknown') {
    const message = `It is not known which role ${host.name} has (${role.why}), so no role file is written there. Mend that and run this again.`;
    return refuse('adoption', entry, message);
  }
  if (role.value !== null && role.value !== host.role) {
    const message = `${host.name} is evidently ${withArticle(role.value)} and is declared ${withArticle(host.role)}: ${NO_RECORD} To declare what is, set github_runner_cluster_node_role: ${role.value} for ${host.name}.`;
    return refuse('adoption', entry, message);
  }
  return newServer(world, entry, seen, role.value === null) ?? [];
};

/** A host on which nothing runs would become a server of a cluster that exists or may exist; or nobody can be joined. */
function newServer(
  world: SeenWorld,
  entry: DesiredHost,
  now: ReachedHost,
  nothing: boolean,
): readonly Refusal[] | null {
  const { host } = entry;
  if (nothing && host.role === 'server' && host.serverUrl === null && !world.noCluster) {
    const message = `${host.name} runs nothing yet and is declared a server, and it is not proved that there is no cluster yet, so it would be a new member: ${NO_RECORD} Set github_runner_cluster_node_role: agent for it until then.`;
    return refuse('adoption', entry, message);
  }
  const url = joinUrlNow({ world, desired: entry, now });
  if (url.kind === 'known') return null;
  const message = `There is nothing that ${host.name} could safely join: ${url.why}. Bring a server up, make every host of the cluster answer, and run this again.`;
  return refuse('no-quorum', entry, message);
}

function leavingServer(seen: ReachedHost, entry: DesiredHost): readonly Refusal[] {
  const role = evidentRole(seen, entry.before);
  const message = (why: string): string =>
    `${entry.host.name} left the inventory and ${why}: ${NO_RECORD} List it again until then.`;
  if (role.kind === 'unknown') return refuse('adoption', entry, message(`its role is not known (${role.why})`));
  return role.value === 'server' || (role.value === null && entry.host.role === 'server')
    ? refuse('adoption', entry, message('is a server'))
    : [];
}

function withArticle(role: string): string {
  return role === 'agent' ? 'an agent' : 'a server';
}
