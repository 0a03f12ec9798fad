import { readFile, rm } from 'node:fs/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createConnector } from '../../src/hosts/connection.js';
import { carryOut } from '../../src/hosts/hands.js';
import { readPrivateKeys } from '../../src/hosts/private-key.js';
import { lookAt } from '../../src/hosts/probe.js';
import { runAction } from '../helpers/action.js';
import { until } from '../helpers/command.js';
import { pushEvent } from '../helpers/events.js';
import { type GitRepository, GitServer } from '../helpers/git-server.js';
import { GitHubServer } from '../helpers/github-server.js';
import { ClusterState } from '../helpers/kubectl.js';
import { NativeHost } from '../helpers/native-host.js';
import { expectValidPlan } from '../helpers/plan-schema.js';
import { Sshd } from '../helpers/sshd.js';
import { temporaryFolder } from '../helpers/temporary.js';
import { TestUser } from '../helpers/test-user.js';
import { composeHost, LOCAL, silentLogger, step } from '../hosts/helpers.js';

// The inventory of examples/k3s-ansible on five machines with systemd units, each behind an address of one real sshd.

const EXAMPLE = new URL('../../examples/k3s-ansible/inventory.yml', import.meta.url);
const NAMES = ['rack-1', 'rack-2', 'rack-3', 'rack-4', 'rack-5'];
const SERVERS = NAMES.slice(0, 3);
const ROLE_DIRECTORY = '/etc/github-runner';
const UNIT_ENVIRONMENT = (service: string): string => `/etc/systemd/system/${service}.service.env`;
/** As /db/info tells it, in the form of one real answer. */
const MEMBERS = `${JSON.stringify({
  members: SERVERS.map((name, index) => ({
    ID: index + 1,
    name: `${name}-0000000${index + 1}`,
    peerURLs: [`https://127.0.12.${index + 11}:2380`],
    clientURLs: [`https://127.0.12.${index + 11}:2379`],
  })),
})}\n`;

const machines = new Map<string, NativeHost>();
let user: TestUser;
let sshd: Sshd;
let git: GitServer;
let repository: GitRepository;
let github: GitHubServer;
let cluster: ClusterState;
let example: string;

const address = (name: string): string => `127.0.12.${NAMES.indexOf(name) + 11}`;
const machine = (name: string): NativeHost => machines.get(name) as NativeHost;
const serviceOf = (name: string): 'k3s' | 'k3s-agent' => (SERVERS.includes(name) ? 'k3s' : 'k3s-agent');
const url = (name: string): string => `https://${address(name)}:6443`;
const word = (name: string, file: string): string | null =>
  machine(name).read(`${ROLE_DIRECTORY}/${file}`)?.trim() ?? null;

beforeAll(async () => {
  example = await readFile(EXAMPLE, 'utf8');
  // An ordinary user with sudo, as k3s-ansible's inventories have it.
  user = await TestUser.create({ root: false });
  sshd = await Sshd.start({ users: [user], addresses: NAMES.map(address) });
  for (const name of NAMES) machines.set(name, await NativeHost.start(name));
  await user.enter(
    `fleet_address=\${SSH_CONNECTION#* * }
case \${fleet_address%% *} in
${NAMES.map((name) => `${address(name)}) set -- ${machine(name).inside.join(' ')} setpriv --reuid ${user.name} --regid ${user.name} --init-groups env HOME="$HOME" USER="$USER" LOGNAME="$USER" /bin/sh "$@" ;;`).join('\n')}
esac
exec sudo -n "$@"
`,
  );
  cluster = new ClusterState(await temporaryFolder('cluster'));
  git = await GitServer.start({ tokens: ['full-token'] });
  repository = await git.createRepository('octo/fleet');
  github = await GitHubServer.start();
  github.addRepository('octo/fleet', { gitDir: repository.dir });
}, 120_000);

afterAll(async () => {
  for (const each of machines.values()) await each.close();
  if (cluster !== undefined) await rm(cluster.directory, { recursive: true, force: true });
  await sshd?.close();
  await user?.remove();
  await git?.close();
  await github?.close();
}, 60_000);

