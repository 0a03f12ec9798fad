import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { type Outcome, PrivateNode } from './private-node.js';
import { shells } from './shells.js';

const URL_1 = 'https://node1.example.ts.net:6443';
const URL_2 = 'https://node2.example.ts.net:6443';
const TOKEN = { K3S_TOKEN: 'secret' };

// Many small processes each: a loaded machine needs more than the usual five seconds now and then.
vi.setConfig({ testTimeout: 30_000 });

// The tables say what each guard does on either side of it; what k3s is started with stands in start.test.ts.
describe.each(shells())('node-entrypoint.sh under $name', (shell) => {
  let node: PrivateNode;
  beforeEach(() => {
    node = new PrivateNode(shell);
  });
  afterEach(() => node.dispose());

  /** Idle or refused before anything was started. */
  const expectNothingStarted = (outcome: Outcome) => {
    expect(outcome.calls).toEqual([]);
    expect(outcome.stdout).not.toContain('Starting k3s');
  };
  const expectIdle = (outcome: Outcome, words: string) => {
    expect(outcome).toMatchObject({ kind: 'idle', code: 0 });
    expect(outcome.stderr).toContain(words);
    expect(outcome.stderr.split('; idle')).toHaveLength(2);
  };
  const expectRefused = (outcome: Outcome, words: string) => {
    expect(outcome).toMatchObject({ kind: 'refused', code: 1 });
    expect(outcome.stderr).toContain(words);
  };
  const expectStarted = (outcome: Outcome, service: string) => {
    expect(outcome).toMatchObject({ kind: 'started', code: 0 });
    expect(outcome.k3s).toHaveLength(1);
    expect(outcome.k3s[0]).toMatch(new RegExp(`^${service} `));
    expect(outcome.stdout).toBe('Starting k3s\n');
  };

  describe('guard 1, the role', () => {
    test.each([
      ['server', 'server'],
      ['server', 'server\n'],
      ['server', '  server\r\n\r\n'],
      ['agent', '\tagent \n'],
      ['agent', 'agent\r'],
    ])('%s starts when role holds %j', async (service, text) => {
      node.role(text);
      expectStarted(await node.entrypoint(service, { env: { K3S_URL: URL_1 } }), service);
    });

    test.each([
      ['server', 'agent\n', "role names 'agent', not server"],
      ['agent', 'server\n', "role names 'server', not agent"],
      ['server', '', "role names '', not server"],
      ['agent', '', "role names '', not agent"],
      ['server', ' \r\n', "role names '', not server"],
      ['server', 'master\n', "role names 'master', not server"],
      ['server', 'servers', "role names 'servers', not server"],
      ['server', 'Server', "role names 'Server', not server"],
      ['server', 'server agent', "role names 'server agent', not server"],
      ['agent', 'agent\nserver\n', "role names 'agent server', not agent"],
      ['server', '*', "role names '*', not server"],
    ])('%s idles when role holds %j', async (service, text, words) => {
      node.role(text);
      node.datastore('etcd');
      const outcome = await node.entrypoint(service, { env: { K3S_URL: URL_1, ...TOKEN } });
      expectIdle(outcome, words);
      expectNothingStarted(outcome);
    });

    test.each(['server', 'agent'])('%s idles when role cannot be read', async (service) => {
      node.folder('etc/github-runner/role');
      expectIdle(await node.entrypoint(service, { env: { K3S_URL: URL_1 } }), "role names ''");
    });

    test.each([
      ['server', 'role directory'],
      ['agent', 'role directory'],
      ['server', 'role'],
      ['agent', 'role'],
    ])('%s starts when %s is absent', async (service, what) => {
      if (what === 'role') node.folder('etc/github-runner');
      expectStarted(await node.entrypoint(service, { env: { K3S_URL: URL_1 } }), service);
    });

    test.each([undefined, 'master', 'Server', ''])('a service %j is refused with the usage', async (service) => {
      const outcome = await node.entrypoint(service ?? '');
      expectRefused(outcome, 'usage: node-entrypoint.sh server|agent');
      expectNothingStarted(outcome);
    });
  });

  describe('guard 2, the tombstone', () => {
    test.each([['server'], [null], ['agent'], ['']])('a server idles when role holds %j', async (role) => {
      if (role !== null) node.role(role);
      node.datastore('etcd');
      node.tombstone();
      node.joinUrl(URL_1);
      const outcome = await node.entrypoint('server', { env: TOKEN });
      const tombstone = "tombstone says this server's etcd member was removed";
      expectIdle(outcome, role === 'server' || role === null ? tombstone : 'role names');
      expectNothingStarted(outcome);
    });

    test('an agent is not affected', async () => {
      node.role('agent');
      node.tombstone();
      expectStarted(await node.entrypoint('agent', { env: { K3S_URL: URL_1 } }), 'agent');
    });
  });

  describe('guard 3, the join URL', () => {
    test.each([
      ['the file alone', URL_1, undefined, URL_1],
      ['the file before the environment', URL_1, URL_2, URL_1],
      ['the environment beside an empty file', '', URL_2, URL_2],
      ['the environment beside a blank file', ' \r\n', URL_2, URL_2],
      ['the environment without a file', null, URL_2, URL_2],
      ['CRLF and spaces around it in the file', `\r\n  ${URL_1}\r\n`, undefined, URL_1],
      ['CRLF and spaces around it in the environment', null, ` ${URL_2}\r\n`, URL_2],
      ['an address', 'https://100.64.0.1:6443', undefined, 'https://100.64.0.1:6443'],
      ['an IPv6 address', 'https://[fd7a::1]:6443', undefined, 'https://[fd7a::1]:6443'],
      ['an IPv6 address without a port', 'https://[fd7a::1]', undefined, 'https://[fd7a::1]'],
      ['no port', 'https://node1', undefined, 'https://node1'],
      ['another port and a slash', 'https://node1:16443/', undefined, 'https://node1:16443/'],
    ])('%s', async (_, file, environment, wanted) => {
      if (file !== null) node.joinUrl(file);
      for (const [service, variable] of [
        ['server', 'K3S_JOIN_SERVER_URL'],
        ['agent', 'K3S_URL'],
      ] as const) {
        node.write('calls', '');
        const env = environment === undefined ? {} : { [variable]: environment };
        const outcome = await node.entrypoint(service, { env: { ...env, ...TOKEN } });
        expectStarted(outcome, service);
        expect(outcome.k3s[0]).toContain(` --server ${wanted}`);
        expect(outcome.k3s[0]).not.toContain('--cluster-init');
      }
    });

    test.each([
      'http://node1:6443',
      'node1:6443',
      'https://',
      'https://:6443',
      'https://node1:',
      'https://node1:0',
      'https://node1:65536',
      'https://node1:64430000',
      'https://node1:port',
      'https://node1:6443:1',
      'https://user@node1:6443',
      'https://no de1:6443',
      `${URL_1} ${URL_2}`,
      'https://-node1',
      'https://$(reboot)',
      'https://fd7a::1',
      'https://[fd7a::1',
      'https://[node1]:6443',
      'https://[fd7a::1]6443',
      'https://[fd7a::g]:6443',
      'none',
      '*',
    ])('%s is a bad one and not none', async (url) => {
      // Both sides of "no URL": taken as none, the first would bootstrap and the second use its environment.
      node.joinUrl(url);
      for (const env of [TOKEN, { ...TOKEN, K3S_JOIN_SERVER_URL: URL_2 }]) {
        const outcome = await node.entrypoint('server', { env });
        expectIdle(outcome, 'is no https URL');
        expectNothingStarted(outcome);
      }
      node.joinUrl('');
      expectIdle(await node.entrypoint('server', { env: { ...TOKEN, K3S_JOIN_SERVER_URL: url } }), 'is no https URL');
      expectIdle(await node.entrypoint('agent', { env: { K3S_URL: url } }), 'is no https URL');
    });

    test('a file that cannot be read is not none either', async () => {
      node.folder('etc/github-runner/join-url');
      const outcome = await node.entrypoint('server', { env: { ...TOKEN, K3S_JOIN_SERVER_URL: URL_2 } });
      expectIdle(outcome, 'join-url cannot be read');
      expectNothingStarted(outcome);
    });

    test("a server does not take the agent's variable, nor an agent the server's", async () => {
      const server = await node.entrypoint('server', { env: { ...TOKEN, K3S_URL: URL_1 } });
      expect(server.k3s[0]).toContain('--cluster-init');
      node.write('calls', '');
      const agent = await node.entrypoint('agent', { env: { ...TOKEN, K3S_JOIN_SERVER_URL: URL_1 } });
      expect(agent.k3s[0]).not.toContain('--server');
    });
  });

  describe('guard 4, the former member', () => {
    const nothingToStartFrom: [string, (n: PrivateNode) => void][] = [
      ['no server/db', () => {}],
      ['an empty server/db', (n) => n.folder('var/lib/rancher/k3s/server/db')],
      ['only etcd/name', (n) => n.write('var/lib/rancher/k3s/server/db/etcd/name', 'node1-1234')],
      ['only snapshots', (n) => n.write('var/lib/rancher/k3s/server/db/snapshots/on-demand', 'x')],
      ['only reset-flag', (n) => n.write('var/lib/rancher/k3s/server/db/reset-flag', '')],
      ['a moved etcd', (n) => n.folder('var/lib/rancher/k3s/server/db/etcd-backup-17/member/wal')],
      ['a migrated SQLite', (n) => n.write('var/lib/rancher/k3s/server/db/state.db.migrated', 'x')],
    ];
    const cases = nothingToStartFrom.flatMap(([what, make]) =>
      ['etcd', 'sqlite'].map((datastore) => [what, datastore, make] as const),
    );

    test.each(cases)('with %s and K3S_DATASTORE=%s it is refused', async (_, datastore, make) => {
      node.setAside();
      make(node);
      const outcome = await node.entrypoint('server', { env: { ...TOKEN, K3S_DATASTORE: datastore } });
      expectRefused(outcome, 'has no server to join');
      expectNothingStarted(outcome);
    });

    test.each(['db.demoted', 'db.demoted.1', 'db.demoted-2'])('%s is a datastore set aside', async (name) => {
      node.setAside(name);
      const outcome = await node.entrypoint('server', { env: TOKEN });
      expectRefused(outcome, 'has no server to join');
      expectNothingStarted(outcome);
    });

    test('role and an empty join-url do not lift it', async () => {
      node.role('server');
      node.joinUrl('');
      node.setAside();
      expectRefused(await node.entrypoint('server', { env: TOKEN }), 'has no server to join');
    });

    test.each(['file', 'environment'])('a join URL from the %s lifts it', async (where) => {
      node.setAside();
      if (where === 'file') node.joinUrl(URL_1);
      const env = where === 'file' ? TOKEN : { ...TOKEN, K3S_JOIN_SERVER_URL: URL_1 };
      const outcome = await node.entrypoint('server', { env });
      expectStarted(outcome, 'server');
      expect(outcome.k3s[0]).toContain(`--server ${URL_1}`);
    });

    test.each(['etcd', 'sqlite'] as const)('a %s datastore beside the one set aside lifts it', async (kind) => {
      node.setAside();
      node.datastore(kind);
      expectStarted(await node.entrypoint('server'), 'server');
    });

    test('without one set aside nothing is refused', async () => {
      node.folder('var/lib/rancher/k3s/server/db/etcd');
      expectStarted(await node.entrypoint('server'), 'server');
    });

    test('an agent is not affected', async () => {
      node.setAside();
      expectStarted(await node.entrypoint('agent', { env: { K3S_URL: URL_1 } }), 'agent');
    });
  });

  describe('guard 5, the token', () => {
    const config = 'etc/rancher/k3s/config.yaml';
    test.each<[string, Record<string, string>, (n: PrivateNode) => void]>([
      ['nothing', {}, () => {}],
      ['an empty K3S_TOKEN', { K3S_TOKEN: '' }, () => {}],
      ['a blank K3S_TOKEN', { K3S_TOKEN: ' \r\n' }, () => {}],
      ['a K3S_TOKEN_FILE that is not there', { K3S_TOKEN_FILE: '/nowhere/token' }, () => {}],
      ['an empty token file', { K3S_TOKEN_FILE: 'token' }, (n) => n.write('token', '\n')],
      ['an empty token in config.yaml', {}, (n) => n.write(config, 'token:\ntls-san: x\n')],
      ['a quoted empty token', {}, (n) => n.write(config, 'token: ""\n')],
      ['a token that is null', {}, (n) => n.write(config, 'token: null # later\n')],
      ['a comment', {}, (n) => n.write(config, '# token: secret\n')],
      ['a token of something else', {}, (n) => n.write(config, 'registry:\n  token: secret\nagent-token: secret\n')],
      ['a token-file that is empty', {}, (n) => n.write(config, `token-file: ${n.path('no-such-token')}\n`)],
      ['a file that k3s does not read', {}, (n) => n.write(`${config}.d/token.txt`, 'token: secret\n')],
    ])('with %s a server with nothing but a join URL is refused', async (_, env, make) => {
      make(node);
      node.joinUrl(URL_1);
      const outcome = await node.entrypoint('server', { env });
      expectRefused(outcome, 'has no token');
      expectNothingStarted(outcome);
    });

    test.each<[string, Record<string, string>, (n: PrivateNode) => void]>([
      ['K3S_TOKEN', TOKEN, () => {}],
      ['K3S_TOKEN_FILE', { K3S_TOKEN_FILE: 'token' }, (n) => n.write('token', 'secret\n')],
      ['token in config.yaml', {}, (n) => n.write(config, 'tls-san: x\ntoken: "secret" # ours\n')],
      ['"token" in config.yaml', {}, (n) => n.write(config, '"token": secret\r\n')],
      ['token-file in config.yaml', {}, (n) => n.write(config, `token-file: ${n.path('token')}\n`)],
      ['token in config.yaml.d', {}, (n) => n.write(`${config}.d/10-token.yaml`, 'token: secret\n')],
    ])('%s is a token', async (_, env, make) => {
      node.write('token', 'secret\n');
      make(node);
      node.joinUrl(URL_1);
      expectStarted(await node.entrypoint('server', { env }), 'server');
    });

    test.each(['etcd', 'sqlite'] as const)('with a %s datastore none is needed', async (kind) => {
      node.datastore(kind);
      node.joinUrl(URL_1);
      expectStarted(await node.entrypoint('server'), 'server');
    });

    test('without a join URL, and for an agent, k3s itself sees to it', async () => {
      expectStarted(await node.entrypoint('server'), 'server');
      node.write('calls', '');
      expectStarted(await node.entrypoint('agent', { env: { K3S_URL: URL_1 } }), 'agent');
    });
  });

  describe('guard 6, the first bootstrap', () => {
    const others = { K3S_TLS_SAN_LIST: 'node1 node2', K3S_API_PORT: '16443' };
    const question = (address: string) =>
      `kubectl --server=https://${address}:16443 --insecure-skip-tls-verify --token=none --request-timeout=5s get --raw /ping`;
    const questions = (outcome: Outcome) => outcome.calls.filter((call) => call.startsWith('kubectl'));

    test.each([
      ['pong', 'echo pong'],
      ['401', "echo 'error: You must be logged in to the server (Unauthorized)' >&2; exit 1"],
      ['403', "echo 'Error from server (Forbidden): forbidden' >&2; exit 1"],
      ['404', "echo 'Error from server (NotFound): the server could not find the resource' >&2; exit 1"],
      ['503', "echo 'Error from server (ServiceUnavailable): apiserver not ready' >&2; exit 1"],
      ['504', "echo 'Error from server (Timeout): the server was unable to return a response in time' >&2; exit 1"],
      ['something that nobody expects', "echo 'strange' >&2; exit 1"],
    ])('%s is an answer', async (_, answer) => {
      node.stub('kubectl', `case $* in *node2*) ${answer} ;; *) echo refused; exit 1 ;; esac`);
      const outcome = await node.entrypoint('server', { env: others });
      expectRefused(outcome, 'a cluster answers at node2');
      expect(questions(outcome)).toEqual([question('node1'), question('node2')]);
      expect(outcome.k3s).toEqual([]);
    });

    test.each([
      'The connection to the server node1:6443 was refused - did you specify the right host or port?',
      'Unable to connect to the server: dial tcp: lookup node1: no such host',
      'Unable to connect to the server: net/http: TLS handshake timeout',
      'Unable to connect to the server: context deadline exceeded',
      'Unable to connect to the server: EOF',
      'dial tcp 100.64.0.1:6443: connect: no route to host',
      '',
    ])('nobody answers: %s', async (words) => {
      node.stub('kubectl', `echo '${words}' >&2; exit 1`);
      const outcome = await node.entrypoint('server', { env: others });
      expectStarted(outcome, 'server');
      expect(outcome.k3s[0]).toContain('--cluster-init');
      expect(questions(outcome)).toEqual([question('node1'), question('node2')]);
    });

    test('it is asked on the mesh, before k3s starts, also for SQLite', async () => {
      node.stub('kubectl', 'echo pong');
      const outcome = await node.entrypoint('server', { env: { ...others, K3S_DATASTORE: 'sqlite' } });
      expectRefused(outcome, 'a cluster answers at node1');
      const names = outcome.calls.map((call) => call.split(' ')[0]);
      expect(names.indexOf('tailscaled')).toBeLessThan(names.indexOf('kubectl'));
    });

    test('an IPv6 address is asked in brackets, on port 6443 unless told', async () => {
      const outcome = await node.entrypoint('server', { env: { K3S_TLS_SAN_LIST: 'fd7a::1' } });
      expect(questions(outcome).join()).toContain('--server=https://[fd7a::1]:6443 ');
    });

    test('without kubectl, or without an address, it is the first', async () => {
      expectStarted(await node.entrypoint('server'), 'server');
      node.write('calls', '');
      node.remove('bin/kubectl');
      expectStarted(await node.entrypoint('server', { env: others }), 'server');
    });

    test.each<[string, (n: PrivateNode) => void]>([
      ['a join URL', (n) => n.joinUrl(URL_1)],
      ['a datastore', (n) => n.datastore('etcd')],
      ['a datastore beside one set aside', (n) => [n.datastore('sqlite'), n.setAside()]],
    ])('a server with %s does not ask', async (_, make) => {
      make(node);
      node.stub('kubectl', 'echo pong');
      const outcome = await node.entrypoint('server', { env: { ...others, ...TOKEN } });
      expectStarted(outcome, 'server');
      expect(questions(outcome)).toEqual([]);
    });

    test('an agent does not ask', async () => {
      node.stub('kubectl', 'echo pong');
      expectStarted(await node.entrypoint('agent', { env: { ...others, K3S_URL: URL_1 } }), 'agent');
    });
  });

  describe('the guards come again before the start', () => {
    const toAgent = `mkdir -p "$root/etc/github-runner"; echo agent >"$root/etc/github-runner/role"`;

    test.each([
      ['while Tailscale started', 'tailscale', `${toAgent}; [ "$1" != ip ] || echo 100.64.0.7`],
      ['while the host was looked up', 'nslookup', `${toAgent}; echo "Name: $1"`],
    ])('a role that changed %s', async (_, program, body) => {
      node.stub(program, body);
      node.joinUrl(URL_1);
      const outcome = await node.entrypoint('server', { env: TOKEN });
      expectIdle(outcome, "role names 'agent', not server");
      expect(outcome.k3s).toEqual([]);
    });

    test('a role that changed while the first bootstrap was asked about', async () => {
      node.stub('kubectl', `${toAgent}; echo refused; exit 1`);
      const outcome = await node.entrypoint('server', { env: { K3S_TLS_SAN_LIST: 'node1' } });
      expectIdle(outcome, "role names 'agent', not server");
      expect(outcome.calls.some((call) => call.startsWith('kubectl'))).toBe(true);
      expect(outcome.k3s).toEqual([]);
    });

    test('an idle service keeps no Tailscale that it had started', async () => {
      node.stub('tailscaled', 'trap \'echo ended >"$root/tailscaled-ended"; exit 0\' TERM; sleep 300 & wait');
      node.stub('nslookup', `${toAgent}; echo "Name: $1"`);
      node.joinUrl(URL_1);
      expectIdle(await node.entrypoint('server', { env: TOKEN }), "role names 'agent'");
      expect(() => node.read('tailscaled-ended')).not.toThrow();
    });
  });
});
