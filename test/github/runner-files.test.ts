import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { UserError } from '../../src/errors.js';
import { checkRunnerFiles, checkTemporaryFolder } from '../../src/github/runner-files.js';

let base: string;
beforeAll(() => {
  base = mkdtempSync(join(tmpdir(), 'fleet-role-files-'));
  writeFileSync(join(base, 'file'), '');
  mkdirSync(join(base, 'folder'));
});
afterAll(() => rmSync(base, { recursive: true, force: true }));

describe('the files of the runner', () => {
  test.each(['GITHUB_OUTPUT', 'GITHUB_STATE', 'GITHUB_STEP_SUMMARY'])('%s must be one that can be written', (name) => {
    expect(() => checkRunnerFiles({ [name]: join(base, 'file') })).not.toThrow();
    expect(() => checkRunnerFiles({ [name]: join(base, 'none') })).toThrow(UserError);
    expect(() => checkRunnerFiles({ [name]: join(base, 'none') })).toThrow(
      new RegExp(`^${name} is ".*none", a file that is not there; make that file, or run without ${name}\\.$`),
    );
    expect(() => checkRunnerFiles({ [name]: join(base, 'folder') })).toThrow(/which is a folder/);
    expect(() => checkRunnerFiles({ [name]: join(base, 'file', 'x') })).toThrow(/which cannot be written \(ENOTDIR/);
  });

  test('are not needed', () => {
    expect(() => checkRunnerFiles({ GITHUB_OUTPUT: '', GITHUB_STATE: undefined })).not.toThrow();
  });
});

describe('RUNNER_TEMP', () => {
  test('is a folder, where it is set', () => {
    expect(() => checkTemporaryFolder({})).not.toThrow();
    expect(() => checkTemporaryFolder({ RUNNER_TEMP: join(base, 'folder') })).not.toThrow();
    expect(() => checkTemporaryFolder({ RUNNER_TEMP: join(base, 'file') })).toThrow(/which is no folder/);
    expect(() => checkTemporaryFolder({ RUNNER_TEMP: join(base, 'none') })).toThrow(/a folder that is not there/);
  });
});
