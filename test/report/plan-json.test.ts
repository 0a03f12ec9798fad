import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { CHANGE_KINDS } from '../../src/fleet/change.js';
import type { ProblemCode } from '../../src/fleet/problem.js';
import type { Plan } from '../../src/plan/plan.js';
import { ACTIONS, NOTE_CODES, REFUSAL_CODES } from '../../src/plan/step.js';
import { canonicalDecisions, planToJson } from '../../src/report/plan-json.js';
import { expectValidPlan } from '../helpers/plan-schema.js';
import { BASE, changeOf, clusterOf, clusterPlanOf, HEAD, planOf, stepOf, unreadableOf } from './builders.js';

const OTHER = '0123456789012345678901234567890123456789';

const full: Plan = planOf({
  clusters: [
    clusterPlanOf({
      cluster: clusterOf({
        warnings: [
          { code: 'bootstrap-moved', message: 'node1 leads now', file: 'inventory.yml', line: 7, hosts: ['node1'] },
        ],
      }),
      changes: [changeOf('node4')],
      steps: [stepOf(1, 'node4'), stepOf(2, 'node4', { action: 'drain', service: 'k3s', value: null, voters: null })],
      refusals: [{ code: 'quorum', message: 'two of three would be left', hosts: ['node3'] }],
      notes: [{ code: 'not-observed', message: 'no host was contacted', hosts: [] }],
    }),
  ],
});

