import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  type Acquired,
  acquireLease,
  holderIdentity,
  microTime,
  releaseLease,
  type Ticker,
  timerTicker,
} from '../../src/cluster/lease.js';
import { Contender, LocalCluster, World } from './world.js';

vi.setConfig({ testTimeout: 60_000 });

let cluster: LocalCluster;
let world: World;
let one: Contender;
let two: Contender;

beforeEach(async () => {
  cluster = await LocalCluster.create();
  world = new World(cluster);
  one = new Contender(world, 1);
  two = new Contender(world, 2);
});
afterEach(() => cluster.close());

const URL_OF_ONE = 'https://github.example/o/fleet/actions/runs/1';
const acquire = (contender: Contender, more = {}): Promise<Acquired> =>
  acquireLease(contender.kubectl, contender.options(more));
/** Seconds of the world that something takes. */
async function seconds(doing: Promise<unknown>): Promise<number> {
  const from = world.now;
  await world.until(doing);
  return (world.now - from) / 1000;
}
const holder = async (): Promise<string | null> => (await cluster.object('lease'))?.spec.holderIdentity ?? null;
/** The holders one after the other, null where it was free. */
async function holders(): Promise<(string | null)[]> {
  const all = (await cluster.history('lease')).map((lease) => lease?.spec.holderIdentity ?? null);
  return all.filter((name, index) => index === 0 || name !== all[index - 1]);
}
const foreign = (spec: object): object => ({ apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', spec });

describe('taking the lock', () => {
  it('makes the Lease with holder, 60 s and the time, and gives it back without a holder', async () => {
    const lease = await one.take();
    const time = '2026-05-01T00:00:00.000000Z';
    expect(await cluster.object('lease')).toMatchObject({
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { name: 'fleet-role', namespace: 'kube-system' },
      spec: {
        holderIdentity: `${URL_OF_ONE} attempt 1 r1`,
        leaseDurationSeconds: 60,
        acquireTime: time,
        renewTime: time,
      },
    });
    expect(await world.until(lease.stillHeld())).toEqual({ kind: 'held' });
    expect(await world.until(lease.release())).toEqual({ kind: 'released' });
    expect((await cluster.object('lease')).spec).not.toHaveProperty('holderIdentity');
    expect(await world.until(lease.stillHeld())).toEqual({ kind: 'lost', why: 'the lock was released' });
    expect(await world.until(lease.release())).toEqual({ kind: 'not-ours' });
  });

  it('takes no time where it is free: never taken, given back, or made by hand without a holder', async () => {
    for (const made of [null, {}, { holderIdentity: '' }]) {
      if (made !== null) await cluster.putObject('lease', foreign(made));
      for (const each of [one, two]) {
        expect(await seconds(acquire(each))).toBe(0);
        expect(await releaseLease(cluster.kubectl, each.holder)).toEqual({ kind: 'released' });
      }
    }
  });

  it('asks for nothing but get, create and replace of the one Lease, and the namespace where there is none', async () => {
    const lease = await one.take();
    await world.pass(20);
    await world.until(lease.release());
    expect([...new Set(await cluster.asked())].sort()).toEqual([
      'create -f - -o json --validate=false --request-timeout=5s',
      'get leases.coordination.k8s.io fleet-role --namespace=kube-system --ignore-not-found -o json --request-timeout=5s',
      'get namespace kube-system -o json --request-timeout=10s',
      'replace -f - -o json --validate=false --request-timeout=5s',
    ]);
  });

  it('is won by exactly one of eight that come at the same moment', async () => {
    const all = Array.from({ length: 8 }, (_, index) => new Contender(world, index + 1));
    const results = await world.until(Promise.all(all.map((each) => acquire(each, { lockTimeout: 20 }))));
    expect(results.map((result) => result.kind).sort()).toEqual([...Array(7).fill('failed'), 'held']);
    const winner = results.find((result) => result.kind === 'held');
    expect(await holders()).toEqual([winner?.kind === 'held' ? winner.lease.holder : null]);
  });

  it('goes from hand to hand: each of six gets it, and never two at once', async () => {
    const inside: string[] = [];
    let most = 0;
    const all = Array.from({ length: 6 }, (_, index) => new Contender(world, index + 1));
    const runs = all.map(async (each) => {
      const result = await acquire(each);
      if (result.kind !== 'held') throw new Error(JSON.stringify(result));
      inside.push(each.holder);
      most = Math.max(most, inside.length);
      await world.sleep(20_000);
      expect(await result.lease.stillHeld()).toEqual({ kind: 'held' });
      inside.splice(inside.indexOf(each.holder), 1);
      await result.lease.release();
    });
    await world.until(Promise.all(runs));
    expect(most).toBe(1);
    const names = (await holders()).filter((name) => name !== null);
    expect(names.toSorted()).toEqual(all.map((each) => each.holder).toSorted());
  });

  it('waits up to lock-timeout while the holder renews, then fails with the URL of its run', async () => {
    const lease = await one.take();
    const waiting = acquire(two, { lockTimeout: 300 });
    expect(await seconds(waiting)).toBe(300);
    const result = await waiting;
    expect(result).toMatchObject({ kind: 'failed' });
    expect(result).toHaveProperty('message', expect.stringContaining(`${URL_OF_ONE} (attempt 1)`));
    expect(result).toHaveProperty('message', expect.stringContaining('input lock-timeout'));
    expect(await world.until(lease.stillHeld())).toEqual({ kind: 'held' });
  });

  it('shows a holder that fleet-role did not write on one line', async () => {
    await cluster.putObject('lease', foreign({ holderIdentity: 'some\n::error::body\u001b[31m' }));
    const result = await world.until(acquire(two, { lockTimeout: 10 }));
    expect(result).toHaveProperty('message', expect.stringContaining('some ::error::body [31m.'));
  });

  it('ends its wait when the run is cancelled, and leaves nothing', async () => {
    await one.take();
    const waiting = acquire(two);
    await world.pass(12);
    two.abort.abort();
    expect(await world.until(waiting)).toEqual({ kind: 'cancelled' });
    expect(await holders()).toEqual([one.holder]);
  });

  it('is not begun by a run that is cancelled already', async () => {
    two.abort.abort();
    expect(await world.until(acquire(two))).toEqual({ kind: 'cancelled' });
    expect(await cluster.asked()).toEqual([]);
  });
});

describe('a holder that was killed', () => {
  it('is followed after 60 s without a change, not before', async () => {
    await one.take();
    one.stopped = true;
    const took = await seconds(acquire(two));
    expect(took).toBeGreaterThanOrEqual(60);
    expect(took).toBeLessThanOrEqual(70);
    expect((await cluster.object('lease')).spec).toMatchObject({ holderIdentity: two.holder, leaseTransitions: 1 });
  });

  it.each([
    ['a day behind', -86_400_000],
    ['a day ahead', 86_400_000],
  ])('is followed just so when its clock was %s', async (_what, off) => {
    one.off = off;
    await one.take();
    one.stopped = true;
    const took = await seconds(acquire(two));
    expect(took).toBeGreaterThanOrEqual(60);
    expect(took).toBeLessThanOrEqual(70);
  });

  it.each([
    ['a day behind', -86_400_000],
    ['a day ahead', 86_400_000],
  ])('is not followed while it lives, though its clock is %s', async (_what, off) => {
    one.off = off;
    const lease = await one.take();
    expect(await world.until(acquire(two, { lockTimeout: 200 }))).toMatchObject({ kind: 'failed' });
    expect(await world.until(lease.stillHeld())).toEqual({ kind: 'held' });
  });

  it('is followed by one only of those that waited', async () => {
    await one.take();
    one.stopped = true;
    const waiting = [2, 3, 4].map((run) => acquire(new Contender(world, run), { lockTimeout: 100 }));
    const results = await world.until(Promise.all(waiting));
    expect(results.map((result) => result.kind).sort()).toEqual(['failed', 'failed', 'held']);
  });

  it('between its write and the proof of it leaves a lock that expires', async () => {
    one.interfere = async (args, go) => {
      const answer = await go();
      return args[0] === 'create' ? new Promise(() => {}) : answer;
    };
    void acquire(one);
    await world.pass(1);
    expect(await holder()).toBe(one.holder);
    expect(await seconds(acquire(two))).toBeGreaterThanOrEqual(60);
    expect(await holder()).toBe(two.holder);
  });
});

describe('a clock that jumps', () => {
  it('ahead does not make a living holder look expired', async () => {
    const lease = await one.take();
    const waiting = acquire(two, { lockTimeout: 100_000 });
    await world.pass(7);
    two.off = 3_600_000;
    await world.pass(8);
    expect(await holder()).toBe(one.holder);
    await world.until(lease.release());
    expect(await world.until(waiting)).toMatchObject({ kind: 'held' });
  });

  it.each([
    ['ahead', 46_000],
    ['back', -46_000],
  ])('%s makes its own holder give up, since it cannot know how long it was', async (_what, off) => {
    const lease = await one.take();
    one.off = off;
    expect(await world.until(lease.stillHeld())).toMatchObject({ kind: 'lost' });
  });

  it('by the corrections of every day does not', async () => {
    const lease = await one.take();
    one.off = -50;
    expect(await world.until(lease.stillHeld())).toEqual({ kind: 'held' });
  });
});

describe('holding the lock', () => {
  it('renews it every 15 s, one version each', async () => {
    const lease = await one.take();
    await world.pass(152);
    const times = (await cluster.history('lease')).map((each) => Date.parse(each.spec.renewTime));
    expect(times.slice(1).map((time, index) => (time - (times[index] ?? 0)) / 1000)).toEqual(Array(10).fill(15));
    expect(await world.until(lease.stillHeld())).toEqual({ kind: 'held' });
  });

  it('is over for good after 45 s without a renewal, though the API answers again', async () => {
    const lease = await one.take();
    await world.pass(15);
    await cluster.answers(false);
    await world.pass(44);
    expect(await world.until(lease.stillHeld())).toMatchObject({ kind: 'unknown' });
    expect(lease.lost.aborted).toBe(false);
    await world.pass(2);
    await cluster.answers(true);
    const versions = (await cluster.history('lease')).length;
    expect(await holder()).toBe(one.holder);
    expect(await world.until(lease.stillHeld())).toMatchObject({ kind: 'lost' });
    expect(lease.lost.aborted).toBe(true);
    await world.pass(60);
    expect(await world.until(lease.stillHeld())).toMatchObject({ kind: 'lost' });
    expect(await cluster.history('lease')).toHaveLength(versions);
  });

  it('goes on when the API is back within 45 s', async () => {
    const lease = await one.take();
    await world.pass(15);
    await cluster.answers(false);
    await world.pass(40);
    await cluster.answers(true);
    await world.pass(100);
    expect(await world.until(lease.stillHeld())).toEqual({ kind: 'held' });
  });

  it('is over for one that slept past its lease, before and after another took it', async () => {
    const lease = await one.take();
    one.stopped = true;
    const other = await two.take();
    expect(await world.until(lease.stillHeld())).toMatchObject({ kind: 'lost' });
    one.stopped = false;
    await world.pass(100);
    expect(await world.until(lease.release())).toEqual({ kind: 'not-ours' });
    expect(await world.until(other.stillHeld())).toEqual({ kind: 'held' });
    expect(await holders()).toEqual([one.holder, two.holder]);
  });

  it('is over for one whose question was answered only after it slept', async () => {
    const lease = await one.take();
    one.stopped = true;
    one.interfere = async (_args, go) => {
      const answer = await go();
      await world.sleep(50_000);
      return answer;
    };
    expect(await world.until(lease.stillHeld())).toMatchObject({ kind: 'lost' });
  });

  it('is over for one whose renewal was answered only after 45 s', async () => {
    const lease = await one.take();
    one.interfere = async (args, go) => {
      const answer = await go();
      if (args[0] === 'replace') await world.sleep(50_000);
      return answer;
    };
    await world.pass(70);
    expect(lease.lost.aborted).toBe(true);
  });

  it('is over for one whose last renewal was sent before 45 s and answered after them', async () => {
    const lease = await one.take();
    await cluster.answers(false);
    await world.pass(38);
    await cluster.answers(true);
    one.interfere = async (args, go) => {
      const answer = await go();
      if (args[0] === 'replace') await world.sleep(8000);
      return answer;
    };
    await world.pass(11);
    expect(lease.lost.aborted).toBe(true);
  });

  it.each([
    ['taken by somebody', { holderIdentity: 'kubectl of an operator' }, 'kubectl of an operator took the lock'],
    ['released by somebody', {}, 'the lock was released or deleted by somebody'],
    ['deleted by somebody', null, 'the lock was released or deleted by somebody'],
  ])('is over when the Lease was %s, at the next step and at the next renewal', async (_what, spec, why) => {
    const first = await one.take();
    await cluster.putObject('lease', spec === null ? null : foreign(spec));
    expect(await world.until(first.stillHeld())).toEqual({ kind: 'lost', why });
    await cluster.putObject('lease', null);
    const second = await two.take();
    await cluster.putObject('lease', spec === null ? null : foreign(spec));
    await world.pass(16);
    expect(second.lost.aborted).toBe(true);
    expect(await world.until(second.release())).toEqual({ kind: 'not-ours' });
  });

  it('outlives a write to its Lease that kept the holder', async () => {
    const lease = await one.take();
    const { spec } = await cluster.object('lease');
    await cluster.putObject('lease', foreign(spec));
    await world.pass(100);
    expect(await world.until(lease.stillHeld())).toEqual({ kind: 'held' });
  });
});

describe('a conflict', () => {
  it('between the write and the proof of it leaves the lock to whom the proof names', async () => {
    two.interfere = async (args, go) => {
      const answer = await go();
      if (args[0] === 'create') await cluster.putObject('lease', foreign({ holderIdentity: 'somebody else' }));
      return answer;
    };
    expect(await world.until(acquire(two, { lockTimeout: 10 }))).toMatchObject({ kind: 'failed' });
    expect(await holder()).toBe('somebody else');
  });

  it('between the look at a free Lease and the write is lost to whoever was faster', async () => {
    two.interfere = async (args, go) => {
      if (args[0] === 'create') {
        two.interfere = (_args, next) => next();
        const lease = await acquire(one);
        expect(lease.kind).toBe('held');
      }
      return go();
    };
    expect(await world.until(acquire(two, { lockTimeout: 10 }))).toMatchObject({ kind: 'failed' });
    expect(await holders()).toEqual([one.holder]);
  });

  it('between the last look at an expired Lease and its takeover is lost to a holder that woke up', async () => {
    await one.take();
    one.stopped = true;
    const { spec } = await cluster.object('lease');
    two.interfere = async (args, go) => {
      if (args[0] === 'replace') {
        await cluster.putObject('lease', foreign({ ...spec, renewTime: microTime(world.now) }));
        two.interfere = (_args, next) => next();
      }
      return go();
    };
    expect(await world.until(acquire(two, { lockTimeout: 90 }))).toMatchObject({ kind: 'failed' });
    expect(await holders()).toEqual([one.holder]);
  });

  it('between the look and the write of a release is tried again', async () => {
    const lease = await one.take();
    const { spec } = await cluster.object('lease');
    one.interfere = async (args, go) => {
      if (args[0] === 'replace') {
        one.interfere = (_args, next) => next();
        await cluster.putObject('lease', foreign(spec));
      }
      return go();
    };
    expect(await world.until(lease.release())).toEqual({ kind: 'released' });
    expect(await holder()).toBeNull();
  });
});

describe('an API with faults', () => {
  it.each(['down', 'error', 'nonsense', 'plain-404'] as const)(
    'that is %s is no-lock within a minute',
    async (fault) => {
      await cluster.fault('all', fault);
      const waiting = acquire(one);
      expect(await seconds(waiting)).toBeLessThanOrEqual(60);
      expect(await waiting).toMatchObject({ kind: 'no-lock' });
      expect(await waiting).toHaveProperty('message', expect.stringMatching(/cannot be taken: .+ a server answers\.$/));
      await cluster.fault('all', null);
      expect(await cluster.history('lease')).toEqual([]);
    },
  );

  it('that hangs is no-lock, too, and never later than lock-timeout and one call', async () => {
    cluster.hangs = true;
    await cluster.fault('all', 'hang');
    expect(await world.until(acquire(one))).toMatchObject({ kind: 'no-lock' });
    expect(await cluster.asked()).toHaveLength(3);
    const waiting = acquire(one, { lockTimeout: 1 });
    expect(await seconds(waiting)).toBe(15);
    expect(await waiting).toMatchObject({ kind: 'no-lock' });
  });

  it('that answers again within the patience is no fault', async () => {
    await cluster.fault('all', 'down');
    const waiting = acquire(one);
    await world.pass(12);
    await cluster.fault('all', null);
    expect(await world.until(waiting)).toMatchObject({ kind: 'held' });
  });

  it('that is away again and again, each time for less than the patience, is no fault', async () => {
    const lease = await one.take();
    let looks = 0;
    two.interfere = async (_args, go) => (++looks % 4 === 0 ? go() : { kind: 'failed', why: 'away' });
    const waiting = acquire(two);
    await world.pass(120);
    two.interfere = (_args, go) => go();
    await world.until(lease.release());
    expect(await world.until(waiting)).toMatchObject({ kind: 'held' });
  });

  it('that can be read and not written is no-lock', async () => {
    await cluster.fault('create', 'error');
    expect(await world.until(acquire(one))).toMatchObject({ kind: 'no-lock' });
  });

  it('that stops in the middle of the wait is no-lock, and does not shorten the 60 s where it comes back', async () => {
    await one.take();
    one.stopped = true;
    const waiting = acquire(two);
    await world.pass(32);
    await cluster.answers(false);
    await world.pass(25);
    await cluster.answers(true);
    await world.pass(15);
    expect(await holder()).toBe(one.holder);
    await cluster.answers(false);
    expect(await world.until(waiting)).toMatchObject({ kind: 'no-lock' });
    await cluster.answers(true);
    expect(await holders()).toEqual([one.holder]);
  });

  it.each(['create', 'replace'] as const)('that does a %s and reports a failure has given the lock', async (verb) => {
    if (verb === 'replace') await cluster.putObject('lease', foreign({}));
    await cluster.fault(verb, 'applied');
    const lease = await one.take();
    await cluster.fault('replace', 'applied');
    await world.pass(100);
    expect(await world.until(lease.stillHeld())).toEqual({ kind: 'held' });
    expect(await world.until(lease.release())).toEqual({ kind: 'released' });
  });

  it('that does a write after it was given up is met as the lock of the same run', async () => {
    one.interfere = async (args, go) => {
      if (args[0] !== 'create') return go();
      one.interfere = (_args, next) => next();
      void world.sleep(2000).then(go);
      return { kind: 'failed', why: 'no answer' };
    };
    expect(await seconds(one.take())).toBeLessThanOrEqual(10);
    expect(await holders()).toEqual([one.holder]);
  });

  it('that writes and then shows nothing leaves no lock behind when the run gives up', async () => {
    let calls = 0;
    one.interfere = async (args, go) => {
      const answer = await go();
      calls += args[0] === 'create' ? 1 : 0;
      return calls === 1 && world.now < Date.UTC(2026, 4, 1) + 4000 ? { kind: 'failed', why: 'no answer' } : answer;
    };
    const waiting = acquire(one);
    await world.pass(1);
    expect(await holder()).toBe(one.holder);
    one.abort.abort();
    expect(await world.until(waiting)).toEqual({ kind: 'cancelled' });
    expect(await holder()).toBeNull();
  });

  it('that does not answer a release says so, and the lock expires by itself', async () => {
    const lease = await one.take();
    await cluster.answers(false);
    expect(await world.until(lease.release())).toMatchObject({ kind: 'failed' });
    await cluster.answers(true);
    expect(await seconds(acquire(two))).toBeGreaterThanOrEqual(60);
  });

  it.each([
    ['a holder that is no text', { holderIdentity: 7 }],
    ['a time that is no text', { holderIdentity: 'x', renewTime: {} }],
    ['a spec that is a list', []],
  ])('whose Lease has %s is never taken over', async (_what, spec) => {
    await cluster.putObject('lease', foreign(spec));
    expect(await world.until(acquire(one))).toMatchObject({ kind: 'no-lock' });
    expect(await cluster.history('lease')).toHaveLength(1);
  });
});

describe('releasing', () => {
  it('by name alone, as the post step does, clears only what has that name', async () => {
    await one.take();
    one.stopped = true;
    expect(await releaseLease(cluster.kubectl, two.holder)).toEqual({ kind: 'not-ours' });
    expect(await releaseLease(cluster.kubectl, one.holder)).toEqual({ kind: 'released' });
    expect(await holder()).toBeNull();
    expect(await seconds(acquire(two))).toBe(0);
  });

  it('ends the ticker, as the loss of the lock does', async () => {
    let stops = 0;
    const ticker: Ticker = () => () => {
      stops++;
    };
    const lease = await one.take({ ticker });
    await world.until(lease.release());
    expect(stops).toBe(1);
    const other = await one.take({ ticker });
    await cluster.putObject('lease', null);
    expect(await world.until(other.stillHeld())).toMatchObject({ kind: 'lost' });
    expect(stops).toBe(2);
  });

  it('ends the renewal: nothing is written afterwards', async () => {
    const lease = await one.take();
    await world.until(lease.release());
    const versions = (await cluster.history('lease')).length;
    await world.pass(100);
    expect(await cluster.history('lease')).toHaveLength(versions);
    expect(lease.lost.aborted).toBe(false);
  });

  it('at the same moment as a renewal ends with no holder', async () => {
    const lease = await one.take();
    let released: Promise<unknown> | undefined;
    one.interfere = async (args, go) => {
      if (args[0] !== 'replace' || released !== undefined) return go();
      released = lease.release();
      return go();
    };
    await world.pass(16);
    expect(await world.until(released ?? Promise.reject(new Error('no renewal')))).toEqual({ kind: 'released' });
    await world.pass(100);
    expect(await holder()).toBeNull();
  });
});

describe('the words of a Lease', () => {
  it('name the run, its attempt and the random part', () => {
    expect(holderIdentity('https://github.example/o/r/actions/runs/7', 2, 'ab')).toBe(
      'https://github.example/o/r/actions/runs/7 attempt 2 ab',
    );
  });

  it('have times with microseconds', () => {
    expect(microTime(Date.UTC(2026, 0, 2, 3, 4, 5, 6))).toBe('2026-01-02T03:04:05.006000Z');
  });
});

describe('the ticker of a real run', () => {
  it('ticks again and again, never two at once, until it is stopped', async () => {
    let inside = 0;
    let most = 0;
    let ticks = 0;
    const stop = await new Promise<ReturnType<Ticker>>((resolve) => {
      const ends = timerTicker(1, async () => {
        most = Math.max(most, ++inside);
        await new Promise((next) => setTimeout(next, 5));
        inside--;
        if (++ticks === 5) resolve(ends);
      });
    });
    stop();
    const before = ticks;
    await new Promise((next) => setTimeout(next, 30));
    expect([most, ticks]).toEqual([1, before]);
  });
});
