import type { Cluster, Fleet, Host } from './fleet.js';
import type { Inventory, InventoryHost, Overridden, Value, Variable } from './inventory/inventory.js';
import type { Layout } from './layout.js';
import type { Place } from './problem.js';
import { explainRole } from './role-story.js';
import { hidesSecret, looksSecret, shownText } from './secrets.js';
import { isNeeded } from './variables.js';

/** An inventory as it is read, and as it is read without the vault password (the same one where none was given). */
export interface ExplainedInventory {
  readonly inventory: Inventory;
  readonly locked: Inventory;
}

/** Why one host is what it is: its variables, where they stand, and how its role came about. */
export interface Explanation {
  readonly host: Host;
  readonly cluster: Cluster;
  readonly layout: Layout;
  /** Sentences in the order of the topology rule. */
  readonly role: readonly string[];
  /** Those that decide a plan first, by name each. */
  readonly variables: readonly ExplainedVariable[];
}

export interface ExplainedVariable extends Place {
  readonly name: string;
  /** fleet-role reads it; the others are only there. */
  readonly decides: boolean;
  /** As JSON, a plain text without quotes; null when it is a secret and so never shown. */
  readonly value: string | null;
  /** Why it has no value; null when it has one. */
  readonly failure: string | null;
  readonly source: string;
  /** What it overrides, the strongest first. */
  readonly overrides: readonly ExplainedValue[];
}

export interface ExplainedValue extends Place {
  readonly value: string | null;
  readonly source: string;
}

/**
 * Explains one host of the fleet; null when no cluster has it. Values that look like secrets (by their variable's name
 * or by what they hold) or that were decrypted are not in the result.
 */
export function explainHost(fleet: Fleet, read: ExplainedInventory, name: string): Explanation | null {
  const cluster = fleet.clusters.find(({ hosts }) => hosts.some((host) => host.name === name));
  const host = cluster?.hosts.find((candidate) => candidate.name === name);
  const found = read.inventory.hosts.get(name);
  if (cluster === undefined || host === undefined || found === undefined) return null;
  return {
    host,
    cluster,
    layout: fleet.layout,
    role: explainRole(cluster, host, fleet.layout.kind),
    variables: explainVariables(found, read, fleet.layout),
  };
}

function explainVariables(
  host: InventoryHost,
  { inventory, locked }: ExplainedInventory,
  layout: Layout,
): readonly ExplainedVariable[] {
  const isPublic = inventory === locked ? () => true : publicValues(locked.hosts.get(host.name));
  const secrets = [...host.variables.values()]
    .filter(({ name, value }) => looksSecret(name) || !isPublic(name, value))
    .flatMap(({ value }) => textsOf(value))
    // A short text is a part of too much.
    .filter((text) => text.length >= 6);
  const show = (name: string, value: Value): string | null => {
    if (looksSecret(name) || !isPublic(name, value) || hidesSecret(value)) return null;
    const text = shownText(value);
    return secrets.some((secret) => text.includes(secret)) ? null : text;
  };
  const explained = (variable: Variable): ExplainedVariable => ({
    name: variable.name,
    decides: isNeeded(variable.name, layout.kind),
    value: show(variable.name, variable.value),
    failure: null,
    source: variable.source,
    file: variable.file,
    line: variable.line,
    overrides: variable.overrides.map(({ value, ...rest }: Overridden) => ({
      ...rest,
      value: show(variable.name, value),
    })),
  });
  const failed = [...host.failures].map(
    ([name, { message, file, line }]): ExplainedVariable => ({
      name,
      decides: isNeeded(name, layout.kind),
      value: null,
      failure: message,
      source: 'not resolved',
      file,
      line,
      overrides: [],
    }),
  );
  const all = [...[...host.variables.values()].map(explained), ...failed];
  return all.sort((a, b) => Number(b.decides) - Number(a.decides) || (a.name < b.name ? -1 : 1));
}

/** Whether a variable has this value, as a winner or below one, for somebody who has no vault password. */
function publicValues(host: InventoryHost | undefined): (name: string, value: Value) => boolean {
  return (name, value) => {
    const variable = host?.variables.get(name);
    const wanted = JSON.stringify(value);
    const values = variable === undefined ? [] : [variable, ...variable.overrides];
    return values.some((one) => JSON.stringify(one.value) === wanted);
  };
}

function textsOf(value: Value): readonly string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null) return [];
  return Object.values(value).flatMap((inner: Value) => textsOf(inner));
}
