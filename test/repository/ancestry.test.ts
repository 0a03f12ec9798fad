import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { command } from '../helpers/command.js';
import { type GitRepository, GitServer } from '../helpers/git-server.js';
import { type Bench, everything, makeBench, nothing, textOf } from './setup.js';

const UNKNOWN = '1234567890123456789012345678901234567890';

let bench: Bench;
let server: GitServer;
let origin: GitRepository;
/** root ← one ← two on main; root ← side on a branch; `away` was forced away from main; `lone` shares nothing. */
const commits = { root: '', one: '', two: '', side: '', away: '', lone: '' };
beforeAll(async () => {
  bench = await makeBench();
  server = await GitServer.start({ tokens: null });
  origin = await server.createRepository('octo/fleet');
  commits.root = await origin.commit({ a: '1' });
  commits.side = await origin.commit({ a: 'side' }, { branch: 'side', from: commits.root });
  commits.away = await origin.commit({ a: 'away' }, { from: commits.root });
  await origin.setBranch('main', commits.root);
  commits.one = await origin.commit({ a: '2' });
  commits.two = await origin.commit({ a: '3' });
  commits.lone = await origin.commit({ a: 'lone' }, { branch: 'lone', from: null });
});
afterAll(async () => {
  await bench.remove();
  await server.close();
});

const remote = (name = 'fleet') => bench.open({ repository: `octo/${name}`, serverUrl: server.url });

describe.each(['local', 'remote'])('the ancestry of commits in a %s repository', (where) => {
  const open = () => (where === 'local' ? bench.open({ repository: origin.dir }) : remote());

  it.each([
    ['root', 'two', 'yes'],
    ['one', 'two', 'yes'],
    ['two', 'two', 'yes'],
    ['two', 'one', 'no'],
    ['side', 'two', 'no'],
    ['away', 'two', 'no'],
    ['lone', 'two', 'no'],
  ] as const)('%s is an ancestor of %s: %s', async (ancestor, descendant, expected) => {
    expect(await (await open()).isAncestor(commits[ancestor], commits[descendant])).toBe(expected);
  });

  it('is no for a commit that a whole history does not have, and unknown when there is no history', async () => {
    const repository = await open();
    expect(await repository.isAncestor(UNKNOWN, commits.two)).toBe('no');
    expect(await repository.isAncestor(commits.two, UNKNOWN)).toBe('unknown');
    expect(await repository.isAncestor(UNKNOWN, UNKNOWN.replace('1', '2'))).toBe('unknown');
  });

  it.each([
    ['one', 'side', 'root'],
    ['one', 'two', 'one'],
    ['two', 'lone', null],
  ] as const)('%s and %s have the merge base %s', async (one, other, base) => {
    expect(await (await open()).mergeBase(commits[one], commits[other])).toBe(base && commits[base]);
  });

  it('is not known, and no exception, when a commit is not there', async () => {
    expect(await (await open()).mergeBase(commits.two, UNKNOWN)).toBeNull();
  });
});

