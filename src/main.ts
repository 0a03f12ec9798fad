import pLimit from 'p-limit';
import { type ApplyOptions, applyCluster, observe, type StepFailure } from './apply.js';
import { messageOf, UserError } from './errors.js';
import { type Explanation, explainHost } from './fleet/explain.js';
import type { Cluster, Host } from './fleet/fleet.js';
import type { RunContext, WorkflowRun } from './github/events.js';
import { readPrivateKeys } from './hosts/private-key.js';
import type { Logger } from './log.js';
import { assumeBase } from './plan/assume.js';
import { hostsToContact, type Intent } from './plan/desired.js';
import { makePlan, type PlanInput } from './plan/make-plan.js';
import { withReportedNames } from './plan/node-names.js';
import { type ClusterPlan, commonBase, type Plan } from './plan/plan.js';
import { prepare } from './plan/prepare.js';
import type { StepState } from './plan/step.js';
import { type Fleets, readFleets } from './read-fleets.js';
import type { Failure, RunReport } from './report/run.js';
import { type MergeBaseLookup, openRepository } from './repository/repository.js';
import { createRunHands, type RunHands } from './run-hands.js';
import type { Settings } from './settings.js';

/** The world of one run, given by the entry. */
export interface Io {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly logger: Logger;
  /** Aborted by SIGINT and SIGTERM. */
  readonly signal: AbortSignal;
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  /** RUNNER_TEMP. */
  readonly temp: string;
  /** Keeps a secret out of every log. */
  readonly mask: (secret: string) => void;
  readonly guardsVersion: string;
  /** Told the paths of secret files before they are made: the post step removes what is left. */
  readonly onSecretFiles: (paths: readonly string[]) => void;
  readonly mergeBaseLookup: MergeBaseLookup | null;
  /** Shown what an apply has done so far. */
  readonly progress: (report: RunReport) => void;
}

/** What a run came to; the entry turns it into a check run, a summary, outputs and an exit status. */
export type RunOutcome = Omit<RunReport, 'result'>;

/**
 * One run: read the fleet at two commits, plan, and, where the event and the mode allow it, look at the hosts and act.
 * Throws a UserError for bad input and for a head that cannot be had; what happens to a host is a value.
 */
export async function run(settings: Settings, context: RunContext, workflow: WorkflowRun, io: Io): Promise<RunOutcome> {
  if (context.mode === 'drift') {
    throw new UserError('This version of fleet-role does not do mode drift; set the input mode to plan or apply.');
  }
  if (context.refusal !== null) return outcome(refusedPlan(settings, context), settings);
  // A key that is none is said before anything is read.
  if (settings.sshPrivateKey !== null) readPrivateKeys(settings.sshPrivateKey);
  const repository = await openRepository({
    repository: settings.repository,
    thisRepository: io.env.GITHUB_REPOSITORY ?? null,
    serverUrl: workflow.serverUrl,
    token: settings.token ?? '',
    workspace: io.env.GITHUB_WORKSPACE ?? '.',
    temp: io.temp,
    logger: io.logger,
    mergeBaseLookup: io.mergeBaseLookup,
  });
  let fleets: Fleets;
  try {
    fleets = await readFleets(repository, context.head, context.base, settings, io.logger, io.mask);
  } finally {
    await repository.close();
  }
  const explanation = context.mode === 'explain' ? explain(fleets, settings) : null;
  const inputs = prepare(fleets.head, fleets.base);
  const intent = intentOf(settings, context, io.guardsVersion, inputs);
  const plan = (clusters: readonly ClusterPlan[], observed: boolean): Plan => ({
    mode: context.mode,
    base: commonBase(clusters),
    head: fleets.head.commit,
    inventory: fleets.head.inventory,
    observed,
    clusters,
  });
  // A rejoin is always refused yet: there is nothing to look at a host for.
  if (!context.contactsHosts || context.mode === 'rejoin') {
    const clusters = inputs.map((input) => makePlan(input, assumeBase(input.desired, io.guardsVersion), intent));
    return outcome(plan(clusters, false), settings, explanation === null ? {} : { explanation });
  }
  checkConnections(inputs, settings, context);
  const hands = createRunHands({
    settings,
    temp: io.temp,
    trustsInventory: context.trustsInventory,
    run: workflow.url ?? 'a run outside GitHub',
    logger: io.logger,
    signal: io.signal,
    clock: io.clock,
    onSecretFiles: io.onSecretFiles,
  });
  try {
    return await act(inputs, intent, hands, plan, settings, context, io);
  } finally {
    await hands.close();
  }
}

