import { messageOf } from '../errors.js';
import type { Logger } from '../log.js';
import type { Annotation, AnnotationLevel } from '../report/annotations.js';
import { RUNNER_ANNOTATIONS_PER_LEVEL } from '../report/budget.js';
import type { PlanJson } from '../report/plan-json.js';
import { count } from '../report/result.js';
import type { Result } from '../report/run.js';

/** Every output of the Action; all are always set. */
export interface Outputs {
  readonly result: Result;
  readonly changed: boolean;
  /** Null when the run ended before there was a plan: the output is then empty. */
  readonly plan: PlanJson | null;
  /** Markdown. */
  readonly summary: string;
  /** Null without a check run: empty. */
  readonly checkRunUrl: string | null;
  /** `ACTION HOST`, or "". */
  readonly failedStep: string;
  /** One line, or "". */
  readonly failureReason: string;
}

/** Where outputs and the job summary go: the runner's files, or nowhere. */
export interface OutputPort {
  setOutput(name: string, value: string): void;
  /** Throws when the summary cannot be written. */
  appendSummary(markdown: string): Promise<void>;
}

/** What is used of `@actions/core`. */
export interface OutputCore {
  setOutput(name: string, value: unknown): void;
  addSummary(markdown: string): void;
}

/**
 * The runner's outputs and job summary. Without `GITHUB_OUTPUT` (a terminal) outputs go nowhere: `@actions/core` would
 * print them as commands of old.
 */
export function runnerOutputs(core: OutputCore, env: Readonly<Record<string, string | undefined>>): OutputPort {
  return {
    setOutput(name, value) {
      if (env.GITHUB_OUTPUT) core.setOutput(name, value);
    },
    async appendSummary(markdown) {
      core.addSummary(markdown);
    },
  };
}

/** Sets every output. The only place that knows their names. */
export function writeOutputs(port: OutputPort, outputs: Outputs): void {
  port.setOutput('result', outputs.result);
  port.setOutput('changed', String(outputs.changed));
  port.setOutput('plan', outputs.plan === null ? '' : JSON.stringify(outputs.plan));
  port.setOutput('summary', outputs.summary);
  port.setOutput('check-run-url', outputs.checkRunUrl ?? '');
  port.setOutput('failed-step', outputs.failedStep);
  port.setOutput('failure-reason', outputs.failureReason);
}

/** Writes the job summary; where that is not possible a notice says so and the run goes on. */
export async function writeJobSummary(port: OutputPort, markdown: string, logger: Logger): Promise<void> {
  try {
    await port.appendSummary(markdown);
  } catch (error) {
    logger.notice(`The job summary is not written: ${messageOf(error)}`);
  }
}

/**
 * Puts annotations on their lines without a check run. The runner keeps ten of each level for a step: the worst are
 * given, and the log says how many are not.
 */
export function annotateLines(logger: Logger, annotations: readonly Annotation[]): void {
  const given: Record<AnnotationLevel, number> = { failure: 0, warning: 0, notice: 0 };
  let left = 0;
  for (const { path, line, level, title, message } of annotations) {
    if (given[level]++ >= RUNNER_ANNOTATIONS_PER_LEVEL) {
      left++;
      continue;
    }
    const place = { file: path, line, title };
    if (level === 'failure') logger.error(message, place);
    else if (level === 'warning') logger.warning(message, place);
    else logger.notice(message, place);
  }
  if (left > 0) logger.info(`${count(left, 'more annotation')} had no room: the job summary has everything.`);
}
