import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Connection } from '../../src/hosts/connection.js';
import { lookAt } from '../../src/hosts/probe.js';
import type { Known, ReachedHost } from '../../src/plan/observation.js';
import { ACTIONS } from '../../src/plan/step.js';
import { composeHost, containerLine, hasShell, LocalHost, SHELLS, type Shell, step } from './helpers.js';
import { outsideTheList } from './recorder.js';

const DATA = '/var/lib/rancher/k3s';
const WAL = 'server/db/etcd/member/wal';
const UNKNOWN = { datastore: 'unknown', tombstone: 'unknown', setAside: 'unknown' };
const NOTHING = { datastore: 'none', tombstone: false, setAside: false };

let host: LocalHost;

const start = (shell: Shell) => () => {
  host = new LocalHost(shell);
  host.write('docker-compose.yml', 'services: {}\n');
};

/** Makes each path below the host's folder: a directory, or a file with the text after `=`. Returns the folder. */
function tree(...paths: string[]): string {
  for (const path of paths) {
    const [name = '', ...text] = path.split('=');
    const file = join(host.base, name);
    mkdirSync(text.length > 0 ? dirname(file) : file, { recursive: true });
    if (text.length > 0) writeFileSync(file, text.join('='));
  }
  return host.base;
}

interface Sketch {
  readonly name?: string;
  /** `TYPE DRIVER`, target and source. */
  readonly mounts?: readonly (readonly [string, string, string])[];
  /** Upper layer first. */
  readonly layers?: readonly string[];
  readonly words?: readonly string[];
  readonly lines?: readonly string[];
  /** False: no file of the engine's is on this machine. */
  readonly here?: boolean;
  readonly container?: Record<string, unknown>;
}

/** What docker prints for a stopped container, in the lines that the probe's format asks for. */
function lines(sketch: Sketch): string {
  const { name = 'github-runner-k3s', mounts = [], words = [], here = true } = sketch;
  const engine = here ? host.base : join(host.base, 'not-here');
  return [
    containerLine({ name: `/${name}`, status: 'exited', ...sketch.container }).trimEnd(),
    'fleet-role-image sha256:0123',
    `fleet-role-file "${engine}"`,
    ...mounts.map(([kind, target, source]) => `fleet-role-mount ${kind} "${target}" "${source}"`),
    ...(sketch.layers === undefined ? [] : [`fleet-role-layers "${sketch.layers.join(':')}"`]),
    ...words.map((word) => `fleet-role-word ${JSON.stringify(word)}`),
    ...(sketch.lines ?? []),
    '',
  ].join('\n');
}

const missing = (...names: string[]) => names.map((name) => `Error: No such container: ${name}\n`).join('');
const AGENT = 'github-runner-k3s-agent';
const plain = (fact: Known<unknown>) => (fact.kind === 'known' ? fact.value : 'unknown');

function facts(seen: ReachedHost) {
  return { datastore: plain(seen.datastore), tombstone: plain(seen.tombstone), setAside: plain(seen.setAside) };
}

/** The facts of a host with this container for `k3s`, and none for the agent. */
async function see(sketch: Sketch) {
  host.docker({ out: lines(sketch), err: missing(AGENT), code: 1 });
  return host.reached();
}

