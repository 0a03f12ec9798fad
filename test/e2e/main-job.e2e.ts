import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { pullRequestEvent, pushEvent } from '../helpers/events.js';
import type { StandInCluster } from '../helpers/kubectl.js';
import { type Run, Scene } from '../helpers/scene.js';
import { voters } from '../helpers/trust-fleet.js';

let scene: Scene;
const names = ['node1', 'node2', 'node3', 'node4'];
const agents = { node4: { node_role: 'agent' } };
const off = { hosts: agents };
const on = { cluster: { controller: true }, hosts: agents };

beforeAll(async () => {
  scene = await Scene.create(4);
});
afterAll(() => scene.close());
beforeEach(() => scene.reset());

const stepsOf = (run: Run, host?: string) =>
  run.json?.clusters.flatMap((cluster) =>
    cluster.steps
      .filter((step) => host === undefined || step.host === host)
      .map((step) => `${step.action} ${step.host}`),
  );

/** A fleet that a complete apply of `on` has left: the commit that did it. */
async function adopted(): Promise<string> {
  const before = await scene.commit(off);
  const after = await scene.commit(on);
  const run = await scene.run(pushEvent({ before, after }));
  expect([run.exitCode, run.outputs.result], run.log).toEqual([0, 'applied']);
  scene.github.reset();
  await scene.fleet.sshd.forget();
  return after;
}

/** Connections to every host, each with how many commands it carried. */
async function commandsByHost(): Promise<Record<string, number[]>> {
  const pairs = names.map(async (name) => {
    const connections = await scene.fleet.connections(name);
    return [name, connections.map((connection) => connection.commands.length)] as const;
  });
  return Object.fromEntries(await Promise.all(pairs));
}

async function containerIds(): Promise<Record<string, string | null | undefined>> {
  const snapshot = await scene.fleet.hosts.snapshot();
  return Object.fromEntries(
    Object.entries(snapshot).map(([name, host]) => [name, host.containers.k3s?.id ?? host.containers['k3s-agent']?.id]),
  );
}

