import { execFileSync } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PlanJson } from '../src/report/plan-json.js';
import { type ActionResult, runAction } from './helpers/action.js';
import { expectValidPlan } from './helpers/plan-schema.js';

// The committed bundle, run as an operator runs it outside GitHub: inputs and the usual files, nothing else.

let base: string;
beforeAll(() => {
  base = mkdtempSync(join(tmpdir(), 'fleet-role-bundle-'));
});
afterAll(() => rmSync(base, { recursive: true, force: true }));

const marker = () => join(base, 'contacted');

/** A repository with one commit for each of the given trees; gives its path and the SHAs. */
function repository(...trees: readonly Record<string, string>[]): { path: string; shas: string[] } {
  const path = mkdtempSync(join(base, 'repo-'));
  const git = (...args: string[]) =>
    execFileSync('git', ['-C', path, '-c', 'user.name=t', '-c', 'user.email=t@example.net', ...args], {
      encoding: 'utf8',
    }).trim();
  git('init', '-q');
  const shas = trees.map((tree) => {
    for (const [name, text] of Object.entries(tree)) {
      mkdirSync(dirname(join(path, name)), { recursive: true });
      writeFileSync(join(path, name), text);
    }
    git('add', '-A');
    git('commit', '-q', '--allow-empty', '-m', 'x');
    return git('rev-parse', 'HEAD');
  });
  return { path, shas };
}

/** Runs plan over an inventory; every host is local, so that a contact would leave a mark. */
function run(inputs: Record<string, string>): Promise<ActionResult> {
  return runAction({ inputs: { 'check-run': 'false', ...inputs } });
}

const inventory = (vars: string, hosts = '        n1: {}\n        n2: {}\n        n3: {}\n') =>
  `all:\n  children:\n    github_runner_cluster:\n      vars:\n        github_runner_cluster_controller: ${vars}\n      hosts:\n${hosts}`;

describe('the bundle outside GitHub', () => {
  it('plans with nothing but four inputs, and writes the plan exactly as the contract says', async () => {
    const { path, shas } = repository({ 'inventory.yml': inventory('false') }, { 'inventory.yml': inventory('true') });
    const [before, after] = shas as [string, string];
    const result = await run({ mode: 'plan', repository: path, ref: after, 'base-ref': before });
    expect(result.exitCode, result.log).toBe(0);
    expect(result.outputs).toMatchObject({
      result: 'planned',
      changed: 'true',
      'failed-step': '',
      'failure-reason': '',
      'check-run-url': '',
    });
    const json = JSON.parse(result.outputs.plan ?? '') as PlanJson;
    expectValidPlan(json);
    expect(json).toMatchObject({
      version: 1,
      mode: 'plan',
      base: before,
      head: after,
      inventory: 'inventory.yml',
      observed: false,
    });
    expect(json.clusters).toHaveLength(1);
    expect(json.clusters[0]?.hosts[1]).toEqual({
      name: 'n2',
      nodeName: 'n2',
      address: 'n2',
      role: 'server',
      bootstrap: false,
      joinUrl: 'https://n1:6443',
      tlsSans: ['n1', 'n2', 'n3'],
      publishesLabels: true,
      eligible: null,
      pinned: false,
      runtime: 'compose',
      connection: { type: 'ssh', host: 'n2', port: 22, user: null, become: false },
      directory: '~/.github-runner',
      composeProject: 'github-runner',
      roleFile: 'server',
      joinUrlFile: 'https://n1:6443',
      file: 'inventory.yml',
      line: 8,
    });
    expect(json.clusters[0]?.steps[0]).toEqual({
      number: 1,
      action: 'create-role-directory',
      host: 'n1',
      service: null,
      value: null,
      detail: expect.any(String),
      voters: { before: 3, after: 3, healthy: 3, quorum: 2, tolerance: 1 },
    });
    expect(result.summary).toContain('## fleet-role plan');
    expect(result.outputs.summary).toBe(
      result.summary.trimEnd() === result.outputs.summary?.trimEnd() ? result.outputs.summary : result.summary,
    );
    expect(await result.leftInTemp()).toEqual([]);
  });

  it('says what it came to in each of two clusters, and applies nothing of the invalid one', async () => {
    const tree = (role: string) => ({
      hosts: `a:\n  vars: {github_runner_cluster_controller: on}\n  hosts: {n1: {}}\nb:\n  hosts: {m1: {github_runner_cluster_node_role: ${role}}}\n`,
    });
    const { path, shas } = repository(tree('server'), tree('boss'));
    const result = await run({
      mode: 'plan',
      repository: path,
      ref: shas[1] ?? '',
      'base-ref': shas[0] ?? '',
      'cluster-groups': 'a, b',
    });
    expect([result.exitCode, result.outputs.result], result.log).toEqual([1, 'refused']);
    const json = JSON.parse(result.outputs.plan ?? '') as PlanJson;
    expectValidPlan(json);
    expect(json.clusters.map((cluster) => [cluster.name, cluster.valid])).toEqual([
      ['a', true],
      ['b', false],
    ]);
  });

  it('takes a base that cannot be had as none, and says so', async () => {
    const { path, shas } = repository({ 'inventory.yml': inventory('true') });
    const result = await run({ mode: 'plan', repository: path, ref: shas[0] ?? '', 'base-ref': 'f'.repeat(40) });
    expect(result.exitCode, result.log).toBe(0);
    const json = JSON.parse(result.outputs.plan ?? '') as PlanJson;
    expect(json.clusters[0]?.notes.map((note) => note.code)).toEqual(['base-unreadable', 'not-observed']);
    expect(json.clusters[0]?.changes.every((change) => change.kind === 'added')).toBe(true);
  });
});

