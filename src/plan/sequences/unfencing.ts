import { isUp } from '../jobs.js';
import { restorePolicy } from './parts.js';
import { firstOf, roleIs, type Sequence, step } from './view.js';

/** A fenced member takes up its service again, from its own datastore. Its join-url stays as it is. */
export const unfencing: Sequence = (view) => {
  const { node, server, world } = view;
  const silent = world.members.membership.kind === 'silent';
  return firstOf(
    () =>
      !silent && node?.removeAsked === true
        ? [step(view, 'cancel-removal', 'its removal was asked for and is not wanted any more')]
        : [],
    () => (roleIs(view, 'server') ? [] : [step(view, 'write-role', 'name the server again', { value: 'server' })]),
    () => restorePolicy(view),
    () => (isUp(server) ? [] : [step(view, 'start-service', 'it starts from its own datastore', { service: 'k3s' })]),
  );
};
