import type { DoneStep, Step } from '../../src/plan/step.js';

/** Steps after which the voters have to settle. */
const UNSETTLES: ReadonlySet<string> = new Set(['await-voter', 'confirm-removed', 'await-eviction']);

/** Steps that a rule may ask about; the others only say that something was done. */
const ASKED: ReadonlySet<string> = new Set([
  'snapshot',
  'drain',
  'start-service',
  'recreate-service',
  'clear-password',
  'delete-node',
  'write-record',
  'delete-record',
]);

const SOMETHING: DoneStep = { action: 'create-role-directory', host: '', service: null };

/**
 * What a run remembers after one more step. The rules are shown this and nothing else, so that runs which differ in what
 * is left out here are one run to them too: of what asks for a settling the last one that was not settled, of each other
 * step its last time, and a cleared password until a service starts with it.
 */
export function remember(done: readonly DoneStep[], { action, host, service }: Step): readonly DoneStep[] {
  const step: DoneStep = { action, host, service };
  const unsettles = UNSETTLES.has(action) || (action === 'recreate-service' && service === 'k3s');
  let kept = done.filter((one) => one !== SOMETHING && key(one) !== key(step));
  if (unsettles || action === 'settle') {
    kept = kept.filter(
      (one) => !UNSETTLES.has(one.action) && (one.action !== 'recreate-service' || one.service !== 'k3s'),
    );
  }
  if (action === 'uncordon') kept = kept.filter((one) => one.action !== 'drain' || one.host !== host);
  if (action === 'start-service') kept = kept.filter((one) => one.action !== 'clear-password' || one.host !== host);
  if (unsettles || ASKED.has(action)) kept = [...kept, step];
  return kept.length === 0 ? [SOMETHING] : kept.sort((one, other) => (rank(one) < rank(other) ? -1 : 1));
}

function key({ action, host, service }: DoneStep): string {
  return `${action} ${host} ${service ?? ''}`;
}

/** One order for equal memories; a service that started comes before a password that was cleared after it. */
function rank(step: DoneStep): string {
  return `${step.action === 'clear-password' ? 1 : 0} ${key(step)}`;
}

export function memoryKey(done: readonly DoneStep[]): string {
  return done.map(key).join(',');
}
