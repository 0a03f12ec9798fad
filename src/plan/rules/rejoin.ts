import { fallback } from '../../fleet/causes.js';
import type { Change } from '../../fleet/change.js';
import type { Cluster } from '../../fleet/fleet.js';
import type { DesiredHost, Intent, SeenWorld } from '../desired.js';
import type { Refusal } from '../step.js';
import { CLUSTER_RULES } from './cluster.js';
import { refuse } from './rule.js';
import { notItsOwnNode } from './runs-on-node.js';

/** The change that a rejoin is, for the cluster that has its host. */
export function rejoinChanges(cluster: Cluster, intent: Intent): readonly Change[] {
  const host = cluster.hosts.find((candidate) => candidate.name === intent.host);
  if (intent.mode !== 'rejoin' || host === undefined) return [];
  return [
    {
      host: host.name,
      kind: 'rejoin',
      cause: fallback(host, `rejoin of ${host.name} was asked for`),
      role: { from: host.role, to: host.role },
      joinUrl: { from: host.joinUrl, to: host.joinUrl },
    },
  ];
}

/** Why the one host of a rejoin is not rejoined, whatever its cluster says of it. */
export function rejoinRefusals(world: SeenWorld, entry: DesiredHost): readonly Refusal[] {
  const { cluster } = world.desired;
  const { host } = entry;
  if (cluster.controller !== true) {
    const message = `The controller is off for ${cluster.name}; turn it on before ${host.name} is rejoined.`;
    return refuse('controller-off', entry, message);
  }
  if (host.role !== 'server' || cluster.datastore === 'sqlite') {
    const why = host.role === 'server' ? 'its cluster is on SQLite, which has no members' : 'it is declared an agent';
    return refuse('not-a-server', entry, `${host.name} is not rejoined: ${why}.`);
  }
  const seen = world.observed.hosts.get(host.name);
  if (seen?.kind === 'unreachable') return refuse('unreachable', entry, `${seen.class}: ${seen.message}`);
  if (seen?.kind === 'reached' && !seen.provisioned) {
    const message = `${host.name} is not rejoined: nothing is provisioned in ${seen.directory}. Let the fleet's provisioning set it up first.`;
    return refuse('guards', entry, message);
  }
  return [...CLUSTER_RULES.flatMap((rule) => rule(world)), ...notItsOwnNode(world, entry)];
}
