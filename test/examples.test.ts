import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { ClusterJson, PlanJson } from '../src/report/plan-json.js';
import { type ActionResult, runAction } from './helpers/action.js';
import { type GitRepository, GitServer } from './helpers/git-server.js';
import { expectValidPlan } from './helpers/plan-schema.js';

// Each fleet of examples/ is planned by the bundle: as it is, and after an edit that a reader would make.

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const EXAMPLES = fileURLToPath(new URL('../examples', import.meta.url));
type Files = Readonly<Record<string, string>>;

function filesOf(example: string): Files {
  const folder = join(EXAMPLES, example);
  const paths = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
  return Object.fromEntries(paths.map((path) => [path.slice(folder.length + 1), readFileSync(path, 'utf8')]));
}

let git: GitServer;
let repositories = 0;
beforeAll(async () => {
  git = await GitServer.start({ tokens: null });
});
afterAll(() => git.close());

/** The plan of an edit of an example: `from` replaced by `to` in a file. */
async function planOf(
  example: string,
  edits: readonly (readonly [file: string, from: string, to: string])[],
  inputs: Readonly<Record<string, string>> = {},
): Promise<{ result: ActionResult; json: PlanJson; cluster: ClusterJson }> {
  const files = { ...filesOf(example) };
  const repository: GitRepository = await git.createRepository(`examples/${example}-${++repositories}`);
  const base = await repository.commit(files);
  for (const [file, from, to] of edits) {
    expect(files[file]).toContain(from);
    files[file] = (files[file] ?? '').replace(from, to);
  }
  const head = edits.length === 0 ? base : await repository.commit(files);
  const given = { mode: 'plan', repository: repository.dir, ref: head, 'base-ref': base, 'check-run': 'false' };
  const result = await runAction({ inputs: { ...given, ...inputs } });
  const json = JSON.parse(result.outputs.plan ?? '') as PlanJson;
  expectValidPlan(json);
  return { result, json, cluster: json.clusters[0] as ClusterJson };
}

const rolesOf = ({ hosts }: ClusterJson) => hosts.map(({ name, role }) => `${name} ${role}`);
const kindsOf = ({ changes }: ClusterJson) => changes.map(({ host, kind }) => `${kind} ${host}`);
const GROUPS = { 'cluster-groups': 'berlin, lisbon' };
const inputsOf = (example: string): Record<string, string> => (example === 'two-clusters' ? GROUPS : {});

const fleets = readdirSync(EXAMPLES).filter((name) => name !== 'node');

