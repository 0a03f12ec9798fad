import { describe, expect, test } from 'vitest';
import type { Plan } from '../../src/plan/plan.js';
import { stepKey } from '../../src/plan/step.js';
import { CHECK_RUN_FIELD_BUDGET, JOB_SUMMARY_BUDGET } from '../../src/report/budget.js';
import { type RenderedReport, renderFailure, renderJobSummary, renderReport } from '../../src/report/markdown.js';
import type { ReviewReport, RunReport } from '../../src/report/run.js';
import {
  BASE,
  changeOf,
  clusterOf,
  clusterPlanOf,
  HEAD,
  hostOf,
  planOf,
  reportOf,
  stepOf,
  unreadableOf,
} from './builders.js';
import { cellsOf, forgedIn, HOSTILE, hiddenIn } from './hostile.js';

const EXTRAS = { decisionsHash: 'f00d', annotationsLeftOut: 0 };
const CLUSTER = 'github_runner_cluster';

const plan = planOf({
  mode: 'apply',
  observed: true,
  clusters: [
    clusterPlanOf({
      cluster: clusterOf({
        warnings: [
          { code: 'bootstrap-moved', message: 'node1 leads now', file: 'inventory.yml', line: 7, hosts: ['node1'] },
        ],
      }),
      changes: [
        changeOf('node4'),
        changeOf('node1', {
          kind: 'demotion',
          role: { from: 'server', to: 'agent' },
          joinUrl: { from: null, to: 'https://node2.example.ts.net:6443' },
        }),
      ],
      steps: [
        stepOf(1, 'node4'),
        stepOf(2, 'node4', {
          action: 'start-service',
          service: 'k3s',
          value: null,
          detail: 'node4 becomes a server',
          voters: { before: 3, after: 4, healthy: 3, quorum: 3, tolerance: 0 },
        }),
        stepOf(3, 'node1', { action: 'write-role', value: '', detail: 'node1 serves nobody', voters: null }),
      ],
      refusals: [{ code: 'adoption', message: 'Declare what runs:\nnode3: P_node_role: server', hosts: ['node3'] }],
      notes: [
        { code: 'unreachable', message: 'node9 did not answer', hosts: ['node9'] },
        { code: 'guards-not-in-force', message: 'node3 has no mount', hosts: ['node3'] },
      ],
    }),
  ],
});

function whole({ summary, text }: RenderedReport): string {
  return `${summary}\n${text}`;
}

