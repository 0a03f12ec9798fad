import { readFile } from 'node:fs/promises';
import { stringify } from 'yaml';
import { type Host, type Hosts, type MakeHostsOptions, makeHosts } from './fleet.js';
import { type SshConnection, Sshd } from './sshd.js';
import { TestUser } from './test-user.js';

const PREFIX = 'github_runner_cluster';

/** Variables of an inventory. A name that leads with neither `ansible_` nor the prefix gets the prefix. */
export type InventoryVariables = Readonly<Record<string, string | number | boolean | readonly string[]>>;

export interface InventoryOptions {
  /** Variables of the group, e.g. `{ controller: true }`. */
  readonly cluster?: InventoryVariables;
  /** Variables of single hosts; they replace what the fleet sets. */
  readonly hosts?: Readonly<Record<string, InventoryVariables>>;
  /** Which hosts, in which order. Default: all, as they were made. */
  readonly order?: readonly string[];
}

/** Compose hosts that are reached by a real sshd, each at a loopback address of its own, as one throw-away user. */
export class SshFleet {
  readonly hosts: Hosts;
  readonly sshd: Sshd;
  readonly user: TestUser;
  readonly #otherKey: string;
  readonly #network: string;

  constructor(hosts: Hosts, sshd: Sshd, user: TestUser, otherKey: string, network: string) {
    this.hosts = hosts;
    this.sshd = sshd;
    this.user = user;
    this.#otherKey = otherKey;
    this.#network = network;
  }

  /** The host of a name. */
  host(name: string): Host {
    return this.hosts.get(name);
  }

  /** The loopback address of a host. */
  address(name: string): string {
    return this.sshd.addresses[this.hosts.list.indexOf(this.hosts.get(name))] as string;
  }

  /** The node address that the inventory gives a host; its join URL is `https://ADDRESS:6443`. */
  nodeAddress(name: string): string {
    return `${this.#network}.${this.hosts.list.indexOf(this.hosts.get(name)) + 1}`;
  }

  /** `inventory.yml` with one group of these hosts: connection, node address and Compose project of each. */
  inventory(options: InventoryOptions = {}): string {
    const hosts = (options.order ?? this.hosts.list.map((host) => host.name)).map((name) => [
      name,
      {
        ansible_host: this.address(name),
        ansible_port: this.sshd.port,
        ansible_user: this.user.name,
        [`${PREFIX}_node_address`]: this.nodeAddress(name),
        ...this.host(name).variables(PREFIX),
        ...prefixed(options.hosts?.[name] ?? {}),
      },
    ]);
    const vars = prefixed(options.cluster ?? {});
    const group = {
      ...(Object.keys(vars).length > 0 ? { vars } : {}),
      hosts: Object.fromEntries(hosts),
    };
    return stringify({ [PREFIX]: group }, { lineWidth: 0 });
  }

  /** Lines for `ssh-known-hosts`. The hosts in `wrong` have another key there: to ssh theirs has changed. */
  knownHosts(wrong: readonly string[] = []): string {
    const addresses = wrong.map((name) => `[${this.address(name)}]:`);
    return this.sshd.knownHosts
      .split('\n')
      .map((line) => (addresses.some((a) => line.startsWith(a)) ? `${line.split(' ')[0]} ${this.#otherKey}` : line))
      .join('\n');
  }

  /** The inputs by which the bundle reaches the hosts. */
  inputs(): { 'ssh-private-key': string; 'ssh-known-hosts': string } {
    return { 'ssh-private-key': this.sshd.privateKey, 'ssh-known-hosts': this.knownHosts() };
  }

  /** The connections made to a host, or to all, with the commands of each, since the last `sshd.forget()`. */
  connections(name?: string): Promise<SshConnection[]> {
    return this.sshd.connections(name === undefined ? undefined : this.address(name));
  }

  /** Removes hosts, sshd and user. */
  async close(): Promise<void> {
    await this.hosts.remove();
    await this.sshd.close();
    await this.user.remove();
  }
}

export interface SshFleetOptions extends MakeHostsOptions {
  readonly user?: Parameters<typeof TestUser.create>[0];
  /** The first three numbers of the node addresses. Default: 100.64.0, where nothing is. */
  readonly network?: string;
}

/**
 * Makes `count` (at most 16: sshd's own limit of addresses) Compose hosts, an sshd at 127.0.11.1, 127.0.11.2 … and the
 * user that logs in there: a second name of root, unless `user` says otherwise.
 */
export async function makeSshFleet(count: number, options: SshFleetOptions = {}): Promise<SshFleet> {
  if (count > 16) throw new Error('one sshd listens on at most 16 addresses');
  const user = await TestUser.create(options.user);
  try {
    const addresses = Array.from({ length: count }, (_, index) => `127.0.11.${index + 1}`);
    const sshd = await Sshd.start({ users: [user], addresses });
    try {
      const hosts = await makeHosts(count, { owner: user, ...options });
      // Any valid key that is not the host's does for a changed one: the client's own is at hand.
      const otherKey = (await readFile(`${sshd.privateKeyFile}.pub`, 'utf8')).trim();
      return new SshFleet(hosts, sshd, user, otherKey, options.network ?? '100.64.0');
    } catch (error) {
      await sshd.close();
      throw error;
    }
  } catch (error) {
    await user.remove();
    throw error;
  }
}

function prefixed(variables: InventoryVariables): InventoryVariables {
  return Object.fromEntries(
    Object.entries(variables).map(([name, value]) => [
      name.startsWith('ansible_') || name.startsWith(`${PREFIX}_`) ? name : `${PREFIX}_${name}`,
      value,
    ]),
  );
}
