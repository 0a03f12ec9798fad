import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Host as DeclaredHost } from '../../src/fleet/fleet.js';
import { type Connection, type Connector, createConnector } from '../../src/hosts/connection.js';
import { carryOut } from '../../src/hosts/hands.js';
import { readPrivateKeys } from '../../src/hosts/private-key.js';
import { lookAt } from '../../src/hosts/probe.js';
import type { ReachedHost, ServiceObservation } from '../../src/plan/observation.js';
import type { Step } from '../../src/plan/step.js';
import { command, until } from '../helpers/command.js';
import { type Host, type Hosts, makeHosts } from '../helpers/fleet.js';
import { Sshd } from '../helpers/sshd.js';
import { temporaryFolder } from '../helpers/temporary.js';
import { TestUser } from '../helpers/test-user.js';
import { composeHost, LOCAL, silentLogger, step } from '../hosts/helpers.js';

let hosts: Hosts;
let temp: string;
let user: TestUser;
let sshd: Sshd;
let connector: Connector;
let local: Connection;
/** As an ordinary user who is not in the docker group's way, and may use sudo. */
let ordinary: Connection;

beforeAll(async () => {
  hosts = await makeHosts(5, {
    host: (index) => ({ running: index === 0 ? 'k3s' : index === 1 ? 'k3s-agent' : null }),
  });
  temp = await temporaryFolder('hands');
  user = await TestUser.create({ root: false });
  sshd = await Sshd.start({ users: [user] });
  connector = createConnector({
    ...{ temp, privateKeys: readPrivateKeys(sshd.privateKey), knownHosts: sshd.knownHosts, sshUser: user.name },
    ...{ useInventoryKeyFiles: false, logger: silentLogger },
  });
  local = connector.connect('node1', LOCAL);
  ordinary = connector.connect('node1', { ...LOCAL, type: 'ssh', host: '127.0.0.1', port: sshd.port });
});

afterAll(async () => {
  await connector?.close();
  await sshd?.close();
  await user?.remove();
  await hosts?.remove();
  if (temp !== undefined) await command('rm', ['-rf', temp]);
});

function declared(host: Host, overrides: Partial<DeclaredHost> = {}): DeclaredHost {
  return composeHost({
    ...{ name: host.name, directory: host.dir, composeProject: host.project, containers: host.containers },
    ...overrides,
  });
}

async function look(host: Host, connection = local): Promise<ReachedHost> {
  const seen = await lookAt(connection, declared(host), { seconds: 60 });
  if (seen.kind !== 'reached') throw new Error(seen.message);
  return seen;
}

async function services(host: Host): Promise<{ k3s: ServiceObservation; agent: ServiceObservation }> {
  const seen = (await look(host)).services;
  if (seen.kind === 'unknown') throw new Error(seen.why);
  return { k3s: seen.value.k3s, agent: seen.value['k3s-agent'] };
}

function work(host: Host, steps: readonly Step[], connection = local) {
  return carryOut(connection, declared(host), steps, { seconds: 120 });
}

const WHOLE = [
  step('create-role-directory'),
  step('install-guards', '1'),
  step('add-override'),
  step('write-environment', 'COMPOSE_FILE'),
];

describe('a real engine', () => {
  it('tells what runs, and what is not there', async () => {
    const [first, second, third] = hosts.list as [Host, Host, Host];
    await until('k3s runs', async () => (await services(first)).k3s.state === 'running');
    expect(await services(first)).toMatchObject({
      k3s: {
        ...{ state: 'running', restartCount: 0, restartPolicy: 'unless-stopped', mounted: false },
        ...{ configFiles: [join(first.dir, 'docker-compose.yml')], joinUrlEnvironment: null },
      },
      agent: { state: 'absent' },
    });
    await until('k3s-agent runs', async () => (await services(second)).agent.state === 'running');
    expect((await services(second)).agent.joinUrlEnvironment).toBe('https://100.64.0.1:6443');
    expect(await services(third)).toMatchObject({ k3s: { state: 'absent' }, agent: { state: 'absent' } });
  });

  it('is asked by one command that changes nothing', async () => {
    const [first] = hosts.list as [Host];
    const before = await first.snapshot();
    await look(first);
    expect(await first.snapshot()).toEqual(before);
  });

  it('tells an idle service from a running one and a refusing one, and stops it', async () => {
    const host = hosts.get('node3');
    expect((await work(host, [...WHOLE, step('write-role', 'agent')])).failed).toBeNull();
    await host.up('k3s');
    await until('k3s idles', async () => (await services(host)).k3s.state === 'idle');
    expect((await services(host)).k3s).toMatchObject({
      mounted: true,
      configFiles: [join(host.dir, 'docker-compose.yml'), join(host.dir, 'docker-compose.fleet-role.yml')],
    });
    expect((await work(host, [step('stop-service', null, 'k3s')])).failed).toBeNull();
    expect(await services(host)).toMatchObject({ k3s: { state: 'stopped' }, agent: { state: 'absent' } });
    // Nothing more to stop, and a service without a container: both are done.
    const again = [step('stop-service', null, 'k3s'), step('stop-service', null, 'k3s-agent')];
    expect((await work(host, again)).done).toHaveLength(2);
    // A guard that refuses: a server without a join URL beside a set-aside datastore.
    await command('mkdir', ['-p', join(host.dataDir, 'server', 'db.demoted')]);
    await work(host, [step('write-role', 'server')]);
    await host.compose('up', '-d', 'k3s').catch(() => undefined);
    for (let looks = 0; looks < 10; looks++) expect((await services(host)).k3s.state).toBe('refusing');
    await host.compose('rm', '-sf', 'k3s');
  });

  it('leaves the containers alone whatever files are written', async () => {
    const [first] = hosts.list as [Host];
    const { containers } = await first.snapshot();
    const steps = [...WHOLE, step('write-join-url', 'https://a:6443'), step('write-role', 'server')];
    expect((await work(first, steps)).failed).toBeNull();
    expect((await first.snapshot()).containers).toEqual(containers);
    const twice = await first.snapshot();
    expect((await work(first, steps)).done).toHaveLength(steps.length);
    const after = await first.snapshot();
    // The lock came and went in the project directory; nothing else was touched.
    expect({ ...after.files, '.': null }).toEqual({ ...twice.files, '.': null });
    const off = [
      step('write-environment', 'K3S_JOIN_SERVER_URL=https://a:6443', 'k3s'),
      step('clear-role-files', 'role join-url'),
      step('remove-override'),
    ];
    expect((await work(first, off)).failed).toBeNull();
    expect(await first.read('.env')).toBe('K3S_JOIN_SERVER_URL=https://a:6443\n');
    expect((await first.snapshot()).containers).toEqual(containers);
  });
});

