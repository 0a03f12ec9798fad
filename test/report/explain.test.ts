import { describe, expect, it, test } from 'vitest';
import { declareFleet } from '../../src/fleet/declare.js';
import { type ExplainedInventory, type Explanation, explainHost } from '../../src/fleet/explain.js';
import type { Inventory, InventoryHost, Variable } from '../../src/fleet/inventory/inventory.js';
import { ParseCache } from '../../src/fleet/inventory/parse-cache.js';
import { readInventory } from '../../src/fleet/inventory/read.js';
import { type LayoutInputs, ORDERED } from '../../src/fleet/layout.js';
import { isNeeded } from '../../src/fleet/variables.js';
import { CHECK_RUN_FIELD_BUDGET, JOB_SUMMARY_BUDGET, utf8Length } from '../../src/report/budget.js';
import {
  explanationLines,
  explanationTitle,
  renderExplanation,
  renderExplanationSummary,
} from '../../src/report/explain.js';
import { vaultText } from '../fleet/inventory/vault-text.js';
import { planOf, reportOf } from './builders.js';
import { cellsOf, forgedIn, HOSTILE, hiddenIn } from './hostile.js';

const GROUPS: LayoutInputs = { layout: 'groups', serverGroup: null, agentGroup: null };
const PASSWORD = 'correct horse';

function read(files: Readonly<Record<string, string>>, vaultPassword: string | null = null): ExplainedInventory {
  const blobs = new Map(Object.entries(files).map(([path, text]) => [path, new TextEncoder().encode(text)]));
  const entries = new Map(
    [...blobs].map(([path, bytes]) => [path, { type: 'file' as const, oid: path, size: bytes.length }]),
  );
  const needed = (variable: string) => isNeeded(variable, 'groups');
  const open = (password: string | null): Inventory =>
    readInventory(
      { commit: 'c'.repeat(40), entries, blobs },
      { inventory: null, playbookDir: null, vaultPassword: password, needed },
      new ParseCache(),
    );
  const inventory = open(vaultPassword);
  return { inventory, locked: vaultPassword === null ? inventory : open(null) };
}

function explain(
  files: Readonly<Record<string, string>>,
  host: string,
  inputs: LayoutInputs = ORDERED,
  vaultPassword: string | null = null,
): Explanation {
  const explained = read(files, vaultPassword);
  const fleet = declareFleet('c'.repeat(40), explained.inventory, ['github_runner_cluster'], inputs);
  const found = explainHost(fleet, explained, host);
  if (found === null) throw new Error('no such host');
  return found;
}

const report = reportOf(planOf({ mode: 'explain' }), { result: 'unchanged' });
const everything = (explanation: Explanation): string =>
  [
    renderExplanationSummary(report, explanation),
    renderExplanation(report, explanation).summary,
    renderExplanation(report, explanation).text,
    ...explanationLines(explanation),
  ].join('\n');

/** Five hosts, three servers: n4 is an agent by order, n5 by its own variable. */
const FLEET = {
  'inventory.yml': `github_runner_cluster:
  vars:
    github_runner_cluster_controller: true
    github_runner_cluster_max_servers: 3
    github_runner_cluster_dir: /srv/one
  hosts:
    n1: {github_runner_cluster_dir: /srv/two}
    n2: {}
    n3: {}
    n4: {}
    n5:
      github_runner_cluster_node_role: agent
      comment: of the host
`,
  'group_vars/github_runner_cluster.yml': 'github_runner_cluster_dir: /srv/three\n',
  'host_vars/n1.yml': '\ngithub_runner_cluster_dir: /srv/four\n',
};

