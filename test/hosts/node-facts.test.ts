import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Known } from '../../src/plan/observation.js';
import { containerLine, hasShell, LocalHost, SHELLS } from './helpers.js';

const DATA = '/var/lib/rancher/k3s';
const PASSWORD = '/etc/rancher/node';
const AGENT = 'github-runner-k3s-agent';

let host: LocalHost;

interface Sketch {
  readonly name?: string;
  readonly id?: string;
  readonly status?: string;
  /** `KIND TARGET SOURCE`; the host's folder stands for `HOST`. */
  readonly mounts?: readonly string[];
  readonly words?: readonly string[];
  readonly nodeName?: string;
  readonly hostName?: string;
}

/** What docker prints for one container in the lines of the probe's format. */
function container(sketch: Sketch): string {
  const { name = 'github-runner-k3s', id = name.length.toString(16), status = 'exited', mounts = [] } = sketch;
  return [
    containerLine({ name: `/${name}`, id, status }).trimEnd(),
    'fleet-role-image sha256:0123',
    `fleet-role-file "${host.base}"`,
    ...mounts.map((mount) => {
      const [kind, target, source = ''] = mount.replace('HOST', host.base).split(' ');
      return `fleet-role-mount ${kind} ${kind === 'volume' ? 'local' : '-'} "${target}" "${source}"`;
    }),
    ...(sketch.words ?? []).map((word) => `fleet-role-word ${JSON.stringify(word)}`),
    'fleet-role-token',
    ...(sketch.nodeName === undefined ? [] : [`fleet-role-node-name "K3S_NODE_NAME=${sketch.nodeName}"`]),
    `fleet-role-host-name "${sketch.hostName ?? ''}"`,
    'fleet-role-policy unless-stopped:0',
    '',
  ].join('\n');
}

/** Makes docker describe these containers, and say of the others that there are none. */
function describes(...sketches: readonly Sketch[]): void {
  const missing = ['github-runner-k3s', AGENT].filter(
    (name) => !sketches.some((sketch) => (sketch.name ?? 'github-runner-k3s') === name),
  );
  const err = missing.map((name) => `Error: No such container: ${name}\n`).join('');
  host.docker({ out: sketches.map(container).join(''), err, code: missing.length > 0 ? 1 : 0 });
}

const plain = (fact: Known<unknown>) => (fact.kind === 'known' ? fact.value : 'unknown');