describe('a push to the fleet branch', () => {
  it('writes the roles of a controller that was turned on, and closes its check run on the pushed commit', async () => {
    const before = await scene.commit(off);
    const after = await scene.commit(on);
    const ids = await containerIds();
    const run = await scene.run(pushEvent({ before, after }));
    expect([run.exitCode, run.post?.exitCode], run.log).toEqual([0, 0]);
    expect(run.outputs).toMatchObject({ result: 'applied', changed: 'true', 'failed-step': '', 'failure-reason': '' });
    for (const name of names) {
      expect(await scene.roleFile(name, 'role')).toBe(name === 'node4' ? 'agent' : 'server');
      expect(await scene.roleFile(name, 'join-url')).toBe(scene.url(name === 'node1' ? 'node2' : 'node1'));
      expect(await scene.fleet.host(name).read('docker-compose.fleet-role.yml')).toContain('/etc/github-runner');
      expect(await scene.roleFile(name, 'node-entrypoint.sh')).toContain('# fleet-role-guards ');
      // Listed but not mounted would make the next `docker compose up -d` recreate the node.
      expect(await scene.fleet.host(name).read('.env')).toBeNull();
    }
    expect(await containerIds()).toEqual(ids);
    expect(run.json?.clusters[0]).toMatchObject({ base: before, controller: true, refusals: [] });
    expect(run.json?.clusters[0]?.notes).toMatchObject([{ code: 'guards-not-in-force', hosts: names }]);

    const [check, ...others] = scene.github.checkRuns;
    expect(others).toEqual([]);
    expect(check).toMatchObject({
      headSha: after,
      name: 'fleet-role apply',
      status: 'completed',
      conclusion: 'success',
    });
    const created = scene.github.requestsOf('POST', /check-runs$/)[0]?.body as Record<string, unknown>;
    expect(created).toMatchObject({ status: 'in_progress', external_id: expect.stringMatching(/^apply:\d+:1:/) });
    expect(run.outputs['check-run-url']).toContain(String(check?.id));
    expect(run.summary).toContain('node4');
    expect(await run.leftInTemp()).toEqual([]);
    expect(await run.leftovers()).toEqual([]);
  });

  it('changes the join URLs that the inventory changes, with one connection a host', async () => {
    const before = await adopted();
    const elsewhere = 'https://vip.example.net:6443';
    const after = await scene.commit({
      ...on,
      hosts: { node3: { server_url: elsewhere }, node4: { node_role: 'agent', server_url: elsewhere } },
    });
    const snapshot = await scene.fleet.hosts.snapshot();
    const run = await scene.run(pushEvent({ before, after }));
    expect([run.exitCode, run.outputs.result], run.log).toEqual([0, 'applied']);
    expect(stepsOf(run)).toEqual(['write-join-url node3', 'write-join-url node4', 'write-record node1']);
    expect(run.json?.clusters[0]?.changes).toMatchObject([
      { host: 'node3', kind: 'join-url', joinUrl: { from: scene.url('node1'), to: elsewhere } },
      { host: 'node4', kind: 'join-url' },
    ]);
    expect(await scene.roleFile('node3', 'join-url')).toBe(elsewhere);
    expect(await scene.roleFile('node4', 'join-url')).toBe(elsewhere);
    const now = await scene.fleet.hosts.snapshot();
    for (const name of ['node1', 'node2']) expect(now[name]).toEqual(snapshot[name]);
    for (const name of names) expect(now[name]?.containers).toEqual(snapshot[name]?.containers);
    const { node4, ...servers } = await commandsByHost();
    expect(node4).toEqual([3]);
    expect(Object.values(servers).every((connections) => connections.length === 1)).toBe(true);
  });

  it('needs nothing for the same commit again: no write, no container touched, one connection a host', async () => {
    const head = await adopted();
    const snapshot = await scene.fleet.hosts.snapshot();
    const run = await scene.run(pushEvent({ before: head, after: head }));
    expect(run.exitCode, run.log).toBe(0);
    expect(run.outputs).toMatchObject({ result: 'unchanged', changed: 'false' });
    expect(await scene.fleet.hosts.snapshot()).toEqual(snapshot);
    // A server is asked what the cluster says; the one that answers, where its own runner sits.
    expect(await commandsByHost()).toEqual({ node1: [3], node2: [2], node3: [2], node4: [1] });
    expect(scene.github.checkRuns).toMatchObject([{ conclusion: 'success' }]);
  });

  it('gives back what it took when the controller is turned off, and recreates no container', async () => {
    const before = await adopted();
    const after = await scene.commit(off);
    const snapshot = await scene.fleet.hosts.snapshot();
    const run = await scene.run(pushEvent({ before, after }));
    expect([run.exitCode, run.outputs.result], run.log).toEqual([0, 'applied']);
    const now = await scene.fleet.hosts.snapshot();
    for (const name of names) {
      const host = scene.fleet.host(name);
      expect(await scene.roleFile(name, 'role')).toBeNull();
      expect(await scene.roleFile(name, 'join-url')).toBeNull();
      expect(await host.read('docker-compose.fleet-role.yml')).toBeNull();
      const variable = name === 'node4' ? 'K3S_URL' : 'K3S_JOIN_SERVER_URL';
      expect(await host.read('.env')).toContain(`${variable}=${scene.url(name === 'node1' ? 'node2' : 'node1')}`);
      expect(now[name]?.containers).toEqual(snapshot[name]?.containers);
      expect(await scene.roleFile(name, 'node-entrypoint.sh')).toContain('# fleet-role-guards ');
    }
    expect(run.json?.clusters[0]?.changes.map((change) => change.kind)).toEqual(names.map(() => 'controller-off'));
  });

  it('refuses a promotion as long as there is no record, and says what to declare', async () => {
    const before = await scene.commit(off);
    const after = await scene.commit({
      cluster: { controller: true },
      hosts: { node3: { node_role: 'agent' }, node4: { node_role: 'server' } },
    });
    const ids = await containerIds();
    const run = await scene.run(pushEvent({ before, after }));
    expect(run.exitCode).toBe(1);
    expect(run.outputs).toMatchObject({ result: 'refused', changed: 'true' });
    expect(run.json?.clusters[0]?.refusals).toMatchObject([
      { code: 'adoption', hosts: ['node3'] },
      { code: 'adoption', hosts: ['node4'] },
    ]);
    // The others get their files; these two keep what they run.
    expect(await Promise.all(names.map((name) => scene.roleFile(name, 'role')))).toEqual([
      'server',
      'server',
      null,
      null,
    ]);
    expect(await containerIds()).toEqual(ids);
    expect(scene.github.checkRuns).toMatchObject([{ conclusion: 'failure' }]);
  });

  it('never applies an invalid cluster, and puts the problem on its line', async () => {
    const before = await adopted();
    const after = await scene.commit({ ...on, hosts: { node3: { node_role: 'boss' }, node4: { node_role: 'agent' } } });
    const run = await scene.run(pushEvent({ before, after }));
    expect([run.exitCode, run.outputs.result]).toEqual([1, 'refused']);
    expect(run.json?.clusters[0]).toMatchObject({
      valid: false,
      changes: [],
      steps: [],
      problems: expect.arrayContaining([expect.objectContaining({ code: 'unknown-role' })]),
    });
    const annotations = scene.github.checkRuns[0]?.annotations ?? [];
    expect(annotations).toContainEqual(
      expect.objectContaining({
        path: 'inventory.yml',
        annotation_level: 'failure',
        message: expect.stringContaining('boss'),
      }),
    );
    expect(await scene.fleet.connections()).toEqual([]);
  });
});