describe('the variables of one host', () => {
  it('are shown with value, source and what they override, the strongest first', () => {
    const { variables } = explain(FLEET, 'n1');
    expect(variables.find(({ name }) => name === 'github_runner_cluster_dir')).toEqual({
      name: 'github_runner_cluster_dir',
      decides: true,
      value: '/srv/four',
      failure: null,
      source: 'host_vars/n1.yml',
      file: 'host_vars/n1.yml',
      line: 2,
      overrides: [
        { value: '/srv/two', source: 'host n1', file: 'inventory.yml', line: 7 },
        {
          value: '/srv/three',
          source: 'group_vars/github_runner_cluster.yml',
          file: 'group_vars/github_runner_cluster.yml',
          line: 1,
        },
        { value: '/srv/one', source: 'group github_runner_cluster', file: 'inventory.yml', line: 5 },
      ],
    });
    const row = renderExplanationSummary(report, explain(FLEET, 'n1'))
      .split('\n')
      .find((line) => line.includes('_dir'));
    expect(row).toBe(
      '| `github_runner_cluster_dir` | `/srv/four` | `host_vars/n1.yml` line 2 | `/srv/two` from `host n1` at `inventory.yml:7`<br>`/srv/three` from `group_vars/github_runner_cluster.yml` line 1<br>`/srv/one` from `group github_runner_cluster` at `inventory.yml:5` |',
    );
  });

  it('are shown in the log, a line each, overrides below', () => {
    const lines = explanationLines(explain(FLEET, 'n1'));
    const at = lines.indexOf('github_runner_cluster_dir = /srv/four  [host_vars/n1.yml:2]');
    expect(lines.slice(at + 1, at + 4)).toEqual([
      '    overrides /srv/two  [host n1, inventory.yml:7]',
      '    overrides /srv/three  [group_vars/github_runner_cluster.yml:1]',
      '    overrides /srv/one  [group github_runner_cluster, inventory.yml:5]',
    ]);
  });

  it('come in two tables: those that decide, and the others', () => {
    const { variables } = explain(FLEET, 'n5');
    expect(variables.map(({ name, decides }) => `${name} ${decides}`)).toEqual([
      'github_runner_cluster_controller true',
      'github_runner_cluster_dir true',
      'github_runner_cluster_max_servers true',
      'github_runner_cluster_node_role true',
      'comment false',
    ]);
    const { text } = renderExplanation(report, explain(FLEET, 'n5'));
    expect(text).toContain('Variables that fleet-role reads: 4');
    expect(text).toContain('Other variables of the host: 1');
  });

  it('say why they have no value', () => {
    const files = {
      'inventory.yml': 'github_runner_cluster:\n  hosts:\n    a:\n      ansible_host: "{{ lookup(1) }}"\n',
    };
    const explanation = explain(files, 'a');
    expect(explanation.variables[0]).toMatchObject({ name: 'ansible_host', value: null, line: 4 });
    expect(everything(explanation)).toContain('is a template that cannot be resolved');
    expect(explanationTitle(explanation)).toContain('has problems');
    expect(renderExplanation(report, explanation).summary).toContain('`unresolved-template`');
  });
});

describe('secrets', () => {
  const SECRET = 'hunter2-of-the-test';
  const inline = (line: string) => ({
    'inventory.yml': `github_runner_cluster:\n  hosts:\n    a:\n      ${line}\n      x: 1\n`,
  });
  it.each([
    ['a password', `ansible_password: ${SECRET}`],
    ['a become password', `ansible_become_pass: ${SECRET}`],
    ['a token', `k3s_token: ${SECRET}`],
    ['a token in capitals', `K3S_TOKEN: ${SECRET}`],
    ['a key', `api_key: ${SECRET}`],
    ['a key below a harmless name', `registry: {user: me, password: ${SECRET}}`],
    ['a key in a list', `registries: [{password: ${SECRET}}]`],
    ['an option', `extra_server_args: --flannel-backend=none --token ${SECRET}`],
    ['an option with =', `extra_server_args: --agent-token=${SECRET}`],
    ['an assignment', `k3s_env: K3S_TOKEN=${SECRET}`],
    ['a URL with a password', `proxy: http://me:${SECRET}@proxy.example`],
    ['a key in PEM', `blob: "-----BEGIN OPENSSH PRIVATE KEY----- ${SECRET}"`],
    ['a secret that a needed value repeats', `ansible_user: "{{ k3s_token }}"\n      k3s_token: ${SECRET}`],
  ])('are not shown, only that they are set: %s', (_what, line) => {
    const explanation = explain(inline(line), 'a');
    expect(everything(explanation)).not.toContain(SECRET);
    expect(JSON.stringify(explanation.variables)).not.toContain(SECRET);
    expect(everything(explanation)).toContain('set, not shown');
    expect(explanation.variables.find(({ name }) => name === 'x')?.value).toBe('1');
  });

  it('are not shown where they were overridden', () => {
    const files = {
      'inventory.yml': `github_runner_cluster:\n  vars: {k3s_token: ${SECRET}}\n  hosts: {a: {k3s_token: other}}\n`,
    };
    expect(everything(explain(files, 'a'))).not.toMatch(new RegExp(`${SECRET}|other`));
  });

  it.each([
    ['ssh options', 'ansible_ssh_common_args: -o StrictHostKeyChecking=no -J jump', '-J jump'],
    ['a plain value', 'comment: keyboards and passes', 'keyboards and passes'],
  ])('do not hide %s', (_what, line, shown) => {
    expect(everything(explain(inline(line), 'a'))).toContain(shown);
  });

  it.each([
    [
      'a value that is needed',
      (secret: string) => ({
        'inventory.yml': `github_runner_cluster:\n  hosts:\n    a:\n      ansible_user: !vault |\n${indent(secret, 10)}\n`,
      }),
    ],
    [
      'a value that another one refers to',
      (secret: string) => ({
        'inventory.yml': `github_runner_cluster:\n  hosts:\n    a:\n      ansible_user: "{{ who }}"\n      who: !vault |\n${indent(secret, 10)}\n`,
      }),
    ],
  ])('are not shown where a vault held them: %s', (_what, files) => {
    const tree = files(vaultText(SECRET, PASSWORD));
    const explanation = explain(tree, 'a', ORDERED, PASSWORD);
    expect(explanation.host.connection.user).toBe(SECRET);
    expect(everything(explanation)).not.toContain(SECRET);
    expect(JSON.stringify(explanation.variables)).not.toContain(SECRET);
  });

  it('are not shown where a vault held them, however short', () => {
    const tree = {
      'inventory.yml': `github_runner_cluster:\n  hosts:\n    a:\n      ansible_user: !vault |\n${indent(vaultText('zq7', PASSWORD), 10)}\n`,
    };
    const explanation = explain(tree, 'a', ORDERED, PASSWORD);
    expect([explanation.host.connection.user, explanation.variables[0]?.value]).toEqual(['zq7', null]);
    expect(everything(explanation)).not.toContain('zq7');
  });

  it('are not shown where a whole file was encrypted, and what it does not hold is', () => {
    const tree = {
      'inventory.yml': 'github_runner_cluster:\n  vars: {ansible_user: shown}\n  hosts: {a: {other: also-shown}}\n',
      'group_vars/all.yml': `${vaultText(`who: ${SECRET}\n`, PASSWORD)}\n`,
    };
    const explanation = explain(tree, 'a', ORDERED, PASSWORD);
    expect(explanation.variables.map(({ name, value }) => `${name} ${value}`)).toEqual([
      'ansible_user shown',
      'other also-shown',
      'who null',
    ]);
    expect(everything(explanation)).not.toContain(SECRET);
  });
});

