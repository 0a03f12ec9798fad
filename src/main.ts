import pLimit from 'p-limit';
import { type ApplyOptions, applyCluster, askForRecord, type Judged, observe, type StepFailure } from './apply.js';
import { messageOf, UserError } from './errors.js';
import { type Explanation, explainHost } from './fleet/explain.js';
import type { Cluster, Host } from './fleet/fleet.js';
import type { RunContext, WorkflowRun } from './github/events.js';
import type { ShownPlanLookup } from './github/reviewed.js';
import { readPrivateKeys } from './hosts/private-key.js';
import { judgeCluster } from './judge.js';
import type { Logger } from './log.js';
import { assumeBase } from './plan/assume.js';
import { hostsToContact, type Intent } from './plan/desired.js';
import { makePlan, type PlanInput } from './plan/make-plan.js';
import { spokesmen } from './plan/next-steps.js';
import { type ClusterPlan, commonBase, type Plan } from './plan/plan.js';
import { prepare } from './plan/prepare.js';
import type { StepState } from './plan/step.js';
import { type Fleets, readFleets } from './read-fleets.js';
import type { Failure, RunReport } from './report/run.js';
import { type MergeBaseLookup, openRepository, type Repository } from './repository/repository.js';
import { Review } from './review.js';
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
  /** Told the paths of secret files before they are made, and of temporary folders: the post step removes what is left. */
  readonly onSecretFiles: (paths: readonly string[]) => void;
  readonly mergeBaseLookup: MergeBaseLookup | null;
  /** The plan that the pull request showed which brought a commit to a branch; null without GitHub. */
  readonly shownPlan: ((commit: string, branch: string) => Promise<ShownPlanLookup>) | null;
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
    onFolder: (path) => io.onSecretFiles([path]),
  });
  try {
    const fleets = await readFleets(repository, context.head, context.base, settings, io.logger, io.mask);
    const declared = prepare(fleets.head, fleets.base);
    // It says more of a host that no cluster has than the check that follows.
    const explanation = context.mode === 'explain' ? { explanation: explain(fleets, settings) } : {};
    const intent = intentOf(settings, context, io.guardsVersion, declared, fleets.head.commit);
    if (!context.contactsHosts) {
      const clusters = declared.map((input) => makePlan(input, assumeBase(input.desired, io.guardsVersion), intent));
      const { movedBase } = fleets;
      return outcome(planOf(fleets, context.mode, clusters, false), settings, { ...explanation, movedBase });
    }
    checkConnections(declared, settings, context);
    const hands = createRunHands({
      settings,
      temp: io.temp,
      trustsInventory: context.trustsInventory,
      run: workflow.url ?? 'a run outside GitHub',
      attempt: Number(io.env.GITHUB_RUN_ATTEMPT ?? '1'),
      head: intent.head,
      repository: intent.repository,
      runner: [io.env.RUNNER_NAME, io.env.HOSTNAME].flatMap((name) =>
        name === undefined || name === '' ? [] : [name.toLowerCase()],
      ),
      logger: io.logger,
      signal: io.signal,
      clock: io.clock,
      onSecretFiles: io.onSecretFiles,
    });
    try {
      return await act({ declared, fleets, intent, hands, repository, settings, context, io });
    } finally {
      await hands.close();
    }
  } finally {
    await repository.close();
  }
}

interface Act {
  readonly declared: readonly PlanInput[];
  readonly fleets: Fleets;
  readonly intent: Intent;
  readonly hands: RunHands;
  readonly repository: Repository;
  readonly settings: Settings;
  readonly context: RunContext;
  readonly io: Io;
}

