import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { vi } from 'vitest';
import type { Host, HostConnection, Service } from '../../src/fleet/fleet.js';
import { type Connection, type Connector, createConnector } from '../../src/hosts/connection.js';
import { type CarriedOut, carryOut } from '../../src/hosts/hands.js';
import { lookAt } from '../../src/hosts/probe.js';
import type { Logger } from '../../src/log.js';
import type { HostObservation, ReachedHost } from '../../src/plan/observation.js';
import type { Action, Step } from '../../src/plan/step.js';

// Each test starts many small processes; on a busy machine that takes its time.
vi.setConfig({ testTimeout: 60_000 });

/** A logger that says nothing. */
export const silentLogger: Logger = {
  debug: () => {},
  info: () => {},
  notice: () => {},
  warning: () => {},
  error: () => {},
  group: (_name, work) => work(),
};

/** A connection to this machine. */
export const LOCAL: HostConnection = {
  ...{ type: 'local', host: 'localhost', port: 22, user: null, become: false, keyFile: null, options: [] },
};

/** Every shell that hosts have as `sh`, by name: a folder with an `sh` in it is put first on PATH. */
export const SHELLS = ['dash', 'busybox', 'bash'] as const;
export type Shell = (typeof SHELLS)[number];

/** True when this machine has the shell. FLEET_ROLE_ALL_SHELLS=1 makes a missing one an error. */
export function hasShell(shell: Shell): boolean {
  const has = spawnSync(shell, shell === 'busybox' ? ['true'] : ['-c', ':']).status === 0;
  if (!has && process.env.FLEET_ROLE_ALL_SHELLS === '1') throw new Error(`${shell} is not installed`);
  return has;
}

/** A Compose host with nothing said about it. */
export function composeHost(overrides: Partial<Host> = {}): Host {
  return {
    ...{ name: 'node1', nodeName: 'node1', address: 'node1', role: 'server', bootstrap: false, joinUrl: null },
    ...{ serverUrl: null, tlsSans: [], publishesLabels: true, eligible: null, pinned: false, runtime: 'compose' },
    connection: LOCAL,
    ...{ directory: '~/.github-runner', composeProject: 'github-runner', composeFiles: [], dockerContext: null },
    containers: { k3s: 'github-runner-k3s', 'k3s-agent': 'github-runner-k3s-agent' },
    ...{ dataDir: '/var/lib/rancher/k3s', roleFile: null, joinUrlFile: null },
    place: { file: 'inventory.yml', line: 1 },
    sources: new Map(),
    ...overrides,
  } as Host;
}

export function step(action: Action, value: string | null = null, service: Service | null = null): Step {
  return { action, host: 'node1', service, value, detail: '' };
}

const BUSYBOX = spawnSync('sh', ['-c', 'command -v busybox'], { encoding: 'utf8' }).stdout.trim();
/** What the host script uses, by the names that busybox has for it. */
const TOOLS =
  'awk sed cmp tail tr cp ls readlink timeout find sync cat chmod mv rm mkdir rmdir wc grep date id sleep ln df'.split(
    ' ',
  );

/** A host on this machine: a home, a project directory in it, and a `docker` on PATH that says what it is told. */
export class LocalHost {
  readonly base: string;
  readonly home: string;
  readonly directory: string;
  readonly bin: string;
  readonly connection: Connection;
  readonly #connector: Connector;
  readonly #before: { readonly PATH: string | undefined; readonly HOME: string | undefined };

