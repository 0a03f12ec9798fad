import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { parseMembers } from '../../src/cluster/identity.js';
import type { Member, NodeObservation, Observation } from '../../src/plan/observation.js';
import { type CommandResult, tryCommand } from './command.js';
import { docker } from './docker.js';
import { etcdImage, playEtcd } from './etcd-image.js';
import { HostNetwork } from './etcd-network.js';
import type { Host, HostOptions, Service } from './fleet.js';
import { FleetScene, makeParts, type Parts } from './scene.js';

export interface EtcdSceneOptions {
  /** How many hosts start as servers, the first of which makes the cluster. */
  readonly servers: number;
  readonly agents: number;
  /** Whether the image's entrypoint is ours; else it is one that knows nothing of fleet-role. */
  readonly guards: boolean;
  /** true: one node password for both services of a host. Default: each container has its own (fact 4.3). */
  readonly sharedPassword?: boolean;
  /** Environment of a host's services by index from 0, over the usual. */
  readonly environment?: (index: number) => Readonly<Record<string, string>>;
}

/** How long a cluster on a busy machine may take for one change, in milliseconds, and how often it is looked at. */
const PATIENCE = 60_000;
const PAUSE = 300;

/** Waits until `look` gives `wanted`; throws with what it gave last. */
async function untilSame<T>(what: string, wanted: T, look: () => Promise<T>): Promise<void> {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const seen = await look();
    if (isDeepStrictEqual(seen, wanted)) return;
    if (Date.now() > end) {
      throw new Error(`waited in vain: ${what} should be ${JSON.stringify(wanted)} and are ${JSON.stringify(seen)}`);
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}

/**
 * A fleet whose servers run a real etcd: hosts `node1` … with an address each on a network of their own, as the inventory
 * names it. What stands in for k3s does to members and Nodes what k3s does (test/e2e/etcd).
 */
export class EtcdScene extends FleetScene {
  readonly #network: HostNetwork;

  constructor(parts: Parts, network: HostNetwork) {
    super(parts);
    this.#network = network;
  }

  get names(): readonly string[] {
    return this.fleet.hosts.list.map((host) => host.name);
  }

  host(name: string): Host {
    return this.fleet.host(name);
  }

  /** kubectl in a host's server container, whatever its exit status. */
  kubectl(host: string, ...args: string[]): Promise<CommandResult> {
    return this.host(host).exec('k3s', 'kubectl', ...args);
  }

  /** Runs a program in any container. */
  inContainer(name: string, ...args: string[]): Promise<CommandResult> {
    return tryCommand('docker', ['exec', name, ...args]);
  }

  /** Makes an object of the API through a host. */
  async create(host: string, object: object): Promise<void> {
    const args = ['exec', '-i', this.host(host).containers.k3s, 'kubectl', 'create', '-f', '-', '-o', 'json'];
    await docker(args, { input: JSON.stringify(object) });
  }

  /** The members as a host's server lists them; null when it does not answer. */
  async members(host = 'node1'): Promise<readonly Member[] | null> {
    const answer = await this.kubectl(host, 'get', '--raw', '/db/info');
    const members = parseMembers(answer.stdout);
    return answer.code === 0 && members.kind === 'known' ? members.value : null;
  }

  /** The node names of all voters, sorted; null when the host does not answer. */
  async voters(host = 'node1'): Promise<readonly string[] | null> {
    const members = await this.members(host);
    return members === null
      ? null
      : members
          .filter((each) => !each.learner)
          .map((each) => each.nodeName ?? '?')
          .sort();
  }

  /** The UID of kube-system as a host's server serves it; null when it serves none. */
  async identity(host = 'node1'): Promise<string | null> {
    const answer = await this.kubectl(host, 'get', 'namespace', 'kube-system', '-o', 'json');
    return answer.code === 0 ? (JSON.parse(answer.stdout).metadata.uid as string) : null;
  }

  /** The Nodes by name, as the API has them; null when the host does not answer. */
  // biome-ignore lint/suspicious/noExplicitAny: objects of the API, looked into by tests
  async nodes(host = 'node1'): Promise<Readonly<Record<string, any>> | null> {
    const answer = await this.kubectl(host, 'get', 'nodes', '-o', 'json');
    if (answer.code !== 0) return null;
    // biome-ignore lint/suspicious/noExplicitAny: objects of the API
    const items = JSON.parse(answer.stdout).items as any[];
    return Object.fromEntries(items.map((node) => [node.metadata.name, node]));
  }

  /** The names of all Nodes that are Ready, sorted. */
  async ready(host = 'node1'): Promise<readonly string[]> {
    return Object.entries((await this.nodes(host)) ?? {})
      .filter(([, node]) =>
        node.status.conditions.some(
          (each: { type: string; status: string }) => each.type === 'Ready' && each.status === 'True',
        ),
      )
      .map(([name]) => name)
      .sort();
  }

  /** The `data` of the record that fleet-role keeps in the cluster; null when there is none. */
  async record(host = 'node1'): Promise<Readonly<Record<string, string>> | null> {
    const args = ['get', 'configmaps', 'fleet-role', '--namespace=kube-system', '-o', 'json'];
    const answer = await this.kubectl(host, ...args);
    return answer.code === 0 ? JSON.parse(answer.stdout).data : null;
  }

  /** A merge patch of a Node's labels and annotations; null takes one away. */
  async patchNode(
    host: string,
    node: string,
    metadata: Readonly<Record<string, Readonly<Record<string, string | null>>>>,
  ): Promise<void> {
    const args = ['patch', 'node', node, '--type=merge', '--patch', JSON.stringify({ metadata })];
    const result = await this.kubectl(host, ...args);
    if (result.code !== 0) throw new Error(result.stderr);
  }

  /** Waits until the voters are these, as that host lists them. */
  untilVoters(names: readonly string[], host = 'node1'): Promise<void> {
    return untilSame(`the voters that ${host} lists`, [...names].sort(), async () => [
      ...((await this.voters(host)) ?? []),
    ]);
  }

  /** Waits until these Nodes and no others are Ready. */
  untilReady(names: readonly string[], host = 'node1'): Promise<void> {
    return untilSame(`the Nodes that are Ready by ${host}`, [...names].sort(), async () => [
      ...(await this.ready(host)),
    ]);
  }

  /** Waits until a service has said something. */
  untilSays(host: string, service: Service, text: string): Promise<void> {
    return untilSame(`the words '${text}' of ${service} on ${host}`, true, async () =>
      (await this.host(host).logs(service)).includes(text),
    );
  }

  /** Waits until a look holds. */
  until(what: string, look: () => Promise<boolean>): Promise<void> {
    return untilSame(what, true, look);
  }

  /** The power fails: every container of a host ends at once, and nothing brings it back. */
  async kill(host: string): Promise<void> {
    const { k3s, 'k3s-agent': agent } = this.host(host).containers;
    for (const name of [k3s, agent]) await tryCommand('docker', ['kill', name]);
  }

  /** Brings a service of a host back as its container is. */
  async start(host: string, service: Service = 'k3s'): Promise<void> {
    await docker(['start', this.host(host).containers[service]]);
  }

  /** Cuts a host off from the others, or (`false`) connects it again. ssh and docker still reach it. */
  async cutNetwork(host: string, cut = true): Promise<void> {
    await this.#network.connect(this.names.indexOf(host), !cut);
  }

  /** k3s's data directory is empty, as on a disk that was replaced. */
  async emptyDisk(host: string): Promise<void> {
    const { dataDir } = this.host(host);
    for (const name of await readdir(dataDir)) await rm(join(dataDir, name), { recursive: true, force: true });
  }

  override async close(): Promise<void> {
    await super.close();
    await this.#network.remove();
  }
}

/** What fleet-role itself reads from a Node and a member list. */
export type { Member, NodeObservation, Observation };

/**
 * Makes the hosts and waits until the cluster is formed: all servers vote and all Nodes are Ready. Without guards the
 * first server has `K3S_CLUSTER_INIT`, as it has no join URL; our entrypoint says the same by itself.
 */
export async function createEtcdScene(options: EtcdSceneOptions): Promise<EtcdScene> {
  const image = await etcdImage();
  const network = await HostNetwork.create();
  let parts: Parts;
  try {
    const first = `https://${network.address(0)}:6443`;
    const hostOf = (index: number): HostOptions => ({
      ...{ entrypoint: options.guards ? 'ours' : 'foreign', running: null, network: network.mode(index) },
      sharedPassword: options.sharedPassword === true,
      environment: {
        K3S_NODE_NAME: `node${index + 1}`,
        STAND_IN_ADDRESS: network.address(index),
        // biome-ignore-start lint/suspicious/noTemplateCurlyInString: Compose puts them in from .env
        K3S_URL: '${K3S_URL:-}',
        K3S_JOIN_SERVER_URL: '${K3S_JOIN_SERVER_URL:-}',
        K3S_TLS_SAN_LIST: '${K3S_TLS_SAN_LIST:-}',
        // biome-ignore-end lint/suspicious/noTemplateCurlyInString: Compose puts them in from .env
        ...options.environment?.(index),
      },
      serviceEnvironment: {
        // biome-ignore lint/suspicious/noTemplateCurlyInString: Compose puts it in from .env
        k3s: { K3S_URL: '${K3S_JOIN_SERVER_URL:-}', ...(index === 0 ? { K3S_CLUSTER_INIT: 'true' } : {}) },
      },
      env: index === 0 ? '' : `K3S_JOIN_SERVER_URL=${first}\nK3S_URL=${first}\n`,
    });
    const count = options.servers + options.agents;
    parts = await makeParts(count, { image, network: network.prefix, host: hostOf });
  } catch (error) {
    await network.remove();
    throw error;
  }
  const scene = new EtcdScene(parts, network);
  try {
    const { list } = parts.fleet.hosts;
    await Promise.all(
      list.map(async (host, index) => {
        await network.add(index, host.name, image);
        await playEtcd(host);
      }),
    );
    const servers = list.slice(0, options.servers).map((host) => host.name);
    await Promise.all(list.map((host, index) => host.up(index < options.servers ? 'k3s' : 'k3s-agent')));
    await scene.untilVoters(servers);
    await scene.untilReady(scene.names);
    return scene;
  } catch (error) {
    const logs = await Promise.all(
      parts.fleet.hosts.list.map(
        async (host) => `${host.name}:\n${await host.logs('k3s')}${await host.logs('k3s-agent')}`,
      ),
    );
    await scene.close();
    const text = logs.join('\n').replace(/^\{"level":"warn".*\n/gm, '');
    throw new Error(`${error instanceof Error ? error.message : error}\n${text}`);
  }
}
