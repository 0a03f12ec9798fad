import { statSync } from 'node:fs';
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { HostConnection } from '../../src/fleet/fleet.js';
import { type Connector, type ConnectorOptions, createConnector, type Result } from '../../src/hosts/connection.js';
import { readPrivateKeys } from '../../src/hosts/private-key.js';
import { command, tryCommand, until } from '../helpers/command.js';
import { freePort, Sshd, silentHost } from '../helpers/sshd.js';
import { TestUser } from '../helpers/test-user.js';
import { silentLogger } from '../hosts/helpers.js';

// sshd listens on at most 16 addresses.
const ADDRESSES = Array.from({ length: 16 }, (_, index) => `127.0.7.${index + 1}`);
const ADDRESS = ADDRESSES[0] as string;

let root: TestUser;
let sudoer: TestUser;
let asked: TestUser;
let sshd: Sshd;
let noisy: Sshd;
let temp: string;
let connectors: Connector[];

beforeAll(async () => {
  root = await TestUser.create();
  sudoer = await TestUser.create({ root: false });
  asked = await TestUser.create({ root: false, sudo: 'password' });
  const users = [root, sudoer, asked];
  sshd = await Sshd.start({ users, addresses: ADDRESSES });
  noisy = await Sshd.start({ users, banner: 'Welcome, 100% of you! $(id) "quoted" fleet-role begin' });
});

afterAll(async () => {
  await sshd?.close();
  await noisy?.close();
  for (const user of [root, sudoer, asked]) await user?.remove();
});

beforeEach(async () => {
  temp = await mkdtemp(join(tmpdir(), 'fleet-ssh-'));
  connectors = [];
});

afterEach(async () => {
  for (const connector of connectors) await connector.close();
  expect(await readdir(temp)).toEqual([]);
  await rm(temp, { recursive: true, force: true });
});

function connector(overrides: Partial<ConnectorOptions> = {}): Connector {
  const made = createConnector({
    temp,
    privateKeys: readPrivateKeys(sshd.privateKey),
    knownHosts: sshd.knownHosts,
    sshUser: root.name,
    useInventoryKeyFiles: false,
    logger: silentLogger,
    ...overrides,
  });
  connectors.push(made);
  return made;
}

function target(overrides: Partial<HostConnection> = {}): HostConnection {
  return {
    ...{ type: 'ssh', host: ADDRESS, port: sshd.port, user: null, become: false, keyFile: null, options: [] },
    ...overrides,
  } as HostConnection;
}

/** Runs a small script as the host `node1`. */
function ask(overrides: Partial<HostConnection> = {}, options: Partial<ConnectorOptions> = {}): Promise<Result> {
  return connector(options).connect('node1', target(overrides)).run('id -un; cat', 'said\n', 20);
}

function message(result: Result): string {
  if (result.kind !== 'unreachable') throw new Error(`not unreachable: ${JSON.stringify(result)}`);
  expect(result.message).toMatch(/^node1: .*\.$/);
  return `${result.class}: ${result.message}`;
}