describe('an event file', () => {
  it.each([
    ['that is not JSON', 'hello'],
    ['that is empty', ''],
  ])('%s is a clear error', async (_what, text) => {
    const path = join(base, 'event.json');
    writeFileSync(path, text);
    const env = { GITHUB_EVENT_NAME: 'push', GITHUB_EVENT_PATH: path, GITHUB_REPOSITORY: 'o/r' };
    const result = await runAction({ inputs: { 'check-run': 'false' }, env });
    expect(result.exitCode).toBe(1);
    expect(result.outputs['failure-reason']).toMatch(/event file that GITHUB_EVENT_PATH names cannot be read/);
    expect(result.outputs.result).toBe('failed');
  });

  it('is not read where there is no event', async () => {
    const event = join(base, 'no-event.json');
    writeFileSync(event, '{nope');
    const { path, shas } = repository({ 'inventory.yml': inventory('false') });
    const inputs = { mode: 'plan', repository: path, ref: shas[0] ?? '', 'check-run': 'false' };
    const result = await runAction({ inputs, env: { GITHUB_EVENT_PATH: event } });
    expect([result.exitCode, result.outputs['failure-reason']], result.log).toEqual([0, '']);
  });
});

describe('a file of the runner', () => {
  it.each(['GITHUB_OUTPUT', 'GITHUB_STATE', 'GITHUB_STEP_SUMMARY', 'RUNNER_TEMP'])(
    'that is not there is one clear error: %s',
    async (name) => {
      const { path, shas } = repository({ 'inventory.yml': inventory('false') });
      const inputs = { mode: 'plan', repository: path, ref: shas[0] ?? '', 'check-run': 'false' };
      const result = await runAction({ inputs, env: { [name]: join(base, 'not', 'there') } });
      expect(result.exitCode).toBe(1);
      expect(result.log.match(/^error: .*/gm)).toEqual([expect.stringContaining(`error: ${name} is "`)]);
      expect(result.log).not.toMatch(/^\s+at .*:\d+/m);
      expect(result.log).not.toContain('fleet-role itself failed');
    },
  );
});

