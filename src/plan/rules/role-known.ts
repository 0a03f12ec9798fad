import { evidentRole } from '../evidence.js';
import { asksForRollout, isUp, jobOf } from '../jobs.js';
import { valueOr } from '../observation.js';
import { type HostRule, refuse } from './rule.js';

/** A role file never contradicts what its host runs: where it is not known what that is, none is written. */
export const roleKnown: HostRule = (world, entry) => {
  const { host, leaving, before } = entry;
  const { cluster } = world.desired;
  const seen = world.observed.hosts.get(host.name);
  if (!world.adopted || cluster.controller !== true || seen?.kind !== 'reached') return [];
  if (!seen.provisioned && !leaving) return [];
  const { membership } = world.members;
  // A split or silent cluster is stopped as a whole.
  if (membership.kind === 'split' || membership.kind === 'silent') return [];
  if (seen.services.kind === 'unknown') {
    const message = `It is not known what runs on ${host.name} (${seen.services.why}), so nothing is done there. Make docker (or systemctl) answer for the connecting user and run this again.`;
    return refuse('guards', entry, message);
  }
  const { k3s, 'k3s-agent': agent } = seen.services.value;
  const unknownState = [k3s, agent].some(({ state }) => state === 'unknown');
  const word = seen.role.kind === 'text' ? seen.role.text : '';
  // The role file says which of the two goes.
  if (isUp(k3s) && isUp(agent) && word !== 'server' && word !== 'agent') {
    const message = `Both k3s and k3s-agent run on ${host.name}, and one node cannot have two. Stop the one that the fleet does not need and run this again.`;
    return refuse('guards', entry, message);
  }
  if (unknownState) {
    const message = `It is not known whether k3s runs in the containers of ${host.name}, so nothing is done there. Make their processes visible for the connecting user and run this again.`;
    return refuse('guards', entry, message);
  }
  if (cluster.datastore === 'sqlite' || world.members.standing(host) !== 'unknown') return [];
  const role = valueOr(evidentRole(seen, before), null);
  if (!leaving && role === host.role) {
    if (membership.kind !== 'doubtful' || !asksForRollout(world, entry, seen)) return [];
    const message = `${host.name} is not recreated although the input rollout asks for it: the member list cannot be believed (${membership.why}), and a node is only stopped where it is known who votes. Bring the server that is named up and run this again.`;
    return refuse('unhealthy-voter', entry, message);
  }
  if (leaving && role === 'agent') return [];
  if (jobOf(world, entry) !== null) return [];
  if (membership.kind === 'doubtful') {
    const message = `${host.name} ${leaving ? 'left the inventory' : `is declared ${host.role === 'server' ? 'a server' : 'an agent'} and does not run as one`}, and the member list cannot be believed (${membership.why}). Bring the server that is named up and run this again.`;
    return refuse('unhealthy-voter', entry, message);
  }
  const message = `${host.name} does not say which Node it is, so it cannot be told whether it is a member. Set github_runner_cluster_node_name for it.`;
  return refuse('unknown-node', entry, message);
};
