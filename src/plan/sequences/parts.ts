import type { Service } from '../../fleet/fleet.js';
import { guardsInForce, isDown, isListed } from '../jobs.js';
import { joinUrlNow } from '../serving.js';
import type { Step } from '../step.js';
import { listOverride } from '../steps/override.js';
import { didSince, holdsPast, type JobView, roleIs, step } from './view.js';

// Parts that several sequences share. Each is empty when what it makes true is true already.

/** Rule 4: where the guards are not in force, whatever restarts the server must not bring it back. */
export function keepDown(view: JobView): readonly Step[] {
  const { server } = view;
  if (server.state === 'absent' || guardsInForce(server) || server.restartPolicy === 'no') return [];
  const detail = 'the guards are not in force: no restart policy may bring this server back';
  return [step(view, 'set-restart-policy', detail, { service: 'k3s', value: 'no' })];
}

/** The policy that was found before ours was set to `no` comes back. */
export function restorePolicy(view: JobView): readonly Step[] {
  const { now, server } = view;
  if (now.keptPolicy.kind !== 'text' || server.state === 'absent') return [];
  const detail = 'the policy that was found before fleet-role set it to no';
  return [step(view, 'set-restart-policy', detail, { service: 'k3s', value: now.keptPolicy.text })];
}

/** The join URL first, then the role: a role never precedes what it needs. */
export function writeFiles(view: JobView, role: 'server' | 'agent' | '', why: string): readonly Step[] {
  const { world, job, now } = view;
  const url = joinUrlNow({ world, desired: job.entry, now });
  const steps: Step[] = [];
  if (url.kind === 'known' && (now.joinUrl.kind !== 'text' || now.joinUrl.text !== url.value)) {
    const detail = url.value === '' ? 'there is no other server to join' : `join the cluster through ${url.value}`;
    steps.push(step(view, 'write-join-url', detail, { value: url.value }));
  }
  if (!roleIs(view, role)) steps.push(step(view, 'write-role', why, { value: role }));
  return steps;
}

/** No reached host that stays may join through a member that goes (rule 5). */
export function othersPointHere(world: JobView['world'], host: JobView['host']): readonly string[] {
  const { cluster } = world.desired;
  const url = urlOf(world, host);
  return cluster.hosts.flatMap((other) => {
    if (other.name === host.name) return [];
    const seen = world.observed.hosts.get(other.name);
    return seen?.kind === 'reached' && seen.joinUrl.kind === 'text' && seen.joinUrl.text === url ? [other.name] : [];
  });
}

/** Asks for the removal through another server, then for the proof; an unstarted member is evicted by the leader. */
export function removeMember(view: JobView): readonly Step[] {
  const { standing, node, world, host } = view;
  if (!isListed(standing)) return [];
  if (standing === 'unstarted') {
    return [step(view, 'await-eviction', 'its member never started, so the leader takes it out after five minutes')];
  }
  const value = world.members.memberOf(host)?.name ?? '';
  if (node?.removeAsked !== true || node.removedName !== null) {
    const detail = `ask another server to remove the member ${value}`;
    return [step(view, 'remove-member', detail, { value })];
  }
  return [step(view, 'confirm-removed', `no server may list ${value} any more`, { value })];
}

export function stop(view: JobView, service: Service, why: string): readonly Step[] {
  const seen = service === 'k3s' ? view.server : view.agent;
  return isDown(seen) ? [] : [step(view, 'stop-service', why, { service })];
}

/** Rule 7: what is on disk beats `--server` (fact 2.3), so it is moved, never removed, once no list names its member. */
export function setAside(view: JobView, more: '' | ' tls cred' = ''): readonly Step[] {
  if (!holdsPast(view)) return [];
  const detail = 'move server/db to server/db.demoted; an older one there gets a number first';
  return [step(view, 'set-datastore-aside', detail, { value: `db${more}` })];
}

/** The guards come into force with the next container, which is made but not started. */
export function recreate(view: JobView, service: Service, why: string): readonly Step[] {
  const seen = service === 'k3s' ? view.server : view.agent;
  if (seen.state === 'absent' || guardsInForce(seen)) return [];
  return [step(view, 'recreate-service', why, { service })];
}

/**
 * Made anew with the mount it stays down whoever starts it. Before its datastore is set aside: without one, without
 * guards and with no URL in its own environment a start would make a second cluster.
 */
export function guardFirst(view: JobView): readonly Step[] {
  if (view.world.intent.installGuards === 'never') return [];
  return recreate(view, 'k3s', 'with the guards, not started');
}

/** The other container has another node password, and k3s would refuse it for ever (facts 4.3 to 4.5). */
export function clearPassword(view: JobView): readonly Step[] {
  const { node } = view;
  if (node === null || didSince(view, 'clear-password', ['start-service'])) return [];
  return [step(view, 'clear-password', 'delete the node password secret; k3s makes it again at its first contact')];
}

/** A host that has no container yet: whoever starts its services from now on meets the guards. */
export function listFirst({ world, job, now }: JobView): readonly Step[] {
  return listOverride.wanted({ world, desired: job.entry, now });
}

export function urlOf(world: JobView['world'], host: JobView['host']): string {
  const port = world.desired.cluster.settings?.apiPort ?? 6443;
  return `https://${host.address.includes(':') ? `[${host.address}]` : host.address}:${port}`;
}
