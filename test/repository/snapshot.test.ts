import { execFileSync } from 'node:child_process';
import { appendFile, mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { UserError } from '../../src/errors.js';
import { COMMIT_FILES, FILE_LIMIT } from '../../src/repository/repository.js';
import { CommitError } from '../../src/repository/source.js';
import { command } from '../helpers/command.js';
import { type FileContent, GitRepository, GitServer } from '../helpers/git-server.js';
import { type Bench, everything, makeBench, nothing, textOf } from './setup.js';

const UNKNOWN = '1234567890123456789012345678901234567890';

let bench: Bench;
let server: GitServer;
beforeAll(async () => {
  bench = await makeBench();
  server = await GitServer.start({ tokens: null });
});
afterAll(async () => {
  await bench.remove();
  await server.close();
});

/** The same repository, on disk and over HTTP. */
async function fleet(name: string) {
  const origin = await server.createRepository(`octo/${name}`);
  const remote = () => bench.open({ repository: `octo/${name}`, serverUrl: server.url });
  const local = () => bench.open({ repository: origin.dir });
  return { origin, remote, local, either: (where: string) => (where === 'local' ? local() : remote()) };
}

const BOTH = ['local', 'remote'];

describe.each(BOTH)('two commits of a %s repository', { timeout: 60_000 }, (where) => {
  it('are read with their files, a renamed one as the same object', async () => {
    const { origin, either } = await fleet(`renamed-${where}`);
    const before = await origin.commit({ 'inventory.yml': 'all:\n', 'host_vars/old.yml': 'x: 1\n', empty: '' });
    const after = await origin.commit({
      'host_vars/old.yml': null,
      'host_vars/new name.yml': 'x: 1\n',
      'a/b/c/d': 'deep',
    });
    const repository = await either(where);
    const [head, base] = await repository.snapshot([after, before], everything);
    expect([head?.commit, base?.commit]).toEqual([after, before]);
    expect([...(base?.entries.keys() ?? [])]).toEqual(['empty', 'host_vars/old.yml', 'inventory.yml']);
    expect([...(head?.entries.keys() ?? [])]).toEqual(['a/b/c/d', 'empty', 'host_vars/new name.yml', 'inventory.yml']);
    expect(head?.entries.get('host_vars/new name.yml')?.oid).toBe(base?.entries.get('host_vars/old.yml')?.oid);
    expect(head?.blobs).toBe(base?.blobs);
    expect(textOf(head, 'host_vars/new name.yml')).toBe('x: 1\n');
    expect(textOf(head, 'a/b/c/d')).toBe('deep');
    expect(textOf(head, 'empty')).toBe('');
    expect(head?.entries.get('empty')).toMatchObject({ type: 'file', size: 0 });
  });

  it('hold links and submodules as entries that are not followed', async () => {
    const { origin, either } = await fleet(`links-${where}`);
    const first = await origin.commit({
      'inventory.yml': { link: '../../../../etc/passwd' },
      run: { executable: '#!' },
    });
    const tree = await origin.git('ls-tree', first);
    const withModule = execFileSync('git', ['-C', origin.dir, 'mktree'], {
      input: `${tree}\n160000 commit ${UNKNOWN}\tmodule\n`,
      encoding: 'utf8',
    }).trim();
    const commit = execFileSync(
      'git',
      ['-C', origin.dir, '-c', 'user.name=a', '-c', 'user.email=a@example.com', 'commit-tree', '-m', 'x', withModule],
      { encoding: 'utf8' },
    ).trim();
    const [head] = await (await either(where)).snapshot([commit], everything);
    expect(head?.entries.get('inventory.yml')?.type).toBe('link');
    expect(textOf(head, 'inventory.yml')).toBe('../../../../etc/passwd');
    expect(head?.entries.get('run')?.type).toBe('file');
    expect(head?.entries.get('module')).toEqual({ type: 'module', oid: UNKNOWN, size: 0 });
    expect(head?.blobs.has(UNKNOWN)).toBe(false);
  });

  it('may have any name and any bytes', async () => {
    const { origin, either } = await fleet(`names-${where}`);
    const bytes = Buffer.from([0, 10, 13, 255, 254, 0, 10, 128]);
    const files: Record<string, FileContent> = {
      'with space': 'a',
      'with\nnewline\n': 'b',
      'with "quotes" and \'quotes\'': 'c',
      'with\ttab': 'd',
      'grün/ñ/日本': 'e',
      '-option': 'f',
      '*.yml': 'g',
      binary: bytes,
    };
    const commit = await origin.commit(files);
    const [head] = await (await either(where)).snapshot([commit], everything);
    expect(new Set(head?.entries.keys())).toEqual(new Set(Object.keys(files)));
    for (const [path, content] of Object.entries(files)) {
      if (typeof content === 'string') expect(textOf(head, path)).toBe(content);
    }
    expect(Buffer.from(head?.blobs.get(head.entries.get('binary')?.oid ?? '') ?? [])).toEqual(bytes);
  });

  it('are read when there are 5,000 files', async () => {
    const { origin, either } = await fleet(`many-${where}`);
    const files: Record<string, string> = {};
    for (let i = 0; i < 5000; i++) files[`host_vars/${i % 50}/h${i}.yml`] = `number: ${i}\n`;
    const commit = await origin.commit(files);
    const [head] = await (await either(where)).snapshot([commit], everything);
    expect(head?.entries.size).toBe(5000);
    expect(Object.keys(files).filter((path) => textOf(head, path) !== files[path])).toEqual([]);
  });

  it('give only what was asked for, and are asked for again without reading twice', async () => {
    const { origin, either } = await fleet(`twice-${where}`);
    const one = await origin.commit({ a: 'shared', b: 'b' });
    const two = await origin.commit({ c: 'c' });
    const repository = await either(where);
    const [first] = await repository.snapshot([one], () => ['a', 'is not there']);
    expect(first?.blobs.size).toBe(1);
    const before = (await bench.commands()).length;
    const [again] = await repository.snapshot([one], () => ['a']);
    expect(again).toEqual(first);
    expect(await bench.commands()).toHaveLength(before);
    const [, second] = await repository.snapshot([one, two], () => ['a', 'c']);
    expect(second?.blobs).toBe(first?.blobs);
    expect(textOf(second, 'c')).toBe('c');
    // The tree of `two` and its one new file; its fetch, when it has one, starts others of its own.
    const commands = (await bench.commands()).slice(before).map((line) => /(ls-tree|cat-file|fetch)/.exec(line)?.[1]);
    expect(commands.filter((name) => name === 'ls-tree' || name === 'cat-file')).toEqual(['ls-tree', 'cat-file']);
    expect(commands.filter((name) => name === 'fetch')).toHaveLength(where === 'local' ? 0 : 1);
  });

  it('can be the same commit', async () => {
    const { origin, either } = await fleet(`same-${where}`);
    const commit = await origin.commit({ a: 'a' });
    const before = (await bench.commands()).length;
    const [head, base] = await (await either(where)).snapshot([commit, commit], everything);
    expect(head).toEqual(base);
    expect((await bench.commands()).slice(before).filter((line) => line.includes('ls-tree'))).toHaveLength(1);
  });

  it('can be named by the SHA of an annotated tag, which is peeled', async () => {
    const { origin, either } = await fleet(`tag-${where}`);
    const commit = await origin.commit({ a: 'a' });
    await origin.git('-c', 'user.name=a', '-c', 'user.email=a@example.com', 'tag', '-a', '-m', 'x', 'v1', commit);
    const tag = await origin.git('rev-parse', 'refs/tags/v1');
    expect(tag).not.toBe(commit);
    const repository = await either(where);
    const [head] = await repository.snapshot([tag], everything);
    expect(head?.commit).toBe(commit);
    expect(textOf(head, 'a')).toBe('a');
    expect(await repository.resolve('v1', 'ref')).toBe(commit);
  });

  it('are an error, and no empty tree, when one is unknown; the other can still be had', async () => {
    const { origin, either } = await fleet(`unknown-${where}`);
    const commit = await origin.commit({ a: 'a' });
    const repository = await either(where);
    const error = await repository.snapshot([commit, UNKNOWN], everything).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(CommitError);
    expect(error).toBeInstanceOf(UserError);
    expect(error).toMatchObject({ commit: UNKNOWN, reason: 'unavailable' });
    expect((error as Error).message).toContain(UNKNOWN);
    expect((error as Error).message).toContain(repository.name);
    expect((error as Error).message).not.toMatch(/[\n\r]/);
    const [head] = await repository.snapshot([commit], everything);
    expect(textOf(head, 'a')).toBe('a');
  });

  it('must be commits', async () => {
    const { origin, either } = await fleet(`tree-${where}`);
    const commit = await origin.commit({ a: 'a' });
    const tree = await origin.git('rev-parse', `${commit}^{tree}`);
    await expect((await either(where)).snapshot([tree], nothing)).rejects.toMatchObject({ commit: tree });
    const blob = await origin.git('rev-parse', `${commit}:a`);
    await expect((await either(where)).snapshot([blob], nothing)).rejects.toMatchObject({ commit: blob });
    await expect((await either(where)).snapshot(['--all'], nothing)).rejects.toThrow('not a full SHA');
  });

  it('are read in a repository that uses SHA-256', async () => {
    const origin = await server.createRepository(`octo/sha256-${where}`);
    await rm(origin.dir, { recursive: true });
    execFileSync('git', ['init', '-q', '--bare', '-b', 'main', '--object-format=sha256', origin.dir]);
    const commit = await origin.commit({ a: 'a' });
    const next = await origin.commit({ a: 'b' });
    expect(commit).toHaveLength(64);
    const repository =
      where === 'local'
        ? await bench.open({ repository: origin.dir })
        : await bench.open({ repository: `octo/sha256-${where}`, serverUrl: server.url });
    const [head, base] = await repository.snapshot([next, commit], everything);
    expect([textOf(head, 'a'), textOf(base, 'a')]).toEqual(['b', 'a']);
    expect(await repository.resolve('main', 'ref')).toBe(next);
    expect(await repository.isAncestor(commit, next)).toBe('yes');
    expect(await repository.isAncestor(next, commit)).toBe('no');
  });

  it('have bounds: a file that is too big is not read, and too many or too much is an error', async () => {
    const { origin, either } = await fleet(`big-${where}`);
    const big = 'x'.repeat(FILE_LIMIT);
    const commit = await origin.commit({
      big: `${big}x`,
      a: `${big}`,
      b: `y${big.slice(1)}`,
      c: `z${big.slice(1)}`,
      d: `w${big.slice(1)}`,
      e: 'e',
    });
    const repository = await either(where);
    const [head] = await repository.snapshot([commit], () => ['big', 'a', 'b', 'c', 'd']);
    const contents = ['big', 'a', 'b', 'c', 'd'].map(
      (path) => head?.blobs.get(head.entries.get(path)?.oid ?? '')?.length,
    );
    expect(contents).toEqual([undefined, FILE_LIMIT, FILE_LIMIT, FILE_LIMIT, FILE_LIMIT]);
    expect(head?.entries.get('big')?.size).toBe(FILE_LIMIT + 1);
    await expect(repository.snapshot([commit], everything)).rejects.toMatchObject({ commit, reason: 'too-big' });
    const many = Array.from({ length: COMMIT_FILES + 1 }, (_, i) => `h${i}`);
    await expect(repository.snapshot([commit], () => many)).rejects.toMatchObject({ commit, reason: 'too-big' });
  });
});

describe('a tree that names itself without end', () => {
  it('is stopped and told', { timeout: 60_000 }, async () => {
    const { origin, local } = await fleet('bomb');
    let tree = '';
    const blob = execFileSync('git', ['-C', origin.dir, 'hash-object', '-w', '--stdin'], {
      input: 'x',
      encoding: 'utf8',
    });
    for (let level = 0; level < 10; level++) {
      const entry = level === 0 ? `100644 blob ${blob.trim()}` : `040000 tree ${tree}`;
      const input = Array.from({ length: 10 }, (_, i) => `${entry}\t${'n'.repeat(50)}${i}\n`).join('');
      tree = execFileSync('git', ['-C', origin.dir, 'mktree'], { input, encoding: 'utf8' }).trim();
    }
    const commit = execFileSync(
      'git',
      ['-C', origin.dir, '-c', 'user.name=a', '-c', 'user.email=a@example.com', 'commit-tree', '-m', 'x', tree],
      { encoding: 'utf8' },
    ).trim();
    await expect((await local()).snapshot([commit], nothing)).rejects.toMatchObject({ commit, reason: 'too-big' });
    await vi.waitFor(() => {
      const running = execFileSync('ps', ['-eo', 'args'], { encoding: 'utf8' }).split('\n');
      expect(running.filter((line) => line.includes('ls-tree') && line.includes(commit))).toEqual([]);
    }, 20_000);
  });
});

describe('a local repository', () => {
  it('is read where it is: two processes for the trees, one for the files, nothing fetched or written', async () => {
    const { origin, local } = await fleet('counted');
    const before = await origin.commit({ a: 'a' });
    const after = await origin.commit({ a: 'b' });
    const repository = await local();
    const count = (await bench.commands()).length;
    await repository.snapshot([after, before], everything);
    const commands = (await bench.commands()).slice(count).map((line) => line.split(' ')[1]);
    expect(commands.sort()).toEqual(['cat-file', 'ls-tree', 'ls-tree']);
  });

  it('can be a work tree, a linked work tree, or a path relative to the workspace', async () => {
    const clone = join(bench.dir, 'work tree');
    const { origin } = await fleet('worktree');
    const commit = await origin.commit({ a: 'a' });
    execFileSync('git', ['clone', '-q', origin.dir, clone], { stdio: 'ignore' });
    execFileSync('git', ['-C', clone, 'worktree', 'add', '-q', '--detach', join(bench.dir, 'linked')], {
      stdio: 'ignore',
    });
    for (const repository of [clone, './work tree', join(bench.dir, 'linked'), `file://${bench.dir}/work%20tree`]) {
      const opened = await bench.open({ repository });
      expect(await opened.defaultBranchHead()).toBe(commit);
      expect(await opened.resolve(commit.slice(0, 10), 'ref')).toBe(commit);
      expect(await opened.resolve('origin/main', 'ref')).toBe(commit);
      expect(textOf((await opened.snapshot([commit], everything))[0], 'a')).toBe('a');
      expect(opened.own).toBe(false);
    }
    const workspace = await bench.open({ repository: null, workspace: clone });
    expect(await workspace.defaultBranchHead()).toBe(commit);
    expect(workspace.own).toBe(true);
  });

  it('is only what was named, never a repository around it', async () => {
    const inside = join(bench.dir, 'outer', 'inner');
    execFileSync('git', ['init', '-q', join(bench.dir, 'outer')]);
    await mkdir(inside);
    await expect(bench.open({ repository: inside })).rejects.toThrow(/is no git repository/);
    await expect(bench.open({ repository: './nowhere' })).rejects.toThrow(/input repository.*is no directory/);
    await expect(
      bench.open({ repository: join(bench.dir, 'outer') }).then((r) => r.defaultBranchHead()),
    ).rejects.toThrow(/has no commit on its default branch/);
  });

  it('without the base commit, being shallow, is an error with the way out', async () => {
    const { origin } = await fleet('shallow-clone');
    const before = await origin.commit({ a: 'a' });
    const after = await origin.commit({ a: 'b' });
    const clone = join(bench.dir, 'shallow');
    execFileSync('git', ['clone', '-q', '--depth=1', `file://${origin.dir}`, clone], { stdio: 'ignore' });
    const repository = await bench.open({ repository: clone });
    expect(textOf((await repository.snapshot([after], everything))[0], 'a')).toBe('b');
    await expect(repository.snapshot([after, before], everything)).rejects.toThrow(/fetch-depth: 0/);
    await expect(repository.snapshot([after, before], everything)).rejects.toMatchObject({ commit: before });
  });

  it('that has commits without files is an error, and asks no server for them', async () => {
    const { origin } = await fleet('partial-clone');
    const commit = await origin.commit({ a: 'a' });
    const clone = join(bench.dir, 'partial');
    const url = `${server.url}/octo/partial-clone`;
    await command('git', ['clone', '-q', '--bare', '--filter=blob:none', url, clone]);
    const requests = server.requests.length;
    await expect((await bench.open({ repository: clone })).snapshot([commit], everything)).rejects.toMatchObject({
      commit,
      message: expect.stringContaining('with its files'),
    });
    expect(server.requests).toHaveLength(requests);
  });

  it('runs nothing that stands in its configuration, and sees no replaced object', async () => {
    const { origin, local } = await fleet('hooks');
    const commit = await origin.commit({ a: 'a' });
    const other = await origin.commit({ a: 'replaced' });
    await origin.git('replace', commit, other);
    const witness = join(bench.dir, 'witness');
    for (const key of [
      'core.fsmonitor',
      'core.pager',
      'core.sshCommand',
      'core.askPass',
      'core.alternateRefsCommand',
    ]) {
      await origin.git('config', key, `touch '${witness}'`);
    }
    await appendFile(join(origin.dir, 'config'), `[filter "x"]\n\tsmudge = touch '${witness}'\n`);
    await writeFile(join(origin.dir, 'hooks', 'post-checkout'), `#!/bin/sh\ntouch '${witness}'\n`, { mode: 0o755 });
    const repository = await local();
    const [head] = await repository.snapshot([commit], everything);
    expect(textOf(head, 'a')).toBe('a');
    await repository.isAncestor(other, commit);
    expect(await readdir(bench.dir)).not.toContain('witness');
  });
});

describe('a repository that is made elsewhere', () => {
  it('is read from its alternates', async () => {
    const { origin } = await fleet('alternates');
    const commit = await origin.commit({ a: 'a' });
    const borrower = join(bench.dir, 'borrower');
    execFileSync('git', ['clone', '-q', '--bare', '--shared', origin.dir, borrower], { stdio: 'ignore' });
    const [head] = await (await bench.open({ repository: borrower })).snapshot([commit], everything);
    expect(textOf(head, 'a')).toBe('a');
  });
});

describe('what a ref means there', () => {
  it.each(BOTH)('is asked once for a branch, a tag or a full ref (%s)', async (where) => {
    const { origin, either } = await fleet(`refs-${where}`);
    const main = await origin.commit({ a: 'a' });
    const feature = await origin.commit({ a: 'b' }, { branch: 'feature/x', from: main });
    await origin.git('update-ref', 'refs/pull/7/head', feature);
    await origin.git('tag', 'v1', main);
    const repository = await either(where);
    const meant = (ref: string) => repository.resolve(ref, 'base-ref');
    expect(await meant('main')).toBe(main);
    expect(await meant('feature/x')).toBe(feature);
    expect(await meant('refs/heads/feature/x')).toBe(feature);
    expect(await meant('refs/pull/7/head')).toBe(feature);
    expect(await meant('v1')).toBe(main);
    expect(await repository.defaultBranchHead()).toBe(main);
    const before = (await bench.commands()).length;
    expect(await meant(main.toUpperCase())).toBe(main);
    for (const bad of ['--upload-pack=touch x', 'main~1', 'a..b', 'ma*n']) {
      await expect(meant(bad)).rejects.toThrow(/^The input base-ref is /);
    }
    expect(await bench.commands()).toHaveLength(before);
    await expect(meant('x')).rejects.toThrow(/input base-ref is "x".*has no branch, tag or ref/);
    await expect(meant('abcdef1')).rejects.toThrow(/full SHA/);
  });

  it('is an error in a repository that is empty or not there', async () => {
    await GitRepository.create(join(bench.dir, 'empty.git'));
    await server.createRepository('octo/empty');
    const empty = await bench.open({ repository: 'octo/empty', serverUrl: server.url });
    await expect(empty.defaultBranchHead()).rejects.toThrow(/no commit on its default branch/);
    await expect((await bench.open({ repository: 'empty.git' })).resolve('main', 'ref')).rejects.toThrow(/no branch/);
    const nowhere = await bench.open({ repository: 'octo/nowhere', serverUrl: server.url });
    await expect(nowhere.resolve('main', 'ref')).rejects.toThrow(/octo\/nowhere cannot be read: .+Check its name/);
  });
});
