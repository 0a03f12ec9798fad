import { controllerStaysOn } from '../desired.js';
import { valueOr } from '../observation.js';
import { type HostRule, refuse } from './rule.js';

/** A leaving host is drained and its Node deleted by name: one whose name nobody told is not begun. */
export const knownNode: HostRule = (world, entry) => {
  const { host, leaving } = entry;
  if (!leaving || !controllerStaysOn(world.desired)) return [];
  const seen = world.observed.hosts.get(host.name);
  const { nodes } = world.observed;
  if (host.nodeName !== null) {
    if (seen?.kind !== 'reached' || nodes?.kind !== 'known' || nodes.value.has(host.nodeName)) return [];
    const services = Object.values(valueOr(seen.services, {}));
    if (!services.some((service) => !['absent', 'stopped'].includes(service.state))) return [];
    const names = [...nodes.value.keys()];
    const message = `${host.name} left the inventory and still runs, but ${world.desired.cluster.name} knows no Node ${host.nodeName}, so that its jobs could not be waited for. It has ${names.slice(0, 20).join(', ')}${names.length > 20 ? ' and others' : ''}. List the host again with its github_runner_cluster_node_name, let that apply complete, then remove it.`;
    return refuse('unknown-node', entry, message);
  }
  if (!world.observed.observed) return [];
  if (seen?.kind !== 'reached') return [];
  const message = `${host.name} left the inventory, and it does not say which Node of ${world.desired.cluster.name} it is. List it again with github_runner_cluster_node_name, let that apply complete, then remove it.`;
  return refuse('unknown-node', entry, message);
};