describe('bad input gives one clear error, a failing exit status and no contact', () => {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const pem = privateKey.export({ type: 'pkcs1', format: 'pem' }).toString();

  async function failing(inputs: Record<string, string>): Promise<string> {
    const result = await run(inputs);
    expect(result.exitCode, result.log).toBe(1);
    expect(result.outputs).toMatchObject({
      result: 'failed',
      changed: 'false',
      'check-run-url': '',
      'failed-step': '',
    });
    const reason = result.outputs['failure-reason'] ?? '';
    expect(reason).not.toBe('');
    expect(reason).not.toMatch(/\n/);
    expect(result.log).not.toMatch(/^\s+at .*:\d+:\d+/m);
    expect(result.log.match(/^error: /gm)).toHaveLength(1);
    expect(existsSync(marker())).toBe(false);
    return reason;
  }

  it.each([
    ['an unknown mode', { mode: 'destroy' }, /mode is "destroy"; give one of auto, plan, apply/],
    ['a boolean that is neither', { 'dry-run': 'yes please' }, /dry-run is "yes please"; give true or false/],
    ['a number that is none', { parallelism: 'many' }, /parallelism is "many"; give a whole number/],
    ['a number out of range', { parallelism: '0' }, /parallelism is "0"/],
    ['a duration that is none', { 'step-timeout': '10 minutes' }, /step-timeout is "10 minutes"; give seconds/],
    ['a duration that is too short', { 'step-timeout': '30s' }, /at least 300 seconds/],
    ['rejoin without host', { mode: 'rejoin' }, /host is empty, and mode: rejoin needs/],
    ['a line break in a selector', { 'runner-selector': 'a=b\nc=d' }, /runner-selector is "a=b\\nc=d"; give one line/],
    [
      'a user that ssh would read as an option',
      { 'ssh-user': '-oProxyCommand=id' },
      /ssh-user is .*; give a user name/,
    ],
    ['credentials in repository', { repository: 'https://me:secret@example.net/a/b' }, /credentials/i],
    ['a transport that runs programs', { repository: 'ext::sh -c id' }, /repository/],
    ['a ref that looks like an option', { ref: '--upload-pack=id' }, /ref/],
    ['a base-ref that looks like an option', { 'base-ref': '-x' }, /base-ref/],
    ['a commit that is not there', { ref: 'e'.repeat(40) }, /e{40}/],
  ])('%s', async (_what, inputs, expected) => {
    const { path, shas } = repository({ 'inventory.yml': inventory('true') });
    const given = { mode: 'plan', repository: path, ref: shas[0] ?? '', ...inputs } as Record<string, string>;
    const reason = await failing(given);
    expect(reason).toMatch(expected);
    expect(reason).not.toContain('secret@');
  });

  it.each([
    ['a private key that is none', { 'ssh-private-key': 'hello' }, /ssh-private-key/],
    [
      'no known hosts for a host that is reached by ssh',
      { 'ssh-private-key': pem },
      /ssh-known-hosts is empty, and n1 is reached by ssh/,
    ],
  ])('%s', async (_what, inputs, expected) => {
    const { path, shas } = repository({ 'inventory.yml': inventory('true') });
    const known =
      'ssh-private-key' in inputs && inputs['ssh-private-key'] === 'hello'
        ? { 'ssh-known-hosts': 'n1 ssh-ed25519 AAAA' }
        : {};
    expect(await failing({ mode: 'apply', repository: path, ref: shas[0] ?? '', ...known, ...inputs })).toMatch(
      expected,
    );
  });
});

