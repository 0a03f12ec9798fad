import type { ChildProcess } from 'node:child_process';
import { chmod, mkdir, readdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Host as DeclaredHost } from '../../src/fleet/fleet.js';
import { carryOut } from '../../src/hosts/hands.js';
import { lookAt } from '../../src/hosts/probe.js';
import type { ReachedHost, ServiceObservation } from '../../src/plan/observation.js';
import type { Step } from '../../src/plan/step.js';
import { command, until } from '../helpers/command.js';
import { docker } from '../helpers/docker.js';
import { type Host, type Hosts, makeHosts, type Service } from '../helpers/fleet.js';
import { Recorder, scriptRunner } from '../helpers/recorded-docker.js';
import { temporaryFolder } from '../helpers/temporary.js';
import { TestUser } from '../helpers/test-user.js';
import { composeHost, step } from '../hosts/helpers.js';
import { outsideTheList } from '../hosts/recorder.js';

// The steps on services and the datastore, with a real engine and Compose: done, done again, and done after a kill.

let recorder: Recorder;
let user: TestUser;
let hosts: Hosts;
let host: Host;

const WAL = 'server/db/etcd/member/wal';
const WHOLE = [step('create-role-directory'), step('install-guards', '1'), step('add-override')];

beforeAll(async () => {
  recorder = await Recorder.make();
  user = await TestUser.create({ root: false });
});

afterAll(async () => {
  await user?.remove();
  if (recorder !== undefined) await rm(recorder.folder, { recursive: true });
});

afterEach(() => hosts?.remove());

function declared(overrides: Partial<DeclaredHost> = {}): DeclaredHost {
  return composeHost({
    ...{ name: host.name, directory: host.dir, composeProject: host.project, containers: host.containers },
    ...overrides,
  });
}

async function fresh(running: Service | null = 'k3s'): Promise<void> {
  hosts = await makeHosts(1, { host: { running } });
  host = hosts.get('node1');
  await command('chmod', ['-R', 'a+rX', join(host.dir, '..')]);
  await recorder.clear();
}

async function look(as: string | null = null): Promise<ReachedHost> {
  const seen = await lookAt(scriptRunner(as, recorder.folder), declared(), { seconds: 60 });
  if (seen.kind !== 'reached') throw new Error(seen.message);
  return seen;
}

async function seenService(name: Service): Promise<ServiceObservation> {
  const { services } = await look();
  if (services.kind === 'unknown') throw new Error(services.why);
  return services.value[name];
}

/** Does the steps under what was seen just before. */
async function work(steps: readonly Step[], as: string | null = null) {
  return carryOut(scriptRunner(as, recorder.folder), declared(), steps, { seconds: 120, seen: await look(as) });
}

/** Its files and containers. The lock comes and goes in the project directory, whose own time is left out. */
async function state() {
  const { files, containers } = await host.snapshot();
  const { '.': _directory, ...rest } = files;
  return { files: rest, containers };
}

/** Does the steps, which must succeed, and again, which must leave containers and files alone. */
async function ok(...steps: Step[]): Promise<void> {
  const first = await work(steps);
  if (first.failed !== null) throw new Error(`${first.failed.step.action}: ${first.failed.message}`);
  const before = await state();
  const again = await work(steps);
  if (again.failed !== null) throw new Error(`again: ${again.failed.step.action}: ${again.failed.message}`);
  expect(await state()).toEqual(before);
}

/** Starts a service; once k3s runs in it, doing it again leaves it alone. */
async function started(name: Service): Promise<void> {
  expect((await work([step('start-service', null, name)])).failed).toBeNull();
  await until(`${name} runs`, async () => (await seenService(name)).state === 'running');
  await ok(step('start-service', null, name));
}

const failure = async (steps: readonly Step[], as: string | null = null) => (await work(steps, as)).failed?.message;

/** Everything below a directory, by path. */
const below = async (folder: string) => ((await readdir(folder, { recursive: true })) as string[]).sort();

