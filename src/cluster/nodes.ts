import { known, type NodeObservation, type Observation, PLAIN_NODE, unknown } from '../plan/observation.js';
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

/** The cluster's Nodes by name; unknown when the API does not answer or answers nonsense. */
export async function readNodes(kubectl: Kubectl): Promise<NonNullable<Observation['nodes']>> {
  const answer = await kubectl.run(['get', 'nodes', '-o', 'json', '--request-timeout=10s'], ASK_SECONDS);
  if (answer.kind === 'failed') return unknown(answer.why);
  const items = itemsOf(answer.text);
  if (items === null) return unknown('the list of Nodes is not what Kubernetes answers');
  const nodes = new Map<string, NodeObservation>();
  for (const item of items) {
    const name = stringAt(item, 'metadata', 'name');
    if (name === null) return unknown('the list of Nodes holds one without a name');
    const conditions = at(item, 'status', 'conditions');
    const ready =
      Array.isArray(conditions) &&
      conditions.some((condition) => at(condition, 'type') === 'Ready' && at(condition, 'status') === 'True');
    const cordonedBy = stringAt(item, 'metadata', 'annotations', CORDON_ANNOTATION);
    nodes.set(name, { ...PLAIN_NODE, ready, unschedulable: at(item, 'spec', 'unschedulable') === true, cordonedBy });
  }
  return known(nodes);
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

async function tell(kubectl: Kubectl, args: readonly string[]): Promise<string | null> {
  const answer = await kubectl.run([...args, '--request-timeout=10s'], ASK_SECONDS);
  return answer.kind === 'failed' ? answer.why : null;
}

/** The `items` of a Kubernetes list in JSON, or null. */
function itemsOf(text: string): readonly unknown[] | null {
  try {
    const items = at(JSON.parse(text), 'items');
    return Array.isArray(items) ? items : null;
  } catch {
    return null;
  }
}

function at(value: unknown, ...keys: readonly string[]): unknown {
  let found = value;
  for (const key of keys) {
    if (typeof found !== 'object' || found === null) return undefined;
    found = (found as Record<string, unknown>)[key];
  }
  return found;
}

function stringAt(value: unknown, ...keys: readonly string[]): string | null {
  const found = at(value, ...keys);
  return typeof found === 'string' ? found : null;
}
