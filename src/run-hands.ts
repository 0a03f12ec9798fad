import type { ClusterHands, Hands } from './apply.js';
import { kubectlOn } from './cluster/kubectl.js';
import { deleteNode, drainNode, readNodes } from './cluster/nodes.js';
import type { Host } from './fleet/fleet.js';
import { type Connection, createConnector } from './hosts/connection.js';
import { carryOut } from './hosts/hands.js';
import { readPrivateKeys } from './hosts/private-key.js';
import { lookAt } from './hosts/probe.js';
import type { Logger } from './log.js';
import type { Settings } from './settings.js';

/** The most that one look at a host may take. */
const LOOK_SECONDS = 90;

export interface RunHandsOptions {
  readonly settings: Settings;
  /** RUNNER_TEMP. */
  readonly temp: string;
  /** False for the inventory of a pull request: its private key files are not taken. */
  readonly trustsInventory: boolean;
  /** Names the run in the annotation of our cordon. */
  readonly run: string;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  readonly clock: () => number;
  readonly onSecretFiles: (paths: readonly string[]) => void;
}

export interface RunHands {
  readonly hands: Hands;
  readonly cluster: ClusterHands;
  /** Ends every connection and removes every key file. */
  close(): Promise<void>;
}

/** The real hands of one run: one connection a host, opened when it is first needed. Throws UserError for a bad key. */
export function createRunHands(options: RunHandsOptions): RunHands {
  const { settings } = options;
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
  return {
    hands: {
      lookAt: (host) => lookAt(connectionTo(host), host, { seconds: LOOK_SECONDS }),
      carryOut: (host, steps) => carryOut(connectionTo(host), host, steps, { seconds }),
    },
    cluster: {
      nodes: (through) => readNodes(kubectlOn(connectionTo(through), through)),
      async carryOut(through, step, host) {
        const kubectl = kubectlOn(connectionTo(through), through);
        const { nodeName } = host;
        if (nodeName === null) throw new Error(`${step.action} of ${host.name}, whose node name is not known`);
        if (step.action === 'delete-node') return deleteNode(kubectl, nodeName);
        if (step.action !== 'drain') throw new Error(`${step.action} does not go through the API`);
        return drainNode(kubectl, nodeName, {
          run: options.run,
          how: settings.drain === 'evict' ? 'evict' : 'wait',
          runnerSelector: settings.runnerSelector,
          drainSeconds: settings.drainTimeout,
          stepSeconds: seconds,
          signal: options.signal,
          clock: options.clock,
          sleep: (milliseconds) => sleep(milliseconds, options.signal),
        });
      },
    },
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
