import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { PrivateNode } from './private-node.js';
import { shells } from './shells.js';

const URL_1 = 'https://node1.example.ts.net:6443';
const TOKEN = { K3S_TOKEN: 'secret' };

// Many small processes each: a loaded machine needs more than the usual five seconds now and then.
vi.setConfig({ testTimeout: 30_000 });

// What the entrypoint starts, with what, and what it waits for, once the guards let it.
describe.each(shells())('node-entrypoint.sh under $name', (shell) => {
  let node: PrivateNode;
  beforeEach(() => {
    node = new PrivateNode(shell);
  });
  afterEach(() => node.dispose());

  /** Makes nslookup know only these names; it fails for others as busybox's does. */
  const knownNames = (pattern: string) =>
    node.stub(
      'nslookup',
      `case $1 in ${pattern}) echo "Name: $1" ;; *) echo "** server can't find $1: NXDOMAIN"; exit 1 ;; esac`,
    );
  const lookups = (calls: readonly string[]) => [...new Set(calls.filter((call) => call.startsWith('nslookup ')))];

  describe('the arguments of k3s', () => {
    const resolv = () => `--resolv-conf ${node.path('etc/k3s-resolv.conf')}`;

    test('a server that bootstraps', async () => {
      const outcome = await node.entrypoint('server', {
        env: { K3S_VPN_AUTH_JOIN_KEY: 'key', K3S_TLS_SAN_LIST: ' node1  node2 ' },
      });
      expect(outcome.k3s).toEqual([
        `server --node-ip 100.64.0.7 ${resolv()} --vpn-auth name=tailscale,joinKey=key --tls-san node1 --tls-san node2 --cluster-init`,
      ]);
      expect(node.read('etc/k3s-resolv.conf')).toBe('nameserver 100.100.100.100\n');
    });

    test('a server that joins, on Headscale', async () => {
      node.joinUrl(URL_1);
      const env = {
        ...TOKEN,
        K3S_VPN_AUTH_JOIN_KEY: 'key',
        K3S_VPN_AUTH_CONTROL_SERVER_URL: 'https://headscale.example',
      };
      const outcome = await node.entrypoint('server', { env });
      expect(outcome.k3s).toEqual([
        `server --node-ip 100.64.0.7 ${resolv()} --vpn-auth name=tailscale,joinKey=key,controlServerURL=https://headscale.example --server ${URL_1}`,
      ]);
    });

    test('an agent', async () => {
      const env = { K3S_URL: URL_1, K3S_VPN_AUTH_JOIN_KEY: 'key', K3S_TLS_SAN_LIST: 'node1' };
      expect((await node.entrypoint('agent', { env })).k3s).toEqual([
        `agent --node-ip 100.64.0.7 ${resolv()} --vpn-auth name=tailscale,joinKey=key --server ${URL_1}`,
      ]);
    });

    test.each<[string, string[], string, (n: PrivateNode) => void]>([
      ['none at all', ['sqlite'], '', () => {}],
      ['a datastore', ['etcd', ''], ' --cluster-init', (n) => n.datastore('etcd')],
      ['an SQLite datastore', ['etcd', ''], ' --cluster-init', (n) => n.datastore('sqlite')],
      ['an SQLite datastore', ['sqlite'], '', (n) => n.datastore('sqlite')],
      ['a datastore beside one set aside', ['etcd'], ' --cluster-init', (n) => [n.datastore('etcd'), n.setAside()]],
      ['nothing', ['etcd', ''], ' --cluster-init', () => {}],
      [
        'a datastore and a join URL',
        ['etcd', 'sqlite'],
        ` --server ${URL_1}`,
        (n) => [n.datastore('etcd'), n.joinUrl(URL_1)],
      ],
    ])('a server with %s and K3S_DATASTORE=%j', async (_, datastores, wanted, make) => {
      make(node);
      for (const datastore of datastores) {
        node.write('calls', '');
        const outcome = await node.entrypoint('server', { env: datastore === '' ? {} : { K3S_DATASTORE: datastore } });
        expect(outcome.k3s).toEqual([`server --node-ip 100.64.0.7 ${resolv()}${wanted}`]);
      }
    });

    test("the user's own come before ours, and a repeated role is dropped", async () => {
      const outcome = await node.entrypoint('server', { args: ['server', '--disable', 'traefik', '--x', 'a b *'] });
      expect(outcome.k3s).toEqual([
        `server --disable traefik --x a b * --node-ip 100.64.0.7 ${resolv()} --cluster-init`,
      ]);
    });

    test.each([
      ['K3S_KUBECONFIG_OUTPUT', 'output/kubeconfig.yaml'],
      ['the usual place', 'etc/rancher/k3s/k3s.yaml'],
    ])('a stale kubeconfig in %s is gone when k3s starts', async (_, file) => {
      node.write(file, 'stale');
      node.stub('k3s', `[ ! -e "$root/${file}" ] || echo stale >>"$root/calls"`);
      const env = file.startsWith('output') ? { K3S_KUBECONFIG_OUTPUT: node.path(file) } : {};
      expect((await node.entrypoint('server', { env })).calls).not.toContain('stale');
    });

    test('it is left alone when k3s does not start', async () => {
      node.role('agent');
      node.write('etc/rancher/k3s/k3s.yaml', 'stale');
      await node.entrypoint('server');
      expect(node.read('etc/rancher/k3s/k3s.yaml')).toBe('stale');
    });

    test('k3s takes the place of the shell', async () => {
      node.stub('k3s', 'exit 42');
      expect(await node.entrypoint('server')).toMatchObject({ kind: 'started', code: 42 });
    });
  });

  describe('Tailscale', () => {
    const logins = (calls: readonly string[]) => calls.filter((call) => call.startsWith('tailscale up'));
    /** A daemon that starts in `state` and is logged in after `tailscale up`. */
    const daemon = (state: string) =>
      node.stub(
        'tailscale',
        `state=${state}; [ ! -e "$root/logged-in" ] || state=Running
case "$1 \${2:-}" in
  'status --json') printf '{\\n  "BackendState": "%s",\\n}\\n' "$state" ;;
  'status ') [ "$state" = Running ] ;;
  'ip -4') [ "$state" = Running ] && echo 100.64.0.7 ;;
  up*) : >"$root/logged-in" ;;
  *) exit 1 ;;
esac`,
      );

    test('its state is kept where the volume is', async () => {
      const outcome = await node.entrypoint('server');
      expect(outcome.calls[0]).toMatch(/^tailscaled? /);
      expect(outcome.calls).toContain(`tailscaled --state=${node.path('var/lib/tailscale/tailscaled.state')}`);
    });

    test.each(['NeedsLogin', 'Stopped', 'NoState'])('a daemon that says %s is logged in once', async (state) => {
      daemon(state);
      const outcome = await node.entrypoint('server', { env: { K3S_VPN_AUTH_JOIN_KEY: 'key' } });
      expect(logins(outcome.calls)).toEqual(['tailscale up --reset --authkey=key --timeout=30s']);
      expect(outcome.k3s).toHaveLength(1);
    });

    test('on Headscale by its URL', async () => {
      daemon('NeedsLogin');
      const env = { K3S_VPN_AUTH_JOIN_KEY: 'key', K3S_VPN_AUTH_CONTROL_SERVER_URL: 'https://headscale.example' };
      const outcome = await node.entrypoint('server', { env });
      expect(logins(outcome.calls)).toEqual([
        'tailscale up --reset --authkey=key --timeout=30s --login-server=https://headscale.example',
      ]);
    });

    test('one that is logged in by its state is not logged in again', async () => {
      daemon('Running');
      const outcome = await node.entrypoint('server', { env: { K3S_VPN_AUTH_JOIN_KEY: 'key' } });
      expect(logins(outcome.calls)).toEqual([]);
      expect(outcome.k3s).toHaveLength(1);
    });

    test('k3s waits for an address', async () => {
      node.stub(
        'tailscale',
        '[ "$1" != ip ] || { [ "$(grep -c "^tailscale ip" "$root/calls")" -lt 4 ] || echo 100.64.0.7; }',
      );
      node.symlinkTool('grep');
      const outcome = await node.entrypoint('server');
      expect(outcome.calls.filter((call) => call.startsWith('tailscale ip')).length).toBeGreaterThanOrEqual(4);
      expect(outcome.k3s[0]).toContain('--node-ip 100.64.0.7 ');
    });

    test('an IPv6 address will do where there is no other', async () => {
      node.stub('tailscale', 'case "$*" in "ip -4") exit 1 ;; "ip -6") echo fd7a::7 ;; esac');
      expect((await node.entrypoint('server')).k3s[0]).toContain('--node-ip fd7a::7 ');
    });

    test('without a key it says what is missing, and goes on waiting', async () => {
      daemon('NeedsLogin');
      const outcome = await node.entrypoint('server', {
        stopWhen: (_, stderr) => stderr.includes('K3S_VPN_AUTH_JOIN_KEY'),
      });
      expect(outcome).toMatchObject({ code: 0, k3s: [] });
      expect(logins(outcome.calls)).toEqual([]);
    });

    test('a daemon that has ended is said, and the restart policy tries again', async () => {
      node.stub('tailscaled', 'exit 1');
      node.stub('tailscale', 'exit 1');
      const outcome = await node.entrypoint('server', { env: { K3S_VPN_AUTH_JOIN_KEY: 'key' } });
      expect(outcome).toMatchObject({ kind: 'refused', code: 1, k3s: [] });
      expect(outcome.stderr).toContain('tailscaled has ended');
    });

    test('a role that changes while it waits for an address', async () => {
      node.folder('etc/github-runner');
      node.stub('tailscale', '[ "$1" != ip ] || echo agent >"$root/etc/github-runner/role"');
      const outcome = await node.entrypoint('server');
      expect(outcome).toMatchObject({ kind: 'idle', k3s: [] });
    });
  });

  describe('the wait for the join host', () => {
    const blocked = { stopWhen: (_: readonly string[], stderr: string) => stderr.includes('waits until') };

    test.each([
      ['server', 'K3S_JOIN_SERVER_URL'],
      ['agent', 'K3S_URL'],
    ])('%s waits for the host of the file and not of the environment', async (service, variable) => {
      knownNames('node2.example.ts.net');
      node.joinUrl(URL_1);
      const env = { ...TOKEN, [variable]: 'https://node2.example.ts.net:6443' };
      const outcome = await node.entrypoint(service, { env, ...blocked });
      expect(outcome).toMatchObject({ code: 0, k3s: [] });
      expect(outcome.stderr).toContain('waits until node1.example.ts.net');
      expect(lookups(outcome.calls)).toEqual(['nslookup node1.example.ts.net']);
    });

    test.each(['server', 'agent'])('%s goes on when that host resolves, whatever others do', async (service) => {
      knownNames('node1.example.ts.net');
      node.joinUrl(URL_1);
      const env = { ...TOKEN, K3S_URL: 'https://gone:6443', K3S_JOIN_SERVER_URL: 'https://gone:6443' };
      const outcome = await node.entrypoint(service, { env });
      expect(outcome.k3s).toHaveLength(1);
      expect(lookups(outcome.calls)).toEqual(['nslookup node1.example.ts.net']);
    });

    test('it waits until the name is there', async () => {
      node.symlinkTool('grep');
      node.stub(
        'nslookup',
        `[ "$(grep -c "^nslookup" "$root/calls")" -ge 3 ] || { echo "** server can't find $1"; exit 1; }`,
      );
      node.joinUrl(URL_1);
      const outcome = await node.entrypoint('server', { env: TOKEN });
      expect(outcome.k3s).toHaveLength(1);
      expect(outcome.calls.filter((call) => call.startsWith('nslookup'))).toHaveLength(3);
      expect(outcome.stderr.split('waits until')).toHaveLength(2);
    });

    test('a join URL that changes during the wait is the one that counts', async () => {
      node.stub('nslookup', `[ "$1" = node9 ] || { echo https://node9 >"$root/etc/github-runner/join-url"; exit 1; }`);
      node.joinUrl(URL_1);
      const outcome = await node.entrypoint('agent');
      expect(outcome.k3s[0]).toContain('--server https://node9');
    });

    test('a role or a tombstone that comes during the wait ends it', async () => {
      node.joinUrl(URL_1);
      node.stub(
        'nslookup',
        'mkdir -p "$root/var/lib/rancher/k3s/server/db/etcd"; : >"$root/var/lib/rancher/k3s/server/db/etcd/tombstone"; exit 1',
      );
      const outcome = await node.entrypoint('server', { env: TOKEN });
      expect(outcome).toMatchObject({ kind: 'idle', k3s: [] });
      expect(outcome.stderr).toContain('tombstone');
    });

    test.each(['etcd', 'sqlite'] as const)('a server with a %s datastore waits for nobody', async (kind) => {
      knownNames('nobody');
      node.datastore(kind);
      node.joinUrl(URL_1);
      const outcome = await node.entrypoint('server', blocked);
      expect(outcome.k3s).toHaveLength(1);
      expect(lookups(outcome.calls)).toEqual([]);
    });

    test('an agent waits though there is a datastore', async () => {
      knownNames('nobody');
      node.datastore('etcd');
      const outcome = await node.entrypoint('agent', { env: { K3S_URL: URL_1 }, ...blocked });
      expect(outcome.k3s).toEqual([]);
    });

    test.each(['server', 'agent'])('%s with nothing to join waits for nobody', async (service) => {
      knownNames('nobody');
      const outcome = await node.entrypoint(service);
      expect(outcome.k3s).toHaveLength(1);
      expect(lookups(outcome.calls)).toEqual([]);
    });

    test.each([
      ['https://node1', ['nslookup node1']],
      ['https://node1:16443/x', ['nslookup node1']],
      ['https://100.64.0.1:6443', []],
      ['https://[fd7a::1]:6443', []],
      ['https://[fd7a::1]', []],
      ['https://1and1.example:443', ['nslookup 1and1.example']],
    ])('%s asks for %j', async (url, wanted) => {
      node.joinUrl(url);
      const outcome = await node.entrypoint('agent');
      expect(outcome.k3s).toHaveLength(1);
      expect(lookups(outcome.calls)).toEqual(wanted);
    });

    test('a name in the hosts file needs no look-up', async () => {
      knownNames('nobody');
      node.write('etc/hosts', '# 10.0.0.9 node1\n10.0.0.1 other Node1 # x\n');
      expect((await node.entrypoint('agent', { env: { K3S_URL: 'https://node1:6443' } })).k3s).toHaveLength(1);
      const other = await node.entrypoint('agent', { env: { K3S_URL: 'https://node' }, ...blocked });
      expect(other.stderr).toContain('waits until node,');
    });

    test.each([
      ['an address of one kind only', `echo "Name: $1"; echo "** server can't find $1: SERVFAIL"; exit 1`, true],
      ['no answer with status 0', `echo "*** Can't find $1: No answer"`, false],
      ['nothing with status 0', ':', true],
      ['a failure without words', 'exit 1', false],
    ])('nslookup gives %s', async (_, body, resolves) => {
      node.stub('nslookup', body);
      const outcome = await node.entrypoint('agent', { env: { K3S_URL: URL_1 }, ...blocked });
      expect(outcome.k3s).toHaveLength(resolves ? 1 : 0);
    });
  });

  describe('being told to stop', () => {
    test.each(['while it waits for a host', 'while it waits for the mesh'])('%s it ends with 0', async (when) => {
      if (when.endsWith('host')) node.stub('nslookup', 'exit 1');
      else node.stub('tailscale', '[ "$1" != ip ]');
      node.joinUrl(URL_1);
      const stopWhen = (calls: readonly string[]) =>
        calls.filter((call) => /^(nslookup|tailscale ip)/.test(call)).length > 2;
      expect(await node.entrypoint('agent', { stopWhen })).toMatchObject({ code: 0, k3s: [] });
    });
  });
});
