import { type ReachedHost, valueOr } from '../observation.js';
import { type StepKind, stepOn } from './kind.js';

/** The name that `COMPOSE_FILE` gets, and the step's value for it. */
export const LISTING = 'COMPOSE_FILE';

/** Exactly the publishing Compose hosts have the override file. */
export const addOverride: StepKind = {
  action: 'add-override',
  wanted(view) {
    const { desired, now } = view;
    if (desired.leaving || desired.host.runtime !== 'compose') return [];
    if (!desired.host.publishesLabels || now.override.placed === 'ours-entrypoint') return [];
    const replaces = view.world.intent.installGuards === 'always';
    if (!replaces && now.override.placed === 'ours') return [];
    const mounts = 'place docker-compose.fleet-role.yml, which mounts the role directory';
    if (!replaces) return [stepOn(view, 'add-override', mounts)];
    const detail = `${mounts} and starts the entrypoint that lies in it`;
    return [stepOn(view, 'add-override', detail, { value: 'entrypoint' })];
  },
  predict: (step, now) => ({
    ...now,
    override: { ...now.override, placed: step.value === null ? 'ours' : 'ours-entrypoint' },
  }),
};

/**
 * The override is listed at once only where neither service has a container: one that is listed but not mounted makes
 * the next `docker compose up -d` recreate the node, undrained.
 */
export const listOverride: StepKind = {
  action: 'write-environment',
  wanted(view) {
    const { desired, now } = view;
    if (desired.leaving || desired.host.runtime !== 'compose') return [];
    if (!desired.host.publishesLabels || now.override.listed || !mayBeListed(now)) return [];
    const detail = 'name the override in COMPOSE_FILE of .env, since no container is there that it would recreate';
    return [stepOn(view, 'write-environment', detail, { value: LISTING })];
  },
  predict: (_step, now) => ({ ...now, override: { ...now.override, listed: true } }),
};

/** Docker said that neither service has a container. */
function mayBeListed(now: ReachedHost): boolean {
  const services = valueOr(now.services, null);
  return services !== null && Object.values(services).every((service) => service.state === 'absent');
}

/** A host that does not publish has no override: its entry is taken out of COMPOSE_FILE, then the file goes. */
export const removeOverride: StepKind = {
  action: 'remove-override',
  wanted(view) {
    const { desired, now } = view;
    if (desired.leaving || desired.host.runtime !== 'compose' || desired.host.publishesLabels) return [];
    if (now.override.placed === 'absent' && !now.override.listed) return [];
    const detail = 'take the override out of COMPOSE_FILE and delete its file; no container is recreated';
    return [stepOn(view, 'remove-override', detail)];
  },
  predict: (_step, now) => ({ ...now, override: { placed: 'absent', listed: false } }),
};
