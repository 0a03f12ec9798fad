import { type ChildProcess, spawn } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { onPath, type Shell } from './shells.js';

/** The files that ship, read anew by each test: the mutation runner changes them. */
export const SOURCE = new URL('../../src/node/', import.meta.url).pathname;

/** Where the entrypoint looks on a node. The production file has no switch for tests: they replace these lines. */
const ENTRYPOINT_PATHS = {
  role_dir: '/etc/github-runner',
  server_dir: '/var/lib/rancher/k3s/server',
  config_dir: '/etc/rancher/k3s',
  mesh_state: '/var/lib/tailscale/tailscaled.state',
  resolv_conf: '/etc/k3s-resolv.conf',
  hosts_file: '/etc/hosts',
};

/** What the scripts may use of the rancher/k3s image (fact 6.9), beside cat, rm and mkdir. Nothing else is on PATH. */
const IMAGE_TOOLS = ['awk', 'sed', 'sleep', 'cat', 'rm', 'mkdir'];

/**
 * What the stand-ins on PATH do; each is a piece of sh that sees its arguments and `$root`. All write `NAME ARGUMENTS`
 * to the list of calls first. Unless told: the daemon runs, this node is logged in, every name resolves, k3s ends at
 * once with 0, and neither a cluster nor Headscale answers.
 */
const STUBS: Readonly<Record<string, string>> = {
  tailscaled: 'exec sleep 300',
  tailscale: `case $1 in
  status) [ "\${2:-}" != --json ] || echo '{ "BackendState": "Running" }' ;;
  ip) echo 100.64.0.7 ;;
esac`,
  k3s: 'exit 0',
  kubectl: "echo 'Unable to connect to the server: dial tcp: connection refused' >&2; exit 1",
  wget: 'exit 1',
  nslookup: 'echo "Name: $1"; echo "Address: 100.64.0.1"',
};

/** Milliseconds after which a run is given up; a run takes some tens of them. */
const TOO_LONG = 15_000;

/** How a run of the entrypoint ended, and what it did until then. */
export interface Outcome {
  /** `started`: this process became k3s. `idle`: it stayed, and ended only when it was told. `refused`: exit 1. */
  readonly kind: 'started' | 'idle' | 'refused';
  /** The exit status; of an idle one after TERM. Null when a signal ended it. */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** The calls of the stand-ins in their order, one a line: `k3s server --cluster-init`. */
  readonly calls: readonly string[];
  /** The calls of k3s alone. */
  readonly k3s: readonly string[];
}

export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** Ends the run with TERM once this holds, for one that neither idles nor ends by itself. */
  readonly stopWhen?: (calls: readonly string[], stderr: string) => boolean;
  readonly args?: readonly string[];
}

/** A machine to run the node scripts on: a root folder of its own and stand-ins for all programs that have effects. */
export class PrivateNode {
  readonly root = mkdtempSync(join(tmpdir(), 'fleet-role-node-'));
  readonly #shell: Shell;
  readonly #running: ChildProcess[] = [];

  constructor(shell: Shell) {
    this.#shell = shell;
    for (const folder of ['bin', 'tools', 'etc', 'var/lib/rancher/k3s', 'etc/rancher/k3s']) this.folder(folder);
    this.write('calls', '');
    this.write('etc/hosts', '127.0.0.1 localhost\n');
    for (const [name, body] of Object.entries(STUBS)) this.stub(name, body);
    for (const tool of IMAGE_TOOLS) {
      // Under busybox's shell the tools are busybox's too, as they are in the image.
      const file = onPath(this.#shell.command[0] === 'busybox' ? 'busybox' : tool);
      if (file !== null) symlinkSync(file, join(this.root, 'tools', tool));
    }
    symlinkSync(onPath('sh') ?? '/bin/sh', join(this.root, 'tools', 'sh'));
  }

  /** A path below this machine's root. */
  path(name: string): string {
    return join(this.root, name);
  }

  folder(name: string): void {
    mkdirSync(this.path(name), { recursive: true });
  }

  write(name: string, text: string): void {
    mkdirSync(dirname(this.path(name)), { recursive: true });
    writeFileSync(this.path(name), text);
  }

  read(name: string): string {
    return readFileSync(this.path(name), 'utf8');
  }

  remove(name: string): void {
    rmSync(this.path(name), { recursive: true, force: true });
  }

  role(text: string): void {
    this.write('etc/github-runner/role', text);
  }

  joinUrl(text: string): void {
    this.write('etc/github-runner/join-url', text);
  }

  /** Makes a datastore as k3s does: for etcd a folder. */
  datastore(kind: 'etcd' | 'sqlite'): void {
    if (kind === 'etcd') this.folder('var/lib/rancher/k3s/server/db/etcd/member/wal');
    else this.write('var/lib/rancher/k3s/server/db/state.db', 'SQLite format 3');
  }

  tombstone(): void {
    this.write('var/lib/rancher/k3s/server/db/etcd/tombstone', '');
  }

  setAside(name = 'db.demoted'): void {
    this.folder(`var/lib/rancher/k3s/server/${name}/etcd/member/wal`);
  }

  /** Gives the stand-ins a program more. */
  symlinkTool(name: string): void {
    symlinkSync(onPath(name) ?? name, join(this.root, 'tools', name));
  }

  /** Replaces what the stand-in `name` does. */
  stub(name: string, body: string): void {
    const file = this.path(`bin/${name}`);
    // One write a line, so that calls of two processes do not mix.
    writeFileSync(file, `#!/bin/sh\nroot='${this.root}'\necho "${name} $*" >>"$root/calls"\n${body}\n`);
    chmodSync(file, 0o755);
  }

  calls(): string[] {
    return readFileSync(this.path('calls'), 'utf8').split('\n').slice(0, -1);
  }

  /** Runs the entrypoint until it becomes k3s, idles, refuses, or `stopWhen` holds. */
  async entrypoint(service: string, options: RunOptions = {}): Promise<Outcome> {
    const run = this.#spawn(this.#privateEntrypoint(), [service, ...(options.args ?? [])], options.env ?? {});
    let idle = false;
    const end = Date.now() + TOO_LONG;
    while (run.ended() === undefined) {
      idle = /; idle until/.test(run.stderr()) && onlySleeps(run.child.pid ?? 0);
      if (idle || options.stopWhen?.(this.calls(), run.stderr())) break;
      if (Date.now() > end) throw new Error(`the entrypoint goes on; it said: ${run.stderr()}`);
      await Promise.race([run.end, new Promise((resolve) => setTimeout(resolve, 20))]);
    }
    if (run.ended() === undefined) run.child.kill('SIGTERM');
    const code = await run.end;
    const calls = this.calls();
    const k3s = calls.filter((call) => call.startsWith('k3s ')).map((call) => call.slice('k3s '.length));
    return {
      kind: idle ? 'idle' : code === 1 ? 'refused' : 'started',
      code,
      stdout: run.stdout(),
      stderr: run.stderr(),
      calls,
      k3s,
    };
  }

  /** Runs fleet-role-is.sh, with `/…` in the arguments taken below this machine's root. */
  async guard(
    args: readonly string[],
    env: Readonly<Record<string, string>> = {},
  ): Promise<{ code: number | null; stderr: string }> {
    const script = this.#privateCopy('fleet-role-is.sh', { config_dir: ENTRYPOINT_PATHS.config_dir });
    const run = this.#spawn(
      script,
      args.map((arg) => (arg.startsWith('/') ? this.path(arg) : arg)),
      env,
    );
    return { code: await run.end, stderr: run.stderr() };
  }

