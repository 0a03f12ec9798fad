import {
  known,
  type Observation,
  type RecordObservation,
  type ServerObservation,
  unknown,
} from '../plan/observation.js';
import {
  IDENTITY_QUESTION,
  MEMBERS_QUESTION,
  READY_QUESTION,
  readIdentity,
  readMembers,
  readReady,
} from './identity.js';
import { stringAt } from './json.js';
import { askedBefore, type Kubectl } from './kubectl.js';
import { itemsOf, NODES_QUESTION, readNodes } from './nodes.js';
import { type ClusterRecord, RECORD_QUESTION, readRecord } from './record.js';
import { firstKnown } from './waits.js';

/** The most that one look at a server's API may take; each question has a bound of its own. */
const LOOK_SECONDS = 60;

/** A server host by its inventory name, and kubectl there. */
export interface Server {
  readonly name: string;
  readonly kubectl: Kubectl;
}

/**
 * What the cluster says: identity, member list and readiness of every server, Nodes and record of the first that tells
 * them. A server that does not answer is unknown in each of its parts.
 */
export async function lookAtCluster(
  servers: readonly Server[],
): Promise<Pick<Observation, 'servers' | 'nodes' | 'record'>> {
  // One command a server; the first one tells Nodes and record as well.
  const [first, ...rest] = await Promise.all(
    servers.map(async ({ kubectl }, index) => {
      const more = index === 0 ? [NODES_QUESTION, RECORD_QUESTION] : [];
      return askedBefore(kubectl, [IDENTITY_QUESTION, MEMBERS_QUESTION, READY_QUESTION, ...more], LOOK_SECONDS);
    }),
  );
  const all = first === undefined ? [] : [first, ...rest];
  const [told, nodes, record] = await Promise.all([
    Promise.all(all.map(async (kubectl, index) => [servers[index]?.name ?? '', await lookAtServer(kubectl)] as const)),
    firstKnown(all, readNodes),
    firstKnown(all, readRecord),
  ]);
  return {
    servers: new Map(told),
    nodes,
    record:
      record.kind === 'unknown'
        ? unknown(record.why)
        : known(record.value === null ? null : observed(record.value.record)),
  };
}

async function lookAtServer(kubectl: Kubectl): Promise<ServerObservation> {
  const [identity, members, ready] = await Promise.all([
    readIdentity(kubectl),
    readMembers(kubectl),
    readReady(kubectl),
  ]);
  return { identity, members, ready };
}

function observed(record: ClusterRecord): RecordObservation {
  return {
    commit: record.commit,
    started: record.started,
    begun: record.begun?.split(' ') ?? [],
    repository: record.repository ?? '',
    group: record.group ?? '',
    identity: record.identity ?? '',
    run: record.run ?? '',
  };
}

/** The node of the first pod that has one of these names; null when there is none, or nobody says (rule 11). */
export async function nodeOfPod(kubectl: Kubectl, names: readonly string[]): Promise<string | null> {
  for (const name of names) {
    if (!/^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/.test(name)) continue;
    const args = ['get', 'pods', '--all-namespaces', '-o', 'json', `--field-selector=metadata.name=${name}`];
    const answer = await kubectl.run([...args, '--request-timeout=10s'], 30);
    const pods = answer.kind === 'answered' ? itemsOf(answer.text) : null;
    const node = pods?.map((pod) => stringAt(pod, 'spec', 'nodeName')).find((each) => each !== null);
    if (node != null) return node;
  }
  return null;
}