describe('set-restart-policy', () => {
  beforeEach(() => fresh());

  it('keeps the policy that it found, and puts it back', async () => {
    await ok(...WHOLE);
    const id = (await host.inspect('k3s'))?.id;
    await ok(step('set-restart-policy', 'no', 'k3s'));
    expect(await host.inspect('k3s')).toMatchObject({ id, running: true, restartPolicy: 'no' });
    expect(await host.read('fleet-role.d/restart-policy')).toBe('unless-stopped\n');
    expect((await look()).keptPolicy).toEqual({ kind: 'text', text: 'unless-stopped' });
    // What was written down first counts, whoever sets another policy meanwhile.
    await docker(['update', '--restart', 'on-failure:3', host.containers.k3s]);
    await ok(step('set-restart-policy', 'no', 'k3s'));
    expect(await host.read('fleet-role.d/restart-policy')).toBe('unless-stopped\n');
    await ok(step('set-restart-policy', 'unless-stopped', 'k3s'));
    expect(await host.inspect('k3s')).toMatchObject({ id, running: true, restartPolicy: 'unless-stopped' });
    expect((await look()).keptPolicy).toEqual({ kind: 'absent' });
  });

  it('keeps how often it tries', async () => {
    await docker(['update', '--restart', 'on-failure:3', host.containers.k3s]);
    await ok(...WHOLE, step('set-restart-policy', 'no', 'k3s'));
    expect(await host.read('fleet-role.d/restart-policy')).toBe('on-failure:3\n');
    await ok(step('set-restart-policy', 'on-failure:3', 'k3s'));
    const format = '{{.HostConfig.RestartPolicy.MaximumRetryCount}}';
    expect((await docker(['inspect', '--format', format, host.containers.k3s])).trim()).toBe('3');
  });

  it('fails with words: no container, no role directory, nonsense, nothing written', async () => {
    expect(await failure([step('set-restart-policy', 'no', 'k3s')])).toMatch(/^There is no role directory/);
    expect((await host.inspect('k3s'))?.restartPolicy).toBe('unless-stopped');
    await ok(...WHOLE);
    expect(await failure([step('set-restart-policy', 'no', 'k3s-agent')])).toMatch(
      /^There is no container .*k3s-agent/,
    );
    for (const policy of ['', 'sometimes', 'on-failure:', 'on-failure:x', 'no;x']) {
      expect(await failure([step('set-restart-policy', policy, 'k3s')])).toMatch(/^The step names no restart policy/);
    }
    const folder = join(host.dir, 'fleet-role.d');
    const cannot = async (options: string, fill: () => Promise<unknown>) => {
      await command('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', folder]);
      try {
        await fill();
        const message = await failure([step('set-restart-policy', 'no', 'k3s')]);
        expect(message).toMatch(/^Cannot write .*restart-policy: .*(No space left|disk is full|[Rr]ead-only)/);
        // What could not be written down is not changed.
        expect((await host.inspect('k3s'))?.restartPolicy).toBe('unless-stopped');
      } finally {
        await command('umount', [folder]);
      }
    };
    await cannot('size=8k', async () => {
      await writeFile(join(folder, 'filler'), Buffer.alloc(4096));
      await writeFile(join(folder, 'more'), Buffer.alloc(4096)).catch(() => {});
    });
    await cannot('size=8k', () => command('mount', ['-o', 'remount,ro', folder]));
  });
});

