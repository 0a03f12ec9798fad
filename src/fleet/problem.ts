/** What makes a cluster invalid. Topology codes come from the roles, reading codes from the files. */
export type ProblemCode =
  | 'unknown-role'
  | 'many-bootstraps'
  | 'agent-bootstraps'
  | 'bootstrap-joins-elsewhere'
  | 'no-servers'
  | 'even-servers'
  | 'nothing-to-join'
  | 'bad-max-servers'
  | 'sqlite-servers'
  | 'pinned-agent'
  | 'setting-differs'
  | 'host-in-two-clusters'
  | 'duplicate-node-name'
  | 'bad-node-name'
  | 'joins-itself'
  | 'bad-join-url'
  | 'bad-value'
  | 'unresolved-template'
  | 'no-such-group'
  | 'no-hosts'
  | 'same-machine'
  | 'unreadable-file'
  | 'outside-repository'
  | 'bad-syntax'
  | 'bad-structure'
  | 'duplicate-key'
  | 'bad-range'
  | 'group-loop'
  | 'undefined-group'
  | 'bad-host-name'
  | 'vault-locked'
  | 'too-big';

/** A place in the fleet repository. `line` counts from 1; null when the cause has no line. */
export interface Place {
  readonly file: string | null;
  readonly line: number | null;
}

export interface Problem extends Place {
  readonly code: ProblemCode;
  /** A sentence that says what is wrong and the way out. */
  readonly message: string;
  /** Inventory names, in inventory order. */
  readonly hosts: readonly string[];
}

/** Something that a reviewer should see although the cluster is valid. */
export interface Warning extends Place {
  readonly code: string;
  readonly message: string;
  readonly hosts: readonly string[];
}
