import { describe, expect, it } from 'vitest';
import type { Step } from '../../src/plan/step.js';
import { act } from './act.js';
import { type Change, OLD, scenarioOf, UNGUARDED, USUAL } from './changes.js';
import { faultsOf } from './faults.js';
import { happenings, reboot, servedClusters } from './k3s.js';
import { type Ground, hostOf, type State, stateKey, withBox, withHost, withNode } from './state.js';

// The world model by itself, against the facts: it must be able to go wrong.

function step(action: Step['action'], host: string, more: Partial<Step> = {}): Step {
  return { action, host, service: null, value: null, detail: '', ...more };
}

/** Does the steps in order, waiting for what happens by itself where `wait` is given. */
function play(ground: Ground, start: State, ...steps: readonly (Step | 'settle')[]): State {
  let state = start;
  for (const each of steps) {
    if (each === 'settle') {
      state = settle(ground, state);
      continue;
    }
    const acted = act(ground, state, each, 'head');
    if (acted.kind !== 'done') throw new Error(`${each.action} ${each.host}: ${acted.why}`);
    state = acted.state;
  }
  return state;
}

function settle(ground: Ground, start: State): State {
  let state = start;
  for (let [next] = happenings(ground, state); next !== undefined; [next] = happenings(ground, state))
    state = next.next;
  return state;
}

const of = (change: string, making = USUAL) => scenarioOf(change.split(' ') as unknown as Change, making);
const members = (state: State): readonly string[] =>
  (state.clusters[0] ?? []).map(({ host, voter }) => `${host}${voter ? '' : ' (learner)'}`);
const fault = (ground: Ground, state: State, what: string): State => {
  const found = faultsOf(ground, state).find((one) => one.what === what);
  if (found === undefined) throw new Error(`no fault: ${what}`);
  return found.next;
};

describe('a promotion by the book', () => {
  it('makes a learner, then a voter of the same cluster', () => {
    const { ground, start } = of('SS AS AS');
    const started = play(
      ground,
      start,
      step('write-role', 'n2', { value: 'server' }),
      step('stop-service', 'n2', { service: 'k3s-agent' }),
      step('start-service', 'n2', { service: 'k3s' }),
    );
    expect(members(started)).toEqual(['n1']);
    const [joins] = happenings(ground, started);
    expect(members(joins?.next ?? started)).toEqual(['n1', 'n2 (learner)']);
    expect(members(settle(ground, started))).toEqual(['n1', 'n2']);
  });
});

describe('a removal', () => {
  const remove = step('remove-member', 'n2', { value: 'n2-00000000' });

  it('leaves a guarded, fenced server idle with its tombstone', () => {
    const { ground, start } = of('SS SA SA');
    const state = play(ground, start, step('write-role', 'n2', { value: 'agent' }), remove, 'settle');
    expect(members(state)).toEqual(['n1', 'n3']);
    expect(hostOf(state, 'n2')).toMatchObject({ tombstone: true, k3s: { is: 'idle' } });
  });

  it('is undone by a restart where no guard is in force: the server joins again by itself (fact 1.16)', () => {
    const { ground, start } = of('SS SA SA', UNGUARDED);
    const removed = play(ground, start, step('write-role', 'n2', { value: 'agent' }), remove);
    const acted = happenings(ground, removed).find(({ what }) => what === 'n2 is removed from etcd')?.next ?? removed;
    expect(members(acted)).toEqual(['n1', 'n3']);
    const exits = happenings(ground, acted).find(({ what }) => what.includes('exits'))?.next ?? acted;
    expect(members(settle(ground, exits))).toContain('n2');
  });

  it('of an unguarded bootstrap server makes a second cluster with an older k3s (fact 1.19), and not with a fixed one', () => {
    const served = (making: typeof OLD): number => {
      const { ground, start } = of('SA SS SA', making);
      return servedClusters(play(ground, start, step('remove-member', 'n1', { value: 'n1-00000000' }), 'settle'))
        .length;
    };
    expect(served(OLD)).toBe(2);
    expect(served(UNGUARDED)).toBe(1);
  });

  it('is swallowed where the Node bears an old removed-node-name (fact 1.7), which our patch clears', () => {
    const { ground, start } = of('SS SA SA');
    const stale = withNode(start, 'n2', { removedName: 'n2-00000001', removeAsked: true });
    expect(members(settle(ground, stale))).toContain('n2');
    expect(members(play(ground, stale, remove, 'settle'))).not.toContain('n2');
  });

  it('of the last voter is refused (fact 1.10)', () => {
    const { ground, start } = of('SA AS');
    const state = play(ground, start, step('remove-member', 'n1', { value: 'n1-00000000' }), 'settle');
    expect(members(state)).toEqual(['n1']);
    expect(state.nodes.get('n1')?.removeAsked).toBe(false);
  });

  it('waits without a quorum of the others (fact 7.1)', () => {
    const { ground, start } = of('SS SA SA');
    const alone = withHost(start, 'n3', { at: 'dead' });
    expect(members(play(ground, alone, remove, 'settle'))).toEqual(['n1', 'n2', 'n3']);
  });
});

