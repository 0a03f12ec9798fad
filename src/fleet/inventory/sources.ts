import type { SnapshotEntry } from '../../repository/snapshot.js';
import type { Problem, ProblemCode } from '../problem.js';
import { compareCodePoints } from './text.js';

/** Where an inventory is looked for when input `inventory` does not say (section 5), the first that is there wins. */
export const DEFAULT_INVENTORIES: readonly string[] = [
  'inventory.yml',
  'inventory.yaml',
  'inventory.ini',
  'inventory/hosts.yml',
  'inventory/hosts.yaml',
  'inventory/hosts.ini',
  'inventory/hosts',
  'inventory',
  'hosts.yml',
  'hosts.yaml',
  'hosts.ini',
  'hosts',
];

/** The bounds of section 6. */
export const MAX_FILE_BYTES = 16 * 1024 * 1024;
const MAX_COMMIT_BYTES = 64 * 1024 * 1024;
const MAX_COMMIT_FILES = 20_000;

/** Names that Ansible passes over in an inventory directory, `.ini` files among them. */
const IGNORED_IN_DIRECTORY =
  /^\.|^host_vars$|^group_vars$|^vars_plugins$|(?:\.pyc|\.pyo|\.swp|\.bak|~|\.rpm|\.md|\.txt|\.rst|\.orig|\.ini|\.cfg|\.retry)$/;
const VARS_EXTENSIONS = ['', '.yml', '.yaml', '.json'] as const;

export type TreeNode = SnapshotEntry | Folder;

export interface Folder {
  readonly type: 'folder';
  readonly children: Map<string, TreeNode>;
}

/** The paths of a commit as folders. */
export class Tree {
  readonly #root: Folder = { type: 'folder', children: new Map() };

  constructor(entries: ReadonlyMap<string, SnapshotEntry>) {
    for (const [path, entry] of entries) {
      const names = path.split('/');
      const last = names.pop() as string;
      let folder = this.#root;
      for (const name of names) {
        let child = folder.children.get(name);
        if (child === undefined || child.type !== 'folder') {
          child = { type: 'folder', children: new Map() };
          folder.children.set(name, child);
        }
        folder = child;
      }
      folder.children.set(last, entry);
    }
  }

  /** What is at a normal path (`''` is the root), the link or submodule that stands in its way, or null. */
  find(path: string): { readonly path: string; readonly node: TreeNode } | null {
    let node: TreeNode = this.#root;
    let done = '';
    for (const name of path === '' ? [] : path.split('/')) {
      if (node.type !== 'folder') return node.type === 'file' ? null : { path: done, node };
      const child: TreeNode | undefined = node.children.get(name);
      if (child === undefined) return null;
      node = child;
      done = joinPath(done, name);
    }
    return { path: done, node };
  }
}

/** `folder/name`, where the root is `''`. */
export function joinPath(folder: string, name: string): string {
  return folder === '' ? name : `${folder}/${name}`;
}

function folderOf(path: string): string {
  const slash = path.lastIndexOf('/');
  return slash === -1 ? '' : path.slice(0, slash);
}

/** The normal form of a path inside the repository (`''` is its root), or null when it leads out of it. */
export function normalPath(path: string): string | null {
  if (path.startsWith('/') || path.startsWith('~')) return null;
  const names: string[] = [];
  for (const name of path.split('/')) {
    if (name === '' || name === '.') continue;
    if (name !== '..') names.push(name);
    else if (names.pop() === undefined) return null;
  }
  return names.join('/');
}

/** A file that is to be read. */
export interface SourceFile {
  readonly path: string;
  readonly entry: SnapshotEntry;
}

/** Where an inventory is read from. */
export interface Sources {
  readonly tree: Tree;
  /** The inventory's path, or null when there is none. */
  readonly path: string | null;
  /** Its files in Ansible's order. */
  readonly files: readonly SourceFile[];
  /** The folders whose `group_vars/` and `host_vars/` are read: the inventory's and, stronger, the playbook's. */
  readonly inventoryFolder: string;
  readonly playbookFolder: string | null;
  readonly problems: readonly Problem[];
}

/** A problem of a file as a whole. */
export function fileProblem(code: ProblemCode, file: string | null, message: string): Problem {
  return { code, file, line: file === null ? null : 1, message, hosts: [] };
}

/** Finds the inventory and says what is wrong with its place. */
export function findSources(
  entries: ReadonlyMap<string, SnapshotEntry>,
  options: { readonly inventory: string | null; readonly playbookDir: string | null },
): Sources {
  const tree = new Tree(entries);
  const problems: Problem[] = [];
  let playbookFolder: string | null = null;
  if (options.playbookDir !== null && options.playbookDir !== '') {
    playbookFolder = normalPath(options.playbookDir);
    const found = playbookFolder === null ? null : tree.find(playbookFolder);
    if (playbookFolder === null) problems.push(leavesRepository('playbook-dir', options.playbookDir));
    else if (found === null || found.node.type === 'file') {
      const message = `The playbook directory ${options.playbookDir} is not in this commit; correct the input playbook-dir.`;
      problems.push(fileProblem('unreadable-file', playbookFolder, message));
      playbookFolder = null;
    } else if (found.node.type !== 'folder') {
      problems.push(notFollowed(found.path, found.node.type));
      playbookFolder = null;
    }
  }
  const nothing = { tree, path: null, files: [], inventoryFolder: '', playbookFolder };
  const asked = options.inventory === null || options.inventory === '' ? null : options.inventory;
  if (asked !== null && normalPath(asked) === null) {
    return { ...nothing, problems: [...problems, leavesRepository('inventory', asked)] };
  }
  const path = asked === null ? DEFAULT_INVENTORIES.find((name) => tree.find(name)?.path === name) : normalPath(asked);
  const found = path === undefined || path === null ? null : tree.find(path);
  if (path === undefined || path === null || found === null) {
    const message =
      asked === null
        ? 'No inventory is at any of the default places of this commit; name it with the input inventory.'
        : `The inventory ${asked} is not in this commit; correct the input inventory or add the file.`;
    return { ...nothing, problems: [...problems, fileProblem('unreadable-file', path ?? null, message)] };
  }
  const files: SourceFile[] = [];
  collectInventory(found.path, found.node, files, problems);
  const inventoryFolder = found.node.type === 'folder' ? path : folderOf(path);
  return { tree, path, files, inventoryFolder, playbookFolder, problems };
}

