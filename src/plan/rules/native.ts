import { type HostRule, refuse } from './rule.js';

/** Native hosts are not looked at yet, and what is not seen is not acted on. */
export const nativeHost: HostRule = (world, entry) => {
  const { host, leaving } = entry;
  if (host.runtime !== 'native' || (world.desired.cluster.controller !== true && !host.publishesLabels)) return [];
  const what = leaving ? 'is not taken out of its cluster' : 'gets no role files';
  const message = `${host.name} runs k3s natively (github_runner_cluster_runtime: native) and ${what}: this version of fleet-role looks at Compose hosts only. Leave its cluster's controller off until then.`;
  return refuse('guards', entry, message);
};
