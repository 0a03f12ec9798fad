import { nodeOf, type SeenWorld } from '../desired.js';
import { guardsInForce, isListed, type Job } from '../jobs.js';
import { valueOr } from '../observation.js';
import { quorumOf } from '../quorum.js';
import { othersPointHere } from '../sequences/parts.js';
import type { Refusal } from '../step.js';

/** Why the membership job whose turn it is may not be begun, or may not go on. */
export type ChangeRule = (world: SeenWorld, job: Job) => readonly Refusal[];

/** Rules 2, 3 and 13, in the order in which their reasons are shown. */
export function changeRefusals(world: SeenWorld, job: Job): readonly Refusal[] {
  const asks = asksForMember(job);
  const whole = job.begun ? [] : [...wholeBeforePart(world, job)];
  const change = asks
    ? [knownAncestry, believed, noQuorum, pendingChange, unhealthyVoter, quorumAfter, joinsLeaving]
    : [];
  return [...whole, ...change.flatMap((rule) => rule(world, job))];
}

/** A member is still to be asked in or out: what follows a proof only tidies up. */
function asksForMember({ kind, standing, now }: Job): boolean {
  switch (kind) {
    case 'promotion':
      return standing === 'none' && now !== null && valueOr(now.services, null)?.k3s.state !== 'running';
    case 'rejoin':
    case 'rollout':
      return true;
    default:
      return isListed(standing);
  }
}

function refuse(code: Refusal['code'], job: Job, message: string): readonly Refusal[] {
  return [{ code, message, hosts: [job.entry.host.name] }];
}

const WHAT: { readonly [K in Job['kind']]: string } = {
  promotion: 'does not become a server',
  demotion: 'stays a server',
  removal: 'stays a server',
  unfencing: 'stays fenced',
  rejoin: 'is not rejoined',
  'forced-removal': 'stays a member',
  start: 'is not started',
  rollout: 'is not recreated',
};

function what({ entry, kind }: Job): string {
  return `${entry.host.name} ${WHAT[kind]}`;
}

/** Rule 12: where it is not known whether the head is older than what was applied, no member is changed. */
const knownAncestry: ChangeRule = (world, job) => {
  const { relation, allowRollback, head } = world.intent;
  if (!world.observed.observed || relation !== 'unknown' || allowRollback) return [];
  const message = `${what(job)}: it could not be found out whether ${head.slice(0, 12)} is older than what was applied or begun here (rule 12). Fetch the whole history (fetch-depth: 0, or a token that may read the repository), or set allow-rollback: true for this run.`;
  return refuse('rollback', job, message);
};

const believed: ChangeRule = (world, job) => {
  const { membership } = world.members;
  if (membership.kind !== 'doubtful') return [];
  const message = `${what(job)}: the member list cannot be believed (${membership.why}), and unknown is never healthy (rule 1). Bring the server that is named up, or its k3s to an answer, and run this again.`;
  return refuse('unhealthy-voter', job, message);
};

/** Rule 2, now. A cluster without quorum cannot change its members, whoever asks. */
const noQuorum: ChangeRule = (world, job) => {
  const { members } = world;
  if (members.membership.kind !== 'believed' || members.hasQuorum) return [];
  const { voters, healthyVoters } = members;
  const message = `${what(job)}: ${healthyVoters.length} of ${voters.length} voters are healthy and ${quorumOf(voters.length)} are needed (rule 2). Bring a server of it up: ${unhealthyNames(world).join(', ')}.`;
  return refuse('no-quorum', job, message);
};

/** Rule 3: a learner, an unstarted member or a pending removal of another host blocks this one. */
const pendingChange: ChangeRule = (world, job) => {
  const { members } = world;
  const own = members.memberOf(job.entry.host);
  const open = members.all.find((member) => member !== own && (member.learner || member.name === ''));
  if (open !== undefined) {
    const name = open.name === '' ? `an unstarted member at ${open.addresses.join(', ')}` : `the learner ${open.name}`;
    const message = `${what(job)}: ${name} is open, and one membership change is made at a time (rule 3). Wait until it votes or its leader evicts it (five minutes without progress), then run this again.`;
    return refuse('pending-change', job, message);
  }
  const asked = world.desired.hosts.find(
    ({ host }) =>
      host.name !== job.entry.host.name &&
      isListed(members.standing(host)) &&
      nodeOf(world, host)?.removeAsked === true,
  );
  if (asked === undefined) return [];
  const message = `${what(job)}: the removal of ${asked.host.name} is asked for and not done (rule 3). Let it end, or take its annotation etcd.k3s.cattle.io/remove away, then run this again.`;
  return refuse('pending-change', job, message);
};