describe('planToJson', () => {
  test('gives the fields of the specification in their order', () => {
    const json = planToJson(full);
    expectValidPlan(json);
    expect(Object.keys(json)).toEqual(['version', 'mode', 'base', 'head', 'inventory', 'observed', 'clusters']);
    const cluster = json.clusters[0];
    expect(Object.keys(cluster ?? {}).join(' ')).toBe(
      'name valid base controller datastore bootstrap servers problems warnings hosts changes steps refusals notes',
    );
    expect(Object.keys(cluster?.hosts[0] ?? {}).join(' ')).toBe(
      'name nodeName address role bootstrap joinUrl tlsSans publishesLabels eligible pinned runtime connection ' +
        'directory composeProject roleFile joinUrlFile file line',
    );
    expect(JSON.stringify(cluster?.changes[0])).toBe(
      '{"host":"node4","kind":"promotion","cause":{"commit":"head","file":"inventory.yml","line":12,' +
        '"reason":"node_role is server now"},"role":{"from":"agent","to":"server"},' +
        '"joinUrl":{"from":"https://node1.example.ts.net:6443","to":"https://node2.example.ts.net:6443"}}',
    );
    expect(JSON.stringify(cluster?.steps[0])).toBe(
      '{"number":1,"action":"write-join-url","host":"node4","service":null,' +
        '"value":"https://node2.example.ts.net:6443","detail":"node1 leaves, so the join URL names node2",' +
        '"voters":{"before":3,"after":3,"healthy":3,"quorum":2,"tolerance":1}}',
    );
  });

  test('keeps key files and ssh options of the inventory out of the output', () => {
    expect(JSON.stringify(planToJson(full))).not.toContain('/keys/one');
    expect(planToJson(full).clusters[0]?.hosts[0]?.connection).toEqual({
      type: 'ssh',
      host: 'node1',
      port: 22,
      user: null,
      become: false,
    });
  });

  test('empties everything but the problems of a cluster that cannot be read', () => {
    const json = planToJson(
      planOf({
        inventory: null,
        clusters: [
          {
            ...clusterPlanOf({ cluster: unreadableOf() }),
            changes: [changeOf('node4')],
            steps: [stepOf(1, 'node4')],
            refusals: [{ code: 'quorum', message: 'no', hosts: [] }],
            notes: [{ code: 'not-observed', message: 'no host was contacted', hosts: [] }],
          },
        ],
      }),
    );
    expectValidPlan(json);
    expect(json.clusters[0]).toEqual({
      name: 'github_runner_cluster',
      valid: false,
      base: BASE,
      controller: null,
      datastore: null,
      bootstrap: null,
      servers: [],
      problems: [
        { code: 'bad-syntax', message: 'inventory.yml line 3 is no YAML', file: 'inventory.yml', line: 3, hosts: [] },
      ],
      warnings: [],
      hosts: [],
      changes: [],
      steps: [],
      refusals: [],
      notes: [],
    });
  });

  test('keeps the refusal of a run that is refused before the cluster is read', () => {
    const cluster = unreadableOf({ valid: true, problems: [] });
    const refusals = [{ code: 'not-fleet-branch' as const, message: 'apply never runs on a pull request', hosts: [] }];
    const json = planToJson(planOf({ mode: 'apply', clusters: [clusterPlanOf({ cluster, base: null, refusals })] }));
    expectValidPlan(json);
    expect(json.clusters[0]).toMatchObject({ valid: true, controller: null, hosts: [], servers: [], refusals });
    const without = planToJson(planOf({ clusters: [clusterPlanOf({ cluster })] }));
    expect(() => expectValidPlan(without)).toThrow();
  });

  test('keeps servers and hosts of another invalid cluster, but no changes, steps and refusals', () => {
    const cluster = clusterOf({
      valid: false,
      problems: [{ code: 'even-servers', message: 'two servers', file: 'inventory.yml', line: 7, hosts: ['node1'] }],
    });
    const json = planToJson(
      planOf({ clusters: [{ ...full.clusters[0], ...clusterPlanOf({ cluster }), steps: [stepOf(1, 'node4')] }] }),
    );
    expectValidPlan(json);
    expect(json.clusters[0]).toMatchObject({ controller: true, servers: ['node1', 'node2', 'node4'], steps: [] });
    expect(json.clusters[0]?.hosts).toHaveLength(4);
  });

  test.each([
    { bases: [BASE], top: BASE },
    { bases: [BASE, BASE], top: BASE },
    { bases: [BASE, OTHER], top: null },
    { bases: [BASE, null], top: null },
    { bases: [null, null], top: null },
    { bases: [], top: BASE },
  ])('has the base $top at the top when the clusters have $bases', ({ bases, top }) => {
    const clusters = bases.map((base, at) => clusterPlanOf({ cluster: clusterOf({ name: `c${at}` }), base }));
    const json = planToJson(planOf({ clusters }));
    expectValidPlan(json);
    expect(json.base).toBe(top);
    expect(json.clusters.map(({ base }) => base)).toEqual(bases);
  });
});

describe('canonicalDecisions', () => {
  test('holds what a reviewer decides on, sorted and without white space', () => {
    expect(canonicalDecisions(full)).toBe(
      '[{"bootstrap":"node1","changes":[{"host":"node4","joinUrl":{"from":"https://node1.example.ts.net:6443",' +
        '"to":"https://node2.example.ts.net:6443"},"kind":"promotion","role":{"from":"agent","to":"server"}}],' +
        '"controller":true,"name":"github_runner_cluster","servers":["node1","node2","node4"],"valid":true}]',
    );
  });

  test.each<[string, Plan, boolean]>([
    ['another commit', { ...full, head: BASE, base: HEAD }, true],
    ['other steps and notes', changed({ steps: [], notes: [], refusals: [] }), true],
    ['another cause', changed({ changes: [changeOf('node4', { cause: { ...changeOf('x').cause, line: 99 } })] }), true],
    ['another host', changed({ changes: [changeOf('node5')] }), false],
    ['another join URL', changed({ changes: [changeOf('node4', { joinUrl: { from: null, to: null } })] }), false],
    ['another bootstrap host', changed({ cluster: clusterOf({ bootstrap: 'node2' }) }), false],
    ['another order of servers', changed({ cluster: clusterOf({ servers: ['node2', 'node1', 'node4'] }) }), false],
    ['the controller off', changed({ cluster: clusterOf({ controller: false }) }), false],
  ])('with %s, is the same: %#', (_what, plan, same) => {
    expect(canonicalDecisions(plan) === canonicalDecisions(full)).toBe(same);
  });

  function changed(overrides: Partial<Plan['clusters'][number]>): Plan {
    return { ...full, clusters: full.clusters.map((cluster) => ({ ...cluster, ...overrides })) };
  }
});