  /** Ends what is left of every run and removes the folder. */
  dispose(): void {
    for (const child of this.#running) {
      try {
        if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
      } catch {
        // Nothing of it is left.
      }
    }
    rmSync(this.root, { recursive: true, force: true });
  }

  /** The production file with its paths moved below the root, and waits of seconds made short. */
  #privateEntrypoint(): string {
    return this.#privateCopy('node-entrypoint.sh', ENTRYPOINT_PATHS, (text) =>
      text.replaceAll(/\bpause [1-9]$/gm, 'pause 0.02').replaceAll(/\bsleep 5$/gm, 'sleep 0.02'),
    );
  }

  #privateCopy(
    name: string,
    paths: Readonly<Record<string, string>>,
    more: (text: string) => string = (text) => text,
  ): string {
    let text = readFileSync(join(SOURCE, name), 'utf8');
    for (const [variable, path] of Object.entries(paths)) {
      const line = `\n${variable}=${path}\n`;
      if (text.split(line).length !== 2) throw new Error(`${name} must have exactly one line ${line.trim()}`);
      text = text.replace(line, `\n${variable}='${this.path(path)}'\n`);
    }
    const file = this.path(name);
    writeFileSync(file, more(text));
    return file;
  }

  #spawn(script: string, args: readonly string[], env: Readonly<Record<string, string>>) {
    const [program, ...options] = this.#shell.command;
    // Files and not pipes: a stand-in that outlives the shell would hold a pipe open.
    const run = this.#running.length;
    const files = ['stdout', 'stderr'].map((name) => this.path(`${name}-${run}`)) as [string, string];
    const [out, err] = [openSync(files[0], 'w'), openSync(files[1], 'w')];
    const child = spawn(onPath(program) ?? program, [...options, script, ...args], {
      env: { PATH: `${this.path('bin')}:${this.path('tools')}`, ...env },
      cwd: this.root,
      // A group of its own: dispose ends the stand-ins too.
      detached: true,
      stdio: ['ignore', out, err],
    });
    closeSync(out);
    closeSync(err);
    this.#running.push(child);
    let ended: number | null | undefined;
    const end = new Promise<number | null>((resolve) => {
      child.on('exit', resolve);
      child.on('error', (error) => {
        writeFileSync(files[1], error.message);
        resolve(null);
      });
    });
    void end.then((code) => {
      ended = code;
    });
    return {
      child,
      /** Resolves with the exit status, with null when a signal ended it. */
      end,
      ended: () => ended,
      stdout: () => readFileSync(files[0], 'utf8'),
      stderr: () => readFileSync(files[1], 'utf8'),
    };
  }
}

/**
 * Whether the process has exactly one child and that is a sleep (busybox's shell runs its own as a copy of itself), or
 * is a sleep itself, which is seen by how it ends.
 */
function onlySleeps(pid: number): boolean {
  if (process.platform !== 'linux') return true;
  const isSleep = (id: string | number) => /^(sleep|busybox)\n/.test(readFileSync(`/proc/${id}/comm`, 'utf8'));
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean);
    return children.length === 0 ? isSleep(pid) : children.length === 1 && isSleep(children[0] ?? '');
  } catch {
    return false;
  }
}
