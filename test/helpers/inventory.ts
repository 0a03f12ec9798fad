import type { Inventory, InventoryHost, Value, Variable } from '../../src/fleet/inventory/inventory.js';

/** A host's variables as a test writes them, without the `github_runner_cluster_` prefix where `ansible_` does not lead. */
export type Variables = Readonly<Record<string, Value>>;

export interface InventorySketch {
  readonly group?: string;
  readonly groupVars?: Variables;
  readonly hosts: Readonly<Record<string, Variables>>;
}

/**
 * An inventory as the reader would give it for one group in `inventory.yml`: group variables on lines 2 to 9, the
 * first host on line 10 and every further host ten lines below, a host's variables right below its name.
 */
export function sketchInventory(...sketches: readonly InventorySketch[]): Inventory {
  const hosts = new Map<string, InventoryHost>();
  const groups: [string, Inventory['groups'] extends ReadonlyMap<string, infer G> ? G : never][] = [];
  let line = 0;
  for (const sketch of sketches) {
    const group = sketch.group ?? 'github_runner_cluster';
    const groupLine = line + 1;
    line += 10;
    const places = new Map<string, { file: string; line: number }>();
    for (const [name, own] of Object.entries(sketch.hosts)) {
      places.set(name, { file: 'inventory.yml', line });
      const variables = new Map<string, Variable>();
      const put = (vars: Variables, source: string, first: number): void => {
        Object.entries(vars).forEach(([short, value], index) => {
          const full = /^(?:ansible|github_runner_cluster)_/.test(short) ? short : `github_runner_cluster_${short}`;
          const place = { file: 'inventory.yml', line: first + index };
          variables.set(full, { name: full, value, source, overrides: [], ...place });
        });
      };
      put(sketch.groupVars ?? {}, `group ${group}`, groupLine + 1);
      put(own, `host ${name}`, line + 1);
      hosts.set(name, { name, variables, failures: new Map() });
      line += 10;
    }
    const place = { file: 'inventory.yml', line: groupLine };
    groups.push([group, { name: group, hosts: Object.keys(sketch.hosts), places, children: [], place }]);
  }
  return { path: 'inventory.yml', hosts, groups: new Map(groups), problems: [], warnings: [] };
}
