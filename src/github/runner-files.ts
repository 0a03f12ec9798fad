import { accessSync, constants, statSync } from 'node:fs';
import { messageOf, UserError } from '../errors.js';

type Environment = Readonly<Record<string, string | undefined>>;

/** The files that the runner makes for each step and that we write to. */
const FILES = ['GITHUB_OUTPUT', 'GITHUB_STATE', 'GITHUB_STEP_SUMMARY'] as const;

/**
 * Checks that the files of the runner that the environment names can be written; one that it does not name is not
 * needed. Throws a UserError that says which one is wrong, why, and the way out.
 */
export function checkRunnerFiles(env: Environment): void {
  for (const name of FILES) {
    const path = env[name];
    if (path) check(name, path, 'file', `make that file, or run without ${name}`);
  }
}

/** Checks that RUNNER_TEMP, where it is set, is a folder that can be written. Throws a UserError as above. */
export function checkTemporaryFolder(env: Environment): void {
  const path = env.RUNNER_TEMP;
  if (path) check('RUNNER_TEMP', path, 'folder', 'make that folder, or run without RUNNER_TEMP');
}

function check(name: string, path: string, kind: 'file' | 'folder', wayOut: string): void {
  const fault = faultOf(path, kind);
  if (fault !== null) {
    throw new UserError(`${name} is ${JSON.stringify(path)}, ${fault}; ${wayOut}.`);
  }
}

function faultOf(path: string, kind: 'file' | 'folder'): string | null {
  try {
    const isFolder = statSync(path).isDirectory();
    if (isFolder !== (kind === 'folder')) return `which is ${isFolder ? 'a folder' : 'no folder'}`;
    accessSync(path, constants.R_OK | constants.W_OK | (isFolder ? constants.X_OK : 0));
    return null;
  } catch (error) {
    return isMissing(error) ? `a ${kind} that is not there` : `which cannot be written (${messageOf(error)})`;
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}
