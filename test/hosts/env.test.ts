import { spawnSync } from 'node:child_process';
import {
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { containerLine, hasShell, LocalHost, SHELLS, step } from './helpers.js';

const OURS = 'docker-compose.fleet-role.yml';
const LISTED = `COMPOSE_FILE=docker-compose.yml:${OURS}`;
const MARKER = '# fleet-role wrote the next line: ';
const LIST = step('write-environment', 'COMPOSE_FILE');

/** What a `.env` says about K3S_URL. */
const URLS: [string, string, string | null][] = [
  ['plain', 'K3S_URL=https://a:6443\n', 'https://a:6443'],
  ['double quotes, comment, CRLF', 'export K3S_URL="https://a:6443" # x\r\n', 'https://a:6443'],
  ['single quotes and spaces', `  K3S_URL = ' https://a:6443 '\n`, 'https://a:6443'],
  ['the last one', 'K3S_URL=https://b:1\nK3S_URL=https://a:6443', 'https://a:6443'],
  ['a comment', '#K3S_URL=https://b:1\n', null],
  ['empty', 'K3S_URL=\n', null],
  ['empty in quotes', 'K3S_URL=""\n', null],
  ['a comment only, which Compose takes for the value', 'K3S_URL= # none\n', '# none'],
  ['a hash without a space', 'K3S_URL=https://a:6443#x\n', 'https://a:6443#x'],
  ['the form of YAML', 'K3S_URL: https://a:6443\n', 'https://a:6443'],
  ['a tab before the comment', 'K3S_URL=https://a:6443\t# x\n', 'https://a:6443\t# x'],
  ['a byte order mark', '\uFEFFK3S_URL=https://a:6443\n', 'https://a:6443'],
  ['inherited', 'K3S_URL\nA=1\n', null],
  ['inside other text', `A='x\nK3S_URL=https://b:1\n'\n`, null],
  ['emptied later', 'K3S_URL=https://a:6443\nK3S_URL=\n', null],
  ['an escaped quote', 'A="x\\"\nK3S_URL=https://b:1\n"\nK3S_URL=https://a:6443\n', 'https://a:6443'],
];

describe.each(SHELLS.filter(hasShell))('the .env of a host whose sh is %s', (shell) => {
  let host: LocalHost;

  beforeEach(() => {
    host = new LocalHost(shell);
    host.write('docker-compose.yml', 'services: {}\n');
  });

  afterEach(() => host.close());

  it.each<[string, string, string]>([
    ['nothing', '', `${MARKER}${LISTED}\n${LISTED}\n`],
    ['an empty line', '\n', `\n${MARKER}${LISTED}\n${LISTED}\n`],
    ['other variables', 'A=1\n# c\nB="x y"\n', `A=1\n# c\nB="x y"\n${MARKER}${LISTED}\n${LISTED}\n`],
    ['no final newline', 'A=1\nB=2', `A=1\nB=2\n${MARKER}${LISTED}\n${LISTED}`],
    ['CRLF', 'A=1\r\nB=2\r\n', `A=1\r\nB=2\r\n${MARKER}${LISTED}\r\n${LISTED}\r\n`],
    ['CRLF and no final newline', 'A=1\r\nB=2', `A=1\r\nB=2\n${MARKER}${LISTED}\n${LISTED}`],
    ['an empty list', 'COMPOSE_FILE=\nA=1\n', `COMPOSE_FILE=\nA=1\n${MARKER}${LISTED}\n${LISTED}\n`],
    ['a comment about it', '#COMPOSE_FILE=a.yml\n', `#COMPOSE_FILE=a.yml\n${MARKER}${LISTED}\n${LISTED}\n`],
    ['another name that ends so', 'X_COMPOSE_FILE=a\n', `X_COMPOSE_FILE=a\n${MARKER}${LISTED}\n${LISTED}\n`],
    ['a text that looks so', 'A="\nCOMPOSE_FILE=x\n"\n', `A="\nCOMPOSE_FILE=x\n"\n${MARKER}${LISTED}\n${LISTED}\n`],
    ['bytes of another alphabet', 'A=\xff\xe4\x80\n', `A=\xff\xe4\x80\n${MARKER}${LISTED}\n${LISTED}\n`],
    ['a list', 'COMPOSE_FILE=a.yml\n', `COMPOSE_FILE=a.yml:${OURS}\n`],
    ['a list and no final newline', 'A=1\nCOMPOSE_FILE=a.yml:b.yml', `A=1\nCOMPOSE_FILE=a.yml:b.yml:${OURS}`],
    ['a list with CRLF', 'COMPOSE_FILE=a.yml\r\nA=1\r\n', `COMPOSE_FILE=a.yml:${OURS}\r\nA=1\r\n`],
    ['a list and a comment', 'COMPOSE_FILE=a.yml  # mine\n', `COMPOSE_FILE=a.yml:${OURS}  # mine\n`],
    ['a hash inside the list', 'COMPOSE_FILE=a#b.yml\n', `COMPOSE_FILE=a#b.yml:${OURS}\n`],
    ['a list in quotes', ' export  COMPOSE_FILE = "a b.yml" # c\n', ` export  COMPOSE_FILE = "a b.yml:${OURS}" # c\n`],
    ['a list in single quotes', "COMPOSE_FILE='a.yml'\r\n", `COMPOSE_FILE='a.yml:${OURS}'\r\n`],
    ['the form of YAML', 'COMPOSE_FILE: a.yml\n', `COMPOSE_FILE: a.yml:${OURS}\n`],
    ['two lists', 'COMPOSE_FILE=a.yml\nCOMPOSE_FILE=b.yml\n', `COMPOSE_FILE=a.yml\nCOMPOSE_FILE=b.yml:${OURS}\n`],
    [
      'another separator',
      'COMPOSE_PATH_SEPARATOR=,\nCOMPOSE_FILE=a.yml,b.yml\n',
      `COMPOSE_PATH_SEPARATOR=,\nCOMPOSE_FILE=a.yml,b.yml,${OURS}\n`,
    ],
    ['a byte order mark', '\xef\xbb\xbfCOMPOSE_FILE=a.yml\n', `\xef\xbb\xbfCOMPOSE_FILE=a.yml:${OURS}\n`],
    ['absolute paths', 'COMPOSE_FILE=/srv/a.yml\n', `COMPOSE_FILE=/srv/a.yml:DIRECTORY/${OURS}\n`],
  ])('lists the override and restores it byte for byte: %s', async (_what, before, after) => {
    host.write('.env', Buffer.from(before, 'latin1'), 0o600);
    const listing = await host.ok(step('add-override'), LIST);
    expect(listing.observation).toMatchObject({ override: { placed: 'ours', listed: true } });
    expect(host.read('.env')).toBe(after.replace('DIRECTORY', host.directory));
    expect(statSync(host.path('.env')).mode & 0o777).toBe(0o600);
    const removed = await host.ok(step('remove-override'));
    expect(removed.observation).toMatchObject({ override: { placed: 'absent', listed: false } });
    expect(host.read('.env')).toBe(before);
    expect(statSync(host.path('.env')).mode & 0o777).toBe(0o600);
    expect(host.files()).toEqual(['.env', 'docker-compose.yml']);
  });

  it('makes a .env where there is none, and removes the one it made', async () => {
    await host.ok(step('add-override'), LIST);
    expect(host.read('.env')).toBe(`# fleet-role wrote this file and the next line: ${LISTED}\n${LISTED}\n`);
    await host.ok(step('remove-override'));
    expect(host.files()).toEqual(['docker-compose.yml']);
  });

  it('keeps what others wrote meanwhile', async () => {
    await host.ok(step('add-override'), LIST);
    host.write('.env', `${host.read('.env')}A=1\n`);
    await host.ok(step('remove-override'));
    expect(host.read('.env')).toBe('A=1\n');
    host.write('.env', 'B=2\n');
    await host.ok(step('add-override'), LIST);
    host.write('.env', host.read('.env').replace(/\n(COMPOSE_FILE=.*)\n/, '\n$1:mine.yml\n'));
    await host.ok(step('remove-override'));
    expect(host.read('.env')).toBe('B=2\nCOMPOSE_FILE=docker-compose.yml:mine.yml\n');
  });

  it.each([
    [OURS, `a.yml:${OURS}`, 'a.yml'],
    ['in the middle', `a.yml:${OURS}:b.yml`, 'a.yml:b.yml'],
    ['first', `./${OURS}:b.yml`, 'b.yml'],
    ['twice', `${OURS}:b.yml:${OURS}`, 'b.yml'],
    ['alone', OURS, ''],
  ])('takes the override out of a list that somebody else wrote: %s', async (_what, list, rest) => {
    host.write('.env', `COMPOSE_FILE=${list}\n`);
    host.write(OURS, 'x');
    expect((await host.reached()).override.listed).toBe(true);
    await host.ok(step('remove-override'));
    expect(host.read('.env')).toBe(`COMPOSE_FILE=${rest}\n`);
  });

  it.each([
    ['docker-compose.yml', ['docker-compose.yml', 'docker-compose.yaml'], 'docker-compose.yml'],
    ['compose.yaml first', ['compose.yaml', 'docker-compose.yml'], 'compose.yaml'],
    ['its automatic override', ['compose.yml', 'compose.override.yaml'], 'compose.yml:compose.override.yaml'],
    [
      'an override of the other name',
      ['compose.yaml', 'docker-compose.override.yml'],
      'compose.yaml:docker-compose.override.yml',
    ],
  ])('writes the list that Compose itself would use: %s', async (_what, files, list) => {
    rmSync(host.path('docker-compose.yml'));
    for (const file of files) host.write(file, 'services: {}\n');
    await host.ok(step('add-override'), LIST);
    expect(host.read('.env')).toContain(`\nCOMPOSE_FILE=${list}:${OURS}\n`);
  });

  it('writes the further files of the inventory, relative where they lie in the project', async () => {
    const outside = join(host.base, 'outside.yml');
    writeFileSync(outside, '');
    host.write('more/extra.yml', '');
    const composeFiles = ['more/extra.yml', outside, 'docker-compose.yml'];
    await host.do([step('add-override'), LIST], { composeFiles });
    expect(host.read('.env')).toContain(`\nCOMPOSE_FILE=docker-compose.yml:more/extra.yml:${outside}:${OURS}\n`);
  });

  it('writes the list that the running container was created with, and none where one of its files is gone', async () => {
    host.write('base.yml', '');
    const files = [host.path('base.yml'), host.path('docker-compose.yml'), host.path(OURS)].join(',');
    host.docker({
      out:
        containerLine({ status: 'exited', configFiles: host.path('docker-compose.yml') }) +
        containerLine({ name: '/github-runner-k3s-agent', configFiles: files }),
    });
    await host.ok(step('add-override'), LIST);
    expect(host.read('.env')).toContain(`\nCOMPOSE_FILE=base.yml:docker-compose.yml:${OURS}\n`);
    await host.ok(step('remove-override'));
    rmSync(host.path('base.yml'));
    // Other files could put the data elsewhere.
    const { failed } = await host.do([step('add-override'), LIST]);
    expect(failed?.message).toMatch(/base\.yml, by which the container was created, is gone: .* in COMPOSE_FILE in/);
    host.write('.env', 'COMPOSE_FILE=docker-compose.yml\n');
    await host.ok(step('add-override'), LIST);
    expect(host.read('.env')).toBe(`COMPOSE_FILE=docker-compose.yml:${OURS}\n`);
  });

  it('does not list a file that is not there, and no list that cannot be written', async () => {
    expect((await host.do([LIST])).failed?.message).toContain(`${OURS} is not there`);
    rmSync(host.path('docker-compose.yml'));
    expect((await host.do([step('add-override'), LIST])).failed?.message).toMatch(/no list/);
    host.write('docker-compose.yml', '');
    host.write('a:b.yml', '');
    const result = await host.do([LIST], { composeFiles: ['a:b.yml'] });
    expect(result.failed?.message).toMatch(/a:b\.yml has the separator :/);
    expect(existsSync(host.path('.env'))).toBe(false);
  });

  it.each<[string, string, string, string]>([
    ['a new one', 'A=1\n', 'K3S_URL=https://a:6443', 'A=1\nK3S_URL=https://a:6443\n'],
    ['a new one, no final newline', 'A=1', 'K3S_URL=https://a:6443', 'A=1\nK3S_URL=https://a:6443'],
    ['a new one, CRLF', 'A=1\r\n', 'K3S_URL=https://a:6443', 'A=1\r\nK3S_URL=https://a:6443\r\n'],
    ['another value', 'K3S_URL=https://b:1 # c\nA=1\n', 'K3S_URL=https://a:6443', 'K3S_URL=https://a:6443 # c\nA=1\n'],
    ['an empty one', 'export K3S_URL=\nA=1\n', 'K3S_URL=https://a:6443', 'export K3S_URL=https://a:6443\nA=1\n'],
    ['the same in quotes', 'K3S_URL="https://a:6443"\n', 'K3S_URL=https://a:6443', 'K3S_URL="https://a:6443"\n'],
    ['other quotes', `K3S_URL='x y' # c\r\n`, 'K3S_URL=https://a:6443', 'K3S_URL=https://a:6443 # c\r\n'],
    ['several lines', 'K3S_URL="a\nb\n" # c\nB=2\n', 'K3S_URL=https://a:6443', 'K3S_URL=https://a:6443 # c\nB=2\n'],
    ['spaces', '', 'K3S_TLS_SAN_LIST=a b', `K3S_TLS_SAN_LIST='a b'\n`],
    ['dollars and quotes', '', `A=x'$y "z`, `A='x\\'$y "z'\n`],
    ['nothing', 'A=1\n', 'A=', 'A=\n'],
  ])('sets a variable and touches no other byte: %s', async (_what, before, value, after) => {
    host.write('.env', before, 0o640);
    await host.ok(step('write-environment', value));
    expect(host.read('.env')).toBe(after);
    expect(statSync(host.path('.env')).mode & 0o777).toBe(0o640);
  });

  it.each(URLS)('reads the join URL as Compose does: %s', async (_what, text, url) => {
    host.write('.env', text);
    expect((await host.reached()).environment).toEqual({ k3s: null, 'k3s-agent': url });
    host.write('.env', text.replaceAll('K3S_URL', 'K3S_JOIN_SERVER_URL'));
    expect((await host.reached()).environment).toEqual({ k3s: url, 'k3s-agent': null });
  });

  it('keeps the owner', async () => {
    host.write('.env', 'A=1\n', 0o600);
    chownSync(host.path('.env'), 12345, 23456);
    await host.ok(step('add-override'), LIST);
    expect(statSync(host.path('.env'))).toMatchObject({ uid: 12345, gid: 23456 });
    expect(statSync(host.path('.env')).mode & 0o777).toBe(0o600);
  });

  it('writes to what a linked .env is linked to, and keeps the link', async () => {
    mkdirSync(join(host.base, 'shared'));
    const target = join(host.base, 'shared', 'real.env');
    writeFileSync(target, 'A=1\n');
    symlinkSync('../../shared/real.env', host.path('.env'));
    await host.ok(step('add-override'), LIST);
    expect(lstatSync(host.path('.env')).isSymbolicLink()).toBe(true);
    expect(readFileSync(target, 'utf8')).toBe(`A=1\n${MARKER}${LISTED}\n${LISTED}\n`);
  });

  it.each([
    ['a quote that is never closed', 'A="x\nCOMPOSE_FILE=a\n', /never closed/],
    ['a NUL byte', 'A=1\0\n', /NUL/],
  ])('refuses %s and changes nothing', async (_what, text, words) => {
    host.write('.env', text);
    host.write(OURS, 'x');
    const result = await host.do([step('write-environment', 'A=2')]);
    expect(result.failed?.message).toMatch(words);
    expect(host.read('.env')).toBe(text);
  });

  it.each(['K3S_URL=x\\', "K3S_URL=x\\'\nA=1", 'K3S_URL=x\nA=1', 'k3s url=x', 'PATH'])(
    'refuses to set %j, which .env could not hold as it is',
    async (value) => {
      host.write('.env', 'A=1\n');
      expect((await host.do([step('write-environment', value)])).failed?.message).toMatch(/^The step/);
      expect(host.read('.env')).toBe('A=1\n');
    },
  );

  it('never shows another value of it', async () => {
    host.write('.env', 'K3S_TOKEN=hunter2\nCOMPOSE_FILE=docker-compose.yml\n');
    const result = await host.connection.run('true', '', 20);
    expect(result.kind).toBe('done');
    const seen = JSON.stringify([await host.reached(), await host.do([step('add-override'), LIST])]);
    expect(seen).not.toContain('hunter2');
  });
});

const docker = spawnSync('docker', ['compose', 'version', '--short'], { encoding: 'utf8' });

describe.skipIf(docker.status !== 0)('Compose itself, which needs no engine for that,', () => {
  let host: LocalHost;

  beforeEach(() => {
    host = new LocalHost('dash');
  });

  afterEach(() => host.close());

  /** What Compose gives a service for `${K3S_URL}`. */
  function urlByCompose(): string {
    const config = spawnSync('docker', ['compose', 'config', '--format', 'json'], {
      ...{ cwd: host.directory, encoding: 'utf8', env: { HOME: host.home, PATH: '/usr/local/bin:/usr/bin:/bin' } },
    });
    expect(config.stderr).toBe('');
    return JSON.parse(config.stdout).services.k3s.environment.URL;
  }

  const FILE = `services: { k3s: { image: x, environment: { URL: "\${K3S_URL-}" } }, k3s-agent: { image: x } }\n`;

  it.each(URLS)('reads a join URL as we do: %s', async (_what, text, url) => {
    host.write('docker-compose.yml', FILE);
    host.write('.env', text);
    expect(urlByCompose().trim()).toBe(url ?? '');
    expect((await host.reached()).environment['k3s-agent']).toBe(url);
  });

  it.each(["a b'c", 'x"$y', '$${z} #', '# x', ' x ', '"', "'"])('reads the value that we set: %j', async (value) => {
    host.write('docker-compose.yml', FILE);
    host.write('.env', 'A=1\n');
    await host.ok(step('write-environment', `K3S_URL=${value}`));
    expect(urlByCompose()).toBe(value.replaceAll('$', () => '$$'));
  });

  it.each([
    'A=1\n',
    'A=1\r\nB=2',
    'A="x\ny"\nB=\'$z\'\n',
    'COMPOSE_FILE="docker-compose.yml" # c\n',
    'export COMPOSE_FILE = docker-compose.yml # c\r\n',
  ])('reads our list from %j', async (before) => {
    host.write('docker-compose.yml', FILE);
    host.write('.env', before);
    await host.ok(step('create-role-directory'), step('add-override'), LIST);
    const config = spawnSync('docker', ['compose', 'config'], {
      ...{ cwd: host.directory, encoding: 'utf8', env: { HOME: host.home, PATH: '/usr/local/bin:/usr/bin:/bin' } },
    });
    expect(config.stderr).toBe('');
    expect(config.stdout).toContain(`source: ${host.path('fleet-role.d')}`);
  });
});
