import { type HostView, nodeOf } from '../desired.js';
import { valueOr } from '../observation.js';
import { type StepKind, stepOn } from './kind.js';
import { predictStopped } from './role-files.js';

// A leaving host goes one stage at a time: fenced by its empty role file, drained, stopped, and only then its Node.

/** The node's pods go elsewhere before its services are stopped. */
export const drainNode: StepKind = {
  action: 'drain',
  wanted(view) {
    if (!isFenced(view) || !needsDrain(view)) return [];
    const how = view.world.intent.drain === 'wait' ? 'cordon it, wait for its runner pods, then' : 'cordon it, then';
    return [stepOn(view, 'drain', `${how} evict its other pods: the host left the inventory`)];
  },
  predict: (_step, now) => now,
};

/** Both services of a leaving host are stopped, by name. */
export const stopLeaving: StepKind = {
  action: 'stop-service',
  wanted(view) {
    if (!isFenced(view) || needsDrain(view)) return [];
    return runningServices(view).map((service) =>
      stepOn(view, 'stop-service', 'the host left the inventory', { service }),
    );
  },
  predict: predictStopped,
};

/** The Node goes last: a service that still ran would register it again. */
export const deleteNode: StepKind = {
  action: 'delete-node',
  wanted(view) {
    if (!isFenced(view) || runningServices(view).length > 0 || !hasNode(view)) return [];
    return [
      stepOn(
        view,
        'delete-node',
        `delete the Node ${view.desired.host.nodeName ?? 'of the name that the host reports'}`,
      ),
    ];
  },
  predict: (_step, now) => now,
};

/** Without a project directory there is nothing to fence: docker answered, and what ran there is gone. */
function isFenced({ desired, now }: HostView): boolean {
  if (!desired.leaving) return false;
  return now.provisioned ? now.role.kind === 'text' && now.role.text === '' : now.services.kind === 'known';
}

function needsDrain(view: HostView): boolean {
  const { world, desired } = view;
  if (world.intent.drain === 'none' || !hasNode(view) || runningServices(view).length === 0) return false;
  const drained = world.observed.run.done.some((step) => step.action === 'drain' && step.host === desired.host.name);
  // A Node that is not cordoned any more (it was deleted and came back) takes work again.
  return !drained || nodeOf(world, desired.host)?.unschedulable !== true;
}

function hasNode({ world, desired }: HostView): boolean {
  const { nodes, observed, run } = world.observed;
  const { name, nodeName } = desired.host;
  if (nodes?.kind !== 'known') return false;
  if (nodeName !== null) return nodes.value.has(nodeName);
  // An unobserved plan assumes that the host will report the name of a Node; an observed one is refused without it.
  return !observed && !run.done.some((step) => step.action === 'delete-node' && step.host === name);
}

function runningServices({ now }: HostView): readonly ('k3s' | 'k3s-agent')[] {
  const services = valueOr(now.services, null);
  if (services === null) return [];
  return (['k3s', 'k3s-agent'] as const).filter((service) => !['absent', 'stopped'].includes(services[service].state));
}
