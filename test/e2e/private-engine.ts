import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type CommandResult, command, tryCommand, until } from '../helpers/command.js';
import { docker } from '../helpers/docker.js';
import { temporaryFolder } from '../helpers/temporary.js';

/**
 * A Docker Engine of one test, with its own socket, state and containers, so that it can be restarted while other tests
 * use the machine's. It has no network and needs root, as the machine's engine does.
 */
export class PrivateEngine {
  readonly #folder: string;
  #daemon: ChildProcess | null = null;

  private constructor(folder: string) {
    this.#folder = folder;
  }

  /** Starts one. Throws with the end of its log when it does not answer. */
  static async start(): Promise<PrivateEngine> {
    const engine = new PrivateEngine(await temporaryFolder('engine'));
    try {
      await engine.#up();
    } catch (error) {
      await engine.close();
      throw error;
    }
    return engine;
  }

  /** Standard output of `docker ARGS` on this engine; throws when it fails. */
  async docker(args: readonly string[]): Promise<string> {
    return docker(args, { env: this.environment() });
  }

  /** `docker ARGS` on this engine, whatever its exit status. */
  async tryDocker(args: readonly string[]): Promise<CommandResult> {
    return tryCommand('docker', args, { env: this.environment() });
  }

  /** Brings an image of the machine's engine here. */
  async load(image: string): Promise<void> {
    const file = join(this.#folder, 'image.tar');
    await docker(['save', '-o', file, image]);
    await this.docker(['load', '-q', '-i', file]);
  }

  /** Ends the engine, which ends its containers, and starts it again: what a reboot does. */
  async restart(): Promise<void> {
    await this.#down();
    await this.#up();
  }

  /** Removes its containers, ends it, and removes what it had on disk. */
  async close(): Promise<void> {
    if (this.#daemon !== null) {
      const ids = (await this.tryDocker(['ps', '-aq'])).stdout.trim().split('\n').filter(Boolean);
      if (ids.length > 0) await this.tryDocker(['rm', '-f', '-v', ...ids]);
      await this.#down();
    }
    await rm(this.#folder, { recursive: true, force: true });
  }

  /** What makes a `docker` speak to this engine. */
  environment(): Record<string, string> {
    return { DOCKER_HOST: `unix://${join(this.#folder, 'docker.sock')}`, DOCKER_CONTEXT: '' };
  }

  async #up(): Promise<void> {
    const log = openSync(join(this.#folder, 'log'), 'a');
    const own = { 'data-root': 'data', 'exec-root': 'exec', pidfile: 'pid' };
    const flags = Object.entries(own).flatMap(([flag, name]) => [`--${flag}`, join(this.#folder, name)]);
    // vfs works on every file system; without bridge and iptables it leaves the machine's network alone.
    flags.push(
      '--storage-driver',
      'vfs',
      '--bridge',
      'none',
      '--iptables=false',
      '--ip-masq=false',
      '--ip-forward=false',
    );
    const daemon = spawn('dockerd', ['-H', this.environment().DOCKER_HOST ?? '', ...flags], {
      stdio: ['ignore', log, log],
    });
    closeSync(log);
    this.#daemon = daemon;
    let failed: string | null = null;
    daemon.on('error', (error) => {
      failed = error.message;
    });
    try {
      await until('the private engine answers', async () => {
        if (failed !== null || daemon.exitCode !== null) throw new Error(failed ?? `dockerd: exit ${daemon.exitCode}`);
        return (await this.tryDocker(['version'])).code === 0;
      });
    } catch (error) {
      const text = await readFile(join(this.#folder, 'log'), 'utf8');
      throw new Error(`the private engine did not start:\n${text.split('\n').slice(-20).join('\n')}`, { cause: error });
    }
  }

  async #down(): Promise<void> {
    const daemon = this.#daemon;
    this.#daemon = null;
    if (daemon === null || daemon.exitCode !== null || daemon.signalCode !== null) return;
    const ended = new Promise((resolve) => daemon.once('exit', resolve));
    daemon.kill('SIGTERM');
    await ended;
    // Its containerd ends with it; what a killed one left mounted would keep the folder from being removed.
    const mounts = (await readFile('/proc/mounts', 'utf8')).split('\n').map((line) => line.split(' ')[1] ?? '');
    for (const mount of mounts.filter((path) => path.startsWith(`${this.#folder}/`)).reverse()) {
      await command('umount', ['-l', mount]);
    }
  }
}