function indent(text: string, columns: number): string {
  return text
    .trim()
    .split('\n')
    .map((line) => ' '.repeat(columns) + line)
    .join('\n');
}

describe('how a role came about', () => {
  const story = (host: string, files: Readonly<Record<string, string>> = FLEET, inputs?: LayoutInputs): string =>
    explain(files, host, inputs).role.join('\n');
  const ordered = (hosts: string, vars = 'true') => ({
    'inventory.yml': `github_runner_cluster:\n  vars: {github_runner_cluster_controller: ${vars}}\n  hosts:\n${hosts}`,
  });

  it.each([
    [
      'n1',
      [
        /none for n1/,
        /candidates \(4 of 5 hosts\): n1, n2, n3, n4\. The target is 3.*4 and .*max_servers 3/,
        /n1 is number 1 and so a server/,
        /bootstrap host: n1, the first server/,
        /join URL: none, since it bootstraps.*gets https:\/\/n2:6443/,
      ],
    ],
    [
      'n4',
      [
        /first 3 of n1, n2, n3, n4 become servers; n4 is number 4 and so an agent\. Servers: n1, n2, n3/,
        /join URL: https:\/\/n1:6443, the address and port of the bootstrap host/,
        /TLS SANs: n1, n2, n3, the addresses/,
      ],
    ],
    [
      'n5',
      [
        /node_role makes n5 an agent \(inventory.yml:12\)/,
        /n5 is none of them: it is forced to be an agent/,
        /n5 is not chosen here and is an agent/,
      ],
    ],
  ])('follows the topology rule for %s', (host, sentences) => {
    for (const sentence of sentences) expect(story(host)).toMatch(sentence);
  });

  it.each([
    [
      'bootstrap',
      '    a: {}\n    b: {github_runner_cluster_bootstrap: true}\n',
      'b',
      /bootstrap makes b a server \(inventory.yml:5\)[\s\S]*bootstrap host: b, by github_runner_cluster_bootstrap: true/,
    ],
    [
      'pinned',
      '    a: {}\n    b: {github_runner_cluster_server_pinned: true}\n',
      'b',
      /server_pinned makes b a server/,
    ],
    [
      'not eligible',
      '    a: {}\n    b: {github_runner_cluster_server_eligible: false}\n',
      'b',
      /b is none of them: github_runner_cluster_server_eligible is false \(inventory.yml:5\)/,
    ],
    [
      'others eligible',
      '    a: {github_runner_cluster_server_eligible: true}\n    b: {}\n',
      'b',
      /b is none of them: other hosts have/,
    ],
    [
      'own URL',
      '    a: {}\n    b: {github_runner_cluster_server_url: "https://x:1"}\n',
      'b',
      /join URL: https:\/\/x:1, its own \(inventory.yml:5\)/,
    ],
    [
      'own SANs',
      '    a: {github_runner_cluster_tls_sans: [x, y]}\n',
      'a',
      /TLS SANs: x, y, its own \(inventory.yml:4\)/,
    ],
  ])('names the variable that decided: %s', (_what, hosts, host, expected) => {
    expect(story(host, ordered(hosts))).toMatch(expected);
  });

  it('says that a pin does not count while the controller is off', () => {
    const text = '    a: {}\n    b: {}\n    c: {github_runner_cluster_server_pinned: true}\n';
    expect(story('c', ordered(text, 'false'))).toMatch(/none for c; .*counts only while the controller is on/);
  });

  it('names the group in the layout of groups, and neither candidates nor target', () => {
    const files = {
      'inventory.yml':
        'server:\n  hosts:\n    a: {}\nagent:\n  hosts:\n    b: {}\nk3s:\n  children: {server: {}, agent: {}}\n  vars: {api_endpoint: vip}\n',
    };
    const explanation = explain(files, 'b', GROUPS);
    const text = explanation.role.join('\n');
    expect(text).toMatch(/b is in the group agent, which makes it an agent \(inventory.yml:6\)/);
    expect(text).toMatch(/join URL: https:\/\/vip:6443, by api_endpoint \(inventory.yml:9\)/);
    expect(text).not.toMatch(/candidates|target/);
    expect(explanationTitle(explanation)).toBe('b is an agent of k3s');
    expect(renderExplanation(report, explanation).summary).toContain('node name which only the host knows');
  });

  it('gives the title of a bootstrap host', () => {
    expect(explanationTitle(explain(FLEET, 'n1'))).toBe(
      'n1 is a server of github_runner_cluster and its bootstrap host',
    );
  });
});

