import { type DesiredHost, hostsToContact, type SeenWorld, type World } from './desired.js';
import { known, type Observation } from './observation.js';
import { HOST_RULES } from './rules/index.js';
import { rejoinRefusals } from './rules/rejoin.js';
import { noClusterYet, serving } from './serving.js';
import type { Refusal, Step } from './step.js';
import { kindOf, STEP_KINDS } from './steps/index.js';

export interface NextSteps {
  /**
   * What may be done now. The steps of one host are done in this order and in one go; those of different hosts are
   * independent of each other.
   */
  readonly now: readonly Step[];
  /** Why other things are not done. */
  readonly refused: readonly Refusal[];
}

/**
 * The next steps of one cluster: what each host needs, unless a rule speaks against acting on it. Pure; done when both
 * lists are empty. An invalid cluster has none.
 */
export function nextSteps(world: World): NextSteps {
  const { intent, desired: wanted } = world;
  if (!wanted.cluster.valid) return { now: [], refused: [] };
  if (intent.mode === 'rejoin') return { now: [], refused: rejoinRefusals(wanted.cluster, intent) };
  const seen: SeenWorld = { ...world, serving: serving(world), noCluster: noClusterYet(world) };
  const entries = hostsToContact(world.desired);
  const refused = entries.flatMap((entry) => HOST_RULES.flatMap((rule) => rule(seen, entry)));
  const stopped = new Set(refused.flatMap((refusal) => refusal.hosts));
  const now = entries.filter((entry) => !stopped.has(entry.host.name)).flatMap((entry) => hostSteps(seen, entry));
  return { now, refused };
}

function hostSteps(world: SeenWorld, desired: DesiredHost): readonly Step[] {
  const seen = world.observed.hosts.get(desired.host.name);
  if (seen?.kind !== 'reached' || !(seen.provisioned || desired.leaving)) return [];
  const view = { world, desired, now: seen };
  return STEP_KINDS.flatMap((kind) => kind.wanted(view));
}

/** The world as it will be observed after these steps. A step on a host that was not reached changes nothing. */
export function predict(steps: readonly Step[], world: World): World {
  const { observed, desired } = world;
  const hosts = new Map(observed.hosts);
  let nodes = observed.nodes;
  for (const step of steps) {
    const seen = hosts.get(step.host);
    if (seen?.kind === 'reached') hosts.set(step.host, kindOf(step).predict(step, seen));
    if (step.action === 'delete-node') nodes = withoutNode(nodes, desired, step);
  }
  const done = steps.map(({ action, host }) => ({ action, host }));
  return { ...world, observed: { ...observed, hosts, nodes, run: { done: [...observed.run.done, ...done] } } };
}

function withoutNode(nodes: Observation['nodes'], desired: World['desired'], step: Step): Observation['nodes'] {
  if (nodes?.kind !== 'known') return nodes;
  const gone = desired.hosts.find((entry) => entry.host.name === step.host)?.host.nodeName;
  return known(new Map([...nodes.value].filter(([name]) => name !== gone)));
}
