import type { Assignment, Assignments } from './group-graph.js';

/** A value of one variable and the weaker ones below it. Groups share what is below. */
export interface Stacked {
  readonly assignment: Assignment;
  /** For people: `group all`, `host mini-1`, the path of a file. */
  readonly source: string;
  readonly below: Stacked | null;
  /** Given by a file of `host_vars/`: those alone beat Ansible's own variables of a host. */
  readonly fromHostFile: boolean;
}

export type Stacks = ReadonlyMap<string, Stacked>;

/** The variables of one place of the inventory. */
export interface Layer {
  readonly source: string;
  readonly variables: Assignments;
  readonly fromHostFile?: boolean;
}

/** The stacks of `base` with stronger layers put on them, weakest first; `base` itself stays as it is. */
export function stack(base: Stacks, layers: readonly Layer[]): Map<string, Stacked> {
  const own = new Map<string, Stacked>();
  for (const { source, variables, fromHostFile = false } of layers) {
    variables.forEach((assignments, name) => {
      let top = own.get(name) ?? base.get(name) ?? null;
      for (const assignment of assignments) {
        top = { assignment, source, below: top, fromHostFile };
      }
      if (top !== null) own.set(name, top);
    });
  }
  return own;
}