describe('the schema', () => {
  const schema = JSON.parse(readFileSync(new URL('../plan.schema.json', import.meta.url), 'utf8'));
  // The compiler keeps this list complete.
  const problemCodes: Record<ProblemCode, true> = {
    'unknown-role': true,
    'many-bootstraps': true,
    'agent-bootstraps': true,
    'bootstrap-joins-elsewhere': true,
    'no-servers': true,
    'even-servers': true,
    'nothing-to-join': true,
    'bad-max-servers': true,
    'sqlite-servers': true,
    'pinned-agent': true,
    'setting-differs': true,
    'host-in-two-clusters': true,
    'duplicate-node-name': true,
    'bad-node-name': true,
    'joins-itself': true,
    'bad-join-url': true,
    'bad-value': true,
    'unresolved-template': true,
    'no-such-group': true,
    'no-hosts': true,
    'same-machine': true,
    'unreadable-file': true,
    'outside-repository': true,
    'bad-syntax': true,
    'bad-structure': true,
    'duplicate-key': true,
    'bad-range': true,
    'group-loop': true,
    'undefined-group': true,
    'bad-host-name': true,
    'vault-locked': true,
    'too-big': true,
  };

  test.each([
    ['actions', schema.$defs.step.properties.action.enum, ACTIONS],
    ['kinds of change', schema.$defs.change.properties.kind.enum, CHANGE_KINDS],
    ['refusal codes', schema.$defs.refusal.properties.code.enum, REFUSAL_CODES],
    ['note codes', schema.$defs.note.properties.code.enum, NOTE_CODES],
    ['problem codes', schema.$defs.problem.properties.code.enum, Object.keys(problemCodes)],
  ])('knows exactly the %s that the code knows', (_what, known, wanted) => {
    expect([...known].sort()).toEqual([...wanted].sort());
  });

  test.each<[string, (json: ReturnType<typeof planToJson>) => unknown]>([
    ['a missing field', ({ observed: _, ...json }) => json],
    ['an unknown field', (json) => ({ ...json, extra: 1 })],
    ['a head that is no commit', (json) => ({ ...json, head: 'main' })],
    ['line 0', (json) => mend(json, { hosts: json.clusters[0]?.hosts.map((host) => ({ ...host, line: 0 })) })],
    ['a path of the machine', (json) => ({ ...json, inventory: '/etc/hosts' })],
    ['a path out of the repository', (json) => ({ ...json, inventory: 'a/../../b' })],
    ['an unknown action', (json) => mend(json, { steps: [{ ...json.clusters[0]?.steps[0], action: 'reboot' }] })],
    ['steps that do not count from 1', (json) => mend(json, { steps: json.clusters[0]?.steps.slice(1) })],
    ['keys in another order', ({ version, ...json }) => ({ ...json, version })],
    [
      'an invalid cluster without a problem',
      (json) => mend(json, { valid: false, changes: [], steps: [], refusals: [] }),
    ],
  ])('finds %s', (_what, spoil) => {
    const json = planToJson(full);
    expectValidPlan(json);
    expect(() => expectValidPlan(spoil(json))).toThrow();
  });

  function mend(json: ReturnType<typeof planToJson>, fields: object): unknown {
    return { ...json, clusters: json.clusters.map((cluster) => ({ ...cluster, ...fields })) };
  }

  test('takes the output as text', () => {
    expectValidPlan(JSON.stringify(planToJson(full)));
    expect(() => expectValidPlan('{}')).toThrow('required property');
  });
});