describe('explain', () => {
  it('finds no host that no cluster has', () => {
    const explained = read({ 'inventory.yml': 'github_runner_cluster: {hosts: {a: {}}}\nother: {hosts: {b: {}}}\n' });
    const fleet = declareFleet('c'.repeat(40), explained.inventory, ['github_runner_cluster']);
    expect([explainHost(fleet, explained, 'b'), explainHost(fleet, explained, 'c')]).toEqual([null, null]);
  });

  const withVariables = (variables: readonly Variable[], explanation: Explanation): Explanation => {
    const host: InventoryHost = {
      name: explanation.host.name,
      variables: new Map(variables.map((variable) => [variable.name, variable])),
      failures: new Map(),
    };
    const inventory: Inventory = {
      path: 'inventory.yml',
      hosts: new Map([[host.name, host]]),
      groups: new Map(),
      problems: [],
      warnings: [],
    };
    const fleet = { commit: '', inventory: null, layout: explanation.layout, clusters: [explanation.cluster] };
    const found = explainHost(fleet, { inventory, locked: inventory }, host.name);
    if (found === null) throw new Error('no such host');
    return found;
  };

  test.each(HOSTILE.map((text) => [text.slice(0, 60), text]))('forges nothing: %j', (_short, text) => {
    const place = { file: text, line: 3 };
    const plain = explain(FLEET, 'n4');
    const variable: Variable = {
      name: text,
      value: text,
      source: text,
      ...place,
      overrides: [{ value: text, source: text, ...place }],
    };
    const seen = withVariables([variable], plain);
    const host = { ...seen.host, name: text, nodeName: text, address: text, place };
    const cluster = {
      ...seen.cluster,
      name: text,
      problems: [{ code: 'bad-value' as const, message: text, hosts: [text], ...place }],
    };
    const hostile: Explanation = {
      ...seen,
      host,
      cluster,
      role: [text, `x ${text}`],
      layout: { kind: 'ordered', reason: text },
    };
    const rendered = renderExplanation(report, hostile);
    const markdown = renderExplanationSummary(report, hostile);
    for (const one of [rendered.summary, rendered.text, markdown]) expect(forgedIn(one)).toEqual([]);
    for (const row of markdown.split('\n').filter((line) => line.startsWith('| '))) expect(cellsOf(row)).toBe(4);
    for (const line of [rendered.title, ...explanationLines(hostile)]) {
      expect(line).not.toContain('\n');
      expect(hiddenIn(line)).toEqual([]);
    }
  });

  it('stays within the limits of GitHub, deciding variables first', () => {
    const others = Array.from({ length: 20_000 }, (_, index): Variable => {
      return { name: `v${index}`, value: 'x'.repeat(300), source: 's', file: 'f', line: 1, overrides: [] };
    });
    const needed: Variable = { name: 'ansible_host', value: 'h', source: 's', file: 'f', line: 1, overrides: [] };
    const explanation = withVariables([...others, needed], explain(FLEET, 'n4'));
    const { summary, text } = renderExplanation(report, explanation);
    for (const field of [summary, text]) expect(utf8Length(field)).toBeLessThanOrEqual(CHECK_RUN_FIELD_BUDGET);
    expect(utf8Length(renderExplanationSummary(report, explanation))).toBeLessThanOrEqual(JOB_SUMMARY_BUDGET);
    expect(text).toContain('`ansible_host`');
    expect(text).toMatch(/more variables: see the job summary/);
  });
});
