import { describe, expect, test } from 'vitest';
import { ANNOTATIONS_MAX, annotationsOf, batchesOf } from '../../src/report/annotations.js';
import { changeOf, clusterOf, clusterPlanOf, hostOf, planOf } from './builders.js';
import { HOSTILE, hiddenIn } from './hostile.js';

const warning = {
  code: 'bootstrap-moved',
  message: 'node1 leads now',
  file: 'inventory.yml',
  line: 7,
  hosts: ['node1'],
};
const problem = {
  code: 'even-servers' as const,
  message: 'two servers',
  file: 'inventory.yml',
  line: 9,
  hosts: ['node1'],
};

describe('annotationsOf', () => {
  test('puts problems and refusals first, then warnings, then changes', () => {
    const refusals = [{ code: 'quorum' as const, message: 'two of three', hosts: ['gone', 'node2'] }];
    const cluster = clusterOf({ problems: [problem], warnings: [warning] });
    const plan = planOf({ clusters: [clusterPlanOf({ cluster, changes: [changeOf('node4')], refusals })] });
    expect(annotationsOf(plan, true)).toEqual({
      leftOut: 0,
      shown: [
        { path: 'inventory.yml', line: 9, level: 'failure', title: 'even-servers', message: 'two servers' },
        { path: 'inventory.yml', line: 9, level: 'failure', title: 'refused: quorum', message: 'two of three' },
        { path: 'inventory.yml', line: 7, level: 'warning', title: 'bootstrap-moved', message: 'node1 leads now' },
        {
          path: 'inventory.yml',
          line: 12,
          level: 'notice',
          title: 'promotion of node4',
          message:
            'node4: promotion, role agent → server, join URL https://node1.example.ts.net:6443 → ' +
            'https://node2.example.ts.net:6443: node_role is server now',
        },
      ],
    });
  });

  test('says on one line what that line changed for many hosts', () => {
    const changes = Array.from({ length: 12 }, (_, at) => changeOf(`a${at}`, { kind: 'join-url' }));
    const { shown } = annotationsOf(planOf({ clusters: [clusterPlanOf({ changes })] }), true);
    expect(shown).toHaveLength(1);
    expect(shown[0]?.title).toBe('12 join URLs');
    expect(shown[0]?.message.split('\n')).toHaveLength(11);
    expect(shown[0]?.message).toContain('and 2 more hosts');
  });

  test('says once what several clusters share', () => {
    const clusters = ['a', 'b'].map((name) => clusterPlanOf({ cluster: clusterOf({ name, problems: [problem] }) }));
    expect(annotationsOf(planOf({ clusters }), true).shown).toHaveLength(1);
  });

  test('leaves out lines of the base, and everything when the repository is another one', () => {
    const cause = { ...changeOf('x').cause, commit: 'base' as const };
    const plan = planOf({ clusters: [clusterPlanOf({ changes: [changeOf('node4', { cause }), changeOf('node5')] })] });
    expect(annotationsOf(plan, true).shown.map(({ title }) => title)).toEqual(['promotion of node5']);
    expect(annotationsOf(plan, false)).toEqual({ shown: [], leftOut: 0 });
  });

  test.each([
    [null, []],
    ['', []],
    ['/etc/hosts', []],
    ['../other/inventory.yml', []],
    ['a/../../b', []],
    ['group_vars/all.yml', ['group_vars/all.yml']],
    ['..inventory.yml', ['..inventory.yml']],
  ])('of the file %j annotates %j', (file, paths) => {
    const cluster = clusterOf({ warnings: [{ ...warning, file }] });
    const { shown } = annotationsOf(planOf({ clusters: [clusterPlanOf({ cluster })] }), true);
    expect(shown.map(({ path }) => path)).toEqual(paths);
  });

  test.each([
    [null, 1],
    [0, 1],
    [3, 3],
  ])('stands for line %j on line %i', (line, wanted) => {
    const cluster = clusterOf({ warnings: [{ ...warning, line }] });
    expect(annotationsOf(planOf({ clusters: [clusterPlanOf({ cluster })] }), true).shown[0]?.line).toBe(wanted);
  });

  test('keeps the worst when there are too many, and counts the others', () => {
    const warnings = Array.from({ length: 300 }, (_, at) => ({ ...warning, line: at + 1 }));
    const cluster = clusterOf({ warnings, problems: [problem] });
    const { shown, leftOut } = annotationsOf(planOf({ clusters: [clusterPlanOf({ cluster })] }), true);
    expect(shown).toHaveLength(ANNOTATIONS_MAX);
    expect(leftOut).toBe(301 - ANNOTATIONS_MAX);
    expect(shown[0]?.level).toBe('failure');
    const batches = batchesOf(shown);
    expect(batches.map(({ length }) => length)).toEqual([50, 50, 50, 50]);
    expect(batches.flat()).toEqual(shown);
    expect(batchesOf([])).toEqual([]);
    expect(batchesOf(shown.slice(0, 51)).map(({ length }) => length)).toEqual([50, 1]);
  });

  test.each(HOSTILE.map((text) => [text.slice(0, 60), text]))(
    'shows hostile text as data, within the limits: %j',
    (_s, text) => {
      const cluster = clusterOf({
        hosts: [hostOf(text)],
        problems: [{ ...problem, message: text }],
        warnings: [{ ...warning, code: text }],
      });
      const changes = [changeOf(text, { cause: { ...changeOf('x').cause, reason: text } })];
      const refusals = [{ code: 'quorum' as const, message: text, hosts: [text] }];
      const { shown } = annotationsOf(planOf({ clusters: [clusterPlanOf({ cluster, changes, refusals })] }), true);
      expect(shown).toHaveLength(4);
      for (const { title, message } of shown) {
        expect(hiddenIn(title + message)).toEqual([]);
        expect(title).not.toContain('\n');
        expect([...title].length).toBeLessThanOrEqual(255);
        expect(message.length).toBeLessThanOrEqual(4_096);
        expect(message).not.toBe('');
      }
    },
  );
});