beforeEach(async () => {
  github.reset();
  await cluster.make(NAMES);
  await cluster.memberList(MEMBERS);
  for (const name of NAMES) {
    await machine(name).reset();
    machine(name).kubectl(cluster);
    const service = serviceOf(name);
    machine(name).unit(service);
    machine(name).write(
      UNIT_ENVIRONMENT(service),
      name === 'rack-1' ? 'K3S_CLUSTER_INIT=true\n' : `K3S_URL='${url('rack-1')}'\nK3S_TOKEN='sesame'\n`,
      0o600,
    );
    await machine(name).up(service);
  }
}, 60_000);

interface Wish {
  readonly controller?: boolean;
  readonly become?: boolean;
  /** Lines for a host, such as `{ github_runner_cluster_node_role: agent }`. */
  readonly more?: (text: string) => string;
}

/** The example as it is, but for addresses, user, and whether the controller is on. */
function commit({ controller = true, become = true, more = (text) => text }: Wish = {}): Promise<string> {
  const text = example
    .replaceAll('192.0.2.', '127.0.12.')
    .replace('ansible_port: 22', `ansible_port: ${sshd.port}`)
    .replace('ansible_user: fleet', `ansible_user: ${user.name}\n    ansible_become: ${become}`)
    .replace('github_runner_cluster_controller: false', `github_runner_cluster_controller: ${controller}`);
  return repository.commit({ 'inventory.yml': more(text) });
}

async function push(before: string, after: string) {
  const result = await runAction({
    ...{ serverUrl: git.url, apiUrl: github.url, event: pushEvent({ before, after }), watch: ['sesame'] },
    inputs: { 'ssh-private-key': sshd.privateKey, 'ssh-known-hosts': sshd.knownHosts },
  });
  const json = JSON.parse(result.outputs.plan as string);
  expectValidPlan(json);
  expect(result.seenInArguments).toEqual([]);
  expect(result.log).not.toContain('sesame');
  return { ...result, cluster: json.clusters[0] };
}

const processes = (): string[] => NAMES.map((name) => machine(name).active(serviceOf(name)));