describe('a host that answers', () => {
  it('runs the script with its data and gives exactly what it printed', async () => {
    expect(await ask()).toEqual({ kind: 'done', stdout: 'root\nsaid\n' });
  });

  it('gives a status other than 0 with both outputs', async () => {
    const result = await connector().connect('node1', target()).run('echo out; echo err >&2; exit 5', '', 20);
    expect(result).toEqual({ kind: 'exited', code: 5, stdout: 'out\n', stderr: 'err\n' });
  });

  it('puts nothing but one constant command on the remote command line', async () => {
    await sshd.forget();
    const connection = connector().connect('node1', target());
    await connection.run('cat; secret=word', "it's $(id) `id` \\ data\n", 20);
    expect((await sshd.commands()).map((each) => each.command)).toEqual(['exec sh -s']);
  });

  it('uses one connection for two commands', async () => {
    await sshd.forget();
    const connection = connector().connect('node1', target());
    expect((await connection.run('echo 1', '', 20)).kind).toBe('done');
    expect((await connection.run('echo 2', '', 20)).kind).toBe('done');
    const made = await sshd.connections();
    expect(made).toHaveLength(1);
    expect(made[0]?.commands).toHaveLength(2);
  });

  it('works where no path is short enough for the shared connection', async () => {
    const long = join(temp, 'x'.repeat(100));
    await command('mkdir', [long]);
    const connection = connector({ temp: long }).connect('node1', target());
    expect((await connection.run('echo 1', '', 20)).kind).toBe('done');
    expect((await connection.run('echo 2', '', 20)).kind).toBe('done');
    await connectors[0]?.close();
    await rm(long, { recursive: true });
  });

  it('ends the shared connection and removes every file at the end, and is told the paths before they exist', async () => {
    const paths: string[] = [];
    const there: boolean[] = [];
    const made = connector({
      onSecretFiles: (names) => {
        paths.push(...names);
        // The parent is still as it was.
        there.push(names.some((name) => tryStat(name)));
      },
    });
    await made.connect('node1', target()).run('echo 1', '', 20);
    expect(there).toEqual([false]);
    const directory = paths[0] as string;
    expect((await stat(join(directory, 'key1'))).mode & 0o777).toBe(0o600);
    expect((await stat(directory)).mode & 0o777).toBe(0o700);
    expect((await tryCommand('pgrep', ['-f', directory])).code).toBe(0);
    await made.close();
    await expect(stat(directory)).rejects.toThrow();
    expect((await tryCommand('pgrep', ['-f', directory])).stdout).toBe('');
  });

  it('ignores what a login shell prints before the answer', async () => {
    const result = await ask({ host: '127.0.0.1', port: noisy.port }, noisyOptions());
    expect(result).toEqual({ kind: 'done', stdout: 'root\nsaid\n' });
  });

  it('takes a key with CRLF line ends and no final newline', async () => {
    const broken = sshd.privateKey.trim().replace(/\n/g, '\r\n');
    expect((await ask({}, { privateKeys: readPrivateKeys(broken) })).kind).toBe('done');
  });

  it('tries several keys in order', async () => {
    const keys = [...readPrivateKeys(noisy.privateKey), ...readPrivateKeys(sshd.privateKey)];
    expect((await ask({}, { privateKeys: keys })).kind).toBe('done');
  });

  it('takes a key file of the inventory only where that is allowed', async () => {
    const options = { privateKeys: [], useInventoryKeyFiles: true };
    expect((await ask({ keyFile: sshd.privateKeyFile }, options)).kind).toBe('done');
    const refused = await ask({ keyFile: sshd.privateKeyFile }, { privateKeys: [], useInventoryKeyFiles: false });
    expect(message(refused)).toMatch(/^authentication: /);
  });

  it('becomes root by sudo and hands on the home of the connecting user', async () => {
    const connection = connector().connect('node1', target({ user: sudoer.name, become: true }));
    const result = await connection.run('id -un; printf "%s %s\\n" "$1" "$HOME"; cat', 'said\n', 20);
    expect(result).toEqual({ kind: 'done', stdout: `root\n${sudoer.home} /root\nsaid\n` });
  });

  it('reaches a host through a jump host with the same keys and known hosts', async () => {
    await sshd.forget();
    const jump = { keyword: 'ProxyJump', value: `${root.name}@${ADDRESSES[1]}:${sshd.port}` } as const;
    expect(await ask({ options: [jump] })).toEqual({ kind: 'done', stdout: 'root\nsaid\n' });
    expect((await sshd.connections()).map((each) => each.address).sort()).toEqual([ADDRESS, ADDRESSES[1]]);
  });

  it('reaches many hosts at once', async () => {
    const many = connector();
    const results = await Promise.all(
      ADDRESSES.map((host, index) => many.connect(`node${index}`, target({ host })).run('cat', `${index}\n`, 60)),
    );
    expect(results).toEqual(ADDRESSES.map((_, index) => ({ kind: 'done', stdout: `${index}\n` })));
  });
});

