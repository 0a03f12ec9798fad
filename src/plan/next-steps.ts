import type { Host } from '../fleet/fleet.js';
import { type DesiredHost, hostsToContact, isAdopted, type SeenWorld, type World } from './desired.js';
import { awaitReady, mendPassword, settle, snapshotFirst, uncordon, unsettled, writeIdentity } from './finish.js';
import { isListed, type Job, jobOf } from './jobs.js';
import { Members, mostWritten } from './membership.js';
import { recordStep } from './record.js';
import { changeRefusals } from './rules/change.js';
import { CLUSTER_RULES } from './rules/cluster.js';
import { HOST_RULES } from './rules/index.js';
import { rejoinRefusals } from './rules/rejoin.js';
import { isGone } from './rules/unreachable.js';
import { waitsForOthers } from './sequences/demotion.js';
import { forcedRemoval, SEQUENCES } from './sequences/index.js';
import { step, viewJob } from './sequences/view.js';
import { noClusterYet, serving } from './serving.js';
import type { Refusal, Step } from './step.js';
import { FILE_KINDS, JOIN_KINDS, LEAVE_KINDS, SETUP_KINDS } from './steps/index.js';
import type { StepKind } from './steps/kind.js';
import { type Jobs, jobsOf } from './turn.js';

export { predict } from './predict.js';

export interface NextSteps {
  /**
   * What may be done now. The steps of one host are done in this order and in one go; those of different hosts are
   * independent of each other.
   */
  readonly now: readonly Step[];
  /** Why other things are not done. */
  readonly refused: readonly Refusal[];
}

/**
 * The hosts through which the cluster is told something about `host` (null: about itself), in order of preference:
 * never through a server that the step is about, where another one answers.
 */
export function spokesmen(world: World, host: Host | null): readonly Host[] {
  const through = seeAs(world).members.through;
  const others = through.filter((server) => server.name !== host?.name);
  return others.length > 0 ? others : through;
}

/** The world as a step is carried out in it: of a host that is rejoined the own voice does not count. */
export function seeAs(world: World): SeenWorld {
  const seen = seeWorld(world);
  const { mode, host } = world.intent;
  return mode === 'rejoin' && host !== null && seen.members.membership.kind === 'split'
    ? withoutVoice(seen, host)
    : seen;
}

function endsRun({ action }: { readonly action: string }): boolean {
  return action === 'write-record' || action === 'delete-record';
}

const NOTHING: NextSteps = { now: [], refused: [] };

/** A world with what all its hosts ask for, worked out once. */
export function seeWorld(world: World): SeenWorld {
  const members = new Members(world);
  const seen = { ...world, members, adopted: isAdopted(world.observed), noCluster: noClusterYet(world) };
  return { ...seen, serving: serving(seen) };
}

/**
 * The next steps of one cluster: what each host needs, unless a rule speaks against acting on it. Pure; done when both
 * lists are empty. An invalid cluster has none.
 */
export function nextSteps(world: World): NextSteps {
  if (!world.desired.cluster.valid) return NOTHING;
  if (world.intent.mode === 'rejoin') return rejoinSteps(seeWorld(world));
  const entries = hostsToContact(world.desired);
  // The record ends a run: what a complete apply allows is the next one's.
  if (entries.length === 0 || world.observed.run.done.some(endsRun)) return NOTHING;
  const seen = seeWorld(world);
  const stop = CLUSTER_RULES.flatMap((rule) => rule(seen));
  if (stop.length > 0) return { now: mayUnfence(stop) ? unfencingSteps(seen) : [], refused: stop };
  const refused = entries.flatMap((entry) => HOST_RULES.flatMap((rule) => rule(seen, entry)));
  const stopped = new Set(refused.flatMap((refusal) => refusal.hosts));
  const forced = forcedHosts(seen, entries);
  for (const name of forced) stopped.delete(name);
  const jobs = jobsOf(seen, stopped);
  const blocked = refused.some((refusal) => stopsMembership(seen, refusal, forced));
  const change = blocked ? { refused: [], turn: null } : judgeTurn(seen, jobs);
  const now = entries
    .filter((entry) => !stopped.has(entry.host.name))
    .flatMap((entry) => hostSteps(seen, entry, jobs, change.turn));
  const all = [...refused.filter((refusal) => !refusal.hosts.every((name) => forced.has(name))), ...change.refused];
  if (now.length > 0) return { now, refused: all };
  const last = settleStep(seen, jobs, blocked);
  if (last.length > 0) return { now: last, refused: all };
  if (all.length > 0) return { now: [], refused: all };
  const waiting = [...jobs.all.values()];
  return waiting.length === 0 ? { now: recordStep(seen), refused: [] } : { now: [], refused: [stuck(seen, waiting)] };
}

