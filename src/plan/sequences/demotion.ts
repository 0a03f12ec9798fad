import { isDown, isListed } from '../jobs.js';
import {
  clearPassword,
  guardFirst,
  keepDown,
  othersPointHere,
  removeMember,
  restorePolicy,
  setAside,
  stop,
  writeFiles,
} from './parts.js';
import { drainFirst, firstOf, type JobView, type Sequence, step } from './view.js';

/** Server → agent: fenced, asked away while its k3s still runs, proved, stopped, set aside, cleaned, then an agent. */
export const demotion: Sequence = (view) =>
  isListed(view.standing) ? takeOut(view, 'agent', 'it becomes an agent') : becomeAgent(view);

/** A removed host is demoted without starting an agent; its fence is an empty role from the first. */
export const removal: Sequence = (view) => {
  if (isListed(view.standing)) return takeOut(view, '', 'the host left the inventory');
  return firstOf(
    () => drainFirst(view, 'the host left the inventory'),
    () => writeFiles(view, '', 'name nobody, so that nothing starts here again'),
    () => [...stop(view, 'k3s', 'its member is gone'), ...stop(view, 'k3s-agent', 'the host left the inventory')],
    () => guardFirst(view),
    () => setAside(view),
  );
};

function takeOut(view: JobView, role: 'agent' | '', why: string): ReturnType<Sequence> {
  return firstOf(
    () => keepDown(view),
    () => drainFirst(view, why),
    () => writeFiles(view, role, role === '' ? 'fence it: name nobody' : 'fence it: name the agent'),
    () => removeMember(view),
  );
}

function becomeAgent(view: JobView): ReturnType<Sequence> {
  const { node, agent } = view;
  return firstOf(
    () => (isDown(view.server) ? [] : drainFirst(view, 'it becomes an agent')),
    () => writeFiles(view, 'agent', 'name the agent'),
    () => stop(view, 'k3s', 'its member is gone'),
    () => guardFirst(view),
    () => (agent.state === 'running' ? [] : setAside(view)),
    () =>
      node?.serverTraces === true
        ? [step(view, 'clean-node', 'take the server labels and etcd annotations from the Node', { value: 'server' })]
        : [],
    () => restorePolicy(view),
    () =>
      agent.state === 'running'
        ? []
        : firstOf(
            () => clearPassword(view),
            () => [step(view, 'start-service', 'it is an agent from now on', { service: 'k3s-agent' })],
          ),
  );
}

/** Others are re-pointed before anything is begun here. */
export function waitsForOthers(view: JobView): boolean {
  return isListed(view.standing) && othersPointHere(view.world, view.host).length > 0;
}
