import { chmod, copyFile, cp, mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { command, tryCommand, until } from '../helpers/command.js';
import { docker } from '../helpers/docker.js';
import { type Host, type Hosts, makeHosts, type Service } from '../helpers/fleet.js';
import { standInImage } from '../helpers/stand-in.js';
import { temporaryFolder } from '../helpers/temporary.js';
import { PrivateEngine } from './private-engine.js';

// The guards as they run on hosts: containers of a real engine, Compose's own merge, systemd's own reading of units.

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const NODE_FILES = join(ROOT, 'src', 'node');
const OVERRIDE = 'docker-compose.fleet-role.yml';
const ROLE_DIRECTORY = 'fleet-role.d';
const BASE_AND_OVERRIDE = ['-f', 'docker-compose.yml', '-f', OVERRIDE];

/** Puts the role directory and the override where fleet-role puts them; `.env` lists the override. */
async function adopt(host: Host, role: string | null): Promise<void> {
  await mkdir(join(host.dir, ROLE_DIRECTORY), { recursive: true });
  for (const script of ['node-entrypoint.sh', 'fleet-role-is.sh']) {
    await copyFile(join(NODE_FILES, script), join(host.dir, ROLE_DIRECTORY, script));
    await chmod(join(host.dir, ROLE_DIRECTORY, script), 0o755);
  }
  await copyFile(join(NODE_FILES, OVERRIDE), join(host.dir, OVERRIDE));
  await host.write('.env', `COMPOSE_FILE=docker-compose.yml:${OVERRIDE}\n`);
  if (role !== null) await writeRole(host, role);
}

/** As fleet-role replaces it: written beside, then renamed, so that it is another file with the same name. */
async function writeRole(host: Host, role: string): Promise<void> {
  await host.write(`${ROLE_DIRECTORY}/.role.new`, `${role}\n`);
  await rename(join(host.dir, ROLE_DIRECTORY, '.role.new'), join(host.dir, ROLE_DIRECTORY, 'role'));
}

async function idles(host: Host, service: Service): Promise<void> {
  await until(`${service} of ${host.name} idles`, async () => (await host.logs(service)).includes('; idle until'));
}

async function startsK3s(host: Host, service: Service, times = 1): Promise<void> {
  await until(
    `${service} of ${host.name} has started k3s`,
    async () => (await host.logs(service)).split('Starting k3s\n').length > times,
  );
}

/** The command lines of all that runs in a container, as the engine sees them. */
async function processes(host: Host, service: Service, run = docker): Promise<string[]> {
  const top = await run(['top', host.containers[service], '-o', 'pid,args']);
  return top
    .trim()
    .split('\n')
    .slice(1)
    .map((line) => line.trim().replace(/^\d+\s+/, ''));
}

const SHELL_ON_ENTRYPOINT = expect.stringMatching(/^(\/bin\/)?sh \S*\/node-entrypoint\.sh (server|agent)$/);

describe('an idle service', () => {
  let hosts: Hosts;
  let node1: Host;
  beforeAll(async () => {
    hosts = await makeHosts(1, { host: { running: null } });
    node1 = hosts.get('node1');
    await adopt(node1, 'agent');
    await node1.compose('up', '-d', 'k3s');
    await idles(node1, 'k3s');
  });
  afterAll(() => hosts.remove());

  test('runs nothing but sh and sleep, with the shell as PID 1', async () => {
    await until('there are two processes', async () => (await processes(node1, 'k3s')).length === 2);
    const running = await processes(node1, 'k3s');
    expect(running.sort()).toEqual([SHELL_ON_ENTRYPOINT, expect.stringMatching(/^(\/bin\/)?sleep 3600$/)].sort());
    const first = await node1.exec('k3s', 'cat', '/proc/1/comm');
    expect(first.stdout).toMatch(/^(sh|node-entrypoint)/);
  });

  test('says why, once, and starts neither Tailscale nor k3s', async () => {
    const logs = await node1.logs('k3s');
    expect(logs.trim().split('\n')).toEqual([expect.stringContaining("role names 'agent', not server; idle")]);
    expect(await readdir(node1.dataDir)).toEqual([]);
  });

  test('is not brought back by its restart policy and stops within a second with exit status 0', async () => {
    const before = await node1.inspect('k3s');
    expect(before).toMatchObject({ running: true, restartCount: 0, restartPolicy: 'unless-stopped' });
    // The container's grace is 30 s: the engine's own time-out for one second says that the shell ended by itself.
    await docker(['stop', '-t', '1', node1.containers.k3s]);
    expect(await node1.inspect('k3s')).toMatchObject({
      running: false,
      status: 'exited',
      exitCode: 0,
      restartCount: 0,
    });
  });

  test('is still idle when somebody starts it again, and when it is restarted', async () => {
    for (const act of ['start', 'restart']) {
      await docker([act, node1.containers.k3s]);
      await until(`it idles after ${act}`, async () => (await processes(node1, 'k3s')).length === 2);
    }
    expect(await node1.logs('k3s')).not.toContain('Starting k3s');
    expect(await node1.inspect('k3s')).toMatchObject({ running: true, restartCount: 0 });
  });
});

test('an idle service is idle after a restart of the engine too, with its restart count as it was', async () => {
  const engine = await PrivateEngine.start();
  try {
    const image = await standInImage();
    await engine.load(image);
    const folder = await temporaryFolder('engine');
    await mkdir(join(folder, 'role'));
    await writeFile(join(folder, 'role', 'role'), 'agent\n');
    const mount = `type=bind,source=${join(folder, 'role')},target=/etc/github-runner,readonly`;
    const entrypoint = ['--entrypoint', '/usr/local/bin/node-entrypoint.sh', image];
    const common = ['--network', 'none', '--restart', 'unless-stopped', '--mount', mount];
    for (const service of ['server', 'agent']) {
      await engine.docker([
        'run',
        '-d',
        '--name',
        service,
        '-e',
        'K3S_URL=https://100.64.0.1',
        ...common,
        ...entrypoint,
        service,
      ]);
    }
    const logs = async (name: string) => {
      const result = await engine.tryDocker(['logs', name]);
      return result.stdout + result.stderr;
    };
    const starts = async (name: string, words: string) => (await logs(name)).split(words).length - 1;
    await until('the server idles', async () => (await starts('server', '; idle')) === 1);
    await until('the agent runs', async () => (await starts('agent', 'Starting k3s')) === 1);

    await engine.restart();

    // The agent is the proof that the engine brought its containers back.
    await until('the agent runs again', async () => (await starts('agent', 'Starting k3s')) === 2);
    await until('the server idles again', async () => (await starts('server', '; idle')) === 2);
    expect(await logs('server')).not.toContain('Starting k3s');
    const facts = await engine.docker(['inspect', '-f', '{{.State.Running}} {{.RestartCount}}', 'server']);
    expect(facts.trim()).toBe('true 0');
    await rm(folder, { recursive: true });
  } finally {
    await engine.close();
  }
});

describe('the role directory', () => {
  let hosts: Hosts;
  let host: Host;
  beforeEach(async () => {
    hosts = await makeHosts(1, { host: { running: null } });
    host = hosts.get('node1');
    return () => hosts.remove();
  });

  test('shows a role that was replaced on the host at the next start, and the service obeys', async () => {
    await adopt(host, 'agent');
    await host.compose('up', '-d', 'k3s');
    await idles(host, 'k3s');
    await writeRole(host, 'server');
    expect((await host.exec('k3s', 'cat', '/etc/github-runner/role')).stdout).toBe('server\n');
    await docker(['restart', '-t', '5', host.containers.k3s]);
    await startsK3s(host, 'k3s');

    await writeRole(host, 'agent');
    await docker(['restart', '-t', '5', host.containers.k3s]);
    await until('it idles again', async () => (await host.logs('k3s')).split('; idle until').length === 3);
    expect((await host.logs('k3s')).split('Starting k3s\n')).toHaveLength(2);
  });

  test.each<Service>(['k3s', 'k3s-agent'])('is mounted read-only in %s', async (service) => {
    await adopt(host, service === 'k3s' ? 'server' : 'agent');
    await host.compose('up', '-d', service);
    await startsK3s(host, service);
    const write = await host.exec(service, 'sh', '-c', 'echo server >/etc/github-runner/role');
    expect(write.code).not.toBe(0);
    expect(write.stderr).toContain('Read-only file system');
    expect((await host.exec(service, 'rm', '-f', '/etc/github-runner/role')).code).not.toBe(0);
  });

  test.each<Service>(['k3s', 'k3s-agent'])('that is lost stops %s instead of freeing it', async (service) => {
    // The role names the other service: freed, this one would start.
    await adopt(host, service === 'k3s' ? 'agent' : 'server');
    await host.compose('up', '-d', service);
    await idles(host, service);
    await rm(join(host.dir, ROLE_DIRECTORY), { recursive: true });

    expect((await tryCommand('docker', ['restart', '-t', '5', host.containers[service]])).code).not.toBe(0);
    expect(await host.inspect(service)).toMatchObject({ running: false });
    const up = await host.compose('up', '-d', '--force-recreate', service);
    expect(up.code).not.toBe(0);
    expect(up.stderr).toContain(ROLE_DIRECTORY);
    expect(await readdir(host.dir)).not.toContain(ROLE_DIRECTORY);
    expect(await host.logs(service)).not.toContain('Starting k3s');
  });

  test('that is empty lets both services start, as one that is absent does', async () => {
    await adopt(host, null);
    for (const service of ['k3s', 'k3s-agent'] as const) {
      await host.compose('up', '-d', service);
      await startsK3s(host, service);
    }
  });

  test('keeps a former member down however often its restart policy tries, until it has a URL', async () => {
    await adopt(host, 'server');
    await mkdir(join(host.dataDir, 'server', 'db.demoted', 'etcd', 'member', 'wal'), { recursive: true });
    await mkdir(join(host.dataDir, 'server', 'db'), { recursive: true });
    await host.compose('up', '-d', 'k3s');
    await until('it was refused twice', async () => (await host.logs('k3s')).split('has no server to join').length > 2);
    expect(await host.logs('k3s')).not.toContain('Starting k3s');
    expect(await readdir(join(host.dataDir, 'server', 'db'))).toEqual([]);
    await host.write(`${ROLE_DIRECTORY}/join-url`, 'https://100.64.0.2:6443\n');
    await startsK3s(host, 'k3s');
    expect(await host.logs('k3s')).toContain(' --server https://100.64.0.2:6443');
  });
});

test('a cluster with its own Headscale: one container goes on the mesh, obeys the guards, and stops in time', async () => {
  const health = { K3S_MESH_SELF_HOSTED_HEALTH_URL: 'https://headscale.example/health', K3S_VPN_AUTH_JOIN_KEY: 'key' };
  const hosts = await makeHosts(1, { host: { running: null, environment: health } });
  try {
    const host = hosts.get('node1');
    await adopt(host, 'server');
    const program = async (name: string, body: string) => {
      await writeFile(join(host.standInDir, name), `#!/bin/sh\n${body}\n`);
      await chmod(join(host.standInDir, name), 0o755);
    };
    await program('kubectl', '[ -e /stand-in/health ]');
    await program(
      'k3s',
      `echo "k3s $*"; trap 'echo stopped; exit 0' TERM
until [ -e /stand-in/end ]; do sleep 1 & wait $!; done`,
    );
    const lines = async (start: string) =>
      (await host.logs('k3s')).split('\n').filter((line) => line.startsWith(start));
    await host.compose('up', '-d', 'k3s');
    await until('k3s starts off the mesh', async () => (await lines('k3s ')).length === 1);
    const container = await host.inspect('k3s');
    await writeFile(join(host.standInDir, 'health'), '');
    await until('k3s starts on the mesh', async () => (await lines('k3s ')).length === 2);
    expect(await lines('k3s ')).toEqual([
      'k3s server',
      expect.stringMatching(/^k3s server --node-ip .* --cluster-init$/),
    ]);
    expect(await lines('stopped')).toHaveLength(1);
    expect(await host.inspect('k3s')).toEqual(container);

    // Told to stop, the shell hands it on to k3s and waits for it; the engine would send KILL after two seconds.
    await docker(['stop', '-t', '2', host.containers.k3s]);
    expect(await host.inspect('k3s')).toMatchObject({ running: false, exitCode: 0, restartCount: 0 });
    expect(await lines('stopped')).toHaveLength(2);

    // k3s ends because its member was removed: the container stays, with nothing but sh and sleep in it.
    await docker(['start', host.containers.k3s]);
    await until('k3s starts on the mesh at once', async () => (await lines('k3s ')).length === 3);
    await mkdir(join(host.dataDir, 'server', 'db', 'etcd'), { recursive: true });
    await writeFile(join(host.dataDir, 'server', 'db', 'etcd', 'tombstone'), '');
    await writeFile(join(host.standInDir, 'end'), '');
    await idles(host, 'k3s');
    expect(await lines('node-entrypoint: tombstone')).toHaveLength(1);
    await until('Tailscale has ended', async () => (await processes(host, 'k3s')).length === 2);
    expect(await lines('k3s ')).toHaveLength(3);
    expect(await host.inspect('k3s')).toMatchObject({ id: container?.id, running: true, restartCount: 0 });
  } finally {
    await hosts.remove();
  }
});

describe('the override, as Compose merges it', () => {
  let hosts: Hosts;
  let host: Host;
  const mountOf = async (service: Service, ...options: string[]) => {
    const result = await host.compose(...options, 'config', '--format', 'json');
    expect(result.stderr).toBe('');
    const volumes = JSON.parse(result.stdout).services[service].volumes as { target: string }[];
    return volumes.filter((volume) => volume.target === '/etc/github-runner');
  };
  const ours = () => [
    {
      type: 'bind',
      source: join(host.dir, ROLE_DIRECTORY),
      target: '/etc/github-runner',
      read_only: true,
      // Written out, `create_host_path: false` is nothing: only true is shown.
      bind: expect.not.objectContaining({ create_host_path: true }),
    },
  ];
  beforeAll(async () => {
    const more = 'services:\n  k3s:\n    volumes: [./elsewhere:/etc/github-runner]\n    labels: {more: "1"}\n';
    hosts = await makeHosts(1, { host: { running: null, files: { 'more.yml': more } } });
    host = hosts.get('node1');
    await adopt(host, 'server');
    await host.write('.env', '');
  });
  afterAll(() => hosts.remove());

  test.each<Service>(['k3s', 'k3s-agent'])('mounts the role directory into %s by two -f', async (service) => {
    expect(await mountOf(service)).toEqual([]);
    expect(await mountOf(service, ...BASE_AND_OVERRIDE)).toEqual(ours());
  });

  test('wins over a mount at the same place in a file before it', async () => {
    const files = ['-f', 'docker-compose.yml', '-f', 'more.yml', '-f', OVERRIDE];
    expect(await mountOf('k3s', ...files)).toEqual(ours());
    expect(await mountOf('k3s-agent', ...files)).toEqual(ours());
  });

  test('is taken from COMPOSE_FILE in .env, and from another directory with --project-directory', async () => {
    await host.write('.env', `COMPOSE_FILE=docker-compose.yml:more.yml:${OVERRIDE}\n`);
    expect(await mountOf('k3s')).toEqual(ours());
    expect(await mountOf('k3s-agent')).toEqual(ours());
    const files = ['docker-compose.yml', OVERRIDE].flatMap((name) => ['-f', join(host.dir, name)]);
    const args = ['compose', '--project-directory', host.dir, ...files, 'config', '--format', 'json'];
    const config = JSON.parse(await command('docker', args, { cwd: '/' }));
    expect(config.services.k3s.volumes).toContainEqual(ours()[0]);
    await host.write('.env', '');
  });

  test('takes its source from the project directory, which is the folder of the first file', async () => {
    // So a list whose first file lies elsewhere needs --project-directory, which fleet-role always gives.
    const elsewhere = await temporaryFolder('base');
    await cp(join(host.dir, 'docker-compose.yml'), join(elsewhere, 'base.yml'));
    const files = ['-f', join(elsewhere, 'base.yml'), '-f', join(host.dir, OVERRIDE)];
    expect(await mountOf('k3s', ...files)).toMatchObject([{ source: join(elsewhere, ROLE_DIRECTORY) }]);
    expect(await mountOf('k3s', '--project-directory', host.dir, ...files)).toEqual(ours());
    await rm(elsewhere, { recursive: true });
  });

  test('in its second form replaces the entrypoint too and keeps the command', async () => {
    await cp(join(NODE_FILES, 'docker-compose.fleet-role-entrypoint.yml'), join(host.dir, 'second.yml'));
    await host.write('command.yml', 'services:\n  k3s:\n    command: [server, --disable, traefik]\n');
    const files = ['docker-compose.yml', 'command.yml', 'second.yml'].flatMap((name) => ['-f', name]);
    expect(await mountOf('k3s', ...files)).toEqual(ours());
    const config = JSON.parse((await host.compose(...files, 'config', '--format', 'json')).stdout);
    expect(config.services.k3s).toMatchObject({
      entrypoint: ['/etc/github-runner/node-entrypoint.sh', 'server'],
      command: ['server', '--disable', 'traefik'],
    });
    expect(config.services['k3s-agent'].entrypoint).toEqual(['/etc/github-runner/node-entrypoint.sh', 'agent']);
  });
});

describe('a plain `docker compose up -d` by somebody else', () => {
  let hosts: Hosts;
  beforeAll(async () => {
    hosts = await makeHosts(2, { host: { running: null } });
  });
  afterAll(() => hosts.remove());

  test('keeps the mount where COMPOSE_FILE names the override', async () => {
    const host = hosts.get('node1');
    await adopt(host, 'server');
    await host.compose('up', '-d');
    await startsK3s(host, 'k3s');
    await idles(host, 'k3s-agent');
    const before = await host.snapshot();
    expect(before.containers.k3s?.mounts['/etc/github-runner']).toBe(join(host.dir, ROLE_DIRECTORY));

    await host.compose('up', '-d');
    expect((await host.snapshot()).containers).toEqual(before.containers);

    await host.compose('up', '-d', '--force-recreate');
    for (const service of ['k3s', 'k3s-agent'] as const) {
      const facts = await host.inspect(service);
      expect(facts?.id).not.toBe(before.containers[service]?.id);
      expect(facts?.mounts['/etc/github-runner']).toBe(join(host.dir, ROLE_DIRECTORY));
    }
    await idles(host, 'k3s-agent');
  });

  test('leaves the container of a host outside the publishing set as it is: same ID, no mount', async () => {
    // What such a host gets is the role directory, created empty, and nothing else.
    const host = hosts.get('node2');
    await host.compose('up', '-d');
    await startsK3s(host, 'k3s');
    await startsK3s(host, 'k3s-agent');
    const before = await host.snapshot();
    await mkdir(join(host.dir, ROLE_DIRECTORY));

    await host.compose('up', '-d');
    const after = await host.snapshot();
    expect(after.containers).toEqual(before.containers);
    for (const service of ['k3s', 'k3s-agent'] as const) {
      expect(after.containers[service]?.id).toMatch(/^[0-9a-f]{64}$/);
      expect(after.containers[service]?.mounts).not.toHaveProperty('/etc/github-runner');
    }
  });

  test('the second form starts the entrypoint of the role directory', async () => {
    const more = await makeHosts(1, { host: { running: null, entrypoint: 'foreign' } });
    try {
      const host = more.get('node1');
      await adopt(host, 'agent');
      await copyFile(join(NODE_FILES, 'docker-compose.fleet-role-entrypoint.yml'), join(host.dir, OVERRIDE));
      await host.compose('up', '-d', 'k3s');
      await idles(host, 'k3s');
      expect((await host.inspect('k3s'))?.entrypoint).toEqual(['/etc/github-runner/node-entrypoint.sh', 'server']);
    } finally {
      await more.remove();
    }
  });
});
