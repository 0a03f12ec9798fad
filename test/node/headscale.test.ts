import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { PrivateNode } from './private-node.js';
import { shells } from './shells.js';

const URL_1 = 'https://node1.example.ts.net:6443';

// Many small processes each: a loaded machine needs more than the usual five seconds now and then.
vi.setConfig({ testTimeout: 30_000 });

// The cluster that runs its own Headscale: k3s off the mesh until the health URL answers, then on it, in one process.
describe.each(shells())('node-entrypoint.sh with its own Headscale under $name', (shell) => {
  let node: PrivateNode;
  beforeEach(() => {
    node = new PrivateNode(shell);
  });
  afterEach(() => node.dispose());

  /** Headscale is up once the file `health` is there: kubectl is asked for an https URL. */
  const HEALTH = 'https://headscale.example/health';
  const healthByFile = () =>
    node.stub('kubectl', 'case $* in */health*) [ -e "$root/health" ] ;; *) echo refused; exit 1 ;; esac');
  const environment = (more: Record<string, string> = {}) => ({
    K3S_MESH_SELF_HOSTED_HEALTH_URL: HEALTH,
    K3S_VPN_AUTH_JOIN_KEY: 'key',
    K3S_VPN_AUTH_CONTROL_SERVER_URL: 'https://headscale.example',
    ...more,
  });
  /** k3s that runs until it is told to stop; the first one off the mesh brings Headscale up. */
  const longK3s = (more = '') =>
    node.stub(
      'k3s',
      `${more}
trap 'echo "k3s-ended" >>"$root/calls"; exit 0' TERM
case $* in *--node-ip*) : >"$root/on-mesh" ;; *) : >"$root/health" ;; esac
sleep 300 & wait`,
    );
  const startedTwice = (calls: readonly string[]) => calls.filter((call) => call.startsWith('k3s ')).length > 1;
  const onMesh = (calls: readonly string[]) => calls.some((call) => call.startsWith('k3s server --node-ip'));

  test('starts off the mesh with none of the cluster arguments, then on the mesh with all of them', async () => {
    healthByFile();
    longK3s();
    const outcome = await node.entrypoint('server', {
      env: environment({ K3S_TLS_SAN_LIST: 'node1' }),
      stopWhen: onMesh,
    });
    expect(outcome.k3s).toEqual([
      'server --tls-san node1',
      `server --node-ip 100.64.0.7 --resolv-conf ${node.path('etc/k3s-resolv.conf')} --vpn-auth name=tailscale,joinKey=key,controlServerURL=https://headscale.example --tls-san node1 --cluster-init`,
    ]);
    expect(outcome.stdout).toBe('Starting k3s\nStarting k3s\n');
    const order = outcome.calls.map((call) => call.split(' ')[0]);
    expect(order.indexOf('k3s')).toBeLessThan(order.indexOf('k3s-ended'));
    expect(order.indexOf('k3s-ended')).toBeLessThan(order.indexOf('tailscaled'));
    expect(order.indexOf('tailscaled')).toBeLessThan(order.lastIndexOf('k3s'));
    // Told to stop, it stops k3s first.
    expect(outcome.code).toBe(0);
    expect(outcome.calls.filter((call) => call === 'k3s-ended')).toHaveLength(2);
  });

  test('a health URL that answers at once needs no start off the mesh; wget is asked first', async () => {
    longK3s();
    node.stub('wget', `[ "$*" = '-q -T 5 -O /dev/null ${HEALTH}' ]`);
    const outcome = await node.entrypoint('server', { env: environment(), stopWhen: onMesh });
    expect(outcome.k3s).toHaveLength(1);
    expect(outcome.k3s[0]).toContain('--cluster-init');
    expect(outcome.calls.some((call) => call.startsWith('kubectl') && call.includes('/health'))).toBe(false);
  });

  test('kubectl is asked where wget cannot: with the path of the URL, and / where it has none', async () => {
    for (const [url, question] of [
      [HEALTH, '--server=https://headscale.example '],
      ['https://headscale.example:8443', '--server=https://headscale.example:8443 '],
    ] as const) {
      node.write('calls', '');
      node.stub('k3s', 'exit 3');
      const env = environment({ K3S_MESH_SELF_HOSTED_HEALTH_URL: url });
      const outcome = await node.entrypoint('server', { env, stopWhen: (calls) => calls.some((c) => /^k3s/.test(c)) });
      const path = url === HEALTH ? '/health' : '/';
      expect(outcome.calls.find((call) => call.startsWith('kubectl'))).toBe(
        `kubectl ${question}--insecure-skip-tls-verify --token=none --request-timeout=5s get --raw ${path}`,
      );
    }
  });

  test.each<[string, Record<string, string>]>([
    ['a health URL that does not answer with success', {}],
    ['no join key', { K3S_VPN_AUTH_JOIN_KEY: '' }],
  ])('with %s k3s stays off the mesh', async (what, more) => {
    if (what === 'no join key') node.stub('wget', 'exit 0');
    node.stub('k3s', 'exit 3');
    const outcome = await node.entrypoint('server', {
      env: environment(more),
      stopWhen: (calls) => calls.filter((call) => call.startsWith('k3s ')).length > 2,
    });
    expect(new Set(outcome.k3s)).toEqual(new Set(['server']));
    expect(outcome.calls.some((call) => call.startsWith('tailscale'))).toBe(false);
    expect(outcome.stderr).toContain('k3s has ended with status 3');
  });

  test('a server with a join URL and no datastore waits for the health URL', async () => {
    healthByFile();
    longK3s();
    node.joinUrl(URL_1);
    const env = environment({ K3S_TOKEN: 'secret' });
    const waiting = await node.entrypoint('server', {
      env,
      stopWhen: (calls, stderr) => stderr.includes(`waits until ${HEALTH}`) || calls.some((call) => /^k3s/.test(call)),
    });
    expect(waiting).toMatchObject({ code: 0, k3s: [] });
    node.write('health', '');
    const outcome = await node.entrypoint('server', { env, stopWhen: onMesh });
    expect(outcome.k3s).toHaveLength(1);
    expect(outcome.k3s[0]).toContain(`--server ${URL_1}`);
  });

  test('a server with a datastore and a join URL starts off the mesh', async () => {
    healthByFile();
    longK3s();
    node.joinUrl(URL_1);
    node.datastore('etcd');
    const outcome = await node.entrypoint('server', { env: environment(), stopWhen: onMesh });
    expect(outcome.k3s.map((call) => call.includes('--server'))).toEqual([false, true]);
  });

  test('an agent takes no part in it', async () => {
    healthByFile();
    const outcome = await node.entrypoint('agent', { env: environment({ K3S_URL: URL_1 }) });
    expect(outcome.k3s).toHaveLength(1);
    expect(outcome.k3s[0]).toContain('--node-ip');
  });

  describe('the guards', () => {
    test.each(['no', 'yes'])('come before everything (health URL answers: %s)', async (answers) => {
      healthByFile();
      if (answers === 'yes') node.write('health', '');
      node.tombstone();
      const idle = await node.entrypoint('server', { env: environment(), stopWhen: startedTwice });
      expect(idle).toMatchObject({ kind: 'idle', k3s: [] });
      expect(idle.calls.some((call) => call.startsWith('tailscale'))).toBe(false);

      node.remove('var/lib/rancher/k3s/server/db/etcd/tombstone');
      node.setAside();
      const refused = await node.entrypoint('server', { env: environment() });
      expect(refused).toMatchObject({ kind: 'refused', k3s: [] });
      expect(refused.calls.some((call) => call.startsWith('tailscale'))).toBe(false);
      expect(refused.stderr).toContain('has no server to join');
    });

    test('come before each start off the mesh', async () => {
      healthByFile();
      node.folder('etc/github-runner');
      node.stub('k3s', 'echo agent >"$root/etc/github-runner/role"; exit 1');
      const outcome = await node.entrypoint('server', { env: environment(), stopWhen: startedTwice });
      expect(outcome).toMatchObject({ kind: 'idle', code: 0 });
      expect(outcome.k3s).toHaveLength(1);
    });

    test('come before each start on the mesh: k3s ends because its member was removed', async () => {
      healthByFile();
      node.write('health', '');
      node.datastore('etcd');
      node.stub('k3s', ': >"$root/var/lib/rancher/k3s/server/db/etcd/tombstone"; exit 1');
      const outcome = await node.entrypoint('server', { env: environment(), stopWhen: startedTwice });
      expect(outcome).toMatchObject({ kind: 'idle', code: 0 });
      expect(outcome.stderr).toContain("tombstone says this server's etcd member was removed");
      expect(outcome.k3s).toHaveLength(1);
    });

    test('come between the start off the mesh and the one on it', async () => {
      healthByFile();
      longK3s('mkdir -p "$root/etc/github-runner"; echo agent >"$root/etc/github-runner/role"');
      const outcome = await node.entrypoint('server', { env: environment() });
      expect(outcome).toMatchObject({ kind: 'idle', code: 0 });
      expect(outcome.k3s).toEqual(['server']);
      expect(outcome.calls.some((call) => call.startsWith('tailscale'))).toBe(false);
    });

    test('the first bootstrap is asked about once the mesh is up', async () => {
      node.write('health', '');
      node.stub('kubectl', 'case $* in */health*) [ -e "$root/health" ] ;; *) echo pong ;; esac');
      const outcome = await node.entrypoint('server', { env: environment({ K3S_TLS_SAN_LIST: 'node2' }) });
      expect(outcome).toMatchObject({ kind: 'refused', k3s: [] });
      expect(outcome.stderr).toContain('a cluster answers at node2');
    });
  });
});
