import { chmod, readdir, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { command, until } from '../helpers/command.js';
import { docker, requireDocker } from '../helpers/docker.js';
import { type Hosts, makeHosts } from '../helpers/fleet.js';
import { standInImage } from '../helpers/stand-in.js';

describe('the engine', () => {
  test('is there, with Compose 2 or newer', async () => {
    const versions = await requireDocker();
    expect(versions.engine).toMatch(/^\d+\.\d+/);
    expect(Number.parseInt(versions.compose, 10)).toBeGreaterThanOrEqual(2);
  });

  test.each([
    ['there is no docker', { PATH: '/nonexistent' }],
    ['no engine answers', { DOCKER_HOST: 'unix:///nonexistent.sock' }],
  ])('that is missing is named with the way out: %s', async (_, env: Record<string, string>) => {
    const before = { ...process.env };
    Object.assign(process.env, env);
    try {
      await expect(requireDocker()).rejects.toThrow(/no Docker Engine answers .*\.ci\/install\.sh/);
    } finally {
      for (const key of Object.keys(env)) delete process.env[key];
      Object.assign(process.env, before);
    }
  });
});

describe('the stand-in', () => {
  test('is built once for the same files', async () => {
    const image = await standInImage();
    expect(await standInImage()).toBe(image);
    expect(await standInImage({ '/bin/extra': '/etc/hostname' })).not.toBe(image);
  });

  test('lacks the tools that rancher/k3s lacks, has those that it has, and its kubectl finds no API', async () => {
    const run = async (script: string) =>
      docker([
        'run',
        '--rm',
        '--network',
        'none',
        '--entrypoint',
        '/bin/sh',
        await standInImage(),
        '-c',
        `{ ${script}; } 2>&1`,
      ]);
    const words = (text: string) => text.trim().split('\n');
    expect(words(await run('for t in curl timeout base64 pgrep nc; do command -v $t || echo no $t; done'))).toEqual(
      ['curl', 'timeout', 'base64', 'pgrep', 'nc'].map((tool) => `no ${tool}`),
    );
    expect(
      words(await run('for t in sleep awk sed grep find xargs mktemp nslookup; do command -v $t; done')),
    ).toHaveLength(8);
    expect(await run('kubectl get nodes; echo $?')).toMatch(/^The connection to the server .* was refused.*\n1\n$/);
  });

  test('says which file is missing', async () => {
    await expect(standInImage({ '/bin/k3s': '/nonexistent/k3s' })).rejects.toThrow('needs /nonexistent/k3s');
  });
});

describe('Compose hosts', () => {
  let hosts: Hosts;
  beforeAll(async () => {
    hosts = await makeHosts(5, {
      host: (index) =>
        [
          {},
          { entrypoint: 'foreign' as const },
          { running: null, env: '# mine\r\nA=1', files: { 'sub/file.yml': 'x' } },
          {},
          { name: 'empty', provisioned: false },
        ][index] ?? {},
    });
  });
  afterAll(() => hosts.remove());

  test('run the service they are to run, under their own names', async () => {
    const one = await hosts.get('node1').inspect('k3s');
    expect(one).toMatchObject({ running: true, status: 'running', restartCount: 0, restartPolicy: 'unless-stopped' });
    expect(one?.entrypoint.slice(-2)).toEqual(['/usr/local/bin/node-entrypoint.sh', 'server']);
    expect(one?.labels['com.docker.compose.project']).toBe(hosts.get('node1').project);
    expect(await hosts.get('node1').inspect('k3s-agent')).toBeNull();
    expect((await hosts.get('node2').inspect('k3s'))?.entrypoint[0]).toBe('/usr/local/bin/foreign-entrypoint.sh');
    expect(await hosts.get('node4').inspect('k3s-agent')).toMatchObject({ running: true });
    expect(await hosts.get('node3').inspect('k3s')).toBeNull();
    expect(await hosts.get('node3').read('.env')).toBe('# mine\r\nA=1');
    expect(await hosts.get('node3').read('sub/file.yml')).toBe('x');
    await expect(stat(hosts.get('empty').dir)).rejects.toThrow();
    expect(new Set(hosts.list.flatMap((host) => Object.values(host.containers))).size).toBe(10);
  });

  test('start k3s through our entrypoint, which leaves what k3s leaves on disk', async () => {
    const host = hosts.get('node1');
    await until('k3s has started', async () => (await host.logs('k3s')).includes('k3s server '));
    expect(await host.logs('k3s')).toMatch(/Starting k3s\nk3s server .*--node-ip 100\.64\.0\.1 .*--cluster-init/);
    await until('there is a datastore', async () =>
      (await readdir(host.dataDir, { recursive: true })).includes('server/db/etcd/member/wal'),
    );
    expect((await host.exec('k3s', 'cat', '/etc/rancher/node/password')).stdout).toMatch(/^[0-9a-f]{32}$/);
  });

  test('a service stops at once when it is asked to', async () => {
    const host = hosts.get('node4');
    await until('k3s has started', async () => (await host.logs('k3s-agent')).includes('k3s agent '));
    // Without a trap the engine would kill it after the 30 seconds of the Compose file, with 137.
    expect((await host.compose('stop', 'k3s-agent')).code).toBe(0);
    expect(await host.inspect('k3s-agent')).toMatchObject({ running: false, status: 'exited', exitCode: 0 });
    await host.up('k3s-agent');
  });

  test('a program in stand-in/ answers instead of the plain kubectl', async () => {
    const host = hosts.get('node1');
    await writeFile(join(host.standInDir, 'kubectl'), '#!/bin/sh\necho "asked: $*"\n');
    await chmod(join(host.standInDir, 'kubectl'), 0o755);
    expect(await host.exec('k3s', 'kubectl', 'get', 'nodes')).toEqual({
      code: 0,
      stdout: 'asked: get nodes\n',
      stderr: '',
    });
  });

  test('two snapshots are equal when nothing was touched', async () => {
    const before = await hosts.snapshot();
    expect(await hosts.snapshot()).toEqual(before);
    expect(Object.keys(before.node3?.files ?? {})).toEqual(['.', '.env', 'docker-compose.yml', 'sub', 'sub/file.yml']);
  });

  test.each<[string, (hosts: Hosts) => Promise<unknown>]>([
    ['the same bytes written again', async (all) => all.get('node3').write('.env', '# mine\r\nA=1')],
    [
      'the same bytes written again with the old time',
      async (all) => {
        const file = join(all.get('node3').dir, '.env');
        const { atime, mtime } = await stat(file);
        await command('sh', ['-c', 'cp -p "$1" "$1.new" && mv "$1.new" "$1"', 'sh', file]);
        await utimes(file, atime, mtime);
      },
    ],
    ['another mode', async (all) => chmod(join(all.get('node3').dir, '.env'), 0o600)],
    [
      'a file made and removed again',
      async (all) => command('sh', ['-c', 'touch "$1/x" && rm "$1/x"', 'sh', all.get('node3').dir]),
    ],
    ['a container restarted', async (all) => docker(['restart', '-t', '5', all.get('node1').containers.k3s])],
    ['a container made', async (all) => all.get('node3').compose('up', '--no-start', 'k3s')],
  ])('a snapshot shows %s', async (_, touch) => {
    const before = await hosts.snapshot();
    await touch(hosts);
    expect(await hosts.snapshot()).not.toEqual(before);
  });

  test('are gone when they are removed, whatever happened to their Compose files', async () => {
    const more = await makeHosts(1, { host: { name: 'spoilt' } });
    await more.get('spoilt').write('docker-compose.yml', '{');
    await more.remove();
    expect(await docker(['ps', '-aq', '--filter', `name=${more.get('spoilt').project}`])).toBe('');
    await expect(stat(more.get('spoilt').dir)).rejects.toThrow();
  });
});
