import type { ChildProcess } from 'node:child_process';
import { chmod, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { asset } from '../../src/assets.js';
import type { Host as DeclaredHost } from '../../src/fleet/fleet.js';
import { carryOut } from '../../src/hosts/hands.js';
import { lookAt } from '../../src/hosts/probe.js';
import type { ReachedHost, ServiceObservation } from '../../src/plan/observation.js';
import { ACTIONS } from '../../src/plan/step.js';
import { command, tryCommand, until } from '../helpers/command.js';
import { docker } from '../helpers/docker.js';
import { type Host, type Hosts, makeHosts } from '../helpers/fleet.js';
import { Recorder, scriptRunner } from '../helpers/recorded-docker.js';
import { standInImage } from '../helpers/stand-in.js';
import { temporaryFolder } from '../helpers/temporary.js';
import { TestUser } from '../helpers/test-user.js';
import { composeHost, step } from '../hosts/helpers.js';
import { outsideTheList } from '../hosts/recorder.js';

// What k3s would start from, seen through a real engine: on the host where it may be read there, else in a container.

let recorder: Recorder;
let user: TestUser;
let hosts: Hosts;
let host: Host;

const connection = (name: string | null, first = recorder.folder, begun?: (child: ChildProcess) => void) =>
  scriptRunner(name, first, begun);

function declared(): DeclaredHost {
  return composeHost({
    ...{ name: host.name, directory: host.dir, composeProject: host.project, containers: host.containers },
  });
}

/** One look, and how often docker was called for it. */
async function look(as: string | null = null): Promise<ReachedHost & { calls: number }> {
  await recorder.clear();
  const seen = await lookAt(connection(as), declared(), { seconds: 60 });
  if (seen.kind !== 'reached') throw new Error(seen.message);
  return { ...seen, calls: (await recorder.calls()).length };
}

function service(seen: ReachedHost, name: 'k3s' | 'k3s-agent' = 'k3s'): ServiceObservation {
  if (seen.services.kind === 'unknown') throw new Error(seen.services.why);
  return seen.services.value[name];
}

/** The facts without their wrapping; an unknown one is its reason. */
function data(seen: ReachedHost & { calls: number }) {
  const plain = (fact: ReachedHost['token'] | ReachedHost['datastore']) =>
    fact.kind === 'known' ? fact.value : fact.why;
  return {
    datastore: plain(seen.datastore),
    tombstone: plain(seen.tombstone),
    setAside: plain(seen.setAside),
    token: plain(seen.token),
    calls: seen.calls,
  };
}

const NOTHING = { datastore: 'none', tombstone: false, setAside: false };

async function fresh(options: Parameters<typeof makeHosts>[1] = {}): Promise<void> {
  hosts = await makeHosts(1, { host: { running: null }, ...options });
  host = hosts.get('node1');
  user ??= await TestUser.create({ root: false });
  await command('chmod', ['-R', 'a+rX', join(host.dir, '..')]);
}

/** A project whose services have these mounts, `[SOURCE:]TARGET`. */
async function compose(volumes: readonly string[], more = '', agent = volumes): Promise<void> {
  const image = await standInImage();
  const of = (name: 'k3s' | 'k3s-agent', mounts: readonly string[]) =>
    `  ${name}:\n    image: ${image}\n    container_name: ${host.containers[name]}\n    network_mode: none\n` +
    `    entrypoint: [/usr/local/bin/foreign-entrypoint.sh, server]\n    labels: {fleet-role.test: "${process.pid}"}\n` +
    (mounts.length === 0 ? '' : `    volumes:\n${mounts.map((mount) => `      - ${mount}\n`).join('')}`);
  await host.write('docker-compose.yml', `services:\n${of('k3s', volumes)}${of('k3s-agent', agent)}${more}`);
}

const WAL = 'server/db/etcd/member/wal';

beforeAll(async () => {
  recorder = await Recorder.make();
});

afterAll(async () => {
  await user?.remove();
  if (recorder !== undefined) await rm(recorder.folder, { recursive: true });
});

afterEach(() => hosts?.remove());

describe('a node with its data in a directory of the host', () => {
  beforeEach(() => fresh({ host: { running: 'k3s' } }));

  it('costs one question to docker where all may be read, and a container where not', async () => {
    expect(data(await look())).toEqual({ ...NOTHING, token: true, calls: 1 });
    await mkdir(join(host.dataDir, WAL), { recursive: true });
    await writeFile(join(host.dataDir, 'server/db/etcd/tombstone'), '');
    await mkdir(join(host.dataDir, 'server/db.demoted.1'));
    // As k3s makes it: only root may look in.
    await chmod(join(host.dataDir, 'server'), 0o700);
    const all = { datastore: 'etcd', tombstone: true, setAside: true, token: true };
    expect(data(await look())).toEqual({ ...all, calls: 1 });
    const seen = await look(user.name);
    // inspect, run, rm.
    expect(data(seen)).toEqual({ ...all, calls: 3 });
    expect(service(seen)).toMatchObject({ entrypoint: 'ours', guardsInside: null, mounted: false });
    expect((await recorder.calls()).flatMap(outsideTheList)).toEqual([]);
    const left = await docker(['ps', '-aq', '--filter', `volume=${host.dataDir}`]);
    expect(left.trim().split('\n')).toHaveLength(1);
  });

  it('tells whose entrypoint it is, in every state of the container', async () => {
    const version = asset('node/node-entrypoint.sh').split('\n')[1]?.replace('# fleet-role-guards ', '');
    for (const act of [[], ['stop', '-t', '1', host.containers.k3s]]) {
      if (act.length > 0) await docker(act);
      for (const as of [null, user.name]) {
        const seen = await look(as);
        expect([as, service(seen).entrypoint]).toEqual([as, 'ours']);
        expect(seen.calls).toBe(as === null ? 1 : 3);
      }
    }
    const steps = [
      ...[step('create-role-directory'), step('install-guards', '1'), step('add-override')],
      step('write-environment', 'COMPOSE_FILE'),
    ];
    expect((await carryOut(connection(null), declared(), steps, { seconds: 60 })).failed).toBeNull();
    await host.compose('up', '-d', '--no-start', 'k3s', 'k3s-agent');
    const seen = await look();
    expect(service(seen)).toMatchObject({ state: 'stopped', mounted: true, entrypoint: 'ours', guardsInside: version });
    expect(service(seen, 'k3s-agent')).toMatchObject({ entrypoint: 'ours', guardsInside: version });
    expect(seen.calls).toBe(1);
    // Both services by one container, since they have one image.
    expect((await look(user.name)).calls).toBe(3);
  });
});

describe('an entrypoint', () => {
  beforeEach(() => fresh());

  it.each<[string, string, 'ours' | 'honours' | 'foreign' | 'unknown', string | null]>([
    ['#!/bin/sh\n# fleet-role-guards 0.9\nsleep 600\n', '/node-entrypoint.sh', 'ours', '0.9'],
    ['#!/bin/sh\n# fleet-role-guards 0.9\nsleep 600\n', '/entrypoint.sh', 'honours', '0.9'],
    ['#!/bin/sh\n#\n# fleet-role-guards\r\nsleep 600\n', '/node-entrypoint.sh', 'honours', 'installed'],
    ['#!/bin/sh\n # fleet-role-guards 1\nsleep 600\n', '/entrypoint.sh', 'foreign', null],
    ['#!/bin/sh\n# fleet-role-guardsman\nsleep 600\n', '/entrypoint.sh', 'foreign', null],
  ])('%j at %s is %s', async (text, path, expected, version) => {
    await writeFile(join(host.dir, 'entry.sh'), text, { mode: 0o755 });
    await mkdir(join(host.dir, 'fleet-role.d'));
    await writeFile(join(host.dir, 'fleet-role.d/node-entrypoint.sh'), '#!/bin/sh\n# fleet-role-guards installed\n');
    await compose([`./entry.sh:${path}`, './fleet-role.d:/etc/github-runner:ro']);
    const yaml = (await host.read('docker-compose.yml')) ?? '';
    await host.write(
      'docker-compose.yml',
      yaml.replaceAll('[/usr/local/bin/foreign-entrypoint.sh, server]', `[/bin/sh, ${path}, server]`),
    );
    await host.compose('up', '-d', '--no-start', 'k3s');
    for (const as of [null, user.name]) {
      expect(service(await look(as))).toMatchObject({ entrypoint: expected, guardsInside: version });
    }
  });

  it.each<[string, 'foreign' | 'ours']>([
    ['[sh, -c, "exec /usr/local/bin/node-entrypoint.sh server"]', 'foreign'],
    ['[sh, -c, "a\\nb"]', 'foreign'],
    ['[k3s, server]', 'foreign'],
    ['[/usr/local/bin/foreign-entrypoint.sh]', 'foreign'],
    ['[env, sh, -eu, /usr/local/bin/node-entrypoint.sh]', 'ours'],
  ])('%s is %s', async (entrypoint, expected) => {
    await compose([]);
    const yaml = (await host.read('docker-compose.yml')) ?? '';
    await host.write(
      'docker-compose.yml',
      yaml.replaceAll('[/usr/local/bin/foreign-entrypoint.sh, server]', entrypoint),
    );
    await host.compose('up', '-d', '--no-start', 'k3s');
    for (const as of [null, user.name]) expect(service(await look(as)).entrypoint).toBe(expected);
  });
});

describe('a node with its data in a volume', () => {
  beforeEach(() => fresh());

  const inside = (script: string) => host.exec('k3s', 'sh', '-c', script);

  it('without a name keeps it, whoever looks', async () => {
    await compose([]);
    await host.compose('up', '-d', 'k3s');
    await inside(`mkdir -p /var/lib/rancher/k3s/server/db; : >/var/lib/rancher/k3s/server/db/state.db`);
    for (const act of [[], ['stop', '-t', '0', host.containers.k3s]]) {
      if (act.length > 0) await docker(act);
      for (const as of [null, user.name]) {
        expect(data(await look(as))).toMatchObject({ datastore: 'sqlite', tombstone: false, setAside: false });
      }
    }
    await host.compose('up', '-d', 'k3s');
    expect((await inside('cat /var/lib/rancher/k3s/server/db/state.db')).code).toBe(0);
  });

  /** Names of volumes in this container, with the 64 digits that docker gives one without a name. */
  const volumesOf = async () =>
    (await docker(['inspect', '--format', '{{range .Mounts}}{{.Name}} {{end}}', host.containers.k3s]))
      .split(' ')
      .filter((name) => /^[0-9a-f]{64}$/.test(name));

  it('without a name outlives its container, removed while somebody looks', async () => {
    await compose([]);
    await host.compose('up', '-d', 'k3s');
    await inside('mkdir -p /var/lib/rancher/k3s/server/db/etcd/member/wal');
    const volumes = await volumesOf();
    expect(volumes.length).toBeGreaterThan(0);
    // The look in a container is under way until the node's container is gone.
    const real = (await command('sh', ['-c', 'command -v docker'])).trim();
    const folder = await temporaryFolder('removed');
    await chmod(folder, 0o755);
    const text = `#!/bin/bash
words=("$@")
for at in "\${!words[@]}"; do
  [ "\${words[at]}" != -c ] || words[at+1]=$'sed() { sleep 3; busybox sed "$@"; }\\n'"\${words[at+1]}"
done
case $1 in run) (sleep 1; ${real} rm -f ${host.containers.k3s}; echo removed >${folder}/said) >/dev/null 2>&1 & exec ${real} "\${words[@]}" ;; *) exec ${real} "$@" ;; esac
`;
    await writeFile(join(folder, 'docker'), text, { mode: 0o755 });
    await chmod(folder, 0o777);
    const seen = await lookAt(connection(user.name, folder), declared(), { seconds: 60 });
    expect(seen).toMatchObject({ kind: 'reached', datastore: { kind: 'known', value: 'etcd' } });
    expect(await readFile(join(folder, 'said'), 'utf8')).toBe('removed\n');
    expect((await tryCommand('docker', ['inspect', host.containers.k3s])).code).toBe(1);
    expect((await docker(['ps', '-aq', '--filter', `name=fleet-role-look-${host.containers.k3s}`])).trim()).toBe('');
    for (const name of volumes) expect((await docker(['volume', 'inspect', name])).includes(name)).toBe(true);
    await docker(['volume', 'rm', ...volumes]);
    await rm(folder, { recursive: true });
  });

  it('that is there only while a container uses it is looked into by one', async () => {
    await mkdir(join(host.dataDir, WAL), { recursive: true });
    await compose(
      ['disk:/var/lib/rancher/k3s'],
      `volumes:\n  disk:\n    driver_opts: {type: none, o: bind, device: ${host.dataDir}}\n`,
    );
    await host.compose('up', '-d', '--no-start', 'k3s');
    expect(data(await look())).toMatchObject({ datastore: 'etcd', calls: 3 });
    await docker(['rm', host.containers.k3s]);
    expect(data(await look()).datastore).toMatch(/^k3s has no container, and a volume has options of its own/);
  });

  it('below a link is looked into as the node sees it', async () => {
    await compose([`${host.dataDir}:/var/lib/rancher/k3s`, './elsewhere:/elsewhere']);
    await mkdir(join(host.dir, 'elsewhere', 'db/etcd/member/wal'), { recursive: true });
    await symlink('/elsewhere', join(host.dataDir, 'server'));
    await host.compose('up', '-d', '--no-start', 'k3s');
    for (const as of [null, user.name]) expect(data(await look(as))).toMatchObject({ datastore: 'etcd', calls: 3 });
  });

  it('whose source is gone is unknown, and stays gone', async () => {
    await compose([`{type: bind, source: ./gone, target: /var/lib/rancher/k3s}`]);
    await mkdir(join(host.dir, 'gone'));
    await host.compose('up', '-d', '--no-start', 'k3s');
    await rm(join(host.dir, 'gone'), { recursive: true });
    for (const as of [null, user.name]) {
      const words = expect.stringMatching(/gone, which .* mounts, is not there/);
      expect(data(await look(as))).toMatchObject({ calls: 1, datastore: words });
    }
    expect((await tryCommand('ls', [join(host.dir, 'gone')])).code).toBe(2);
  });

  it('of which nothing is mounted is looked into through its process, or unknown', async () => {
    await compose([]);
    const yaml = (await host.read('docker-compose.yml')) ?? '';
    const image = await command('sh', [
      '-c',
      `docker create ${await standInImage()} | { read -r id; docker export "$id" | docker import --change 'ENV PATH=/bin' -; docker rm -v "$id" >/dev/null; }`,
    ]);
    try {
      await host.write('docker-compose.yml', yaml.replaceAll(await standInImage(), image.trim()));
      await host.compose('up', '-d', 'k3s');
      await until('it runs', async () => (await host.inspect('k3s'))?.running === true);
      await inside('mkdir -p /var/lib/rancher/k3s/server/db/etcd/member/wal');
      expect(data(await look())).toMatchObject({ datastore: 'etcd', setAside: false, calls: 1 });
      expect(data(await look(user.name)).datastore).toMatch(/^the data of k3s is in no volume, and frt.* may not look/);
      await docker(['stop', '-t', '0', host.containers.k3s]);
      expect(data(await look()).datastore).toMatch(/^the data of k3s is in no volume/);
    } finally {
      await host.compose('rm', '-sf', 'k3s');
      await docker(['rmi', image.trim()]);
    }
  });
});

describe('a look in a container that does not come to an end', () => {
  beforeEach(() => fresh({ host: { running: 'k3s' } }));

  /** Puts a line before the program that runs in the container, and words before the call of docker. */
  const disturb = async (line: string, before: string) => {
    const real = (await readFile(join(recorder.folder, 'docker'), 'utf8')).match(/exec (\S+)/)?.[1];
    const text = `#!/bin/bash
words=("$@")
for at in "\${!words[@]}"; do
  [ "\${words[at]}" != -c ] || words[at+1]="${line}"$'\\n'"\${words[at+1]}"
done
case $1 in run) exec ${before} ${real} "\${words[@]}" ;; *) exec ${real} "$@" ;; esac
`;
    const folder = await temporaryFolder('disturb');
    await chmod(folder, 0o755);
    await writeFile(join(folder, 'docker'), text, { mode: 0o755 });
    return folder;
  };

  it.each([
    ['hangs', 'sed() { sleep 600; }', ''],
    ['runs in a circle', 'sed() { while :; do :; done; }', ''],
    ['is left by a docker that was killed', 'sed() { sleep 600; }', 'timeout -s KILL 1'],
  ])('that %s leaves its facts unknown and nothing behind', async (_what, line, before) => {
    await chmod(join(host.dataDir), 0o700);
    const folder = await disturb(line, before);
    const seen = await lookAt(connection(user.name, folder), declared(), { seconds: 6 });
    expect(seen).toMatchObject({
      kind: 'reached',
      services: { kind: 'known' },
      datastore: { kind: 'unknown', why: expect.stringMatching(/^docker run: /) },
      tombstone: { kind: 'unknown' },
      setAside: { kind: 'unknown' },
    });
    // What the killed one left the next look removes, of whichever user.
    await lookAt(connection(null), declared(), { seconds: 60 });
    await until('no container is left', async () => {
      const left = await docker(['ps', '-aq', '--filter', `volume=${host.dataDir}`]);
      return left.trim().split('\n').length === 1;
    });
    await rm(folder, { recursive: true });
  });
});

it('a look that is killed with its script leaves a container that the next look removes, and no volume is lost', async () => {
  await fresh();
  await compose([]);
  await host.compose('up', '-d', 'k3s');
  await host.exec('k3s', 'mkdir', '-p', `/var/lib/rancher/k3s/${WAL}`);
  const real = (await command('sh', ['-c', 'command -v docker'])).trim();
  const folder = await temporaryFolder('killed');
  await chmod(folder, 0o755);
  const text = `#!/bin/bash\nwords=("$@")
for at in "\${!words[@]}"; do
  [ "\${words[at]}" != -c ] || words[at+1]=$'sed() { sleep 600; }\\n'"\${words[at+1]}"
done
exec ${real} "\${words[@]}"\n`;
  await writeFile(join(folder, 'docker'), text, { mode: 0o755 });
  const left = async () =>
    (await docker(['ps', '-aq', '--filter', `name=fleet-role-look-${host.containers.k3s}`])).trim();
  let script: ChildProcess | undefined;
  const first = connection(user.name, folder, (child) => {
    script = child;
  });
  const killed = lookAt(first, declared(), { seconds: 60 });
  await until('the container for the look is there', async () => (await left()) !== '');
  process.kill(-(script?.pid ?? 0), 'SIGKILL');
  expect((await killed).kind).toBe('unreachable');
  expect(await left()).not.toBe('');
  expect(data(await look())).toMatchObject({ datastore: 'etcd' });
  expect(await left()).toBe('');
  expect((await recorder.calls()).flatMap(outsideTheList)).toEqual([]);
  expect((await host.exec('k3s', 'ls', '/var/lib/rancher/k3s/server/db/etcd/member')).stdout).toBe('wal\n');
  await rm(folder, { recursive: true });
});

describe('a token', () => {
  beforeEach(() => fresh());

  const created = async (environment: string, volumes: readonly string[] = []) => {
    await compose(volumes);
    const yaml = (await host.read('docker-compose.yml')) ?? '';
    await host.write(
      'docker-compose.yml',
      yaml.replaceAll('network_mode: none', `network_mode: none\n    environment: ${environment}`),
    );
    await host.compose('up', '-d', '--no-start', 'k3s');
  };

  it.each<[string, string, Record<string, string>, boolean]>([
    ['an empty one', '{K3S_TOKEN: "  "}', {}, false],
    ['a token', '{K3S_TOKEN: "a=b c"}', {}, true],
    ['a file', '{K3S_TOKEN_FILE: /etc/rancher/k3s/t}', { t: 'x\n' }, true],
    ['an empty file', '{K3S_TOKEN_FILE: /etc/rancher/k3s/t}', { t: ' \n' }, false],
    ['a file that is not there', '{K3S_TOKEN_FILE: /etc/rancher/k3s/t}', { 'config.yaml': 'a: 1' }, false],
    ['the configuration', '{A: b}', { 'config.yaml': 'a: 1\n"token": x # y\n' }, true],
    ['an empty one there', '{A: b}', { 'config.yaml': 'token: ""\n' }, false],
    ['a part of the configuration', '{A: b}', { 'config.yaml.d/a.yaml': 'token: x\n' }, true],
    [
      'a file that a part names',
      '{A: b}',
      { 'config.yaml.d/a.yaml': "token-file: '/etc/rancher/k3s/t'\n", t: 'x' },
      true,
    ],
    ['no part', '{A: b}', { 'config.yaml.d/a.yml': 'token: x\n' }, false],
  ])('is there by %s: %s', async (_what, environment, files, expected) => {
    await mkdir(join(host.dir, 'etc/config.yaml.d'), { recursive: true });
    for (const [name, text] of Object.entries(files)) await host.write(`etc/${name}`, text);
    await created(environment, ['./etc:/etc/rancher/k3s']);
    // The second one asks whether the container is still the same: its data is in a volume without a name.
    expect(data(await look())).toMatchObject({ token: expected, calls: 2 });
    expect(data(await look(user.name)).token).toBe(expected);
    await chmod(join(host.dir, 'etc'), 0o700);
    expect(data(await look(user.name)).token).toBe(expected);
  });

  it('is not looked for by a relative path, which ends at once', async () => {
    await created('{K3S_TOKEN_FILE: t}');
    for (const as of [null, user.name]) {
      expect(data(await look(as)).token).toBe('the configuration of k3s could not be looked into');
    }
  });

  it('is nowhere, or in .env, and never shown', async () => {
    await created('{A: b}');
    expect(data(await look()).token).toBe(false);
    expect(data(await look(user.name)).token).toBe('the configuration of k3s could not be looked into');
    await host.write('.env', 'K3S_TOKEN=secret-of-the-fleet\n');
    const seen = await look();
    expect(data(seen).token).toBe(true);
    expect(JSON.stringify(seen)).not.toContain('secret-of-the-fleet');
  });
});

describe('a host where k3s has no container', () => {
  beforeEach(() => fresh());

  it.each<[string, readonly string[], string, number]>([
    ['a named volume', ['k3s:/var/lib/rancher/k3s'], 'volumes:\n  k3s:\n', 2],
    [
      'the long form',
      ['{type: volume, source: k3s, target: /var/lib/rancher/k3s}'],
      'volumes:\n  k3s: {name: other}\n',
      2,
    ],
    ['a directory that is not there', ['./data:/var/lib/rancher/k3s'], '', 1],
    ['a directory above', ['./data:/var/lib/', './other:/var/lib/rancher/k3s/server/db'], '', 1],
  ])('has no datastore by %s', async (_what, volumes, more, calls) => {
    await compose(volumes, more);
    expect(data(await look())).toMatchObject({ ...NOTHING, calls });
    expect(data(await look(user.name))).toMatchObject({ ...NOTHING, calls });
    expect((await recorder.calls()).flatMap(outsideTheList)).toEqual([]);
  });

  it('may have one in a volume without a name, for all that can be seen', async () => {
    await compose([]);
    for (const as of [null, user.name]) {
      expect(data(await look(as)).datastore).toMatch(/^k3s has no container, and where its data would lie/);
    }
  });

  it('has the one that its directory holds', async () => {
    await compose(['./data:/var/lib/rancher/k3s:rw']);
    await mkdir(join(host.dir, 'data', 'server/db.demoted'), { recursive: true });
    expect(data(await look())).toMatchObject({ datastore: 'none', setAside: true, calls: 1 });
    await mkdir(join(host.dir, 'data', WAL), { recursive: true });
    expect(data(await look())).toMatchObject({ datastore: 'etcd', calls: 1 });
    await chmod(join(host.dir, 'data/server'), 0o700);
    expect(data(await look(user.name)).datastore).toMatch(/^k3s has no container, and where its data would lie/);
  });

  it('has the one that its volume holds', async () => {
    await compose(['k3s:/var/lib/rancher/k3s'], 'volumes:\n  k3s:\n');
    await host.compose('up', '-d', 'k3s');
    await host.exec('k3s', 'mkdir', '-p', `/var/lib/rancher/k3s/${WAL}`);
    await host.compose('rm', '-sf', 'k3s');
    expect(data(await look())).toMatchObject({ datastore: 'etcd', calls: 2 });
    expect(data(await look(user.name)).datastore).toMatch(/^k3s has no container, and where its data would lie/);
    // The agent's container has the same volume, and shows what is in it.
    await host.compose('up', '-d', '--no-start', 'k3s-agent');
    expect(data(await look())).toMatchObject({ datastore: 'etcd', calls: 1 });
    expect(data(await look(user.name))).toMatchObject({ datastore: 'etcd', calls: 3 });
  });

  it("does not take the agent's for its own", async () => {
    await compose(['k3s:/var/lib/rancher/k3s'], 'volumes:\n  k3s:\n  agent:\n', ['agent:/var/lib/rancher/k3s']);
    await host.compose('up', '-d', '--no-start', 'k3s-agent');
    expect(data(await look())).toMatchObject(NOTHING);
    await docker(['start', host.containers['k3s-agent']]);
    await host.exec('k3s-agent', 'mkdir', '-p', `/var/lib/rancher/k3s/${WAL}`);
    expect(data(await look()).datastore).toMatch(/more than one place/);
  });

  it('in a remote or virtual engine is unknown', async () => {
    await compose(['./data:/var/lib/rancher/k3s']);
    const seen = await lookAt(connection(null), { ...declared(), dockerContext: 'elsewhere' }, { seconds: 60 });
    expect(seen).toMatchObject({ datastore: { kind: 'unknown' } });
  });
});

it('no step runs anything that is not in the list', async () => {
  await fresh({ host: { running: 'k3s' } });
  await recorder.clear();
  for (const action of ACTIONS) {
    const values: Readonly<Record<string, string>> = {
      ...{ 'write-environment': 'COMPOSE_FILE', 'clear-role-files': 'role join-url' },
      ...{ 'set-restart-policy': 'no', 'set-datastore-aside': 'db' },
    };
    const value = values[action] ?? '1';
    await carryOut(connection(null), declared(), [step(action, value, 'k3s')], { seconds: 60 });
  }
  const calls = await recorder.calls();
  expect(calls.filter((call) => call[0] === 'compose').length).toBeGreaterThan(0);
  expect(calls.flatMap(outsideTheList)).toEqual([]);
  for (const words of ['update --restart no', 'stop -t 30 k3s'])
    expect(calls.map((call) => call.join(' ')).some((call) => call.includes(words))).toBe(true);
});
