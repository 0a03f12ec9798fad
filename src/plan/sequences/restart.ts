import { clearPassword, listFirst, recreate, writeFiles } from './parts.js';
import { didSince, drainFirst, firstOf, type Sequence, step } from './view.js';

/** The service of the declared role is started; nobody becomes a member by it. */
export const start: Sequence = (view) => {
  const { host } = view;
  const service = host.role === 'server' ? 'k3s' : 'k3s-agent';
  return firstOf(
    () => [...writeFiles(view, host.role, `name the ${host.role}`), ...listFirst(view)],
    // A container that was made anew has another password than the Node knows.
    () => (host.role === 'agent' ? clearPassword(view) : []),
    () => [
      step(
        view,
        'start-service',
        `it is declared ${host.role === 'server' ? 'a server' : 'an agent'} and does not run`,
        { service },
      ),
    ],
  );
};

/** The running service is made anew so that the guards come into force, one node at a time. */
export const rollout: Sequence = (view) => {
  const { host, world } = view;
  const service = host.role === 'server' ? 'k3s' : 'k3s-agent';
  const alone = host.role === 'server' && world.members.voters.length < 3;
  const why = alone ? 'the guards come into force; the API is away until it is back' : 'the guards come into force';
  return firstOf(
    () => (didSince(view, 'recreate-service') ? [] : drainFirst(view, why)),
    () => {
      const made = recreate(view, service, why);
      if (made.length === 0 || host.role !== 'server') return made;
      // In one go: the API of a small cluster is away no longer than k3s needs to start.
      return [...made, step(view, 'start-service', 'it starts again from its own datastore', { service })];
    },
  );
};