/** Rule 3: nothing is added, and no healthy voter taken out, while any other voter is unhealthy. */
const unhealthyVoter: ChangeRule = (world, job) => {
  const { members } = world;
  const own = members.memberOf(job.entry.host);
  const removesUnhealthy =
    own !== null &&
    job.kind !== 'promotion' &&
    job.kind !== 'rollout' &&
    members.standing(job.entry.host) === 'voter' &&
    !members.healthy(own);
  if (removesUnhealthy) return [];
  const sick = members.voters.filter((member) => member !== own && !members.healthy(member));
  const [first] = sick;
  if (first === undefined) return [];
  const named = sick.map((member) => memberWords(world, member.name, members.hostOf(member)?.host.name ?? null));
  const ghost = sick.find((member) => members.hostOf(member) === null);
  const out =
    ghost === undefined
      ? `Bring its k3s up, or rejoin it with mode: rejoin.`
      : `List the host of ${ghost.name} with github_runner_cluster_node_role: agent (and set force-unreachable where it is gone).`;
  const message = `${what(job)}: ${named.join('; ')} (rule 3). ${out}`;
  return refuse('unhealthy-voter', job, message);
};

function memberWords(world: SeenWorld, member: string, host: string | null): string {
  if (host === null) return `the voter ${member} is no host of the inventory, and unknown is never healthy`;
  const seen = world.observed.hosts.get(host);
  if (seen?.kind === 'unreachable') return `the voter ${host} cannot be reached (${seen.class})`;
  const server = world.observed.servers.get(host);
  if (server === undefined) return `k3s does not run on the voter ${host}`;
  const why = server.ready.kind === 'unknown' ? server.ready.why : 'its API says that it is not ready';
  return `the voter ${host} is not healthy (${why})`;
}

function unhealthyNames({ members }: SeenWorld): readonly string[] {
  return members.voters
    .filter((member) => !members.healthy(member))
    .map((member) => members.hostOf(member)?.host.name ?? member.name);
}

/** Rule 2, after the step. A member being added counts as unhealthy until it votes, but where there are fewer than two. */
const quorumAfter: ChangeRule = (world, job) => {
  const { members } = world;
  if (members.membership.kind !== 'believed') return [];
  const voters = members.voters.length;
  const healthy = members.healthyVoters.length;
  const own = members.memberOf(job.entry.host);
  const counts = own !== null && members.standing(job.entry.host) === 'voter';
  const ownHealthy = counts && members.healthy(own) ? 1 : 0;
  if (job.kind === 'rollout') {
    // The only or one of two voters: the rollout asked for it, and nothing else is pending.
    if (!counts || voters < 3 || healthy - ownHealthy >= quorumOf(voters)) return [];
    const message = `${what(job)}: while it restarts ${healthy - ownHealthy} of ${voters} voters would be healthy and ${quorumOf(voters)} are needed (rule 2).`;
    return refuse('quorum', job, message);
  }
  if (job.kind === 'promotion' || (job.kind === 'rejoin' && own === null)) {
    if (voters < 2 || healthy >= quorumOf(voters + 1)) return [];
    const message = `${what(job)}: with it there would be ${voters + 1} voters, ${quorumOf(voters + 1)} are needed, and ${healthy} are healthy until it votes (rule 2).`;
    return refuse('quorum', job, message);
  }
  if (!counts) return [];
  const after = voters - 1;
  const stay = healthy - ownHealthy;
  if (after > 0 && stay >= quorumOf(after)) return [];
  const message =
    after === 0
      ? `${what(job)}: it is the last voter, and a cluster without one is lost (rule 2). Declare another server and let it be promoted first.`
      : `${what(job)}: without it ${stay} of ${after} voters would be healthy, and ${quorumOf(after)} are needed (rule 2). Bring ${unhealthyNames(world).join(', ')} up first.`;
  return refuse('quorum', job, message);
};

/** A host that stays has its own `server_url`, and it names the member that goes. */
const joinsLeaving: ChangeRule = (world, job) => {
  if (job.now === null || job.kind === 'rollout' || job.kind === 'promotion' || job.kind === 'rejoin') return [];
  const pointing = othersPointHere(world, job.entry.host);
  const fixed = world.desired.cluster.hosts.filter((host) => pointing.includes(host.name) && host.serverUrl !== null);
  const [first] = fixed;
  if (first === undefined) return [];
  const source = first.sources.get('github_runner_cluster_server_url');
  const at = source?.file == null ? '' : ` (${source.file}${source.line === null ? '' : `:${source.line}`})`;
  const message = `${what(job)}: ${fixed.map((host) => host.name).join(', ')} joins through it by its own server_url ${first.serverUrl}${at}. Change that line to another server or take it out.`;
  return refuse('joins-leaving', job, message);
};

