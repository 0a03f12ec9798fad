import { controllerStaysOn } from '../desired.js';
import { runningRole } from '../observation.js';
import { type HostRule, refuse } from './rule.js';

/**
 * As long as a cluster has no record, apply changes no membership, and a role file never contradicts what its host
 * runs. Records are not kept yet, so this holds for every cluster.
 */
export const adoption: HostRule = (world, entry) => {
  const { host, leaving } = entry;
  const seen = world.observed.hosts.get(host.name);
  if (world.desired.cluster.controller !== true || seen?.kind !== 'reached' || !seen.provisioned) return [];
  if (leaving) return controllerStaysOn(world.desired) ? leavingServer(world, entry) : [];
  const runs = runningRole(seen);
  if (runs.kind === 'unknown') {
    const message = `It is not known which role ${host.name} runs (${runs.why}), so no role file is written there. Make docker answer on that host and run this again.`;
    return refuse('adoption', entry, message);
  }
  if (runs.value === null || runs.value === host.role) return [];
  const message = `${host.name} runs as ${runs.value} and is declared ${host.role}: ${NO_RECORD} To declare what runs, set github_runner_cluster_node_role: ${runs.value} for ${host.name}.`;
  return refuse('adoption', entry, message);
};

const NO_RECORD = 'as long as this cluster has no record of a complete apply, fleet-role changes no membership.';

const leavingServer: HostRule = (world, entry) => {
  const seen = world.observed.hosts.get(entry.host.name);
  const runs = seen?.kind === 'reached' ? runningRole(seen) : null;
  const message = (why: string): string =>
    `${entry.host.name} left the inventory and ${why}: ${NO_RECORD} List it again until then.`;
  if (runs === null) return [];
  if (runs.kind === 'unknown')
    return refuse('adoption', entry, message(`it is not known which role it runs (${runs.why})`));
  return runs.value === 'server' || (runs.value === null && entry.host.role === 'server')
    ? refuse('adoption', entry, message('is a server'))
    : [];
};