/** Something is still to be done, and none of it can be begun: that is never a complete apply. */
function stuck({ desired }: SeenWorld, waiting: readonly Job[]): Refusal {
  const hosts = waiting.map((job) => job.entry.host.name);
  const what = waiting.map((job) => `${job.kind} of ${job.entry.host.name}`).join(', ');
  const message = `${desired.cluster.name} is not as declared yet (${what}), and nothing of it can be begun now: each waits for another host (rules 3 and 5). Make every host of the cluster reachable and run this again.`;
  return { code: 'pending-change', message, hosts };
}

/** Only `no-lock`, with the lost quorum that it comes from, leaves room for what cannot make a second cluster. */
function mayUnfence(refusals: readonly Refusal[]): boolean {
  return refusals.every(({ code }) => code === 'no-lock' || code === 'no-quorum');
}

function unfencingSteps(world: SeenWorld): readonly Step[] {
  return world.desired.hosts.flatMap((entry) => {
    const job = jobOf(world, entry);
    return job?.kind === 'unfencing' ? jobSteps(world, job) : [];
  });
}

/** The members that are taken out by force although nobody can reach them. */
function forcedHosts(world: SeenWorld, entries: readonly DesiredHost[]): ReadonlySet<string> {
  const forced = entries.filter((entry) => jobOf(world, entry)?.kind === 'forced-removal');
  return new Set(forced.map((entry) => entry.host.name));
}

/** `unreachable` stops its host alone where no believed list names it; every other refusal stops the members too. */
function stopsMembership(world: SeenWorld, refusal: Refusal, forced: ReadonlySet<string>): boolean {
  if (refusal.hosts.every((name) => forced.has(name))) return false;
  if (refusal.code !== 'unreachable') return true;
  return refusal.hosts.some((name) => {
    const entry = world.desired.hosts.find((candidate) => candidate.host.name === name);
    return entry !== undefined && isListed(world.members.standing(entry.host));
  });
}

/** The membership job that may go on now, or why none may. What follows a change is settled before the next one. */
function judgeTurn(
  world: SeenWorld,
  { turn }: Jobs,
): { readonly refused: readonly Refusal[]; readonly turn: Job | null } {
  if (turn === null) return { refused: [], turn: null };
  const open = unsettled(world);
  // Its own sequence ends before it is settled; any other one waits.
  if (open !== null && open !== turn.entry.host.name) return { refused: [], turn: null };
  const refused = changeRefusals(world, turn);
  return { refused, turn: refused.length === 0 ? turn : null };
}

function settleStep(world: SeenWorld, jobs: Jobs, blocked: boolean): readonly Step[] {
  const open = unsettled(world);
  if (open === null || blocked || world.members.membership.kind !== 'believed') return [];
  const entry = world.desired.hosts.find((candidate) => candidate.host.name === open);
  return entry === undefined || jobs.all.has(open) ? [] : [settle(entry.host)];
}

