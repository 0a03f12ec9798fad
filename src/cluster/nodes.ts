import { known, type NodeObservation, type Observation, unknown } from '../plan/observation.js';
import { at, parseJson, stringAt } from './json.js';
import type { Kubectl } from './kubectl.js';

/** Our cordon carries the run that made it: whoever finds it on a node that no step needs may lift it. */
export const CORDON_ANNOTATION = 'fleet-role/cordoned-by';

const ASK_SECONDS = 30;
export interface DrainOptions {
  /** Identifies the run, for the cordon's annotation. */
  readonly run: string;
  readonly how: 'wait' | 'evict';
  /** Label selector of the runner pods that are waited for. */
  readonly runnerSelector: string;
  readonly drainSeconds: number;
  readonly stepSeconds: number;
  /** Once aborted, waiting ends and our cordon is lifted. */
  readonly signal: AbortSignal;
  readonly sleep: (milliseconds: number) => Promise<void>;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
}

/** k3s's own names on a Node (facts 1.1, 3.4, 3.6). Nobody else here knows them. */
export const ETCD_LABEL = 'node-role.kubernetes.io/etcd';
export const SERVER_LABELS = ['node-role.kubernetes.io/control-plane', ETCD_LABEL, 'node-role.kubernetes.io/master'];
const PREFIX = 'etcd.k3s.cattle.io/';
export const REMOVE = `${PREFIX}remove`;
export const REMOVED_NAME = `${PREFIX}removed-node-name`;
export const MEMBER_NAME = `${PREFIX}node-name`;
export const MEMBER_ADDRESS = `${PREFIX}node-address`;
/** What a node that was a server keeps, beside its labels. */
export const SERVER_ANNOTATIONS = [
  REMOVE,
  REMOVED_NAME,
  MEMBER_NAME,
  MEMBER_ADDRESS,
  `${PREFIX}local-snapshots-timestamp`,
  `${PREFIX}s3-snapshots-timestamp`,
  'k3s.io/encryption-config-hash',
];

const annotationAt = (name: string): string => `.metadata.annotations.${name.replace(/\./g, '\\.')}`;
const conditionAt = (type: string): string => `.status.conditions[?(@.type=="${type}")].status`;
/** What is asked of a Node, in this order. kubectl prints a map as JSON in one line, and what is absent as nothing. */
const FIELDS = [
  '.metadata.name',
  '.metadata.labels',
  '.spec.unschedulable',
  conditionAt('Ready'),
  conditionAt('EtcdIsVoter'),
  '.status.addresses[?(@.type=="InternalIP")].address',
  '.status.nodeInfo.kubeletVersion',
  annotationAt(CORDON_ANNOTATION),
  ...SERVER_ANNOTATIONS.map(annotationAt),
];
/**
 * One line a Node: a whole Node names 50 images and more and takes over 10 KiB, which no answer has room for a thousand
 * times; these fields take less than 1 KiB. The first and the last line tell a whole answer from any other text.
 */
export const NODES_QUESTION = [
  ...['get', 'nodes', '-o'],
  `jsonpath={.kind}{"\\n"}{range .items[*]}${FIELDS.map((field) => `{${field}}`).join('{"\\t"}')}{"\\n"}{end}end{"\\n"}`,
  '--request-timeout=10s',
];

/** The cluster's Nodes by name; unknown when the API does not answer or answers nonsense. */
export async function readNodes(kubectl: Kubectl): Promise<NonNullable<Observation['nodes']>> {
  const answer = await kubectl.run(NODES_QUESTION, ASK_SECONDS);
  if (answer.kind === 'failed') return unknown(answer.why);
  const [first, ...lines] = answer.text.trimEnd().split('\n');
  if (first !== 'List' || lines.pop() !== 'end') return unknown('the list of Nodes is not what Kubernetes answers');
  const nodes = new Map<string, NodeObservation>();
  for (const line of lines) {
    const fields = line.split('\t');
    const [name = ''] = fields;
    const node = fields.length === FIELDS.length ? nodeIn(fields) : null;
    if (name === '' || node === null) return unknown('the list of Nodes holds one that is not what Kubernetes answers');
    nodes.set(name, node);
  }
  return known(nodes);
}

