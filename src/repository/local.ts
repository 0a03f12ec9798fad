import { readFile, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { UserError } from '../errors.js';
import type { Git } from './git.js';
import { parseRefs } from './ref-names.js';
import { CommitError, type ObjectSource, type TimeBounds } from './source.js';

/**
 * A work tree or a bare repository on this machine. Its objects are read where they are; nothing in it is written,
 * run, or fetched. Only the given directory counts: a repository around it is not taken by mistake.
 * @param name how the user named it, for messages.
 * @throws UserError when there is no repository at `path`.
 */
export async function openLocal(path: string, name: string, git: Git, bounds: TimeBounds): Promise<ObjectSource> {
  const gitDir = await findGitDir(path, name);
  const read: ObjectSource['read'] = (dir, command) =>
    git({ ...command, args: [`--git-dir=${dir}`, ...command.args], timeout: bounds.read });
  return {
    name,
    local: true,
    async refs(names) {
      const result = await read(gitDir, { args: ['show-ref', '--head', '--dereference', '--', ...names] });
      // 1: no such ref.
      if (!result.ok && result.code !== 1) throw new UserError(`The refs of ${name} cannot be read: ${result.why}.`);
      return parseRefs(result.ok ? result.stdout.toString('utf8') : '');
    },
    async abbreviated(sha) {
      const result = await read(gitDir, { args: ['rev-parse', '--verify', '--quiet', `${sha}^{commit}`] });
      return result.ok ? result.stdout.toString('latin1').trim() : null;
    },
    async objects() {
      return gitDir;
    },
    async history() {
      return { known: true, gitDir, complete: !(await isShallow(gitDir)) };
    },
    async missing(commit, why) {
      const shallow = await isShallow(gitDir);
      const wayOut = shallow
        ? 'It is a shallow clone: clone it with its history (actions/checkout: fetch-depth: 0), or fetch that commit there'
        : 'Fetch that commit there, with its files';
      return new CommitError(
        `Commit ${commit} cannot be read from ${name}: ${why}. ${wayOut} (git fetch origin ${commit}).`,
        commit,
      );
    },
    read,
    async close() {},
  };
}

async function findGitDir(path: string, name: string): Promise<string> {
  const dotGit = join(path, '.git');
  switch (await kindOf(dotGit)) {
    case 'directory':
      return dotGit;
    case 'file': {
      // A linked work tree, or a submodule.
      const target = /^gitdir: (.+?)\s*$/.exec(await readFile(dotGit, 'utf8'))?.[1];
      if (target !== undefined) return resolve(path, target);
      break;
    }
    case null:
      if ((await kindOf(join(path, 'objects'))) === 'directory' && (await kindOf(join(path, 'HEAD'))) !== null) {
        return path;
      }
  }
  const why = (await kindOf(path)) === 'directory' ? 'is no git repository' : 'is no directory';
  throw new UserError(
    `The input repository is ${JSON.stringify(name)}, and ${path} ${why}. Give the top of a work tree or a bare repository (in a workflow: check it out first), or owner/name.`,
  );
}

/** A history with an end that is not its beginning. Linked work trees keep that in the common directory. */
export async function isShallow(gitDir: string): Promise<boolean> {
  const common = await readFile(join(gitDir, 'commondir'), 'utf8').catch(() => '.');
  const shallow = await stat(join(resolve(gitDir, common.trim()), 'shallow')).catch(() => null);
  return shallow !== null && shallow.size > 0;
}

async function kindOf(path: string): Promise<'file' | 'directory' | null> {
  const found = await stat(path).catch(() => null);
  if (found === null) return null;
  return found.isDirectory() ? 'directory' : 'file';
}