describe('hosts that are not as they should be', () => {
  it('leaves an unreachable host and goes on with the others', async () => {
    const before = await scene.commit(off);
    const after = await scene.commit({ ...on, hosts: { node3: { ansible_port: 1 }, node4: { node_role: 'agent' } } });
    const run = await scene.run(pushEvent({ before, after }));
    expect([run.exitCode, run.outputs.result], run.log).toEqual([1, 'refused']);
    expect(run.outputs.changed).toBe('true');
    expect(run.json?.clusters[0]?.refusals).toMatchObject([
      { code: 'unreachable', hosts: ['node3'], message: expect.stringContaining('connect') },
    ]);
    expect(await scene.roleFile('node4', 'role')).toBe('agent');
    expect(await scene.roleFile('node3', 'role')).toBeNull();
    expect(scene.github.checkRuns).toMatchObject([{ conclusion: 'failure' }]);
  });

  it('stops at a changed host key, names the fingerprint that it saw, and goes on with the others', async () => {
    const before = await scene.commit(off);
    const after = await scene.commit(on);
    const run = await scene.run(pushEvent({ before, after }), {
      inputs: { 'ssh-known-hosts': scene.fleet.knownHosts(['node2']) },
    });
    expect([run.exitCode, run.outputs.result], run.log).toEqual([1, 'refused']);
    const [refusal] = run.json?.clusters[0]?.refusals ?? [];
    expect(refusal).toMatchObject({
      code: 'unreachable',
      hosts: ['node2'],
      message: expect.stringContaining('host-key'),
    });
    expect(refusal?.message).toContain(scene.fleet.sshd.fingerprint);
    expect(await scene.roleFile('node2', 'role')).toBeNull();
    expect(await scene.roleFile('node1', 'role')).toBe('server');
  });

  it('notes a host without a project directory, which is no error', async () => {
    const dir = `${scene.fleet.host('node4').dir}-not-there`;
    const before = await scene.commit(off);
    const after = await scene.commit({ ...on, hosts: { node4: { node_role: 'agent', dir } } });
    const run = await scene.run(pushEvent({ before, after }));
    expect([run.exitCode, run.outputs.result], run.log).toEqual([0, 'applied']);
    expect(run.json?.clusters[0]?.notes).toContainEqual(
      expect.objectContaining({ code: 'not-provisioned', hosts: ['node4'] }),
    );
    expect(await scene.roleFile('node3', 'role')).toBe('server');
  });

  it('continues where a run was killed between two hosts', async () => {
    const before = await scene.commit(off);
    const after = await scene.commit(on);
    const event = pushEvent({ before, after });
    const written = async () =>
      (await Promise.all(names.map((name) => scene.roleFile(name, 'role')))).filter((role) => role !== null).length;
    const killed = await scene.run(event, {
      inputs: { parallelism: '1' },
      interrupt: { when: async () => (await written()) >= 1, signal: 'SIGKILL', group: true },
    });
    expect(killed.signal).toBe('SIGKILL');
    expect(await written()).toBeGreaterThanOrEqual(1);
    expect(await written()).toBeLessThan(4);
    // The post step closes what the killed main left open, and removes its keys.
    expect(scene.github.checkRuns).toMatchObject([{ status: 'completed', conclusion: 'cancelled' }]);
    expect(await killed.leftInTemp()).toEqual([]);

    const again = await scene.run(event);
    expect([again.exitCode, again.outputs.result], again.log).toEqual([0, 'applied']);
    expect(await written()).toBe(4);
    const third = await scene.run(event);
    expect(third.outputs.result, third.log).toBe('unchanged');
  });

  it('closes its check run as cancelled when the job is cancelled, and starts no new step', async () => {
    const before = await scene.commit(off);
    const after = await scene.commit(on);
    const roles = async () =>
      (await Promise.all(names.map((name) => scene.roleFile(name, 'role')))).filter((role) => role !== null).length;
    const run = await scene.run(pushEvent({ before, after }), {
      inputs: { parallelism: '1' },
      interrupt: { when: async () => (await roles()) >= 1, signal: 'SIGTERM' },
    });
    expect([run.exitCode, run.outputs.result], run.log).toEqual([1, 'failed']);
    expect(await roles()).toBeLessThan(4);
    expect(scene.github.checkRuns).toMatchObject([{ status: 'completed', conclusion: 'cancelled' }]);
    expect(await run.leftInTemp()).toEqual([]);
  });
});