describe('every example', () => {
  test('is there', () => {
    expect(fleets.sort()).toEqual(['headscale', 'k3s-ansible', 'native', 'sqlite', 'tailscale', 'two-clusters']);
  });

  test.each(fleets)('is a valid fleet that asks for nothing as it is, without a warning: %s', async (example) => {
    const { result, json } = await planOf(example, [], inputsOf(example));
    expect([result.exitCode, result.outputs.result], result.log).toEqual([0, 'unchanged']);
    expect(json.clusters.length).toBeGreaterThan(0);
    for (const cluster of json.clusters) {
      expect(cluster).toMatchObject({ valid: true, problems: [], warnings: [], changes: [], steps: [], refusals: [] });
    }
  });

  test.each(fleets)('says in a README what is special about it: %s', (example) => {
    expect(filesOf(example)['README.md']).toMatch(/^# \S/);
  });
});

describe('tailscale', () => {
  test('has its first three hosts as servers, by their names on the tailnet', async () => {
    const { cluster } = await planOf('tailscale', []);
    expect(cluster).toMatchObject({ bootstrap: 'mini-1', servers: ['mini-1', 'mini-2', 'mini-3'] });
    expect(cluster.hosts.at(-1)).toMatchObject({
      name: 'laptop-1',
      role: 'agent',
      joinUrl: 'https://mini-1.example.ts.net:6443',
      connection: { host: 'laptop-1.example.ts.net', user: 'fleet' },
    });
  });

  test('moves a server as its README says: three votes become four before they become three', async () => {
    const readme = filesOf('tailscale')['README.md'] ?? '';
    const lines = [...readme.matchAll(/^ {4}(mini-\d): (\{.*\})$/gm)].map(([, host, vars]) => [host, vars] as const);
    expect(lines).toHaveLength(2);
    const edits = lines.map(([host, vars]) => ['inventory.yml', `    ${host}:\n`, `    ${host}: ${vars}\n`] as const);
    const { result, cluster } = await planOf('tailscale', edits);
    expect([result.exitCode, result.outputs.result], result.log).toEqual([0, 'planned']);
    expect(kindsOf(cluster)).toEqual(expect.arrayContaining(['promotion mini-4', 'demotion mini-2']));
    expect(cluster.refusals).toEqual([]);
    const votes = cluster.steps.flatMap(({ voters }) => (voters === null ? [] : [voters.after]));
    expect(Math.max(...votes)).toBe(4);
    expect(votes.at(-1)).toBe(3);
    for (const { voters } of cluster.steps) expect(voters?.healthy).toBeGreaterThanOrEqual(voters?.quorum ?? 0);
  });
});

describe('headscale', () => {
  test('is reached by addresses that work without the mesh, and joins over it', async () => {
    const { cluster } = await planOf('headscale', []);
    expect(cluster.hosts.map(({ connection }) => connection.host)).toEqual(
      ['11', '12', '13', '21', '22'].map((last) => `203.0.113.${last}`),
    );
    expect(cluster.hosts.map(({ joinUrl }) => joinUrl)).toEqual([
      null,
      ...Array(4).fill('https://head-1.mesh.example.net:6443'),
    ]);
  });

  test('takes in one more agent', async () => {
    const last = '    work-2: {';
    const { cluster } = await planOf('headscale', [
      [
        'inventory.yml',
        last,
        `    work-3: { ansible_host: 203.0.113.23, github_runner_cluster_node_role: agent }\n${last}`,
      ],
    ]);
    expect(kindsOf(cluster)).toEqual(['added work-3']);
    const hosts = cluster.steps.flatMap(({ action, host }) => (action === 'write-record' ? [] : [host]));
    expect(new Set(hosts)).toEqual(new Set(['work-3']));
  });
});

describe('native', () => {
  test('has native hosts that are reached by sudo, joined by their addresses', async () => {
    const { cluster } = await planOf('native', []);
    for (const host of cluster.hosts) {
      expect(host).toMatchObject({ runtime: 'native', connection: { user: 'fleet', become: true } });
    }
    expect(rolesOf(cluster)).toEqual(['rack-1 server', 'rack-2 server', 'rack-3 server', 'rack-4 agent']);
    expect(cluster.hosts[3]?.joinUrl).toBe('https://192.0.2.11:6443');
  });
});

describe('two-clusters', () => {
  test('plans each by itself: an edit of one leaves the other alone', async () => {
    const edit = ['inventory.yml', '        berlin-4:\n', '        berlin-4:\n        berlin-5:\n'] as const;
    const { result, json } = await planOf('two-clusters', [edit], GROUPS);
    expect([result.exitCode, result.outputs.result], result.log).toEqual([0, 'planned']);
    expect(json.clusters.map(({ name, controller, servers }) => [name, controller, servers])).toEqual([
      ['berlin', true, ['berlin-1', 'berlin-2', 'berlin-3']],
      ['lisbon', false, ['lisbon-1']],
    ]);
    expect(json.clusters.map(kindsOf)).toEqual([['added berlin-5'], []]);
    expect(json.clusters[1]?.hosts[1]?.joinUrl).toBe('https://lisbon-1.example.ts.net:16443');
  });
});

describe('sqlite', () => {
  test('has one server, and agents that come and go', async () => {
    const { result, cluster } = await planOf('sqlite', [['inventory.yml', '    nuc-3:\n', '    nuc-4:\n']]);
    expect([result.exitCode, result.outputs.result], result.log).toEqual([0, 'planned']);
    expect(cluster).toMatchObject({ datastore: 'sqlite', servers: ['nuc-1'] });
    expect(kindsOf(cluster)).toEqual(expect.arrayContaining(['added nuc-4', 'removed nuc-3']));
  });

  test('refuses to move its server', async () => {
    const { result, cluster } = await planOf('sqlite', [
      ['inventory.yml', 'nuc-1: { github_runner_cluster_node_role: server }', 'nuc-1:'],
      ['inventory.yml', '    nuc-2:\n', '    nuc-2: { github_runner_cluster_node_role: server }\n'],
    ]);
    expect([result.exitCode, result.outputs.result]).toEqual([1, 'refused']);
    expect(cluster.refusals.map(({ code }) => code)).toContain('sqlite-moves');
  });
});
