// What a run uses of `@actions/core`, taken from the files of that package and not from its index: the index also loads
// the HTTP client of its OIDC tokens, which more than doubles the time until a run begins (measured: 70 ms of 120).
// test/github/actions-core.test.ts holds each function against the package's own.
import { EOL } from 'node:os';
import { issue, issueCommand } from '../../node_modules/@actions/core/lib/command.js';
import { issueFileCommand, prepareKeyValueMessage } from '../../node_modules/@actions/core/lib/file-command.js';
import { toCommandProperties } from '../../node_modules/@actions/core/lib/utils.js';
import type { LogCore } from './logger.js';
import type { OutputCore } from './outputs.js';

type Properties = Parameters<LogCore['notice']>[1];

/** An input's text as it is; "" when it is not given. */
export const getInput = (name: string): string => process.env[`INPUT_${name.replace(/ /g, '_').toUpperCase()}`] ?? '';

/** What main saved for post under this name; "" when it did not. */
export function getState(name: string): string {
  return process.env[`STATE_${name}`] ?? '';
}

/** Saves a value for the post step. GITHUB_STATE must name a file. */
export function saveState(name: string, value: string): void {
  issueFileCommand('STATE', prepareKeyValueMessage(name, value));
}

/** Sets an output of the step. GITHUB_OUTPUT must name a file. */
export const setOutput: OutputCore['setOutput'] = (name, value) => {
  issueFileCommand('OUTPUT', prepareKeyValueMessage(name, value));
};

/**
 * Adds Markdown to the job summary. GITHUB_STEP_SUMMARY must name a file. Not by the package's `summary`, which waits
 * for that file three times: at the end of a big plan V8 uses such pauses to collect what the end of the process frees.
 */
export function addSummary(markdown: string): void {
  issueFileCommand('STEP_SUMMARY', markdown);
}

/** Keeps a text out of the log of the job, from now on. */
export function setSecret(secret: string): void {
  issueCommand('add-mask', {}, secret);
}

export function debug(message: string): void {
  issueCommand('debug', {}, message);
}

export function info(message: string): void {
  process.stdout.write(message + EOL);
}

export function notice(message: string, properties: Properties = {}): void {
  issueCommand('notice', toCommandProperties(properties), message);
}

export function warning(message: string, properties: Properties = {}): void {
  issueCommand('warning', toCommandProperties(properties), message);
}

export function error(message: string, properties: Properties = {}): void {
  issueCommand('error', toCommandProperties(properties), message);
}

/** Runs `work` with what it logs folded under `name`. */
export async function group<T>(name: string, work: () => Promise<T>): Promise<T> {
  issue('group', name);
  try {
    return await work();
  } finally {
    issue('endgroup');
  }
}