describe('an inventory that cannot be read is a problem with file and line, and no host is contacted', () => {
  const deep = `${Array.from({ length: 80 }, (_, depth) => `${'  '.repeat(depth)}a:`).join('\n')}\n`;
  const bomb = [
    'a: &a [x,x,x,x,x,x,x,x,x,x]',
    ...'bcdefg'
      .split('')
      .map((name, index) => `${name}: &${name} [${Array(10).fill(`*${'abcdefg'[index]}`).join(',')}]`),
  ].join('\n');

  it.each([
    ['YAML that does not parse', { 'inventory.yml': 'all:\n  hosts: [\n' }, {}, 'bad-syntax'],
    ['YAML that is not a map', { 'inventory.yml': '- a\n- b\n' }, {}, 'bad-structure'],
    ['nesting beyond the bound', { 'inventory.yml': deep }, {}, 'too-big'],
    ['aliases beyond the bound', { 'inventory.yml': bomb }, {}, 'too-big'],
    ['a cluster group that does not exist', { 'inventory.yml': 'all:\n  hosts:\n    n1: {}\n' }, {}, 'no-such-group'],
    ['a cluster group that became empty', { 'inventory.yml': 'github_runner_cluster:\n  hosts: {}\n' }, {}, 'no-hosts'],
    [
      'an inventory path outside the repository',
      { 'inventory.yml': inventory('true') },
      { inventory: '../elsewhere.yml' },
      'outside-repository',
    ],
    [
      'an inventory path that is not there',
      { 'inventory.yml': inventory('true') },
      { inventory: 'nowhere.yml' },
      'unreadable-file',
    ],
  ])('%s', async (_what, tree, inputs, code) => {
    const local = {
      'inventory.yml': inventory(
        'true',
        `        n1: {ansible_connection: local, github_runner_cluster_dir: ${base}}\n`,
      ),
    };
    const { path, shas } = repository(local, tree as Record<string, string>);
    const result = await run({
      mode: 'apply',
      repository: path,
      ref: shas[1] ?? '',
      'base-ref': shas[0] ?? '',
      ...inputs,
    });
    expect([result.exitCode, result.outputs.result], result.log).toEqual([1, 'refused']);
    const json = JSON.parse(result.outputs.plan ?? '') as PlanJson;
    expectValidPlan(json);
    expect(json.clusters[0]).toMatchObject({ valid: false, changes: [], steps: [], refusals: [] });
    expect(json.clusters[0]?.problems[0]?.code).toBe(code);
    expect(result.outputs['failure-reason']).toContain(code);
    expect(existsSync(join(base, 'fleet-role.d'))).toBe(false);
    expect(result.log).not.toMatch(/^\s+at .*:\d+:\d+/m);
  });
});