/** The Node in its fields; null where they are none. */
function nodeIn(fields: readonly string[]): NodeObservation | null {
  const field = (path: string): string | null => fields[FIELDS.indexOf(path)] || null;
  const annotation = (name: string): string | null => field(annotationAt(name));
  const labels = parseJson(field('.metadata.labels') ?? '{}');
  if (typeof labels !== 'object' || labels === null) return null;
  const label = (name: string): boolean => at(labels, name) !== undefined;
  const isVoter = field(conditionAt('EtcdIsVoter'));
  return {
    ready: field(conditionAt('Ready')) === 'True',
    unschedulable: field('.spec.unschedulable') === 'true',
    cordonedBy: annotation(CORDON_ANNOTATION),
    etcdLabel: label(ETCD_LABEL),
    isVoter: isVoter === null ? null : isVoter === 'True',
    memberName: annotation(MEMBER_NAME),
    memberAddress: annotation(MEMBER_ADDRESS),
    removedName: annotation(REMOVED_NAME),
    removeAsked: annotation(REMOVE)?.toLowerCase() === 'true',
    serverTraces: SERVER_LABELS.some(label) || SERVER_ANNOTATIONS.some((name) => annotation(name) !== null),
    // Of two stacks the first counts; kubectl prints both, with a space between.
    internalAddress: field('.status.addresses[?(@.type=="InternalIP")].address')?.split(' ')[0] ?? null,
    version: field('.status.nodeInfo.kubeletVersion'),
  };
}

/**
 * Cordons the Node, waits for its runner pods (`how: wait`), then evicts what else runs there. Null when it is done,
 * else why it failed; our cordon is lifted then. A Node that someone else cordoned stays so.
 */
export async function drainNode(kubectl: Kubectl, node: string, options: DrainOptions): Promise<string | null> {
  const nodes = await readNodes(kubectl);
  if (nodes.kind === 'unknown') return nodes.why;
  const seen = nodes.value.get(node);
  if (seen === undefined) return null;
  // One that a run of ours left behind is taken over; one of somebody else stays theirs.
  const foreign = seen.unschedulable && seen.cordonedBy === null;
  if (!foreign) {
    // The annotation first: a cordon without it would look like somebody else's for ever.
    const marked = await tell(kubectl, [
      'annotate',
      'node',
      node,
      `${CORDON_ANNOTATION}=${options.run}`,
      '--overwrite',
    ]);
    const why = marked ?? (await tell(kubectl, ['cordon', node]));
    if (why !== null) return why;
  }
  const why =
    (options.how === 'wait' ? await awaitRunners(kubectl, node, options) : null) ??
    (await evict(kubectl, node, options));
  if (why === null || foreign) return why;
  const lifted = await uncordonNode(kubectl, node);
  return lifted === null ? `${why} The node was uncordoned.` : `${why} The node is still cordoned (${lifted}).`;
}

/** Lifts our cordon. Null when it is done, else why not. */
export async function uncordonNode(kubectl: Kubectl, node: string): Promise<string | null> {
  return (
    (await tell(kubectl, ['uncordon', node])) ??
    (await tell(kubectl, ['annotate', 'node', node, `${CORDON_ANNOTATION}-`]))
  );
}

/** Deletes the Node without waiting for its finalizers. Null when it is done or was not there. */
export function deleteNode(kubectl: Kubectl, node: string): Promise<string | null> {
  return tell(kubectl, ['delete', 'node', node, '--wait=false', '--ignore-not-found']);
}

async function awaitRunners(kubectl: Kubectl, node: string, options: DrainOptions): Promise<string | null> {
  const end = options.clock() + options.drainSeconds * 1000;
  for (;;) {
    const args = ['get', 'pods', '--all-namespaces', '-o', 'json', `--field-selector=spec.nodeName=${node}`];
    const answer = await kubectl.run(
      [...args, `--selector=${options.runnerSelector}`, '--request-timeout=10s'],
      ASK_SECONDS,
    );
    if (answer.kind === 'failed') return `The runner pods on ${node} are not known: ${answer.why}.`;
    const pods = itemsOf(answer.text);
    if (pods === null) return `The list of pods on ${node} is not what Kubernetes answers.`;
    const working = pods.filter((pod) => !['Succeeded', 'Failed'].includes(stringAt(pod, 'status', 'phase') ?? ''));
    if (working.length === 0) return null;
    if (options.signal.aborted) return 'The run was cancelled while it waited for runner pods.';
    if (options.clock() >= end) {
      return `${working.length} runner pods still work on ${node} after ${options.drainSeconds} seconds (input drain-timeout).`;
    }
    await options.sleep(Math.min(5000, Math.max(0, end - options.clock())));
  }
}

async function evict(kubectl: Kubectl, node: string, options: DrainOptions): Promise<string | null> {
  const args = ['drain', node, '--ignore-daemonsets', '--delete-emptydir-data', '--force'];
  const answer = await kubectl.run([...args, `--timeout=${options.stepSeconds}s`], options.stepSeconds + ASK_SECONDS);
  return answer.kind === 'failed' ? answer.why : null;
}

export async function tell(kubectl: Kubectl, args: readonly string[]): Promise<string | null> {
  const answer = await kubectl.run([...args, '--request-timeout=10s'], ASK_SECONDS);
  return answer.kind === 'failed' ? answer.why : null;
}

/** The `items` of a Kubernetes list in JSON, or null. */
export function itemsOf(text: string): readonly unknown[] | null {
  const items = at(parseJson(text), 'items');
  return Array.isArray(items) ? items : null;
}