  constructor(shell: Shell) {
    this.base = realpathSync(mkdtempSync(join(tmpdir(), 'fleet-host-')));
    this.home = join(this.base, 'home');
    this.directory = join(this.home, '.github-runner');
    this.bin = join(this.base, 'bin');
    mkdirSync(this.directory, { recursive: true });
    mkdirSync(this.bin);
    const command =
      shell === 'busybox' ? 'exec busybox sh "$@"' : `exec ${shell} ${shell === 'bash' ? '--posix ' : ''}"$@"`;
    this.program('sh', command, '/bin/bash');
    // Hosts with busybox as their shell have its tools, too.
    if (shell === 'busybox') for (const tool of TOOLS) symlinkSync(BUSYBOX, join(this.bin, tool));
    this.docker({});
    this.#before = { PATH: process.env.PATH, HOME: process.env.HOME };
    process.env.PATH = `${this.bin}:${process.env.PATH}`;
    process.env.HOME = this.home;
    this.#connector = createConnector({
      ...{ temp: this.base, privateKeys: [], knownHosts: null, sshUser: null, useInventoryKeyFiles: false },
      logger: silentLogger,
    });
    this.connection = this.#connector.connect('node1', LOCAL);
  }

  async close(): Promise<void> {
    await this.#connector.close();
    process.env.PATH = this.#before.PATH;
    process.env.HOME = this.#before.HOME;
    rmSync(this.base, { recursive: true, force: true });
  }

  path(name: string): string {
    return join(this.directory, name);
  }

  write(name: string, text: string | Buffer, mode = 0o644): void {
    mkdirSync(dirname(this.path(name)), { recursive: true });
    writeFileSync(this.path(name), text);
    chmodSync(this.path(name), mode);
  }

  read(name: string): string {
    return readFileSync(this.path(name), 'latin1');
  }

  /** The names in the project directory and its role directory, sorted. */
  files(): string[] {
    return (readdirSync(this.directory, { recursive: true }) as string[]).sort();
  }

  /** A program on the host's PATH. */
  program(name: string, script: string, shell = '/bin/sh'): void {
    // It may be a link to a program of this machine, which must not be written through.
    rmSync(join(this.bin, name), { force: true });
    writeFileSync(join(this.bin, name), `#!${shell}\n${script}\n`, { mode: 0o755 });
  }

  /** What the stand-in `docker` does; it notes its arguments. Unless told, it knows no container. */
  docker(answer: {
    readonly out?: string;
    readonly err?: string;
    readonly code?: number;
    readonly script?: string;
  }): void {
    const none = ['github-runner-k3s', 'github-runner-k3s-agent'].map((name) => `Error: No such container: ${name}\n`);
    const { out = '', err = out === '' ? none.join('') : '', code = out === '' ? 1 : 0 } = answer;
    writeFileSync(join(this.base, 'docker.out'), out);
    writeFileSync(join(this.base, 'docker.err'), err);
    this.program(
      'docker',
      `for word in "$@"; do printf '%s\\n' "$word"; done >>${this.base}/docker.log; printf -- '--\\n' >>${this.base}/docker.log
${answer.script ?? ''}
cat ${this.base}/docker.out; cat ${this.base}/docker.err >&2; exit ${code}`,
    );
  }

  /** Each call of docker so far as its arguments. */
  dockerCalls(): string[][] {
    const log = join(this.base, 'docker.log');
    if (!existsSync(log)) return [];
    return readFileSync(log, 'utf8')
      .split('--\n')
      .slice(0, -1)
      .map((call) => call.split('\n').slice(0, -1));
  }

  look(overrides: Partial<Host> = {}): Promise<HostObservation> {
    return lookAt(this.connection, composeHost(overrides), { seconds: 60 });
  }

  async reached(overrides: Partial<Host> = {}): Promise<ReachedHost> {
    const seen = await this.look(overrides);
    if (seen.kind !== 'reached') throw new Error(seen.message);
    return seen;
  }

  do(steps: readonly Step[], overrides: Partial<Host> = {}): Promise<CarriedOut> {
    return carryOut(this.connection, composeHost(overrides), steps, { seconds: 60, lockSeconds: 1 });
  }

  /** Does the steps, which must all succeed, and then again, which must change nothing. */
  async ok(...steps: Step[]): Promise<CarriedOut> {
    const result = await this.do(steps);
    if (result.failed !== null) throw new Error(`${result.failed.step.action}: ${result.failed.message}`);
    const before = this.snapshot();
    const again = await this.do(steps);
    if (again.failed !== null) throw new Error(`again: ${again.failed.step.action}: ${again.failed.message}`);
    if (this.snapshot() !== before) throw new Error(`changed by doing it again:\n${before}\n---\n${this.snapshot()}`);
    return result;
  }

  /** Each file with its inode, times, mode and content. */
  snapshot(): string {
    return this.files()
      .map((name) => {
        const { ino, mtimeMs, ctimeMs, mode, size } = lstatSync(this.path(name));
        return `${name} ${ino} ${lstatSync(this.path(name)).isDirectory() ? '' : `${mtimeMs} ${ctimeMs}`} ${mode} ${size}`;
      })
      .join('\n');
  }
}

/** The line that docker prints for one container, as the probe's format asks for it. */
export function containerLine(overrides: Record<string, unknown> = {}, pid = 0): string {
  const container = {
    ...{ id: 'c0ffee', name: '/github-runner-k3s', status: 'running', exitCode: 0, startedAt: '2026-01-01T00:00:00Z' },
    ...{ restartCount: 0, restartPolicy: 'unless-stopped', mounts: [], configFiles: '', environment: [null] },
    ...overrides,
  };
  return `fleet-role ${pid} ${JSON.stringify(container)}\n`;
}
