import { cp, mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { dropIn } from '../../src/hosts/native.js';
import { command, tryCommand, until } from '../helpers/command.js';
import { standInImage } from '../helpers/stand-in.js';
import { temporaryFolder } from '../helpers/temporary.js';

// What is shipped for a node, read by those who will read it there: Compose, shellcheck, systemd.

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const NODE_FILES = join(ROOT, 'src', 'node');
const OVERRIDE = 'docker-compose.fleet-role.yml';
const ROLE_DIRECTORY = 'fleet-role.d';
const BASE_AND_OVERRIDE = ['-f', 'docker-compose.yml', '-f', OVERRIDE];

describe('the base project in examples/node', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await temporaryFolder('example');
    await cp(join(ROOT, 'examples', 'node'), folder, { recursive: true, dereference: true });
    const example = await command('sed', ['s/^K3S_TOKEN=$/&secret/', join(folder, '.env.example')]);
    await writeFile(join(folder, '.env'), example);
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));
  const compose = (...args: string[]) => tryCommand('docker', ['compose', ...args], { cwd: folder });
  const config = async (...args: string[]) => {
    const result = await compose(...args, '--profile', '*', 'config', '--format', 'json');
    expect(result).toMatchObject({ code: 0, stderr: '' });
    return JSON.parse(result.stdout);
  };

  test('is what fleet-role takes for granted: names, one node password, data and entrypoint', async () => {
    const { name, services } = await config();
    expect(name).toBe('github-runner');
    expect(Object.keys(services).sort()).toEqual(['k3s', 'k3s-agent']);
    for (const [service, role] of [
      ['k3s', 'server'],
      ['k3s-agent', 'agent'],
    ]) {
      const found = services[service ?? ''];
      expect(found).toMatchObject({
        container_name: `github-runner-${service}`,
        entrypoint: ['/usr/local/bin/node-entrypoint.sh', role],
        network_mode: 'host',
        restart: 'unless-stopped',
        build: { context: folder },
        environment: { K3S_TOKEN: 'secret' },
      });
      const sources = Object.fromEntries(
        found.volumes.map((volume: { source: string; target: string }) => [volume.target, volume.source]),
      );
      expect(sources).toMatchObject({
        '/etc/rancher/node': join(folder, 'node'),
        '/var/lib/rancher/k3s': 'k3s',
        '/var/lib/tailscale': 'tailscale',
      });
    }
  });

  test('takes the override', async () => {
    await cp(join(NODE_FILES, OVERRIDE), join(folder, OVERRIDE));
    const { services } = await config(...BASE_AND_OVERRIDE);
    for (const service of ['k3s', 'k3s-agent']) {
      expect(services[service].volumes).toContainEqual(
        expect.objectContaining({
          source: join(folder, ROLE_DIRECTORY),
          target: '/etc/github-runner',
          read_only: true,
        }),
      );
    }
  });

  test('starts one service, and names what is missing', async () => {
    expect((await compose('config', '--services')).stdout.trim()).toBe('k3s');
    const agent = await tryCommand('docker', ['compose', 'config', '--services'], {
      cwd: folder,
      env: { COMPOSE_PROFILES: 'agent' },
    });
    expect(agent.stdout.trim()).toBe('k3s-agent');
    const missing = await tryCommand('docker', ['compose', 'config'], { cwd: folder, env: { K3S_TOKEN: '' } });
    expect(missing.code).not.toBe(0);
    expect(missing.stderr).toContain('set K3S_TOKEN in .env');
  });

  test('passes on every variable that the entrypoint reads, and .env.example names it', async () => {
    const entrypoint = await command('cat', [join(NODE_FILES, 'node-entrypoint.sh')]);
    const read = new Set(entrypoint.match(/\bK3S_[A-Z_]+(?=:[-+])/g));
    // These are for a project that has them; the example needs neither.
    for (const name of ['K3S_TOKEN_FILE', 'K3S_KUBECONFIG_OUTPUT']) expect(read.delete(name)).toBe(true);
    const { services } = await config();
    const passed = new Set([services.k3s, services['k3s-agent']].flatMap((s) => Object.keys(s.environment)));
    expect(passed).toEqual(read);
    const named = (await command('cat', [join(folder, '.env.example')])).match(/^K3S_[A-Z_]+(?==)/gm) ?? [];
    expect(new Set(named.filter((name) => name !== 'K3S_VERSION'))).toEqual(read);
  });

  test('comes up through our entrypoint', async () => {
    // The image cannot be built here, so the stand-in takes its place, which needs no privileges and no network.
    const project = `frt-example-${process.pid}`;
    const names = `services:
  k3s: { container_name: ${project}-k3s, network_mode: none, privileged: false }
  k3s-agent: { container_name: ${project}-k3s-agent, network_mode: none, privileged: false }
`;
    await writeFile(join(folder, 'names.yml'), names);
    const env = { NODE_IMAGE: await standInImage() };
    const files = ['-p', project, '-f', 'docker-compose.yml', '-f', 'names.yml'];
    const run = (...args: string[]) => tryCommand('docker', ['compose', ...files, ...args], { cwd: folder, env });
    try {
      expect(await run('up', '-d', '--no-build')).toMatchObject({ code: 0 });
      const logs = async () => {
        const result = await tryCommand('docker', ['logs', `${project}-k3s`]);
        return result.stdout + result.stderr;
      };
      await until('k3s starts', async () => (await logs()).includes('Starting k3s'));
      await until('it is the cluster', async () => /k3s server .*--cluster-init/.test(await logs()));
      expect(await readdir(join(folder, 'node'))).toContain('password');
    } finally {
      await run('--profile', '*', 'down', '-v', '-t', '1');
    }
  });

  test('its image is built from what the folder has, and ends in our entrypoint', async () => {
    const dockerfile = await command('cat', [join(folder, 'Dockerfile')]);
    const copied = [...dockerfile.matchAll(/^COPY (?!--from)(?:--\S+ )*(\S+) \S+$/gm)].map((match) => match[1]);
    expect(copied).toEqual(['node-entrypoint.sh']);
    expect(await readdir(folder)).toContain('node-entrypoint.sh');
    expect(parse(dockerfile.match(/^ENTRYPOINT (.*)$/m)?.[1] ?? '')).toEqual(['/usr/local/bin/node-entrypoint.sh']);
  });
});

