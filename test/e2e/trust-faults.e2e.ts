import { chmod, mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { command, until } from '../helpers/command.js';
import { pushEvent } from '../helpers/events.js';
import type { Fault } from '../helpers/kubectl.js';
import { Scene } from '../helpers/scene.js';
import { temporaryFolder } from '../helpers/temporary.js';
import { containerIds, refusalsOf, told, voters, wordsOf } from '../helpers/trust-fleet.js';

// Hosts and APIs that are not as they should be, each for a reason of its own, and programs that fail in the middle.

const names = ['node1', 'node2', 'node3', 'node4', 'node5', 'node6'];
const agents = Object.fromEntries(names.slice(1).map((name) => [name, { node_role: 'agent' }]));
const off = { hosts: agents };
const on = { cluster: { controller: true }, hosts: agents };
const NOBODY = '65534';

let scene: Scene;
/** Programs of a host that come before those of the machine. */
let programs: string;

beforeAll(async () => {
  programs = await temporaryFolder('programs');
  await chmod(programs, 0o755);
  scene = await Scene.create(6, {
    host: (index) => ({
      running: index === 0 ? 'k3s' : index === 3 ? null : 'k3s-agent',
      environment: { K3S_CLUSTER_INIT: 'true' },
    }),
  });
  const node4 = scene.fleet.host('node4');
  await node4.write('gone.yml', 'services: {k3s-agent: {labels: {more: "1"}}}\n');
  await node4.compose('-f', 'docker-compose.yml', '-f', 'gone.yml', 'up', '-d', 'k3s-agent');
  await until('node4 runs', async () => (await node4.inspect('k3s-agent'))?.running === true);
}, 120_000);
afterAll(async () => {
  await scene?.close();
  if (programs !== undefined) await rm(programs, { recursive: true, force: true });
});
beforeEach(async () => {
  await scene.reset();
  await voters(scene, ['node1']);
  await rm(join(scene.fleet.host('node4').dir, 'gone.yml'), { force: true });
});

/** What the login shell of single hosts does first. */
function entering(cases: Readonly<Record<string, string>>): Promise<void> {
  const lines = Object.entries(cases).map(([name, script]) => `${scene.fleet.address(name)}) ${script} ;;`);
  return scene.fleet.user.enter(
    `fleet_address=\${SSH_CONNECTION#* * }\ncase \${fleet_address%% *} in\n${lines.join('\n')}\nesac\n`,
  );
}

async function program(name: string, text: string): Promise<void> {
  await writeFile(join(programs, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
}

const roles = (of = names) => Promise.all(of.map((name) => scene.roleFile(name, 'role')));

describe('hosts that are odd', () => {
  afterEach(() => scene.fleet.user.enter(''));

  it('get a worded refusal each, where they cannot be served, and the others go on', async () => {
    await program('date', `[ "$*" != +%s ] || { echo $(($(/bin/date +%s) + 86400)); exit; }\nexec /bin/date "$@"`);
    // Its files are its own; docker would be there by sudo.
    await command('chown', ['-R', `${NOBODY}:${NOBODY}`, scene.fleet.host('node2').dir]);
    await entering({
      node2: `exec setpriv --reuid ${NOBODY} --regid ${NOBODY} --clear-groups /bin/sh "$@"`,
      node3: `printf 'Welcome, $(id) "you"\\nfleet-role begin\\n'`,
      node5: `PATH=${programs}:$PATH`,
    });
    const ids = await containerIds(scene);
    const before = await scene.commit(off);
    const after = await scene.commit(on);
    const run = await scene.run(pushEvent({ before, after }));
    expect([run.exitCode, run.outputs.result, run.outputs.changed], told(run)).toEqual([1, 'refused', 'true']);
    expect(refusalsOf(run)).toEqual(['adoption node2']);
    expect(wordsOf(run)).toMatch(/It is not known which role node2 has \(.*docker: .*permission denied/i);
    expect(await roles()).toEqual(['server', null, 'agent', 'agent', 'agent', 'agent']);
    expect(await containerIds(scene)).toEqual(ids);
    expect(await scene.cluster.object('configmap')).toMatchObject({ data: { started: after } });
    expect((await scene.cluster.object('configmap')).data.commit).toBeUndefined();

    // Mended by whoever may: the same commit is whole.
    await scene.fleet.user.enter('');
    const mended = await scene.run(pushEvent({ before, after }));
    expect([mended.exitCode, mended.outputs.result], told(mended)).toEqual([0, 'applied']);
    expect(await roles()).toEqual(['server', 'agent', 'agent', 'agent', 'agent', 'agent']);

    // The files that node4 was started from are gone: nobody knows what it would be made anew from.
    const rollout = await scene.run(pushEvent({ before, after }), { inputs: { rollout: 'all' }, timeout: 400_000 });
    expect([rollout.exitCode, rollout.outputs.result], told(rollout)).toEqual([1, 'failed']);
    expect(wordsOf(rollout)).toMatch(/node4.*gone\.yml/);
    const now = await containerIds(scene);
    expect(now.node4).toBe(ids.node4);
  }, 420_000);
});

describe('an API that', () => {
  it.each<[string, Fault, RegExp]>([
    ['answers 5xx', 'error', /an error on the server/],
    ['answers what is no answer', 'nonsense', /./],
    ['never answers', 'hang', /no answer within/],
  ])(
    '%s stops everything before the first write, in its own words, and the next run goes on',
    async (_, fault, words) => {
      const before = await scene.commit(off);
      const after = await scene.commit(on);
      await scene.cluster.fault('all', fault);
      const snapshot = await scene.fleet.hosts.snapshot();
      const run = await scene.run(pushEvent({ before, after }), { inputs: { 'lock-timeout': '2s' } });
      expect([run.exitCode, run.outputs.result, run.outputs.changed], told(run)).toEqual([1, 'refused', 'false']);
      expect(refusalsOf(run)).toContain(`no-lock ${names.join(' ')}`);
      expect(wordsOf(run)).toMatch(words);
      expect(await scene.fleet.hosts.snapshot()).toEqual(snapshot);
      await scene.cluster.fault('all', null);
      const again = await scene.run(pushEvent({ before, after }));
      expect([again.exitCode, again.outputs.result], told(again)).toEqual([0, 'applied']);
    },
  );
});

describe('a docker that fails now and then, kubectl behind it too', () => {
  const KINDS = ['fail', 'nonsense', 'late', 'applied'] as const;
  const RUNS = 4;
  // Few hosts, so that the faults meet every part of a run.
  const few = names.slice(0, 3);

  afterEach(() => scene.fleet.user.enter(''));

  it('never leads to a wrong role, and one apply without it reaches the declared fleet', async () => {
    await rm(join(programs, 'date'), { force: true });
    await injector();
    await entering(Object.fromEntries(few.map((name) => [name, `PATH=${programs}:$PATH`])));
    const before = await scene.commit({ ...off, order: few });
    const after = await scene.commit({ ...on, order: few });
    const ids = await containerIds(scene);
    const random = numbers(4);
    const wanted = few.map((name) => (name === 'node1' ? 'server' : 'agent'));
    let met = 0;
    for (let round = 0; round < RUNS; round++) {
      const faults = new Map<number, string>();
      while (faults.size < 4) faults.set(1 + random(24), KINDS[random(KINDS.length)] as string);
      if (round === 2) faults.set(2, 'hang');
      await plan(faults);
      const run = await scene.run(pushEvent({ before, after }));
      const seen = `round ${round}: ${JSON.stringify([...faults])}\n${told(run)}`;
      expect(['applied', 'unchanged', 'failed', 'refused'], seen).toContain(run.outputs.result);
      expect(run.exitCode === 0, seen).toBe(['applied', 'unchanged'].includes(run.outputs.result ?? ''));
      if (run.exitCode !== 0) {
        met++;
        expect(run.outputs['failure-reason'], seen).not.toBe('');
      }
      for (const [index, role] of (await roles(few)).entries()) expect([null, wanted[index]], seen).toContain(role);
      expect(await containerIds(scene), seen).toEqual(ids);
      expect(await run.leftovers()).toEqual([]);
      // What a release that failed has left would end by itself within a minute.
      await scene.cluster.putObject('lease', null);
      // The next round starts from nothing again, but for every other one.
      if (round % 2 === 1) {
        await scene.reset();
        await voters(scene, ['node1']);
      }
    }
    expect(met).toBeGreaterThan(0);

    await plan(new Map());
    const last = await scene.run(pushEvent({ before, after }));
    expect([last.exitCode, ['applied', 'unchanged'].includes(last.outputs.result ?? '')], told(last)).toEqual([
      0,
      true,
    ]);
    expect(await roles(few)).toEqual(wanted);
    expect((await scene.cluster.object('configmap')).data).toMatchObject({ commit: after, started: after });
    expect((await scene.run(pushEvent({ before, after }))).outputs.result).toBe('unchanged');
  }, 400_000);

  /** A `docker` that counts its calls and does to some of them what `plan` says. */
  async function injector(): Promise<void> {
    const real = (await command('sh', ['-c', 'command -v docker'])).trim();
    await program(
      'docker',
      `number=1
while ! mkdir "${programs}/calls/$number" 2>/dev/null; do number=$((number + 1)); done
fault=
[ ! -f "${programs}/plan/$number" ] || read -r fault <"${programs}/plan/$number"
case $fault in
  fail) echo 'Error response from daemon: injected' >&2; exit 1 ;;
  nonsense) echo '<html>nonsense</html>'; exit 0 ;;
  hang) exec sleep 90 ;;
  late) sleep 2 ;;
  applied) ${real} "$@" >/dev/null 2>&1; echo 'Error response from daemon: injected' >&2; exit 1 ;;
esac
exec ${real} "$@"`,
    );
  }

  async function plan(faults: ReadonlyMap<number, string>): Promise<void> {
    for (const folder of ['calls', 'plan']) {
      await rm(join(programs, folder), { recursive: true, force: true });
      await mkdir(join(programs, folder));
    }
    for (const [number, fault] of faults) await writeFile(join(programs, 'plan', String(number)), `${fault}\n`);
  }
});

/** Whole numbers below a limit, the same ones for the same seed (a linear congruential generator). */
function numbers(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}
