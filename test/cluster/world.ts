import { spawn } from 'node:child_process';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Answer, Kubectl } from '../../src/cluster/kubectl.js';
import { acquireLease, type HeldLease, holderIdentity, type LeaseOptions } from '../../src/cluster/lease.js';
import { CLUSTER_KUBECTL, ClusterState } from '../helpers/kubectl.js';
import { temporaryFolder } from '../helpers/temporary.js';

/** Milliseconds of real time after which a call that hangs is taken for one, while a test makes calls hang. */
const HANGS_AFTER = 1000;

/** The stand-in cluster in a directory of this machine; its kubectl is run by `sh`, without Docker. */
export class LocalCluster extends ClusterState {
  readonly #folder: string;
  readonly #running = new Set<ReturnType<typeof spawn>>();
  /** A test that makes calls hang says so, since everything else may take as long as the machine likes. */
  hangs = false;

  private constructor(folder: string) {
    super(join(folder, 'state'));
    this.#folder = folder;
  }

  static async create(): Promise<LocalCluster> {
    const cluster = new LocalCluster(await temporaryFolder('cluster'));
    await mkdir(cluster.directory);
    await cluster.make(['node1', 'node2', 'node3']);
    return cluster;
  }

  async close(): Promise<void> {
    for (const child of this.#running) child.kill('SIGKILL');
    await rm(this.#folder, { recursive: true, force: true });
  }

  /** Runs the stand-in once, as a process of its own. Null: it hangs. */
  call(args: readonly string[], input = ''): Promise<Answer | null> {
    return new Promise((resolve) => {
      const env = { ...process.env, STAND_IN_STATE: this.directory };
      const child = spawn('sh', [CLUSTER_KUBECTL, ...args], { env });
      this.#running.add(child);
      const timer = this.hangs ? setTimeout(() => resolve(null), HANGS_AFTER) : undefined;
      let out = '';
      let err = '';
      child.stdout.on('data', (chunk) => {
        out += chunk;
      });
      child.stderr.on('data', (chunk) => {
        err += chunk;
      });
      child.stdin.on('error', () => {});
      child.on('close', (code) => {
        clearTimeout(timer);
        this.#running.delete(child);
        resolve(code === 0 ? { kind: 'answered', text: out } : { kind: 'failed', why: err.trim() });
      });
      child.stdin.end(input);
    });
  }

  readonly kubectl: Kubectl = kubectlBy(
    async (args, seconds, input) => (await this.call(args, input)) ?? noAnswer(seconds),
  );
}

/** A kubectl whose every answer comes from `run`. */
export function kubectlBy(run: Kubectl['run']): Kubectl {
  return {
    run,
    runAll: (questions, seconds) => Promise.all(questions.map((args) => run(args, seconds))),
    k3s: (args, seconds) => run(['k3s', ...args], seconds),
  };
}

function noAnswer(seconds: number): Answer {
  return { kind: 'failed', why: `kubectl gave no answer within ${seconds} seconds` };
}

interface Timer {
  readonly at: number;
  readonly fire: () => void;
}

/**
 * Time that passes only while nobody works: the next timer goes off once every call of kubectl has been answered. So
 * minutes of waiting take as long as the calls, and what happens does not depend on how fast this machine is.
 */
export class World {
  now = Date.UTC(2026, 4, 1);
  readonly cluster: LocalCluster;
  #timers: Timer[] = [];
  #working = 0;

  constructor(cluster: LocalCluster) {
    this.cluster = cluster;
  }

  sleep(milliseconds: number): Promise<void> {
    return new Promise((resolve) => this.#timers.push({ at: this.now + milliseconds, fire: resolve }));
  }

  /** Counts as work until it is done: no time passes meanwhile. */
  async work<T>(doing: Promise<T>): Promise<T> {
    this.#working++;
    try {
      return await doing;
    } finally {
      this.#working--;
    }
  }

  /** Lets time pass until `promise` is settled, and gives what it came to. */
  async until<T>(promise: Promise<T>): Promise<T> {
    let settled = false;
    const done = promise.finally(() => {
      settled = true;
    });
    done.catch(() => {});
    for (let idle = 0; !settled; ) {
      idle = (await this.#step(Number.POSITIVE_INFINITY, () => settled)) ? 0 : idle + 1;
      // Somebody may be at a file, which is no work that is counted, and on a machine that has much else to do.
      if (idle > 0) await new Promise((resolve) => setTimeout(resolve, 10));
      if (idle > 3000) throw new Error('it waits for something that never happens');
    }
    return done;
  }

  /** Lets so many seconds pass, with everything that happens in them. */
  async pass(seconds: number): Promise<void> {
    const end = this.now + seconds * 1000;
    while (await this.#step(end));
    this.now = end;
  }

  async #step(end: number, enough: () => boolean = () => false): Promise<boolean> {
    // Whoever was just woken gets to its next call of kubectl or to its next sleep.
    for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
    if (enough()) return true;
    if (this.#working > 0) {
      await new Promise((resolve) => setTimeout(resolve, 1));
      return true;
    }
    const next = this.#timers.reduce<Timer | null>(
      (first, timer) => (first && first.at <= timer.at ? first : timer),
      null,
    );
    if (next === null || next.at > end) return false;
    this.#timers = this.#timers.filter((timer) => timer !== next);
    this.now = Math.max(this.now, next.at);
    next.fire();
    return true;
  }
}

/** What a test may do between a contender and the cluster. */
export type Interfere = (args: readonly string[], go: () => Promise<Answer>) => Promise<Answer>;

/** One run that wants the lock of the cluster. */
export class Contender {
  readonly holder: string;
  readonly kubectl: Kubectl;
  readonly abort = new AbortController();
  /** Milliseconds that its clock is off. */
  off = 0;
  /** Killed or asleep: its timers do nothing. */
  stopped = false;
  interfere: Interfere = (_args, go) => go();
  readonly #world: World;

  constructor(world: World, run: number) {
    this.#world = world;
    this.holder = holderIdentity(`https://github.example/o/fleet/actions/runs/${run}`, 1, `r${run}`);
    this.kubectl = kubectlBy((args, seconds, input) =>
      this.interfere(args, async () => {
        const answer = await world.work(world.cluster.call(args, input));
        if (answer !== null) return answer;
        await world.sleep(seconds * 1000);
        return noAnswer(seconds);
      }),
    );
  }

  clock = (): number => this.#world.now + this.off;

  options(more: Partial<LeaseOptions> = {}): LeaseOptions {
    return {
      holder: this.holder,
      lockTimeout: 1800,
      clock: this.clock,
      sleep: (milliseconds) => this.#world.sleep(milliseconds),
      ticker: (milliseconds, tick) => {
        let running = true;
        void (async () => {
          while (running) {
            await this.#world.sleep(milliseconds);
            if (running && !this.stopped) await tick();
          }
        })();
        return () => {
          running = false;
        };
      },
      signal: this.abort.signal,
      ...more,
    };
  }

  /** Takes the lock; throws where it does not get it. */
  async take(more: Partial<LeaseOptions> = {}): Promise<HeldLease> {
    const result = await this.#world.until(acquireLease(this.kubectl, this.options(more)));
    if (result.kind !== 'held') throw new Error(JSON.stringify(result));
    return result.lease;
  }
}
