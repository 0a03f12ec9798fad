import { createHash } from 'node:crypto';
import type { GitHubApi } from './github/api.js';
import { type CheckRun, type CheckRunState, externalId, openCheckRun, postCheckRun } from './github/check-run.js';
import { keepDriftIssue } from './github/drift-issue.js';
import type { RunContext, WorkflowRun } from './github/events.js';
import { annotateLines, type OutputPort, type Outputs, writeJobSummary, writeOutputs } from './github/outputs.js';
import { findShownPlan, type ShownPlanLookup } from './github/reviewed.js';
import type { Logger } from './log.js';
import type { RunOutcome } from './main.js';
import { annotationsOf } from './report/annotations.js';
import { prose, visible } from './report/escape.js';
import { explanationLines, explanationTitle, renderExplanation, renderExplanationSummary } from './report/explain.js';
import { type RenderedReport, renderFailure, renderIssue, renderJobSummary, renderReport } from './report/markdown.js';
import { canonicalDecisions, planToJson } from './report/plan-json.js';
import { failedStep, failureReason, outcomeOf, resultOf, title, type Verdict } from './report/result.js';
import type { Failure, RunReport } from './report/run.js';

export interface ReporterOptions {
  /** Null: no check run is wanted or possible; the job summary has it all. */
  readonly api: GitHubApi | null;
  readonly outputs: OutputPort;
  readonly logger: Logger;
  readonly workflow: WorkflowRun;
  readonly checkName: string | null;
  /** Input `drift-issue`: the API through which one issue is kept up to date; null where none is asked for. */
  readonly driftIssue: GitHubApi | null;
  /** Remembers an open check run for the post step; null once it is closed. */
  readonly onCheckRun: (state: CheckRunState | null) => void;
}

/** Tells one run to its readers: check run, annotations, job summary, outputs, log. */
export class Reporter {
  readonly #options: ReporterOptions;
  #context: RunContext | null = null;
  #checkRun: CheckRun | null = null;
  #cancelled = false;
  /** What the run came to is decided, and its closing has begun: a signal changes nothing of it any more. */
  #decided = false;

  constructor(options: ReporterOptions) {
    this.#options = options;
  }

  /** The event was read; an apply opens its check run now, so that its progress is seen. */
  async begin(context: RunContext, inProgress: boolean): Promise<void> {
    this.#context = context;
    const place = this.#place(null);
    if (!inProgress || place === null) return;
    const output = { title: 'Reading the fleet repository', summary: 'The run has begun.', text: '' };
    this.#checkRun = await openCheckRun(place, output);
    if (this.#checkRun !== null) this.#options.onCheckRun(this.#checkRun.state);
    // The signal came while the check run was made.
    if (this.#cancelled) await this.#closeAsCancelled();
  }

  /** What the pull request showed that brought a commit: of the app that made this run's own check run. */
  shownPlan(api: GitHubApi, commit: string, branch: string): Promise<ShownPlanLookup> {
    const [owner = '', repo = ''] = this.#context?.repository.own?.split('/') ?? [];
    return findShownPlan(api, { owner, repo, commit, branch, app: this.#checkRun?.app ?? null });
  }

  progress(report: RunReport): void {
    this.#checkRun?.progress(() => renderReport(report, { decisionsHash: null, annotationsLeftOut: 0 }));
  }

  /** SIGINT or SIGTERM: the check run is closed at once, whatever still runs. Too late once the run is decided. */
  async cancel(): Promise<void> {
    if (this.#decided) return;
    this.#cancelled = true;
    await this.#closeAsCancelled();
  }

  /** The run has a plan, carried out or not. Every output is set. */
  async finish(given: RunOutcome): Promise<Verdict> {
    this.#decided = true;
    const outcome: RunOutcome = { ...given, cancelled: given.cancelled || this.#cancelled };
    const verdict = resultOf(outcomeOf(outcome));
    const report: RunReport = { ...outcome, result: verdict.result };
    const { explanation } = report;
    // An explanation says nothing about lines that somebody should mend.
    const annotations =
      explanation === undefined ? annotationsOf(report.plan, isHere(this.#context)) : { shown: [], leftOut: 0 };
    const decisionsHash = createHash('sha256').update(canonicalDecisions(report.plan)).digest('hex');
    const extras = { decisionsHash, annotationsLeftOut: annotations.leftOut };
    const url = await this.#close(report.plan, {
      output: explanation === undefined ? renderReport(report, extras) : renderExplanation(report, explanation),
      annotations: annotations.shown,
      conclusion: verdict.conclusion,
    });
    if (url === null) annotateLines(this.#options.logger, annotations.shown);
    await this.#keepIssue(report, verdict);
    await this.#write({
      result: verdict.result,
      changed: verdict.changed,
      plan: planToJson(report.plan),
      summary:
        explanation === undefined ? renderJobSummary(report, extras) : renderExplanationSummary(report, explanation),
      checkRunUrl: url,
      failedStep: failedStep(report),
      failureReason: failureReason(report),
    });
    if (explanation !== undefined) for (const line of explanationLines(explanation)) this.#options.logger.info(line);
    this.#say(verdict, explanation === undefined ? title(report) : explanationTitle(explanation));
    return verdict;
  }

  /** The run ended before it had a plan. */
  async fail(failure: Failure): Promise<Verdict> {
    this.#decided = true;
    const verdict: Verdict = {
      result: 'failed',
      changed: false,
      exitCode: 1,
      conclusion: this.#cancelled ? 'cancelled' : 'failure',
    };
    const output = renderFailure(failure);
    const url = await this.#close(null, { output, annotations: [], conclusion: verdict.conclusion });
    await this.#write({
      ...NOTHING,
      result: 'failed',
      summary: `## fleet-role\n\n${output.summary}\n`,
      checkRunUrl: url,
      failureReason: visible(failure.reason),
    });
    this.#say(verdict, failure.reason);
    return verdict;
  }

  /** The event asks for nothing. */
  async nothing(reason: string): Promise<Verdict> {
    await this.#write({
      ...NOTHING,
      result: 'unchanged',
      summary: `## fleet-role\n\nNothing to do: ${prose(reason)}.\n`,
    });
    this.#options.logger.info(`Nothing to do: ${reason}.`);
    return { result: 'unchanged', changed: false, exitCode: 0, conclusion: 'success' };
  }

  /** Where it is not known whether the fleet has drifted, the issue stays as it is. */
  async #keepIssue(report: RunReport, { result }: Verdict): Promise<void> {
    const { driftIssue, workflow, logger, checkName } = this.#options;
    const [owner, repo] = this.#context?.repository.own?.split('/') ?? [];
    if (driftIssue === null || report.plan.mode !== 'drift' || owner === undefined || repo === undefined) return;
    if (result === 'failed') return;
    const key = `${checkName ?? 'fleet-role drift'} ${this.#context?.repository.fleet} ${report.plan.inventory ?? ''}`;
    const drift = result === 'unchanged' ? null : renderIssue(report);
    await keepDriftIssue({ api: driftIssue, logger, owner, repo, key, runUrl: workflow.url, drift });
  }