describe.each(SHELLS.filter(hasShell))('what a stopped container would start from, where sh is %s', (shell) => {
  beforeEach(start(shell));
  afterEach(() => host.close());

  it.each<[string, string[], object]>([
    ['nothing', ['data'], NOTHING],
    ['the directories around it', ['data/server/db/etcd/member', 'data/server/db/etcd/name=x'], NOTHING],
    ['etcd', [`data/${WAL}`], { ...NOTHING, datastore: 'etcd' }],
    ['etcd beside SQLite', [`data/${WAL}`, 'data/server/db/state.db='], { ...NOTHING, datastore: 'etcd' }],
    ['SQLite', ['data/server/db/state.db='], { ...NOTHING, datastore: 'sqlite' }],
    ['a file where the log should be', [`data/${WAL}=`], NOTHING],
    ['a directory where SQLite should be', ['data/server/db/state.db'], NOTHING],
    ['a tombstone', ['data/server/db/etcd/tombstone='], { ...NOTHING, tombstone: true }],
    ['one set aside', ['data/server/db.demoted/x'], { ...NOTHING, setAside: true }],
    ['an older one', ['data/server/db.demoted.2/x'], { ...NOTHING, setAside: true }],
  ])('%s', async (_what, paths, expected) => {
    const base = tree(...paths);
    const sketch: Sketch = { mounts: [['bind -', DATA, `${base}/data`]], lines: ['fleet-role-token'] };
    expect(facts(await see(sketch))).toEqual(expected);
    expect(host.dockerCalls()).toHaveLength(1);
  });

  it('is that of the nearest mount', async () => {
    const base = tree('outer/server/db/state.db=', 'inner/etcd/member/wal', 'other');
    const mounts: Sketch['mounts'] = [
      ['bind -', `${DATA}/server/db`, `${base}/inner`],
      ['bind -', DATA, `${base}/outer`],
      ['bind -', `${DATA}/server/dbx`, `${base}/other`],
    ];
    expect(facts(await see({ mounts })).datastore).toBe('etcd');
  });

  it.each<[string, (base: string) => Sketch]>([
    ['docker runs elsewhere', (base) => ({ here: false, mounts: [['bind -', DATA, `${base}/data`]] })],
    ['the directory is gone', (base) => ({ mounts: [['bind -', DATA, `${base}/gone`]] })],
    ['it is in memory', () => ({ mounts: [['tmpfs -', DATA, '']] })],
    ['a plugin has it', (base) => ({ mounts: [['volume rclone', DATA, `${base}/data`]] })],
    ['the volume has options of its own', (base) => ({ mounts: [['volume local', DATA, `${base}/volume/_data`]] })],
    ['a link leads elsewhere', (base) => ({ mounts: [['bind -', DATA, `${base}/linked`]] })],
    [
      'a path is odd',
      (base) => ({
        mounts: [
          ['bind -', DATA, `${base}/data`],
          ['bind -', `${DATA}/server\\n`, `${base}/data`],
        ],
      }),
    ],
    ['it is in the container itself', (base) => ({ layers: [`${base}/upper`] })],
  ])('is unknown and never none where %s', async (_what, make) => {
    const base = tree('data', 'upper', 'volume/_data', 'volume/opts.json={}', 'linked');
    symlinkSync('/elsewhere', join(base, 'linked/server'));
    expect(facts(await see(make(base)))).toEqual(UNKNOWN);
  });

  it('is that of a volume without options', async () => {
    const base = tree(`volume/_data/${WAL}`);
    expect(facts(await see({ mounts: [['volume local', DATA, `${base}/volume/_data`]] })).datastore).toBe('etcd');
  });

  it('is asked for in a container that may change nothing, where it may not be read', async () => {
    const base = tree('data');
    const sketch: Sketch = { here: false, mounts: [['bind -', DATA, `${base}/data`]], words: ['/entry'] };
    writeFileSync(join(host.base, 'inspected'), lines(sketch));
    const answer =
      'fleet-role-data sqlite no yes\\nfleet-role-token yes\\nfleet-role-entrypoint k3s honours 7\\nfleet-role-end\\n';
    host.docker({
      script: `case $1 in run) printf '${answer}'; exit 0 ;; esac; cat ${host.base}/inspected; printf '${missing(AGENT).trim()}\\n' >&2; exit 1`,
    });
    const seen = await host.reached();
    expect(facts(seen)).toEqual({ datastore: 'sqlite', tombstone: false, setAside: true });
    expect(plain(seen.token)).toBe(true);
    const [, run = []] = host.dockerCalls();
    const name = 'fleet-role-look-github-runner-k3s';
    expect(run.slice(0, 4)).toEqual(['run', '--name', name, '--label']);
    expect(run[4]).toMatch(/^fleet-role\.look=\d+\.\d*\.\S*$/);
    expect(run.slice(5, 17)).toEqual(
      '--volumes-from c0ffee:ro --pull never --network none --read-only --user 0:0 --entrypoint sh sha256:0123'.split(
        ' ',
      ),
    );
    // Never with its volumes: they are the node's.
    expect(host.dockerCalls().slice(2)).toEqual([['rm', '-f', name]]);
    expect(host.dockerCalls().flatMap(outsideTheList)).toEqual([]);
  });

  it.each<[string, string, string, boolean]>([
    ['a look that was killed', '4194305.1.BOOT', 'running', true],
    ['a look under way', 'OWN', 'running', false],
    ['a look before this machine was started again, which has ended', '1.1.other', 'exited', true],
    ['a look from another machine', '1.1.other', 'running', false],
    ['nobody who says so', '', 'exited', false],
  ])('begins with what is left of %s', async (_what, owner, status, removed) => {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    const start = readFileSync('/proc/self/stat', 'utf8').replace(/.*\) /s, '').split(' ')[19];
    const label = owner.replace('BOOT', boot).replace('OWN', `${process.pid}.${start}.${boot}`);
    const id = 'a'.repeat(64);
    const looker = label === '' ? [] : [`fleet-role-looker ${label}`];
    const left = lines({ name: 'fleet-role-look-github-runner-k3s', container: { id, status }, lines: looker });
    const base = tree(`data/${WAL}`);
    const node = lines({ mounts: [['bind -', DATA, `${base}/data`]], lines: ['fleet-role-token'] });
    host.docker({ out: node + left, err: missing(AGENT), code: 1 });
    const seen = await host.reached();
    expect(facts(seen).datastore).toBe('etcd');
    expect(seen.services).toMatchObject({ value: { k3s: { state: 'stopped' }, 'k3s-agent': { state: 'absent' } } });
    expect(host.dockerCalls().slice(1)).toEqual(removed ? [['rm', '-f', id]] : []);
    expect(host.dockerCalls().flatMap(outsideTheList)).toEqual([]);
  });

  it('waits for another look that asks in a container', async () => {
    const base = tree('data');
    writeFileSync(join(host.base, 'inspected'), lines({ here: false, mounts: [['bind -', DATA, `${base}/data`]] }));
    const taken =
      'docker: Error response from daemon: Conflict. The container name "/x" is already in use by container';
    host.docker({
      script: `case $1 in
run) if [ -e ${host.base}/tried ]; then printf 'fleet-role-data etcd no no\\nfleet-role-end\\n'; exit 0; fi; : >${host.base}/tried; echo '${taken}' >&2; exit 125 ;;
rm) exit 0 ;;
esac
cat ${host.base}/inspected; exit 0`,
    });
    expect(facts(await host.reached()).datastore).toBe('etcd');
    // The container of the other look is not removed.
    expect(host.dockerCalls().map(([word]) => word)).toEqual(['inspect', 'run', 'run', 'rm']);
  });

  it.each<[string, string, object]>([
    ['still the same', 'c0ffee', NOTHING],
    ['another one by then', 'beef', UNKNOWN],
    ['gone by then', '', UNKNOWN],
  ])('is nothing in a volume without a name only where the container is %s', async (_what, id, expected) => {
    const volume = `volumes/${'0f'.repeat(32)}/_data`;
    const base = tree(volume, `named/_data`);
    const sketch = (source: string): Sketch => ({
      ...{ mounts: [['volume local', DATA, `${base}/${source}`]], lines: ['fleet-role-token'] },
    });
    writeFileSync(join(host.base, 'inspected'), lines(sketch(volume)));
    host.docker({ script: `case "$*" in *'{{.Id}}'*) echo ${id}; exit 0 ;; esac; cat ${host.base}/inspected; exit 0` });
    expect(facts(await host.reached())).toEqual(expected);
    expect(host.dockerCalls()).toHaveLength(2);
    // Nobody takes a named one away, and one that holds something is no nothing.
    expect(facts(await see(sketch('named/_data')))).toEqual(NOTHING);
    tree(`${volume}/${WAL}`);
    expect(facts(await see(sketch(volume))).datastore).toBe('etcd');
    expect(host.dockerCalls()).toHaveLength(4);
  });

  it('has no token only where that container sees all its configuration', async () => {
    const answer = 'fleet-role-data none no no\\nfleet-role-token no\\nfleet-role-end\\n';
    for (const [target, expected] of [
      ['/etc/rancher/k3s', false],
      ['/etc/rancher/node', 'unknown'],
    ] as const) {
      const sketch: Sketch = { here: false, mounts: [['bind -', target, host.base]] };
      writeFileSync(join(host.base, 'inspected'), lines(sketch));
      host.docker({ script: `case $1 in run) printf '${answer}'; exit 0 ;; esac; cat ${host.base}/inspected; exit 0` });
      expect([target, plain((await host.reached()).token)]).toEqual([target, expected]);
    }
  });

  it('tells nothing of how it is started but whose entrypoint it is', async () => {
    host.docker({ out: lines({ words: ['/e', '--token', 's3cret'] }), err: missing(AGENT), code: 1 });
    let said = '';
    const connection: Connection = {
      run: async (...args) => {
        const result = await host.connection.run(...args);
        said = JSON.stringify(result);
        return result;
      },
    };
    await lookAt(connection, composeHost(), { seconds: 60 });
    expect(said).toContain('entrypoint-k3s');
    expect(said).not.toContain('s3cret');
  });

  it('is unknown where that container says nothing, or less', async () => {
    const base = tree('data');
    writeFileSync(join(host.base, 'inspected'), lines({ here: false, mounts: [['bind -', DATA, `${base}/data`]] }));
    for (const answer of ['echo no such image >&2; exit 125', 'exit 0', 'echo "fleet-role-data nonsense"; exit 0']) {
      host.docker({ script: `case $1 in run) ${answer} ;; esac; cat ${host.base}/inspected; exit 0` });
      expect(facts(await host.reached())).toEqual(UNKNOWN);
    }
  });

  it.each<[string, string[], string[], string]>([
    ['in the image', ['lower/entry.sh=#\n# fleet-role-guards 3\n'], ['/entry.sh'], 'honours'],
    [
      'changed in the container',
      ['lower/entry.sh=#\n# fleet-role-guards 3\n', 'upper/entry.sh=x'],
      ['/entry.sh'],
      'foreign',
    ],
    [
      'ours by name and second line',
      ['lower/b/node-entrypoint.sh=#\n# fleet-role-guards 3\n'],
      ['/b/node-entrypoint.sh'],
      'ours',
    ],
    [
      'with our name alone',
      ['lower/b/node-entrypoint.sh=#\n\n# fleet-role-guards 3\n'],
      ['/b/node-entrypoint.sh'],
      'honours',
    ],
    ['run by a shell', ['lower/e=#\n\n# fleet-role-guards\r\n'], ['/bin/sh', '-eu', '/e', 'server'], 'honours'],
    ['run by an init', ['lower/e=\n\n'], ['/sbin/tini', '--', '/e'], 'foreign'],
    ['in the command itself', [], ['sh', '-c', '# fleet-role-guards 1'], 'foreign'],
    ['not found', [], ['/entry.sh'], 'unknown'],
    ['without a path', ['lower/entry.sh=x'], ['entry.sh'], 'unknown'],
    ['a word that had to be escaped', ['lower/entry.sh=x'], ['/a\nb'], 'unknown'],
  ])('has an entrypoint %s', async (_what, paths, words, expected) => {
    const base = tree('upper', 'lower', ...paths);
    const seen = await see({ layers: [`${base}/upper`, `${base}/lower`], words });
    expect(seen.services).toMatchObject({ value: { k3s: { entrypoint: expected, guardsInside: null } } });
  });

  it.each<[string, string, string, string | null]>([
    ['its own version', 'entry.sh', '# fleet-role-guards 0.9', '0.9'],
    ['that of the role directory, which it honours', 'entry.sh', '# fleet-role-guards', '2'],
    ['none', 'entry.sh', '# nothing', null],
    ['an older one in the image', 'node-entrypoint.sh', '# fleet-role-guards 0.9', '0.9'],
  ])('would meet, the role directory being mounted, %s', async (_what, name, line, expected) => {
    const base = tree('upper', `lower/${name}=#!/bin/sh\n${line}\n`);
    host.write('fleet-role.d/node-entrypoint.sh', '#!/bin/sh\n# fleet-role-guards 2\n');
    host.write('fleet-role.d/fleet-role-is.sh', '#!/bin/sh\n# fleet-role-guards 2\n');
    const mount = { Source: host.path('fleet-role.d'), Destination: '/etc/github-runner', RW: false };
    const sketch = { layers: [`${base}/upper`, `${base}/lower`], words: [`/${name}`], container: { mounts: [mount] } };
    expect((await see(sketch)).services).toMatchObject({ value: { k3s: { guardsInside: expected } } });
  });

  it.each<[string, string[], string[], boolean | 'unknown']>([
    ['its environment', [], ['fleet-role-token'], true],
    ['nothing', [], [], false],
    ['a file', ['upper/run/t=abc'], ['fleet-role-token-file "K3S_TOKEN_FILE=/run/t"'], true],
    ['an empty file', ['upper/run/t= \n'], ['fleet-role-token-file "K3S_TOKEN_FILE=/run/t"'], false],
    ['a file whose path is relative', ['upper/t=x'], ['fleet-role-token-file "K3S_TOKEN_FILE=t"'], 'unknown'],
    ['its configuration', ['lower/etc/rancher/k3s/config.yaml=a: b\ntoken: "x"\n'], [], true],
    ['another key', ['lower/etc/rancher/k3s/config.yaml=agent-token: x\n  token: y\n'], [], false],
    ['a null', ['lower/etc/rancher/k3s/config.yaml=token: null\n'], [], false],
    ['a tilde', ['lower/etc/rancher/k3s/config.yaml=token: ~ # none\n'], [], false],
    [
      'a part',
      ['upper/etc/rancher/k3s/config.yaml.d/x=', "lower/etc/rancher/k3s/config.yaml.d/z.yaml='token': x\n"],
      [],
      true,
    ],
    ['a file that it names', ['lower/etc/rancher/k3s/config.yaml=token-file: /t\n', 'lower/t=x'], [], true],
  ])('has a token by %s', async (_what, paths, more, expected) => {
    const base = tree('upper', 'lower', ...paths);
    const seen = await see({ layers: [`${base}/upper`, `${base}/lower`], lines: more });
    expect(plain(seen.token)).toBe(expected);
  });

  it('has a token by .env, whose text is never told', async () => {
    for (const [text, expected] of [
      ['K3S_TOKEN=s3cret\n', true],
      ['K3S_TOKEN_FILE=/s3cret\n', true],
      ['K3S_TOKEN=" "\n#K3S_TOKEN=s3cret\nK3S_TOKENS=s3cret\n', 'unknown'],
    ] as const) {
      host.write('.env', text);
      const seen = await see({});
      expect([text, plain(seen.token)]).toEqual([text, expected]);
      expect(JSON.stringify(seen)).not.toContain('s3cret');
    }
  });
});

