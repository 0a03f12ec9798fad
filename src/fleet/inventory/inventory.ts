import type { Place, Problem, Warning } from '../problem.js';

/** A value as Ansible has it after parsing and templating (JSON-like; a date or a binary is its text). */
export type Value = null | boolean | number | string | readonly Value[] | { readonly [key: string]: Value };

/** One variable of one host, and where the winning value stands. */
export interface Variable extends Place {
  readonly name: string;
  /** Resolved when the variable is one that fleet-role needs, else the raw value with its templates left alone. */
  readonly value: Value;
  /** How the value came to this host: `host mini-1`, `group all`, `host_vars/mini-1.yml` … for people. */
  readonly source: string;
  /** The values that lost, the strongest first. */
  readonly overrides: readonly Overridden[];
}

export interface Overridden extends Place {
  readonly value: Value;
  readonly source: string;
}

export interface InventoryHost {
  readonly name: string;
  /** By variable name. */
  readonly variables: ReadonlyMap<string, Variable>;
  /** Needed variables that have no value here (an unresolved template, a locked vault), with why. */
  readonly failures: ReadonlyMap<string, Problem>;
}

export interface InventoryGroup {
  readonly name: string;
  /** Every host of the group and its descendants in Ansible's order. */
  readonly hosts: readonly string[];
  /** Where each of those hosts is first listed in this group or a descendant. */
  readonly places: ReadonlyMap<string, Place>;
  /** Names of the direct child groups, in Ansible's order. */
  readonly children: readonly string[];
  /** Where the group is first named. */
  readonly place: Place;
  /** Set when Ansible leaves the order of the group's hosts to chance: roles that follow from it are not safe. */
  readonly orderWarning?: Warning | null;
}

export interface Inventory {
  /** The inventory's path in the repository, or null when none was found. */
  readonly path: string | null;
  readonly hosts: ReadonlyMap<string, InventoryHost>;
  readonly groups: ReadonlyMap<string, InventoryGroup>;
  /** Problems of reading: any of them makes every cluster of this inventory invalid. */
  readonly problems: readonly Problem[];
  readonly warnings: readonly Warning[];
  /** Texts that Ansible Vault keeps secret in the repository and that were decrypted: mask them before anything else. */
  readonly secrets?: readonly string[];
}
