import { randomBytes } from 'node:crypto';
import { lstat, mkdir, readdir, readFile, readlink, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { stringify } from 'yaml';
import { type CommandResult, tryCommand, until } from './command.js';
import { docker, requireDocker } from './docker.js';
import { FOREIGN_ENTRYPOINT, OUR_ENTRYPOINT, standInImage } from './stand-in.js';
import { isAlive, temporaryFolder } from './temporary.js';
import type { TestUser } from './test-user.js';

export type Service = 'k3s' | 'k3s-agent';

export interface HostOptions {
  /** Default: node1, node2, … */
  readonly name?: string;
  /** Whose entrypoint the services have. Default: ours. */
  readonly entrypoint?: 'ours' | 'foreign';
  /** The service that is brought up, or null: both are absent. Default: k3s for the first three hosts, else k3s-agent. */
  readonly running?: Service | null;
  /** Environment of both services, over the defaults (K3S_TOKEN, K3S_URL, STAND_IN_ADDRESS). */
  readonly environment?: Readonly<Record<string, string>>;
  /** Environment of one service. */
  readonly serviceEnvironment?: Partial<Record<Service, Readonly<Record<string, string>>>>;
  /** Compose's `network_mode`. Default: none. */
  readonly network?: string;
  /** false: each container has a node password of its own. Default: one directory of the host for both. */
  readonly sharedPassword?: boolean;
  /** Names that the containers can look up. */
  readonly names?: Readonly<Record<string, string>>;
  /** The host's `.env`, byte for byte. Default: none. */
  readonly env?: string;
  /** Further files of the project directory; may replace docker-compose.yml. */
  readonly files?: Readonly<Record<string, string>>;
  /** false: there is no project directory at all. */
  readonly provisioned?: boolean;
}

export interface MakeHostsOptions {
  /** For all hosts, or by index from 0. */
  readonly host?: HostOptions | ((index: number) => HostOptions);
  /** Who owns the project directories. Default: root. */
  readonly owner?: TestUser;
  /** Default: the plain stand-in. */
  readonly image?: string;
}

export interface ContainerFacts {
  readonly id: string;
  readonly running: boolean;
  /** Docker's word: running, exited, restarting, created. */
  readonly status: string;
  readonly exitCode: number;
  readonly restartCount: number;
  readonly restartPolicy: string;
  readonly startedAt: string;
  /** Target to source of every mount. */
  readonly mounts: Readonly<Record<string, string>>;
  readonly environment: readonly string[];
  readonly entrypoint: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
}

export interface FileFacts {
  readonly type: 'file' | 'directory' | 'link' | 'other';
  /** Of a file; the target of a link. */
  readonly content: string | null;
  readonly mode: number;
  readonly owner: number;
  /** An equal time and inode prove that nothing was written, not even the same bytes. */
  readonly modified: bigint;
  readonly inode: bigint;
}

/** All that a run could have touched on a host; two of them are compared with `toEqual`. */
export interface HostSnapshot {
  readonly files: Readonly<Record<string, FileFacts>>;
  readonly containers: Readonly<Record<Service, ContainerFacts | null>>;
}

/** On every container of a test: the process that it belongs to. */
export const OWNER_LABEL = 'fleet-role.test';

/** One Compose host: a project directory, a project name and two container names of its own on the one engine. */
export class Host {
  readonly name: string;
  /** The project directory (`P_dir`). */
  readonly dir: string;
  /** k3s's data directory, mounted in both services. */
  readonly dataDir: string;
  /** Mounted at /stand-in: programs put here replace the stand-in's `k3s` and `kubectl`. */
  readonly standInDir: string;
  readonly project: string;
  readonly containers: Readonly<Record<Service, string>>;
  readonly #base: string;

  constructor(name: string, base: string) {
    this.name = name;
    this.#base = base;
    this.dir = join(base, 'project');
    this.dataDir = join(base, 'data');
    this.standInDir = join(base, 'stand-in');
    this.project = `frt-${randomBytes(3).toString('hex')}-${name}`;
    this.containers = { k3s: `${this.project}-k3s`, 'k3s-agent': `${this.project}-k3s-agent` };
  }

  /** The inventory variables that tell fleet-role where this host's project is. */
  variables(prefix = 'github_runner_cluster'): Record<string, string> {
    return {
      [`${prefix}_dir`]: this.dir,
      [`${prefix}_compose_project`]: this.project,
      [`${prefix}_container_name`]: this.containers.k3s,
      [`${prefix}_agent_container_name`]: this.containers['k3s-agent'],
    };
  }

  /** Lays the directories and files; nothing is started. */
  async provision(options: HostOptions, image: string, index: number): Promise<void> {
    for (const folder of [this.dataDir, this.standInDir, join(this.#base, 'node')])
      await mkdir(folder, { recursive: true });
    if (options.provisioned === false) return;
    await mkdir(this.dir, { recursive: true });
    await this.write('docker-compose.yml', this.#composeFile(options, image, index));
    if (options.env !== undefined) await this.write('.env', options.env);
    for (const [path, content] of Object.entries(options.files ?? {})) await this.write(path, content);
  }

  /** `docker compose ARGS` as an operator would say it in the project directory. */
  async compose(...args: string[]): Promise<CommandResult> {
    return tryCommand('docker', ['compose', '-p', this.project, ...args], { cwd: this.dir });
  }

  /** Brings a service up and waits until its container runs. Throws when Compose fails. */
  async up(service: Service): Promise<void> {
    const result = await this.compose('up', '-d', service);
    if (result.code !== 0) throw new Error(`docker compose up -d ${service} on ${this.name}:\n${result.stderr}`);
    await until(`${service} runs on ${this.name}`, async () => (await this.inspect(service))?.running === true);
  }

  /** The container of a service, or null when there is none. */
  async inspect(service: Service): Promise<ContainerFacts | null> {
    return (await inspectAll([this.containers[service]]))[0] ?? null;
  }

  /** Standard output and standard error of a service's container. */
  async logs(service: Service): Promise<string> {
    const result = await tryCommand('docker', ['logs', this.containers[service]]);
    return result.stdout + result.stderr;
  }

  /** Runs a program in a service's container. */
  exec(service: Service, ...args: string[]): Promise<CommandResult> {
    return tryCommand('docker', ['exec', this.containers[service], ...args]);
  }

  /** Writes a file of the project directory. */
  async write(path: string, content: string): Promise<void> {
    const file = join(this.dir, path);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, content);
  }

  /** A file of the project directory, or null when there is none. */
  async read(path: string): Promise<string | null> {
    return readFile(join(this.dir, path), 'utf8').catch(() => null);
  }

  /** Every file of the project directory, by path relative to it. */
  async files(): Promise<Record<string, FileFacts>> {
    const found: Record<string, FileFacts> = {};
    // A directory counts too: its time changes when something is made or removed in it.
    const paths = ['.', ...(await readdir(this.dir, { recursive: true }).catch(() => []))].sort();
    for (const path of paths) {
      const file = join(this.dir, path);
      const facts = await lstat(file, { bigint: true }).catch(() => null);
      if (facts === null) continue;
      const type = facts.isFile()
        ? 'file'
        : facts.isDirectory()
          ? 'directory'
          : facts.isSymbolicLink()
            ? 'link'
            : 'other';
      found[path] = {
        type,
        content: type === 'file' ? await readFile(file, 'utf8') : type === 'link' ? await readlink(file) : null,
        mode: Number(facts.mode & 0o7777n),
        owner: Number(facts.uid),
        modified: facts.mtimeNs,
        inode: facts.ino,
      };
    }
    return found;
  }

  /** Files and containers as they are now. */
  async snapshot(): Promise<HostSnapshot> {
    const [files, containers] = await Promise.all([this.files(), inspectAll(Object.values(this.containers))]);
    return { files, containers: { k3s: containers[0] ?? null, 'k3s-agent': containers[1] ?? null } };
  }

  #composeFile(options: HostOptions, image: string, index: number): string {
    const entrypoint = options.entrypoint === 'foreign' ? FOREIGN_ENTRYPOINT : OUR_ENTRYPOINT;
    const names = Object.entries(options.names ?? {}).map(([name, address]) => `${name}:${address}`);
    const service = (key: Service) => ({
      image,
      container_name: this.containers[key],
      entrypoint: [entrypoint, key === 'k3s' ? 'server' : 'agent'],
      // Most tests need no network, and a container without one starts in a third of the time.
      network_mode: options.network ?? 'none',
      restart: 'unless-stopped',
      stop_grace_period: '30s',
      environment: {
        K3S_TOKEN: 'fleet-token',
        ...(key === 'k3s-agent' ? { K3S_URL: 'https://100.64.0.1:6443' } : {}),
        STAND_IN_ADDRESS: `100.64.0.${index + 1}`,
        ...options.environment,
        ...options.serviceEnvironment?.[key],
      },
      volumes: [
        `${this.dataDir}:/var/lib/rancher/k3s`,
        ...(options.sharedPassword === false ? [] : [`${join(this.#base, 'node')}:/etc/rancher/node`]),
        `${this.standInDir}:/stand-in:ro`,
      ],
      labels: { [OWNER_LABEL]: String(process.pid) },
      ...(names.length > 0 ? { extra_hosts: names } : {}),
    });
    return stringify({ services: { k3s: service('k3s'), 'k3s-agent': service('k3s-agent') } }, { lineWidth: 0 });
  }
}

/** Several hosts on the one engine, and the end of them. */
export class Hosts {
  readonly list: readonly Host[];
  readonly #base: string;

  constructor(list: readonly Host[], base: string) {
    this.list = list;
    this.#base = base;
  }

  /** The host of a name. Throws when there is none. */
  get(name: string): Host {
    const host = this.list.find((h) => h.name === name);
    if (host === undefined) throw new Error(`there is no host ${name}`);
    return host;
  }

  /** Snapshots of all hosts by name. */
  async snapshot(): Promise<Record<string, HostSnapshot>> {
    const pairs = this.list.map(async (host) => [host.name, await host.snapshot()] as const);
    return Object.fromEntries(await Promise.all(pairs));
  }

  /** Removes containers, networks, volumes and directories, whatever a test did to the Compose files. */
  async remove(): Promise<void> {
    const projects = new Set(this.list.map((host) => host.project));
    const names = new Set(this.list.flatMap((host) => Object.values(host.containers)));
    await removeContainers(
      (labels, name) => projects.has(labels['com.docker.compose.project'] ?? '') || names.has(name),
    );
    for (const kind of ['network', 'volume']) {
      for (const project of projects) {
        const ids = await docker([kind, 'ls', '-q', '--filter', `label=com.docker.compose.project=${project}`]);
        if (ids.trim() !== '') await docker([kind, 'rm', ...ids.trim().split('\n')]);
      }
    }
    await rm(this.#base, { recursive: true, force: true });
  }
}

/**
 * Makes `count` Compose hosts side by side and brings up the service that each is to run. Containers of test runs that
 * were killed are removed first. Throws with the way out when there is no engine.
 */
export async function makeHosts(count: number, options: MakeHostsOptions = {}): Promise<Hosts> {
  await requireDocker();
  await removeContainers((labels) => OWNER_LABEL in labels && !isAlive(Number(labels[OWNER_LABEL])));
  const image = options.image ?? (await standInImage());
  const base = await temporaryFolder('hosts');
  const of = (index: number): HostOptions =>
    typeof options.host === 'function' ? options.host(index) : (options.host ?? {});
  const list = Array.from({ length: count }, (_, index) => {
    const name = of(index).name ?? `node${index + 1}`;
    return new Host(name, join(base, name));
  });
  const hosts = new Hosts(list, base);
  try {
    // An ordinary user must get through to its project directory.
    await tryCommand('chmod', ['755', base]);
    await Promise.all(
      list.map(async (host, index) => {
        const given = of(index);
        await host.provision(given, image, index);
        if (given.provisioned === false) return;
        if (options.owner !== undefined) await options.owner.own(host.dir);
        const running = given.running === undefined ? (index < 3 ? 'k3s' : 'k3s-agent') : given.running;
        if (running !== null) await host.up(running);
      }),
    );
  } catch (error) {
    await hosts.remove();
    throw error;
  }
  return hosts;
}

async function removeContainers(which: (labels: Record<string, string>, name: string) => boolean): Promise<void> {
  const ids = (await docker(['ps', '-aq', '--no-trunc'])).trim().split('\n').filter(Boolean);
  if (ids.length === 0) return;
  // One may end between the two commands: what could still be inspected is on standard output.
  const { stdout } = await tryCommand('docker', ['inspect', ...ids]);
  const found = (JSON.parse(stdout || '[]') as Inspected[]).filter((c) =>
    which(c.Config.Labels ?? {}, c.Name.slice(1)),
  );
  if (found.length > 0) await tryCommand('docker', ['rm', '-f', '-v', ...found.map((c) => c.Id)]);
}

interface Inspected {
  readonly Id: string;
  readonly Name: string;
  readonly RestartCount: number;
  readonly State: { Running: boolean; Status: string; ExitCode: number; StartedAt: string };
  readonly HostConfig: { RestartPolicy: { Name: string } };
  readonly Config: { Labels: Record<string, string> | null; Env: string[] | null; Entrypoint: string[] | null };
  readonly Mounts: { Destination: string; Source: string }[];
}

/** The containers of these names in this order; null for one that does not exist. */
async function inspectAll(names: readonly string[]): Promise<(ContainerFacts | null)[]> {
  // Exit status 1 says that one of them does not exist; the others are on standard output all the same.
  const { stdout, stderr } = await tryCommand('docker', ['inspect', '--type', 'container', ...names]);
  let all: Inspected[];
  try {
    all = JSON.parse(stdout) as Inspected[];
  } catch {
    throw new Error(`docker inspect ${names.join(' ')}: ${stderr.trim()}`);
  }
  return names.map((name) => {
    const c = all.find((one) => one.Name === `/${name}`);
    return c === undefined
      ? null
      : {
          id: c.Id,
          running: c.State.Running && c.State.Status === 'running',
          status: c.State.Status,
          exitCode: c.State.ExitCode,
          restartCount: c.RestartCount,
          restartPolicy: c.HostConfig.RestartPolicy.Name,
          startedAt: c.State.StartedAt,
          mounts: Object.fromEntries(c.Mounts.map((m) => [m.Destination, m.Source])),
          environment: c.Config.Env ?? [],
          entrypoint: c.Config.Entrypoint ?? [],
          labels: c.Config.Labels ?? {},
        };
  });
}
