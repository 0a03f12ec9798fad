import { controllerStaysOn, type DesiredHost, hostsToContact, type World } from './desired.js';
import { Members } from './membership.js';
import { type ReachedHost, valueOr } from './observation.js';
import { mayHaveSomethingToDo } from './rules/unreachable.js';
import { noClusterYet } from './serving.js';
import type { Note } from './step.js';

/** What readers should know beside steps and refusals. Notes never change what is done. */
export function notesOf(world: World): readonly Note[] {
  const { cluster } = world.desired;
  if (!cluster.valid) return [];
  const notes: Note[] = [];
  const entries = hostsToContact(world.desired);
  const ignored = cluster.hosts.filter((host) => host.ignoredSshOptions.length > 0);
  if (ignored.length > 0) {
    const options = [...new Set(ignored.flatMap((host) => host.ignoredSshOptions))].join(', ');
    const message = `fleet-role sets these ssh options itself and ignores those of the inventory: ${options}.`;
    notes.push({ code: 'ignored-ssh-option', message, hosts: ignored.map((host) => host.name) });
  }
  if (!world.observed.observed) {
    const message =
      'No host was contacted: the plan assumes that the fleet is as the base declares and healthy, and did not check whether the runner of this workflow sits on one of its nodes.';
    return [...notes, { code: 'not-observed', message, hosts: [] }];
  }
  for (const entry of entries) notes.push(...hostNotes(world, entry));
  if (cluster.controller === true && noClusterYet(world)) {
    const message = `No server of ${cluster.name} has a k3s container yet: there is no cluster. fleet-role never bootstraps one; the fleet's own provisioning starts ${cluster.bootstrap ?? 'the bootstrap host'} first.`;
    notes.push({ code: 'no-cluster', message, hosts: cluster.servers });
  }
  return [...notes, ...ghostNotes(world), ...guardNotes(world, entries)];
}

/** Members whose node name no host has: named, and never removed without a word. */
function ghostNotes(world: World): readonly Note[] {
  const members = new Members(world);
  const ghosts = members.all.filter((member) => member.name !== '' && members.hostOf(member) === null);
  if (ghosts.length === 0) return [];
  const names = ghosts.map((member) => member.name).join(', ');
  const message = `The member list of ${world.desired.cluster.name} names what is no host of the inventory: ${names}. To have it taken out, list its host with github_runner_cluster_node_role: agent (and set force-unreachable where the machine is gone).`;
  return [{ code: 'ghost-member', message, hosts: [] }];
}

function hostNotes(world: World, entry: DesiredHost): readonly Note[] {
  const { host } = entry;
  const seen = world.observed.hosts.get(host.name);
  if (seen === undefined) return [];
  if (seen.kind === 'unreachable') {
    if (entry.leaving && controllerStaysOn(world.desired) && new Members(world).standing(host) === 'none') {
      const message = `${host.name} left the inventory and cannot be reached (${seen.class}: ${seen.message}). It is no member any more. It must not be started again before fleet-role has reached it: list it again to let that happen.`;
      return [{ code: 'unreachable', message, hosts: [host.name] }];
    }
    const refused = mayHaveSomethingToDo(entry, world.desired.cluster.controller) && world.intent.mode !== 'rejoin';
    if (refused) return [];
    return [{ code: 'unreachable', message: `${seen.class}: ${seen.message}`, hosts: [host.name] }];
  }
  // A native host is refused, and has no Compose project to miss.
  if (seen.provisioned || host.runtime === 'native') return [];
  const message = `${host.name} has no Compose project in ${seen.directory} yet; fleet-role writes its files once the fleet's provisioning has made it.`;
  return [{ code: 'not-provisioned', message, hosts: [host.name] }];
}

/** Whose running service would not meet our guards at its next start, and who lost them to a deploy tool. */
function guardNotes(world: World, entries: readonly DesiredHost[]): readonly Note[] {
  const reached = entries.flatMap((entry): { name: string; seen: ReachedHost }[] => {
    const seen = world.observed.hosts.get(entry.host.name);
    const counts = seen?.kind === 'reached' && seen.provisioned && entry.host.publishesLabels && !entry.leaving;
    return counts ? [{ name: entry.host.name, seen }] : [];
  });
  const running = ({ seen }: { seen: ReachedHost }) =>
    Object.values(valueOr(seen.services, {})).filter((service) => !['absent', 'stopped'].includes(service.state));
  const unguarded = reached.filter((entry) => running(entry).some((service) => !service.mounted));
  const lost = unguarded.filter(
    (entry) =>
      entry.seen.override.listed &&
      running(entry).some(
        (service) =>
          !service.mounted &&
          service.configFiles?.some((file) => file.endsWith('/docker-compose.fleet-role.yml')) === false,
      ),
  );
  const names = (list: typeof reached): readonly string[] => list.map((entry) => entry.name);
  const notes: Note[] = [];
  if (unguarded.length > 0) {
    const message = `The guards are not in force on ${unguarded.length === 1 ? 'one host' : `${unguarded.length} hosts`}: the running container does not mount the role directory. It does once fleet-role recreates the node with the override: for a change of its role, or for the input rollout (servers, all).`;
    notes.push({ code: 'guards-not-in-force', message, hosts: names(unguarded) });
  }
  if (lost.length > 0) {
    const message =
      '.env lists the override, but the running container was made without it: a deploy tool passes its own list of Compose files. Add docker-compose.fleet-role.yml to that list.';
    notes.push({ code: 'guards-not-kept', message, hosts: names(lost) });
  }
  return notes;
}