function expectWellFormed(markdown: string): void {
  let open = 0;
  let cells = 0;
  for (const line of markdown.split('\n')) {
    if (line === '<details>') open++;
    if (line === '</details>') open--;
    expect(open === 0 || open === 1).toBe(true);
    const isRow = line.startsWith('|');
    if (isRow && cells > 0)
      expect(cellsOf(line.replace(/`+[^`]*`+/g, (code) => code.replace(/\\\|/g, '')))).toBe(cells);
    cells = isRow ? (cells > 0 ? cells : cellsOf(line)) : 0;
  }
  expect(open).toBe(0);
}

describe('a report', () => {
  test('says first what it all comes to, then what it compares', () => {
    const { title, summary } = renderReport(reportOf(plan, { result: 'refused' }), EXTRAS);
    expect(title).toBe('Refused: adoption (node3)');
    expect(summary.split('\n')[0]).toBe('**Refused: adoption (node3)**');
    expect(summary).toContain(`\`inventory.yml\` at \`${HEAD}\`, compared with \`${BASE}\`.`);
    expect(summary).toContain('Decisions: `sha256:f00d`');
  });

  test('shows changes, steps, refusals, warnings, notes, and last what was not looked at', () => {
    const { text } = renderReport(reportOf(plan, { result: 'refused' }), EXTRAS);
    const order = ['### Cluster', '**Changes', '**Steps', '**Refused', '**Warnings', '**Notes', '**Not looked at'];
    const places = order.map((heading) => text.indexOf(heading));
    expect(places.every((place) => place >= 0)).toBe(true);
    expect(places).toEqual([...places].sort((a, b) => a - b));
    expect(text).toContain(
      '| `node1` | demotion | `server` → `agent` | none → `https://node2.example.ts.net:6443` | `node_role` is server now (`inventory.yml:12`) |',
    );
    expect(text).toContain('- **`adoption`** (`node3`): Declare what runs:<br>node3: `P_node_role`: server');
    expect(text).toContain('- **`bootstrap-moved`** at `inventory.yml:7` (`node1`): node1 leads now');
    expect(text.slice(text.indexOf('**Not looked at'))).toContain('node9 did not answer');
    expectWellFormed(text);
  });

  test('shows voters, quorum, and what one more failure would do, at every step', () => {
    const { text } = renderReport(reportOf({ ...plan, mode: 'plan' }), EXTRAS);
    expect(text).toContain('| # | step | host | what and why | voters | if one more server fails here |');
    expect(text).toContain('| 3 (3 healthy), quorum 2 | quorum holds |');
    expect(text).toContain('| 3 → 4 (3 healthy), quorum 3 | **quorum is lost** |');
    expect(text).toContain('| 3 | `write-role` | `node1` | node1 serves nobody | – | – |');
  });

  test('leaves the voters out where nobody counts them', () => {
    const steps = [stepOf(1, 'node4', { voters: null })];
    const { text } = renderReport(reportOf(planOf({ clusters: [clusterPlanOf({ steps })] })), EXTRAS);
    expect(text).toContain('| # | step | host | what and why |\n');
  });

  test('shows each step of an apply as done, running, failed, or to come', () => {
    const states: RunReport['states'] = new Map([
      [stepKey(CLUSTER, 1), 'done'],
      [stepKey(CLUSTER, 2), 'running'],
    ]);
    const { title, text } = renderReport(reportOf(plan, { result: null, states }), EXTRAS);
    expect(title).toBe('Applying: 1 of 3 steps done, now start-service node4');
    expect(text).toMatch(/^\| 1 \| ✅ done \|/m);
    expect(text).toMatch(/^\| 2 \| ⏳ running \|/m);
    expect(text).toMatch(/^\| 3 \| to come \|/m);
    const failed = renderReport(reportOf(plan, { states: new Map([[stepKey(CLUSTER, 1), 'failed']]) }), EXTRAS);
    expect(failed.text).toMatch(/^\| 1 \| ❌ failed \|/m);
  });

  test.each<[string, Partial<RunReport>, string[]]>([
    [
      'failed',
      {
        failure: { step: 'start-service node4', reason: 'it did not start', advice: null },
        states: new Map([[stepKey(CLUSTER, 1), 'done']]),
      },
      [
        'Failed at `start-service node4`: it did not start',
        'What it left: 1 of 3 steps are done',
        'Run the same workflow again',
      ],
    ],
    [
      'failed with advice',
      { failure: { step: null, reason: 'no lock', advice: 'Wait for the other run.\nThen run again.' } },
      [
        'Failed: no lock',
        'What it left: 0 of 3 steps are done',
        'What to do next: Wait for the other run.<br>Then run again.',
      ],
    ],
    [
      'cancelled',
      { cancelled: true, states: new Map([[stepKey(CLUSTER, 1), 'running']]) },
      ['`write-join-url node4` was running and may be done in part.', 'Run the same workflow again'],
    ],
    ['dry', { dryRun: true, failure: { step: null, reason: 'x', advice: null } }, ['Run the same workflow again']],
  ])('that %s says what it left and what to do next', (_what, overrides, wanted) => {
    const { summary } = renderReport(reportOf(plan, { result: 'failed', ...overrides }), EXTRAS);
    for (const words of wanted) expect(summary).toContain(words);
  });

  test('of several failed hosts tells the reason of each, in the job summary too', () => {
    const failures = [
      { step: 'write-role node2', reason: 'The disk is full.' },
      { step: 'add-override node3', reason: 'The file is a directory.' },
    ];
    const failure = { step: 'write-role node2', reason: 'The disk is full.', advice: null };
    const report = reportOf(plan, { result: 'failed', failure, failures });
    for (const text of [renderReport(report, EXTRAS).summary, renderJobSummary(report, EXTRAS)]) {
      expect(text).toContain('**Failed: 2**');
      expect(text).toContain('- `write-role node2`: The disk is full.');
      expect(text).toContain('- `add-override node3`: The file is a directory.');
    }
    const one = renderReport({ ...report, failures: failures.slice(0, 1) }, EXTRAS);
    expect(one.summary).not.toContain('**Failed: 1**');
  });

  test('of a run without a plan says why', () => {
    const rendered = renderFailure({ step: null, reason: 'mode: no such mode', advice: 'write plan or apply' });
    expect(rendered).toEqual({
      title: 'Failed: mode: no such mode',
      summary: '**Failed:** mode: no such mode\n\nwrite plan or apply',
      text: '',
    });
  });

  test('names an unreadable cluster, and those where nothing is to be done', () => {
    const clusters = [
      clusterPlanOf({ cluster: unreadableOf({ name: 'broken' }) }),
      clusterPlanOf({ cluster: clusterOf({ name: 'quiet' }) }),
    ];
    const { summary, text } = renderReport(
      reportOf(planOf({ clusters, observed: true }), { result: 'refused' }),
      EXTRAS,
    );
    expect(summary).toContain('| `broken` | none | 0 | 0 | 1 |');
    expect(text).toContain('- **`bad-syntax`** at `inventory.yml:3`');
    expect(text).toContain('**Nothing to do in**\n\n- `quiet`');
    expect(text).not.toContain('**Steps');
    expect(text).not.toContain('Not looked at');
  });

  test('of a run that is refused as a whole says only that', () => {
    const cluster = unreadableOf({ valid: true, problems: [] });
    const refusals = [{ code: 'not-fleet-branch' as const, message: 'use mode plan here', hosts: [] }];
    const refused = planOf({ mode: 'apply', clusters: [clusterPlanOf({ cluster, refusals })] });
    const { title, text } = renderReport(reportOf(refused, { result: 'refused' }), EXTRAS);
    expect(title).toBe('Refused: not-fleet-branch');
    expect(text).toContain('It was not read.');
    expect(text).toContain('- **`not-fleet-branch`**: use mode plan here');
    expect(text).not.toContain('**Steps');
  });

  test('says which base each cluster has when they differ', () => {
    const clusters = [
      clusterPlanOf({ changes: [changeOf('a')] }),
      clusterPlanOf({ cluster: clusterOf({ name: 'other' }), base: null, changes: [changeOf('b')] }),
    ];
    const { summary, text } = renderReport(reportOf(planOf({ base: null, clusters })), EXTRAS);
    expect(summary).toContain('compared with the base that each cluster names');
    expect(text).toContain(`Compared with \`${BASE}\`.`);
    expect(text).toContain('No base: every host counts as added.');
  });

  test('says that nobody was asked, once for all clusters', () => {
    const notes = [{ code: 'not-observed' as const, message: 'no host was contacted', hosts: [] }];
    const clusters = ['one', 'two'].map((name) => clusterPlanOf({ cluster: clusterOf({ name }), notes }));
    const { text } = renderReport(reportOf(planOf({ clusters })), EXTRAS);
    expect(text.match(/contacted/g)).toHaveLength(1);
  });

  test('says that the base branch has gone on, with both commits and the files, in the job summary too', () => {
    const tip = 'ab'.repeat(20);
    const files = Array.from({ length: 12 }, (_, at) => `host_vars/node${at}.yml`);
    const report = reportOf(plan, { movedBase: { branch: 'main', mergeBase: BASE, tip, files } });
    for (const text of [renderReport(report, EXTRAS).summary, renderJobSummary(report, EXTRAS)]) {
      expect(text).toContain(`The plan compares with \`${BASE}\`, and \`main\` at \`${tip}\` has since changed`);
      expect(text).toContain('`host_vars/node9.yml` and 2 more. Bring the branch up to date');
      expect(text).not.toContain('node10');
    }
    expect(whole(renderReport(reportOf(plan, { movedBase: null }), EXTRAS))).not.toContain('gone on');
  });

  test('says how it compares with the plan that was reviewed, and what no review could show', () => {
    const review = { pullRequest: 7, head: HEAD, why: null, differences: [], unseen: [] };
    const shown = (more: Partial<ReviewReport>): string =>
      renderReport(reportOf(plan, { review: { ...review, ...more } }), EXTRAS).summary;
    expect(shown({})).toContain(`This is the plan that pull request \`7\` showed at \`${HEAD}\`.`);
    const why = 'No pull request into main brought it: nobody reviewed a plan of it.';
    expect(shown({ pullRequest: null, why })).toContain(`**No reviewed plan.** ${why}`);
    const differs = shown({ differences: [{ cluster: CLUSTER, what: 'the controller is off', hosts: [] }] });
    expect(differs).toContain(`**Not as in the reviewed plan: 1**\n\n- \`${CLUSTER}\`: the controller is off\n`);
    expect(differs).not.toContain('This is the plan');
    const steps = Array.from({ length: 12 }, (_, at) => stepOf(at + 1, `node${at}`));
    const unseen = shown({ unseen: [{ cluster: CLUSTER, steps }] });
    expect(unseen).toContain('**Not visible in review, because only the hosts show it**');
    expect(unseen).toMatch(/- `github_runner_cluster`: `write-join-url` on `node0`, .*`node9` and 2 more\n/);
  });

  test('says how many annotations had no room', () => {
    const { summary } = renderReport(reportOf(plan), { decisionsHash: null, annotationsLeftOut: 12 });
    expect(summary).toContain('12 more annotations had no room');
    expect(summary).not.toContain('sha256');
  });

  test('has the same content in the job summary', () => {
    const report = reportOf(plan, { result: 'refused' });
    const rendered = renderReport(report, EXTRAS);
    const summary = renderJobSummary(report, EXTRAS);
    expect(summary.startsWith('## fleet-role apply\n\n**Refused: adoption (node3)**\n')).toBe(true);
    for (const line of whole(rendered).split('\n')) expect(summary).toContain(line);
  });
});

