import type { Judged } from './apply.js';
import { machineOf } from './fleet/changes.js';
import type { Host } from './fleet/fleet.js';
import type { BaseSpec } from './github/events.js';
import type { Intent, Relation } from './plan/desired.js';
import type { PlanInput } from './plan/make-plan.js';
import { withReportedNames } from './plan/node-names.js';
import type { Observation, RecordObservation } from './plan/observation.js';
import { type Base, prepare } from './plan/prepare.js';
import type { Fleets } from './read-fleets.js';
import type { Repository } from './repository/repository.js';

/** Finds, for each cluster, the base and the relation that its record gives, and looks at what that adds. */
export interface JudgeOptions {
  readonly repository: Pick<Repository, 'isAncestor'>;
  readonly fleets: Fleets;
  /** Where the base comes from; only `record` asks the cluster. */
  readonly base: BaseSpec;
  readonly drift: boolean;
  readonly intent: Intent;
  /** Looks at the hosts of an input; those of `known` are not looked at twice. */
  readonly observe: (input: PlanInput, known: Observation | null) => Promise<Observation>;
  /** Asks one server after the other for the record, of a cluster that nothing else has business with. */
  readonly askForRecord: (input: PlanInput) => Promise<Observation | null>;
  /** The node that this run sits on, where the cluster answers. */
  readonly ownNode: (input: PlanInput, observed: Observation) => Promise<string | null>;
}

/**
 * One cluster in the light of a fresh observation: its base is the commit in its record when that is the head or an
 * ancestor of it, else what the event gives; drift compares with the record's commit itself.
 */
export async function judgeCluster(declared: PlanInput, options: JudgeOptions): Promise<Judged> {
  const first = (await options.askForRecord(declared)) ?? (await options.observe(declared, null));
  const record = first.record?.kind === 'known' ? first.record.value : null;
  const input = await withBegun(await inputFor(declared, record, options), record, options);
  const observed = input === declared ? first : await options.observe(input, first);
  const named = withReportedNames(input, observed);
  // A record that could not be read may be of a newer commit: its relation is unknown, never none.
  const relation =
    observed.record?.kind === 'unknown' && observed.servers.size > 0
      ? 'unknown'
      : await relationOf(options.repository, options.intent.head, record);
  const runsOn = await options.ownNode(named, observed);
  return { input: named, observed, intent: { ...options.intent, relation, runsOn } };
}

async function inputFor(
  declared: PlanInput,
  record: RecordObservation | null,
  options: JudgeOptions,
): Promise<PlanInput> {
  const { fleets, intent, repository } = options;
  const { name } = declared.desired.cluster;
  if (record === null || record.commit === null) return declared;
  if (options.drift) {
    const base = await fleets.at(record.commit);
    return base.fleet === null ? withoutBase(declared, base) : (cluster(prepare(base.fleet, base), name) ?? declared);
  }
  if (options.base.kind !== 'record' || record.commit === declared.baseCommit) return declared;
  if (record.group !== name || record.repository !== intent.repository) return declared;
  if ((await repository.isAncestor(record.commit, intent.head)) !== 'yes') return declared;
  const base = await fleets.at(record.commit);
  // Whole clusters are compared, so that a host that goes from one to another is still seen to move.
  const all = prepare(fleets.head, (other) => (other === name ? base : fleets.base));
  return cluster(all, name) ?? declared;
}

/**
 * A commit that was begun and never completed may have brought hosts that neither head nor base know (it was reverted).
 * They count as leaving: nobody else would take them out again.
 */
async function withBegun(
  input: PlanInput,
  record: RecordObservation | null,
  options: JudgeOptions,
): Promise<PlanInput> {
  const { desired } = input;
  if (record?.group !== desired.cluster.name || record.repository !== options.intent.repository) return input;
  const last = record.started === record.commit ? [] : [record.started];
  const begun = [...record.begun, ...last].filter((commit) => commit !== null && commit !== options.intent.head);
  if (!desired.cluster.valid || begun.length === 0) return input;
  const idsOf = (host: Host): readonly string[] => [host.name, host.nodeName ?? host.name, machineOf(host)];
  const known = new Set(desired.hosts.flatMap(({ host }) => idsOf(host)));
  const hosts = [...desired.hosts];
  for (const commit of new Set(begun)) {
    const { fleet } = await options.fleets.at(commit as string);
    const then = fleet?.clusters.find((candidate) => candidate.name === desired.cluster.name);
    if (then === undefined || then.controller !== true) continue;
    for (const host of then.hosts) {
      if (idsOf(host).some((id) => known.has(id))) continue;
      for (const id of idsOf(host)) known.add(id);
      hosts.push({ host, leaving: true, before: host, movedAcross: null });
    }
  }
  return hosts.length === desired.hosts.length ? input : { ...input, desired: { ...desired, hosts } };
}

function withoutBase(declared: PlanInput, base: Base): PlanInput {
  const message = `${base.unreadable ?? 'The recorded commit cannot be read.'} Nothing can be compared with it.`;
  return { ...declared, notes: [...declared.notes, { code: 'base-unreadable', message, hosts: [] }] };
}

function cluster(inputs: readonly PlanInput[], name: string): PlanInput | null {
  return inputs.find((input) => input.desired.cluster.name === name) ?? null;
}

/** How the head stands to what was last started or completed (rule 12). What is not known is `unknown`. */
async function relationOf(
  repository: Pick<Repository, 'isAncestor'>,
  head: string,
  record: RecordObservation | null,
): Promise<Relation> {
  const last = [...new Set([record?.started ?? null, record?.commit ?? null])].filter((commit) => commit !== null);
  if (last.length === 0) return 'none';
  const relations = await Promise.all(last.map((commit) => relationTo(repository, head, commit)));
  const worst: readonly Relation[] = ['behind', 'unknown', 'diverged', 'forward', 'same'];
  return worst.find((relation) => relations.includes(relation)) ?? 'unknown';
}

async function relationTo(repository: Pick<Repository, 'isAncestor'>, head: string, commit: string): Promise<Relation> {
  if (commit === head) return 'same';
  const [behind, forward] = [await repository.isAncestor(head, commit), await repository.isAncestor(commit, head)];
  if (behind === 'yes') return 'behind';
  if (forward === 'yes') return 'forward';
  return behind === 'unknown' || forward === 'unknown' ? 'unknown' : 'diverged';
}