/** Compose files beside what a service without a container could start from: the mounts' names and directories. */
// biome-ignore-start lint/suspicious/noTemplateCurlyInString: Compose's own variables
const FILES: [string, string, object | 'unknown'][] = [
  // For a moment Compose, too, has no container of that name while it creates one again with the old one's volume.
  ['no mount', 'services: {k3s: {image: a}}\n', 'unknown'],
  ['an anonymous volume', 'services:\n  k3s:\n    volumes:\n      - /var/lib/rancher/k3s\n', 'unknown'],
  ['memory', 'services:\n  k3s:\n    tmpfs: [/var/lib/rancher/k3s]\n', 'unknown'],
  ['a named volume that is not there', 'x: [ "k3s:/var/lib/rancher/k3s:rw" ]\n', NOTHING],
  ['an empty directory', '- ./empty:/var/lib/rancher/k3s\n', NOTHING],
  ['a directory that is not there', '- ./none/such:/var/lib/rancher/k3s\n', NOTHING],
  ['etcd', '- ./etcd:/var/lib/rancher/k3s\n', { ...NOTHING, datastore: 'etcd' }],
  ['etcd in quotes', `- "./etcd:/var/lib/rancher/k3s/"\r\n`, { ...NOTHING, datastore: 'etcd' }],
  ['etcd, twice', '- ./etcd:/var/lib/rancher/k3s\n- ./etcd:/var/lib/rancher/k3s\n', { ...NOTHING, datastore: 'etcd' }],
  ['etcd above', '- ./above:/var/lib/rancher\n', { ...NOTHING, datastore: 'etcd' }],
  [
    'etcd below',
    '- ./etcd/server/db:/var/lib/rancher/k3s/server/db\n',
    { ...NOTHING, datastore: 'etcd', setAside: 'unknown' },
  ],
  [
    'the long form',
    '- type: bind\n  target: /var/lib/rancher/k3s\n  source: ./etcd\n',
    { ...NOTHING, datastore: 'etcd' },
  ],
  [
    'the long form in one line',
    '- {type: bind, source: ./etcd, target: /var/lib/rancher/k3s}\n',
    { ...NOTHING, datastore: 'etcd' },
  ],
  [
    'another long one before',
    '- type: volume\n  source: a\n  target: /a\n- type: bind\n  source: ./etcd\n  target: /var/lib/rancher/k3s\n',
    { ...NOTHING, datastore: 'etcd' },
  ],
  ['an anchor', 'x: &m ./etcd:/var/lib/rancher/k3s\ny:\n  - *m\n', { ...NOTHING, datastore: 'etcd' }],
  ['another one only for agents', '- ./etcd:/var/lib/rancher/k3s/agent\n', 'unknown'],
  ['a comment', '- ./empty:/var/lib/rancher/k3s\n# - ./etcd:/var/lib/rancher/k3s\n', NOTHING],
  [
    'a variable elsewhere',
    '- ./empty:/var/lib/rancher/k3s\nimage: ${A:-b}\nenv: {A: "${B}", C: https://${D}:${E}}\nx: ["F=${G}"]\n',
    NOTHING,
  ],
  ['a port by a variable', '- ./empty:/var/lib/rancher/k3s\n- "${PORT}:6443"\n', NOTHING],
  ['two places, both empty', '- ./empty:/var/lib/rancher/k3s\n- ./none:/var/lib/rancher/k3s\n', NOTHING],
  ['two places', '- ./empty:/var/lib/rancher/k3s\n- ./etcd:/var/lib/rancher/k3s\n', 'unknown'],
  ['a comment behind', '- ./empty:/x # ./etcd:/var/lib/rancher/k3s\n', 'unknown'],
  ['a source by a variable', '- ${DATA:-./empty}:/var/lib/rancher/k3s\n', 'unknown'],
  ['a target by a variable', '- ./etcd:${TARGET}\n', 'unknown'],
  ['a target by a variable, read-only', '- ./etcd:${TARGET}:ro\n', 'unknown'],
  ['a mount that is a variable', '- ${MOUNT}\n', 'unknown'],
  ['a long target by a variable', '- type: bind\n  source: ./etcd\n  target: ${TARGET}\n', 'unknown'],
  ['a long source by a variable', '- type: bind\n  source: ${A}\n  target: /var/lib/rancher/k3s\n', 'unknown'],
  ['no source', '- type: bind\n  target: /var/lib/rancher/k3s\n', 'unknown'],
  ['no type', '- source: ./etcd\n  target: /var/lib/rancher/k3s\n', 'unknown'],
  ['a space', '- "./my etcd:/var/lib/rancher/k3s"\n', 'unknown'],
  ['a space in the long form', '- type: bind\n  source: "./my etcd"\n  target: /var/lib/rancher/k3s\n', 'unknown'],
  ['keys without a space', '[{"type":"bind","source":"./etcd","target":"/var/lib/rancher/k3s"}]\n', 'unknown'],
  [
    'a part of a volume',
    '- {type: volume, source: a, target: /var/lib/rancher/k3s, volume: {subpath: b}}\n',
    'unknown',
  ],
  ['extends', 'services: {k3s: {extends: {file: a.yml, service: k3s}}}\n', 'unknown'],
  ['include', 'include:\n  - other.yml\n', 'unknown'],
  ['volumes_from', 'services:\n  k3s:\n    volumes_from: [a]\n', 'unknown'],
  [
    'a volume with options',
    'x: [k3s:/var/lib/rancher/k3s]\nvolumes:\n  k3s:\n    driver_opts: {device: ./etcd}\n',
    'unknown',
  ],
  ['a volume whose name is a variable', 'x: [k3s:/var/lib/rancher/k3s]\nvolumes:\n  k3s:\n    name: ${A}\n', 'unknown'],
];
// biome-ignore-end lint/suspicious/noTemplateCurlyInString: Compose's own variables

