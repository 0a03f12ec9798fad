import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { HostConnection, SshOption } from '../../src/fleet/fleet.js';
import { classifySsh } from '../../src/hosts/classify.js';
import { frame, unframe } from '../../src/hosts/frame.js';
import { fastKeyExchange, jumpHosts, sshConfig } from '../../src/hosts/ssh-config.js';
import { tryCommand } from '../helpers/command.js';
import { LOCAL } from './helpers.js';

const PATHS = { config: '/t/c', knownHosts: '/t/known', keys: ['/t/key1'], control: '/t/s', logs: ['/t/log'] };

function target(overrides: Partial<HostConnection> = {}): HostConnection {
  return { ...LOCAL, type: 'ssh', host: 'node1.example.net', ...overrides };
}

function config(overrides: Partial<HostConnection> = {}): string {
  const text = sshConfig(target(overrides), [], PATHS, null);
  return typeof text === 'string' ? text : `rejected: ${text.rejected}`;
}

/** What ssh itself understands for an alias of the config. */
async function understood(text: string, alias: string): Promise<Record<string, string>> {
  const file = join(await mkdtemp(join(tmpdir(), 'fleet-config-')), 'config');
  await writeFile(file, text, { mode: 0o600 });
  const read = await tryCommand('ssh', ['-F', file, '-G', alias]);
  await rm(dirname(file), { recursive: true });
  expect(read.stderr).toBe('');
  return Object.fromEntries(read.stdout.split('\n').map((line) => [line.split(' ')[0], line.replace(/^\S+ /, '')]));
}

describe('the ssh config', () => {
  it('lets ssh ask nobody, trust nothing else and forward nothing', async () => {
    const read = await understood(config({ user: 'bob', port: 2222 }), 'host');
    expect(read).toMatchObject({
      ...{ hostname: 'node1.example.net', port: '2222', user: 'bob', batchmode: 'yes', identityfile: '/t/key1' },
      ...{ stricthostkeychecking: 'true', userknownhostsfile: '/t/known', globalknownhostsfile: '/dev/null' },
      ...{ identitiesonly: 'yes', forwardagent: 'no', requesttty: 'false', passwordauthentication: 'no' },
      ...{ controlmaster: 'auto', controlpath: '/t/s', connecttimeout: '15', serveraliveinterval: '15' },
    });
    expect(read).not.toHaveProperty('proxyjump');
  });

  it('takes the options of the inventory over its own', async () => {
    const options: SshOption[] = [
      { keyword: 'ConnectTimeout', value: '7' },
      { keyword: 'ServerAliveInterval', value: '5' },
      { keyword: 'Compression', value: 'yes' },
      { keyword: 'AddressFamily', value: 'inet' },
      { keyword: 'IPQoS', value: 'cs0 cs0' },
    ];
    expect(await understood(config({ options }), 'host')).toMatchObject({
      ...{ connecttimeout: '7', serveraliveinterval: '5', compression: 'yes', addressfamily: 'inet', ipqos: 'cs0 cs0' },
    });
  });

  it('offers the fastest key exchange first, and takes none away', async () => {
    const { stderr: version } = await tryCommand('ssh', ['-V']);
    const text = (value: string | null) => sshConfig(target(), [], PATHS, value) as string;
    const names = async (value: string | null) =>
      ((await understood(text(value), 'host')).kexalgorithms ?? '').split(',');
    const [fast, byDefault] = await Promise.all([names(fastKeyExchange(version)), names(null)]);
    expect(fast[0]).toMatch(/^(?:mlkem768x25519|curve25519)-sha256$/);
    expect(new Set(fast)).toEqual(new Set(byDefault));
  });

  it.each([
    ['OpenSSH_8.9p1 Ubuntu-3ubuntu0.13, OpenSSL 3.0.2 15 Mar 2022', null],
    ['OpenSSH_9.2p1 Debian-2+deb12u10, OpenSSL 3.0.19', '^curve25519-sha256,curve25519-sha256@libssh.org'],
    ['OpenSSH_9.9p2', '^mlkem768x25519-sha256,curve25519-sha256,curve25519-sha256@libssh.org'],
    ['OpenSSH_10.0p2', '^mlkem768x25519-sha256,curve25519-sha256,curve25519-sha256@libssh.org'],
    ['OpenSSH_for_Windows_9.5p1', null],
    ['Dropbear v2022.83', null],
    ['', null],
  ])('asks %j for the key exchange %s', (version, expected) => {
    expect(fastKeyExchange(version)).toBe(expected);
  });

  it('gives every jump host the same rules, and the next one as its way', async () => {
    const hop = { keyword: 'ProxyJump', value: 'alice@a.example:23,[fe80::1%eth0]:24' } as const;
    const connection = target({ options: [hop] });
    const hops = jumpHosts(connection, 'fleet');
    if ('rejected' in hops) throw new Error(hops.rejected);
    const text = sshConfig(connection, hops, { ...PATHS, logs: ['/t/1', '/t/2', '/t/3'] }, null) as string;
    const [first, second, last] = await Promise.all(['jump1', 'jump2', 'host'].map((alias) => understood(text, alias)));
    for (const read of [first, second, last]) {
      expect(read).toMatchObject({ batchmode: 'yes', userknownhostsfile: '/t/known', identityfile: '/t/key1' });
    }
    expect(first).toMatchObject({ hostname: 'a.example', port: '23', user: 'alice' });
    expect(first).not.toHaveProperty('proxycommand');
    expect(second).toMatchObject({ hostname: 'fe80::1%eth0', port: '24', user: 'fleet' });
    expect(second?.proxycommand).toBe('ssh -F "/t/c" -E "/t/1" -W [%h]:%p jump1');
    expect(last?.proxycommand).toBe('ssh -F "/t/c" -E "/t/2" -W [%h]:%p jump2');
    expect([first?.controlpath, second?.controlpath]).toEqual([undefined, undefined]);
  });

  it.each<[string, string | readonly unknown[]]>([
    ['none', []],
    ['a.example', [{ host: 'a.example', port: 22, user: null }]],
    ['fe80::1', [{ host: 'fe80::1', port: 22, user: null }]],
    ['ssh://bob@a.example:23/', [{ host: 'a.example', port: 23, user: 'bob' }]],
    ['a.example:0', 'valid port'],
    ['a.example:99999', 'valid port'],
    ['-oProxyCommand=id', 'not a host name'],
    ['a b', 'not a host name'],
    ['a,', 'is not [user@]host[:port]'],
    ['a\nProxyCommand id', 'not a host name'],
    ['-x@a', 'user name'],
    ['$(id)@a', 'user name'],
  ])('reads the jump hosts %j', (value, expected) => {
    const hops = jumpHosts(target({ options: [{ keyword: 'ProxyJump', value }] }), null);
    if (typeof expected === 'string') expect(hops).toEqual({ rejected: expect.stringContaining(expected) });
    else expect(hops).toEqual(expected);
  });

  it.each<[Partial<HostConnection>, string]>([
    [{ host: '' }, 'not a host name'],
    [{ host: 'a b' }, 'not a host name'],
    [{ host: '-J' }, 'not a host name'],
    [{ host: 'a\n  ProxyCommand id' }, 'not a host name'],
    [{ host: 'a"b' }, 'not a host name'],
    [{ host: 'ä' }, 'not a host name'],
    [{ port: 0 }, 'valid port'],
    [{ port: 1.5 }, 'valid port'],
    [{ user: '-l' }, 'user name'],
    [{ user: 'a b' }, 'user name'],
    [{ user: 'a\n  ProxyCommand id' }, 'user name'],
    [{ user: `a'b` }, 'user name'],
    [{ options: [{ keyword: 'ConnectTimeout', value: '5\n  ProxyCommand id' }] }, 'ConnectTimeout'],
    [{ options: [{ keyword: 'IPQoS', value: 'a b c' }] }, 'IPQoS'],
    [{ options: [{ keyword: 'ProxyCommand' as 'IPQoS', value: 'id' }] }, 'ProxyCommand'],
  ])('is not written for %j', (overrides, words) => {
    expect(config(overrides)).toMatch(/^rejected: /);
    expect(config(overrides)).toContain(words);
  });

  it('takes the key file of the inventory only where no keys were given, and only a plain path', () => {
    const without = (keyFile: string) => sshConfig(target({ keyFile }), [], { ...PATHS, keys: [] }, null);
    expect(config({ keyFile: '/home/a/key' })).not.toContain('/home/a/key');
    expect(without('~/.ssh/my key')).toContain('IdentityFile "~/.ssh/my key"\n');
    for (const bad of ['a"b', 'a\nb', '%h', `\${HOME}`, '`id`']) expect(without(bad)).toHaveProperty('rejected');
  });
});

