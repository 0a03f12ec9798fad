import { type Known, known, unknown } from '../plan/observation.js';
import { at, stringAt } from './json.js';
import type { Kubectl } from './kubectl.js';
import { type Kind, readStored, type Written, writeStored } from './stored-object.js';

const LEASE: Kind = {
  resource: 'leases.coordination.k8s.io',
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
};

/** Another's lease is taken over when nothing of it was seen to change for so long. */
export const LEASE_SECONDS = 60;
export const RENEW_SECONDS = 15;
/** How often it is looked whether to renew, and so how soon a renewal that failed is tried again. */
export const TICK_SECONDS = 5;
/** A holder that could not renew for so long does nothing further: the others may take over 15 s later. */
export const LOST_SECONDS = 45;
const POLL_SECONDS = 5;
/** An API that answers nothing usable for so long, and at least this often asked, is none to take the lock from. */
const SILENT_SECONDS = 30;
const SILENT_READS = 3;
const RELEASE_ATTEMPTS = 3;

/** Calls `tick` every so many milliseconds, never two at once, until the function that it gives is called. */
export type Ticker = (milliseconds: number, tick: () => Promise<void>) => () => void;

export interface LeaseOptions {
  /** By `holderIdentity`: no two attempts to take the lock may have the same. */
  readonly holder: string;
  /** The longest wait for another holder, in seconds. */
  readonly lockTimeout: number;
  /** Milliseconds since 1970. Only differences count: other machines' clocks do not matter. */
  readonly clock: () => number;
  /** Used while it waits for the lock; it may end early once `signal` is aborted. */
  readonly sleep: (milliseconds: number) => Promise<void>;
  /** Renews what is held. It has to go on after `signal` is aborted, until the release. */
  readonly ticker: Ticker;
  /** Once aborted, waiting for the lock ends. */
  readonly signal: AbortSignal;
}

/** What came of the attempt to take the lock; `message` is a sentence for people, with the way out. */
export type Acquired =
  | { readonly kind: 'held'; readonly lease: HeldLease }
  /** The wait ran out; the message names the run that holds the lock. */
  | { readonly kind: 'failed'; readonly message: string }
  /** No API answers to take it from, or it cannot be written there. */
  | { readonly kind: 'no-lock'; readonly message: string }
  | { readonly kind: 'cancelled' };

export type Holding =
  | { readonly kind: 'held' }
  /** It is not ours, or was not renewed in time: for good. */
  | { readonly kind: 'lost'; readonly why: string }
  /** Nobody can tell now: no step may begin, but the question may be asked again. */
  | { readonly kind: 'unknown'; readonly why: string };

export type Released =
  | { readonly kind: 'released' }
  /** There was nothing of ours to release. */
  | { readonly kind: 'not-ours' }
  | { readonly kind: 'failed'; readonly why: string };

/** The lock of one cluster, held and renewed until it is released or lost. */
export interface HeldLease {
  readonly holder: string;
  /** Aborted when the lock is known to be lost: what waits for long ends then. Never aborted by a release. */
  readonly lost: AbortSignal;
  /** Reads the Lease again. To be asked before every step; only `held` lets it begin. */
  stillHeld(): Promise<Holding>;
  /** Ends the renewal and clears the holder where that is still us. May be called more than once. */
  release(): Promise<Released>;
}

/** What is written as the holder: the run's URL (or name), its attempt, and a random part that the caller draws. */
export function holderIdentity(run: string, attempt: number, random: string): string {
  return `${run} attempt ${attempt} ${random}`;
}

/** Milliseconds since 1970 in the form that Kubernetes takes for a time with microseconds. */
export function microTime(milliseconds: number): string {
  return new Date(milliseconds).toISOString().replace(/Z$/, '000Z');
}

/** The ticker of a real run: by timers that keep no process alive. */
export const timerTicker: Ticker = (milliseconds, tick) => {
  let stopped = false;
  let timer: ReturnType<typeof setTimeout>;
  const next = (): void => {
    timer = setTimeout(async () => {
      await tick();
      if (!stopped) next();
    }, milliseconds);
    timer.unref();
  };
  next();
  return () => {
    stopped = true;
    clearTimeout(timer);
  };
};

/**
 * Takes the Lease `kube-system/fleet-role`: at once where nobody holds it, else as soon as it is released or has not
 * been seen to change for 60 s. What is taken was read back. Never throws for what an API does; whatever happens, an
 * attempt that may have left our name there tries to take it off again.
 */
