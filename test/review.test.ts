import { createHash } from 'node:crypto';
import { describe, expect, test, vi } from 'vitest';
import type { Judged } from '../src/apply.js';
import type { ShownPlanLookup } from '../src/github/reviewed.js';
import { assumeBase } from '../src/plan/assume.js';
import { nextSteps } from '../src/plan/next-steps.js';
import { known } from '../src/plan/observation.js';
import { canonicalDecisions } from '../src/report/plan-json.js';
import { Review } from '../src/review.js';
import type { InventorySketch } from './helpers/inventory.js';
import { BASE, fleetOf, HEAD, inputOf, intent } from './plan/worlds.js';

const PULL_HEAD = 'c'.repeat(40);
const on = { github_runner_cluster_controller: true };
const sketch = (...hosts: readonly string[]): InventorySketch => ({
  group: 'fleet',
  hosts: Object.fromEntries(hosts.map((host) => [host, on])),
});
const before = sketch('n1', 'n2', 'n3');
const after = sketch('n1', 'n2', 'n3', 'n4');

/** A cluster as an apply sees it, healthy and as the base declares it. */
function judged(base: InventorySketch, head: InventorySketch): Judged {
  const input = inputOf(base, head);
  const observed = assumeBase(input.desired, '1');
  const record = {
    commit: BASE,
    started: BASE,
    repository: 'o/r',
    group: 'fleet',
    identity: 'assumed',
    run: '',
    begun: [],
  };
  return { input, intent, observed: { ...observed, observed: true, record: known(record) } };
}

/** The hash of the plan between two inventories. */
function hashOf(base: InventorySketch, head: InventorySketch): string {
  const { desired, changes, notes } = inputOf(base, head);
  const cluster = { cluster: desired.cluster, base: BASE, changes, steps: [], refusals: [], notes };
  const plan = { mode: 'plan', base: BASE, head: HEAD, inventory: null, observed: false, clusters: [cluster] } as const;
  return createHash('sha256').update(canonicalDecisions(plan)).digest('hex');
}

function review(given: {
  required?: boolean;
  lookup?: ShownPlanLookup | null;
  shown?: readonly [InventorySketch, InventorySketch];
  ancestor?: 'yes' | 'no' | 'unknown';
}) {
  const [base, head] = given.shown ?? [before, after];
  const shown = { pullRequest: 7, head: PULL_HEAD, base: BASE, hash: hashOf(base, head) };
  const answer = given.lookup === undefined ? ({ kind: 'found', shown } as const) : given.lookup;
  const lookup = vi.fn(async () => answer as ShownPlanLookup);
  const read = vi.fn(async () => ({
    head: fleetOf(PULL_HEAD, head),
    base: { commit: BASE, fleet: fleetOf(BASE, base), unreadable: null },
  }));
  const made = new Review({
    required: given.required ?? true,
    lookup: answer === null ? null : lookup,
    read,
    isAncestor: async () => given.ancestor ?? 'yes',
    guardsVersion: '1',
  });
  return { review: made, lookup, read };
}

const refusals = ({ input, observed, intent: own }: Judged | (undefined & object)): string[] =>
  nextSteps({ desired: input.desired, observed, intent: own }).refused.map(({ code }) => code);
const messageOf = (one: Judged | undefined): string => one?.intent.planDiffers ?? '';

describe('an apply whose reviewed plan is required', () => {
  test('goes on where it is the plan that was shown', async () => {
    const { review: made, read } = review({});
    const [first] = await made.first([judged(before, after)]);
    expect(messageOf(first)).toBe('');
    expect(made.report).toMatchObject({ pullRequest: 7, head: PULL_HEAD, why: null, differences: [] });
    expect(read).toHaveBeenCalledWith(PULL_HEAD, BASE);
  });

  test('is refused in every cluster where one differs', async () => {
    const { review: made } = review({ shown: [before, before] });
    const [first, other] = await made.first([judged(before, after), judged(before, before)]);
    for (const one of [first, other]) {
      expect(refusals(one as Judged)).toContain('plan-differs');
      expect(messageOf(one)).toContain('This is not what pull request 7 showed: fleet: added of n4');
    }
  });

  test('is refused where it differs only once the lock is had', async () => {
    const { review: made } = review({});
    await made.first([judged(before, after)]);
    expect(messageOf(made.again(judged(before, after)))).toBe('');
    // Meanwhile another run changed what the record says.
    expect(messageOf(made.again(judged(sketch('n1', 'n2', 'n3', 'n9'), after)))).toContain('removed of n9');
  });

  test.each<[string, Parameters<typeof review>[0], RegExp]>([
    ['nobody can be asked', { lookup: null }, /run this as a workflow of the fleet repository/],
    [
      'there is none',
      { lookup: { kind: 'none', pullRequest: null, why: 'A direct push.' } },
      /^A direct push\. Open a/,
    ],
    ['GitHub does not say', { lookup: { kind: 'unknown', why: 'No permission.' } }, /^No permission\. Open a pull/],
    ['its base is not in its history', { ancestor: 'no' }, /names a base that is not known to be in its history/],
    ['its base may be in its history', { ancestor: 'unknown' }, /names a base that is not known to be in its history/],
    [
      'its hash is another',
      { lookup: { kind: 'found', shown: { pullRequest: 7, head: PULL_HEAD, base: BASE, hash: '0'.repeat(64) } } },
      /is not what this run makes of the same commits/,
    ],
  ])('is refused where %s', async (_what, given, expected) => {
    const { review: made } = review(given);
    const [first] = await made.first([judged(before, after)]);
    expect(messageOf(first)).toMatch(expected);
    expect(refusals(first as Judged)).toContain('plan-differs');
    expect(made.report?.why).toMatch(/\S/);
  });

  test('is refused where its commits cannot be read', async () => {
    const { review: made, read } = review({});
    read.mockRejectedValue(new Error('gone'));
    const [first] = await made.first([judged(before, after)]);
    expect(messageOf(first)).toContain('The commits of pull request 7 cannot be read: gone');
  });
});

describe('an apply whose reviewed plan is not required', () => {
  test('asks nobody where nothing is to be done', async () => {
    const { review: made, lookup } = review({ required: false });
    await made.first([{ ...judged(before, before), intent: { ...intent, mode: 'plan' } }]);
    expect(lookup).not.toHaveBeenCalled();
    expect(made.report).toBeNull();
  });

  test('lists what differs and what no review could show, and refuses nothing', async () => {
    const { review: made } = review({ required: false, shown: [before, before] });
    const seen = judged(before, after);
    const hosts = new Map(seen.observed.hosts);
    const n2 = hosts.get('n2');
    if (n2?.kind !== 'reached') throw new Error('n2 was reached');
    hosts.set('n2', { ...n2, joinUrl: { kind: 'text', text: 'https://elsewhere:6443' } });
    const [first] = await made.first([{ ...seen, observed: { ...seen.observed, hosts } }]);
    expect(messageOf(first)).toBe('');
    expect(made.report?.differences.map(({ what }) => what)).toEqual([expect.stringContaining('added of n4')]);
    const [unseen] = made.report?.unseen ?? [];
    expect(unseen?.steps.map(({ action, host }) => `${action} ${host}`)).toEqual(['write-join-url n2']);
  });
});
