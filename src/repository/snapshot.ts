/**
 * One commit of the fleet repository as data: the paths of its tree, and the content of those that were read.
 * It has no work tree behind it, so no link leads out of it. `fleet/` works on this and on nothing else.
 */
export interface Snapshot {
  /** 40 (or 64) hex digits. */
  readonly commit: string;
  /** Every file of the tree by its path from the repository root, `/` separated. Folders are implied by the paths. */
  readonly entries: ReadonlyMap<string, SnapshotEntry>;
  /** Contents by object id, for the entries that were asked for. Two snapshots of one run share it. */
  readonly blobs: ReadonlyMap<string, Uint8Array>;
}

export interface SnapshotEntry {
  /** `link` is a symbolic link (its content is the target), `module` a submodule; neither is followed. */
  readonly type: 'file' | 'link' | 'module';
  /** The git object id: two entries with one id have the same content. */
  readonly oid: string;
  /** Bytes; 0 for a module. */
  readonly size: number;
}