describe('the history of a remote repository', () => {
  it('comes once, without trees and files, and leaves what was read alone', async () => {
    const repository = await remote();
    await repository.snapshot([commits.two], nothing);
    await repository.isAncestor(commits.root, commits.two);
    const requests = server.requests.length;
    expect(await repository.isAncestor(commits.one, commits.two)).toBe('yes');
    expect(server.requests).toHaveLength(requests);
    const dirs = await readdir(bench.temp);
    const histories = dirs.map((dir) => join(bench.temp, dir, 'history-sha1.git')).filter((dir) => existsSync(dir));
    expect(histories.length).toBeGreaterThan(0);
    for (const dir of histories) {
      const types = execFileSync('git', ['-C', dir, 'cat-file', '--batch-all-objects', '--batch-check'], {
        encoding: 'utf8',
      });
      expect(types).not.toMatch(/ (?:tree|blob) /);
    }
    expect(textOf((await repository.snapshot([commits.two], everything))[0], 'a')).toBe('3');
  });

  it('is known from a server that has no filters', async () => {
    const plain = await server.createRepository('octo/plain');
    await plain.git('config', 'uploadpack.allowFilter', 'false');
    const one = await plain.commit({ a: '1' });
    const two = await plain.commit({ a: '2' });
    expect(await (await remote('plain')).isAncestor(one, two)).toBe('yes');
  });

  it('is unknown, never no, behind the end of a shallow one', async () => {
    const dir = origin.dir.replace('fleet.git', 'shallow.git');
    await command('git', ['clone', '-q', '--bare', '--depth=2', `file://${origin.dir}`, dir]);
    for (const repository of [await remote('shallow'), await bench.open({ repository: dir })]) {
      expect(await repository.isAncestor(commits.one, commits.two)).toBe('yes');
      expect(await repository.isAncestor(commits.root, commits.two)).toBe('unknown');
      expect(await repository.isAncestor(commits.two, commits.one)).toBe('unknown');
      expect(await repository.mergeBase(commits.one, commits.two)).toBe(commits.one);
      expect(textOf((await repository.snapshot([commits.two], everything))[0], 'a')).toBe('3');
      await expect(repository.snapshot([commits.two, commits.root], everything)).rejects.toMatchObject({
        commit: commits.root,
      });
    }
  });

  it('is unknown when the server cannot be reached', async () => {
    const gone = await GitServer.start({ tokens: null });
    const repository = await bench.open({ repository: 'octo/fleet', serverUrl: gone.url });
    await gone.close();
    expect(await repository.isAncestor(commits.one, commits.two)).toBe('unknown');
    expect(await repository.mergeBase(commits.one, commits.two)).toBeNull();
    await expect(repository.snapshot([commits.two], nothing)).rejects.toMatchObject({ commit: commits.two });
  });
});

describe('a commit that was forced away', () => {
  it('is still read while the server has it, and an error that names it afterwards', async () => {
    const forced = await server.createRepository('octo/forced');
    const base = await forced.commit({ a: '1' });
    const away = await forced.commit({ a: '2' });
    await forced.setBranch('main', base);
    const after = await forced.commit({ a: '3' });
    expect(textOf((await (await remote('forced')).snapshot([away], everything))[0], 'a')).toBe('2');
    await forced.git('reflog', 'expire', '--expire=now', '--all');
    await forced.git('gc', '-q', '--prune=now');
    await rm(join(forced.dir, 'objects', away.slice(0, 2), away.slice(2)), { force: true });
    const error = await (await remote('forced')).snapshot([after, away], everything).catch((e: unknown) => e);
    expect(error).toMatchObject({ commit: away, message: expect.stringContaining('not forced away') });
  });
});

describe('GitHub', () => {
  it('is asked first where the repository is there, and git when it does not say', async () => {
    const asked: unknown[] = [];
    const answers: (string | null | Error)[] = [commits.root, commits.root, null, new Error('HTTP 500')];
    const repository = await bench.open({
      repository: 'octo/fleet',
      serverUrl: server.url,
      mergeBaseLookup: async (...question) => {
        asked.push(question);
        const answer = answers.shift() ?? null;
        if (answer instanceof Error) throw answer;
        return answer;
      },
    });
    const requests = server.requests.length;
    expect(await repository.isAncestor(commits.root, commits.two)).toBe('yes');
    expect(await repository.isAncestor(commits.away, commits.two)).toBe('no');
    expect(server.requests).toHaveLength(requests);
    expect(await repository.isAncestor(commits.root, commits.two)).toBe('yes');
    expect(await repository.mergeBase(commits.side, commits.two)).toBe(commits.root);
    expect(server.requests.length).toBeGreaterThan(requests);
    expect(asked[0]).toEqual([{ owner: 'octo', repo: 'fleet' }, commits.root, commits.two]);
    expect(asked).toHaveLength(4);
  });

  it('is not asked about a repository elsewhere', async () => {
    const repository = await bench.open({
      repository: origin.dir,
      mergeBaseLookup: () => Promise.reject(new Error('asked')),
    });
    expect(await repository.isAncestor(commits.root, commits.two)).toBe('yes');
    expect(bench.logger.lines.join('\n')).not.toContain('asked');
  });
});

describe('a repository that is closed', () => {
  it('leaves nothing in the temporary directory', async () => {
    const own = await makeBench();
    const repository = await own.open({ repository: 'octo/fleet', serverUrl: server.url });
    expect(await readdir(own.temp)).toEqual([]);
    await repository.snapshot([commits.two], everything);
    await repository.isAncestor(commits.root, commits.two);
    expect(await readdir(own.temp)).toHaveLength(1);
    await repository.close();
    expect(await readdir(own.temp)).toEqual([]);
    await own.remove();
  });
});
