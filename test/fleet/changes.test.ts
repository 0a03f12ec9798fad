import { describe, expect, it } from 'vitest';
import { type Comparison, compareClusters } from '../../src/fleet/changes.js';
import { declareFleet } from '../../src/fleet/declare.js';
import type { Cluster } from '../../src/fleet/fleet.js';
import { type InventorySketch, sketchInventory } from '../helpers/inventory.js';

const on = { controller: true };

function cluster(sketch: InventorySketch): Cluster {
  const [first] = declareFleet('c'.repeat(40), sketchInventory(sketch), ['github_runner_cluster']).clusters;
  if (first === undefined || !first.valid) throw new Error(`an invalid sketch: ${JSON.stringify(first?.problems)}`);
  return first;
}

function compare(base: InventorySketch, head: InventorySketch): Comparison {
  return compareClusters(cluster(base), cluster(head));
}

const brief = (comparison: Comparison) => comparison.changes.map((change) => `${change.kind} ${change.host}`);
const warned = (comparison: Comparison) =>
  comparison.warnings.map((warning) => `${warning.code} ${warning.hosts.join(' ')}`);

const five = { n1: {}, n2: {}, n3: {}, n4: {}, n5: {} };

describe('changes between two commits', () => {
  it('finds nothing between equal inventories', () => {
    const result = compare({ groupVars: on, hosts: five }, { groupVars: on, hosts: five });
    expect(result).toMatchObject({ changes: [], warnings: [], leaving: [] });
  });

  it('adds every host when there is no base', () => {
    const result = compareClusters(null, cluster({ hosts: { n1: {} } }));
    expect(result.changes).toEqual([
      {
        host: 'n1',
        kind: 'added',
        cause: { commit: 'head', file: 'inventory.yml', line: 10, reason: expect.any(String) },
        role: { from: null, to: 'server' },
        joinUrl: { from: null, to: null },
      },
    ]);
  });

  it('names the line of a host that was inserted as the cause of a role that moved', () => {
    const base = { groupVars: on, hosts: { n1: {}, n2: {}, n3: {}, n4: {} } };
    const head = { groupVars: on, hosts: { n1: {}, new: {}, n2: {}, n3: {}, n4: {} } };
    const result = compare(
      { ...base, groupVars: { ...on, max_servers: 3 } },
      { ...head, groupVars: { ...on, max_servers: 3 } },
    );
    expect(brief(result)).toEqual(['added new', 'demotion n3']);
    expect(result.changes[1]?.cause).toMatchObject({
      commit: 'head',
      line: 20,
      reason: expect.stringContaining('new'),
    });
    expect(warned(result)).toContain('role-moved n3');
    expect(result.warnings.find((one) => one.code === 'role-moved')).toMatchObject({ line: 20 });
  });

  it("names the host's own line when it changed", () => {
    const result = compare(
      { groupVars: on, hosts: five },
      { groupVars: on, hosts: { ...five, n4: { node_role: 'agent' }, n5: { node_role: 'agent' } } },
    );
    expect(brief(result)).toEqual(['demotion n4', 'demotion n5']);
    expect(result.changes.map((change) => change.cause.line)).toEqual([41, 51]);
    expect(warned(result)).toEqual(['tolerance-lowered n1 n2 n3']);
  });

  it('names the setting that changed how many servers there are', () => {
    const result = compare(
      { groupVars: { ...on, max_servers: 3 }, hosts: five },
      { groupVars: { ...on, max_servers: 5 }, hosts: five },
    );
    expect(brief(result)).toEqual(['promotion n4', 'promotion n5']);
    expect(result.changes[0]?.cause).toMatchObject({ line: 3, reason: expect.stringContaining('max_servers') });
  });

  it('names the base line of a removed host as the cause of the promotion that fills its place', () => {
    const four = { ...on, max_servers: 3 };
    const result = compare(
      { groupVars: four, hosts: { n1: {}, n2: {}, n3: {}, n4: {}, n5: {} } },
      { groupVars: four, hosts: { n1: {}, n3: {}, n4: {}, n5: {} } },
    );
    expect(brief(result)).toEqual(['promotion n4', 'removed n2']);
    expect(result.changes[0]?.cause).toMatchObject({ commit: 'base', line: 20, reason: expect.stringContaining('n2') });
  });

  it('warns when the first host is no longer the first, and names the host that was moved', () => {
    const three = { n1: {}, n2: {}, n3: {} };
    const result = compare({ groupVars: on, hosts: three }, { groupVars: on, hosts: { n2: {}, n1: {}, n3: {} } });
    expect(brief(result)).toEqual(['join-url n2', 'join-url n1', 'join-url n3']);
    expect(result.warnings).toMatchObject([
      {
        code: 'bootstrap-moved',
        line: 10,
        hosts: ['n2', 'n1'],
        message: expect.stringContaining('github_runner_cluster_bootstrap'),
      },
    ]);
  });

  it('finds the port, the address and the own server_url behind a join URL', () => {
    const hosts = { n1: {}, n2: {}, n3: {} };
    const causes = (head: InventorySketch) =>
      compare({ hosts }, head).changes.map((change) => [change.host, change.kind, change.cause.line]);
    expect(causes({ groupVars: { api_port: 7443 }, hosts })).toEqual([
      ['n2', 'join-url', 2],
      ['n3', 'join-url', 2],
    ]);
    expect(causes({ hosts: { ...hosts, n1: { node_address: '10.0.0.1' } } })).toEqual([
      ['n2', 'join-url', 11],
      ['n3', 'join-url', 11],
    ]);
    expect(causes({ hosts: { ...hosts, n3: { server_url: 'https://x:6443' } } })).toEqual([['n3', 'join-url', 31]]);
  });

  it('says controller-off once a host and nothing else', () => {
    const result = compare(
      { groupVars: on, hosts: five },
      { groupVars: { controller: false, max_servers: 3 }, hosts: five },
    );
    expect(brief(result)).toEqual(['n1', 'n2', 'n3', 'n4', 'n5'].map((name) => `controller-off ${name}`));
    expect(result.changes[0]?.cause.line).toBe(2);
  });

  it('says controller-on a host, beside what else changed', () => {
    const result = compare(
      { hosts: five },
      { groupVars: on, hosts: { ...five, n4: { node_role: 'agent' }, n5: { node_role: 'agent' } } },
    );
    expect(brief(result)).toEqual([
      'controller-on n1',
      'controller-on n2',
      'controller-on n3',
      'controller-on n4',
      'demotion n4',
      'controller-on n5',
      'demotion n5',
    ]);
  });

  it('takes the override as a change of its own while the controller is off', () => {
    const result = compare({ hosts: five }, { hosts: { ...five, n2: { server_eligible: true } } });
    expect(result.changes).toMatchObject([{ host: 'n2', kind: 'override-added', cause: { line: 21 } }]);
    const back = compare({ hosts: { ...five, n2: { server_eligible: true } } }, { hosts: five });
    expect(back.changes).toMatchObject([{ host: 'n2', kind: 'override-removed', cause: { commit: 'base', line: 21 } }]);
  });

  it('keeps a removed host with its base line, and gives it to be left', () => {
    const result = compare(
      { groupVars: on, hosts: { ...five, n6: { node_role: 'agent' } } },
      { groupVars: on, hosts: five },
    );
    expect(result.changes).toMatchObject([
      {
        host: 'n6',
        kind: 'removed',
        cause: { commit: 'base', line: 60 },
        role: { from: 'agent', to: null },
        joinUrl: { to: null },
      },
    ]);
    expect(result.leaving.map((host) => host.name)).toEqual(['n6']);
  });

  it.each([
    ['the same node name', { alt: { node_name: 'n3' } }],
    ['the same connection and directory', { alt: { ansible_host: 'n3' } }],
  ])('takes a removed and an added host with %s as one host', (_what, added) => {
    const result = compare(
      { groupVars: on, hosts: { n1: {}, n2: {}, n3: {} } },
      { groupVars: on, hosts: { n1: {}, n2: {}, ...added } },
    );
    expect(result.changes.map((change) => [change.host, change.kind])).toContainEqual(['alt', 'renamed']);
    expect(result.leaving).toEqual([]);
    expect(result.pairs.get('alt')?.name).toBe('n3');
  });

  it('takes another node name of one host as renamed', () => {
    const result = compare({ hosts: { n1: {} } }, { hosts: { n1: { node_name: 'k3s-0' } } });
    expect(result.changes).toMatchObject([{ host: 'n1', kind: 'renamed', cause: { line: 11 } }]);
  });

  it('names the variable that changed how a host is reached', () => {
    const result = compare({ hosts: five }, { hosts: { ...five, n5: { ansible_port: 2222 } } });
    expect(result.changes).toMatchObject([
      { host: 'n5', kind: 'connection', cause: { line: 51, reason: expect.stringContaining('ansible_port') } },
    ]);
  });

  it('does not depend on how many other hosts there are: a thousand hosts, one inserted', () => {
    const hosts = Object.fromEntries(Array.from({ length: 1000 }, (_, index) => [`n${index}`, {}]));
    const result = compare({ groupVars: on, hosts }, { groupVars: on, hosts: { first: {}, ...hosts } });
    expect(result.changes).toHaveLength(1001);
    expect(brief(result).slice(0, 2)).toEqual(['added first', 'join-url n0']);
    expect(result.changes.find((change) => change.kind === 'demotion')).toMatchObject({
      host: 'n4',
      cause: { line: 10 },
    });
  });
});
