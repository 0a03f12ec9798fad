import { JOIN_VARIABLES, type Service, serviceOf } from '../../fleet/fleet.js';
import type { HostView } from '../desired.js';
import { type FileState, type ReachedHost, valueOr } from '../observation.js';
import { joinUrlNow } from '../serving.js';
import { type StepKind, stepOn } from './kind.js';

const holds = (file: FileState, text: string): boolean =>
  file.kind === 'text' ? file.text === text : file.kind === 'absent' && text === '';

/** The host's join-url file holds what rule 5 gives it. Nothing restarts for it. */
export const writeJoinUrl: StepKind = {
  action: 'write-join-url',
  wanted(view) {
    if (view.desired.leaving || view.desired.host.roleFile === null) return [];
    const now = joinUrlNow(view);
    // The rule `adoption` refuses such a host.
    if (now.kind === 'unknown') return [];
    const url = now.value;
    if (holds(view.now.joinUrl, url)) return [];
    const detail = url === '' ? 'there is no other server to join' : `join the cluster through ${url}`;
    return [stepOn(view, 'write-join-url', detail, { value: url })];
  },
  predict: (step, now) => ({ ...now, joinUrl: { kind: 'text', text: step.value ?? '' } }),
};

/** The role file holds the declared role; that of a leaving host holds nothing, which names nobody. */
export const writeRole: StepKind = {
  action: 'write-role',
  wanted(view) {
    const { desired, now } = view;
    const role = desired.leaving ? '' : desired.host.roleFile;
    if (role === null || !now.provisioned) return [];
    if (now.role.kind === 'text' && now.role.text === role) return [];
    const detail = desired.leaving ? 'name nobody, so that nothing starts here again' : `name the ${role}`;
    return [stepOn(view, 'write-role', detail, { value: role })];
  },
  predict: (step, now) => ({ ...now, role: { kind: 'text', text: step.value ?? '' } }),
};

/** The controller was turned off: what the host's join-url file said must not be lost with it. */
export const keepJoinUrl: StepKind = {
  action: 'write-environment',
  wanted(view) {
    const { desired, now } = view;
    if (desired.leaving || desired.host.roleFile !== null) return [];
    const url = now.joinUrl.kind === 'text' ? now.joinUrl.text : '';
    const service = serviceOf(desired.host.role);
    if (url === '' || now.environment[service] === url) return [];
    const detail = `keep the join URL that goes with the join-url file: ${url}`;
    return [stepOn(view, 'write-environment', detail, { service, value: `${JOIN_VARIABLES[service]}=${url}` })];
  },
  predict(step, now) {
    const url = step.value?.slice(step.value.indexOf('=') + 1) ?? null;
    return step.service === null ? now : { ...now, environment: { ...now.environment, [step.service]: url } };
  },
};

/** The controller was turned off: the role file goes, and the join-url file unless a running container needs it. */
export const clearRoleFiles: StepKind = {
  action: 'clear-role-files',
  wanted(view) {
    const { desired, now } = view;
    if (desired.leaving || desired.host.roleFile !== null) return [];
    const files = [
      ...(now.role.kind === 'absent' ? [] : ['role']),
      ...(now.joinUrl.kind === 'absent' || needsJoinUrlFile(view) ? [] : ['join-url']),
    ];
    if (files.length === 0) return [];
    const kept = now.joinUrl.kind !== 'absent' && !files.includes('join-url');
    const detail = kept
      ? 'remove role; join-url stays until the container that mounts it is recreated, since its own environment names another URL'
      : `remove ${files.join(' and ')}: the controller is off`;
    return [stepOn(view, 'clear-role-files', detail, { value: files.join(' ') })];
  },
  predict(step, now) {
    const files = (step.value ?? '').split(' ');
    return {
      ...now,
      role: files.includes('role') ? { kind: 'absent' } : now.role,
      joinUrl: files.includes('join-url') ? { kind: 'absent' } : now.joinUrl,
    };
  },
};

/** A running container keeps the environment it was created with: without the file it would join what that names. */
function needsJoinUrlFile({ now }: HostView): boolean {
  const url = now.joinUrl.kind === 'text' ? now.joinUrl.text : '';
  if (url === '') return false;
  const services = valueOr(now.services, null);
  if (services === null) return true;
  return Object.values(services).some(
    (service) =>
      service.mounted && !['absent', 'stopped'].includes(service.state) && service.joinUrlEnvironment !== url,
  );
}

/** Whether the role file names this service: one that is up without k3s is then only on its way, not idle. */
function names(role: FileState, service: Service): boolean {
  return role.kind === 'text' && role.text === (service === 'k3s' ? 'server' : 'agent');
}

/** A service that only idles is stopped before its role file goes: the next reboot would start it in earnest. */
export const stopIdle: StepKind = {
  action: 'stop-service',
  wanted(view) {
    const { desired, now } = view;
    if (desired.leaving || desired.host.roleFile !== null || now.role.kind === 'absent') return [];
    const services = valueOr(now.services, null);
    if (services === null) return [];
    return (['k3s', 'k3s-agent'] as const)
      .filter((service) => services[service].state === 'idle' && !names(now.role, service))
      .map((service) =>
        stepOn(view, 'stop-service', 'it only idles, and without its role file the next start would be in earnest', {
          service,
        }),
      );
  },
  predict: predictStopped,
};

/** What a host is observed to be once a service is stopped. */
export function predictStopped(step: { readonly service: Service | null }, now: ReachedHost): ReachedHost {
  if (step.service === null || now.services.kind === 'unknown') return now;
  const services = now.services.value;
  const stopped = { ...services[step.service], state: 'stopped' as const };
  return { ...now, services: { kind: 'known', value: { ...services, [step.service]: stopped } } };
}