describe.each(SHELLS.filter(hasShell))('what a host says of its node, where sh is %s', (shell) => {
  beforeEach(() => {
    host = new LocalHost(shell);
    host.write('docker-compose.yml', 'services: {}\n');
  });
  afterEach(() => host.close());

  it.each<[string, Sketch[], string | null]>([
    ['the host name', [{ hostName: 'pi-1' }], 'pi-1'],
    ['what the environment says', [{ nodeName: 'pi-2', hostName: 'other' }], 'pi-2'],
    ['what the command says', [{ nodeName: 'other', words: ['k3s', '--node-name', 'pi-3', 'x'] }], 'pi-3'],
    ['what the command says in one word', [{ hostName: 'other', words: ['k3s', '--node-name=pi-4'] }], 'pi-4'],
    ['lower case', [{ hostName: 'PI-5' }], 'pi-5'],
    ["the agent's, where k3s has no container", [{ name: AGENT, hostName: 'pi-6' }], 'pi-6'],
    ["the server's, where neither runs", [{ hostName: 'pi-7' }, { name: AGENT, hostName: 'other' }], 'pi-7'],
    ['nothing, without a container', [], null],
    ['nothing for an empty name', [{ nodeName: '', hostName: '' }], null],
  ])('its node name is %s', async (_what, sketches, expected) => {
    describes(...sketches);
    expect((await host.reached()).nodeName).toBe(expected);
  });

  it.each<[string, string[], string[] | null, boolean | 'unknown']>([
    ['one directory in both', [`bind ${PASSWORD} /srv/n`], [`bind ${PASSWORD} /srv/n`], true],
    ['one volume in both', [`volume ${PASSWORD} /v/a/_data`], [`volume ${PASSWORD} /v/a/_data`], true],
    ['a directory above it', ['bind /etc/rancher /srv/r'], [`bind ${PASSWORD} /srv/r/node`], true],
    ['two directories', [`bind ${PASSWORD} /srv/a`], [`bind ${PASSWORD} /srv/b`], false],
    ['memory', [`tmpfs ${PASSWORD}`], [`tmpfs ${PASSWORD}`], false],
    ['no mount', [], [], false],
    ['a mount in one only', [`bind ${PASSWORD} /srv/n`], [], false],
    ['a mount elsewhere', ['bind /etc/rancher/nodes /srv/n'], ['bind /etc/rancher/nodes /srv/n'], false],
    ['a mount, and no agent yet', [`bind ${PASSWORD} /srv/n`], null, 'unknown'],
    ['none, and no agent yet', [], null, false],
  ])('both services have one password: %s', async (_what, server, agent, expected) => {
    describes({ mounts: server }, ...(agent === null ? [] : [{ name: AGENT, mounts: agent }]));
    expect(plain((await host.reached()).passwordShared)).toBe(expected);
  });

  it.each<[string, string[], string[], boolean | 'unknown']>([
    ['with a datastore', ['data/server/db/etcd'], [`bind ${DATA} HOST/data`], true],
    ['without one', ['data/server'], [`bind ${DATA} HOST/data`], true],
    ['with nothing', ['data'], [`bind ${DATA} HOST/data`], true],
    [
      'with a mount of its own',
      ['data/server/db'],
      [`bind ${DATA} HOST/data`, `bind ${DATA}/server/db HOST/data`],
      false,
    ],
    [
      'with a mount below',
      ['data/server/db'],
      [`bind ${DATA} HOST/data`, `volume ${DATA}/server/db/etcd HOST/data`],
      false,
    ],
    ['with a mount beside', ['data/server/db'], [`bind ${DATA} HOST/data`, `bind ${DATA}/server/dbx HOST/x`], true],
    ['that cannot be seen', [], [`bind ${DATA} HOST/gone`], 'unknown'],
  ])('its datastore can be renamed: a data directory %s', async (_what, paths, mounts, expected) => {
    for (const path of paths) mkdirSync(join(host.base, path), { recursive: true });
    describes({ mounts });
    expect(plain((await host.reached()).oneFileSystem)).toBe(expected);
  });

  // Busybox's shell runs its own df, whatever is on PATH.
  it.skipIf(shell === 'busybox')('cannot rename it to another file system', async () => {
    mkdirSync(join(host.base, 'data/server/db'), { recursive: true });
    describes({ mounts: [`bind ${DATA} HOST/data`] });
    host.program(
      'df',
      `echo Filesystem; case $2 in */db) echo "/dev/b 1 2 3 4% /db" ;; *) echo "/dev/a 1 2 3 4% /" ;; esac`,
    );
    expect(plain((await host.reached()).oneFileSystem)).toBe(false);
    host.program('df', 'exit 1');
    expect(plain((await host.reached()).oneFileSystem)).toBe('unknown');
  });

  it.each<[string | null, object]>([
    [null, { kind: 'absent' }],
    ['unless-stopped\n', { kind: 'text', text: 'unless-stopped' }],
    [' on-failure:3 \r\n', { kind: 'text', text: 'on-failure:3' }],
    ['', { kind: 'text', text: '' }],
  ])('keeps the policy that was found: %j', async (text, expected) => {
    if (text !== null) host.write('fleet-role.d/restart-policy', text);
    expect((await host.reached()).keptPolicy).toEqual(expected);
  });

  it.each<[string, string | null]>([
    ['', null],
    ['K3S_TLS_SAN_LIST=\n', null],
    ['K3S_TLS_SAN_LIST=" a  b "\n', 'a  b'],
    ["K3S_TLS_SAN_LIST='a b'\nK3S_TLS_SAN_LIST=c # d\n", 'c'],
  ])('has the TLS SANs of .env %j', async (text, expected) => {
    writeFileSync(host.path('.env'), text);
    expect(await host.reached()).toMatchObject({ tlsSans: expected, unsteerable: null });
  });
});
