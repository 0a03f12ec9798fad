import type { Member } from '../plan/observation.js';
import type { Kubectl } from './kubectl.js';
import {
  ETCD_LABEL,
  MEMBER_ADDRESS,
  MEMBER_NAME,
  REMOVE,
  REMOVED_NAME,
  readNodes,
  SERVER_ANNOTATIONS,
  SERVER_LABELS,
  tell,
} from './nodes.js';

/**
 * Asks k3s to remove the node's member, in one patch that clears `removed-node-name` with it: a stale one makes k3s
 * swallow the request (fact 1.7). What the Node lacks of the label and the annotations by which k3s finds the member
 * (fact 1.2) comes from the member list. Null when it is asked, which proves nothing; else why not.
 */
export async function removeMember(kubectl: Kubectl, node: string, member: Member | null): Promise<string | null> {
  const nodes = await readNodes(kubectl);
  if (nodes.kind === 'unknown') return nodes.why;
  const seen = nodes.value.get(node);
  if (seen === undefined) return `The cluster has no Node ${node}, and k3s finds a member by its Node.`;
  const annotations: Record<string, string | null> = { [REMOVE]: 'true', [REMOVED_NAME]: null };
  if (seen.memberName === null || seen.memberAddress === null || seen.memberName !== member?.name) {
    const address = member?.addresses[0];
    if (member === null || address === undefined) return `No member list says which member ${node} is.`;
    annotations[MEMBER_NAME] = member.name;
    annotations[MEMBER_ADDRESS] = address;
  }
  const labels = seen.etcdLabel ? {} : { labels: { [ETCD_LABEL]: 'true' } };
  return patchNode(kubectl, node, { ...labels, annotations });
}

/** Takes a removal that was asked for back, as long as k3s has not acted on it. Null when it is done, else why not. */
export function cancelRemoval(kubectl: Kubectl, node: string): Promise<string | null> {
  return patchNode(kubectl, node, { annotations: { [REMOVE]: null } });
}

/** Clears what an earlier removal left, so that the next one is not swallowed. Null when it is done, else why not. */
export function clearStaleRemoval(kubectl: Kubectl, node: string): Promise<string | null> {
  return patchNode(kubectl, node, { annotations: { [REMOVE]: null, [REMOVED_NAME]: null } });
}

/** Takes the labels and annotations of a server from the Node, in one patch. Null when it is done, else why not. */
export function clearServerTraces(kubectl: Kubectl, node: string): Promise<string | null> {
  const nothing = (names: readonly string[]): Record<string, null> =>
    Object.fromEntries(names.map((name) => [name, null]));
  return patchNode(kubectl, node, { labels: nothing(SERVER_LABELS), annotations: nothing(SERVER_ANNOTATIONS) });
}

/** Deletes the node's password secret (fact 4.7). Null when there is none any more, else why not. */
export function clearPassword(kubectl: Kubectl, node: string): Promise<string | null> {
  const secret = `${node.toLowerCase()}.node-password.k3s`;
  return tell(kubectl, ['delete', 'secret', secret, '--namespace=kube-system', '--ignore-not-found']);
}

/** Saves the datastore beside the others of the server that is asked. Null when it is done, else why not. */
export async function saveSnapshot(kubectl: Kubectl, seconds: number): Promise<string | null> {
  const answer = await kubectl.k3s(['etcd-snapshot', 'save', '--name', 'fleet-role'], seconds);
  return answer.kind === 'failed' ? answer.why : null;
}

function patchNode(
  kubectl: Kubectl,
  node: string,
  metadata: Readonly<Record<string, Readonly<Record<string, string | null>>>>,
): Promise<string | null> {
  return tell(kubectl, ['patch', 'node', node, '--type=merge', '--patch', JSON.stringify({ metadata })]);
}
