import { mkdtemp, rm } from 'node:fs/promises';
import { join, resolve as resolvePath } from 'node:path';
import { messageOf, UserError } from '../errors.js';
import type { Logger } from '../log.js';
import { createGit, type GitResult } from './git.js';
import { openLocal } from './local.js';
import { type GitHubName, locate } from './location.js';
import { parseBatch, parseTree } from './objects.js';
import { candidates, checkRef, isFullSha, pickRef } from './ref-names.js';
import { basicAuth, openRemote } from './remote.js';
import type { Snapshot, SnapshotEntry } from './snapshot.js';
import { CommitError, type ObjectSource, type TimeBounds } from './source.js';

/** The fleet repository, as far as a run needs it. */
export interface Repository {
  /** For people: `owner/name`, a URL, or a path. Without credentials. */
  readonly name: string;
  /** Whether it is the repository that the workflow belongs to (the workspace, outside GitHub). */
  readonly own: boolean;
  /** Its name at the GitHub server; null when it is elsewhere. */
  readonly github: GitHubName | null;
  /**
   * The SHA that a ref means. A full SHA is given back as it is (whether it exists is seen when it is read; one of an
   * annotated tag is peeled there); a name is a branch, a tag or a full ref; in a local repository also a short SHA.
   * @param input the input that gave it, for messages.
   * @throws UserError when it is no ref, or when nothing there is called so.
   */
  resolve(ref: string, input: string): Promise<string>;
  /** The SHA of the head of the default branch; of HEAD in a local repository. @throws UserError */
  defaultBranchHead(): Promise<string>;
  /**
   * The trees of commits (full SHAs), in the given order, with the contents of the files that `wanted` names by their
   * paths. All snapshots of one repository share their contents. A file over FILE_LIMIT is not read, and has no
   * content; paths that the tree has not, and submodules, are left out.
   * @throws CommitError for a commit that cannot be had, that has a tree over TREE_LIMIT, or of which more is wanted
   * than COMMIT_LIMIT or COMMIT_FILES. The others can then be asked for again, without a second fetch.
   */
  snapshot(commits: readonly string[], wanted: Wanted): Promise<Snapshot[]>;
  /** Whether a commit is in the history of another (or is that commit). Never throws: what is not known is `unknown`. */
  isAncestor(ancestor: string, descendant: string): Promise<'yes' | 'no' | 'unknown'>;
  /** The best common ancestor; null when there is none or it is not known (the log says which). Never throws. */
  mergeBase(one: string, other: string): Promise<string | null>;
  /** Removes what was written to the temporary directory. */
  close(): Promise<void>;
}

export type Wanted = (entries: ReadonlyMap<string, SnapshotEntry>) => readonly string[];

/** GitHub's answer for the merge base of two commits (the compare API); null when it does not say. */
export type MergeBaseLookup = (repository: GitHubName, one: string, other: string) => Promise<string | null>;

export interface RepositoryOptions {
  /** Told the folder that is made, so that a run that is killed can be cleaned up after. */
  readonly onFolder?: (path: string) => void;
  /** The input `repository`; null or "" is this one. */
  readonly repository: string | null;
  /** GITHUB_REPOSITORY; null outside GitHub. */
  readonly thisRepository: string | null;
  /** GITHUB_SERVER_URL. */
  readonly serverUrl: string;
  /** "" for none. */
  readonly token: string;
  /** GITHUB_WORKSPACE, or the current directory: what a path is relative to. */
  readonly workspace: string;
  /** RUNNER_TEMP. */
  readonly temp: string;
  readonly logger: Logger;
  /** Asked first where the repository is at the GitHub server. */
  readonly mergeBaseLookup?: MergeBaseLookup | null;
  /** What git's environment is chosen from; default: the process's own. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
  /** Milliseconds; default: two minutes to read, five for anything that waits for a network. */
  readonly bounds?: TimeBounds;
}

/** Bytes of one file, and of the wanted files of one commit (system.md, section 6). */
export const FILE_LIMIT = 16 * 1024 * 1024;
export const COMMIT_LIMIT = 64 * 1024 * 1024;
/** Wanted files of one commit. */
export const COMMIT_FILES = 20_000;
/** Bytes of the listing of one tree: about half a million files. A tree can name itself more often than memory has room. */
export const TREE_LIMIT = 64 * 1024 * 1024;

/**
 * Opens the fleet repository. Contacts nobody: a local repository is looked for, a remote one is asked when needed.
 * @throws UserError when `repository` is not acceptable (see `locate`), or names a path without a repository.
 */