function hostSteps(world: SeenWorld, entry: DesiredHost, jobs: Jobs, turn: Job | null): readonly Step[] {
  const { name } = entry.host;
  const seen = world.observed.hosts.get(name);
  const job = jobs.all.get(name);
  if (seen?.kind !== 'reached') {
    if (job !== undefined) return job === turn ? withSnapshot(world, job, forcedRemoval(world, job)) : [];
    return isGone(world, entry) ? deleteGoneNode(world, entry) : [];
  }
  if (!(seen.provisioned || entry.leaving)) return [];
  const view = { world, desired: entry, now: seen };
  const wanted = (kinds: readonly StepKind[]): readonly Step[] => kinds.flatMap((kind) => kind.wanted(view));
  const files = wanted(SETUP_KINDS);
  if (job === undefined) {
    if (entry.leaving) return [...files, ...wanted(LEAVE_KINDS)];
    const own = [
      ...files,
      ...wanted(FILE_KINDS),
      ...(world.desired.cluster.controller === true ? writeIdentity(world, entry) : []),
    ];
    return own.length > 0 || world.desired.cluster.controller !== true ? own : finishSteps(world, entry);
  }
  const mine = job === turn || job.kind === 'start' || job.kind === 'unfencing';
  // A host that waits for its turn already joins through a server that stays.
  const first = [...files, ...(entry.leaving || job.kind === 'unfencing' ? [] : wanted(JOIN_KINDS))];
  return first.length > 0 || !mine ? first : jobSteps(world, job);
}

function finishSteps(world: SeenWorld, entry: DesiredHost): readonly Step[] {
  for (const part of [mendPassword, awaitReady]) {
    const steps = part(world, entry);
    if (steps.length > 0) return steps;
  }
  return unsettled(world) === entry.host.name ? [] : uncordon(world, entry);
}

function jobSteps(world: SeenWorld, job: Job): readonly Step[] {
  const view = viewJob(world, job);
  if (view === null || job.kind === 'forced-removal') return [];
  if ((job.kind === 'demotion' || job.kind === 'removal') && waitsForOthers(view)) return [];
  return withSnapshot(world, job, SEQUENCES[job.kind](view));
}

/** The datastore is saved once in a run, before the first step that leads to another member list. */
function withSnapshot(world: SeenWorld, job: Job, steps: readonly Step[]): readonly Step[] {
  if (job.kind === 'start' || job.kind === 'unfencing' || steps.length === 0) return steps;
  const first = snapshotFirst(world, job);
  return first.length > 0 ? first : steps;
}

/** Rule 10: whatever still runs there is no member, so only its Node is left to delete. */
function deleteGoneNode(world: SeenWorld, { host }: DesiredHost): readonly Step[] {
  const { nodes } = world.observed;
  if (nodes?.kind !== 'known' || host.nodeName === null || !nodes.value.has(host.nodeName)) return [];
  return [
    step({ host }, 'delete-node', `delete the Node ${host.nodeName}: the host cannot be reached and is no member`),
  ];
}

/** A rejoin touches its host alone, and the join-urls that name it. */
function rejoinSteps(full: SeenWorld): NextSteps {
  const { desired, intent, observed } = full;
  const entry = desired.hosts.find(({ host, leaving }) => host.name === intent.host && !leaving);
  if (entry === undefined) return NOTHING;
  const seen = observed.hosts.get(entry.host.name);
  const settled = full.members.membership.kind === 'believed' && jobOf(full, entry) === null;
  if (settled && seen?.kind === 'reached') {
    const refused = [...rejoinRefusals(full, entry), ...aloneInItsCluster(full, entry)];
    return { now: refused.length === 0 ? rejoinEnd(full, entry) : [], refused };
  }
  // Its own voice does not count: it may be in another cluster, and is what this rejoin mends.
  const world = full.members.membership.kind === 'believed' ? full : withoutVoice(full, entry.host.name);
  const refused = [...rejoinRefusals(world, entry), ...wayOutOnly(full, world)];
  if (refused.length > 0) return { now: [], refused };
  const job = jobOf(world, entry);
  if (seen?.kind !== 'reached') return NOTHING;
  // It serves the right cluster, and only its own file still names another one.
  if (job === null) return { now: rejoinEnd(world, entry), refused: [] };
  const change = changeRefusals(world, job);
  if (change.length > 0) return { now: [], refused: change };
  const view = viewJob(world, job);
  if (view === null) return NOTHING;
  const setup = SETUP_KINDS.flatMap((kind) => kind.wanted({ world, desired: entry, now: seen }));
  if (setup.length > 0) return { now: setup, refused: [] };
  const others = isListed(job.standing) ? repoint(world, entry) : [];
  return { now: others.length > 0 ? others : withSnapshot(world, job, SEQUENCES.rejoin(view)), refused: [] };
}

