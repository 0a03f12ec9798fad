import { controllerStaysOn } from '../desired.js';
import { type HostRule, refuse } from './rule.js';

/** A leaving host is drained and its Node deleted by name: one whose name nobody told is not begun. */
export const knownNode: HostRule = (world, entry) => {
  const { host, leaving } = entry;
  if (!leaving || host.nodeName !== null || !world.observed.observed || !controllerStaysOn(world.desired)) return [];
  if (world.observed.hosts.get(host.name)?.kind !== 'reached') return [];
  const message = `${host.name} left the inventory, and it does not say which Node of ${world.desired.cluster.name} it is. List it again with github_runner_cluster_node_name, let that apply complete, then remove it.`;
  return refuse('unknown-node', entry, message);
};