export async function openRepository(options: RepositoryOptions): Promise<Repository> {
  const { logger, token } = options;
  const location = locate(options.repository, options.thisRepository, options.serverUrl);
  if (/[\p{Cc}\s]/u.test(token)) throw new UserError('The input token has a space or a line break in it.');
  const temp = once(async () => {
    const path = await mkdtemp(join(options.temp, 'fleet-role-repository-'));
    options.onFolder?.(path);
    return path;
  });
  const git = createGit({
    environment: options.environment ?? process.env,
    secrets: token === '' ? [] : [token, basicAuth(token)],
    logger,
  });
  const bounds = options.bounds ?? { read: 120_000, network: 300_000 };
  if (location.kind === 'remote' && location.unprotected) {
    logger.warning(`${location.name} is fetched without encryption: whoever is on the way can change the inventory.`);
  }
  const source =
    location.kind === 'local'
      ? await openLocal(resolvePath(options.workspace, location.path), location.name, git, bounds)
      : openRemote(location, token, git, temp.get, bounds);
  const github = location.kind === 'remote' ? location.github : null;
  const reader = createReader(source);

  /** What GitHub says, where it is in a position to. */
  async function lookUp(one: string, other: string): Promise<string | null> {
    if (github === null || !options.mergeBaseLookup) return null;
    try {
      return await options.mergeBaseLookup(github, one, other);
    } catch (error) {
      logger.debug(`GitHub did not compare ${one} with ${other}: ${messageOf(error)}`);
      return null;
    }
  }

  return {
    name: location.name,
    own: location.own,
    github,
    async resolve(ref, input) {
      checkRef(ref, input);
      if (isFullSha(ref)) return ref.toLowerCase();
      const found = pickRef(ref, await source.refs(candidates(ref, source.local)), input, source.local);
      if (found !== null) return found;
      const isShort = /^[0-9a-f]{4,63}$/i.test(ref);
      const commit = isShort ? await source.abbreviated(ref.toLowerCase()) : null;
      if (commit !== null) return commit;
      const hint = isShort ? ' A short SHA must name one commit of a local repository; write the full SHA.' : '';
      throw new UserError(
        `The input ${input} is ${JSON.stringify(ref)}, and ${source.name} has no branch, tag or ref of that name.${hint}`,
      );
    },
    async defaultBranchHead() {
      const head = pickRef('HEAD', await source.refs(['HEAD']), 'ref', source.local);
      if (head !== null) return head;
      throw new UserError(`${source.name} has no commit on its default branch. Give the input ref.`);
    },
    snapshot: reader,
    async isAncestor(ancestor, descendant) {
      if (ancestor === descendant) return 'yes';
      const base = await lookUp(ancestor, descendant);
      if (base !== null) return base === ancestor ? 'yes' : 'no';
      const answer = await ancestry(source, ancestor, descendant);
      if (typeof answer === 'string') return answer;
      logger.debug(`Whether ${ancestor} is an ancestor of ${descendant} is not known: ${answer.why}`);
      return 'unknown';
    },
    async mergeBase(one, other) {
      const base = await lookUp(one, other);
      if (base !== null) return base;
      const answer = await commonAncestor(source, one, other);
      if (typeof answer === 'string') return answer;
      logger.debug(`No common ancestor of ${one} and ${other}: ${answer.why}`);
      return null;
    },
    async close() {
      await source.close();
      if (temp.made()) await rm(await temp.get(), { recursive: true, force: true, maxRetries: 3 });
    },
  };
}

/** Reads snapshots with the fewest processes: one `ls-tree` a commit, side by side, then one `cat-file` for all. */
function createReader(source: ObjectSource): Repository['snapshot'] {
  const trees = new Map<string, Map<string, SnapshotEntry>>();
  const peeled = new Map<string, string>();
  const blobs = new Map<string, Uint8Array>();

  async function readTree(gitDir: string, commit: string): Promise<Map<string, SnapshotEntry>> {
    const known = trees.get(commit);
    if (known !== undefined) return known;
    const args = ['ls-tree', '-r', '-l', '--full-tree', commit];
    const result = await source.read(gitDir, { args, maxOutput: TREE_LIMIT });
    if (!result.ok && result.bound === 'output') {
      throw new CommitError(
        `Commit ${commit} of ${source.name} has more files than can be read (a listing of ${TREE_LIMIT} bytes). Keep the inventory in a smaller repository.`,
        commit,
        'too-big',
      );
    }
    if (!result.ok) throw await source.missing(commit, result.why);
    const entries = parseTree(result.stdout);
    trees.set(commit, entries);
    return entries;
  }

  return async (commits, wanted) => {
    for (const commit of commits) {
      if (!isFullSha(commit)) throw new Error(`not a full SHA: ${JSON.stringify(commit)}`);
    }
    const distinct = [...new Set(commits)];
    const gitDir = await source.objects(distinct);
    const entries = await Promise.all(distinct.map((commit) => readTree(gitDir, commit)));
    const oids = new Set<string>();
    for (const [index, commit] of distinct.entries()) {
      const tree = entries[index] ?? new Map<string, SnapshotEntry>();
      for (const oid of wantedObjects(commit, tree, wanted(tree))) if (!blobs.has(oid)) oids.add(oid);
    }
    await readObjects(
      gitDir,
      distinct.filter((commit) => !peeled.has(commit)),
      [...oids],
    );
    return commits.map((commit) => ({
      commit: peeled.get(commit) ?? commit,
      entries: trees.get(commit) ?? new Map(),
      blobs,
    }));
  };

  async function readObjects(gitDir: string, commits: readonly string[], oids: readonly string[]): Promise<void> {
    const names = [...commits.map((commit) => `${commit}^{commit}`), ...oids];
    if (names.length === 0) return;
    const result = await source.read(gitDir, {
      args: ['cat-file', '--batch', '--buffer'],
      input: `${names.join('\n')}\n`,
    });
    const asked = commits[0] ?? [...trees.keys()][0] ?? '';
    if (!result.ok) throw await source.missing(asked, result.why);
    const objects = parseBatch(result.stdout, names.length);
    for (const [index, commit] of commits.entries()) {
      const object = objects[index];
      if (object?.type !== 'commit') throw await source.missing(commit, 'that object is no commit');
      peeled.set(commit, object.oid);
    }
    for (const [index, oid] of oids.entries()) {
      const object = objects[commits.length + index];
      if (!object) throw await source.missing(commitWith(oid) ?? asked, `its file ${oid} is not there`);
      blobs.set(oid, object.content);
    }
  }

  function commitWith(oid: string): string | undefined {
    for (const [commit, entries] of trees) {
      for (const entry of entries.values()) if (entry.oid === oid) return commit;
    }
    return undefined;
  }
}