export async function acquireLease(kubectl: Kubectl, options: LeaseOptions): Promise<Acquired> {
  const { holder, clock } = options;
  const began = clock();
  const waited = (): number => (clock() - began) / 1000;
  const watch = new Watch();
  const silence = { since: began, asked: 0 };
  let written = false;
  const giveUp = async (result: Acquired): Promise<Acquired> => {
    if (written) await releaseLease(kubectl, holder);
    return result;
  };
  for (;;) {
    if (options.signal.aborted) return giveUp({ kind: 'cancelled' });
    const asked = clock();
    const read = await readLease(kubectl);
    let why = read.kind === 'unknown' ? read.why : null;
    let other: string | null = null;
    if (read.kind === 'known') {
      const there = read.value;
      const expired = there !== null && watch.see(there, asked, clock());
      other = there === null || there.holder === holder ? null : there.holder;
      if (options.signal.aborted) return giveUp({ kind: 'cancelled' });
      if (other === null || expired) {
        written = true;
        const taken = await take(kubectl, there, options);
        if (taken.kind === 'taken') return { kind: 'held', lease: hold(kubectl, taken, options) };
        if (taken.kind === 'failed') why = taken.why;
      }
    }
    if (why === null) {
      silence.asked = 0;
      // Held by somebody, or taken by somebody in between: the next look says by whom.
      if (other !== null && waited() >= options.lockTimeout) {
        return giveUp({ kind: 'failed', message: waitRanOut(other, options.lockTimeout) });
      }
    } else {
      if (silence.asked === 0) silence.since = asked;
      silence.asked++;
      const silent = clock() - silence.since >= SILENT_SECONDS * 1000 && silence.asked >= SILENT_READS;
      if (silent || waited() >= options.lockTimeout) return giveUp({ kind: 'no-lock', message: noLock(why) });
    }
    const left = options.lockTimeout - waited();
    await options.sleep(1000 * Math.max(0.1, Math.min(POLL_SECONDS, left)));
  }
}

/**
 * Clears the holder of the Lease where it is `holder`; for a process that only knows the name under which another one
 * of the same run took it. Whose script still runs somewhere is not asked: the lock on the host itself holds that one.
 */
export async function releaseLease(kubectl: Kubectl, holder: string): Promise<Released> {
  let why = 'it was written again and again in between';
  for (let attempt = 0; attempt < RELEASE_ATTEMPTS; attempt++) {
    const read = await readLease(kubectl);
    if (read.kind === 'unknown') return { kind: 'failed', why: read.why };
    if (read.value?.holder !== holder) return attempt === 0 ? { kind: 'not-ours' } : { kind: 'released' };
    const { holderIdentity: _, ...spec } = read.value.spec;
    const result = await writeStored(kubectl, LEASE, { spec }, read.value.resourceVersion, (json) => {
      return holderOf(json) === null;
    });
    if (result.kind === 'written') return { kind: 'released' };
    if (result.kind === 'failed') why = result.why;
  }
  return { kind: 'failed', why };
}

/** The Lease as the API has it. */
interface Lease {
  readonly resourceVersion: string;
  /** Null: nobody holds it. */
  readonly holder: string | null;
  readonly renewTime: string | null;
  readonly spec: Readonly<Record<string, unknown>>;
}

/** A Lease whose last write was ours. */
interface Taken {
  readonly kind: 'taken';
  readonly resourceVersion: string;
  readonly spec: Readonly<Record<string, unknown>>;
  /** Our clock before the write was sent: others see it at the earliest then. */
  readonly renewedAt: number;
}

type NotWritten = Exclude<Written, { readonly kind: 'written' }>;

async function readLease(kubectl: Kubectl): Promise<Known<Lease | null>> {
  const stored = await readStored(kubectl, LEASE);
  if (stored.kind === 'unknown' || stored.value === null) return stored as Known<null>;
  const { json, resourceVersion } = stored.value;
  const spec = at(json, 'spec') ?? {};
  const texts = [at(spec, 'holderIdentity'), at(spec, 'renewTime')];
  const right = texts.every((text) => text === undefined || text === null || typeof text === 'string');
  if (typeof spec !== 'object' || Array.isArray(spec) || !right) {
    return unknown('the Lease kube-system/fleet-role is not what Kubernetes answers');
  }
  return known({
    resourceVersion,
    holder: holderOf(json),
    renewTime: stringAt(spec, 'renewTime'),
    spec: spec as Lease['spec'],
  });
}

function holderOf(json: unknown): string | null {
  const holder = stringAt(json, 'spec', 'holderIdentity');
  return holder === '' ? null : holder;
}

/**
 * How long a Lease was seen not to change. Only what lies between two looks counts, each part no longer than two
 * polls: neither a clock that jumps nor a single late look makes another's lease look expired.
 */
class Watch {
  #key = '';
  #last = 0;
  #unchanged = 0;

  /** True when this Lease has been the same for 60 s. `asked` and `answered` are our clock around the look. */
  see(lease: Lease, asked: number, answered: number): boolean {
    const key = JSON.stringify([lease.holder, lease.renewTime, lease.resourceVersion]);
    if (key !== this.#key) {
      this.#key = key;
      this.#unchanged = 0;
      this.#last = answered;
      return false;
    }
    this.#unchanged += Math.min(2 * POLL_SECONDS * 1000, Math.max(0, asked - this.#last));
    this.#last = asked;
    return this.#unchanged >= LEASE_SECONDS * 1000;
  }
}