describe('recreate-service', () => {
  beforeEach(() => fresh());

  it('makes a container with the mount that is not started, and touches no other', async () => {
    await host.up('k3s-agent');
    const [k3s, agent] = [await host.inspect('k3s'), await host.inspect('k3s-agent')];
    await ok(...WHOLE, step('write-role', 'agent'), step('recreate-service', null, 'k3s'));
    const made = await host.inspect('k3s');
    expect(made?.id).not.toBe(k3s?.id);
    expect(made).toMatchObject({ status: 'created', restartPolicy: 'unless-stopped' });
    expect(await seenService('k3s')).toMatchObject({ state: 'stopped', mounted: true, entrypoint: 'ours' });
    expect(await host.inspect('k3s-agent')).toEqual(agent);
    // What Compose says by itself in that directory leaves it as it is.
    await host.compose('up', '-d', '--no-start', 'k3s');
    expect((await host.inspect('k3s'))?.id).toBe(made?.id);
    expect((await recorder.calls()).flatMap(outsideTheList)).toEqual([]);
  });

  it('keeps the data of a volume without a name', async () => {
    const yaml = (await host.read('docker-compose.yml')) ?? '';
    await host.write('docker-compose.yml', yaml.replaceAll(`${host.dataDir}:/var/lib`, '/var/lib'));
    await host.up('k3s');
    await host.exec('k3s', 'sh', '-c', `mkdir -p /var/lib/rancher/k3s/${WAL}; echo mine >/var/lib/rancher/k3s/mark`);
    await ok(...WHOLE, step('recreate-service', null, 'k3s'));
    expect(await look()).toMatchObject({ datastore: { value: 'etcd' }, oneFileSystem: { value: true } });
    await started('k3s');
    expect((await host.exec('k3s', 'cat', '/var/lib/rancher/k3s/mark')).stdout).toBe('mine\n');
  });

  it('fails before anything is done without an override, and after it where the mount is not there', async () => {
    const id = (await host.inspect('k3s'))?.id;
    expect(await failure([step('recreate-service', null, 'k3s')])).toMatch(
      /docker-compose\.fleet-role\.yml is not there/,
    );
    expect((await host.inspect('k3s'))?.id).toBe(id);
    await ok(...WHOLE);
    await host.write('docker-compose.fleet-role.yml', 'services: {k3s: {labels: {a: b}}}\n');
    expect(await failure([step('recreate-service', null, 'k3s')])).toMatch(/does not mount/);
  });

  it.each<[string, () => Promise<void>, string[]]>([
    [
      'COMPOSE_FILE of .env',
      async () => {
        await rename(join(host.dir, 'docker-compose.yml'), join(host.dir, 'base.yml'));
        await host.write('.env', 'COMPOSE_FILE=base.yml:more.yml\n');
      },
      ['base.yml', 'more.yml', 'docker-compose.fleet-role.yml'],
    ],
    [
      'the label of the container',
      async () => {
        await host.compose('-f', 'docker-compose.yml', '-f', 'more.yml', 'up', '-d', '--force-recreate', 'k3s');
      },
      ['docker-compose.yml', 'more.yml', 'docker-compose.fleet-role.yml'],
    ],
    [
      "Compose's own override file",
      async () => {
        await docker(['rm', '-f', host.containers.k3s]);
        await rename(join(host.dir, 'more.yml'), join(host.dir, 'compose.override.yaml'));
      },
      ['docker-compose.yml', 'compose.override.yaml', 'docker-compose.fleet-role.yml'],
    ],
  ])('uses the files in use: %s', async (_what, arrange, expected) => {
    await host.write('more.yml', 'services: {k3s: {labels: {more: "yes"}}, k3s-agent: {labels: {more: "yes"}}}\n');
    await arrange();
    await ok(...WHOLE, step('recreate-service', null, 'k3s'));
    const labels = (await host.inspect('k3s'))?.labels ?? {};
    expect(labels.more).toBe('yes');
    expect(labels['com.docker.compose.project.config_files']?.split(',')).toEqual(
      expected.map((name) => join(host.dir, name)),
    );
    expect(await host.read('.env')).toContain(expected.join(':'));
    // So does a start of the other service.
    await started('k3s-agent');
    expect((await host.inspect('k3s-agent'))?.labels.more).toBe('yes');
  });

  it('names a file of the label that is gone', async () => {
    await host.write('more.yml', 'services: {k3s: {labels: {more: "yes"}}}\n');
    await host.compose('-f', 'docker-compose.yml', '-f', 'more.yml', 'up', '-d', 'k3s');
    await rm(join(host.dir, 'more.yml'));
    await ok(...WHOLE);
    const before = await host.snapshot();
    for (const action of ['recreate-service', 'start-service'] as const) {
      await docker(['stop', '-t', '1', host.containers.k3s]);
      expect(await failure([step(action, null, 'k3s')])).toMatch(
        /more\.yml, by which the container was created, is gone/,
      );
    }
    expect((await host.inspect('k3s'))?.id).toBe(before.containers.k3s?.id);
  });
});

