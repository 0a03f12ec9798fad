import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
} from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { asset } from '../../src/assets.js';
import { hasShell, LocalHost, SHELLS, step } from './helpers.js';

const OVERRIDE = asset('node/docker-compose.fleet-role.yml');

describe.each(SHELLS.filter(hasShell))('files of a host whose sh is %s', (shell) => {
  let host: LocalHost;

  beforeEach(() => {
    host = new LocalHost(shell);
    host.write('docker-compose.yml', 'services: {}\n');
  });

  afterEach(() => host.close());

  it('is run by that shell', async () => {
    const result = await host.connection.run('readlink /proc/$$/exe', '', 20);
    expect(result).toMatchObject({ kind: 'done', stdout: expect.stringMatching(`/${shell}\n$`) });
  });

  it('makes the role directory empty and open to read', async () => {
    const result = await host.ok(step('create-role-directory'));
    expect(result.done).toHaveLength(1);
    expect(host.files()).toEqual(['docker-compose.yml', 'fleet-role.d']);
    expect(statSync(host.path('fleet-role.d')).mode & 0o7777).toBe(0o755);
    expect(result.observation).toMatchObject({ roleDirectory: 'present', role: { kind: 'absent' } });
  });

  it('writes the files of the role directory and reads them back', async () => {
    const url = 'https://node2.example.ts.net:6443';
    const result = await host.ok(
      step('create-role-directory'),
      step('write-role', 'server'),
      step('write-join-url', url),
      step('write-identity', '0b1c-uid'),
    );
    expect(host.read('fleet-role.d/role')).toBe('server\n');
    expect(host.read('fleet-role.d/join-url')).toBe(`${url}\n`);
    expect(host.read('fleet-role.d/cluster')).toBe('0b1c-uid\n');
    expect(statSync(host.path('fleet-role.d/role')).mode & 0o777).toBe(0o644);
    expect(result.observation).toMatchObject({
      role: { kind: 'text', text: 'server' },
      joinUrl: { kind: 'text', text: url },
      cluster: { kind: 'text', text: '0b1c-uid' },
    });
    expect(host.files().filter((name) => name.includes('fleet-role-new') || name.includes('lock'))).toEqual([]);
  });

  it('writes an empty file for an empty value, which is not an absent one', async () => {
    const result = await host.ok(step('create-role-directory'), step('write-role', ''), step('write-join-url', ''));
    expect(statSync(host.path('fleet-role.d/role')).size).toBe(0);
    expect(result.observation).toMatchObject({ role: { kind: 'text', text: '' }, joinUrl: { kind: 'text', text: '' } });
  });

  it('reads files as the guards do: white space and CR around the word do not count', async () => {
    host.write('fleet-role.d/role', '\r\n  server \r\n\n');
    host.write('fleet-role.d/join-url', '');
    mkdirSync(host.path('fleet-role.d/cluster'));
    expect(await host.reached()).toMatchObject({
      role: { kind: 'text', text: 'server' },
      joinUrl: { kind: 'text', text: '' },
      cluster: { kind: 'unreadable' },
    });
    rmSync(host.path('fleet-role.d/role'));
    symlinkSync('nowhere', host.path('fleet-role.d/role'));
    expect(await host.reached()).toMatchObject({ role: { kind: 'unreadable' } });
  });

  it('hands on any value byte for byte and expands nothing', async () => {
    const value = `a'b"c$HOME \`id\` $(id) \\ \\n %s %% ä漢 *`;
    await host.ok(step('create-role-directory'), step('write-identity', value));
    expect(host.read('fleet-role.d/cluster')).toBe(Buffer.from(`${value}\n`).toString('latin1'));
  });

  it('removes the named files and no others', async () => {
    await host.ok(step('create-role-directory'), step('write-role', 'agent'), step('write-join-url', 'https://a:1'));
    await host.ok(step('clear-role-files', 'role'));
    expect(host.files()).toContain('fleet-role.d/join-url');
    await host.ok(step('clear-role-files', 'role join-url'));
    expect(host.files()).toEqual(['docker-compose.yml', 'fleet-role.d']);
    expect((await host.do([step('clear-role-files', '../docker-compose.yml')])).failed?.message).toMatch(
      /no role file/,
    );
    expect(host.files()).toContain('docker-compose.yml');
  });

  it('installs both guard scripts, executable, and knows their version', async () => {
    const result = await host.ok(step('create-role-directory'), step('install-guards', '1'));
    for (const name of ['node-entrypoint.sh', 'fleet-role-is.sh']) {
      expect(host.read(`fleet-role.d/${name}`)).toBe(Buffer.from(asset(`node/${name}`)).toString('latin1'));
      expect(statSync(host.path(`fleet-role.d/${name}`)).mode & 0o777).toBe(0o755);
    }
    expect(result.observation).toMatchObject({ guardsInstalled: '1' });
    chmodSync(host.path('fleet-role.d/node-entrypoint.sh'), 0o644);
    await host.ok(step('install-guards', '1'));
    expect(statSync(host.path('fleet-role.d/node-entrypoint.sh')).mode & 0o777).toBe(0o755);
  });

  it.each([
    ['one is missing', '1', null, null],
    ['they differ', '1', '2', null],
    ['one has no version', '1', '', null],
    ['both are of one version', '7', '7', '7'],
  ])('says which guards are installed: %s', async (_what, entrypoint, condition, version) => {
    const script = (of: string) => `#!/bin/sh\n${of === '' ? '' : `# fleet-role-guards ${of}`}\n`;
    host.write('fleet-role.d/node-entrypoint.sh', script(entrypoint));
    if (condition !== null) host.write('fleet-role.d/fleet-role-is.sh', script(condition));
    expect((await host.reached()).guardsInstalled).toBe(version);
  });

  it('places the override and tells ours from another', async () => {
    expect((await host.reached()).override).toEqual({ placed: 'absent', listed: false });
    host.write('docker-compose.fleet-role.yml', `${OVERRIDE}# more\n`);
    expect((await host.reached()).override).toEqual({ placed: 'differs', listed: false });
    await host.ok(step('add-override'));
    expect(host.read('docker-compose.fleet-role.yml')).toBe(Buffer.from(OVERRIDE).toString('latin1'));
    expect((await host.reached()).override).toEqual({ placed: 'ours', listed: false });
    await host.ok(step('remove-override'));
    expect(host.files()).toEqual(['docker-compose.yml']);
  });

  it('stops at the first step that fails, says why, and looks all the same', async () => {
    const result = await host.do([
      step('create-role-directory'),
      step('write-role', 'agent'),
      step('drain'),
      step('write-role', 'server'),
    ]);
    expect(result.done.map((each) => each.action)).toEqual(['create-role-directory', 'write-role']);
    expect(result.failed?.step.action).toBe('drain');
    expect(result.failed?.message).toMatch(/not know that step/);
    expect(result.observation).toMatchObject({ kind: 'reached', role: { kind: 'text', text: 'agent' } });
  });

  it('says what is missing', async () => {
    expect((await host.do([step('write-role', 'agent')])).failed?.message).toMatch(/no role directory .*fleet-role\.d/);
    rmSync(host.directory, { recursive: true });
    const result = await host.do([step('create-role-directory')]);
    expect(result.failed?.message).toMatch(/no project directory .*\.github-runner/);
    expect(result.observation).toMatchObject({ kind: 'reached', provisioned: false, directory: host.directory });
  });

  it('does not write through a directory in the place of a file, or over a file in the place of the directory', async () => {
    host.write('fleet-role.d', 'a file');
    expect((await host.do([step('create-role-directory')])).failed?.message).toMatch(/is no directory/);
    rmSync(host.path('fleet-role.d'));
    mkdirSync(host.path('fleet-role.d/role'), { recursive: true });
    expect((await host.do([step('write-role', 'agent')])).failed?.message).toMatch(/is a directory/);
  });

  it('removes what a killed script left on its way', async () => {
    host.write('.env.fleet-role-new', 'half');
    host.write('fleet-role.d/role.fleet-role-new', 'ser');
    await host.ok(step('write-role', 'server'));
    expect(host.files()).toEqual(['docker-compose.yml', 'fleet-role.d', 'fleet-role.d/role']);
  });

  describe('the host lock', () => {
    const lock = () => host.path('.fleet-role.lock');

    it('is waited for, and the message says who holds it', async () => {
      host.write('fleet-role.d/role', 'agent\n');
      const holder = host.connection.run(
        `boot=$(cat /proc/sys/kernel/random/boot_id); read -r line </proc/$$/stat; line=\${line##*) }; set -- $line
         ln -s "$$.\${20}.$boot" '${lock()}'; sleep 4; rm '${lock()}'`,
        '',
        60,
      );
      await new Promise((resolve) => setTimeout(resolve, 500));
      const pid = readlinkSync(lock()).split('.')[0];
      const waiting = await host.do([step('write-role', 'server')]);
      expect(waiting.failed?.message).toContain(`(process ${pid}) still works on ${host.directory}`);
      expect(host.read('fleet-role.d/role')).toBe('agent\n');
      expect(readlinkSync(lock())).toContain(`${pid}.`);
      await holder;
      await host.ok(step('write-role', 'server'));
    });

    it.each([
      ['a process that is gone', () => `4194399.12345.${bootId()}`],
      ['a process whose number another one has now', () => `${process.pid}.1.${bootId()}`],
      ['an earlier boot', () => `${process.pid}.${startOf(process.pid)}.00000000-0000-0000-0000-000000000000`],
      ['nobody that can be read', () => 'x'],
    ])('of %s is taken over', async (_who, owner) => {
      host.write('fleet-role.d/role', 'agent\n');
      symlinkSync(owner(), lock());
      const result = await host.do([step('write-role', 'server')]);
      expect(result.failed).toBeNull();
      expect(host.files()).not.toContain('.fleet-role.lock');
    });

    it('is taken over although a killed script left the lock of the taking behind', async () => {
      host.write('fleet-role.d/role', 'agent\n');
      symlinkSync(`4194399.1.${bootId()}`, lock());
      mkdirSync(`${lock()}.old`);
      expect((await host.do([step('write-role', 'server')])).failed?.message).toMatch(/still works/);
      utimesSync(`${lock()}.old`, 1, 1);
      expect((await host.do([step('write-role', 'server')])).failed).toBeNull();
      expect(host.files()).toEqual(['docker-compose.yml', 'fleet-role.d', 'fleet-role.d/role']);
    });

    it('is not taken inside a directory of its name, which would lock nothing', async () => {
      host.write('fleet-role.d/role', 'agent\n');
      mkdirSync(lock());
      const result = await host.do([step('write-role', 'server')]);
      expect(result.failed?.message).toMatch(/\.fleet-role\.lock is not a lock of fleet-role; remove it/);
      expect(readdirSync(lock())).toEqual([]);
      expect(host.read('fleet-role.d/role')).toBe('agent\n');
    });

    it('is not taken for a look', async () => {
      const before = statSync(host.directory).mtimeMs;
      await host.reached();
      expect(statSync(host.directory).mtimeMs).toBe(before);
    });
  });
});

function bootId(): string {
  return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
}

/** When a process began, in the kernel's ticks: the 22nd number of its stat, the name in brackets being the second. */
function startOf(pid: number): string {
  return (
    readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')[19] ?? ''
  );
}