describe('a host that does not', () => {
  it('is not reached with an unknown key, and its fingerprint is named', async () => {
    const text = message(await ask({}, { knownHosts: noisy.knownHosts }));
    expect(text).toMatch(/^host-key: .*not in ssh-known-hosts/);
    expect(text).toContain(sshd.fingerprint);
  });

  it('is not reached without any known hosts', async () => {
    expect(message(await ask({}, { knownHosts: null }))).toContain(sshd.fingerprint);
  });

  it('is not reached with a changed key, and the fingerprint that it offered is named', async () => {
    const old = sshd.knownHosts;
    const before = sshd.fingerprint;
    await sshd.changeHostKey();
    const text = message(await ask({}, { knownHosts: old }));
    expect(text).toMatch(/^host-key: .*is not the one in ssh-known-hosts/);
    expect(text).toContain(sshd.fingerprint);
    expect(text).not.toContain(before);
  });

  it('does not take the wrong key', async () => {
    expect(message(await ask({}, { privateKeys: readPrivateKeys(noisy.privateKey) }))).toMatch(
      /^authentication: node1: no key was accepted/,
    );
  });

  it('refuses connections', async () => {
    const port = await freePort([ADDRESS]);
    expect(message(await ask({ port }))).toMatch(/^connect: node1: .*Connection refused/);
  });

  it('has a name that nobody knows', async () => {
    expect(message(await ask({ host: 'nobody.invalid' }))).toMatch(/^name: node1: Could not resolve hostname/);
  });

  it('has a sudo that wants a password', async () => {
    expect(message(await ask({ user: asked.name, become: true }))).toMatch(/^sudo: node1: sudo refused: .*password/);
  });

  it('takes the connection and says nothing', async () => {
    const silent = await silentHost(ADDRESS);
    try {
      const options = [{ keyword: 'ConnectTimeout', value: '2' }] as const;
      expect(message(await ask({ port: silent.port, options }))).toMatch(/^connect: node1: .*timed out/);
    } finally {
      await silent.close();
    }
  });

  it('has a command that hangs: it is ended there too, and the next command works', async () => {
    const connection = connector().connect('node1', target());
    const nap = '987654';
    const hanging = await connection.run(`sleep ${nap}; echo never`, '', 1);
    expect(hanging).toEqual({ kind: 'timed-out', seconds: 1 });
    expect((await tryCommand('pgrep', ['-f', `^sleep ${nap}`])).stdout).toBe('');
    expect(await connection.run('echo 2', '', 20)).toEqual({ kind: 'done', stdout: '2\n' });
  });

  it('is lost while a script runs there', async () => {
    const connection = connector().connect('node1', target());
    const running = connection.run('echo started; sleep 30; echo ended', '', 60);
    await until('the script runs', async () => (await tryCommand('pgrep', ['-f', '^sleep 30$'])).code === 0);
    await sshd.pause();
    expect(message(await running)).toBe(
      'connect: node1: the connection was lost while a script ran there. Check that the machine is on and that the runner reaches it by ansible_host and ansible_port.',
    );
    await sshd.resume();
    expect((await connection.run('echo 2', '', 20)).kind).toBe('done');
  });

  it('is behind a jump host that fails: the message says where', async () => {
    const hop = (value: string) => [{ keyword: 'ProxyJump', value }] as const;
    const port = await freePort([ADDRESS]);
    const refused = message(await ask({ options: hop(`${ADDRESSES[1]}:${port}`) }));
    expect(refused).toMatch(/^connect: node1: at the jump host 127\.0\.7\.2: .*Connection refused/);
    const unknown = message(await ask({ options: hop(`127.0.0.1:${noisy.port}`) }));
    expect(unknown).toMatch(/^host-key: node1: at the jump host 127\.0\.0\.1: /);
    expect(unknown).toContain(noisy.fingerprint);
    const behind = message(await ask({ port, options: hop(`${ADDRESSES[1]}:${sshd.port}`) }));
    expect(behind).toMatch(/^connect: node1: (?!at the jump host)/);
  });

  it.each([
    ['-oProxyCommand=id', null],
    ['a b', null],
    ['host\nProxyCommand id', null],
    ['$(id)', null],
    [ADDRESS, '-oProxyCommand=id'],
    [ADDRESS, 'a\nProxyCommand id'],
  ])('has an address or user that must not reach ssh: %j %j', async (host, user) => {
    await sshd.forget();
    expect(message(await ask({ host, user }))).toMatch(
      /^connect: node1: its address .* Correct it in the inventory\.$/,
    );
    expect(await sshd.connections()).toEqual([]);
  });
});

function noisyOptions(): Partial<ConnectorOptions> {
  return { knownHosts: noisy.knownHosts, privateKeys: readPrivateKeys(noisy.privateKey) };
}

function tryStat(path: string): boolean {
  try {
    statSync(path);
    return true;
  } catch {
    return false;
  }
}
