import { evidentRole } from '../evidence.js';
import { type HostRule, refuse } from './rule.js';

/**
 * The controller is off: a host whose running service does not match the role declared without it keeps its files,
 * because removing them would start the other service at the next restart.
 */
export const runningRoleMatches: HostRule = (world, entry) => {
  const { host, leaving } = entry;
  const seen = world.observed.hosts.get(host.name);
  if (world.desired.cluster.controller !== false || leaving || seen?.kind !== 'reached' || !seen.provisioned) return [];
  // Without role files there is nothing whose removal could revive anything.
  if (seen.role.kind === 'absent' && seen.joinUrl.kind === 'absent') return [];
  if (seen.joinUrl.kind === 'unreadable' || seen.role.kind === 'unreadable') {
    const message = `A role file of ${host.name} cannot be read, so what would be lost with it is not known. Make ${seen.directory}/fleet-role.d/${seen.role.kind === 'unreadable' ? 'role' : 'join-url'} readable for the connecting user, or remove it, and run this again.`;
    return refuse('running-role', entry, message);
  }
  const runs = evidentRole(seen, entry.before);
  if (runs.kind === 'unknown') {
    const message = `It is not known which role ${host.name} runs (${runs.why}), so its role files stay. Make docker answer there and run this again.`;
    return refuse('running-role', entry, message);
  }
  if (runs.value === null || runs.value === host.role) return [];
  const message = `${host.name} runs as ${runs.value} and is declared ${host.role} without the controller: removing its role files would start the other service at its next restart. Set github_runner_cluster_node_role: ${runs.value} for it in the same commit.`;
  return refuse('running-role', entry, message);
};
