import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { command, tryCommand, until } from './command.js';
import { CLUSTER_KUBECTL, type ClusterState } from './kubectl.js';
import { isAlive, temporaryFolder } from './temporary.js';

const STAND_IN = new URL('../e2e/stand-in/native/', import.meta.url).pathname;
/** Where the stand-in systemctl keeps what systemd would know. */
const STATE = '/var/lib/stand-in-systemd';

/** A unit as k3s's install script makes it (facts 9.6 to 9.9). `words` follow `k3s server` or `k3s agent`. */
export function unitText(service: 'k3s' | 'k3s-agent', words: readonly string[] = []): string {
  const role = service === 'k3s' ? 'server' : 'agent';
  return `[Unit]
Description=Lightweight Kubernetes
Wants=network-online.target
After=network-online.target

[Install]
WantedBy=multi-user.target

[Service]
Type=notify
EnvironmentFile=-/etc/default/${service}
EnvironmentFile=-/etc/systemd/system/${service}.service.env
KillMode=process
TimeoutStartSec=0
Restart=always
RestartSec=5s
ExecStart=/usr/local/bin/k3s \\
    ${role} \\
${words.map((word) => `\t'${word}' \\\n`).join('')}
`;
}

/**
 * Whether this process may make such a machine: it has to be root of a kernel with namespaces. Throws where it may not
 * and FLEET_ROLE_ALL_SHELLS=1 (set by .ci/run) says that nothing may be left out.
 */
export function canMakeNativeHosts(): boolean {
  const can = spawnSync('unshare', ['--mount', '--uts', 'true']).status === 0;
  if (!can && process.env.FLEET_ROLE_ALL_SHELLS === '1') throw new Error('name spaces cannot be made: run it as root');
  return can;
}

/**
 * A machine with systemd units for k3s: a mount and a host name space of its own, in which /etc and /var/lib are its own
 * and /usr/local/bin holds stand-ins for systemctl and k3s. Needs root.
 */
export class NativeHost {
  readonly name: string;
  readonly root: string;
  readonly #holder: ChildProcess;

  private constructor(name: string, root: string, holder: ChildProcess) {
    this.name = name;
    this.root = root;
    this.#holder = holder;
  }

