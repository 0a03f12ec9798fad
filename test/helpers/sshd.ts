import { type ChildProcess, spawn } from 'node:child_process';
import { chmod, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { command, until } from './command.js';
import { temporaryFolder } from './temporary.js';
import type { TestUser } from './test-user.js';

export interface SshdOptions {
  /** Loopback addresses, each a host of its own to the client. Default: 127.0.0.1. */
  readonly addresses?: readonly string[];
  /** Who may log in. */
  readonly users: readonly TestUser[];
  /** What the login shell prints before every command, as badly kept hosts do. */
  readonly banner?: string;
  /** Further lines for sshd_config. */
  readonly config?: readonly string[];
}

export interface SshCommand {
  /** The address that was asked, and the client's port: one connection. */
  readonly address: string;
  readonly clientPort: number;
  /** As the client sent it. */
  readonly command: string;
}

export interface SshConnection {
  readonly address: string;
  readonly clientPort: number;
  readonly commands: readonly string[];
}

/** A real sshd on one port of one or several loopback addresses, with throw-away keys. Needs root. */
export class Sshd {
  readonly addresses: readonly string[];
  readonly port: number;
  /** The client's private key: text for `INPUT_SSH-PRIVATE-KEY` and file (mode 0600) for ssh itself. */
  readonly privateKey: string;
  readonly privateKeyFile: string;
  readonly #dir: string;
  readonly #options: SshdOptions;
  #hostKey = '';
  #fingerprint = '';
  #process: ChildProcess | null = null;

  private constructor(dir: string, port: number, privateKey: string, options: SshdOptions) {
    this.#dir = dir;
    this.port = port;
    this.privateKey = privateKey;
    this.privateKeyFile = join(dir, 'client');
    this.addresses = options.addresses ?? ['127.0.0.1'];
    this.#options = options;
  }

  static async start(options: SshdOptions): Promise<Sshd> {
    const dir = await temporaryFolder('sshd');
    // sshd reads the key list, and the shell writes the log, as the user who logs in.
    await chmod(dir, 0o755);
    await writeFile(join(dir, 'commands'), '');
    await chmod(join(dir, 'commands'), 0o666);
    await command('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', 'fleet-role test', '-f', join(dir, 'client')]);
    const port = await freePort(options.addresses ?? ['127.0.0.1']);
    const sshd = new Sshd(dir, port, await readFile(join(dir, 'client'), 'utf8'), options);
    await sshd.#makeHostKey();
    await sshd.resume();
    return sshd;
  }

  /** Lines for `ssh-known-hosts`, one an address, with the present host key. */
  get knownHosts(): string {
    return this.addresses.map((address) => `[${address}]:${this.port} ${this.#hostKey}\n`).join('');
  }

  /** `SHA256:…` of the present host key. */
  get fingerprint(): string {
    return this.#fingerprint;
  }

  /** Makes a new host key and restarts: whoever kept the old `knownHosts` sees a changed key. */
  async changeHostKey(): Promise<void> {
    await this.pause();
    await this.#makeHostKey();
    await this.resume();
  }

  /** Starts listening (again). */
  async resume(): Promise<void> {
    if (this.#process !== null) return;
    await mkdir('/run/sshd', { recursive: true });
    await writeFile(join(this.#dir, 'config'), this.#config());
    const child = spawn('/usr/sbin/sshd', ['-D', '-f', join(this.#dir, 'config'), '-E', join(this.#dir, 'log')], {
      stdio: 'ignore',
    });
    this.#process = child;
    let ended = false;
    child.on('exit', () => {
      ended = true;
    });
    await until('sshd listens', async () => {
      if (ended) throw new Error(`sshd does not start:\n${await this.log()}`);
      // Of this start: the log is appended to.
      const starts = (await this.log()).split('Server listening on').length - 1;
      return starts >= this.#starts + this.addresses.length;
    });
    this.#starts += this.addresses.length;
  }
  #starts = 0;

  /** Stops listening and ends open sessions: every address refuses connections until `resume`. */
  async pause(): Promise<void> {
    const child = this.#process;
    if (child === null) return;
    this.#process = null;
    const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
    const children = await command('ps', ['-o', 'pid=', '--ppid', String(child.pid)]).catch(() => '');
    child.kill('SIGTERM');
    await exited;
    // The sessions are processes of their own and outlive the listener.
    for (const pid of children.split('\n').map(Number)) {
      if (pid > 0) {
        try {
          process.kill(pid, 'SIGKILL');
        } catch {
          // It ended by itself.
        }
      }
    }
  }

  /** Ends it for good and removes its keys and logs. */
  async close(): Promise<void> {
    await this.pause();
    await rm(this.#dir, { recursive: true, force: true });
  }

  /** sshd's own log (level VERBOSE). */
  async log(): Promise<string> {
    return readFile(join(this.#dir, 'log'), 'utf8').catch(() => '');
  }

  /** Every command that a login shell got, in order. */
  async commands(address?: string): Promise<SshCommand[]> {
    const text = await readFile(join(this.#dir, 'commands'), 'utf8').catch(() => '');
    return text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => {
        // SSH_CONNECTION: client address, client port, server address, server port.
        const [, clientPort, server, , encoded] = line.split('\t');
        return {
          address: server ?? '',
          clientPort: Number(clientPort),
          command: Buffer.from(encoded ?? '', 'base64').toString('utf8'),
        };
      })
      .filter((c) => address === undefined || c.address === address);
  }

  /** Every connection made, also those that failed before a command, with its commands. */
  async connections(address?: string): Promise<SshConnection[]> {
    const commands = await this.commands();
    const found: SshConnection[] = [];
    for (const line of (await this.log()).split('\n')) {
      const match = /Connection from \S+ port (\d+) on (\S+) port \d+/.exec(line);
      if (match === null) continue;
      const clientPort = Number(match[1]);
      const server = match[2] as string;
      if (address !== undefined && server !== address) continue;
      found.push({
        address: server,
        clientPort,
        commands: commands.filter((c) => c.clientPort === clientPort && c.address === server).map((c) => c.command),
      });
    }
    return found;
  }

  /** Forgets the connections and commands seen so far. */
  async forget(): Promise<void> {
    // Emptied and not removed: sshd keeps its log open for appending.
    await writeFile(join(this.#dir, 'log'), '');
    await writeFile(join(this.#dir, 'commands'), '');
    this.#starts = 0;
  }

  async #makeHostKey(): Promise<void> {
    const file = join(this.#dir, 'host');
    await rm(file, { force: true });
    await rm(`${file}.pub`, { force: true });
    await command('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', '', '-f', file]);
    this.#hostKey = (await readFile(`${file}.pub`, 'utf8')).trim();
    this.#fingerprint = (await command('ssh-keygen', ['-l', '-f', `${file}.pub`])).split(' ')[1] ?? '';
  }

  #config(): string {
    const environment = [`FLEET_TEST_LOG=${join(this.#dir, 'commands')}`];
    if (this.#options.banner !== undefined) environment.push(`"FLEET_TEST_BANNER=${this.#options.banner}"`);
    return [
      `Port ${this.port}`,
      ...this.addresses.map((address) => `ListenAddress ${address}`),
      `HostKey ${join(this.#dir, 'host')}`,
      `PidFile ${join(this.#dir, 'pid')}`,
      `AuthorizedKeysFile ${join(this.#dir, 'client.pub')}`,
      `AllowUsers ${this.#options.users.map((user) => user.name).join(' ')}`,
      `SetEnv ${environment.join(' ')}`,
      'LogLevel VERBOSE',
      'StrictModes no',
      'UsePAM no',
      'PermitRootLogin yes',
      'PasswordAuthentication no',
      'KbdInteractiveAuthentication no',
      'PrintMotd no',
      'UseDNS no',
      // Many hosts are one sshd here; its own limits must not look like a host's failure.
      'MaxStartups 500:30:1000',
      'MaxSessions 100',
      ...(this.#options.config ?? []),
      '',
    ].join('\n');
  }
}

/** A port of an address that takes connections and never says a word: a host that hangs. */
export async function silentHost(address = '127.0.0.1'): Promise<{ port: number; close(): Promise<void> }> {
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    open.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => open.delete(socket));
  });
  const port = await listen(server, address, 0);
  return {
    port,
    close: () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of open) socket.destroy();
      return closed;
    },
  };
}

/** A port that nothing listens on, on any of the addresses: connections are refused. */
export async function freePort(addresses: readonly string[] = ['127.0.0.1']): Promise<number> {
  for (let tries = 0; tries < 50; tries++) {
    const servers: Server[] = [];
    let port = 0;
    try {
      for (const address of addresses) {
        const server = createServer();
        port = await listen(server, address, port);
        servers.push(server);
      }
      return port;
    } catch {
      // Taken on one of the addresses: another port.
    } finally {
      await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
    }
  }
  throw new Error(`no port is free on all of ${addresses.join(', ')}`);
}

function listen(server: Server, address: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, address, () => {
      const bound = server.address();
      resolve(typeof bound === 'object' && bound !== null ? bound.port : 0);
    });
  });
}
