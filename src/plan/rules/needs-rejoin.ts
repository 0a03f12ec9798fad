import { isListed, isUp } from '../jobs.js';
import { valueOr } from '../observation.js';
import { type HostRule, refuse } from './rule.js';

/** A listed member whose datastore is gone cannot be started: that is rejoin's, and a person asks for it by name. */
export const needsRejoin: HostRule = (world, entry) => {
  const { host, leaving } = entry;
  const seen = world.observed.hosts.get(host.name);
  if (world.intent.mode === 'rejoin' || leaving || host.role !== 'server' || seen?.kind !== 'reached') return [];
  if (world.desired.cluster.controller !== true || !isListed(world.members.standing(host))) return [];
  const services = valueOr(seen.services, null);
  if (services === null) return [];
  // What is up may still be joining; a voter that has nothing to start from never will (fact 2.15).
  const lost = seen.datastore.kind === 'known' && seen.datastore.value === 'none';
  const standing = world.members.standing(host);
  const joins = standing !== 'voter' && services.k3s.state !== 'restarting';
  if (isUp(services.k3s) && (!lost || joins || standing === 'unstarted')) return [];
  const way = `Run this again with mode: rejoin and host: ${host.name}.`;
  if (seen.datastore.kind === 'unknown') {
    const message = `${host.name} is a member and its k3s does not run, and it is not known whether it still has its datastore (${seen.datastore.why}). ${way}`;
    return refuse('needs-rejoin', entry, message);
  }
  if (seen.datastore.value === 'etcd' && valueOr(seen.tombstone, false) === false) return [];
  const why = seen.datastore.value === 'etcd' ? 'k3s left a tombstone on its datastore' : 'its datastore is gone';
  return refuse('needs-rejoin', entry, `${host.name} is listed as a member, and ${why}. ${way}`);
};