describe('a removed agent', () => {
  const without = { ...on, order: ['node1', 'node2', 'node3'] };
  let cluster: StandInCluster;
  beforeEach(() => {
    cluster = scene.cluster;
  });
  afterEach(() => scene.fleet.host('node4').up('k3s-agent'));

  it('is fenced, drained and stopped through its old connection, and its Node goes last', async () => {
    const before = await adopted();
    const after = await scene.commit(without);
    const run = await scene.run(pushEvent({ before, after }));
    expect([run.exitCode, run.outputs.result], run.log).toEqual([0, 'applied']);
    expect(stepsOf(run)).toEqual([
      'write-role node4',
      'drain node4',
      'stop-service node4',
      'delete-node node4',
      'write-record node1',
    ]);
    expect(await scene.roleFile('node4', 'role')).toBe('');
    expect(await scene.fleet.host('node4').inspect('k3s-agent')).toMatchObject({ running: false });
    expect(await cluster.nodes()).toEqual(['node1', 'node2', 'node3']);
    const verbs = (await cluster.asked()).map((words) => words.split(' ')[0]);
    const ofNode = verbs.filter(
      (verb) => verb !== undefined && ['annotate', 'cordon', 'drain', 'delete'].includes(verb),
    );
    expect(ofNode).toEqual(['annotate', 'cordon', 'drain', 'delete']);

    const again = await scene.run(pushEvent({ before, after }));
    expect(again.outputs.result, again.log).toBe('unchanged');
  });

  it('is waited for while a runner pod works there; in the end it is uncordoned and still runs', async () => {
    const before = await adopted();
    const after = await scene.commit(without);
    await cluster.runnerPod('node4', true);
    const run = await scene.run(pushEvent({ before, after }), { inputs: { 'drain-timeout': '2s' } });
    expect([run.exitCode, run.outputs.result], run.log).toEqual([1, 'failed']);
    expect(run.outputs).toMatchObject({ changed: 'true', 'failed-step': 'drain node4' });
    expect(run.outputs['failure-reason']).toContain('drain-timeout');
    expect(await cluster.node('node4')).toEqual([]);
    expect(await scene.fleet.host('node4').inspect('k3s-agent')).toMatchObject({ running: true });

    await cluster.runnerPod('node4', false);
    const again = await scene.run(pushEvent({ before, after }));
    expect(again.outputs.result, again.log).toBe('applied');
    expect(await cluster.nodes()).toEqual(['node1', 'node2', 'node3']);
  });

  it('is left as it is where no API answers', async () => {
    const before = await adopted();
    const after = await scene.commit(without);
    await cluster.answers(false);
    const run = await scene.run(pushEvent({ before, after }));
    expect([run.exitCode, run.outputs.result], run.log).toEqual([1, 'refused']);
    expect(run.json?.clusters[0]?.refusals).toMatchObject([{ code: 'no-quorum' }, { code: 'no-lock' }]);
    expect(await scene.roleFile('node4', 'role')).toBe('agent');
  });
});

