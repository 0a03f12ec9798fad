import { UserError } from '../errors.js';
import type { GitCommand, GitResult } from './git.js';

/** Where commits come from: a repository on a server, or one on this machine. */
export interface ObjectSource {
  /** For people. */
  readonly name: string;
  readonly local: boolean;
  /**
   * Full ref → object id for those of the given full refs that exist; `NAME^{}` is what an annotated tag stands for.
   * @throws UserError when the repository cannot be asked.
   */
  refs(names: readonly string[]): Promise<ReadonlyMap<string, string>>;
  /** The full SHA of a commit whose SHA starts so; null when there is none, or more than one, or nobody can know. */
  abbreviated(sha: string): Promise<string | null>;
  /**
   * Makes the trees and files of the commits readable, and returns the directory of git where they are.
   * @throws CommitError for the first commit that cannot be had.
   */
  objects(commits: readonly string[]): Promise<string>;
  /** Makes the history of the commits readable, as far as it can be had; never throws. */
  history(commits: readonly string[]): Promise<History>;
  /** The error for a commit that is not in what `objects` gave. */
  missing(commit: string, why: string): Promise<CommitError>;
  /** Runs git on what is on disk. */
  read(gitDir: string, command: Pick<GitCommand, 'args' | 'input' | 'maxOutput'>): Promise<GitResult>;
  close(): Promise<void>;
}

export type History =
  | {
      readonly known: true;
      readonly gitDir: string;
      /** Nothing is cut off: a commit that is not in it is no ancestor. */
      readonly complete: boolean;
    }
  | { readonly known: false; readonly why: string };

/** A commit that cannot be read: it cannot be had, or it is too big. Says which, so that a base can be done without. */
export class CommitError extends UserError {
  /** The SHA that was asked for. */
  readonly commit: string;
  readonly reason: 'unavailable' | 'too-big';

  constructor(message: string, commit: string, reason: 'unavailable' | 'too-big' = 'unavailable') {
    super(message);
    this.commit = commit;
    this.reason = reason;
  }
}

/** Milliseconds: reading from disk, and anything that waits for a network. */
export interface TimeBounds {
  readonly read: number;
  readonly network: number;
}
