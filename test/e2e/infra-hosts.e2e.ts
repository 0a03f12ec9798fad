import { chmod, readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { command, tryCommand, until } from '../helpers/command.js';
import { docker, requireDocker } from '../helpers/docker.js';
import { type Hosts, makeHosts } from '../helpers/fleet.js';
import { makeSshFleet, type SshFleet } from '../helpers/ssh-fleet.js';
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
        // With the times of file and directory as they were: only the inode tells.
        const script = 'cd "$1"; cp -p .env ../copy; touch -r . ../time; mv ../copy .env; touch -r ../time .';
        await command('sh', ['-ec', script, 'sh', all.get('node3').dir]);
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

describe('a fleet behind ssh', () => {
  let fleet: SshFleet;
  beforeAll(async () => {
    fleet = await makeSshFleet(2, { user: { root: false }, host: { running: null } });
  });
  afterAll(() => fleet.close());

  const ssh = async (name: string, knownHosts: string, remote: string) => {
    const file = join(fleet.user.home, 'known_hosts');
    await writeFile(file, knownHosts);
    const options = ['BatchMode=yes', 'StrictHostKeyChecking=yes', `UserKnownHostsFile=${file}`, 'IdentitiesOnly=yes'];
    const flags = ['-F', 'none', '-i', fleet.sshd.privateKeyFile, '-p', String(fleet.sshd.port)];
    const target = `${fleet.user.name}@${fleet.address(name)}`;
    return tryCommand('ssh', [...flags, ...options.flatMap((o) => ['-o', o]), target, remote]);
  };

  test('is described by its inventory', () => {
    const inventory = parse(
      fleet.inventory({ cluster: { controller: true }, hosts: { node2: { node_role: 'agent' } }, order: ['node2'] }),
    );
    expect(inventory).toEqual({
      github_runner_cluster: {
        vars: { github_runner_cluster_controller: true },
        hosts: {
          node2: {
            ansible_host: '127.0.11.2',
            ansible_port: fleet.sshd.port,
            ansible_user: fleet.user.name,
            github_runner_cluster_node_address: '100.64.0.2',
            github_runner_cluster_dir: fleet.host('node2').dir,
            github_runner_cluster_compose_project: fleet.host('node2').project,
            github_runner_cluster_container_name: fleet.host('node2').containers.k3s,
            github_runner_cluster_agent_container_name: fleet.host('node2').containers['k3s-agent'],
            github_runner_cluster_node_role: 'agent',
          },
        },
      },
    });
  });

  test('lets its user write in the project directory and start services, and counts connections by host', async () => {
    await fleet.sshd.forget();
    const { dir, project } = fleet.host('node1');
    const remote = `cd ${dir} && mkdir fleet-role.d && docker compose -p ${project} up -d k3s && echo done`;
    expect(await ssh('node1', fleet.inputs()['ssh-known-hosts'], remote)).toMatchObject({ code: 0, stdout: 'done\n' });
    expect((await fleet.host('node1').inspect('k3s'))?.running).toBe(true);
    expect((await fleet.host('node1').files())['fleet-role.d']).toMatchObject({ type: 'directory' });
    expect(await fleet.connections('node1')).toMatchObject([{ commands: [remote] }]);
    expect(await fleet.connections('node2')).toEqual([]);
  });

  test('shows a changed host key for one host alone', async () => {
    const known = fleet.knownHosts(['node2']);
    expect((await ssh('node1', known, 'true')).code).toBe(0);
    expect((await ssh('node2', known, 'true')).stderr).toContain('Host key verification failed');
  });
});