/** Writes our name over what was read, and reads it back. A conflict means that somebody was faster. */
async function take(kubectl: Kubectl, there: Lease | null, options: LeaseOptions): Promise<Taken | NotWritten> {
  const renewedAt = options.clock();
  const time = microTime(renewedAt);
  const before = at(there?.spec, 'leaseTransitions');
  const spec = {
    holderIdentity: options.holder,
    leaseDurationSeconds: LEASE_SECONDS,
    acquireTime: time,
    renewTime: time,
    leaseTransitions: there === null ? 0 : typeof before === 'number' ? before + 1 : 1,
  };
  const result = await writeLease(kubectl, spec, there?.resourceVersion ?? null);
  if (result.kind !== 'written') return result;
  const proof = await readLease(kubectl);
  if (proof.kind === 'unknown') return { kind: 'failed', why: proof.why };
  if (proof.value?.holder !== options.holder || proof.value.renewTime !== time) return { kind: 'conflict' };
  return { kind: 'taken', resourceVersion: proof.value.resourceVersion, spec, renewedAt };
}

function writeLease(
  kubectl: Kubectl,
  spec: { readonly holderIdentity: string; readonly renewTime: string },
  resourceVersion: string | null,
): Promise<Written> {
  return writeStored(kubectl, LEASE, { spec }, resourceVersion, (json) => {
    return holderOf(json) === spec.holderIdentity && stringAt(json, 'spec', 'renewTime') === spec.renewTime;
  });
}

function hold(kubectl: Kubectl, taken: Taken, { holder, clock, ticker }: LeaseOptions): HeldLease {
  let { resourceVersion, renewedAt } = taken;
  let lostWhy: string | null = null;
  let released = false;
  const lost = new AbortController();

  const lose = (why: string): void => {
    lostWhy ??= why;
    lost.abort();
    stop();
  };
  /** Judged again after every answer: the process, or the answer, may have slept. */
  const isLost = (): boolean => {
    const since = clock() - renewedAt;
    // A clock that was set back cannot tell how long it was; the smallest corrections are no such step.
    if (lostWhy === null && (since > LOST_SECONDS * 1000 || since < -1000)) {
      lose(`the lock could not be renewed for ${LOST_SECONDS} seconds`);
    }
    return lostWhy !== null;
  };
  const isAnothers = (lease: Lease | null): boolean => {
    if (lease?.holder === holder) return false;
    lose(
      lease?.holder == null ? 'the lock was released or deleted by somebody' : `${runOf(lease.holder)} took the lock`,
    );
    return true;
  };
  const renew = async (): Promise<void> => {
    const now = clock();
    if (released || isLost() || now - renewedAt < RENEW_SECONDS * 1000) return;
    const spec = { ...taken.spec, holderIdentity: holder, renewTime: microTime(now) };
    const result = await writeLease(kubectl, spec, resourceVersion);
    if (released || isLost() || result.kind === 'failed') return;
    if (result.kind === 'written') {
      ({ resourceVersion } = result);
      renewedAt = now;
      return;
    }
    // Perhaps a write of our own that came late: it changed the version and not the holder. The next tick tries again.
    const read = await readLease(kubectl);
    if (released || read.kind === 'unknown' || isAnothers(read.value) || read.value === null) return;
    ({ resourceVersion } = read.value);
  };
  const stop = ticker(TICK_SECONDS * 1000, renew);

  return {
    holder,
    lost: lost.signal,
    async stillHeld() {
      if (released) return { kind: 'lost', why: 'the lock was released' };
      if (isLost()) return { kind: 'lost', why: lostWhy ?? '' };
      const read = await readLease(kubectl);
      if (isLost() || (read.kind === 'known' && isAnothers(read.value))) return { kind: 'lost', why: lostWhy ?? '' };
      return read.kind === 'unknown' ? read : { kind: 'held' };
    },
    release() {
      released = true;
      stop();
      return releaseLease(kubectl, holder);
    },
  };
}

/** The run in a holder that fleet-role wrote; anybody else's name as it is, without what would break the line. */
function runOf(holder: string): string {
  const parts = /^(.*) attempt (\d+) \S+$/s.exec(holder);
  const text = parts === null ? holder : `${parts[1]} (attempt ${parts[2]})`;
  return text.replace(/\p{Cc}+/gu, ' ').slice(0, 300);
}

function waitRanOut(holder: string, seconds: number): string {
  return `Another run holds the lock (Lease kube-system/fleet-role): ${runOf(holder)}. This one waited ${seconds} seconds for it (input lock-timeout); run it again when that one has ended.`;
}

function noLock(why: string): string {
  return `The lock (Lease kube-system/fleet-role) cannot be taken: ${why}. Nothing is changed without it; see to it that the API of a server answers.`;
}
