import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { carryOut } from '../../src/hosts/hands.js';
import { known, type ReachedHost, unknown } from '../../src/plan/observation.js';
import { composeHost, containerLine, hasShell, LocalHost, SHELLS, step } from './helpers.js';
import { outsideTheList } from './recorder.js';

// What a step believes: not what docker says of its own work, but what docker says of the container afterwards.

const K3S = 'github-runner-k3s';
const OVERRIDE = 'docker-compose.fleet-role.yml';

let host: LocalHost;

interface State {
  readonly id?: string;
  readonly status?: string;
  readonly policy?: string;
  readonly mount?: boolean;
  readonly data?: string;
}

/** What docker prints for k3s in this state; the agent has no container. */
function described(state: State): string {
  const { id = 'c0ffee', status = 'exited', policy = 'unless-stopped:0', mount = false, data = '/srv/data' } = state;
  return [
    containerLine({ id, status, name: `/${K3S}` }).trimEnd(),
    'fleet-role-image sha256:0123',
    `fleet-role-policy ${policy}`,
    `fleet-role-mount bind - "/var/lib/rancher/k3s" "${data}"`,
    ...(mount ? [`fleet-role-mount bind - "/etc/github-runner" "${host.path('fleet-role.d')}"`] : []),
    'fleet-role-token',
    '',
  ].join('\n');
}

/** A docker that describes k3s by `before`, and by `after` once something was done by `act`. */
function docker(before: State | null, after: State = before ?? {}, act = 'exit 0'): void {
  writeFileSync(join(host.base, 'before'), before === null ? '' : described(before));
  writeFileSync(join(host.base, 'after'), described(after));
  host.docker({
    script: `case $1 in
inspect)
  state=before
  [ ! -e ${host.base}/acted ] || state=after
  cat ${host.base}/$state
  [ -s ${host.base}/$state ] || echo 'Error: No such container: ${K3S}' >&2
  echo 'Error: No such container: ${K3S}-agent' >&2
  exit 1 ;;
*) : >${host.base}/acted; ${act} ;;
esac`,
  });
}

const changes = () => host.dockerCalls().filter(([word]) => word !== 'inspect');

