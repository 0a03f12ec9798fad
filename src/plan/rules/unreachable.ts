import { type HostRule, refuse } from './rule.js';

/** A host that could not be looked at is never assumed to have what it should (rule 10). */
export const unreachable: HostRule = (world, entry) => {
  const seen = world.observed.hosts.get(entry.host.name);
  if (seen?.kind !== 'unreachable' || !mayHaveSomethingToDo(entry, world.desired.cluster.controller)) return [];
  return refuse('unreachable', entry, `${seen.class}: ${seen.message}`);
};

/** Only the role directory concerns a host that neither publishes nor has role files, and it has no hurry. */
export function mayHaveSomethingToDo(entry: Parameters<HostRule>[1], controller: boolean | null): boolean {
  return controller === true || entry.host.publishesLabels || entry.before?.publishesLabels === true;
}