describe('a host in trouble', () => {
  it('whose disk is full fails with words, and keeps what it had', async () => {
    const host = hosts.get('node4');
    const role = join(host.dir, 'fleet-role.d');
    await command('mkdir', ['-p', role]);
    await command('mount', ['-t', 'tmpfs', '-o', 'size=16k', 'tmpfs', role]);
    try {
      expect((await work(host, [step('write-role', 'agent')])).failed).toBeNull();
      await writeFile(join(role, 'ballast'), Buffer.alloc(8192)).catch(() => undefined);
      const result = await work(host, [step('install-guards', '1')]);
      expect(result.failed?.message).toMatch(/^Cannot write .*node-entrypoint\.sh: .*(No space left|disk is full)/);
      expect(result.observation).toMatchObject({ kind: 'reached', role: { text: 'agent' }, guardsInstalled: null });
      expect(await command('ls', [role])).toBe('ballast\nrole\n');
    } finally {
      await command('umount', [role]);
    }
  });

  it('whose .env has no room for a new one keeps the old one', async () => {
    const host = hosts.get('node5');
    await command('mount', ['-t', 'tmpfs', '-o', 'size=16k', 'tmpfs', host.dir]);
    try {
      const text = `A=${'x'.repeat(5000)}\n`;
      await host.write('.env', text);
      await host.write('docker-compose.yml', 'services: {}\n');
      await host.write('docker-compose.fleet-role.yml', '');
      const result = await work(host, [step('write-environment', 'COMPOSE_FILE')]);
      expect(result.failed?.message).toMatch(/^Cannot write .*\.env: .*(No space left|disk is full)/);
      expect(await host.read('.env')).toBe(text);
      expect((await command('ls', ['-A', host.dir])).split('\n')).not.toContain('.env.fleet-role-new');
    } finally {
      await command('umount', [host.dir]);
    }
  });

  it('whose role directory is read-only fails with words', async () => {
    const host = hosts.get('node4');
    const role = join(host.dir, 'fleet-role.d');
    await command('mkdir', ['-p', role]);
    await command('mount', ['-t', 'tmpfs', 'tmpfs', role]);
    await writeFile(join(role, 'role'), 'agent\n');
    await command('mount', ['-o', 'remount,ro', role]);
    try {
      const result = await work(host, [step('write-role', 'server')]);
      expect(result.failed?.message).toMatch(/^Cannot write .*\/role: .*Read-only file system/);
      expect(await readFile(join(role, 'role'), 'utf8')).toBe('agent\n');
    } finally {
      await command('umount', [role]);
    }
  });

  it('that belongs to somebody else fails with words, and works by sudo', async () => {
    const host = hosts.get('node2');
    const result = await work(host, [step('create-role-directory')], ordinary);
    expect(result.failed?.message).toMatch(/^Cannot lock .*: .*Permission denied/);
    const become = connector.connect('node2', {
      ...LOCAL,
      type: 'ssh',
      host: '127.0.0.1',
      port: sshd.port,
      become: true,
    });
    expect((await work(host, [step('create-role-directory')], become)).failed).toBeNull();
    await command('chmod', ['700', host.dir]);
    const seen = await lookAt(ordinary, declared(host), { seconds: 60 });
    expect(seen).toMatchObject({ kind: 'unreachable', class: 'command' });
    expect((seen as { message: string }).message).toMatch(/may not be looked into by .*ansible_become\.$/);
    await command('chmod', ['755', host.dir]);
  });

  it('whose .env belongs to somebody else keeps it', async () => {
    const host = hosts.get('node4');
    await host.write('.env', 'A=1\n');
    await command('chmod', ['777', host.dir]);
    const result = await work(host, [step('write-environment', 'B=2')], ordinary);
    expect(result.failed?.message).toMatch(/^Cannot keep the owner of .*\.env: .*become\.$/);
    expect(await host.read('.env')).toBe('A=1\n');
    await command('chmod', ['755', host.dir]);
  });

  it('whose home is that of the connecting user is found by the tilde, also through sudo', async () => {
    const become = connector.connect('node9', {
      ...LOCAL,
      type: 'ssh',
      host: '127.0.0.1',
      port: sshd.port,
      become: true,
    });
    for (const connection of [ordinary, become]) {
      const seen = await lookAt(connection, composeHost(), { seconds: 60 });
      expect(seen).toMatchObject({ kind: 'reached', directory: `${user.home}/.github-runner`, provisioned: false });
    }
  });
});
