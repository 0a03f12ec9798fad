import { keepsNodeName } from '../../fleet/changes.js';
import { type HostRule, refuse } from './rule.js';

/** k3s knows a node by its name: a machine cannot get another one while it is a node. */
export const renamed: HostRule = (_world, entry) => {
  const { host, before, movedAcross } = entry;
  if (movedAcross !== null) {
    const message = `${host.name} goes from one cluster to another in one commit (the other is ${movedAcross}). Remove it from the old one, let that apply complete, then add it to the new one.`;
    return refuse('renamed', entry, message);
  }
  if (before === null || keepsNodeName(before, host)) return [];
  if (before.nodeName === null || host.nodeName === null) {
    const message = `${host.name} is reached in another way, and nothing says that it is still the same node: only the host knows its node name. Set github_runner_cluster_node_name for it in a commit of its own, let that apply complete, then change how it is reached.`;
    return refuse('renamed', entry, message);
  }
  const message = `The node ${before.nodeName} would be called ${host.nodeName}, and k3s knows a node by its name. Remove ${before.name}, let that apply complete, then add ${host.name}; or keep the name with github_runner_cluster_node_name: ${before.nodeName}.`;
  return refuse('renamed', entry, message);
};
