import { controllerStaysOn, type SeenWorld } from '../desired.js';
import { isUp } from '../jobs.js';
import { valueOr } from '../observation.js';
import { type HostRule, refuse } from './rule.js';

/**
 * A node is drained, asked away and deleted by its name: a host that runs and whose name the cluster does not know is
 * not begun. What this run has just started registers its Node in a moment.
 */
export const knownNode: HostRule = (world, entry) => {
  const { host, leaving } = entry;
  const { cluster } = world.desired;
  if (cluster.controller !== true || (leaving && !controllerStaysOn(world.desired))) return [];
  const seen = world.observed.hosts.get(host.name);
  const { nodes, observed, run } = world.observed;
  if (!observed || seen?.kind !== 'reached') return [];
  if (host.nodeName === null) {
    if (!leaving) return [];
    const message = `${host.name} left the inventory, and it does not say which Node of ${cluster.name} it is. List it again with github_runner_cluster_node_name, let that apply complete, then remove it.`;
    return refuse('unknown-node', entry, message);
  }
  if (nodes?.kind !== 'known' || nodes.value.has(host.nodeName)) return [];
  if (run.done.some((step) => step.host === host.name && step.action === 'start-service')) return [];
  const services = Object.values(valueOr(seen.services, {}));
  if (!services.some(isUp)) return [];
  // A member that waits for its first start has no Node yet; the list knows its name.
  if (world.members.memberOf(host) !== null) return [];
  const way = leaving
    ? 'List the host again with its github_runner_cluster_node_name, let that apply complete, then remove it.'
    : 'Set github_runner_cluster_node_name for it to the name that k3s takes there; a node that has only just started registers itself within a minute.';
  const message = `${host.name} ${leaving ? 'left the inventory and still runs' : 'runs'}, but ${cluster.name} knows no Node ${host.nodeName}. It has ${sample(world)}. ${way}`;
  return refuse('unknown-node', entry, message);
};

function sample({ observed }: SeenWorld): string {
  const names = observed.nodes?.kind === 'known' ? [...observed.nodes.value.keys()] : [];
  if (names.length === 0) return 'none';
  return `${names.slice(0, 20).join(', ')}${names.length > 20 ? ' and others' : ''}`;
}