describe('the guards', () => {
  it('keep a former member from making a second cluster after its datastore was set aside', () => {
    const { ground, start } = of('SA AS');
    const aside = (mounted: boolean): State => {
      const past = withHost(start, 'n1', { db: null, aside: 1, joinUrl: '', role: 'server' });
      return reboot(ground, withBox(past, 'n1', 'k3s', { mounted }), 'n1');
    };
    expect(hostOf(aside(true), 'n1').k3s.is).toBe('refusing');
    expect(aside(true).clusters).toHaveLength(1);
    expect(aside(false).clusters).toHaveLength(2);
  });

  it('let a bootstrap server with an empty disk rejoin nobody while its old member is listed (fact 2.15)', () => {
    const { ground, start } = of('SS SS SS A-');
    const state = fault(ground, start, 'n1 comes back with an empty disk');
    expect(hostOf(state, 'n1').k3s.is).toBe('crashing');
    expect(servedClusters(state)).toEqual([0]);
  });
});

describe('a node password of each container', () => {
  it('keeps a demoted host from being Ready until its secret is gone (fact 4.4)', () => {
    const { ground, start } = of('SS SA SA', OLD);
    const fenced = play(ground, start, step('write-role', 'n2', { value: 'agent' }));
    const down = play(ground, fenced, step('remove-member', 'n2'), step('stop-service', 'n2', { service: 'k3s' }));
    const up = play(ground, settle(ground, down), step('start-service', 'n2', { service: 'k3s-agent' }));
    const cleaned = play(ground, up, step('clean-node', 'n2', { value: 'server' }));
    expect(act(ground, cleaned, step('await-ready', 'n2'), 'head').kind).toBe('waiting');
    const cleared = play(ground, cleaned, step('clear-password', 'n2'));
    expect(act(ground, cleared, step('await-ready', 'n2'), 'head').kind).toBe('done');
  });
});

describe('a state', () => {
  it('is the same when hosts that are declared alike change places, and no other', () => {
    const { ground, start } = of('SS AA AA A-');
    const one = withNode(start, 'n2', { cordon: 'ours' });
    const other = withNode(start, 'n3', { cordon: 'ours' });
    expect(stateKey(ground, one)).toBe(stateKey(ground, other));
    expect(stateKey(ground, one)).not.toBe(stateKey(ground, withNode(start, 'n4', { cordon: 'ours' })));
  });

  it('loses a cluster of three when two are cut off, and has it back', () => {
    const { ground, start } = of('SS SS SS A-');
    const apart = fault(ground, fault(ground, start, 'n2 is cut off'), 'n3 is cut off');
    expect(servedClusters(apart)).toEqual([]);
    expect(servedClusters(settle(ground, apart))).toEqual([0]);
  });
});
