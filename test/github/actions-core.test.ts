import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as theirs from '@actions/core';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import * as ours from '../../src/github/actions-core.js';

const HOSTILE = 'a%b\r\nc:d,e::error::f 🙂';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'fleet-role-core-'));
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

/** What `work` prints, and what it adds to the runner's files. */
async function written(work: () => unknown): Promise<string> {
  let text = '';
  for (const name of ['GITHUB_OUTPUT', 'GITHUB_STATE']) {
    writeFileSync(join(folder, name), '');
    vi.stubEnv(name, join(folder, name));
  }
  const write = vi.spyOn(process.stdout, 'write').mockImplementation((data) => {
    text += data;
    return true;
  });
  await work();
  write.mockRestore();
  const files = ['GITHUB_OUTPUT', 'GITHUB_STATE'].map((name) => `${name}: ${readFileSync(join(folder, name), 'utf8')}`);
  return [text, ...files].join('\n').replace(/ghadelimiter_[0-9a-f-]{36}/g, 'DELIMITER');
}

describe('what is used of @actions/core does what the package does', () => {
  const properties = { title: HOSTILE, file: 'a,b:c.yml', startLine: 3 };
  it.each<[string, (core: typeof ours | typeof theirs) => unknown]>([
    ['debug', (core) => core.debug(HOSTILE)],
    ['info', (core) => core.info(HOSTILE)],
    ['notice', (core) => core.notice(HOSTILE)],
    ['warning', (core) => core.warning(HOSTILE, properties)],
    ['error', (core) => core.error(HOSTILE, { file: 'x.yml' })],
    ['a group', (core) => core.group('name', async () => core.info('inside'))],
    ['a group whose work fails', (core) => core.group('name', () => Promise.reject(new Error('x'))).catch(() => {})],
    ['setSecret', (core) => core.setSecret(HOSTILE)],
    ['setOutput', (core) => core.setOutput('plan', HOSTILE)],
    ['saveState', (core) => core.saveState('name', HOSTILE)],
  ])('%s', async (_name, work) => {
    const expected = await written(() => work(theirs));
    expect(await written(() => work(ours))).toBe(expected);
    expect(expected.length).toBeGreaterThan('\nGITHUB_OUTPUT: \nGITHUB_STATE: '.length);
  });

  it('inputs, kept as they are, and what main saved for post', () => {
    vi.stubEnv('INPUT_SSH-KNOWN HOSTS'.replace(' ', '_'), '  a\n b ');
    vi.stubEnv('STATE_name', ' x ');
    expect(ours.getInput('ssh-known hosts')).toBe('  a\n b ');
    for (const name of ['ssh-known hosts', 'nothing']) {
      expect(ours.getInput(name)).toBe(theirs.getInput(name, { trimWhitespace: false }));
    }
    for (const name of ['name', 'nothing']) expect(ours.getState(name)).toBe(theirs.getState(name));
  });

  it('the job summary, added to what is there', async () => {
    const texts = [];
    for (const add of [ours.addSummary, (text: string) => theirs.summary.addRaw(text, true).write()]) {
      const file = join(folder, `summary-${texts.length}`);
      writeFileSync(file, 'before\n');
      vi.stubEnv('GITHUB_STEP_SUMMARY', file);
      await add(`## ${HOSTILE}\n`);
      texts.push(readFileSync(file, 'utf8'));
    }
    expect(texts[0]).toBe(texts[1]);
    expect(texts[0]).toContain(HOSTILE);
  });
});