describe('the inventory of examples/k3s-ansible, whose roles are two groups', () => {
  const example = readFileSync(new URL('../examples/k3s-ansible/inventory.yml', import.meta.url), 'utf8');
  const edited = example
    .replace('        rack-3: { ansible_host: 192.0.2.13 }\n', '')
    .replace('    agent:\n      hosts:\n', '    agent:\n      hosts:\n        rack-3: { ansible_host: 192.0.2.13 }\n')
    .replace('        rack-4: { ansible_host: 192.0.2.14 }\n', '')
    .replace('    agent:\n', '        rack-4: { ansible_host: 192.0.2.14 }\n    agent:\n');

  it('is planned, names its cluster and roles, and says which layout it is', async () => {
    const { path, shas } = repository({ 'inventory.yml': example }, { 'inventory.yml': edited });
    const [before, after] = shas as [string, string];
    const result = await run({ mode: 'plan', repository: path, ref: after, 'base-ref': before });
    expect([result.exitCode, result.outputs.result], result.log).toEqual([0, 'unchanged']);
    expect(result.log).toContain('Layout groups: the inventory has no group github_runner_cluster');
    const json = JSON.parse(result.outputs.plan ?? '') as PlanJson;
    expectValidPlan(json);
    expect(json.clusters).toHaveLength(1);
    expect(json.clusters[0]).toMatchObject({
      name: 'k3s_cluster',
      valid: true,
      controller: false,
      bootstrap: 'rack-1',
      servers: ['rack-1', 'rack-2', 'rack-4'],
      problems: [],
    });
    expect(
      json.clusters[0]?.hosts.map((host) => [host.name, host.nodeName, host.address, host.runtime, host.joinUrl]),
    ).toEqual([
      ['rack-1', null, '192.0.2.11', 'native', null],
      ['rack-2', null, '192.0.2.12', 'native', 'https://192.0.2.11:6443'],
      ['rack-4', null, '192.0.2.14', 'native', 'https://192.0.2.11:6443'],
      ['rack-3', null, '192.0.2.13', 'native', 'https://192.0.2.11:6443'],
      ['rack-5', null, '192.0.2.15', 'native', 'https://192.0.2.11:6443'],
    ]);
    expect(json.clusters[0]?.changes.map(({ host, kind, cause }) => [host, kind, cause.file, cause.line])).toEqual([
      ['rack-4', 'promotion', 'inventory.yml', 9],
      ['rack-3', 'demotion', 'inventory.yml', 12],
    ]);
  });

  it('is read by layout and groups of the inputs, and not as an ordered fleet', async () => {
    const { path, shas } = repository({
      'inventory.yml': example.replaceAll('server', 'cp').replaceAll('agent', 'work'),
    });
    const given = { mode: 'plan', repository: path, ref: shas[0] ?? '', layout: 'groups' };
    const named = await run({ ...given, 'server-group': 'cp', 'agent-group': 'work' });
    expect([named.exitCode, named.outputs.result], named.log).toEqual([0, 'unchanged']);
    expect((JSON.parse(named.outputs.plan ?? '') as PlanJson).clusters[0]?.servers).toEqual([
      'rack-1',
      'rack-2',
      'rack-3',
    ]);
    const unnamed = await run(given);
    expect(unnamed.outputs['failure-reason']).toContain('no-such-group');
    const ordered = await run({ ...given, layout: 'ordered' });
    expect(ordered.outputs['failure-reason']).toContain('no group github_runner_cluster');
  });

  it('does not become another cluster when an ordered group vanishes', async () => {
    const ordered = `${example}github_runner_cluster:\n  hosts:\n    other: {}\n`;
    const { path, shas } = repository({ 'inventory.yml': ordered }, { 'inventory.yml': example });
    const result = await run({ mode: 'plan', repository: path, ref: shas[1] ?? '', 'base-ref': shas[0] ?? '' });
    expect(result.outputs['failure-reason'], result.log).toContain(
      'no-such-group: The inventory has no group github_runner_cluster',
    );
    expect(result.log).toContain('Layout ordered: the base has it');
  });

  it.each([
    ['two clusters', { layout: 'groups', 'cluster-groups': 'a, b' }, /layout: groups reads one cluster/],
    ['groups of the other layout', { layout: 'ordered', 'server-group': 'x' }, /server-group goes with layout: groups/],
    ['one group for both roles', { 'server-group': 'x', 'agent-group': 'x' }, /both name "x"/],
    ['a layout that is none', { layout: 'flat' }, /layout is "flat"; give one of auto, ordered, groups/],
  ])('is refused with inputs that contradict each other: %s', async (_what, inputs, expected) => {
    const { path, shas } = repository({ 'inventory.yml': example });
    const result = await run({ mode: 'plan', repository: path, ref: shas[0] ?? '', ...inputs } as Record<
      string,
      string
    >);
    expect([result.exitCode, result.outputs.result]).toEqual([1, 'failed']);
    expect(result.outputs['failure-reason']).toMatch(expected);
  });

  it('explains one host, shows no secret, and contacts nobody', async () => {
    const token = 'a-token-that-nobody-sees';
    const { path, shas } = repository({
      'inventory.yml': example,
      'group_vars/all.yml': `token: ${token}\nansible_user: two\n`,
      'host_vars/rack-4.yml': 'ansible_user: one\nansible_connection: local\n',
    });
    const result = await run({ mode: 'explain', repository: path, ref: shas[0] ?? '', host: 'rack-4' });
    expect(result.exitCode, result.log).toBe(0);
    expect(result.outputs).toMatchObject({
      result: 'unchanged',
      changed: 'false',
      'failed-step': '',
      'failure-reason': '',
    });
    const json = JSON.parse(result.outputs.plan ?? '') as PlanJson;
    expectValidPlan(json);
    expect(json).toMatchObject({ mode: 'explain', observed: false });
    expect(result.summary).toContain('## fleet-role explain');
    expect(result.summary).toContain('**`rack-4` is an agent of `k3s_cluster`**');
    expect(result.summary).toMatch(
      /\| `ansible_user` \| `one` \| `host_vars\/rack-4.yml` line 1 \| `two` from `group_vars\/all.yml` line 2<br>/,
    );
    expect(result.outputs.summary?.trimEnd()).toBe(result.summary.trimEnd());
    expect(result.log).toContain('ansible_user = one  [host_vars/rack-4.yml:1]');
    expect(result.log).toContain('rack-4 is in the group agent, which makes it an agent');
    for (const text of [result.log, result.summary, result.outputs.plan]) expect(text).not.toContain(token);
    expect(await result.leftInTemp()).toEqual([]);
  });

  it.each([
    ['that no cluster has', 'rack-9', /"rack-9", which no cluster of the inventory has; give an inventory name/],
    [
      'that is in another group',
      'elsewhere',
      /"elsewhere", which no cluster of the inventory has \(the inventory has it/,
    ],
  ])('explains no host %s', async (_what, host, expected) => {
    const { path, shas } = repository({ 'inventory.yml': `${example}others: {hosts: {elsewhere: {}}}\n` });
    const result = await run({ mode: 'explain', repository: path, ref: shas[0] ?? '', host });
    expect([result.exitCode, result.outputs.result], result.log).toEqual([1, 'failed']);
    expect(result.outputs['failure-reason']).toMatch(expected);
  });

  it('says with the missing host what keeps the inventory from being read', async () => {
    const { path, shas } = repository({ 'inventory.yml': 'all:\n  hosts: [\n' });
    const result = await run({ mode: 'explain', repository: path, ref: shas[0] ?? '', host: 'rack-1' });
    expect(result.exitCode).toBe(1);
    expect(result.outputs['failure-reason']).toMatch(
      /no cluster of the inventory has; .* bad-syntax at inventory.yml:\d/,
    );
  });
});

describe('an encrypted value', () => {
  const script =
    'import sys; from ansible.parsing.vault import VaultLib, VaultSecret; ' +
    'v = VaultLib([("default", VaultSecret(b"open sesame"))]); sys.stdout.write(v.encrypt(sys.argv[1].encode()).decode())';
  let vaulted: string | null = null;
  try {
    vaulted = execFileSync('/usr/bin/python3', ['-c', script, 'secret-node-9'], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
  } catch {
    // Without ansible-core: .ci/run installs it, and FLEET_ROLE_ALL_SHELLS says that nothing may be missing.
    if (process.env.FLEET_ROLE_ALL_SHELLS === '1') throw new Error('ansible-core is not installed');
  }

  it.runIf(vaulted !== null)('is decrypted for the plan, and masked before anything of it is shown', async () => {
    const lines = (vaulted ?? '')
      .trim()
      .split('\n')
      .map((line) => `            ${line}`);
    const hosts = `        n1:\n          github_runner_cluster_node_name: !vault |\n${lines.join('\n')}\n`;
    const { path, shas } = repository({ 'inventory.yml': inventory('false', hosts) });
    const given = { mode: 'plan', repository: path, ref: shas[0] ?? '', 'check-run': 'false' };
    const locked = await run(given);
    expect(locked.outputs['failure-reason'], locked.log).toContain('vault-locked');
    const open = await runAction({
      inputs: { ...given, 'vault-password': 'open sesame' },
      env: { GITHUB_ACTIONS: 'true' },
    });
    expect(open.exitCode, open.log).toBe(0);
    expect(open.masks).toContain('secret-node-9');
    expect(JSON.parse(open.outputs.plan ?? '')).toMatchObject({
      clusters: [{ hosts: [{ nodeName: 'secret-node-9' }] }],
    });
  });
});
