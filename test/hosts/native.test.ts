import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Host } from '../../src/fleet/fleet.js';
import type { CarriedOut } from '../../src/hosts/hands.js';
import { dropIn } from '../../src/hosts/native.js';
import type { ReachedHost, ServiceObservation } from '../../src/plan/observation.js';
import type { Step } from '../../src/plan/step.js';
import { until } from '../helpers/command.js';
import { canMakeNativeHosts, NativeHost } from '../helpers/native-host.js';
import { hasShell, LocalHost, SHELLS, step } from './helpers.js';

const DIRECTORY = '/etc/github-runner';
const SERVER = '/var/lib/rancher/k3s/server';
const CONFIG = '/etc/rancher/k3s/config.yaml';
const URL_1 = 'https://node1:6443';
const GUARDS = step('install-guards', '1');

// Root of a kernel with namespaces, as CI is.
describe.runIf(canMakeNativeHosts())('a native host', () => {
  describe.each(SHELLS.filter(hasShell))('whose sh is %s', (shell) => {
    let machine: NativeHost;
    let local: LocalHost;

    beforeAll(async () => {
      machine = await NativeHost.start('Rack-4');
      local = new LocalHost(shell);
      local.program(
        'sh',
        `exec ${machine.inside.join(' ')} ${shell === 'busybox' ? 'busybox sh' : shell} "$@"`,
        '/bin/bash',
      );
    });
    afterAll(async () => {
      await machine?.close();
      await local?.close();
    });
    beforeEach(() => machine.reset());

    const look = (overrides: Partial<Host> = {}): Promise<ReachedHost> =>
      local.reached({ runtime: 'native', ...overrides });
    const work = (...steps: readonly Step[]): Promise<CarriedOut> => local.do(steps, { runtime: 'native' });
    const ok = async (...steps: readonly Step[]): Promise<ReachedHost> => {
      const { failed, observation } = await work(...steps);
      expect(failed).toBeNull();
      if (observation.kind !== 'reached') throw new Error(observation.message);
      return observation;
    };
    const refused = async (...steps: readonly Step[]): Promise<string | undefined> =>
      (await work(...steps)).failed?.message;
    const services = (seen: ReachedHost): { k3s: ServiceObservation; 'k3s-agent': ServiceObservation } => {
      if (seen.services.kind === 'unknown') throw new Error(seen.services.why);
      return seen.services.value;
    };
    const states = (seen: ReachedHost): string => {
      const { k3s, 'k3s-agent': agent } = services(seen);
      return `${k3s.state} ${agent.state}`;
    };

    it('without a unit is not provisioned, and nothing is written there by looking', async () => {
      expect(await look()).toMatchObject({
        ...{ provisioned: false, directory: DIRECTORY, roleDirectory: 'absent', guardsInstalled: null },
        ...{ override: { placed: 'absent', listed: false }, environment: { k3s: null, 'k3s-agent': null } },
        ...{ datastore: { value: 'none' }, setAside: { value: false }, tombstone: { value: false } },
        ...{ oneFileSystem: { value: true }, passwordShared: { value: true }, token: { kind: 'unknown' } },
        ...{ tlsSans: null, unsteerable: null },
      });
      expect(states(await look())).toBe('absent absent');
      expect(machine.exists(DIRECTORY)).toBe(false);
      // Only questions.
      expect(machine.calls().filter((call) => !call.startsWith('show '))).toEqual([]);
    });

    it('gets scripts and drop-ins, loaded without a restart', async () => {
      machine.unit('k3s-agent');
      await machine.up('k3s-agent');
      const pid = machine.active('k3s-agent');
      expect(services(await look())['k3s-agent']).toMatchObject({
        state: 'running',
        mounted: false,
        guardsInside: null,
      });
      const seen = await ok(GUARDS);
      expect(seen).toMatchObject({ guardsInstalled: '1', override: { placed: 'ours' }, provisioned: true });
      expect(services(seen)['k3s-agent']).toEqual({
        ...{ state: 'running', containerId: null, restartCount: 0, restartPolicy: 'enabled', mounted: true },
        ...{ configFiles: null, joinUrlEnvironment: null, entrypoint: 'honours', guardsInside: '1' },
      });
      expect(machine.active('k3s-agent')).toBe(pid);
      expect(machine.read('/etc/systemd/system/k3s.service.d/fleet-role.conf')).toContain(`"${SERVER}"`);
      const { length } = machine.calls();
      await ok(GUARDS);
      // It was all there: no reload for nothing.
      expect(machine.calls().slice(length).join('\n')).not.toContain('daemon-reload');
    });

    it('has no guards while systemd has not read the drop-ins, or another one takes the condition away', async () => {
      machine.unit('k3s');
      await ok(GUARDS);
      const path = '/etc/systemd/system/k3s.service.d/fleet-role.conf';
      machine.write(path, `${machine.read(path)}#\n`);
      expect(await look()).toMatchObject({ guardsInstalled: null, override: { placed: 'differs' } });
      expect(services(await look()).k3s).toMatchObject({ mounted: false, guardsInside: null });
      expect(await ok(GUARDS)).toMatchObject({ guardsInstalled: '1' });
      machine.write('/etc/systemd/system/k3s.service.d/zz.conf', '[Service]\nExecCondition=\n');
      expect(await refused(GUARDS)).toMatch(
        /^Systemd does not use .*fleet-role\.conf for k3s\.service: .*systemctl cat/,
      );
      expect((await look()).guardsInstalled).toBeNull();
      machine.remove('/etc/systemd/system/k3s.service.d/zz.conf');
      expect(await refused(step('recreate-service', null, 'k3s'))).toBeUndefined();
      expect(services(await look()).k3s).toMatchObject({ mounted: true, state: 'stopped' });
    });

    it('idles where the role file names the other role, and is stopped by being disabled', async () => {
      machine.unit('k3s-agent');
      machine.unit('k3s');
      machine.write(`${SERVER}/token`, 'secret');
      await machine.up('k3s-agent');
      await machine.systemctl('enable', 'k3s.service');
      await ok(GUARDS, step('write-role', 'agent'));
      await machine.systemctl('start', '--no-block', 'k3s.service');
      await until('the start is skipped', async () => states(await look()) === 'idle running');
      expect(states(await ok(step('stop-service', null, 'k3s')))).toBe('stopped running');
      expect([machine.isEnabled('k3s'), machine.isEnabled('k3s-agent')]).toEqual([false, true]);
      // The next start of the machine brings the agent alone.
      machine.remove(`${DIRECTORY}/role`);
      await machine.reboot();
      expect(states(await look())).toBe('stopped running');
    });

    it('stays down after a crash once its role file names nobody', async () => {
      machine.unit('k3s-agent');
      await machine.up('k3s-agent');
      await ok(GUARDS, step('write-role', ''));
      expect(states(await look())).toBe('absent running');
      await machine.crash('k3s-agent');
      await until('the restart is skipped', async () => states(await look()) === 'absent idle');
      expect(machine.starts()).toHaveLength(1);
    });

    it('starts a server enabled, with its join URL, and does not wait until it is up', async () => {
      machine.unit('k3s');
      machine.write('/etc/systemd/system/k3s.service.env', "K3S_TOKEN='secret'\n", 0o600);
      machine.fact('k3s', 'never-up', '');
      const seen = await ok(
        GUARDS,
        step('write-join-url', URL_1),
        step('write-role', 'server'),
        step('start-service', null, 'k3s'),
      );
      expect(states(seen)).toBe('running absent');
      expect(seen).toMatchObject({ token: { value: true }, environment: { k3s: URL_1, 'k3s-agent': URL_1 } });
      expect(services(seen).k3s.joinUrlEnvironment).toBe(URL_1);
      expect(machine.isEnabled('k3s')).toBe(true);
      await until('k3s noted its start', () => machine.starts().length > 0);
      expect(machine.starts()).toEqual([`server K3S_URL=${URL_1}`]);
    });

    it('fails with words where a guard skips the start, which systemd calls a success', async () => {
      machine.unit('k3s');
      machine.write(`${SERVER}/db.demoted/etcd/member/wal/0.wal`, '');
      const message = await refused(GUARDS, step('write-role', 'server'), step('start-service', null, 'k3s'));
      expect(message).toBe('The guard did not let k3s.service start: journalctl -u k3s says why.');
      expect(machine.starts()).toEqual([]);
      expect(await look()).toMatchObject({ setAside: { value: true }, datastore: { value: 'none' } });
    });

    it.each<[string, () => unknown, Step, RegExp]>([
      [
        'a unit is missing',
        () => machine.unit('k3s-agent'),
        step('start-service', null, 'k3s'),
        /^There is no k3s\.service: install it on that host with: curl .*INSTALL_K3S_SKIP_ENABLE=true sh -s - server\.$/,
      ],
      [
        'a unit is masked',
        () => {
          machine.unit('k3s-agent');
          machine.fact('k3s-agent', 'load-state', 'masked');
        },
        step('start-service', null, 'k3s-agent'),
        /masked: run systemctl unmask k3s-agent\.$/,
      ],
      [
        'a unit cannot be loaded',
        () => {
          machine.unit('k3s-agent');
          machine.fact('k3s-agent', 'load-state', 'bad-setting');
        },
        step('stop-service', null, 'k3s-agent'),
        /^Systemd cannot load k3s-agent\.service \(bad-setting\)/,
      ],
      [
        'the unit of the other role runs',
        async () => {
          machine.unit('k3s-agent');
          machine.unit('k3s');
          await machine.up('k3s-agent');
        },
        step('start-service', null, 'k3s'),
        /^K3s-agent\.service still runs, and both have the same ports and data/,
      ],
      [
        'systemd does not answer',
        () => machine.broken('System has not been booted with systemd as init system'),
        step('stop-service', null, 'k3s'),
        /^Systemctl: System has not been booted with systemd/,
      ],
    ])('fails with words when %s', async (_what, arrange, wanted, words) => {
      await arrange();
      expect(await refused(wanted)).toMatch(words);
    });

    it('never takes a unit for absent when systemd does not answer', async () => {
      machine.unit('k3s');
      machine.broken('Failed to connect to bus: Host is down');
      expect(await look()).toMatchObject({
        services: { kind: 'unknown', why: 'systemctl: Failed to connect to bus: Host is down' },
        ...{ provisioned: true, guardsInstalled: null, token: { kind: 'unknown' } },
      });
    });

    // Half a minute long: once is enough.
    it.runIf(shell === 'dash')('says so when a unit does not stop in its time', async () => {
      machine.unit('k3s');
      await machine.up('k3s');
      machine.fact('k3s', 'never-stops', '');
      expect(await refused(step('stop-service', null, 'k3s'))).toBe(
        'K3s.service did not stop within 30 seconds; systemd goes on stopping it: run this again.',
      );
      // The next start of the machine does not bring it back, whatever became of this one.
      expect(machine.isEnabled('k3s')).toBe(false);
    });

    it('has stopped a unit that is not there', async () => {
      expect(states(await ok(step('stop-service', null, 'k3s')))).toBe('absent absent');
    });

    it('keeps every other line of the environment file, and drops the URL with an empty one', async () => {
      machine.unit('k3s');
      machine.write(`${DIRECTORY}/k3s.env`, '# mine\nA="b\\\\c"\nK3S_URL=https://old:6443\n');
      await ok(step('write-join-url', URL_1));
      expect(machine.read(`${DIRECTORY}/k3s.env`)).toBe(`# mine\nA="b\\\\c"\nK3S_URL="${URL_1}"\n`);
      expect(machine.read(`${DIRECTORY}/join-url`)).toBe(`${URL_1}\n`);
      const seen = await ok(step('write-join-url', ''));
      expect(machine.read(`${DIRECTORY}/k3s.env`)).toBe('# mine\nA="b\\\\c"\n');
      expect(seen).toMatchObject({ joinUrl: { text: '' }, environment: { k3s: null } });
      await ok(step('write-environment', `K3S_JOIN_SERVER_URL=${URL_1}`, 'k3s'));
      expect((await look()).environment).toEqual({ k3s: URL_1, 'k3s-agent': URL_1 });
    });

    it('adds TLS SANs to the configuration of k3s, which has no variable for them', async () => {
      const sans = '/etc/rancher/k3s/config.yaml.d/fleet-role.yaml';
      const seen = await ok(step('write-environment', 'K3S_TLS_SAN_LIST=node1 fd00::1', 'k3s'));
      expect(seen.tlsSans).toBe('node1 fd00::1');
      expect(machine.read(sans)).toMatch(/^#.*\ntls-san\+:\n {2}- "node1"\n {2}- "fd00::1"\n$/);
      expect((await ok(step('write-environment', 'K3S_TLS_SAN_LIST=', 'k3s'))).tlsSans).toBeNull();
      expect(machine.exists(sans)).toBe(false);
      expect(await refused(step('write-environment', 'K3S_TLS_SAN_LIST=a"b', 'k3s'))).toMatch(/could not hold/);
    });

    it('sets a datastore aside under the next free name, only while k3s is stopped', async () => {
      machine.unit('k3s');
      for (const name of ['db', 'db.demoted', 'db.demoted.1', 'tls']) machine.write(`${SERVER}/${name}/which`, name);
      await machine.up('k3s');
      const aside = step('set-datastore-aside', 'db');
      expect(await refused(aside)).toMatch(/^K3s\.service is active, and its datastore is moved only while/);
      expect(machine.read(`${SERVER}/db/which`)).toBe('db');
      await ok(step('stop-service', null, 'k3s'), aside);
      expect(machine.exists(`${SERVER}/db`)).toBe(false);
      expect(machine.read(`${SERVER}/db.demoted/which`)).toBe('db');
      expect(machine.read(`${SERVER}/db.demoted.2/which`)).toBe('db.demoted');
      expect(machine.read(`${SERVER}/db.demoted.1/which`)).toBe('db.demoted.1');
      // Nothing is left to move.
      await ok(aside);
      expect(machine.read(`${SERVER}/db.demoted/which`)).toBe('db');
      await ok(step('set-datastore-aside', 'db tls cred'));
      expect(machine.read(`${SERVER}/tls.demoted/which`)).toBe('tls');
      expect(await refused(step('set-datastore-aside', '../etc'))).toMatch(/nothing that is set aside/);
    });

    it('keeps what its restart policy was, and gives it back', async () => {
      machine.unit('k3s');
      await machine.up('k3s');
      const seen = await ok(step('set-restart-policy', 'no', 'k3s'));
      expect(seen.keptPolicy).toEqual({ kind: 'text', text: 'enabled' });
      expect(services(seen).k3s).toMatchObject({ state: 'running', restartPolicy: 'disabled' });
      expect((await ok(step('set-restart-policy', 'no', 'k3s'))).keptPolicy).toMatchObject({ text: 'enabled' });
      const after = await ok(step('set-restart-policy', 'enabled', 'k3s'));
      expect(after.keptPolicy).toEqual({ kind: 'absent' });
      expect(services(after).k3s.restartPolicy).toBe('enabled');
    });

    it.each<[string, readonly string[], string | null, string | null, string]>([
      ['the machine', [], null, null, 'rack-4'],
      ['the environment', [], null, 'K3S_NODE_NAME="Env-Name"', 'env-name'],
      ['the configuration', [], 'node-name: From-Config # mine', 'K3S_NODE_NAME=env', 'from-config'],
      ['the command line', ['--node-name', 'Flag'], 'node-name: config', null, 'flag'],
      ['the command line in one word', ['--node-name=flag'], 'node-name: config', null, 'flag'],
    ])('has the node name that %s gives', async (_what, words, config, environment, name) => {
      machine.unit('k3s-agent', words);
      if (config !== null) machine.write(CONFIG, `${config}\n`);
      if (environment !== null) machine.write('/etc/systemd/system/k3s-agent.service.env', `${environment}\n`);
      expect((await look()).nodeName).toBe(name);
    });

    it('has no node name where k3s adds a number to it', async () => {
      machine.unit('k3s-agent', ['--with-node-id']);
      expect((await look()).nodeName).toBeNull();
    });

    it.each<[string, readonly string[], Record<string, string>, RegExp | null]>([
      ['nothing', ['--flannel-iface', 'eth0'], {}, null],
      [
        '--server in ExecStart',
        ['--server', 'https://x:6443', '--token', 'sesame'],
        {},
        /^\/etc\/systemd\/system\/k3s\.service line 19 has --server, which .*: take it out .*daemon-reload$/,
      ],
      ['-s in ExecStart', ['-s', 'https://x:6443'], {}, /k3s\.service line 19 has --server/],
      ['--cluster-init in ExecStart', ['--cluster-init'], {}, /k3s\.service line 19 has --cluster-init/],
      ['--cluster-init=false', ['--cluster-init=false'], {}, null],
      [
        'server in config.yaml',
        [],
        { [CONFIG]: '# a\ntoken: sesame\nserver: "https://x:6443"\n' },
        /^\/etc\/rancher\/k3s\/config\.yaml line 3 \(server: https:\/\/x:6443\) beats .*: remove that line$/,
      ],
      ['an empty server in config.yaml', [], { [CONFIG]: 'server: ""\n' }, null],
      [
        'cluster-init in config.yaml.d',
        [],
        { [`${CONFIG}.d/10.yaml`]: 'cluster-init: true\n' },
        /config\.yaml\.d\/10\.yaml line 1 \(cluster-init: true\) beats the role/,
      ],
      [
        'server in a configuration elsewhere',
        ['--config', '/etc/k3s-own.yaml'],
        { '/etc/k3s-own.yaml': 'server: https://x:6443\n' },
        /^\/etc\/k3s-own\.yaml line 1/,
      ],
      ['another data directory', ['--data-dir', '/data/k3s'], {}, /set github_runner_cluster_data_dir: \/data\/k3s$/],
      ['the same data directory', ['--data-dir', '/var/lib/rancher/k3s/'], {}, null],
    ])('that has %s is steerable, or says what to remove', async (_what, words, files, why) => {
      machine.unit('k3s', words);
      for (const [path, text] of Object.entries(files)) machine.write(path, text);
      const { unsteerable } = await look();
      if (why === null) expect(unsteerable).toBeNull();
      else expect(unsteerable).toMatch(why);
      expect(unsteerable ?? '').not.toContain('sesame');
    });

    it.each<[string, readonly string[], Record<string, string>, boolean]>([
      ['nowhere', [], {}, false],
      ['in an environment file', [], { '/etc/systemd/system/k3s.service.env': 'K3S_TOKEN=sesame\n' }, true],
      [
        'taken back by a later file',
        [],
        { '/etc/default/k3s': 'K3S_TOKEN=sesame\n', '/etc/systemd/system/k3s.service.env': 'K3S_TOKEN=\n' },
        false,
      ],
      ['in ExecStart', ['--token', 'sesame'], {}, true],
      ['in ExecStart in one word', ['--token=sesame'], {}, true],
      ['in the configuration', [], { [CONFIG]: 'token: sesame\n' }, true],
      [
        'in a file that the environment names',
        [],
        { '/etc/default/k3s': 'K3S_TOKEN_FILE=/etc/k3s-token\n', '/etc/k3s-token': 'sesame\n' },
        true,
      ],
      [
        'in an empty file',
        [],
        { '/etc/default/k3s': 'K3S_TOKEN_FILE=/etc/k3s-token\n', '/etc/k3s-token': '\n' },
        false,
      ],
    ])('whose token is %s', async (_what, words, files, there) => {
      machine.unit('k3s', words);
      for (const [path, text] of Object.entries(files)) machine.write(path, text);
      expect((await look()).token).toEqual({ kind: 'known', value: there });
    });

    it('shows its datastore by what k3s would start from', async () => {
      machine.unit('k3s');
      machine.write(`${SERVER}/db/etcd/name`, 'x');
      expect((await look()).datastore).toEqual({ kind: 'known', value: 'none' });
      machine.write(`${SERVER}/db/state.db`, 'SQLite');
      expect((await look()).datastore).toEqual({ kind: 'known', value: 'sqlite' });
      machine.write(`${SERVER}/db/etcd/member/wal/0.wal`, '');
      machine.write(`${SERVER}/db/etcd/tombstone`, '');
      expect(await look()).toMatchObject({ datastore: { value: 'etcd' }, tombstone: { value: true } });
    });

    it('uses of systemctl only what the specification lists', async () => {
      machine.unit('k3s');
      machine.unit('k3s-agent');
      await ok(GUARDS, step('write-role', 'agent'), step('start-service', null, 'k3s-agent'));
      await ok(step('stop-service', null, 'k3s-agent'), step('recreate-service', null, 'k3s'));
      const verbs = new Set(machine.calls().map((call) => call.replace(/^show .*/, 'show').replace(/ ?k3s.*/, '')));
      expect([...verbs].sort()).toEqual(['daemon-reload', 'disable', 'enable', 'show', 'start --no-block', 'stop']);
    });
  });
});

describe('the drop-in of a unit', () => {
  it.each([
    ['/var/lib/rancher/k3s/', '"/var/lib/rancher/k3s/server"'],
    ['/data/50% of $HOME "x"', '"/data/50%% of $$HOME \\"x\\"/server"'],
    ['/a\\b', '"/a\\\\b/server"'],
    // What a replacement would read as its own.
    ["/a$&$'", '"/a$$&$$\'/server"'],
  ])('names the data directory %s as systemd reads it', (directory, word) => {
    const condition = dropIn('k3s', directory)
      .split('\n')
      .find((line) => line.startsWith('ExecCondition='));
    expect(condition).toBe(
      `ExecCondition=/bin/sh /etc/github-runner/fleet-role-is.sh server /etc/github-runner/role ${word} /etc/github-runner/join-url`,
    );
  });
});
