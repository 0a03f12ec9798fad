import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { ANNOTATIONS_PER_REQUEST, CHECK_RUN_FIELD_LIMIT, JOB_SUMMARY_LIMIT } from '../../src/report/budget.js';
import type { PhaseResult } from '../helpers/action.js';
import { type ActionResult, runAction } from '../helpers/action.js';
import { pullRequestEvent, pushEvent } from '../helpers/events.js';
import { inventory, KNOWN_HOSTS, planOf, UnreachableFleet } from '../helpers/unreachable-fleet.js';
import { forgedIn, HOSTILE, hiddenIn } from '../report/hostile.js';

// What an inventory says is data wherever a run shows it: check run, job summary, outputs, annotations and log; and a
// big fleet stays within the limits that the API server holds a run to.

vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

let fleet: UnreachableFleet;
let base = '';
beforeAll(async () => {
  fleet = await UnreachableFleet.create();
  base = await fleet.repository.commit({ 'inventory.yml': inventory(['node1']) });
});
afterAll(() => fleet.close());
beforeEach(() => fleet.github.reset());

/** Texts that a JSON document and git can hold; the longest are cut, so that all of them are shown. */
const TEXTS = HOSTILE.filter((text) => text !== '' && !/[\ud800-\udfff](?![\udc00-\udfff])/.test(text)).map((text) =>
  text.slice(0, 400),
);

const GROUP = 'github_runner_cluster';
type Vars = Readonly<Record<string, unknown>>;
const hostsOf = (vars: (text: string, at: number) => Vars, name = (_: string, at: number): string => `node${at}`) =>
  Object.fromEntries(TEXTS.map((text, at) => [name(text, at), { ansible_host: `h${at}`, ...vars(text, at) }]));
const json = (hosts: Vars, group = GROUP, vars: Vars = {}): string => JSON.stringify({ [group]: { hosts, vars } });

const P = `${GROUP}_`;
const PATHS = TEXTS.filter((text) => !/[\0/]/.test(text) && Buffer.byteLength(text) < 200 && text.trim() !== '');

/** Inventories that have hostile texts wherever a text can stand. */
const INVENTORIES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  roles: { 'inventory.yml': json(hostsOf((text) => ({ [`${P}node_role`]: text }))) },
  'host names': {
    'inventory.yml': json(
      hostsOf(
        () => ({}),
        (text) => text,
      ),
    ),
  },
  'node names': { 'inventory.yml': json(hostsOf((text) => ({ [`${P}node_name`]: text }))) },
  'join URLs': { 'inventory.yml': json(hostsOf((text) => ({ [`${P}server_url`]: `https://${text}` }))) },
  addresses: { 'inventory.yml': json(hostsOf((text) => ({ ansible_host: text, ansible_user: text }))) },
  'ssh arguments': { 'inventory.yml': json(hostsOf((text) => ({ ansible_ssh_common_args: text }))) },
  directories: {
    'inventory.yml': json(hostsOf((text) => ({ [`${P}dir`]: `/${text}`, [`${P}compose_files`]: [text] }))),
  },
  templates: { 'inventory.yml': json(hostsOf((text) => ({ [`${P}node_role`]: `{{ ${text} }}` }))) },
  'settings of the cluster': { 'inventory.yml': json({ node1: {} }, GROUP, { [`${P}datastore`]: TEXTS.join(' ') }) },
  groups: {
    'inventory.yml': JSON.stringify({
      [GROUP]: { hosts: { node1: {} }, children: Object.fromEntries(TEXTS.map((text) => [text, {}])) },
    }),
  },
  files: {
    'inventory.yml': json({ node1: {} }),
    ...Object.fromEntries(PATHS.map((text) => [`host_vars/node1/${text}.yml`, 'a: [\n'])),
  },
  'text that is no YAML': { 'inventory.yml': TEXTS.map((text) => `${JSON.stringify(text)}: {{`).join('\n') },
};

/** Everything that a person or a program reads of a run. */
function expectNothingForged(result: ActionResult): void {
  for (const run of fleet.github.checkRuns) {
    for (const markdown of [run.summary, run.text]) expect(forgedIn(markdown ?? '')).toEqual([]);
    expect(hiddenIn(run.title ?? '')).toEqual([]);
    for (const { title = '', message } of run.annotations) expect(hiddenIn(`${title}\n${message}`)).toEqual([]);
  }
  expect(forgedIn(result.summary)).toEqual([]);
  expect(forgedIn(result.outputs.summary ?? '')).toEqual([]);
  for (const name of ['failure-reason', 'failed-step']) {
    expect(hiddenIn(result.outputs[name] ?? '')).toEqual([]);
    expect(result.outputs[name]).not.toContain('\n');
  }
  for (const phase of [result, result.post]) if (phase !== null) expectNoCommand(phase);
}

/** Words of the runner that a run may use. */
const OURS = new Set(['add-mask', 'debug', 'notice', 'warning', 'error', 'group', 'endgroup']);