describe('an added agent', () => {
  it('gets all its files, its override listed at once where it has no container yet', async () => {
    const host = scene.fleet.host('node4');
    // Nothing is started where it is not known who is a member.
    await voters(scene, ['node1', 'node2', 'node3']);
    const before = await scene.commit({ ...on, order: ['node1', 'node2', 'node3'] });
    expect((await scene.run(pushEvent({ before, after: before }))).outputs.result).toBe('applied');
    await host.compose('rm', '-sf', 'k3s-agent');
    try {
      const after = await scene.commit(on);
      const run = await scene.run(pushEvent({ before, after }));
      expect([run.exitCode, run.outputs.result], run.log).toEqual([0, 'applied']);
      expect(run.json?.clusters[0]?.changes).toMatchObject([
        { host: 'node4', kind: 'added', role: { from: null, to: 'agent' } },
      ]);
      expect(await scene.roleFile('node4', 'role')).toBe('agent');
      expect(await host.read('.env')).toMatch(/^COMPOSE_FILE=docker-compose\.yml:docker-compose\.fleet-role\.yml$/m);
      // Started with the mount, so that its guards are in force.
      expect((await host.inspect('k3s-agent'))?.mounts['/etc/github-runner']).toBe(`${host.dir}/fleet-role.d`);
      const again = await scene.run(pushEvent({ before: after, after }));
      expect(again.outputs.result, again.log).toBe('unchanged');
      expect(again.json?.clusters[0]?.notes).toMatchObject([
        { code: 'guards-not-in-force', hosts: ['node1', 'node2', 'node3'] },
      ]);
    } finally {
      await scene.reset();
      await host.compose('rm', '-sf', 'k3s-agent');
      await host.up('k3s-agent');
    }
  });
});

describe('a pull request', () => {
  it('is planned against its merge base and contacts no host', async () => {
    const base = await scene.commit(off);
    const head = await scene.commit(on, { branch: 'change', from: base });
    const later = await scene.commit({ ...off, cluster: { max_servers: 3 } });
    const run = await scene.run(pullRequestEvent({ headSha: head, baseSha: later }));
    expect([run.exitCode, run.outputs.result], run.log).toEqual([0, 'planned']);
    expect(run.outputs.changed).toBe('true');
    expect(run.json).toMatchObject({ mode: 'plan', base, head, observed: false });
    expect(run.json?.clusters[0]?.notes.map((note) => note.code)).toEqual(['not-observed']);
    expect(stepsOf(run, 'node4')).toEqual([
      'create-role-directory node4',
      'install-guards node4',
      'add-override node4',
      'write-join-url node4',
      'write-role node4',
    ]);
    expect(scene.github.checkRuns).toMatchObject([
      { headSha: head, name: 'fleet-role plan', conclusion: 'success', status: 'completed' },
    ]);
    expect(await scene.fleet.connections()).toEqual([]);
  });

  it.each([
    ['pull_request', false],
    ['pull_request_target', true],
  ])('is never applied: %s is refused before any connection', async (_event, target) => {
    const base = await scene.commit(off);
    const head = await scene.commit(on, { branch: 'change', from: base });
    scene.git.requests.length = 0;
    const run = await scene.run(pullRequestEvent({ headSha: head, baseSha: base, target }), {
      inputs: { mode: 'apply' },
    });
    expect([run.exitCode, run.outputs.result], run.log).toEqual([1, 'refused']);
    expect(run.json?.clusters[0]?.refusals).toMatchObject([{ code: 'not-fleet-branch' }]);
    expect(await scene.fleet.connections()).toEqual([]);
    expect(scene.git.requests).toEqual([]);
    expect(scene.github.checkRuns).toMatchObject([{ conclusion: 'failure' }]);
  });

  it('is reported in the job summary alone when the token may not write checks', async () => {
    const base = await scene.commit(off);
    const head = await scene.commit(on, { branch: 'change', from: base });
    const run = await scene.run(pullRequestEvent({ headSha: head, baseSha: base, headRepository: 'stranger/fleet' }), {
      token: 'read-token',
    });
    expect([run.exitCode, run.outputs.result], run.log).toEqual([0, 'planned']);
    expect(run.outputs['check-run-url']).toBe('');
    expect(
      run.annotations
        .filter((annotation) => annotation.level === 'notice')
        .map((one) => one.message)
        .join('\n'),
    ).toContain('checks: write');
    expect(run.summary).toContain('node4');
    expect(scene.github.checkRuns).toEqual([]);
  });
});

describe('secrets', () => {
  it('are in no log, output, summary or check run', async () => {
    const before = await scene.commit(off);
    const after = await scene.commit(on);
    const run = await scene.run(pushEvent({ before, after }), { env: { RUNNER_DEBUG: '1' } });
    const shown = [
      run.visibleLog,
      run.summary,
      JSON.stringify(run.outputs),
      JSON.stringify(scene.github.checkRuns.map((check) => check.history)),
      JSON.stringify(run.state),
    ];
    for (const text of shown) {
      expect(text).not.toContain('full-token');
      expect(text).not.toContain(scene.fleet.sshd.privateKey.split('\n')[2]);
    }
    expect(scene.git.requests.some((request) => request.credentials?.password === 'full-token')).toBe(true);
  });
});
