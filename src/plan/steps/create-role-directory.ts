import { anyPublishes } from '../desired.js';
import { type StepKind, stepOn } from './kind.js';

/** Every Compose host of a cluster in which any host publishes has the role directory, a leaving one for its fence. */
export const createRoleDirectory: StepKind = {
  action: 'create-role-directory',
  wanted(view) {
    const { desired, now, world } = view;
    if (!now.provisioned || desired.host.runtime !== 'compose' || !anyPublishes(world.desired.cluster)) return [];
    if (now.roleDirectory === 'present') return [];
    return [stepOn(view, 'create-role-directory', 'create the empty role directory, which names nobody')];
  },
  predict: (_step, now) => ({ ...now, roleDirectory: 'present' }),
};
