import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { declareFleet } from '../../src/fleet/declare.js';
import type { Cluster } from '../../src/fleet/fleet.js';
import { type InventorySketch, sketchInventory, type Variables } from '../helpers/inventory.js';

interface Case {
  readonly id: string;
  readonly groupVars: Variables;
  readonly hosts: Readonly<Record<string, Variables>>;
  readonly expected: {
    readonly valid: boolean;
    readonly bootstrap: string | null;
    readonly servers: readonly string[];
    readonly hosts: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  };
}

function declare(...sketches: InventorySketch[]): readonly Cluster[] {
  const inventory = sketchInventory(...sketches);
  return declareFleet('c'.repeat(40), inventory, [...inventory.groups.keys()]).clusters;
}

function declareOne(sketch: InventorySketch): Cluster {
  return declare(sketch)[0] as Cluster;
}

describe.each(['cases', 'controller-on'])('the worked cases of %s.jsonl', (file) => {
  const text = readFileSync(new URL(`./topology/${file}.jsonl`, import.meta.url), 'utf8');
  const cases = text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Case);

  it.each(cases.map((one) => [one.id, one] as const))('%s', (_id, { groupVars, hosts, expected }) => {
    const cluster = declareOne({ groupVars, hosts });
    expect(cluster.valid).toBe(expected.valid);
    if (!expected.valid) return;
    expect({ bootstrap: cluster.bootstrap, servers: cluster.servers }).toEqual({
      bootstrap: expected.bootstrap,
      servers: expected.servers,
    });
    for (const host of cluster.hosts) expect(host).toMatchObject(expected.hosts[host.name] ?? {});
    expect(cluster.hosts.map((host) => host.name)).toEqual(Object.keys(expected.hosts));
  });
});