  async #closeAsCancelled(): Promise<void> {
    if (await this.#checkRun?.cancel(CANCELLED)) this.#options.onCheckRun(null);
  }

  async #close(plan: RunReport['plan'] | null, final: Parameters<CheckRun['close']>[0]): Promise<string | null> {
    if (this.#checkRun !== null) {
      if (!this.#cancelled) {
        const closed = await this.#checkRun.close(final);
        const ended = { conclusion: final.conclusion, title: final.output.title };
        this.#options.onCheckRun(closed ? null : { ...this.#checkRun.state, ended });
      }
      return this.#checkRun.url;
    }
    const place = this.#place(plan);
    if (place === null) return null;
    return (await postCheckRun(place, final))?.url ?? null;
  }

  #place(plan: RunReport['plan'] | null): Parameters<typeof openCheckRun>[0] | null {
    const { api, logger, workflow, checkName } = this.#options;
    const context = this.#context;
    const [owner, repo] = context?.repository.own?.split('/') ?? [];
    if (api === null || context === null || context.checkCommit === null) return null;
    if (owner === undefined || repo === undefined) return null;
    return {
      api,
      logger,
      owner,
      repo,
      name: checkName ?? `fleet-role ${context.mode}`,
      headSha: context.checkCommit,
      externalId: externalId(
        context.mode,
        workflow,
        plan?.base ?? baseHint(context),
        plan?.head ?? context.checkCommit,
      ),
      detailsUrl: workflow.url,
    };
  }

  async #write(values: Outputs): Promise<void> {
    const { outputs, logger } = this.#options;
    writeOutputs(outputs, values);
    await writeJobSummary(outputs, values.summary, logger);
  }

  #say(verdict: Verdict, sentence: string): void {
    const { logger } = this.#options;
    if (verdict.exitCode === 0) logger.info(sentence);
    else logger.error(sentence);
  }
}

/** Whether a line of the plan is a line for whoever reads the run: of the workflow's repository, or in a terminal. */
function isHere(context: RunContext | null): boolean {
  return context !== null && (context.repository.isOwn || context.repository.own === null);
}

const NOTHING: Omit<Outputs, 'result' | 'summary'> = {
  changed: false,
  plan: null,
  checkRunUrl: null,
  failedStep: '',
  failureReason: '',
};

const CANCELLED: RenderedReport = {
  title: 'Cancelled',
  summary:
    'The run was cancelled and starts no further step. What was done is done; run the same commit again and it goes on from what it finds.',
  text: '',
};

/** What is known of the base when a check run is opened before the repository was read. */
function baseHint(context: RunContext): string | null {
  const { base } = context;
  if (base.kind === 'sha') return base.sha;
  return base.kind === 'record' && base.orElse.kind === 'ancestor' ? base.orElse.sha : null;
}