describe('a fleet of k3s-ansible', () => {
  it('gets its role files and guards without a restart, and nothing more the second time', async () => {
    const before = await commit({ controller: false });
    const after = await commit();
    const ran = processes();
    const run = await push(before, after);
    expect([run.exitCode, run.outputs.result], run.log).toEqual([0, 'applied']);
    for (const name of NAMES) {
      expect(word(name, 'role')).toBe(SERVERS.includes(name) ? 'server' : 'agent');
      const joins = url(name === 'rack-1' ? 'rack-2' : 'rack-1');
      expect([word(name, 'join-url'), word(name, 'k3s.env')]).toEqual([joins, `K3S_URL="${joins}"`]);
      const drop = `/etc/systemd/system/${serviceOf(name)}.service.d/fleet-role.conf`;
      expect(machine(name).read(drop)).toContain('ExecCondition=/bin/sh /etc/github-runner/fleet-role-is.sh');
    }
    expect(processes()).toEqual(ran);
    expect(run.cluster.notes).toEqual([]);
    const again = await push(after, after);
    expect([again.exitCode, again.outputs.result], again.log).toEqual([0, 'unchanged']);
    expect(processes()).toEqual(ran);
  }, 120_000);

  it('keeps its guards at every start: the other role does not come back, whoever starts it', async () => {
    const run = await push(await commit({ controller: false }), await commit());
    expect(run.outputs.result, run.log).toBe('applied');
    const host = machine('rack-4');
    host.unit('k3s');
    host.write('/var/lib/rancher/k3s/server/token', 'sesame');
    await host.systemctl('enable', 'k3s.service');
    await host.reboot();
    await until('the agent runs', () => /^active running/.test(host.active('k3s-agent')));
    expect(host.active('k3s')).toBe('inactive dead 0');
    expect(host.starts().filter((start) => start.startsWith('server'))).toEqual([]);
  }, 120_000);

  it('gets everything back when the controller is turned off: an idle unit is disabled, the join URL stays', async () => {
    const on = await commit();
    const first = await push(await commit({ controller: false }), on);
    expect(first.outputs.result, first.log).toBe('applied');
    const host = machine('rack-4');
    host.unit('k3s');
    host.write('/var/lib/rancher/k3s/server/token', 'sesame');
    await host.systemctl('daemon-reload');
    await host.systemctl('enable', 'k3s.service');
    await host.systemctl('start', '--no-block', 'k3s.service');
    await until('the start is skipped', () => host.active('k3s') === 'inactive dead 0');
    const ran = processes();
    const off = await commit({ controller: false });
    const run = await push(on, off);
    expect([run.exitCode, run.outputs.result], run.log).toEqual([0, 'applied']);
    expect(host.isEnabled('k3s')).toBe(false);
    expect(processes()).toEqual(ran);
    for (const name of NAMES) {
      expect([word(name, 'role'), word(name, 'join-url')]).toEqual([null, null]);
      expect(word(name, 'k3s.env')).toBe(`K3S_URL="${url(name === 'rack-1' ? 'rack-2' : 'rack-1')}"`);
      expect(machine(name).exists(`${ROLE_DIRECTORY}/fleet-role-is.sh`)).toBe(true);
    }
    await host.reboot();
    await until('the agent runs', () => /^active running/.test(host.active('k3s-agent')));
    expect(host.starts().filter((start) => start.startsWith('server'))).toEqual([]);
  }, 120_000);

  it('is refused host by host where something beats what is written, or a unit is missing; the others go on', async () => {
    machine('rack-2').write('/etc/rancher/k3s/config.yaml', `# mine\nserver: ${url('rack-1')}\n`);
    machine('rack-5').unit('k3s-agent', ['--server', url('rack-1'), '--token', 'sesame']);
    await machine('rack-5').systemctl('daemon-reload');
    const run = await push(await commit({ controller: false }), await commit());
    expect([run.exitCode, run.outputs.result], run.log).toEqual([1, 'refused']);
    const refusals = run.cluster.refusals as { code: string; hosts: string[]; message: string }[];
    expect(refusals.map(({ code, hosts }) => `${code} ${hosts}`)).toEqual(['guards rack-2', 'guards rack-5']);
    expect(refusals[0]?.message).toContain('/etc/rancher/k3s/config.yaml line 2 (server: https://127.0.12.11:6443)');
    expect(refusals[1]?.message).toContain('/etc/systemd/system/k3s-agent.service line 19 has --server');
    expect([word('rack-2', 'role'), word('rack-5', 'role')]).toEqual([null, null]);
    expect([word('rack-3', 'role'), word('rack-4', 'role')]).toEqual(['server', 'agent']);
  }, 120_000);

  it('says that it has to become root where it may not change units', async () => {
    const run = await push(await commit({ controller: false }), await commit({ become: false }));
    expect([run.exitCode, run.outputs.result], run.log).toEqual([1, 'refused']);
    // Without root nobody reads k3s's own configuration, so no API answers.
    expect(run.outputs.plan).toContain('/etc/rancher/k3s/k3s.yaml: permission denied');
    for (const name of NAMES) expect(machine(name).exists(ROLE_DIRECTORY)).toBe(false);
    const connector = createConnector({
      ...{
        temp: cluster.directory,
        privateKeys: readPrivateKeys(sshd.privateKey),
        knownHosts: sshd.knownHosts,
        sshUser: user.name,
      },
      ...{ useInventoryKeyFiles: false, logger: silentLogger },
    });
    const endpoint = { ...LOCAL, type: 'ssh' as const, host: address('rack-4'), port: sshd.port };
    const connection = connector.connect('rack-4', endpoint);
    const host = composeHost({ name: 'rack-4', runtime: 'native', role: 'agent' });
    const seen = await lookAt(connection, host, { seconds: 60 });
    expect(seen).toMatchObject({
      unsteerable: expect.stringMatching(/k3s-agent\.service\.env may not be read by .*: set ansible_become: true$/),
      token: { kind: 'unknown' },
    });
    if (seen.kind !== 'reached') throw new Error(seen.message);
    const result = await carryOut(connection, host, [step('write-role', 'agent')], { seconds: 60, seen });
    expect(result.failed?.message).toMatch(
      / may not change systemd units: set ansible_become: true, or connect as root\.$/,
    );
    await connector.close();
    for (const name of NAMES) expect(machine(name).exists(ROLE_DIRECTORY)).toBe(false);
  }, 120_000);
});
