import { valueOr } from '../observation.js';
import { type HostRule, refuse } from './rule.js';

/** Rule 3: a cluster on SQLite has no members, so its server cannot move, leave, or become one of etcd. */
export const sqliteStays: HostRule = (world, entry) => {
  const { cluster, base } = world.desired;
  const { host, leaving, before } = entry;
  if (cluster.controller !== true) return [];
  const out =
    'Leave its server where it is. To move it, set up a new cluster, or go to etcd first: k3s does that once on the server itself (cluster-init), by hand.';
  if (base !== null && base.datastore !== cluster.datastore && (host.role === 'server' || before?.role === 'server')) {
    const message = `${cluster.name} runs on ${base.datastore} and is declared on ${cluster.datastore}: fleet-role moves no datastore. ${out}`;
    return refuse('sqlite-moves', entry, message);
  }
  if (cluster.datastore !== 'sqlite') {
    const seen = world.observed.hosts.get(host.name);
    const runs = seen?.kind === 'reached' && valueOr(seen.services, null)?.k3s.state === 'running';
    if (!runs || valueOr(seen.datastore, 'none') !== 'sqlite') return [];
    return refuse('sqlite-moves', entry, `${host.name} runs on SQLite and its cluster is declared on etcd. ${out}`);
  }
  const was = before?.role ?? null;
  if (leaving && was === 'server') {
    return refuse(
      'sqlite-moves',
      entry,
      `${host.name} left the inventory and is the server of a cluster on SQLite. ${out}`,
    );
  }
  if (leaving || was === null || was === host.role) return [];
  const message = `${host.name} would become ${host.role === 'server' ? 'the server' : 'an agent'} of a cluster on SQLite, which has no members. ${out}`;
  return refuse('sqlite-moves', entry, message);
};
