import { type Host, serviceOf } from '../../fleet/fleet.js';
import { type ReachedHost, valueOr } from '../observation.js';
import { type HostRule, refuse } from './rule.js';

/**
 * A native host is acted on only where what is written there decides what its units do: nothing beats it (fact 2.2), and
 * the unit of its role is there (facts 9.7, 9.8). One that has neither unit is not provisioned, which is no error.
 */
export const nativeHost: HostRule = (world, entry) => {
  const { host, leaving } = entry;
  const seen = world.observed.hosts.get(host.name);
  if (host.runtime !== 'native' || world.desired.cluster.controller !== true) return [];
  if (seen?.kind !== 'reached' || !seen.provisioned) return [];
  // It is only stopped: what beats a join URL does not keep it running.
  if (leaving) return [];
  if (seen.unsteerable !== null) {
    const message = `${host.name} cannot be steered: ${seen.unsteerable}. Then run this again.`;
    return refuse('guards', entry, message);
  }
  if (!lacksUnit(host, seen)) return [];
  const service = serviceOf(host.role);
  const message = `${host.name} is declared ${host.role === 'server' ? 'a server' : 'an agent'} and has no ${service}.service. Install it there, without starting it, in the version of the cluster: curl -sfL https://get.k3s.io | INSTALL_K3S_SKIP_ENABLE=true sh -s - ${host.role}. Then run this again.`;
  return refuse('guards', entry, message);
};

function lacksUnit(host: Host, seen: ReachedHost): boolean {
  return valueOr(seen.services, null)?.[serviceOf(host.role)].state === 'absent';
}
