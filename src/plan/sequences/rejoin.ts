import { isDown, isListed, isUp } from '../jobs.js';
import { mostWritten } from '../membership.js';
import { valueOr } from '../observation.js';
import {
  clearPassword,
  guardFirst,
  keepDown,
  removeMember,
  restorePolicy,
  setAside,
  stop,
  writeFiles,
} from './parts.js';
import { didSince, drainFirst, firstOf, holdsPast, type JobView, type Sequence, step } from './view.js';

/** The identity that a rejoined host takes: the one that answers, else that of most declared servers. */
export function identityToJoin({ world, host }: Pick<JobView, 'world' | 'host'>): string | null {
  return mostWritten(world, host.name) ?? world.members.identity;
}

/** Fenced, stopped, asked away, proved, its datastore set aside, then a learner and a voter of the same identity. */
export const rejoin: Sequence = (view) => {
  const { host, now, node, server, standing, world } = view;
  const identity = identityToJoin(view) ?? '';
  if (serves(view, identity)) return takeUp(view);
  const started = didSince(view, 'start-service') && isUp(server) && roleServer(view);
  // It runs and joins already: an earlier run may have died while it waited.
  const joining = !holdsPast(view) && isUp(server) && (standing === 'learner' || standing === 'unstarted');
  if (started || joining || (standing === 'learner' && isUp(server) && roleServer(view))) {
    return [awaitVoter(view, identity)];
  }
  const written = now.cluster.kind === 'text' ? now.cluster.text : '';
  const foreign = (written !== '' && written !== identity) || servesOther(view, identity);
  const clean = !isListed(standing) && isDown(server) && !holdsPast(view);
  return firstOf(
    () => (clean ? [] : keepDown(view)),
    () => (node?.ready === true && !clean ? drainFirst(view, 'it rejoins the cluster') : []),
    () => (clean ? [] : writeFiles(view, '', 'fence it: name nobody')),
    () => stop(view, 'k3s', 'it starts again with a fresh datastore'),
    () => stop(view, 'k3s-agent', 'it is declared a server'),
    () => removeMember(view),
    () => (holdsPast(view) ? guardFirst(view) : []),
    () => setAside(view, foreign ? ' tls cred' : ''),
    () =>
      node !== null && (node.removeAsked || node.removedName !== null)
        ? [step(view, 'clean-node', 'clear what the removal left on the Node', { value: 'stale' })]
        : [],
    () =>
      identity !== '' && written !== identity
        ? [step(view, 'write-identity', 'the cluster that it belongs to', { value: identity })]
        : [],
    () => writeFiles(view, 'server', 'name the server'),
    () => restorePolicy(view),
    () => clearPassword(view),
    () => [step(view, 'start-service', `${host.name} joins as a learner`, { service: 'k3s' })],
    () => [awaitVoter(view, world.members.identity ?? identity)],
  );
};

/** Its member votes in the right cluster and its k3s serves it: only what fenced it is taken back. */
function serves({ world, host, standing }: JobView, identity: string): boolean {
  const own = world.observed.servers.get(host.name);
  if (standing !== 'voter' || own === undefined || !valueOr(own.ready, false)) return false;
  return valueOr(own.identity, null) === identity;
}

function takeUp(view: JobView): ReturnType<Sequence> {
  return firstOf(
    () =>
      view.node?.removeAsked === true
        ? [step(view, 'cancel-removal', 'its removal was asked for and is not wanted any more')]
        : [],
    () => writeFiles(view, 'server', 'name the server again'),
    () => restorePolicy(view),
  );
}

function roleServer({ now }: JobView): boolean {
  return now.role.kind === 'text' && now.role.text === 'server';
}

function servesOther({ world, host }: JobView, identity: string): boolean {
  const server = world.observed.servers.get(host.name);
  const served = server === undefined ? null : valueOr(server.identity, null);
  return served !== null && served !== identity;
}

function awaitVoter(view: JobView, identity: string): ReturnType<typeof step> {
  return step(view, 'await-voter', 'the member list shows it as a voter of the same cluster', { value: identity });
}