/** Looks at the hosts of every cluster, and applies where that is asked for. Clusters go one after the other. */
async function act(
  declared: readonly PlanInput[],
  intent: Intent,
  hands: RunHands,
  plan: (clusters: readonly ClusterPlan[], observed: boolean) => Plan,
  settings: Settings,
  context: RunContext,
  io: Io,
): Promise<RunOutcome> {
  const writes = (context.mode === 'apply' || context.mode === 'rejoin') && !settings.dryRun;
  const options: ApplyOptions = { ...hands, limit: pLimit(settings.parallelism), clock: io.clock, signal: io.signal };
  const clusters: ClusterPlan[] = [];
  const failures: StepFailure[] = [];
  const states = new Map<string, StepState>();
  const seen = await Promise.all(declared.map((input) => observe(input, options)));
  const inputs = declared.map((input, index) => withReportedNames(input, seen[index] as (typeof seen)[number]));
  const planned = inputs.map((input, index) => makePlan(input, seen[index] as (typeof seen)[number], intent));
  if (!writes) return outcome(plan(planned, true), settings, { cancelled: io.signal.aborted });
  for (const [index, asDeclared] of declared.entries()) {
    // The first look may be an hour old once another cluster's nodes were drained.
    const first = index === 0 || io.signal.aborted ? seen[index] : undefined;
    const observed = first ?? (await observe(asDeclared, options));
    const input = withReportedNames(asDeclared, observed);
    const later = planned.slice(index + 1);
    const applied = await applyCluster(input, observed, intent, options, states, (current) => {
      io.progress({ ...outcome(plan([...clusters, current, ...later], true), settings, { states }), result: null });
    });
    clusters.push(applied.plan);
    failures.push(...applied.failures);
  }
  const failure = failures.length === 0 ? null : failureOf(failures);
  return outcome(plan(clusters, true), settings, {
    states,
    failure,
    failures: failures.map(({ step, message }) => ({ step: `${step.action} ${step.host}`, reason: message })),
    cancelled: io.signal.aborted,
  });
}

function outcome(plan: Plan, settings: Settings, more: Partial<RunOutcome> = {}): RunOutcome {
  return { plan, dryRun: settings.dryRun, states: new Map(), failure: null, cancelled: false, ...more };
}

function failureOf(failures: readonly StepFailure[]): Failure {
  const [first, ...others] = failures;
  if (first === undefined) throw new Error('a failure without a step');
  const hosts = [...new Set(others.map((failure) => failure.step.host))].filter((host) => host !== first.step.host);
  const more =
    hosts.length === 0
      ? ''
      : ` So did ${hosts.length === 1 ? 'one other host' : `${hosts.length} other hosts`}: ${hosts.join(', ')}.`;
  return {
    step: `${first.step.action} ${first.step.host}`,
    reason: `${first.step.host}: ${first.message}${more}`,
    advice:
      'Every file is either as it was or as it should be, and no container was recreated. Mend the host and run the same commit again: what is done already is not done twice.',
  };
}