describe.each(SHELLS.filter(hasShell))('what k3s would start from without a container, where sh is %s', (shell) => {
  beforeEach(() => {
    start(shell)();
    tree('home/.github-runner/empty', `home/.github-runner/etcd/${WAL}`, `home/.github-runner/above/k3s/${WAL}`);
    host.docker({ script: volumes({}) });
  });
  afterEach(() => host.close());

  /** A docker that knows these volumes by name, and no container. */
  function volumes(known: Readonly<Record<string, string>>, container = ''): string {
    writeFileSync(join(host.base, 'described'), container);
    const cases = Object.entries(known).map(
      ([name, path]) => `${name}) printf 'fleet-role-volume ${name} local "%s"\\n' '${path}' ;;`,
    );
    return `case "$*" in
  *"--type volume"*) shift 5; for name; do case $name in ${cases.join(' ')} *) echo "Error: No such volume: $name" >&2 ;; esac; done; exit 1 ;;
  *"--type container"*) cat ${host.base}/described; grep -q '/${AGENT}"' ${host.base}/described || echo "Error: No such container: ${AGENT}" >&2; echo "Error: No such container: github-runner-k3s" >&2; exit 1 ;;
esac`;
  }

  it.each(FILES)('by its Compose file: %s', async (_what, text, expected) => {
    host.write('docker-compose.yml', text);
    expect(facts(await host.reached())).toEqual(expected === 'unknown' ? UNKNOWN : expected);
    expect(host.dockerCalls().flatMap(outsideTheList)).toEqual([]);
    expect(host.dockerCalls().length).toBeLessThanOrEqual(2);
  });

  it('by the project that fleet-role shows', async () => {
    host.write('docker-compose.yml', readFileSync(new URL('../../examples/node/docker-compose.yml', import.meta.url)));
    expect(facts(await host.reached())).toEqual(NOTHING);
    expect(host.dockerCalls()).toHaveLength(2);
  });

  it('asks docker once more only for volumes with a name', async () => {
    host.write('docker-compose.yml', '- ./empty:/var/lib/rancher/k3s\n');
    await host.reached();
    expect(host.dockerCalls()).toHaveLength(1);
    host.write(
      'docker-compose.yml',
      '- k3s:/var/lib/rancher/k3s\nvolumes:\n  k3s:\n    name: mine\n    external: true\n',
    );
    await host.reached();
    expect(host.dockerCalls().at(-1)?.slice(-3)).toEqual(['github-runner_k3s', 'k3s', 'mine']);
    expect(host.dockerCalls()).toHaveLength(3);
  });

  it('is that of a volume that is there', async () => {
    const base = tree(`volume/_data/${WAL}`);
    host.write('docker-compose.yml', '- k3s:/var/lib/rancher/k3s\n');
    host.docker({ script: volumes({ 'github-runner_k3s': `${base}/volume/_data` }) });
    expect(facts(await host.reached()).datastore).toBe('etcd');
    tree('volume/opts.json={}');
    host.docker({ script: volumes({ 'github-runner_k3s': `${base}/volume/_data` }) });
    expect(facts(await host.reached())).toEqual(UNKNOWN);
  });

  // Busybox's shell runs its own awk, whatever is on PATH.
  it.skipIf(shell === 'busybox')('is unknown where the awk of the host reads the files in another way', async () => {
    host.write('docker-compose.yml', '- ./etcd:/var/lib/rancher/k3s\n');
    host.program('awk', `case "$1" in *is_data*) exit 0 ;; esac; exec /usr/bin/awk "$@"`);
    const seen = await host.reached();
    expect(seen.datastore).toMatchObject({ kind: 'unknown', why: expect.stringContaining('the awk of this host') });
  });

  it('is unknown where docker does not say that the volume is missing', async () => {
    host.write('docker-compose.yml', '- k3s:/var/lib/rancher/k3s\n');
    host.docker({ script: `case "$*" in *"--type volume"*) echo "Cannot connect" >&2; exit 1 ;; esac` });
    const seen = await host.reached();
    expect(seen.datastore).toEqual({ kind: 'unknown', why: 'docker: Cannot connect' });
  });

  it('is unknown where docker did not say that the container is missing', async () => {
    host.docker({ err: 'Cannot connect to the Docker daemon\n' });
    expect(facts(await host.reached())).toEqual(UNKNOWN);
    for (const name of ['github-runner-k3s', AGENT]) {
      host.docker({ err: missing(name) });
      expect(facts(await host.reached())).toEqual(UNKNOWN);
    }
  });

  it("is unknown where directories may be another machine's", async () => {
    host.write('docker-compose.yml', '- ./none:/var/lib/rancher/k3s\n');
    expect(facts(await host.reached({ dockerContext: 'colima' }))).toEqual(UNKNOWN);
    mkdirSync(join(host.home, '.docker'));
    writeFileSync(join(host.home, '.docker/config.json'), '{"currentContext": "remote"}');
    expect(facts(await host.reached())).toEqual(UNKNOWN);
    process.env.DOCKER_HOST = 'ssh://elsewhere';
    try {
      rmSync(join(host.home, '.docker'), { recursive: true });
      expect(facts(await host.reached())).toEqual(UNKNOWN);
      // Docker itself says that nothing is there; no directory is believed.
      host.write('docker-compose.yml', '- k3s:/var/lib/rancher/k3s\n');
      expect(facts(await host.reached())).toEqual(NOTHING);
    } finally {
      delete process.env.DOCKER_HOST;
    }
  });

  it("is what the agent's container shows, where both mount the same", async () => {
    const base = tree(`docker/volumes/github-runner_k3s/_data/${WAL}`, 'docker/volumes/other_k3s/_data');
    const agent = (name: string, lines_: string[] = []) =>
      lines({ name: AGENT, mounts: [['volume local', DATA, `${base}/docker/volumes/${name}/_data`]], lines: lines_ });
    host.write(
      'docker-compose.yml',
      'x-node: &n\n  - type: volume\n    source: k3s\n    target: /var/lib/rancher/k3s\n',
    );
    host.docker({ script: volumes({}, agent('github-runner_k3s', ['fleet-role-token'])) });
    const seen = await host.reached();
    expect(facts(seen).datastore).toBe('etcd');
    expect(plain(seen.token)).toBe(true);
    expect(host.dockerCalls()).toHaveLength(1);
    // Another project's volume is not the same one.
    host.docker({ script: volumes({}, agent('other_k3s')) });
    expect(facts(await host.reached())).toEqual(NOTHING);
    expect(host.dockerCalls()).toHaveLength(3);
  });

  it('is unknown where a Compose file is gone', async () => {
    host.write('.env', 'COMPOSE_FILE=gone.yml\n');
    const seen = await host.reached();
    expect(seen.datastore).toMatchObject({ kind: 'unknown', why: expect.stringContaining('gone.yml is not in') });
  });
});

