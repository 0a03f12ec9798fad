import { describe, expect, test } from 'vitest';
import type { Change } from '../../src/fleet/change.js';
import { type Decided, differencesOf, notVisibleInReview } from '../../src/plan/reviewed.js';
import { canonicalDecisions } from '../../src/report/plan-json.js';
import { changeOf, clusterOf, clusterPlanOf, planOf, stepOf } from '../report/builders.js';

const reviewed: Decided = { cluster: clusterOf(), changes: [changeOf('node4'), changeOf('node3')] };
const NAME = 'github_runner_cluster';
const now = (changes: readonly Change[], cluster = clusterOf()): Decided => ({ cluster, changes });

const hashed = ({ cluster, changes }: Decided): string =>
  canonicalDecisions(planOf({ clusters: [clusterPlanOf({ cluster, changes })] }));

describe('what is decided otherwise than reviewed', () => {
  const rows: readonly [string, Decided, readonly string[]][] = [
    ['nothing', now(reviewed.changes), []],
    [
      'another cause alone',
      now([changeOf('node4', { cause: { ...changeOf('x').cause, line: 99 } }), changeOf('node3')]),
      [],
    ],
    ['what only the hosts show', now([...reviewed.changes, changeOf('node1', { kind: 'repaired' })]), []],
    [
      'one more change',
      now([...reviewed.changes, changeOf('node1', { kind: 'demotion', role: { from: 'server', to: 'agent' } })]),
      [
        'demotion of node1 (role server → agent, join URL https://node1.example.ts.net:6443 → https://node2.example.ts.net:6443) is not in the reviewed plan',
      ],
    ],
    [
      'one change less',
      now([changeOf('node4')]),
      [
        'promotion of node3 (role agent → server, join URL https://node1.example.ts.net:6443 → https://node2.example.ts.net:6443) is in the reviewed plan alone',
      ],
    ],
    [
      'another join URL',
      now([changeOf('node4', { joinUrl: { from: null, to: null } }), changeOf('node3')]),
      [
        'promotion of node4 (role agent → server) is not in the reviewed plan',
        'promotion of node4 (role agent → server, join URL https://node1.example.ts.net:6443 → https://node2.example.ts.net:6443) is in the reviewed plan alone',
      ],
    ],
    [
      'another order of changes',
      now(reviewed.changes.toReversed()),
      ['the changes have another order than in the reviewed plan'],
    ],
    [
      'the controller',
      now(reviewed.changes, clusterOf({ controller: false })),
      ['the controller is off, and on in the reviewed plan'],
    ],
    [
      'the bootstrap host',
      now(reviewed.changes, clusterOf({ bootstrap: null })),
      ['the bootstrap host is none, and node1 in the reviewed plan'],
    ],
    [
      'the order of servers',
      now(reviewed.changes, clusterOf({ servers: ['node2', 'node1'] })),
      ['the servers are node2, node1, and node1, node2, node4 in the reviewed plan'],
    ],
    [
      'validity',
      now([], clusterOf({ valid: false })),
      [
        'the cluster is invalid, and valid in the reviewed plan',
        expect.stringContaining('promotion of node4'),
        expect.stringContaining('promotion of node3'),
      ],
    ],
    [
      'another cluster',
      now([], clusterOf({ name: 'other' })),
      ['the reviewed plan does not have this cluster', 'only the reviewed plan has this cluster'],
    ],
  ];

  test.each(rows)('%s', (_what, after, expected) => {
    const differences = differencesOf([reviewed], [after]);
    expect(differences.map(({ what }) => what)).toEqual(expected);
    // There is a difference exactly where the hash is another one.
    expect(hashed(after) === hashed(reviewed)).toBe(expected.length === 0);
  });

  test('names the cluster and the hosts', () => {
    expect(differencesOf([reviewed], [now([changeOf('node4')])])).toMatchObject([{ cluster: NAME, hosts: ['node3'] }]);
  });
});

describe('what is not visible in review', () => {
  test('are the steps that the plan of the same commits has not, whatever their number and words', () => {
    const shown = [stepOf(1, 'node4', { detail: 'other words' })];
    const repair = stepOf(1, 'node3', { action: 'write-role', value: 'agent' });
    const observed = [repair, stepOf(2, 'node4'), stepOf(3, 'node4', { value: 'https://other:6443' })];
    expect(notVisibleInReview(observed, shown)).toEqual([repair, observed[2]]);
  });
});