describe('a big fleet', () => {
  const names = Array.from({ length: 1_000 }, (_, at) => `runner-${String(at).padStart(4, '0')}.rack.example.net`);

  function bigPlan(reason: (name: string) => string, grouped: boolean): Plan {
    return planOf({
      clusters: [
        clusterPlanOf({
          cluster: clusterOf({ hosts: names.map((name) => hostOf(name)) }),
          changes: names.slice(0, 300).map((name, at) =>
            changeOf(name, {
              kind: 'join-url',
              role: { from: 'agent', to: 'agent' },
              cause: { commit: 'head', file: 'inventory.yml', line: grouped ? 12 : at + 1, reason: reason(name) },
            }),
          ),
          steps: names
            .slice(0, 300)
            .flatMap((name, at) => [
              stepOf(at * 2 + 1, name, { action: 'create-role-directory', value: null, detail: `make it on ${name}` }),
              stepOf(at * 2 + 2, name, { detail: reason(name) }),
            ]),
          refusals: [{ code: 'quorum', message: 'two of three would be left', hosts: ['node3'] }],
          notes: names.map((name) => ({
            code: 'unreachable' as const,
            message: `${name} did not answer`,
            hosts: [name],
          })),
        }),
      ],
    });
  }

  test('shows what is the same for many hosts once, with their number', () => {
    const { text } = renderReport(
      reportOf(bigPlan((name) => `${name} joins node2 because node1 leaves`, true)),
      EXTRAS,
    );
    const rows = text.split('\n').filter((line) => line.startsWith('| 300 hosts:'));
    expect(rows).toHaveLength(1);
    expect(rows[0]).toContain('and 280 more | join-url |');
    expect(text).toContain('| 1 … 599 | `create-role-directory` | 300 hosts:');
    expect(text).toContain('| 2 … 600 | `write-join-url` | 300 hosts:');
    expectWellFormed(text);
  });

  test('stays within every limit, folded, with all refusals, when no two changes are alike', () => {
    const report = reportOf(
      bigPlan((name) => `${name} ${name.length} ${name.slice(7, 11)} has a reason of its own`, false),
    );
    const unlike = {
      ...report,
      plan: {
        ...report.plan,
        clusters: report.plan.clusters.map((cluster) => ({
          ...cluster,
          changes: cluster.changes.map((change, at) => ({
            ...change,
            cause: { ...change.cause, reason: `reason ${at}` },
          })),
        })),
      },
    };
    const rendered = renderReport(unlike, EXTRAS);
    for (const field of [rendered.summary, rendered.text]) {
      expect(Buffer.byteLength(field)).toBeLessThanOrEqual(CHECK_RUN_FIELD_BUDGET);
      expectWellFormed(field);
    }
    expect(rendered.text).toContain('**`quorum`**');
    expect(rendered.text).toContain('<summary>Changes: 300 join URLs</summary>');
    expect(rendered.text).toMatch(/_\d+ more notes: see the job summary\._/);
    const summary = renderJobSummary(unlike, EXTRAS);
    expect(Buffer.byteLength(summary)).toBeLessThanOrEqual(JOB_SUMMARY_BUDGET);
    expect(summary).not.toContain('more notes');
    expect(summary.match(/reason \d+/g)).toHaveLength(300);
    expectWellFormed(summary);
  });

  test('of 500 clusters stays within every limit', () => {
    const clusters = Array.from({ length: 500 }, (_, at) =>
      clusterPlanOf({
        cluster: clusterOf({ name: `cluster_${at}` }),
        changes: [changeOf('a'.repeat(100))],
        steps: [stepOf(1, 'a')],
      }),
    );
    const rendered = renderReport(reportOf(planOf({ clusters })), EXTRAS);
    for (const field of [rendered.summary, rendered.text]) {
      expect(Buffer.byteLength(field)).toBeLessThanOrEqual(CHECK_RUN_FIELD_BUDGET);
      expectWellFormed(field);
    }
    expect(rendered.text).toMatch(/Sections that are not shown here: \d+\. See the job summary\./);
  });
});

