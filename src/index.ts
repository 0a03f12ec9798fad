import { readFileSync, rmSync } from 'node:fs';
import { asset } from './assets.js';
import { messageOf, UserError } from './errors.js';
import { createApi } from './github/api.js';
import { closeLeftOver, readCheckRunState } from './github/check-run.js';
import { mergeBaseLookup } from './github/compare.js';
import { readEvent, readWorkflowRun } from './github/events.js';
import { checkRunnerFiles, checkTemporaryFolder } from './github/runner-files.js';
import { createRuntime, type Runtime } from './github/runtime.js';
import { failureBefore, run } from './main.js';
import type { Verdict } from './report/result.js';
import { Reporter } from './reporter.js';
import { basicAuth } from './repository/remote.js';
import { readSettings, type Settings, secretsOf } from './settings.js';

// The only module with effects at import: main, or post when the saved state says that main ran.
const STATE_MAIN = 'main-ran';
const STATE_SECRETS = 'secret-files';
const STATE_CHECK_RUN = 'check-run';

const runtime = createRuntime(process.env);
const isMain = runtime.state(STATE_MAIN) === '';
/** Something was thrown that nobody caught: the exit status is 1, whatever the run came to. */
let escaped = false;
// A runner that is gone closes the pipe: what is begun on a host is brought to its end all the same.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
process.on('uncaughtException', tellEscaped);
process.on('unhandledRejection', tellEscaped);
// No `await` at the top: the bundler would wrap all modules in one function, whose text is then parsed twice.
(isMain ? main(runtime) : post(runtime)).catch(tellEscaped);

/** One line instead of a stack. The post step never fails the job. */
function tellEscaped(error: unknown): void {
  const { reason } = failureBefore(error, runtime.logger);
  if (!isMain) {
    runtime.logger.warning(reason);
    return;
  }
  escaped = true;
  process.exitCode = 1;
  runtime.logger.error(reason);
}

async function main({ logger, ...io }: Runtime): Promise<void> {
  // A run that stops in the middle, waiting for nothing, is no success.
  process.exitCode = 1;
  maskSecrets(io);
  checkRunnerFiles(process.env);
  io.saveState(STATE_MAIN, 'true');
  const cancel = new AbortController();
  const secretFiles: string[] = [];
  const workflow = readWorkflowRun(process.env);
  const token = io.input('token');
  const api = token === '' ? null : createApi({ token, baseUrl: workflow.apiUrl, logger });
  let reporter = new Reporter({
    api: null,
    outputs: io.outputs,
    logger,
    workflow,
    checkName: null,
    driftIssue: null,
    onCheckRun: () => {},
  });
  const onSignal = (signal: NodeJS.Signals): void => {
    logger.warning(`${signal}: no new step starts.`);
    cancel.abort();
    reporter.cancel().catch((error: unknown) => logger.debug(messageOf(error)));
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);

  let verdict: Verdict;
  try {
    checkTemporaryFolder(process.env);
    const settings: Settings = readSettings(io.input);
    const checkRuns = settings.checkRun && process.env.GITHUB_EVENT_NAME ? api : null;
    reporter = new Reporter({
      api: checkRuns,
      outputs: io.outputs,
      logger,
      workflow,
      checkName: settings.checkName,
      driftIssue: settings.driftIssue && process.env.GITHUB_EVENT_NAME ? api : null,
      onCheckRun: (state) => io.saveState(STATE_CHECK_RUN, state === null ? '' : JSON.stringify(state)),
    });
    const context = readEvent(process.env, readPayload(), settings);
    if (context.kind === 'nothing') verdict = await reporter.nothing(context.reason);
    else {
      const writes = context.mode === 'apply' || context.mode === 'rejoin';
      await reporter.begin(context, writes && context.refusal === null && !settings.dryRun);
      const outcome = await run(settings, context, workflow, {
        env: process.env,
        logger,
        signal: cancel.signal,
        clock: Date.now,
        temp: io.temp,
        mask: io.mask,
        guardsVersion: guardsVersion(),
        onSecretFiles: (paths) => {
          secretFiles.push(...paths);
          io.saveState(STATE_SECRETS, JSON.stringify(secretFiles));
        },
        mergeBaseLookup: api === null ? null : mergeBaseLookup(api),
        shownPlan: api === null ? null : (commit, branch) => reporter.shownPlan(api, commit, branch),
        progress: (report) => reporter.progress(report),
      });
      verdict = await reporter.finish(outcome);
    }
  } catch (error) {
    verdict = await reporter.fail(failureBefore(error, logger));
  }
  process.exitCode = escaped ? 1 : verdict.exitCode;
}

/** What main may have left when it was killed: key files, and a check run in progress. Never fails the job. */
async function post({ logger, ...io }: Runtime): Promise<void> {
  maskSecrets(io);
  for (const path of readPaths(io.state(STATE_SECRETS))) {
    try {
      rmSync(path, { recursive: true, force: true });
    } catch (error) {
      logger.warning(`${path} could not be removed (${messageOf(error)}); remove it from the runner.`);
    }
  }
  const checkRun = readCheckRunState(io.state(STATE_CHECK_RUN));
  const token = io.input('token');
  if (checkRun === null || token === '') return;
  const api = createApi({ token, baseUrl: readWorkflowRun(process.env).apiUrl, logger });
  await closeLeftOver(checkRun, api, logger);
}

function maskSecrets({ input, mask }: Pick<Runtime, 'input' | 'mask'>): void {
  for (const secret of secretsOf(input)) mask(secret);
  const token = input('token').trim();
  // As git sends it.
  if (token !== '') mask(basicAuth(token));
}

/** The event; there is none outside GitHub, whatever file the environment may name. */
function readPayload(): unknown {
  const path = process.env.GITHUB_EVENT_PATH;
  if (!process.env.GITHUB_EVENT_NAME || !path) return undefined;
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new UserError(`The event file that GITHUB_EVENT_PATH names cannot be read: ${messageOf(error)}.`);
  }
}

function readPaths(text: string): readonly string[] {
  if (text === '') return [];
  const paths: unknown = JSON.parse(text);
  return Array.isArray(paths) ? paths.filter((path) => typeof path === 'string') : [];
}

/** The version in the second line of the guard scripts that ship with this bundle. */
function guardsVersion(): string {
  const version = /^# fleet-role-guards (\S+)$/m.exec(asset('node/node-entrypoint.sh'))?.[1];
  if (version === undefined) throw new Error('node/node-entrypoint.sh has no version');
  return version;
}
