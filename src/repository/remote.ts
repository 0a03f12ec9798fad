import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { UserError } from '../errors.js';
import type { Git, GitConfig } from './git.js';
import { isShallow } from './local.js';
import type { RemoteLocation } from './location.js';
import { parseRefs } from './ref-names.js';
import { CommitError, type ObjectSource, type TimeBounds } from './source.js';

/** Of no consequence for what is fetched; every option that would write a ref, run something or fetch more is off. */
const FETCH = [
  'fetch',
  '--quiet',
  '--no-tags',
  '--no-recurse-submodules',
  '--no-write-fetch-head',
  '--no-auto-maintenance',
];

/**
 * The whole history, however long. Without a depth git does not say where the history of a shallow server ends, and
 * looks for what is beyond for ever (measured with git 2.39: one fetch starts the next).
 */
const WHOLE_HISTORY = '--depth=2147483647';

/**
 * A repository on a server. Commits come by SHA into a bare repository in the temporary directory.
 * @param token for the GitHub server; "" for none. It goes to `location.github` alone.
 */
export function openRemote(
  location: RemoteLocation,
  token: string,
  git: Git,
  temp: () => Promise<string>,
  bounds: TimeBounds,
): ObjectSource {
  const { name, url, protocols } = location;
  const network: GitConfig = location.github !== null && token !== '' ? authorization(url, token) : [];
  const wayOut = location.github
    ? 'Check its name, and that the input token may read it (permission contents: read)'
    : 'Check the URL, and that this machine may read it (an ssh agent, or a credential helper of git)';
  const fetched = new Set<string>();
  const histories = new Set<string>();
  let queue: Promise<unknown> = Promise.resolve();

  /** One fetch after the other: git locks the list of shallow commits. */
  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = queue.then(work, work);
    queue = turn.catch(() => undefined);
    return turn;
  }

  async function fetch(gitDir: string, commits: readonly string[]) {
    return await git({
      args: [`--git-dir=${gitDir}`, ...FETCH, '--depth=1', '--', url, ...commits],
      config: network,
      protocols,
      timeout: bounds.network,
    });
  }

  async function missing(commit: string, why: string): Promise<CommitError> {
    return new CommitError(
      `Commit ${commit} cannot be had from ${name}: ${why}. ${wayOut}, and that the commit was pushed there and not forced away.`,
      commit,
    );
  }

  return {
    name,
    local: false,
    async refs(names) {
      const patterns = names.flatMap((full) => [full, `${full}^{}`]);
      const args = ['ls-remote', '--quiet', '--', url, ...patterns];
      const result = await git({ args, config: network, protocols, timeout: bounds.network });
      if (!result.ok) throw new UserError(`The refs of ${name} cannot be read: ${result.why}. ${wayOut}.`);
      return parseRefs(result.stdout.toString('utf8'));
    },
    async abbreviated() {
      return null;
    },
    objects: (commits) =>
      inTurn(async () => {
        const gitDir = await bareRepository(await temp(), 'commits', commits);
        const wanted = commits.filter((commit) => !fetched.has(commit));
        if (wanted.length === 0) return gitDir;
        const together = await fetch(gitDir, wanted);
        if (together.ok) {
          for (const commit of wanted) fetched.add(commit);
          return gitDir;
        }
        // One that is missing fails them all; git's words do not always say which.
        for (const commit of wanted) {
          const result = wanted.length === 1 ? together : await fetch(gitDir, [commit]);
          if (!result.ok) throw await missing(commit, result.why);
          fetched.add(commit);
        }
        return gitDir;
      }),
    history: (commits) =>
      inTurn(async () => {
        const gitDir = await bareRepository(await temp(), 'history', commits);
        const wanted = commits.filter((commit) => !histories.has(commit));
        if (wanted.length > 0) {
          const result = await git({
            args: [`--git-dir=${gitDir}`, ...FETCH, WHOLE_HISTORY, '--filter=tree:0', '--', 'fleet', ...wanted],
            config: [...network, ['remote.fleet.url', url], ['remote.fleet.promisor', 'true']],
            protocols,
            timeout: bounds.network,
          });
          // git has written itself a note to fetch what the filter left out; nothing here may do that.
          await writeConfig(gitDir, commits);
          if (!result.ok) return { known: false, why: result.why };
          for (const commit of wanted) histories.add(commit);
        }
        return { known: true, gitDir, complete: !(await isShallow(gitDir)) };
      }),
    missing,
    read: (dir, command) => git({ ...command, args: [`--git-dir=${dir}`, ...command.args], timeout: bounds.read }),
    async close() {
      await queue;
    },
  };
}

/**
 * The token as a header for this URL and what is below it. It comes in the environment of git: a command line can be
 * read by everybody on the machine. The first entry drops headers from other configuration (GitHub refuses two).
 * Redirects are not followed with it: git would send the header to wherever they lead.
 */
function authorization(url: string, token: string): GitConfig {
  return [
    [`http.${url}.extraHeader`, ''],
    [`http.${url}.extraHeader`, `Authorization: Basic ${basicAuth(token)}`],
    [`http.${url}.followRedirects`, 'false'],
    ['http.followRedirects', 'false'],
    ['credential.helper', ''],
  ];
}

/** The form in which GitHub takes a token over git's HTTP; a secret like the token itself (mask it too). */
export function basicAuth(token: string): string {
  return Buffer.from(`x-access-token:${token}`).toString('base64');
}

/**
 * An empty bare repository: what `git init --bare` makes, without its process and its templates. The length of a SHA
 * says which hash the repository uses, and each hash has its own directory.
 */
async function bareRepository(temp: string, name: string, commits: readonly string[]): Promise<string> {
  const gitDir = join(temp, `${name}-${hashOf(commits)}.git`);
  const made = await mkdir(join(gitDir, 'objects'), { recursive: true });
  if (made !== undefined) {
    await mkdir(join(gitDir, 'refs'));
    await writeConfig(gitDir, commits);
    await writeFile(join(gitDir, 'HEAD'), 'ref: refs/heads/main\n');
  }
  return gitDir;
}

async function writeConfig(gitDir: string, commits: readonly string[]): Promise<void> {
  const format =
    hashOf(commits) === 'sha256'
      ? '[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectFormat = sha256\n'
      : '[core]\n\trepositoryformatversion = 0\n\tbare = true\n';
  await writeFile(join(gitDir, 'config'), format);
}

function hashOf(commits: readonly string[]): 'sha1' | 'sha256' {
  return commits.some((commit) => commit.length === 64) ? 'sha256' : 'sha1';
}