describe('start-service', () => {
  beforeEach(() => fresh(null));

  it('starts what has no container, what is stopped, and what idles, and leaves alone what runs', async () => {
    await started('k3s');
    const first = await host.inspect('k3s');
    await ok(step('stop-service', null, 'k3s'));
    expect(await seenService('k3s')).toMatchObject({ state: 'stopped', containerId: first?.id });
    await work([step('start-service', null, 'k3s')]);
    expect(await host.inspect('k3s')).toMatchObject({ id: first?.id, running: true });
    // One that idles, since its role is another one.
    await ok(...WHOLE, step('write-role', 'agent'), step('recreate-service', null, 'k3s'));
    await work([step('start-service', null, 'k3s')]);
    await until('k3s idles', async () => (await seenService('k3s')).state === 'idle');
    const idle = await host.inspect('k3s');
    await work([step('write-role', 'server'), step('start-service', null, 'k3s')]);
    await until('k3s runs', async () => (await seenService('k3s')).state === 'running');
    expect((await host.inspect('k3s'))?.id).toBe(idle?.id);
    expect(await host.inspect('k3s-agent')).toBeNull();
    expect((await recorder.calls()).flatMap(outsideTheList)).toEqual([]);
  });

  it('starts one that refuses', async () => {
    await ok(...WHOLE, step('write-role', 'server'), step('write-environment', 'COMPOSE_FILE'));
    await mkdir(join(host.dataDir, 'server/db.demoted'), { recursive: true });
    await host.up('k3s').catch(() => {});
    await until('k3s refuses', async () => (await seenService('k3s')).state === 'refusing');
    const id = (await host.inspect('k3s'))?.id;
    await work([step('write-join-url', 'https://100.64.0.2:6443'), step('start-service', null, 'k3s')]);
    await until('k3s runs', async () => (await seenService('k3s')).state === 'running');
    expect((await host.inspect('k3s'))?.id).toBe(id);
  });

  it('takes the TLS SANs of .env, as Compose reads them', async () => {
    await ok(...WHOLE, step('write-environment', 'K3S_TLS_SAN_LIST=a.example b.example', 'k3s'));
    const yaml = (await host.read('docker-compose.yml')) ?? '';
    // biome-ignore lint/suspicious/noTemplateCurlyInString: Compose's own variable
    const variable = 'K3S_TLS_SAN_LIST: ${K3S_TLS_SAN_LIST:-}';
    await host.write('docker-compose.yml', yaml.replaceAll('environment:\n', `environment:\n      ${variable}\n`));
    await started('k3s');
    expect((await host.inspect('k3s'))?.environment).toContain('K3S_TLS_SAN_LIST=a.example b.example');
    expect((await look()).tlsSans).toBe('a.example b.example');
  });

  it('says so when it ends at once, or nothing can be started', async () => {
    const yaml = (await host.read('docker-compose.yml')) ?? '';
    await host.write(
      'docker-compose.yml',
      yaml
        .replaceAll('restart: unless-stopped', 'restart: "no"')
        .replace(/entrypoint:\n {6}- .*/, 'entrypoint:\n      - "false"'),
    );
    expect(await failure([step('start-service', null, 'k3s')])).toMatch(
      /was started and is exited \(exit status 1\): see its log/,
    );
    await host.write('docker-compose.yml', 'services: {other: {image: a}}\n');
    expect(await failure([step('start-service', null, 'k3s-agent')])).toMatch(/^Docker compose: no such service/);
    await host.write('.env', 'COMPOSE_FILE=docker-compose.yml:docker-compose.fleet-role.yml\n');
    expect(await failure([step('start-service', null, 'k3s-agent')])).toMatch(
      /names docker-compose\.fleet-role\.yml, which is not there/,
    );
  });

  it('gives a container its name again that a killed Compose left under another one', async () => {
    await ok(...WHOLE, step('recreate-service', null, 'k3s'));
    await docker(['rename', host.containers.k3s, `0123456789ab_${host.containers.k3s}`]);
    await started('k3s');
    expect((await host.inspect('k3s'))?.running).toBe(true);
    const all = await docker(['ps', '-aq', '--filter', `label=com.docker.compose.project=${host.project}`]);
    expect(all.trim().split('\n')).toHaveLength(1);
  });
});

