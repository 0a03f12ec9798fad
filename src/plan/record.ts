import type { SeenWorld } from './desired.js';
import { step } from './sequences/view.js';
import type { Step } from './step.js';

/**
 * The last step of a complete apply: its commit goes into the record, or, with the controller off, the record goes.
 * Where no host needed anything and there is a record already, the apply writes it without a step: nothing changed.
 */
export function recordStep(world: SeenWorld): readonly Step[] {
  const { observed, intent, desired, members } = world;
  const { record } = observed;
  const through = members.through[0];
  if (record?.kind !== 'known' || through === undefined || intent.mode === 'rejoin') return [];
  const { value } = record;
  if (desired.cluster.controller !== true) {
    return value === null ? [] : [step({ host: through }, 'delete-record', 'the controller is off')];
  }
  if (intent.mode === 'drift' || members.identity === null) return [];
  const changed = observed.run.done.length > 0;
  if (value !== null && value.commit !== null && (value.commit === intent.head || !changed)) return [];
  return [step({ host: through }, 'write-record', 'everything is as this commit declares it', { value: intent.head })];
}
