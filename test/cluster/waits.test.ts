import { describe, expect, it } from 'vitest';
import { MEMBERS_QUESTION } from '../../src/cluster/identity.js';
import type { Kubectl } from '../../src/cluster/kubectl.js';
import { lookEvicted, lookRemoved, settled, waitFor } from '../../src/cluster/waits.js';
import { kubectlBy } from './world.js';

type Listed = { name?: string; peerURLs: string[] };
const N1: Listed = { name: 'n1-0a1b2c3d', peerURLs: ['https://10.0.0.1:2380'] };
const N2: Listed = { name: 'n2-0a1b2c3d', peerURLs: ['https://10.0.0.2:2380'] };
const UNSTARTED: Listed = { peerURLs: ['https://10.0.0.3:2380'] };

/** A server that lists these members (null: it does not answer) and says whether n1's removal is still asked for. */
function server(members: readonly Listed[] | null, asked = true): Kubectl {
  const node = ['n1', '', '', 'True', ...Array(7).fill(''), '', '', '', ''];
  node[8] = asked ? 'true' : '';
  return kubectlBy(async (args) => {
    if (members === null) return { kind: 'failed', why: 'down' };
    const list = { members: members.map((member, index) => ({ ID: index + 1, ...member })) };
    const text = args.join() === MEMBERS_QUESTION.join() ? JSON.stringify(list) : `List\n${node.join('\t')}\nend\n`;
    return { kind: 'answered', text };
  });
}

describe('a removal', () => {
  it.each([
    ['no list names the member', [server([N2]), server(null)], 'so'],
    ['one of two lists still names it', [server([N2]), server([N1, N2])], 'not-yet'],
    ['nobody answers', [server(null)], 'not-yet'],
    ['there is nobody to ask', [], 'not-yet'],
    ['k3s took the request back and the member is there', [server([N1, N2], false)], 'never'],
  ] as const)('where %s', async (_, servers, kind) => {
    expect((await lookRemoved(servers, 'n1', 'n1-0a1b2c3d')).kind).toBe(kind);
  });
});

it('an unstarted member is evicted once nobody lists one at its address', async () => {
  expect((await lookEvicted([server([N1, UNSTARTED])], ['10.0.0.3'])).kind).toBe('not-yet');
  expect((await lookEvicted([server([N1, UNSTARTED])], ['10.0.0.4'])).kind).toBe('so');
  expect((await lookEvicted([server(null)], ['10.0.0.3'])).kind).toBe('not-yet');
});

describe('a wait', () => {
  const time = (seconds: number, signal = new AbortController().signal) => {
    const at = { now: 0 };
    const sleep = async (milliseconds: number): Promise<void> => {
      at.now += milliseconds;
    };
    return { at, options: { seconds, clock: () => at.now, sleep, signal } };
  };
  const never = async () => ({ kind: 'not-yet', why: 'not yet' }) as const;

  it('ends after its time, and at once when the run is cancelled', async () => {
    const { at, options } = time(7);
    expect(await waitFor(never, options)).toBe('not yet (waited 7 seconds, input step-timeout)');
    expect(at.now).toBe(7000);
    expect(await waitFor(never, time(7, AbortSignal.abort()).options)).toContain('cancelled');
  });

  it('for voters starts again with each that was not healthy', async () => {
    const { at, options } = time(300);
    const voter = kubectlBy(async () =>
      at.now >= 20_000 && at.now < 24_000 ? { kind: 'failed', why: 'sick' } : { kind: 'answered', text: 'ok' },
    );
    expect(await settled([voter], 30, options)).toBeNull();
    expect(at.now).toBe(54_000);
    expect(await settled([], 30, time(40).options)).toContain('no voter is known');
  });
});