describe.each(SHELLS.filter(hasShell))('the closed list, where sh is %s', (shell) => {
  beforeEach(start(shell));
  afterEach(() => host.close());

  it('holds for a look and for every step', async () => {
    // What a host has and nobody may call.
    for (const name of ['systemctl', 'k3s', 'kubectl', 'docker-compose', 'podman', 'curl', 'wget']) {
      host.program(name, `echo "${name} $*" >>${host.base}/others`);
    }
    const base = tree(`data/${WAL}`);
    host.docker({
      out: lines({ here: false, mounts: [['bind -', DATA, `${base}/data`]], words: ['/e'] }) + lines({ name: AGENT }),
    });
    await host.reached();
    for (const action of ACTIONS) {
      const values: Readonly<Record<string, string>> = {
        'write-environment': 'COMPOSE_FILE',
        'clear-role-files': 'role join-url',
        'set-restart-policy': 'no',
        'set-datastore-aside': 'db',
      };
      await host.do([step(action, values[action] ?? '1', 'k3s')]);
    }
    const calls = host.dockerCalls();
    expect(calls.flatMap(outsideTheList)).toEqual([]);
    for (const word of ['inspect', 'run', 'compose']) expect(calls.some((call) => call[0] === word)).toBe(true);
    expect(() => readFileSync(join(host.base, 'others'))).toThrow();
  });

  it.each([
    ['compose', 'run', 'k3s', 'sh'],
    ['exec', 'github-runner-k3s', 'sh'],
    ['exec', 'github-runner-k3s', 'kubectl', 'delete', 'node', 'a'],
    ['run', '--volumes-from', 'a', 'image', 'sh'],
    ['inspect', '--type', 'image', '--format', 'x', 'a'],
    ['rm', '-f', 'a'],
    ['rm', '-f', '-v', 'fleet-role-look-a'],
    ['rm', '-f', 'github-runner-k3s'],
    ['pull', 'a'],
  ])('does not hold for docker %s %s', (...call) => {
    expect(outsideTheList(call)).toHaveLength(1);
  });
});
