import { randomInt } from 'node:crypto';
import { tryCommand } from './command.js';
import { docker } from './docker.js';
import { OWNER_LABEL } from './fleet.js';
import { isAlive } from './temporary.js';

/**
 * A bridge network on which every host has one address that stays. What holds the address is a container that only
 * sleeps: k3s's containers join its network, as those of a real node join their host's.
 */
export class HostNetwork {
  /** The first three numbers of its addresses. */
  readonly prefix: string;
  readonly #name: string;

  private constructor(name: string, prefix: string) {
    this.#name = name;
    this.prefix = prefix;
  }

  /** Makes one on a part of 10.0.0.0/8 that nobody here uses. Those of test runs that were killed are removed first. */
  static async create(): Promise<HostNetwork> {
    await removeLeftNetworks();
    let said = '';
    for (let attempt = 0; attempt < 10; attempt++) {
      const prefix = `10.${randomInt(90, 250)}.${randomInt(1, 250)}`;
      const name = `fleet-role-etcd-${prefix}`;
      const label = `${OWNER_LABEL}=${process.pid}`;
      const made = await tryCommand('docker', [
        ...['network', 'create', '--label', label, '--subnet', `${prefix}.0/24`, '--gateway', `${prefix}.254`, name],
      ]);
      if (made.code === 0) return new HostNetwork(name, prefix);
      said = made.stderr;
    }
    throw new Error(`no network could be made: ${said}`);
  }

  /** The address of the host of this index from 0. */
  address(index: number): string {
    return `${this.prefix}.${index + 1}`;
  }

  /** Compose's `network_mode` for the host of this index. */
  mode(index: number): string {
    return `container:${this.#holder(index)}`;
  }

  /** Gives a host of this name its address. */
  async add(index: number, host: string, image: string): Promise<void> {
    const label = `${OWNER_LABEL}=${process.pid}`;
    await docker([
      ...['run', '-d', '--name', this.#holder(index), '--hostname', host, '--label', label],
      ...['--network', this.#name, '--ip', this.address(index), '--entrypoint', '/bin/sleep', image, '86400'],
    ]);
  }

  /** Cuts a host off, or connects it again. What runs there goes on. */
  async connect(index: number, yes: boolean): Promise<void> {
    const words = yes ? ['connect', '--ip', this.address(index)] : ['disconnect'];
    await docker(['network', ...words, this.#name, this.#holder(index)]);
  }

  /** Removes the network, and what holds its addresses. */
  async remove(): Promise<void> {
    const ids = (await docker(['ps', '-aq', '--filter', `name=^${this.#name}-`])).trim().split('\n').filter(Boolean);
    if (ids.length > 0) await docker(['rm', '-f', '-v', ...ids]);
    await docker(['network', 'rm', this.#name]);
  }

  #holder(index: number): string {
    return `${this.#name}-${index + 1}`;
  }
}

async function removeLeftNetworks(): Promise<void> {
  const format = `{{.ID}} {{.Label "${OWNER_LABEL}"}}`;
  const list = await docker(['network', 'ls', '--filter', `label=${OWNER_LABEL}`, '--format', format]);
  for (const line of list.trim().split('\n').filter(Boolean)) {
    const [id = '', owner = ''] = line.split(' ');
    if (isAlive(Number(owner))) continue;
    // Its containers first: a network with one of them cannot be removed.
    const ids = (await docker(['ps', '-aq', '--filter', `network=${id}`])).trim().split('\n').filter(Boolean);
    if (ids.length > 0) await tryCommand('docker', ['rm', '-f', '-v', ...ids]);
    await tryCommand('docker', ['network', 'rm', id]);
  }
}