function leavesRepository(input: string, value: string): Problem {
  const message = `The input ${input} (${value}) leads out of the repository; give a path inside it.`;
  return fileProblem('outside-repository', null, message);
}

/** The problem of a link or submodule where a file is read. */
export function notFollowed(path: string, type: 'link' | 'module'): Problem {
  return type === 'link'
    ? fileProblem(
        'outside-repository',
        path,
        `The path ${path} is a symbolic link, which is never followed; put the file itself here.`,
      )
    : fileProblem(
        'unreadable-file',
        path,
        `The path ${path} is a submodule, which is never read; put the files themselves here.`,
      );
}

function collectInventory(path: string, node: TreeNode, files: SourceFile[], problems: Problem[]): void {
  if (node.type === 'file') files.push({ path, entry: node });
  else if (node.type !== 'folder') problems.push(notFollowed(path, node.type));
  else {
    for (const name of sortedNames(node)) {
      if (IGNORED_IN_DIRECTORY.test(name)) continue;
      collectInventory(joinPath(path, name), node.children.get(name) as TreeNode, files, problems);
    }
  }
}

function sortedNames(folder: Folder): string[] {
  return [...folder.children.keys()].sort(compareCodePoints);
}

/** The extension as Python's `splitext` sees it: dots at the beginning do not count. */
export function extensionOf(name: string): string {
  const base = name.slice(name.lastIndexOf('/') + 1);
  const dot = base.lastIndexOf('.');
  return dot > 0 && !/^\.*$/.test(base.slice(0, dot)) ? base.slice(dot) : '';
}

/**
 * The variable files of one group or host in a folder's `group_vars/` or `host_vars/`, weakest first: the first of
 * NAME, NAME.yml, NAME.yaml and NAME.json that is there, a directory with all its files.
 */
export function varsFiles(
  tree: Tree,
  folder: string,
  kind: 'group_vars' | 'host_vars',
  name: string,
): { readonly files: readonly SourceFile[]; readonly problems: readonly Problem[] } {
  const none = { files: [], problems: [] };
  if (name.startsWith('/')) return none;
  const base = tree.find(joinPath(folder, kind));
  if (base === null) return none;
  if (base.node.type === 'link' || base.node.type === 'module') {
    return { files: [], problems: [notFollowed(base.path, base.node.type)] };
  }
  if (base.node.type === 'file') return none;
  for (const extension of VARS_EXTENSIONS) {
    const path = normalPath(joinPath(base.path, name + extension));
    const found = path === null ? null : tree.find(path);
    if (found === null) continue;
    const files: SourceFile[] = [];
    const problems: Problem[] = [];
    if (found.node.type === 'folder') collectVars(found.path, found.node, files, problems);
    else if (found.node.type === 'file') files.push({ path: found.path, entry: found.node });
    else problems.push(notFollowed(found.path, found.node.type));
    return { files, problems };
  }
  return none;
}

function collectVars(path: string, folder: Folder, files: SourceFile[], problems: Problem[]): void {
  for (const name of sortedNames(folder)) {
    if (name.startsWith('.') || name.endsWith('~')) continue;
    const extension = extensionOf(name);
    const node = folder.children.get(name) as TreeNode;
    const child = joinPath(path, name);
    if (node.type === 'folder') {
      if (extension === '') collectVars(child, node, files, problems);
    } else if ((VARS_EXTENSIONS as readonly string[]).includes(extension)) {
      if (node.type === 'file') files.push({ path: child, entry: node });
      else problems.push(notFollowed(child, node.type));
    }
  }
}

/**
 * The files that `readInventory` may open, or the problem that they are too many or too large together; then none is
 * read.
 */
export function wantedFiles(sources: Sources): { readonly paths: readonly string[]; readonly problem: Problem | null } {
  const paths = new Set<string>();
  let bytes = 0;
  const add = (path: string, entry: SnapshotEntry) => {
    if (entry.type !== 'file' || entry.size > MAX_FILE_BYTES || paths.has(path)) return;
    paths.add(path);
    bytes += entry.size;
  };
  for (const { path, entry } of sources.files) add(path, entry);
  for (const folder of new Set([sources.inventoryFolder, sources.playbookFolder])) {
    if (folder === null || sources.path === null) continue;
    for (const kind of ['group_vars', 'host_vars']) {
      const found = sources.tree.find(joinPath(folder, kind));
      if (found?.node.type === 'folder') addAll(found.path, found.node, add);
    }
  }
  if (paths.size <= MAX_COMMIT_FILES && bytes <= MAX_COMMIT_BYTES) return { paths: [...paths], problem: null };
  const message =
    'The inventory and its variables are more than 20,000 files or 64 MiB together; split the repository or name a smaller inventory.';
  return { paths: [], problem: fileProblem('too-big', sources.path, message) };
}

function addAll(path: string, folder: Folder, add: (path: string, entry: SnapshotEntry) => void): void {
  for (const [name, node] of folder.children) {
    if (node.type === 'folder') addAll(joinPath(path, name), node, add);
    else add(joinPath(path, name), node);
  }
}