/** Looks at the hosts of every cluster, and applies where that is asked for. Clusters go one after the other. */
async function act(run: Act): Promise<RunOutcome> {
  const { declared, fleets, intent, hands, settings, context, io } = run;
  const writes = (context.mode === 'apply' || context.mode === 'rejoin') && !settings.dryRun;
  const limit = pLimit(settings.parallelism);
  const { clock, signal } = io;
  const look = { hands: hands.hands, cluster: hands.cluster, limit, clock };
  const review = context.mode === 'apply' ? reviewOf(run) : null;
  const judgeAlone = (input: PlanInput): Promise<Judged> =>
    judgeCluster(input, {
      repository: run.repository,
      fleets,
      base: context.base,
      drift: context.mode === 'drift',
      intent,
      observe: (of, known) => observe(of, look, known),
      askForRecord: (of) => askForRecord(of, look),
      ownNode: (of, observed) => hands.cluster.ownNode(spokesmen({ desired: of.desired, observed, intent }, null)),
    });
  const judge = async (input: PlanInput): Promise<Judged> => {
    const judged = await judgeAlone(input);
    return review?.again(judged) ?? judged;
  };
  const options: ApplyOptions = { ...look, signal, judge, sleep: hands.sleep, stepSeconds: settings.stepTimeout };
  const plan = (clusters: readonly ClusterPlan[]): Plan => planOf(fleets, context.mode, clusters, true);
  const planned = ({ input, observed, intent: own }: Judged): ClusterPlan => makePlan(input, observed, own);

  const seen = await Promise.all(declared.map(judge));
  const judged = (await review?.first(seen)) ?? seen;
  if (!writes) {
    const { movedBase } = fleets;
    return outcome(plan(judged.map(planned)), settings, {
      cancelled: signal.aborted,
      movedBase,
      review: review?.report ?? null,
    });
  }
  const clusters: ClusterPlan[] = [];
  const failures: StepFailure[] = [];
  const states = new Map<string, StepState>();
  const later = judged.slice(1).map(planned);
  for (const [index, first] of judged.entries()) {
    // The first look may be an hour old once another cluster's nodes were drained.
    const fresh = index === 0 || signal.aborted ? first : await judge(declared[index] as PlanInput);
    const applied = await applyCluster(fresh, options, states, (current) => {
      const shown = plan([...clusters, current, ...later.slice(index)]);
      io.progress({ ...outcome(shown, settings, { states, review: review?.report ?? null }), result: null });
    });
    clusters.push(applied.plan);
    failures.push(...applied.failures);
  }
  return outcome(plan(clusters), settings, {
    states,
    review: review?.report ?? null,
    failure: failures.length === 0 ? null : failureOf(failures),
    failures: failures.map(({ step, message }) => ({
      step: step === null ? 'the run' : `${step.action} ${step.host}`,
      reason: message,
    })),
    cancelled: signal.aborted,
  });
}

/** Compares an apply with the plan that its pull request showed. */
function reviewOf({ fleets, repository, settings, context, io }: Act): Review {
  const { fleetBranch } = context;
  const { shownPlan, logger } = io;
  // What is read a second time is not told a second time.
  const debug: Logger['debug'] = (message) => logger.debug(message);
  const quiet: Logger = { debug, info: debug, notice: debug, warning: debug, error: debug, group: (_, work) => work() };
  return new Review({
    required: settings.requireReviewedPlan,
    lookup:
      shownPlan === null || fleetBranch === null || !context.repository.isOwn
        ? null
        : () => shownPlan(fleets.head.commit, fleetBranch),
    read: (head, base) => {
      const from = base === null ? ({ kind: 'none' } as const) : ({ kind: 'sha', sha: base } as const);
      return readFleets(repository, { kind: 'sha', sha: head }, from, settings, quiet, io.mask);
    },
    isAncestor: repository.isAncestor,
    guardsVersion: io.guardsVersion,
  });
}

function planOf(fleets: Fleets, mode: Plan['mode'], clusters: readonly ClusterPlan[], observed: boolean): Plan {
  const { commit: head, inventory } = fleets.head;
  return { mode, base: commonBase(clusters), head, inventory, observed, clusters };
}

function outcome(plan: Plan, settings: Settings, more: Partial<RunOutcome> = {}): RunOutcome {
  return { plan, dryRun: settings.dryRun, states: new Map(), failure: null, cancelled: false, ...more };
}

function failureOf(failures: readonly StepFailure[]): Failure {
  const [first, ...others] = failures;
  if (first === undefined) throw new Error('a failure without a step');
  if (first.step === null) return { step: null, reason: first.message, advice: AFTER_A_FAILURE };
  const { host } = first.step;
  const hosts = [...new Set(others.flatMap(({ step }) => (step === null ? [] : [step.host])))].filter(
    (other) => other !== host,
  );
  const more =
    hosts.length === 0
      ? ''
      : ` So did ${hosts.length === 1 ? 'one other host' : `${hosts.length} other hosts`}: ${hosts.join(', ')}.`;
  return {
    step: `${first.step.action} ${host}`,
    reason: `${host}: ${first.message}${more}`,
    advice: AFTER_A_FAILURE,
  };
}

const AFTER_A_FAILURE =
  'Every file is either as it was or as it should be, and no member was asked in or out beyond the steps that are shown as done. Mend what is named and run the same commit again: it looks afresh, goes on where this run ended, and does nothing twice.';

function intentOf(
  settings: Settings,
  context: RunContext,
  guardsVersion: string,
  inputs: readonly PlanInput[],
  head: string,
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
    forceUnreachable: settings.forceUnreachable,
    allowRollback: settings.allowRollback,
    head,
    repository: context.repository.fleet,
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