/** The objects to read for the wanted paths of one commit. @throws CommitError when they are too many or too big. */
function wantedObjects(
  commit: string,
  entries: ReadonlyMap<string, SnapshotEntry>,
  paths: readonly string[],
): ReadonlySet<string> {
  const oids = new Set<string>();
  const files = new Set(paths);
  if (files.size > COMMIT_FILES) {
    throw new CommitError(
      `Commit ${commit} has ${files.size} inventory files; at most ${COMMIT_FILES} are read. Point the input inventory at fewer.`,
      commit,
      'too-big',
    );
  }
  let bytes = 0;
  for (const path of files) {
    const entry = entries.get(path);
    if (entry === undefined || entry.type === 'module' || entry.size > FILE_LIMIT) continue;
    bytes += entry.size;
    oids.add(entry.oid);
  }
  if (bytes > COMMIT_LIMIT) {
    throw new CommitError(
      `The inventory files of commit ${commit} have ${bytes} bytes; at most ${COMMIT_LIMIT} are read. Point the input inventory at fewer.`,
      commit,
      'too-big',
    );
  }
  return oids;
}

interface Unknown {
  readonly why: string;
}

async function ancestry(source: ObjectSource, ancestor: string, descendant: string): Promise<'yes' | 'no' | Unknown> {
  const history = await source.history([descendant]);
  if (!history.known) return history;
  const result = await source.read(history.gitDir, { args: ['merge-base', '--is-ancestor', ancestor, descendant] });
  if (result.ok) return 'yes';
  if (result.code === 1) return history.complete ? 'no' : { why: CUT };
  if (!history.complete) return { why: CUT };
  // A whole history that does not have the ancestor answers as well, when it is really there.
  const [isThere, wasThere] = await exist(source, history.gitDir, [descendant, ancestor]);
  return isThere === true && wasThere === false ? 'no' : { why: result.why };
}

async function exist(source: ObjectSource, gitDir: string, commits: readonly string[]): Promise<(boolean | null)[]> {
  const input = `${commits.map((commit) => `${commit}^{commit}`).join('\n')}\n`;
  const result = await source.read(gitDir, { args: ['cat-file', '--batch-check'], input });
  if (!result.ok) return commits.map(() => null);
  return result.stdout
    .toString('latin1')
    .split('\n')
    .map((line) => !line.endsWith(' missing'));
}

async function commonAncestor(source: ObjectSource, one: string, other: string): Promise<string | Unknown> {
  const history = await source.history([one, other]);
  if (!history.known) return history;
  const result: GitResult = await source.read(history.gitDir, { args: ['merge-base', one, other] });
  if (!result.ok) return { why: result.code === 1 ? 'they have none' : result.why };
  const base = result.stdout.toString('latin1').trim();
  // A better one may be behind the cut, unless it is one of the two.
  if (!history.complete && base !== one && base !== other) return { why: CUT };
  return base;
}

const CUT = 'the history is cut off (a shallow repository)';

/** Makes a thing when it is first asked for, and tells whether it was. */
function once<T>(make: () => Promise<T>): { get(): Promise<T>; made(): boolean } {
  let made: Promise<T> | null = null;
  return {
    get() {
      made ??= make();
      return made;
    },
    made: () => made !== null,
  };
}
