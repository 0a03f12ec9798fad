import type { SeenWorld } from '../desired.js';
import { type HostRule, refuse } from './rule.js';

/** A host that could not be looked at is never assumed to have what it should (rule 10). */
export const unreachable: HostRule = (world, entry) => {
  const seen = world.observed.hosts.get(entry.host.name);
  if (seen?.kind !== 'unreachable' || !mayHaveSomethingToDo(entry, world.desired.cluster.controller)) return [];
  // A removed host that no believed list names is done: whatever still runs there is no member (rule 10).
  if (entry.leaving && isGone(world, entry)) return [];
  return refuse('unreachable', entry, `${seen.class}: ${seen.message}`);
};

/** Only the role directory concerns a host that neither publishes nor has role files, and it has no hurry. */
export function mayHaveSomethingToDo(entry: Parameters<HostRule>[1], controller: boolean | null): boolean {
  return controller === true || entry.host.publishesLabels || entry.before?.publishesLabels === true;
}

/** A removed host that cannot be reached and that no believed list names; in a cluster on SQLite, one that was an agent. */
export function isGone(world: SeenWorld, entry: Parameters<HostRule>[1]): boolean {
  const { membership } = world.members;
  if (world.observed.hosts.get(entry.host.name)?.kind !== 'unreachable') return false;
  if (membership.kind === 'sqlite') return entry.host.role === 'agent';
  return world.members.standing(entry.host) === 'none';
}
