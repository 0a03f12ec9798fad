import { describe, expect, it } from 'vitest';
import { keepsNodeName } from '../../src/fleet/changes.js';
import { declareFleet } from '../../src/fleet/declare.js';
import type { Host } from '../../src/fleet/fleet.js';
import { assumeBase } from '../../src/plan/assume.js';
import { makePlan, type PlanInput } from '../../src/plan/make-plan.js';
import { withReportedNames } from '../../src/plan/node-names.js';
import { known, type Observation, PLAIN_NODE, type ReachedHost } from '../../src/plan/observation.js';
import { NO_BASE, prepare } from '../../src/plan/prepare.js';
import { sketchInventory, type Variables } from '../helpers/inventory.js';
import { BASE, bare, HEAD, intent, observation } from '../plan/worlds.js';

const ON = { controller: true, runtime: 'compose' };

/** A cluster in the layout of groups whose controller is on: node names are not known unless \`node_name\` says them. */
function fleet(commit: string, agents: Readonly<Record<string, Variables>>) {
  const inventory = sketchInventory(
    { group: 'server', groupVars: ON, hosts: { s: {} } },
    { group: 'agent', groupVars: ON, hosts: agents },
  );
  return declareFleet(commit, inventory, ['k3s'], { layout: 'groups', serverGroup: null, agentGroup: null });
}

function input(base: Readonly<Record<string, Variables>> | null, head: Readonly<Record<string, Variables>>): PlanInput {
  const at = base === null ? NO_BASE : { commit: BASE, fleet: fleet(BASE, base), unreadable: null };
  const [first] = prepare(fleet(HEAD, head), at);
  if (first === undefined || !first.desired.cluster.valid) throw new Error('an invalid sketch');
  return first;
}

const kinds = (of: PlanInput) => of.changes.map((change) => `${change.kind} ${change.host}`);
const hostOf = (of: PlanInput, name: string): Host =>
  of.desired.hosts.find((entry) => entry.host.name === name)?.host as Host;

function observed(of: PlanInput, names: Readonly<Record<string, string>>): Observation {
  const hosts = of.desired.hosts.map(({ host }): [string, ReachedHost] => {
    const nodeName = names[host.name];
    return [host.name, bare(host.role, nodeName === undefined ? {} : { nodeName })];
  });
  const nodes = known(new Map(Object.values(names).map((name) => [name, PLAIN_NODE])));
  return observation(Object.fromEntries(hosts), { nodes });
}

describe('a node name that only the host knows', () => {
  it('is null, and no duplicate of another', () => {
    const of = input(null, { a: {}, b: {} });
    expect(of.desired.cluster.hosts.map((host) => host.nodeName)).toEqual([null, null, null]);
  });

  it('pairs no two hosts: one that left and one that came stay two', () => {
    expect(kinds(input({ a: {} }, { b: {} }))).toEqual(['added b', 'removed a']);
  });

  it('leaves a host of the same machine one host', () => {
    expect(kinds(input({ a: { ansible_host: '10.0.0.1' } }, { b: { ansible_host: '10.0.0.1' } }))).toEqual([
      'renamed b',
    ]);
  });

  it.each([
    ['both unknown, the same machine', {}, {}, true],
    ['both unknown, another machine', { ansible_host: 'x' }, { ansible_host: 'y' }, false],
    ['both unknown, another port', {}, { ansible_port: 2222 }, false],
    ['told now, the same machine', {}, { node_name: 'n' }, true],
    ['told now, another machine', {}, { node_name: 'n', ansible_host: 'y' }, false],
    ['no longer told, the same machine', { node_name: 'n' }, {}, true],
    ['told at both, another machine', { node_name: 'n' }, { node_name: 'n', ansible_host: 'y' }, true],
    ['another name, the same machine', { node_name: 'n' }, { node_name: 'm' }, false],
  ])('is kept or not: %s', (_what, before: Variables, after: Variables, keeps) => {
    const of = input({ a: before }, { a: after });
    const entry = of.desired.hosts.find(({ host }) => host.name === 'a');
    expect(keepsNodeName(entry?.before as Host, entry?.host as Host)).toBe(keeps);
    const { refusals } = makePlan(of, assumeBase(of.desired, '1'), intent);
    expect(refusals.map(({ code }) => code)).toEqual(keeps ? [] : ['renamed']);
    expect(kinds(of).includes('renamed a')).toBe(!keeps);
  });
});

describe('a host that leaves and whose node name only it knows', () => {
  const leaves = () => input({ a: {}, b: {} }, { b: {} });

  it('is drained and its Node deleted in an unobserved plan, which ends', () => {
    const of = leaves();
    const { steps, refusals } = makePlan(of, assumeBase(of.desired, '1'), intent);
    expect(refusals).toEqual([]);
    expect(steps.filter(({ host }) => host === 'a').map(({ action }) => action)).toEqual([
      'write-role',
      'drain',
      'stop-service',
      'delete-node',
    ]);
  });

  it('is refused where it was reached and does not say it', () => {
    const of = leaves();
    const seen = observed(of, { s: 'node-s', b: 'node-b' });
    const { steps, refusals } = makePlan(withReportedNames(of, seen), seen, intent);
    expect(steps.filter(({ host }) => host === 'a')).toEqual([]);
    expect(refusals).toMatchObject([
      { code: 'unknown-node', hosts: ['a'], message: expect.stringContaining('node_name') },
    ]);
  });

  it('goes by the name that it reports', () => {
    const of = leaves();
    const seen = observed(of, { a: 'node-a', s: 'node-s', b: 'node-b' });
    const plan = makePlan(withReportedNames(of, seen), seen, intent);
    expect(plan.refusals).toEqual([]);
    expect(plan.steps.find(({ action }) => action === 'delete-node')?.detail).toBe('delete the Node node-a');
  });
});

describe('node names that hosts report', () => {
  it('fill in what the inventory leaves open, and nothing else', () => {
    const of = input({ a: {}, b: {} }, { a: {}, b: { node_name: 'told' } });
    const named = withReportedNames(of, observed(of, { a: 'node-a', b: 'other', s: 'node-s' }));
    expect(['s', 'a', 'b'].map((name) => hostOf(named, name).nodeName)).toEqual(['node-s', 'node-a', 'told']);
    expect(named.desired.cluster.hosts.map((host) => host.nodeName)).toEqual(['node-s', 'node-a', 'told']);
    expect(named.desired.hosts.find(({ host }) => host.name === 'a')?.before?.nodeName).toBe('node-a');
  });

  it.each([
    ['two hosts report the same', { a: 'same', b: 'same' }],
    ['a host reports what another is told to be', { a: 'told', b: 'node-b' }],
    ['it is no node name', { a: 'Bad Name', b: 'node-b' }],
  ])('stay unknown where %s', (_what, names) => {
    const of = input(null, { a: {}, b: {}, c: { node_name: 'told' } });
    expect(hostOf(withReportedNames(of, observed(of, names)), 'a').nodeName).toBe(null);
  });

  it('say nothing of the machine that the host was before', () => {
    const of = input({ a: { ansible_host: 'x' } }, { a: { ansible_host: 'y' } });
    const named = withReportedNames(of, observed(of, { a: 'node-a' }));
    expect(named.desired.hosts.find(({ host }) => host.name === 'a')?.before?.nodeName).toBe(null);
  });
});
