import { readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { parseMembers } from '../../src/cluster/identity.js';
import type { Member, NodeObservation, Observation } from '../../src/plan/observation.js';
import { type CommandResult, command, tryCommand } from './command.js';
import { docker } from './docker.js';
import { etcdImage, playEtcd } from './etcd-image.js';
import { HostNetwork } from './etcd-network.js';
import { type Host, type HostOptions, OWNER_LABEL, type Service } from './fleet.js';
import { FleetScene, makeParts, type Parts } from './scene.js';
import { isAlive } from './temporary.js';

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
  /** What ran on a host when its power failed. */
  readonly #off = new Map<string, readonly Off[]>();

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

  /** The different identities that the hosts' own servers serve now. */
  async identities(): Promise<readonly string[]> {
    const all = await Promise.all(this.names.map((name) => this.identity(name)));
    return [...new Set(all.filter((uid) => uid !== null))].sort();
  }

  /** Sends an object to the API through a host; the exit status may be any. */
  write(host: string, verb: 'create' | 'replace', object: object): Promise<CommandResult> {
    const args = ['exec', '-i', this.host(host).containers.k3s, 'kubectl', verb, '-f', '-', '-o', 'json'];
    return tryCommand('docker', args, { input: JSON.stringify(object) });
  }

  /** Which release of k3s a host plays from the next start of k3s on (settings.mjs). */
  async release(host: string, release: 'worst' | 'old' | 'january' | 'new'): Promise<void> {
    await writeFile(join(this.host(host).standInDir, 'release'), release);
  }

  /** Sets a container's restart policy. */
  async restartPolicy(host: string, service: Service, policy: 'no' | 'unless-stopped'): Promise<void> {
    await docker(['update', `--restart=${policy}`, this.host(host).containers[service]]);
  }

  /** A service ends by itself, and its policy brings it back: to docker it was not stopped (fact 8.17). */
  async crash(host: string, service: Service = 'k3s'): Promise<void> {
    await endFirstProcess(this.host(host).containers[service]);
  }

  /** The power of these hosts fails: what runs there ends at once, and ssh does not get through. */
  async powerOff(...hosts: readonly string[]): Promise<void> {
    await Promise.all(
      hosts.map(async (host) => {
        await this.cutSsh(host);
        const running: Off[] = [];
        for (const service of ['k3s', 'k3s-agent'] as const) {
          const facts = await this.host(host).inspect(service);
          if (facts === null || facts.status === 'exited' || facts.status === 'created') continue;
          const container = this.host(host).containers[service];
          running.push({ container, policy: facts.restartPolicy });
          await docker(['update', '--restart=no', container]);
          if (facts.running) await endFirstProcess(container);
        }
        this.#off.set(host, running);
      }),
    );
  }

  /** It is back: what ran starts by its policy, and what somebody had stopped stays so. */
  async powerOn(...hosts: readonly string[]): Promise<void> {
    await Promise.all(
      hosts.map(async (host) => {
        for (const { container, policy } of this.#off.get(host) ?? []) {
          await docker(['update', `--restart=${policy}`, container]);
          if (policy !== 'no') await docker(['start', container]);
        }
        this.#off.delete(host);
        await this.cutSsh(host, false);
      }),
    );
  }

  /** Makes a host unreachable by ssh, or (`false`) reachable again. Its node runs on. */
  async cutSsh(host: string, cut = true): Promise<void> {
    const rule = [
      ...['INPUT', '-p', 'tcp', '-d', this.fleet.address(host), '--dport', String(this.fleet.sshd.port)],
      ...['-m', 'comment', '--comment', `${OWNER_LABEL}=${process.pid}`],
      ...['-j', 'REJECT', '--reject-with', 'icmp-host-unreachable'],
    ];
    if (cut) await command('iptables', ['-w', '-I', ...rule]);
    else await tryCommand('iptables', ['-w', '-D', ...rule]);
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
    for (const name of this.names) await this.cutSsh(name, false);
    await super.close();
    await this.#network.remove();
  }
}

interface Off {
  readonly container: string;
  readonly policy: string;
}

/** Ends a container's first process from outside; returns once docker has seen it. */
async function endFirstProcess(container: string): Promise<void> {
  const first = async () => Number(await docker(['inspect', '--format', '{{.State.Pid}}', container]));
  const pid = await first();
  if (pid === 0) return;
  process.kill(pid, 'SIGKILL');
  await untilSame(`the end of ${container}`, true, async () => (await first()) !== pid);
}

/** What fleet-role itself reads from a Node and a member list. */
export type { Member, NodeObservation, Observation };

/** Takes away what `cutSsh` of test runs that were killed has left. */
async function removeLeftRules(): Promise<void> {
  const { stdout } = await tryCommand('iptables', ['-w', '-S', 'INPUT']);
  for (const rule of stdout.split('\n')) {
    const owner = new RegExp(`--comment "?${OWNER_LABEL}=(\\d+)`).exec(rule)?.[1];
    if (owner === undefined || isAlive(Number(owner))) continue;
    await tryCommand('iptables', ['-w', '-D', ...rule.replaceAll('"', '').split(' ').slice(1)]);
  }
}

/**
 * Makes the hosts and waits until the cluster is formed: all servers vote and all Nodes are Ready. Without guards the
 * first server has `K3S_CLUSTER_INIT`, as it has no join URL; our entrypoint says the same by itself.
 */
export async function createEtcdScene(options: EtcdSceneOptions): Promise<EtcdScene> {
  const image = await etcdImage();
  await removeLeftRules();
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