/** Rule 13: what a run cannot finish it does not begin. */
const wholeBeforePart: ChangeRule = (world, job) => {
  const { entry, now, kind } = job;
  const { host } = entry;
  if (now === null) return [];
  const reasons: Refusal[] = [];
  const add = (code: Refusal['code'], why: string): void =>
    void reasons.push(...refuse(code, job, `${what(job)}: ${why}`));
  const services = valueOr(now.services, null);
  if (services === null)
    return refuse(
      'guards',
      job,
      `${what(job)}: its services are not known (rule 13). Make docker answer there and run this again.`,
    );
  if (now.unsteerable !== null) add('guards', now.unsteerable);
  if (kind !== 'rollout') {
    const node = nodeOf(world, host);
    const version = node?.version ?? null;
    if (world.observed.observed && node !== null && !supportsChanges(version)) {
      add(
        'old-k3s',
        `it runs k3s ${version ?? 'of an unknown version'}, and membership changes need 1.30 or newer. Upgrade it first.`,
      );
    }
    if (
      node !== null &&
      node.memberAddress !== null &&
      node.internalAddress !== null &&
      node.memberAddress !== node.internalAddress &&
      isListed(job.standing)
    ) {
      add(
        'unhealthy-voter',
        `its Node has the address ${node.internalAddress}, and its member ${node.memberAddress} (rule 13). Give the node the address of its member back.`,
      );
    }
    if (now.token.kind === 'unknown')
      add(
        'no-token',
        `it is not known whether it has a token (${now.token.why}). Without one k3s would start a cluster of its own (rule 13).`,
      );
    else if (!now.token.value && kind !== 'removal')
      add(
        'no-token',
        'it has no token, and without one k3s would start a cluster of its own (rule 13). Set K3S_TOKEN for it.',
      );
    if (now.oneFileSystem.kind === 'unknown')
      add(
        'guards',
        `it is not known whether server/db and server/db.demoted are on one file system (${now.oneFileSystem.why}; rule 13).`,
      );
    else if (!now.oneFileSystem.value)
      add(
        'guards',
        'server/db is a mount of its own, so that it cannot be renamed to server/db.demoted (rule 13). Mount the data directory as a whole.',
      );
    if (now.datastore.kind === 'unknown')
      add('guards', `it is not known whether it holds a datastore (${now.datastore.why}; rule 13).`);
  }
  reasons.push(...entrypointReasons(world, job, services));
  return reasons;
};

function entrypointReasons(
  world: SeenWorld,
  job: Job,
  services: { readonly k3s: { readonly state: string } } & Parameters<typeof inForce>[0],
): readonly Refusal[] {
  const { host } = job.entry;
  const { installGuards } = world.intent;
  const known = [services.k3s, services['k3s-agent']].filter((service) => service.state !== 'absent');
  if (installGuards === 'always') return [];
  const foreign = known.find((service) => service.entrypoint === 'foreign');
  if (foreign !== undefined) {
    const message = `${what(job)}: the entrypoint of its container is neither ours nor does it honour the role directory, so that nothing would keep it down (rule 13). Set install-guards: always, or let its entrypoint read /etc/github-runner and say so with a line # fleet-role-guards.`;
    return refuse('foreign-entrypoint', job, message);
  }
  if (host.runtime === 'compose' && !known.some((service) => service.entrypoint !== 'unknown') && known.length > 0) {
    const message = `${what(job)}: it could not be seen whose entrypoint its container has (rule 13), and unknown is never ours. Set install-guards: always, or make docker answer there.`;
    return refuse('foreign-entrypoint', job, message);
  }
  if (installGuards === 'never' && !inForce(services)) {
    const message = `${what(job)}: the guards are not in force there and install-guards is never (rule 13). Bring them into force, or set install-guards: auto.`;
    return refuse('guards', job, message);
  }
  return [];
}

function inForce(services: { readonly [S in 'k3s' | 'k3s-agent']: Parameters<typeof guardsInForce>[0] }): boolean {
  return Object.values(services).every((service) => service.state === 'absent' || guardsInForce(service));
}

/** k3s 1.30 or newer. Unknown is old. */
export function supportsChanges(version: string | null): boolean {
  const match = /^v?(\d+)\.(\d+)/.exec(version ?? '');
  if (match === null) return false;
  const [major, minor] = [Number(match[1]), Number(match[2])];
  return major > 1 || (major === 1 && minor >= 30);
}
