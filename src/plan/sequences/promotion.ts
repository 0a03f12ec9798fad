import { isDown, isUp } from '../jobs.js';
import { clearPassword, guardFirst, listFirst, recreate, setAside, stop, writeFiles } from './parts.js';
import { drainFirst, firstOf, holdsPast, type Sequence, step } from './view.js';

/** Agent → server: drained, fenced from being an agent, cleared of its past, then a learner, then a voter. */
export const promotion: Sequence = (view) => {
  const { host, now, node, server, agent, standing, world } = view;
  const fresh = standing === 'none';
  return firstOf(
    () => (isUp(agent) ? drainFirst(view, 'it becomes a server') : []),
    () => [...writeFiles(view, 'server', 'name the server'), ...listFirst(view)],
    () => stop(view, 'k3s-agent', 'it becomes a server'),
    () => recreate(view, 'k3s-agent', 'with the guards, not started, so that nothing brings the agent back'),
    () =>
      fresh && (holdsPast(view) || !isUp(server))
        ? stop(view, 'k3s', holdsPast(view) ? 'what it started from belongs to a former member' : 'it only idles')
        : [],
    () => (fresh && holdsPast(view) ? guardFirst(view) : []),
    () => (fresh && isDown(server) ? setAside(view) : []),
    () =>
      fresh && !isUp(server) && node !== null && (node.removeAsked || node.removedName !== null)
        ? [step(view, 'clean-node', 'clear what an earlier removal left on the Node', { value: 'stale' })]
        : [],
    () => {
      const sans = host.tlsSans.join(' ');
      if (isUp(server) || sans === '' || now.tlsSans === sans) return [];
      const detail = 'every server of the cluster and its own address go into its certificate';
      return [step(view, 'write-environment', detail, { service: 'k3s', value: `K3S_TLS_SAN_LIST=${sans}` })];
    },
    () =>
      isUp(server)
        ? []
        : firstOf(
            () => clearPassword(view),
            () => [
              step(view, 'start-service', fresh ? 'it joins as a learner' : 'its member is listed, and waits for it', {
                service: 'k3s',
              }),
            ],
          ),
    () => [
      step(view, 'await-voter', 'the member list shows it as a voter of the same cluster', {
        value: world.members.identity ?? '',
      }),
    ],
  );
};
