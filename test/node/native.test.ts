import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { PrivateNode } from './private-node.js';
import { shells } from './shells.js';

const URL_1 = 'https://node1.example.ts.net:6443';
const TOKEN = { K3S_TOKEN: 'secret' };
const ROLE = '/etc/github-runner/role';
const SERVER = '/var/lib/rancher/k3s/server';
const JOIN_URL = '/etc/github-runner/join-url';
const SERVER_ARGS = ['server', ROLE, SERVER, JOIN_URL];
const AGENT_ARGS = ['agent', ROLE];

// Many small processes each: a loaded machine needs more than the usual five seconds now and then.
vi.setConfig({ testTimeout: 30_000 });

// Exit 0 lets systemd start the unit, exit 1 skips the start without calling it failed; there is no third.
describe.each(shells())('fleet-role-is.sh under $name', (shell) => {
  let node: PrivateNode;
  beforeEach(() => {
    node = new PrivateNode(shell);
    node.folder(SERVER);
  });
  afterEach(() => node.dispose());

  const expectStart = async (args: readonly string[], env: Record<string, string> = {}) => {
    expect(await node.guard(args, env)).toEqual({ code: 0, stderr: '' });
  };
  const expectSkip = async (words: string, args: readonly string[], env: Record<string, string> = {}) => {
    const result = await node.guard(args, env);
    expect(result.stderr).toContain(words);
    expect(result.code).toBe(1);
  };

  test.each([
    ['server', 'server', true],
    ['server', ' server\r\n', true],
    ['server', 'agent', false],
    ['server', '', false],
    ['server', 'master', false],
    ['server', 'server agent', false],
    ['server', null, true],
    ['agent', 'agent\n', true],
    ['agent', 'server', false],
    ['agent', '', false],
    ['agent', null, true],
  ])('%s with a role file that holds %j: start is %s', async (role, text, starts) => {
    if (text !== null) node.role(text);
    const args = role === 'server' ? SERVER_ARGS : AGENT_ARGS;
    if (starts) await expectStart(args);
    else await expectSkip(`role names '${text ?? ''}', not ${role}`, args);
  });

  test('a role file that cannot be read names nobody', async () => {
    node.folder(ROLE);
    await expectSkip("role names ''", SERVER_ARGS);
    await expectSkip("role names ''", AGENT_ARGS);
  });

  test.each([[[]], [['server']], [['master', ROLE, SERVER]], [['', ROLE]]])(
    '%j is skipped with the usage',
    async (args) => {
      await expectSkip('usage: fleet-role-is.sh', args);
    },
  );

  test('a server directory that is missing, or not given, is skipped', async () => {
    node.remove(SERVER);
    await expectSkip('is not there', SERVER_ARGS);
    await expectSkip('is not there', ['server', ROLE, SERVER]);
    await expectSkip('is not there', ['server', ROLE]);
    await expectStart(AGENT_ARGS);
    await expectStart(['agent', ROLE, SERVER]);
  });

  test.each([null, 'server'])('a tombstone skips the server and not the agent (role %j)', async (role) => {
    if (role !== null) node.role(role);
    node.datastore('etcd');
    node.tombstone();
    await expectSkip("tombstone says this server's etcd member was removed", SERVER_ARGS);
    await expectSkip('tombstone', ['server', ROLE, SERVER]);
    node.remove('etc/github-runner/role');
    await expectStart(['agent', ROLE, SERVER, JOIN_URL]);
  });

  describe('the former member', () => {
    test.each<[string, () => void]>([
      ['no datastore', () => {}],
      ['an empty db', () => node.folder(`${SERVER}/db`)],
      ['only etcd/name', () => node.write(`${SERVER}/db/etcd/name`, 'x')],
      ['only reset-flag', () => node.write(`${SERVER}/db/reset-flag`, '')],
    ])('with %s and nothing to join is skipped', async (_, make) => {
      node.setAside();
      make();
      await expectSkip('has no server to join', SERVER_ARGS, TOKEN);
      node.joinUrl(' \r\n');
      await expectSkip('has no server to join', SERVER_ARGS, { ...TOKEN, K3S_URL: ' ' });
    });

    test('a join URL lifts it, from the file and from the environment', async () => {
      node.setAside('db.demoted.2');
      await expectSkip('has no server to join', SERVER_ARGS, TOKEN);
      await expectStart(SERVER_ARGS, { ...TOKEN, K3S_URL: `${URL_1}\r` });
      node.joinUrl(`\r\n${URL_1}\r\n`);
      await expectStart(SERVER_ARGS, TOKEN);
    });

    test.each(['etcd', 'sqlite'] as const)('a %s datastore lifts it', async (kind) => {
      node.setAside();
      node.datastore(kind);
      await expectStart(SERVER_ARGS);
    });

    test('it is judged only when the join URL file is given', async () => {
      node.setAside();
      await expectStart(['server', ROLE, SERVER]);
    });

    test('one that never was a member may start', async () => {
      await expectStart(SERVER_ARGS);
    });
  });

  describe('the join URL', () => {
    test.each(['http://node1:6443', 'node1', 'https://a https://b', 'https://node1:x'])('%s is no URL', async (url) => {
      node.joinUrl(url);
      await expectSkip('is no https URL', SERVER_ARGS, { ...TOKEN, K3S_URL: URL_1 });
      node.joinUrl('');
      await expectSkip('is no https URL', SERVER_ARGS, { ...TOKEN, K3S_URL: url });
    });

    test('a file that cannot be read is not none', async () => {
      node.folder(JOIN_URL);
      await expectSkip('join-url cannot be read', SERVER_ARGS, { ...TOKEN, K3S_URL: URL_1 });
    });

    test('under the drop-in a URL that k3s would not get is skipped, unless there is a datastore', async () => {
      node.joinUrl(URL_1);
      const env = { ...TOKEN, FLEET_ROLE_UNIT: 'k3s.service' };
      await expectSkip('has not in K3S_URL', SERVER_ARGS, env);
      await expectStart(SERVER_ARGS, { ...env, K3S_URL: URL_1 });
      node.datastore('etcd');
      await expectStart(SERVER_ARGS, env);
    });
  });

  describe('the token', () => {
    beforeEach(() => node.joinUrl(URL_1));
    const execStart = (argv: string) =>
      node.stub(
        'systemctl',
        `[ "$*" = 'show --property=ExecStart --value k3s.service' ] && echo '{ path=/usr/local/bin/k3s ; argv[]=/usr/local/bin/k3s ${argv} ; ignore_errors=no ; pid=0 }'`,
      );

    test('a joiner without one is skipped', async () => {
      await expectSkip('has no token', SERVER_ARGS);
      await expectSkip('has no token', SERVER_ARGS, { K3S_TOKEN: '', K3S_TOKEN_FILE: '' });
    });

    test.each<[string, Record<string, string>, () => void]>([
      ['K3S_TOKEN', TOKEN, () => {}],
      ['K3S_TOKEN_FILE', { K3S_TOKEN_FILE: 'token' }, () => {}],
      ['token in config.yaml', {}, () => node.write('etc/rancher/k3s/config.yaml', "token: 'secret'\n")],
      [
        'token-file in config.yaml.d',
        {},
        () => node.write('etc/rancher/k3s/config.yaml.d/a.yaml', `token-file: ${node.path('token')}`),
      ],
      ['--token=T in ExecStart', {}, () => execStart('server --token=secret')],
      ['--token T in ExecStart', {}, () => execStart('server --token secret --x')],
      ['-t T in ExecStart', {}, () => execStart('server -t secret')],
      ['--token-file in ExecStart', {}, () => execStart('server --token-file=/etc/token')],
    ])('%s is one', async (_, env, make) => {
      node.write('token', 'secret\n');
      make();
      await expectStart(SERVER_ARGS, env);
    });

    test.each(['server', 'server --tokens x', 'server --agent-token x', 'server --token'])(
      'ExecStart %j has none',
      async (argv) => {
        execStart(argv);
        await expectSkip('has no token', SERVER_ARGS);
      },
    );

    test.each(['etcd', 'sqlite'] as const)('with a %s datastore none is needed', async (kind) => {
      node.datastore(kind);
      await expectStart(SERVER_ARGS);
    });

    test('it is judged only when the join URL file is given', async () => {
      await expectStart(['server', ROLE, SERVER]);
    });
  });
});
