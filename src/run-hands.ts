import { randomUUID } from 'node:crypto';
import type { Acquired, ClusterFacts, ClusterHands, Hands } from './apply.js';
import { carryOutOnCluster, type StepOptions } from './cluster/hands.js';
import { type Kubectl, kubectlOn, kubectlOnAny } from './cluster/kubectl.js';
import { acquireLease, holderIdentity, timerTicker } from './cluster/lease.js';
import { lookAtCluster, nodeOfPod } from './cluster/look.js';
import { markStarted } from './cluster/record.js';
import type { Host } from './fleet/fleet.js';
import { type Connection, createConnector } from './hosts/connection.js';
import { carryOut } from './hosts/hands.js';
import { readPrivateKeys } from './hosts/private-key.js';
import { lookAt } from './hosts/probe.js';
import type { Logger } from './log.js';
import type { Settings } from './settings.js';

/** The most that one look at a host may take. */
const LOOK_SECONDS = 90;
/** Fact 7.5: etcd wants its voters to have been up for so long between two changes. */
const SETTLE_SECONDS = 30;

export interface RunHandsOptions {
  readonly settings: Settings;
  /** RUNNER_TEMP. */
  readonly temp: string;
  /** False for the inventory of a pull request: its private key files are not taken. */
  readonly trustsInventory: boolean;
  /** Names the run: in the annotation of our cordon, in the lock and in the record. */
  readonly run: string;
  readonly attempt: number;
  /** The commit that is applied, for the record. */
  readonly head: string;
  readonly repository: string;
  /** Names by which the pod of this runner may be known (rule 11). */
  readonly runner: readonly string[];
  readonly logger: Logger;
  readonly signal: AbortSignal;
  readonly clock: () => number;
  readonly onSecretFiles: (paths: readonly string[]) => void;
}

export interface RunHands {
  readonly hands: Hands;
  readonly cluster: ClusterHands;
  /** Waits so many milliseconds, but not on once the run is cancelled. */
  readonly sleep: (milliseconds: number) => Promise<void>;
  /** Ends every connection and removes every key file. */
  close(): Promise<void>;
}

/** The real hands of one run: one connection a host, opened when it is first needed. Throws UserError for a bad key. */
export function createRunHands(options: RunHandsOptions): RunHands {
  const { settings, signal, clock } = options;
  const connector = createConnector({
    temp: options.temp,
    privateKeys: settings.sshPrivateKey === null ? [] : readPrivateKeys(settings.sshPrivateKey),
    knownHosts: settings.sshKnownHosts,
    sshUser: settings.sshUser,
    useInventoryKeyFiles: options.trustsInventory,
    logger: options.logger,
    onSecretFiles: options.onSecretFiles,
  });
  const connections = new Map<string, Connection>();
  const connectionTo = (host: Host): Connection => {
    const key = JSON.stringify([host.name, host.connection]);
    const known = connections.get(key);
    if (known !== undefined) return known;
    const connection = connector.connect(host.name, host.connection);
    connections.set(key, connection);
    return connection;
  };
  const seconds = settings.stepTimeout;
  const sleepUnlessCancelled = (milliseconds: number): Promise<void> => sleep(milliseconds, signal);
  const kubectlOf = (host: Host): Kubectl => kubectlOn(connectionTo(host), host);
  const anyOf = (hosts: readonly Host[]): Kubectl => {
    const all = hosts.map(kubectlOf);
    return kubectlOnAny(() => all);
  };
  const steps: StepOptions = {
    drain: {
      run: options.run,
      how: settings.drain === 'evict' ? 'evict' : 'wait',
      runnerSelector: settings.runnerSelector,
      drainSeconds: settings.drainTimeout,
    },
    wait: { seconds, clock, sleep: sleepUnlessCancelled, signal },
    settleSeconds: SETTLE_SECONDS,
    repository: options.repository,
    run: options.run,
  };
  const acquire = async (through: readonly Host[]): Promise<Acquired> => {
    const acquired = await acquireLease(anyOf(through), {
      holder: holderIdentity(options.run, options.attempt, randomUUID()),
      lockTimeout: settings.lockTimeout,
      clock,
      sleep: sleepUnlessCancelled,
      ticker: timerTicker,
      signal,
    });
    if (acquired.kind === 'failed') return { kind: 'busy', message: acquired.message };
    if (acquired.kind !== 'held') return acquired;
    const { lease } = acquired;
    return {
      kind: 'held',
      lock: {
        async lost() {
          const holding = await lease.stillHeld();
          return holding.kind === 'held' ? null : `The lock of the cluster is not certain any more: ${holding.why}.`;
        },
        async release() {
          const released = await lease.release();
          if (released.kind === 'failed')
            options.logger.warning(
              `The lock of the cluster was not released: ${released.why}. It ends by itself within a minute.`,
            );
        },
      },
    };
  };
  return {
    hands: {
      lookAt: (host) => lookAt(connectionTo(host), host, { seconds: LOOK_SECONDS }),
      carryOut: (host, wanted, seen) => carryOut(connectionTo(host), host, wanted, { seconds, seen }),
    },
    cluster: {
      look: (servers) => lookAtCluster(servers.map((host) => ({ name: host.name, kubectl: kubectlOf(host) }))),
      carryOut: (through, step, host, facts) => carryOutOnCluster(through, step, host, facts, kubectlOf, steps),
      acquire,
      async markStarted(through: readonly Host[], { identity, group }: ClusterFacts) {
        if (identity === null) return 'no cluster says which one it is';
        const start = { started: options.head, repository: options.repository, group, identity };
        const written = await markStarted(anyOf(through), start);
        if (written.kind === 'written') return null;
        return written.kind === 'failed' ? written.why : 'somebody else wrote the record in between';
      },
      ownNode: (through) => (through.length === 0 ? Promise.resolve(null) : nodeOfPod(anyOf(through), options.runner)),
    },
    sleep: sleepUnlessCancelled,
    close: () => connector.close(),
  };
}

/** Waits, but not on once the run is cancelled. */
function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, milliseconds);
    signal.addEventListener('abort', end);
    if (signal.aborted) end();
  });
}
