import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { Value } from '../../../src/fleet/inventory/inventory.js';
import { deciding, read, values } from './snapshots.js';

interface Case {
  readonly id: string;
  readonly files: Readonly<Record<string, string>>;
  readonly inventory: string;
  readonly group: string;
  readonly expected: {
    readonly order: readonly string[];
    readonly hosts: Readonly<Record<string, Record<string, Value>>>;
  };
}

const cases = readFileSync(new URL('cases.jsonl', import.meta.url), 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as Case);

describe('the worked inventories', () => {
  it('are all there', () => {
    expect(cases).toHaveLength(60);
  });

  it.each(cases)(
    '$id: order and deciding variables are what Ansible gives',
    ({ files, inventory, group, expected }) => {
      const result = read(files, { inventory });
      expect(result.problems).toEqual([]);
      expect(result.groups.get(group)?.hosts).toEqual(expected.order);
      for (const host of expected.order) {
        const decided = Object.entries(values(result, host)).filter(([name]) => deciding(name));
        expect({ host, ...Object.fromEntries(decided) }).toEqual({ host, ...expected.hosts[host] });
      }
    },
  );
});