function expectNoCommand({ log, annotations, masks }: PhaseResult): void {
  for (const line of log.split(/\r\n|[\n\r\u0085\u2028\u2029]/)) {
    expect(hiddenIn(line)).toEqual([]);
    const command = /^\s*::([^\s:]*)/.exec(line)?.[1];
    if (command !== undefined) expect([...OURS]).toContain(command);
    // The runner looks for the old form only where the new one is none: a file of that name keeps its name.
    else expect(line).not.toContain('##[');
  }
  expect(annotations.map(({ message }) => message)).not.toContain('forged');
  expect(masks).not.toContain('x');
}

/** Of these a run says what it met on the way to the hosts. */
const CONTACTED = ['host names', 'addresses', 'directories'];

describe('an inventory with hostile', () => {
  test.each(Object.entries(INVENTORIES))('%s forges nothing in plan and apply', async (what, tree) => {
    const head = await fleet.repository.commit(tree, { branch: 'hostile', from: base });
    const plan = await fleet.run(pullRequestEvent({ headSha: head, baseSha: base }));
    expect(plan.outputs.result, plan.log).toMatch(/^(?:unchanged|planned|refused)$/);
    expectNothingForged(plan);
    // Without a right to write checks all annotations go through the log.
    const fork = await fleet.run(pullRequestEvent({ headSha: head, baseSha: base }), { token: 'read-token' });
    expectNothingForged(fork);
    if (!CONTACTED.includes(what)) return;
    const inputs = { ...KNOWN_HOSTS, branch: 'hostile', mode: 'apply', 'dry-run': 'true' };
    const push = pushEvent({ before: base, after: head, ref: 'refs/heads/hostile' });
    expectNothingForged(await fleet.run(push, { inputs }));
  });

  test('values forges nothing when one host is explained', async () => {
    const values = Object.fromEntries(TEXTS.map((text, at) => [`value_${at}`, text]));
    const head = await fleet.repository.commit(
      { 'inventory.yml': json({ node1: { ...values, ...Object.fromEntries(TEXTS.map((text) => [text, text])) } }) },
      { branch: 'hostile', from: base },
    );
    const inputs = { mode: 'explain', host: 'node1', 'check-run': 'false' };
    const result = await fleet.run(pushEvent({ before: base, after: head, ref: 'refs/heads/hostile' }), { inputs });
    expect(result.exitCode, result.log).toBe(0);
    expectNothingForged(result);
  });

  test('inputs forges nothing in the errors that quote them', async () => {
    for (const text of TEXTS.filter((one) => /::|##\[|[\r\u202e]/.test(one))) {
      const env = { GITHUB_ACTIONS: 'true' };
      const result = await runAction({ inputs: { mode: text.slice(0, 100), 'check-run': 'false' }, env });
      expect(result.outputs.result).toBe('failed');
      expectNoCommand(result);
      expect(forgedIn(result.summary)).toEqual([]);
    }
  });
});

describe('a thousand hosts with three hundred changes', () => {
  const names = Array.from({ length: 1_000 }, (_, at) => `runner-${String(at).padStart(4, '0')}.rack.example.net`);
  const big = (changed: (at: number) => Vars): string =>
    json(Object.fromEntries(names.map((name, at) => [name, at >= 10 && at < 310 ? changed(at) : {}])), GROUP, {
      [`${P}controller`]: true,
    });

  test.each<[string, (at: number) => Vars]>([
    ['alike', () => ({ [`${P}server_url`]: 'https://vip.example.net:6443' })],
    ['each of its own', (at) => ({ [`${P}server_url`]: `https://vip-${at}.example.net:6443` })],
  ])('%s stay within every limit', async (_what, changed) => {
    const from = await fleet.repository.commit({ 'inventory.yml': big(() => ({})) }, { branch: 'big', from: base });
    const head = await fleet.repository.commit({ 'inventory.yml': big(changed) }, { branch: 'big', from });
    const result = await fleet.run(pullRequestEvent({ headSha: head, baseSha: from }));
    const [cluster] = planOf(result).clusters;
    expect(cluster?.hosts).toHaveLength(1_000);
    expect(cluster?.changes.length).toBeGreaterThanOrEqual(300);
    const [check, ...others] = fleet.github.checkRuns;
    expect(others).toEqual([]);
    expect(check?.status).toBe('completed');
    for (const field of [check?.summary, check?.text]) {
      expect(Buffer.byteLength(field ?? '')).toBeLessThanOrEqual(CHECK_RUN_FIELD_LIMIT);
    }
    for (const { output } of check?.history ?? []) {
      expect((output.annotations ?? []).length).toBeLessThanOrEqual(ANNOTATIONS_PER_REQUEST);
    }
    expect(Buffer.byteLength(result.summary)).toBeLessThanOrEqual(JOB_SUMMARY_LIMIT);
    expect(forgedIn(result.summary)).toEqual([]);
    expect(result.summary).toMatch(/^\| 300 hosts: |^<details>/m);
  });
});