describe('the words of ssh', () => {
  it('name the nearest hop that failed by itself', () => {
    const quiet = 'debug1: Connecting to a\n';
    const closed = 'kex_exchange_identification: Connection closed by remote host\n';
    expect(classifySsh(['ssh: Could not resolve hostname a: Name or service not known\n', closed])).toMatchObject({
      ...{ class: 'name', jump: 1 },
    });
    expect(classifySsh([quiet, 'Permission denied (publickey).\n', closed])).toMatchObject({
      ...{ class: 'authentication', jump: 2 },
    });
    const forwarding = 'channel 0: open failed: connect failed: Connection refused\nstdio forwarding failed\n';
    expect(classifySsh([forwarding, closed])).toMatchObject({ class: 'connect', jump: null });
    expect(classifySsh(['', ''])).toMatchObject({ class: 'connect', jump: null });
  });

  it('say when a key could not be used', () => {
    const log = 'Load key "/t/key1": invalid format\nbob@a: Permission denied (publickey).\n';
    expect(classifySsh([log])).toEqual({
      ...{ class: 'authentication', jump: null },
      what: 'no key was accepted: bob@a: Permission denied (publickey) (Load key "/t/key1": invalid format)',
    });
  });
});

describe('a framed script', () => {
  const whole = frame('printf "got %s\\n" "$(cat)"', 'one\ntwo\n', null, 'MARK');

  it.each(['dash', 'bash', 'busybox'])('runs whole or not at all: %s', async (shell) => {
    const run = (input: string) => tryCommand(shell, shell === 'busybox' ? ['sh', '-s'] : ['-s'], { input });
    expect(unframe((await run(whole)).stdout, 'MARK')).toEqual({ begun: true, text: 'got one\ntwo\n', code: 0 });
    const lines = whole.split('\n');
    for (let kept = 1; kept < lines.length - 3; kept++) {
      const cut = `${lines.slice(0, kept).join('\n')}\n`;
      // Whatever a shell does with half of it, nothing of the script may have run.
      expect((await run(cut)).stdout, cut).not.toContain('got');
    }
  });

  it('takes no NUL', () => {
    expect(() => frame('', 'a\0b', null, 'MARK')).toThrow(/NUL/);
  });

  it('is found behind what a login shell printed', () => {
    expect(unframe('Welcome\n\nMARK begin\na\n\nMARK end 3\nbye\n', 'MARK')).toEqual({
      ...{ begun: true, text: 'a\n', code: 3 },
    });
    expect(unframe('Welcome\n', 'MARK')).toEqual({ begun: false, text: '', code: null });
    expect(unframe('x\nMARK begin\nhalf', 'MARK')).toEqual({ begun: true, text: 'half', code: null });
  });
});
