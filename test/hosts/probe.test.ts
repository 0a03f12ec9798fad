import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Connection, Result } from '../../src/hosts/connection.js';
import { lookAt } from '../../src/hosts/probe.js';
import { valueOr } from '../../src/plan/observation.js';
import { composeHost, containerLine, hasShell, LocalHost, SHELLS, type Shell, step } from './helpers.js';

const AGENT = { name: '/github-runner-k3s-agent' };

let host: LocalHost;

const start = (shell: Shell) => () => {
  host = new LocalHost(shell);
  host.write('docker-compose.yml', 'services: {}\n');
};

/** Both services, or why they are unknown. */
async function services(overrides = {}) {
  const seen = await host.reached(overrides);
  return seen.services.kind === 'unknown' ? seen.services.why : seen.services.value;
}

async function state(container: Record<string, unknown>, pid = 0): Promise<string | undefined> {
  host.docker({ out: containerLine(container, pid) + containerLine(AGENT) });
  return valueOr((await host.reached()).services, null)?.k3s.state;
}

describe.each(SHELLS.filter(hasShell))('looking at a host whose sh is %s', (shell) => {
  beforeEach(start(shell));
  afterEach(() => host.close());

  it('asks docker once, in one way', async () => {
    await host.reached({ dockerContext: 'colima' });
    const [call, ...more] = host.dockerCalls();
    expect(more).toEqual([]);
    const [context, name, command, type, kind, format, template, ...names] = call ?? [];
    expect([context, name, command, type, kind, format]).toEqual(
      '--context colima inspect --type container --format'.split(' '),
    );
    expect(template).toMatch(/^fleet-role \{\{\.State\.Pid\}\} \{/);
    // The last one is what a look that was killed may have left.
    expect(names).toEqual(['github-runner-k3s', 'github-runner-k3s-agent', 'fleet-role-look-github-runner-k3s']);
  });

  it('takes a container for absent where docker said that there is none of that name', async () => {
    expect(await services()).toMatchObject({ k3s: { state: 'absent' }, 'k3s-agent': { state: 'absent' } });
    host.docker({
      out: containerLine({ status: 'exited' }),
      err: 'Error: No such container: github-runner-k3s-agent\n',
    });
    expect(await services()).toMatchObject({
      k3s: { state: 'stopped', containerId: 'c0ffee', restartPolicy: 'unless-stopped' },
      'k3s-agent': { state: 'absent', containerId: null, restartPolicy: null },
    });
  });

  it.each<[string, Parameters<LocalHost['docker']>[0], RegExp]>([
    [
      'the daemon does not answer',
      { err: 'Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\n' },
      /^docker: Cannot connect to the Docker daemon/,
    ],
    ['docker needs sudo', { err: 'permission denied while trying to connect\nmore\n' }, /^docker: permission denied/],
    ['docker says nothing', { err: ' ', code: 1 }, /said nothing about github-runner-k3s \(exit status 1\)/],
    ['docker says nothing and is content', { err: ' ', code: 0 }, /said nothing about github-runner-k3s/],
    ...['github-runner-k3s-old', 'old-github-runner-k3s', 'github-runner-k3s: and more'].map(
      (other): [string, Parameters<LocalHost['docker']>[0], RegExp] => [
        `docker says that something else does not exist: ${other}`,
        { err: `Error: No such container: ${other}\nError: No such container: github-runner-k3s-agent\n` },
        new RegExp(`^docker: Error: No such container: ${other}`),
      ],
    ),
    ['docker answers nonsense', { out: 'fleet-role 1 {"id":"x"\n' }, /describes no container/],
    ['docker answers another form', { out: 'fleet-role 1 {"id":"x","name":3}\n' }, /describes no container/],
    ['docker answers other nonsense', { out: '<html>\n' }, /^docker: <html>/],
    [
      'docker fails half way',
      { out: containerLine(), err: 'Error response from daemon: broken\n', code: 1 },
      /^docker: Error response from daemon: broken/,
    ],
  ])('never takes it for absent when %s', async (_what, answer, why) => {
    host.docker(answer);
    expect(await services()).toMatch(why);
    expect(await host.reached()).toMatchObject({ provisioned: true });
  });

  it('tells the rest when docker hangs', async () => {
    host.docker({ script: 'exec sleep 600' });
    host.write('fleet-role.d/role', 'agent');
    const seen = await lookAt(host.connection, composeHost(), { seconds: 6 });
    expect(seen).toMatchObject({
      kind: 'reached',
      role: { text: 'agent' },
      services: { kind: 'unknown', why: 'docker: docker did not answer within 2 seconds' },
    });
  });

  it('knows running from idle by the processes in the container', async () => {
    const id = 'c0ffee1234567890';
    writeFileSync(join(host.base, 'k3s'), '#!/bin/sh\nsleep 600\n', { mode: 0o755 });
    writeFileSync(join(host.base, 'k3s-server (x) y'), '#!/bin/sh\nsleep 600\n', { mode: 0o755 });
    writeFileSync(join(host.base, 'k3s-entrypoint'), '#!/bin/sh\nsleep 600\n', { mode: 0o755 });
    const family = await Family.start(id, [
      `sh -c '${host.base}/k3s & wait' & echo $!`,
      `sh -c 'sh -c "\\"${host.base}/k3s-server (x) y\\" & wait" & wait' & echo $!`,
      'sleep 600 & echo $!',
      `sh -c '${host.base}/k3s-entrypoint & wait' & echo $!`,
    ]);
    try {
      const [running = 0, below = 0, idle = 0, waiting = 0] = family.pids;
      expect(await state({ id }, running)).toBe('running');
      expect(await state({ id }, below)).toBe('running');
      expect(await state({ id }, idle)).toBe('idle');
      // An entrypoint that is only called like k3s.
      expect(await state({ id }, waiting)).toBe('idle');
      // A process of that number that is not the container's: the engine runs on another machine.
      expect(await state({ id: 'decafbad12345678' }, running)).toBe('unknown');
      expect(await state({ id }, process.pid)).toBe('unknown');
      const now = new Date().toISOString();
      expect(await state({ id, restartCount: 3, startedAt: now }, idle)).toBe('refusing');
      expect(await state({ id, restartCount: 3 }, idle)).toBe('idle');
      expect(await state({ id, restartCount: 0, startedAt: now }, idle)).toBe('idle');
    } finally {
      family.end();
    }
  });

  it('asks a second time when the process ended in between', async () => {
    expect(await state({}, 4194399)).toBe('unknown');
    expect(host.dockerCalls()).toHaveLength(2);
  });
});

describe('what docker says of a container', () => {
  beforeEach(start('dash'));
  afterEach(() => host.close());

  it.each([
    [{ status: 'restarting', exitCode: 1 }, 'refusing'],
    [{ status: 'restarting', exitCode: 137 }, 'restarting'],
    [{ status: 'exited', exitCode: 1 }, 'stopped'],
    [{ status: 'created' }, 'stopped'],
    [{ status: 'dead' }, 'stopped'],
    [{ status: 'paused' }, 'unknown'],
    [{ status: 'removing' }, 'unknown'],
    [{ status: 'something new' }, 'unknown'],
    [{ status: 'running' }, 'unknown'],
  ])('means a state: %j is %s', async (container, expected) => {
    expect(await state(container)).toBe(expected);
  });

  it('has the join URL of its own service in its environment', async () => {
    const environment = ['K3S_URL=https://a:1', 'K3S_JOIN_SERVER_URL=https://b:2', null];
    host.docker({ out: containerLine({ environment }) + containerLine({ ...AGENT, environment }) });
    expect(await services()).toMatchObject({
      k3s: { joinUrlEnvironment: 'https://b:2' },
      'k3s-agent': { joinUrlEnvironment: 'https://a:1' },
    });
    host.docker({ out: containerLine({ environment: ['K3S_JOIN_SERVER_URL=', null] }) + containerLine(AGENT) });
    expect(await services()).toMatchObject({ k3s: { joinUrlEnvironment: null } });
  });

  it('has the Compose files of its label', async () => {
    host.docker({
      out: containerLine({ configFiles: '/a/b.yml,/c.yml' }) + containerLine({ ...AGENT, configFiles: null }),
    });
    expect(await services()).toMatchObject({
      k3s: { configFiles: ['/a/b.yml', '/c.yml'] },
      'k3s-agent': { configFiles: null },
    });
  });

  it('has the role directory mounted only read-only, there, and from this host', async () => {
    const real = join(host.base, 'real');
    mkdirSync(join(real, 'fleet-role.d'), { recursive: true });
    writeFileSync(join(real, 'compose.yaml'), '');
    rmSync(host.directory, { recursive: true });
    symlinkSync(real, host.directory);
    const mounted = async (mount: Record<string, unknown>) => {
      const mounts = [{ Type: 'volume' }, { Destination: '/etc/github-runner', RW: false, ...mount }];
      host.docker({ out: containerLine({ mounts }) + containerLine({ ...AGENT, mounts: null }) });
      return valueOr((await host.reached()).services, null)?.k3s.mounted;
    };
    expect(await mounted({ Source: `${host.directory}/fleet-role.d` })).toBe(true);
    expect(await mounted({ Source: `${real}/fleet-role.d` })).toBe(true);
    expect(await mounted({ Source: `${real}/fleet-role.d`, RW: true })).toBe(false);
    expect(await mounted({ Source: `${real}/fleet-role.d`, Destination: '/etc' })).toBe(false);
    expect(await mounted({ Source: '/other/fleet-role.d' })).toBe(false);
    expect(await mounted({ Source: null })).toBe(false);
  });
});

describe('a host', () => {
  beforeEach(start('dash'));
  afterEach(() => host.close());

  it.each([
    ['docker-compose.yml', ['docker-compose.yml'], {}, true],
    ['docker-compose.yaml', ['docker-compose.yaml'], {}, true],
    ['compose.yaml', ['compose.yaml'], {}, true],
    ['compose.yml', ['compose.yml'], {}, true],
    ['a file that COMPOSE_FILE names', ['node.yml', '.env=COMPOSE_FILE=node.yml'], {}, true],
    ['a file of the inventory', ['deploy/node.yml'], { composeFiles: ['deploy/node.yml'] }, true],
    ['nothing', [], {}, false],
    ['our override alone', ['docker-compose.fleet-role.yml'], {}, false],
    ['names of files that are gone', ['.env=COMPOSE_FILE=node.yml'], { composeFiles: ['x.yml'] }, false],
  ])('is provisioned by its Compose file: %s', async (_what, files, overrides, provisioned) => {
    rmSync(host.path('docker-compose.yml'));
    for (const file of files) {
      const [name = '', ...text] = file.split('=');
      host.write(name, text.join('='));
    }
    expect((await host.reached(overrides)).provisioned).toBe(provisioned);
  });

  it.each([
    ['~', ''],
    ['~/', ''],
    ['~/.github-runner', '.github-runner'],
    ['~/.github-runner//', '.github-runner'],
    ['other dir/$(id)', 'other dir/$(id)'],
  ])('has its project in %j of the home', async (directory, path) => {
    expect((await host.reached({ directory })).directory).toBe(join(host.home, path));
  });

  it('is not a user who is meant by the tilde', async () => {
    expect((await host.reached({ directory: '~root/x' })).directory).toBe(join(host.home, '~root/x'));
  });

  it('without docker is unknown, with the rest told', async () => {
    // Not by a connection: that adds the usual folders to PATH, where this machine has a docker.
    const tools = join(host.base, 'tools');
    mkdirSync(tools);
    for (const tool of ['sh', 'awk', 'cat', 'cmp', 'date', 'wc', 'tr', 'id', 'sed', 'ls', 'readlink']) {
      symlinkSync(`/usr/bin/${tool}`, join(tools, tool));
    }
    const connection: Connection = {
      run(script, input) {
        const main = `main() {\n${script}\n}\nmain "$@"`;
        const ran = spawnSync('/usr/bin/dash', ['-c', main, 'sh', host.home], { input, env: { PATH: tools } });
        return Promise.resolve({ kind: 'done', stdout: ran.stdout.toString() });
      },
    };
    expect(await lookAt(connection, composeHost(), { seconds: 5 })).toMatchObject({
      kind: 'reached',
      provisioned: true,
      services: { kind: 'unknown', why: 'there is no docker on this host' },
    });
  });

  it('whose .env cannot be understood is not reached, with words', async () => {
    host.write('.env', 'A="\n');
    expect(await host.look()).toMatchObject({
      kind: 'unreachable',
      class: 'command',
      message: expect.stringMatching(/^node1: .*\.env has a quote that is never closed.*\.$/),
    });
  });

  it.each([
    [{ directory: '/a\nend' }, /control character/],
    [{ composeProject: 'a\u001b' }, /control character/],
    [{ containers: { k3s: '--help', 'k3s-agent': 'a' } }, /'--help' is no name of a container/],
    [{ containers: { k3s: 'a', 'k3s-agent': 'a' } }, /one name/],
    [{ dockerContext: '-H' }, /no name of a Docker context/],
  ])('is not contacted with %j in its inventory', async (overrides, words) => {
    const untouched: Connection = { run: () => Promise.reject(new Error('contacted')) };
    const seen = await lookAt(untouched, composeHost(overrides), { seconds: 5 });
    expect(seen).toMatchObject({ kind: 'unreachable', message: expect.stringMatching(words) });
  });

  it.each<[Result, unknown]>([
    [
      { kind: 'timed-out', seconds: 7 },
      { class: 'time-out', message: expect.stringContaining('within 7 seconds') },
    ],
    [
      { kind: 'exited', code: 2, stdout: '', stderr: 'sh: bad\n' },
      { class: 'command', message: expect.stringContaining('status 2: sh: bad') },
    ],
    [
      { kind: 'done', stdout: 'directory /a\n' },
      { class: 'command', message: expect.stringContaining('its end') },
    ],
    [{ kind: 'done', stdout: '' }, { class: 'command' }],
  ])('whose script answers %j is not reached', async (result, expected) => {
    const connection: Connection = { run: () => Promise.resolve(result) };
    const seen = await lookAt(connection, composeHost(), { seconds: 5 });
    expect(seen).toMatchObject({ kind: 'unreachable', ...(expected as object) });
  });
});

describe('stopping a service', () => {
  beforeEach(start('dash'));
  afterEach(() => host.close());

  const compose = () => host.dockerCalls().filter((call) => call.includes('compose'));

  /** A docker with both services up, whose `compose stop` does this. */
  const both = (stop: string) => {
    const lines = (status: string) => containerLine({ status }) + containerLine({ ...AGENT, status });
    writeFileSync(join(host.base, 'up'), lines('running'));
    writeFileSync(join(host.base, 'down'), lines('exited'));
    host.docker({
      script: `case $1 in compose) ${stop} ;; esac
if [ -e ${host.base}/stopped ]; then cat ${host.base}/down; else cat ${host.base}/up; fi; exit 0`,
    });
  };

  it('names the project, its files and the service, and nothing else', async () => {
    host.write('.env', 'COMPOSE_FILE=docker-compose.yml:more.yml:docker-compose.fleet-role.yml\n');
    host.write('more.yml', '');
    host.write('extra.yml', '');
    both(`: >${host.base}/stopped; exit 0`);
    const stop = () => host.do([step('stop-service', null, 'k3s-agent')], { composeFiles: ['extra.yml', 'more.yml'] });
    expect((await stop()).failed).toBeNull();
    // Once more: there is nothing to stop.
    expect((await stop()).failed).toBeNull();
    expect(compose()).toEqual([
      [
        ...['compose', '--project-name', 'github-runner', '--project-directory', host.directory],
        ...['-f', host.path('docker-compose.yml'), '-f', host.path('more.yml'), '-f', host.path('extra.yml')],
        ...['stop', '-t', '30', 'k3s-agent'],
      ],
    ]);
  });

  it('fails with the words of docker', async () => {
    both('echo pulling; echo "no configuration file" >&2; exit 14');
    const result = await host.do([step('stop-service', null, 'k3s')]);
    expect(result.failed?.message).toBe('Docker compose: no configuration file.');
  });

  it('fails when docker says that it is done and it is not', async () => {
    both('exit 0');
    const result = await host.do([step('stop-service', null, 'k3s')]);
    expect(result.failed?.message).toBe('Github-runner-k3s is still running.');
  });

  it('does nothing where docker says that there is no container, and fails where it says something else', async () => {
    expect((await host.do([step('stop-service', null, 'k3s')])).failed).toBeNull();
    expect(compose()).toEqual([]);
    host.docker({ err: 'Cannot connect to the Docker daemon\n' });
    expect((await host.do([step('stop-service', null, 'k3s')])).failed?.message).toBe(
      'Docker: Cannot connect to the Docker daemon.',
    );
  });

  it('fails when a file of the list is gone', async () => {
    host.write('.env', 'COMPOSE_FILE=gone.yml\n');
    both('exit 0');
    const result = await host.do([step('stop-service', null, 'k3s')]);
    expect(result.failed?.message).toContain(`${host.path('gone.yml')} is not in ${host.directory}`);
    expect(compose()).toEqual([]);
  });
});

/** Processes below one that has a container's id on its command line, as the engine's shim has. */
class Family {
  readonly pids: readonly number[];
  readonly #parent: ChildProcess;

  private constructor(parent: ChildProcess, pids: readonly number[]) {
    this.#parent = parent;
    this.pids = pids;
  }

  static async start(id: string, children: readonly string[]): Promise<Family> {
    const parent = spawn('sh', ['-c', `${children.join('\n')}\necho end\nwait`, 'shim', id], { detached: true });
    let said = '';
    await new Promise<void>((resolve) => {
      parent.stdout.on('data', (chunk) => {
        said += chunk;
        if (said.includes('end')) resolve();
      });
    });
    // The children's own children take a moment to start.
    await new Promise((resolve) => setTimeout(resolve, 300));
    return new Family(parent, said.split('\n').map(Number).filter(Boolean));
  }

  end(): void {
    if (this.#parent.pid !== undefined) process.kill(-this.#parent.pid, 'SIGKILL');
  }
}
