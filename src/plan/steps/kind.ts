import type { HostView } from '../desired.js';
import type { ReachedHost } from '../observation.js';
import type { Action, Step } from '../step.js';

/** One step: when it is wanted on a host, and what will be observed after it. A new step is a new one of these. */
export interface StepKind {
  readonly action: Action;
  /** The steps of this kind that the host needs now, in order; none when it has what it should. */
  wanted(view: HostView): readonly Step[];
  /** The host as it will be observed once the step is done. */
  predict(step: Step, now: ReachedHost): ReachedHost;
}

/** A step on this host; `value` is what is written. */
export function stepOn(
  view: HostView,
  action: Action,
  detail: string,
  more: Partial<Pick<Step, 'service' | 'value'>> = {},
): Step {
  return { action, host: view.desired.host.name, service: more.service ?? null, value: more.value ?? null, detail };
}
