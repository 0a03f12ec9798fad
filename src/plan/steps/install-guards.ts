import { type StepKind, stepOn } from './kind.js';

/** The guard scripts of this version lie in the role directory of every publishing host. */
export const installGuards: StepKind = {
  action: 'install-guards',
  wanted(view) {
    const { desired, now, world } = view;
    if (desired.leaving || !desired.host.publishesLabels || world.intent.installGuards === 'never') return [];
    const { guardsVersion } = world.intent;
    if (now.guardsInstalled === guardsVersion) return [];
    const from = now.guardsInstalled === null ? '' : ` over version ${now.guardsInstalled}`;
    const detail = `put the guard scripts of version ${guardsVersion} into the role directory${from}`;
    return [stepOn(view, 'install-guards', detail, { value: guardsVersion })];
  },
  predict: (step, now) => ({ ...now, guardsInstalled: step.value }),
};
