import { fallback } from '../../fleet/causes.js';
import type { Change } from '../../fleet/change.js';
import type { Cluster } from '../../fleet/fleet.js';
import type { Intent } from '../desired.js';
import type { Refusal } from '../step.js';

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

/** Why the one host of a rejoin is not rejoined. */
export function rejoinRefusals(cluster: Cluster, intent: Intent): readonly Refusal[] {
  const host = cluster.hosts.find((candidate) => candidate.name === intent.host);
  if (host === undefined) return [];
  const refuse = (code: Refusal['code'], message: string): readonly Refusal[] => [
    { code, message, hosts: [host.name] },
  ];
  if (cluster.controller !== true) {
    return refuse(
      'controller-off',
      `The controller is off for ${cluster.name}; turn it on before ${host.name} is rejoined.`,
    );
  }
  if (host.role !== 'server' || cluster.datastore === 'sqlite') {
    const why = host.role === 'server' ? 'its cluster is on SQLite, which has no members' : 'it is declared an agent';
    return refuse('not-a-server', `${host.name} is not rejoined: ${why}.`);
  }
  return refuse(
    'adoption',
    `${host.name} is not rejoined: this version of fleet-role changes no membership. Rejoin it by hand: remove its member through another server, move server/db aside, and start it with a join URL.`,
  );
}
