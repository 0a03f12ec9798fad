import { controllerStaysOn } from '../desired.js';
import { type HostRule, refuse } from './rule.js';

/** A leaving host is drained and its Node deleted through the API; without one nothing is begun there. */
export const apiAnswers: HostRule = (world, entry) => {
  const { nodes } = world.observed;
  if (!entry.leaving || !controllerStaysOn(world.desired) || nodes?.kind === 'known') return [];
  const why = nodes === null ? 'no server was asked' : nodes.why;
  const message = `${entry.host.name} left the inventory, and no API of ${world.desired.cluster.name} answers to drain it and delete its Node (${why}). Bring a server up and run this again.`;
  return refuse('no-lock', entry, message);
};