describe('set-datastore-aside', () => {
  beforeEach(async () => {
    await fresh();
    await mkdir(join(host.dataDir, WAL), { recursive: true });
    await writeFile(join(host.dataDir, WAL, '0.wal'), 'first');
  });

  const aside = step('set-datastore-aside', 'db', 'k3s');
  const stop = () => docker(['stop', '-t', '1', host.containers.k3s]);
  const server = () => readdir(join(host.dataDir, 'server'));

  it('moves nothing that is in use', async () => {
    const before = await below(host.dataDir);
    expect(await failure([aside])).toMatch(/-k3s is running, and a datastore in use is not moved: stop it first/);
    expect(await below(host.dataDir)).toEqual(before);
  });

  it.each(['root', 'an ordinary user', 'an ordinary user who may not look in'])(
    'moves it aside, as %s',
    async (who) => {
      const as = who === 'root' ? null : user.name;
      await rm(join(host.dataDir, 'server', 'token'), { force: true });
      await stop();
      if (as !== null) await command('chown', ['-R', 'root', host.dataDir]);
      if (who.endsWith('look in')) await chmod(join(host.dataDir, 'server'), 0o700);
      if (as !== null) await user.own(host.dir);
      await recorder.clear();
      expect(await failure([aside], as)).toBeUndefined();
      expect((await recorder.calls()).some(([word]) => word === 'run')).toBe(as !== null);
      expect((await recorder.calls()).flatMap(outsideTheList)).toEqual([]);
      expect((await server()).filter((name) => name.startsWith('db'))).toEqual(['db.demoted']);
      expect(await look()).toMatchObject({ datastore: { value: 'none' }, setAside: { value: true } });
      // Again: nothing is left to be moved.
      expect(await failure([aside], as)).toBeUndefined();
      expect((await server()).filter((name) => name.startsWith('db'))).toEqual(['db.demoted']);
      // Older ones are numbered, and one that holds only a tombstone is moved, too.
      for (const number of [1, 2]) {
        await mkdir(join(host.dataDir, 'server/db/etcd'), { recursive: true });
        await writeFile(join(host.dataDir, 'server/db/etcd/tombstone'), String(number));
        expect(await failure([aside], as)).toBeUndefined();
      }
      expect((await server()).filter((name) => name.startsWith('db')).sort()).toEqual([
        ...['db.demoted', 'db.demoted.1', 'db.demoted.2'],
      ]);
      const files = await below(join(host.dataDir, 'server'));
      expect(files.filter((name) => /wal$|tombstone$/.test(name))).toEqual([
        ...['db.demoted.1/etcd/member/wal', 'db.demoted.1/etcd/member/wal/0.wal', 'db.demoted.2/etcd/tombstone'],
        'db.demoted/etcd/tombstone',
      ]);
    },
  );

  it('moves keys and certificates of another identity, too', async () => {
    await stop();
    for (const name of ['tls', 'cred', 'cred.demoted', 'manifests'])
      await mkdir(join(host.dataDir, 'server', name), { recursive: true });
    await ok(step('set-datastore-aside', 'db tls cred', 'k3s'));
    expect((await server()).filter((name) => name !== 'token').sort()).toEqual([
      'cred.demoted',
      'cred.demoted.1',
      'db.demoted',
      'manifests',
      'tls.demoted',
    ]);
    expect(await failure([step('set-datastore-aside', 'db token', 'k3s')])).toMatch(
      /names nothing that can be set aside/,
    );
  });

  it('moves nothing into another file system, and nothing that a link names', async () => {
    await stop();
    const db = join(host.dataDir, 'server/db');
    await command('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', db]);
    try {
      await mkdir(join(db, 'etcd'));
      for (const as of [null, user.name]) {
        if (as !== null) await user.own(host.dir);
        expect(await failure([aside], as)).toMatch(/^Server\/db is on another file system/);
      }
      expect(await readdir(db)).toEqual(['etcd']);
    } finally {
      await command('umount', [db]);
    }
    await rename(db, join(host.dataDir, 'elsewhere'));
    await symlink('../elsewhere', db);
    expect(await failure([aside])).toMatch(/^Server\/db is on another file system .*, or a mount or link/);
  });

  it('moves that of a volume whose containers are gone', async () => {
    await docker(['rm', '-f', host.containers.k3s]);
    await ok(aside);
    expect((await server()).filter((name) => name.startsWith('db'))).toEqual(['db.demoted']);
  });
});

