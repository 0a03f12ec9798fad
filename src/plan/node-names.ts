import { sameEndpoint } from '../fleet/changes.js';
import { isDnsName } from '../fleet/declared-host.js';
import type { Host } from '../fleet/fleet.js';
import type { DesiredHost } from './desired.js';
import type { PlanInput } from './make-plan.js';
import type { Observation } from './observation.js';

/**
 * The input with the node names that the hosts reported, where the inventory gives none. A name that is no node name, or
 * that a second host of the cluster has too, stays unknown: nothing is done to a Node on the word of two hosts.
 */
export function withReportedNames(input: PlanInput, observed: Observation): PlanInput {
  const { desired } = input;
  if (desired.hosts.every(({ host }) => host.nodeName !== null)) return input;
  const names = reportedNames(desired.hosts, observed);
  const named = (host: Host): Host => {
    const nodeName = host.nodeName ?? names.get(host.name) ?? null;
    return nodeName === host.nodeName ? host : { ...host, nodeName };
  };
  const hosts = desired.hosts.map((entry): DesiredHost => {
    const host = named(entry.host);
    const { before } = entry;
    // What a machine says of itself was true at the base only of the same machine.
    const same = before !== null && before.nodeName === null && sameEndpoint(before, entry.host);
    return { ...entry, host, before: same ? { ...before, nodeName: host.nodeName } : before };
  });
  const cluster = { ...desired.cluster, hosts: desired.cluster.hosts.map(named) };
  return { ...input, desired: { ...desired, cluster, hosts } };
}

function reportedNames(entries: readonly DesiredHost[], observed: Observation): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  const owners = new Map<string, number>();
  for (const { host } of entries) {
    const seen = observed.hosts.get(host.name);
    const name = host.nodeName ?? (seen?.kind === 'reached' ? seen.nodeName : null) ?? null;
    if (name === null || !isDnsName(name)) continue;
    names.set(host.name, name);
    owners.set(name, (owners.get(name) ?? 0) + 1);
  }
  return new Map([...names].filter(([, name]) => owners.get(name) === 1));
}