  /** Its host name is `name`; accounts are those of the real machine at this moment. */
  static async start(name: string): Promise<NativeHost> {
    const root = await temporaryFolder('native');
    chmodSync(root, 0o755);
    for (const folder of ['etc', 'var/lib', 'bin']) mkdirSync(join(root, folder), { recursive: true });
    await command('cp', ['-a', '/etc/.', join(root, 'etc')]);
    for (const made of ['systemd/system', 'rancher', 'github-runner']) {
      rmSync(join(root, 'etc', made), { recursive: true, force: true });
    }
    mkdirSync(join(root, 'etc/systemd/system'), { recursive: true });
    cpSync(STAND_IN, join(root, 'bin'), { recursive: true });
    const binds = [
      ['etc', '/etc'],
      ['var/lib', '/var/lib'],
      ['bin', '/usr/local/bin'],
    ].map(([from, to]) => `mount --bind '${join(root, from as string)}' ${to}`);
    const script = `${binds.join(' && ')} && hostname '${name}' && echo ready && exec sleep 100000`;
    const holder = spawn('unshare', ['--mount', '--uts', '--propagation', 'private', 'sh', '-c', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let ready = false;
    holder.stdout?.on('data', () => {
      ready = true;
    });
    await until(`the machine ${name} is there`, () => ready);
    return new NativeHost(name, root, holder);
  }

  /** The command that runs another one in this machine. */
  get inside(): readonly string[] {
    return ['nsenter', '-t', String(this.#holder.pid), '-m', '-u', '--'];
  }

  /** A file of this machine, by its path there, as a path of the real one. Only below /etc and /var/lib. */
  path(path: string): string {
    return join(this.root, path);
  }

  exists(path: string): boolean {
    return existsSync(this.path(path));
  }

  /** The text of a file; null when it is not there. */
  read(path: string): string | null {
    return this.exists(path) ? readFileSync(this.path(path), 'utf8') : null;
  }

  write(path: string, text: string, mode = 0o644): void {
    mkdirSync(dirname(this.path(path)), { recursive: true });
    writeFileSync(this.path(path), text);
    chmodSync(this.path(path), mode);
  }

  remove(path: string): void {
    rmSync(this.path(path), { recursive: true, force: true });
  }

  /** Puts a unit there, as the install script does; `words` follow `k3s server` or `k3s agent`. */
  unit(service: 'k3s' | 'k3s-agent', words: readonly string[] = []): void {
    this.write(`/etc/systemd/system/${service}.service`, unitText(service, words));
  }

  /** Tells the stand-in something about a unit, such as `never-up`; null takes it back. */
  fact(service: 'k3s' | 'k3s-agent', name: string, text: string | null): void {
    const path = `${STATE}/${service}.service/${name}`;
    if (text === null) this.remove(path);
    else this.write(path, text);
  }

  /** What systemctl says instead of doing anything; null: it works again. */
  broken(words: string | null): void {
    if (words === null) this.remove(`${STATE}/broken`);
    else this.write(`${STATE}/broken`, `${words}\n`);
  }

  /** The cluster that `k3s kubectl` shows while a server runs here: a directory that several machines may share. */
  kubectl(state: ClusterState): void {
    const script = `#!/bin/sh\nSTAND_IN_STATE='${state.directory}' exec sh '${CLUSTER_KUBECTL}' "$@"\n`;
    this.write(`${STATE}/kubectl`, script, 0o755);
  }

  /** Runs systemctl as the machine's administrator would: outside fleet-role's calls. */
  async systemctl(...args: readonly string[]): Promise<void> {
    const calls = this.read(`${STATE}/calls`);
    await command(this.inside[0] as string, [...this.inside.slice(1), 'systemctl', ...args]);
    if (calls === null) this.remove(`${STATE}/calls`);
    else this.write(`${STATE}/calls`, calls);
  }

  /** Enables and starts a unit, and waits until k3s runs. */
  async up(service: 'k3s' | 'k3s-agent'): Promise<void> {
    await this.systemctl('enable', `${service}.service`);
    await this.systemctl('start', '--no-block', `${service}.service`);
    await until(`${service} runs`, () => /^active running/.test(this.active(service)));
  }

  /** ActiveState, SubState and the id of k3s's process. */
  active(service: 'k3s' | 'k3s-agent'): string {
    return this.read(`${STATE}/${service}.service/active`) ?? 'inactive dead 0';
  }

  isEnabled(service: 'k3s' | 'k3s-agent'): boolean {
    return this.read(`/etc/systemd/system/${service}.service`) !== null && this.#wanted(service);
  }

  #wanted(service: string): boolean {
    const link = this.path(`/etc/systemd/system/multi-user.target.wants/${service}.service`);
    return spawnSync('test', ['-L', link]).status === 0;
  }

  /** k3s of that unit ends by itself; systemd starts it again. */
  async crash(service: 'k3s' | 'k3s-agent'): Promise<void> {
    const pid = Number(this.active(service).split(' ')[2]);
    if (!(pid > 1)) throw new Error(`${service} does not run`);
    process.kill(pid, 'SIGKILL');
    await until('k3s is gone', () => this.active(service).split(' ')[2] !== String(pid));
  }

  /** Everything ends, and what is enabled starts again. */
  async reboot(): Promise<void> {
    for (const service of ['k3s', 'k3s-agent'] as const) {
      if (this.read(`/etc/systemd/system/${service}.service`) !== null)
        await this.systemctl('stop', `${service}.service`);
      this.remove(`${STATE}/${service}.service`);
    }
    for (const service of ['k3s', 'k3s-agent'] as const) {
      if (this.isEnabled(service)) await this.systemctl('start', '--no-block', `${service}.service`);
    }
    await until('every start is decided', () =>
      (['k3s', 'k3s-agent'] as const).every(
        (service) => !this.isEnabled(service) || !/^activating condition/.test(this.active(service)),
      ),
    );
  }

  /** Every call of systemctl by fleet-role and its guards so far. */
  calls(): string[] {
    return (this.read(`${STATE}/calls`) ?? '').split('\n').filter(Boolean);
  }

  /** `server … K3S_URL=…`: each start of k3s. */
  starts(): string[] {
    return (this.read(`${STATE}/k3s-starts`) ?? '').split('\n').filter(Boolean);
  }

  /** As it was made: no unit, no file of ours, no state. */
  async reset(): Promise<void> {
    await this.#endServices();
    for (const path of ['/etc/github-runner', '/etc/rancher', '/etc/default/k3s', '/var/lib/rancher', STATE]) {
      this.remove(path);
    }
    this.remove('/etc/systemd/system');
    mkdirSync(this.path('/etc/systemd/system'));
  }

  /** Ends everything that runs in it and removes it. */
  async close(): Promise<void> {
    await this.#endServices();
    const ended = new Promise<void>((resolve) => this.#holder.once('exit', () => resolve()));
    this.#holder.kill('SIGKILL');
    await ended;
    rmSync(this.root, { recursive: true, force: true });
  }

  async #endServices(): Promise<void> {
    for (const service of ['k3s', 'k3s-agent'] as const) {
      const supervisor = Number(this.read(`${STATE}/${service}.service/supervisor`) ?? 0);
      if (supervisor > 1) await tryCommand('kill', [String(supervisor)]);
      await until('the supervisor has ended', () => supervisor <= 1 || !isAlive(supervisor));
    }
  }
}