describe('a hostile inventory', () => {
  test.each(HOSTILE.map((text) => [text.slice(0, 60), text]))('forges nothing in a report: %j', (_short, text) => {
    const many = (count: number): RunReport => {
      const finding = { code: 'bad-value' as const, message: text, file: text, line: 3, hosts: [text, text] };
      const changes = Array.from({ length: count }, () =>
        changeOf(text, {
          cause: { commit: 'head', file: text, line: 1, reason: text },
          joinUrl: { from: text, to: `${text}x` },
        }),
      );
      const cluster = clusterOf({ name: text, bootstrap: text, servers: [text], warnings: [finding] });
      const steps = Array.from({ length: count }, (_, at) => stepOf(at + 1, text, { value: `${text}v`, detail: text }));
      const refusals = Array.from({ length: count }, () => ({ code: 'quorum' as const, message: text, hosts: [text] }));
      const notes = [
        { code: 'unreachable' as const, message: text, hosts: [text] },
        { code: 'ghost-member' as const, message: text, hosts: [text] },
      ];
      const bad = clusterOf({ name: text, valid: false, problems: [finding] });
      const clusters = [
        clusterPlanOf({ cluster, changes, steps, refusals, notes }),
        clusterPlanOf({ cluster: bad, base: null }),
      ];
      return reportOf(planOf({ mode: 'apply', inventory: text, clusters }), {
        result: 'failed',
        failure: { step: `drain ${text}`, reason: text, advice: text },
        failures: [1, 2].map(() => ({ step: `drain ${text}`, reason: text })),
        states: new Map([[stepKey(text, 1), 'running']]),
        review: {
          pullRequest: 7,
          head: HEAD,
          why: count === 1 ? text : null,
          differences: Array.from({ length: count }, () => ({ cluster: text, what: text, hosts: [text] })),
          unseen: [{ cluster: text, steps }],
        },
        movedBase: { branch: text, mergeBase: BASE, tip: HEAD, files: [text, text] },
      });
    };
    const one = many(1);
    for (const report of [one, many(40), { ...one, failure: null, result: 'refused' as const }]) {
      const rendered = renderReport(report, EXTRAS);
      for (const markdown of [rendered.summary, rendered.text, renderJobSummary(report, EXTRAS)]) {
        expect(forgedIn(markdown)).toEqual([]);
        expectWellFormed(markdown);
      }
      expect(hiddenIn(rendered.title)).toEqual([]);
      expect(rendered.title).not.toContain('\n');
    }
    const failure = renderFailure({ step: text, reason: text, advice: text });
    expect(forgedIn(failure.summary)).toEqual([]);
    expect(failure.summary.split('\n').length).toBeLessThanOrEqual(3);
  });
});
