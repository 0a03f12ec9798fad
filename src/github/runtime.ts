import { tmpdir } from 'node:os';

import type { Logger } from '../log.js';
import * as core from './actions-core.js';
import { plainLogger, runnerLogger } from './logger.js';
import { type OutputPort, runnerOutputs } from './outputs.js';

/** What the runner, or a terminal, gives a run. */
export interface Runtime {
  readonly logger: Logger;
  readonly outputs: OutputPort;
  /** RUNNER_TEMP; outside GitHub, where it may be unset, the machine's folder for temporary files. */
  readonly temp: string;
  /** An input's text as it is, "" when it is not given. */
  input(name: string): string;
  /** Keeps a secret out of the log. Does nothing in a terminal, where the word for it would print the secret. */
  mask(secret: string): void;
  /** What main saved for post; "" when it did not. */
  state(name: string): string;
  saveState(name: string, value: string): void;
}

/** The runtime of this process's environment: GitHub's runner when `GITHUB_ACTIONS` says so, else a terminal. */
export function createRuntime(env: Readonly<Record<string, string | undefined>>): Runtime {
  const onRunner = env.GITHUB_ACTIONS === 'true';
  const options = { out: process.stdout, err: process.stderr, verbose: env.RUNNER_DEBUG === '1' };
  return {
    logger: onRunner ? runnerLogger(core) : plainLogger(options),
    outputs: runnerOutputs(core, env),
    temp: env.RUNNER_TEMP || tmpdir(),
    input: (name) => core.getInput(name),
    mask: (secret) => {
      if (onRunner) core.setSecret(secret);
    },
    state: (name) => core.getState(name),
    saveState: (name, value) => {
      if (env.GITHUB_STATE) core.saveState(name, value);
    },
  };
}