describe('the files themselves', () => {
  const scripts = ['node-entrypoint.sh', 'fleet-role-is.sh'].map((name) => join(NODE_FILES, name));

  test.each(['sh', 'dash', 'bash'])('shellcheck has nothing to say about the scripts as %s', async (dialect) => {
    expect(await tryCommand('shellcheck', ['-s', dialect, ...scripts])).toEqual({ code: 0, stdout: '', stderr: '' });
  });

  test('systemd understands the units with the drop-ins', async () => {
    const folder = await temporaryFolder('units');
    for (const unit of ['k3s', 'k3s-agent'] as const) {
      const service = '[Unit]\nDescription=k3s\n[Service]\nType=notify\nExecStart=/bin/true\n';
      await writeFile(join(folder, `${unit}.service`), service);
      const placed = join(folder, `${unit}.service.d`, 'fleet-role.conf');
      await mkdir(join(folder, `${unit}.service.d`));
      await writeFile(placed, dropIn(unit, '/var/lib/my %k3s $x "y" \\z'));
      const verify = (env: Record<string, string>) =>
        tryCommand('systemd-analyze', ['verify', join(folder, `${unit}.service`)], { env });
      // The folder first, and systemd's own after it for what every unit depends on.
      const env = { SYSTEMD_UNIT_PATH: `${folder}:` };
      expect(await verify(env)).toEqual({ code: 0, stdout: '', stderr: '' });

      // The same command notices a drop-in that systemd would not take.
      await command('sed', ['-i', 's|^ExecCondition=/bin/sh|ExecCondition=bin/sh|', placed]);
      expect((await verify(env)).stderr).toContain('fleet-role.conf');
    }
    await rm(folder, { recursive: true });
  });
});