describe('what has changed since it was looked at', () => {
  beforeEach(() => fresh());

  it.each<[string, RegExp, () => Promise<unknown>]>([
    ['a role', /fleet-role\.d\/role has changed/, () => host.write('fleet-role.d/role', 'agent\n')],
    ['a join URL', /join-url has changed/, () => rm(join(host.dir, 'fleet-role.d/join-url'))],
    ['an identity', /cluster has changed/, () => host.write('fleet-role.d/cluster', '')],
    ['a kept policy', /restart-policy has changed/, () => host.write('fleet-role.d/restart-policy', 'always\n')],
    ['a container', /-k3s has changed/, () => host.compose('up', '-d', '--force-recreate', 'k3s')],
    ['a container that is gone', /-k3s has changed/, () => docker(['rm', '-f', host.containers.k3s])],
    ['a container that is new', /-k3s-agent has changed/, () => host.compose('up', '-d', '--no-start', 'k3s-agent')],
  ])('is not worked on: %s', async (_what, words, change) => {
    const steps = [
      step('write-role', 'server'),
      step('write-join-url', 'https://a:6443'),
      step('write-identity', 'b c'),
    ];
    await ok(...WHOLE, ...steps);
    const seen = await look();
    await change();
    const before = await state();
    const act = () =>
      carryOut(
        scriptRunner(null, recorder.folder),
        declared(),
        [step('write-role', ''), step('stop-service', null, 'k3s')],
        { seconds: 60, seen },
      );
    const { failed, done } = await act();
    expect(done).toEqual([]);
    expect(failed?.message).toMatch(words);
    expect(failed?.message).toMatch(/since it was looked at; run this again\.$/);
    expect(await state()).toEqual(before);
  });
});

describe('a script that is killed', () => {
  /** A `docker` that kills the script, and itself, at its call number `at` that changes something. */
  const killer = async (when: 'before' | 'amid' | 'after', at: number) => {
    const real = (await command('sh', ['-c', 'command -v docker'])).trim();
    const folder = await temporaryFolder('killer');
    const text = `#!/bin/bash
case $1 in inspect) exec ${real} "$@" ;; esac
echo x >>${folder}/calls
[ "$(wc -l <${folder}/calls)" = ${at} ] || exec ${real} "$@"
stop() { kill -9 -- "-$(cat ${folder}/script)"; }
case ${when} in
  before) ;;
  amid) ${real} "$@" & sleep 0.15; kill -9 $! ;;
  after) ${real} "$@" ;;
esac
stop
`;
    await writeFile(join(folder, 'docker'), text, { mode: 0o755 });
    const begun = (child: ChildProcess) => void writeFile(join(folder, 'script'), String(child.pid));
    return { folder, runner: scriptRunner(null, folder, begun) };
  };

  const MOMENTS = (['before', 'amid', 'after'] as const).flatMap((when) => [1, 2].map((at) => [when, at] as const));

  it.each(MOMENTS)('%s its change %i is continued by the next one', async (when, at) => {
    await fresh();
    await host.up('k3s-agent');
    const agent = await host.inspect('k3s-agent');
    await ok(...WHOLE, step('write-role', 'server'));
    await mkdir(join(host.dataDir, WAL), { recursive: true });
    const all = [
      [step('set-restart-policy', 'no', 'k3s'), step('set-restart-policy', 'unless-stopped', 'k3s')],
      [step('recreate-service', null, 'k3s')],
      [step('set-datastore-aside', 'db', 'k3s')],
      [step('start-service', null, 'k3s'), step('stop-service', null, 'k3s')],
    ];
    for (const steps of all) {
      const { folder, runner } = await killer(when, at);
      const killed = await carryOut(runner, declared(), steps, { seconds: 60, seen: await look() });
      const calls = (await command('sh', ['-c', `cat ${folder}/calls 2>/dev/null | wc -l`])).trim();
      // Where there were fewer changes than that, nothing was killed.
      if (Number(calls) >= at) expect(killed.failed).not.toBeNull();
      const result = await work(steps);
      expect([steps[0]?.action, result.failed]).toEqual([steps[0]?.action, null]);
      await rm(folder, { recursive: true });
    }
    expect(await host.inspect('k3s')).toMatchObject({ status: 'exited', restartPolicy: 'unless-stopped' });
    expect(await look()).toMatchObject({ setAside: { value: true }, keptPolicy: { kind: 'absent' } });
    expect(await host.inspect('k3s-agent')).toEqual(agent);
    const left = await docker(['ps', '-aq', '--filter', `label=com.docker.compose.project=${host.project}`]);
    expect(left.trim().split('\n')).toHaveLength(2);
  });
});
