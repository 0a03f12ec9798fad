import type { Change, ChangeKind } from '../fleet/change.js';
import type { Datastore, Host, Role, Runtime, Service } from '../fleet/fleet.js';
import type { Problem, ProblemCode, Warning } from '../fleet/problem.js';
import { type ClusterPlan, commonBase, type Mode, type Plan } from '../plan/plan.js';
import type { Action, Note, NoteCode, PlannedStep, Refusal, RefusalCode, Voters } from '../plan/step.js';

/**
 * The `plan` output: the contract for tools. Section 5 of the specification gives its fields and their order,
 * `test/plan.schema.json` is its JSON Schema. No other file knows these names.
 */
export interface PlanJson {
  version: 1;
  mode: Mode;
  base: string | null;
  head: string;
  inventory: string | null;
  observed: boolean;
  clusters: ClusterJson[];
}

export interface ClusterJson {
  name: string;
  valid: boolean;
  base: string | null;
  controller: boolean | null;
  datastore: Datastore | null;
  bootstrap: string | null;
  servers: string[];
  problems: FindingJson<ProblemCode>[];
  warnings: FindingJson<string>[];
  hosts: HostJson[];
  changes: ChangeJson[];
  steps: StepJson[];
  refusals: ReasonJson<RefusalCode>[];
  notes: ReasonJson<NoteCode>[];
}

export interface FindingJson<Code> {
  code: Code;
  message: string;
  file: string | null;
  line: number | null;
  hosts: string[];
}

export interface HostJson {
  name: string;
  nodeName: string | null;
  address: string;
  role: Role;
  bootstrap: boolean;
  joinUrl: string | null;
  tlsSans: string[];
  publishesLabels: boolean;
  eligible: boolean | null;
  pinned: boolean;
  runtime: Runtime;
  connection: { type: 'ssh' | 'local'; host: string; port: number; user: string | null; become: boolean };
  directory: string;
  composeProject: string;
  roleFile: Role | null;
  joinUrlFile: string | null;
  file: string | null;
  line: number | null;
}

export interface ChangeJson {
  host: string;
  kind: ChangeKind;
  cause: { commit: 'base' | 'head'; file: string | null; line: number | null; reason: string };
  role: { from: Role | null; to: Role | null };
  joinUrl: { from: string | null; to: string | null };
}

export interface StepJson {
  number: number;
  action: Action;
  host: string;
  service: Service | null;
  value: string | null;
  detail: string;
  voters: Voters | null;
}

export interface ReasonJson<Code> {
  code: Code;
  message: string;
  hosts: string[];
}

/**
 * The plan as the JSON of section 5, keys in its order.
 *
 * - A cluster that cannot be read has null for `controller`, `datastore` and `bootstrap`, and no list but `problems`.
 * - Any other invalid cluster has no changes, steps and refusals.
 * - One that was not read because the whole run is refused is valid for all we know, and has nothing but that refusal.
 * - The `base` at the top is null where the clusters' bases differ.
 */
export function planToJson(plan: Plan): PlanJson {
  return {
    version: 1,
    mode: plan.mode,
    base: plan.clusters.length === 0 ? plan.base : commonBase(plan.clusters),
    head: plan.head,
    inventory: plan.inventory,
    observed: plan.observed,
    clusters: plan.clusters.map(clusterToJson),
  };
}

/**
 * What a reviewer decides on, as canonical JSON (no white space, keys sorted): per cluster its name, validity,
 * controller, bootstrap host, servers, and changes without their causes. Changes that only the observed fleet needs
 * (`repaired`) are left out: a plan that looked and one that did not decide the same. Its SHA-256 is the hash that a report shows
 * and that a push is compared with; it says nothing of steps, which only the observed fleet may need.
 */
export function canonicalDecisions(plan: Plan): string {
  const decisions = plan.clusters
    .map(clusterToJson)
    .map(({ name, valid, controller, bootstrap, servers, changes }) => ({
      name,
      valid,
      controller,
      bootstrap,
      servers,
      changes: changes
        .filter(({ kind }) => kind !== 'repaired')
        .map(({ host, kind, role, joinUrl }) => ({ host, kind, role, joinUrl })),
    }));
  return canonicalJson(decisions);
}

function clusterToJson(clusterPlan: ClusterPlan): ClusterJson {
  const { cluster, base } = clusterPlan;
  const readable = cluster.readable;
  const decided = cluster.valid;
  return {
    name: cluster.name,
    valid: cluster.valid,
    base,
    controller: readable ? cluster.controller : null,
    datastore: readable ? cluster.datastore : null,
    bootstrap: readable ? cluster.bootstrap : null,
    servers: readable ? [...cluster.servers] : [],
    problems: cluster.problems.map(findingToJson<ProblemCode>),
    warnings: readable ? cluster.warnings.map(findingToJson<string>) : [],
    hosts: readable ? cluster.hosts.map(hostToJson) : [],
    changes: decided ? clusterPlan.changes.map(changeToJson) : [],
    steps: decided ? clusterPlan.steps.map(stepToJson) : [],
    refusals: decided ? clusterPlan.refusals.map(reasonToJson<RefusalCode>) : [],
    notes: readable ? clusterPlan.notes.map(reasonToJson<NoteCode>) : [],
  };
}

function findingToJson<Code extends string>(finding: (Problem | Warning) & { readonly code: Code }): FindingJson<Code> {
  const { code, message, file, line, hosts } = finding;
  return { code, message, file, line, hosts: [...hosts] };
}

function hostToJson(host: Host): HostJson {
  const { type, host: address, port, user, become } = host.connection;
  return {
    name: host.name,
    nodeName: host.nodeName,
    address: host.address,
    role: host.role,
    bootstrap: host.bootstrap,
    joinUrl: host.joinUrl,
    tlsSans: [...host.tlsSans],
    publishesLabels: host.publishesLabels,
    eligible: host.eligible,
    pinned: host.pinned,
    runtime: host.runtime,
    // The key file and the ssh options stay out: what they say concerns the runner, not the fleet.
    connection: { type, host: address, port, user, become },
    directory: host.directory,
    composeProject: host.composeProject,
    roleFile: host.roleFile,
    joinUrlFile: host.joinUrlFile,
    file: host.place.file,
    line: host.place.line,
  };
}

function changeToJson({ host, kind, cause, role, joinUrl }: Change): ChangeJson {
  return {
    host,
    kind,
    cause: { commit: cause.commit, file: cause.file, line: cause.line, reason: cause.reason },
    role: { from: role.from, to: role.to },
    joinUrl: { from: joinUrl.from, to: joinUrl.to },
  };
}

function stepToJson({ number, action, host, service, value, detail, voters }: PlannedStep): StepJson {
  return { number, action, host, service, value, detail, voters: voters === null ? null : votersToJson(voters) };
}

function votersToJson({ before, after, healthy, quorum, tolerance }: Voters): Voters {
  return { before, after, healthy, quorum, tolerance };
}

function reasonToJson<Code extends string>(reason: (Refusal | Note) & { readonly code: Code }): ReasonJson<Code> {
  return { code: reason.code, message: reason.message, hosts: [...reason.hosts] };
}

/** JSON whose text depends on the value alone: object keys sorted by code unit, no white space. */
function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([key, member]) => `${JSON.stringify(key)}:${canonicalJson(member)}`).join(',')}}`;
}
