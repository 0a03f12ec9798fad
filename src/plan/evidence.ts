import type { Role } from '../fleet/fleet.js';
import type { DesiredHost } from './desired.js';
import { type Known, known, type ReachedHost, type ServiceObservation, unknown } from './observation.js';

/**
 * The role that a host evidently has: what runs there; else the word of its role file; else the only container that
 * is there; else, where both are there and neither runs, the role that the base declares. Null means that there is
 * nothing: no container of either service and no role word. Two services up, or an answer that is missing where it
 * would decide, are unknown, which is never null.
 */
export function evidentRole(now: ReachedHost, before: DesiredHost['before']): Known<Role | null> {
  if (now.services.kind === 'unknown') return now.services;
  const { k3s, 'k3s-agent': agent } = now.services.value;
  const up = ({ state }: ServiceObservation): boolean => state === 'running' || state === 'restarting';
  if (up(k3s) && up(agent)) return unknown('both k3s and k3s-agent run');
  if (up(k3s)) return known('server');
  if (up(agent)) return known('agent');
  if (k3s.state === 'unknown' || agent.state === 'unknown') return unknown('the state of its services is unknown');
  if (now.role.kind === 'unreadable') return unknown('nothing runs there and its role file cannot be read');
  const word = now.role.kind === 'text' ? now.role.text : '';
  if (word === 'server' || word === 'agent') return known(word);
  const there = ({ state }: ServiceObservation): boolean => state !== 'absent';
  if (there(k3s) !== there(agent)) return known(there(k3s) ? 'server' : 'agent');
  if (!there(k3s)) return known(null);
  return before === null ? unknown('both containers are there and neither runs') : known(before.role);
}