/**
 * A host that made a cluster of its own votes there, and is content. Where no other declared server says which cluster
 * is the right one, nobody knows that it is this one.
 */
function aloneInItsCluster({ desired, observed, members }: SeenWorld, { host }: DesiredHost): readonly Refusal[] {
  const others = desired.cluster.hosts.filter((other) => other.role === 'server' && other.name !== host.name);
  const told = others.some(({ name }) => {
    const seen = observed.hosts.get(name);
    const written = seen?.kind === 'reached' && seen.cluster.kind === 'text' && seen.cluster.text !== '';
    return written || members.through.some((server) => server.name === name);
  });
  if (others.length === 0 || told || !observed.observed) return [];
  const names = others.map((other) => other.name).join(', ');
  const message = `${host.name} votes in the only cluster that answers, and no other declared server (${names}) was reached that says whether it is the right one (rule 1). Make one of them reachable and run this again.`;
  return [{ code: 'two-identities', message, hosts: [host.name] }];
}

/** It votes in the right cluster: that is written down, settled, and its node takes work again. */
function rejoinEnd(world: SeenWorld, entry: DesiredHost): readonly Step[] {
  const identity = writeIdentity(world, entry);
  if (identity.length > 0) return identity;
  if (unsettled(world) !== null) return [settle(entry.host)];
  const ready = awaitReady(world, entry);
  return ready.length > 0 ? ready : uncordon(world, entry);
}

/** The world as the other hosts tell it. */
function withoutVoice(world: SeenWorld, name: string): SeenWorld {
  const { desired, observed } = world;
  const servers = new Map(observed.servers);
  servers.delete(name);
  const hosts = new Map(observed.hosts);
  const seen = hosts.get(name);
  if (seen?.kind === 'reached') hosts.set(name, { ...seen, cluster: { kind: 'absent' } });
  return { ...world, members: new Members({ desired, observed: { ...observed, servers, hosts } }) };
}

/**
 * Rule 1: the one way out of two identities is the rejoin of a host that is not in the cluster that most declared
 * servers have written down.
 */
function wayOutOnly(full: SeenWorld, world: SeenWorld): readonly Refusal[] {
  const { membership } = full.members;
  if (membership.kind !== 'split' || world.members.membership.kind === 'split') return [];
  if (mostWritten(full) !== null && mostWritten(full) === world.members.identity) return [];
  const message = `${membership.message} Only a host that is not in the cluster that most declared servers have written down is rejoined, and ${full.intent.host} is none or no such majority was seen.`;
  return [{ code: 'two-identities', message, hosts: membership.hosts }];
}

/** The hosts that would join through the one that is rejoined join through another server from now on. */
function repoint(world: SeenWorld, rejoined: DesiredHost): readonly Step[] {
  return world.desired.hosts.flatMap((entry) => {
    const seen = world.observed.hosts.get(entry.host.name);
    if (entry === rejoined || entry.leaving || seen?.kind !== 'reached' || !seen.provisioned) return [];
    if (entry.host.serverUrl !== null) return [];
    return JOIN_KINDS.flatMap((kind) => kind.wanted({ world, desired: entry, now: seen }));
  });
}