describe.each(SHELLS.filter(hasShell))('a step on a service, where sh is %s', (shell) => {
  beforeEach(() => {
    host = new LocalHost(shell);
    host.write('docker-compose.yml', '');
    host.write('fleet-role.d/role', 'agent\n');
    host.write(OVERRIDE, '');
  });
  afterEach(() => {
    expect(host.dockerCalls().flatMap(outsideTheList)).toEqual([]);
    return host.close();
  });

  const policy = (value: string) => step('set-restart-policy', value, 'k3s');
  const recreate = step('recreate-service', null, 'k3s');
  const start = step('start-service', null, 'k3s');
  const CONFLICT = 'echo "The container name /a_b is already in use by container c" >&2; exit 1';

  it.each<[string, ReturnType<typeof step>, State | null, State, string, string]>([
    ['sets no policy', policy('no'), {}, {}, 'exit 0', `The restart policy of ${K3S} is still unless-stopped.`],
    ['refuses a policy', policy('no'), {}, {}, 'echo no >&2; exit 1', 'Docker update: no.'],
    ['creates nothing', recreate, {}, {}, 'exit 0', `Docker compose did not create ${K3S} again.`],
    ['creates it without the mount', recreate, {}, { id: 'new' }, 'exit 0', `does not mount`],
    [
      'starts it, too',
      recreate,
      {},
      { id: 'new', status: 'running', mount: true },
      'exit 0',
      'was started, and was not to be.',
    ],
    [
      'puts the data elsewhere',
      recreate,
      {},
      { id: 'new', status: 'created', mount: true, data: '/srv/other' },
      'exit 0',
      'has its data in another place (bind /srv/other, before: bind /srv/data)',
    ],
    ['does not start it', start, {}, { status: 'exited' }, 'exit 0', 'was started and is exited (exit status 0)'],
    ['does not show its processes', start, { status: 'running' }, {}, 'exit 0', 'cannot be seen whether k3s runs'],
    ['has paused it', start, { status: 'paused' }, {}, 'exit 0', 'is paused: see what somebody does with it'],
    ['meets a conflict again', recreate, {}, {}, CONFLICT, 'is already in use by container c'],
    ['has it still running', step('set-datastore-aside', 'db'), { status: 'restarting' }, {}, '', 'is restarting, and'],
  ])('fails where docker %s', async (_what, one, before, after, act, words) => {
    docker(before, after, act);
    const { failed, done } = await host.do([one]);
    expect(done).toEqual([]);
    expect(failed?.message).toContain(words);
  });

  it('is done without a change where all is so already', async () => {
    docker({ policy: 'no:0', status: 'created', mount: true });
    const steps = [policy('no'), recreate, step('stop-service', null, 'k3s')];
    expect((await host.do(steps)).failed).toBeNull();
    expect(changes()).toEqual([]);
    expect(host.files()).not.toContain('fleet-role.d/restart-policy');
  });

  it('is tried once more after a conflict of names, and only then', async () => {
    docker(
      {},
      { id: 'new', status: 'created', mount: true },
      `[ -e ${host.base}/twice ] || { : >${host.base}/twice; ${CONFLICT}; }; exit 0`,
    );
    expect((await host.do([recreate])).failed).toBeNull();
    const words = ['up', '-d', '--no-deps', '--no-start', '--force-recreate', 'k3s'];
    const files = ['-f', host.path('docker-compose.yml'), '-f', host.path(OVERRIDE)];
    expect(changes().map((call) => call.slice(5))).toEqual([
      [...files, ...words],
      [...files, ...words],
    ]);
  });

  it.each<[string, State | null, string[]]>([
    ['without its dependencies', {}, ['up', '-d', '--no-deps', 'k3s']],
    ['and makes it anew where it has no container', null, ['up', '-d', '--no-deps', '--force-recreate', 'k3s']],
  ])('starts a service %s', async (_what, before, words) => {
    docker(before, { status: 'running' });
    expect((await host.do([start])).failed).toBeNull();
    expect(changes().map((call) => call.slice(9))).toEqual([words]);
  });

  const seen = (overrides: Partial<ReachedHost>, id: string | null = 'c0ffee') => {
    const service = (containerId: string | null) => ({ containerId });
    return {
      ...{ role: { kind: 'text', text: 'agent' }, joinUrl: { kind: 'absent' }, cluster: { kind: 'absent' } },
      ...{ keptPolicy: { kind: 'absent' }, services: known({ k3s: service(id), 'k3s-agent': service(null) }) },
      ...overrides,
    } as ReachedHost;
  };
  const under = (what: ReachedHost) =>
    carryOut(host.connection, composeHost(), [step('write-role', 'server')], {
      seconds: 60,
      lockSeconds: 1,
      seen: what,
    });

  it.each<[string, () => ReachedHost, RegExp | null]>([
    ['all as it was', () => seen({}), null],
    ['another role', () => seen({ role: { kind: 'text', text: 'server' } }), /fleet-role\.d\/role has changed/],
    ['no role then', () => seen({ role: { kind: 'absent' } }), /role has changed/],
    ['a join URL that is gone', () => seen({ joinUrl: { kind: 'text', text: '' } }), /join-url has changed/],
    ['another container', () => seen({}, 'beef'), /github-runner-k3s has changed/],
    ['the beginning of its id', () => seen({}, 'c0ff'), /github-runner-k3s has changed/],
    ['no container then', () => seen({}, null), /github-runner-k3s has changed/],
    ['services that could not be seen', () => seen({ services: unknown('x') }), null],
    ['a text that is no plain one', () => seen({ role: { kind: 'text', text: 'é\u00a0' } }), null],
  ])('is done only where nothing changed meanwhile: %s', async (_what, what, words) => {
    writeFileSync(join(host.base, 'ids'), `fleet-role /${K3S} c0ffee\n`);
    docker({});
    // The comparison has a format of its own.
    const missing = `echo 'Error: No such container: ${K3S}-agent' >&2; exit 1`;
    host.docker({
      script: `case "$*" in *'{{.Name}} {{.Id}}'*) cat ${host.base}/ids; ${missing} ;; esac\ncat ${host.base}/before; ${missing}`,
    });
    const { failed } = await under(what());
    if (words === null) expect(failed).toBeNull();
    else expect(failed?.message).toMatch(words);
    expect(host.read('fleet-role.d/role')).toBe(words === null ? 'server\n' : 'agent\n');
  });
});