function intentOf(
  settings: Settings,
  context: RunContext,
  guardsVersion: string,
  inputs: readonly PlanInput[],
): Intent {
  const known = inputs.some((input) => input.desired.cluster.hosts.some((host) => host.name === settings.host));
  if (settings.host !== null && !known && inputs.every((input) => input.desired.cluster.readable)) {
    throw new UserError(
      `The input host is ${JSON.stringify(settings.host)}, which no cluster of the inventory has; give an inventory name.`,
    );
  }
  return {
    mode: context.mode,
    host: settings.host,
    rollout: settings.rollout,
    installGuards: settings.installGuards,
    drain: settings.drain,
    guardsVersion,
    forceUnreachable: false,
    allowRollback: false,
    head: '',
    repository: '',
    relation: 'none',
    runsOn: null,
  };
}

/** The explanation of the host that the inputs name. Throws a UserError where no cluster has it. */
function explain({ head, explained }: Fleets, { host }: Settings): Explanation {
  if (explained === null || host === null) throw new Error('nothing was read to explain');
  const found = explainHost(head, explained, host);
  if (found !== null) return found;
  const there = explained.inventory.hosts.has(host) ? ' (the inventory has it, in no group that is a cluster)' : '';
  // A cluster that cannot be read may be the one that has it.
  const problem = head.clusters.find((cluster) => !cluster.readable)?.problems[0];
  const at = problem?.file == null ? '' : ` at ${problem.file}${problem.line === null ? '' : `:${problem.line}`}`;
  const why = problem === undefined ? '' : ` ${problem.code}${at}: ${problem.message}`;
  throw new UserError(
    `The input host is ${JSON.stringify(host)}, which no cluster of the inventory has${there}; give an inventory name.${why}`,
  );
}

/** What must be known before any host is contacted. */
function checkConnections(inputs: readonly PlanInput[], settings: Settings, context: RunContext): void {
  const hosts: Host[] = inputs
    .filter((input) => input.desired.cluster.valid)
    .flatMap((input) => hostsToContact(input.desired).map((entry) => entry.host));
  const ssh = hosts.find((host) => host.connection.type === 'ssh');
  if (ssh !== undefined && settings.sshKnownHosts === null) {
    throw new UserError(
      `The input ssh-known-hosts is empty, and ${ssh.name} is reached by ssh: give the hosts' public keys (ssh-keyscan, then compare the fingerprints with those on the hosts).`,
    );
  }
  const local = hosts.find((host) => host.connection.type === 'local');
  if (local !== undefined && !context.trustsInventory) {
    throw new UserError(
      `${local.name} has ansible_connection: local, which the inventory of a pull request may not ask for; plan it without observe.`,
    );
  }
}

/** The plan of a run that the event does not allow: nothing was read and nothing was contacted. */
function refusedPlan(settings: Settings, context: RunContext): Plan {
  const refusal = context.refusal;
  if (refusal === null) throw new Error('no refusal');
  const clusters = settings.clusterGroups.map((name): ClusterPlan => {
    const cluster: Cluster = {
      name,
      readable: false,
      // Not an invalid cluster: nobody looked at it.
      valid: true,
      settings: null,
      controller: null,
      datastore: null,
      bootstrap: null,
      servers: [],
      problems: [],
      warnings: [],
      hosts: [],
    };
    return { cluster, base: null, changes: [], steps: [], refusals: [refusal], notes: [] };
  });
  const head = context.head.kind === 'sha' ? context.head.sha : (context.checkCommit ?? '');
  return { mode: context.mode, base: null, head, inventory: null, observed: false, clusters };
}

/** The failure of a run that ended before there was a plan. A stack is for our own errors only, and only in debug. */
export function failureBefore(error: unknown, logger: Logger): Failure {
  if (error instanceof UserError) return { step: null, reason: error.message, advice: null };
  if (error instanceof Error && error.stack !== undefined) logger.debug(error.stack);
  return {
    step: null,
    reason: `fleet-role itself failed: ${messageOf(error)}`,
    advice: 'This is an error of fleet-role. Run the job again with debug logging and report what it prints.',
  };
}
