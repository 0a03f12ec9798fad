import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { tryCommand, until } from '../helpers/command.js';
import { pushEvent } from '../helpers/events.js';
import type { Host, Service } from '../helpers/fleet.js';
import { Scene } from '../helpers/scene.js';
import { containerIds, refusalsOf, shareCluster, stepsOf, told, voters } from '../helpers/trust-fleet.js';

// A fleet of five hosts that people set up by hand, each in a way of its own, is adopted, and then gets its guards into
// force. The tests go on from each other.

const names = ['node1', 'node2', 'node3', 'node4', 'node5'];
const servers = names.slice(0, 3);
const agents = { node4: { node_role: 'agent' }, node5: { node_role: 'agent' } };
const off = { hosts: agents };
const on = { cluster: { controller: true }, hosts: agents };
const OVERRIDE = 'docker-compose.fleet-role.yml';
const MORE = 'services:\n  k3s:\n    labels: {more: "1"}\n  k3s-agent:\n    labels: {more: "1"}\n';
const OWN_ENV = '# ours\r\nCOMPOSE_FILE="docker-compose.yml:more.yml" # both\r\nOTHER=\'x y\'';

let scene: Scene;
let head: string;

const host = (name: string): Host => scene.fleet.host(name);
const serviceOf = (name: string): Service => (servers.includes(name) ? 'k3s' : 'k3s-agent');

beforeAll(async () => {
  scene = await Scene.create(5, {
    host: (index) => ({
      running: null,
      environment: { K3S_CLUSTER_INIT: 'true' },
      ...[
        {},
        { env: OWN_ENV, files: { 'more.yml': MORE } },
        { env: 'A=1\n', files: { 'docker-compose.override.yml': MORE } },
        { files: { 'more.yml': MORE } },
        {},
      ][index],
    }),
  });
  await shareCluster(scene);
  await voters(scene, servers);
  for (const name of servers) await host(name).up('k3s');
  // Several files by -f, which no .env names.
  await byHand('-f', 'docker-compose.yml', '-f', 'more.yml')('node4');
  // The other name that Compose looks for, and a name of the project that only -p gives.
  await rename(join(host('node5').dir, 'docker-compose.yml'), join(host('node5').dir, 'compose.yaml'));
  await byHand()('node5');
}, 120_000);
afterAll(() => scene?.close());

function byHand(...options: string[]) {
  return async (name: string): Promise<void> => {
    const result = await host(name).compose(...options, 'up', '-d', serviceOf(name));
    if (result.code !== 0) throw new Error(result.stderr);
    await until(`${name} runs`, async () => (await host(name).inspect(serviceOf(name)))?.running === true);
  };
}

/** What a recreation must leave as it is: where the node is found, its environment, and what else its files give it. */
async function identityOf(name: string) {
  const facts = await host(name).inspect(serviceOf(name));
  const format = '{{json .HostConfig.NetworkMode}} {{json .NetworkSettings.Networks}}';
  const { stdout } = await tryCommand('docker', ['inspect', '--format', format, facts?.id ?? '']);
  return {
    network: stdout.replace(/"(EndpointID|NetworkID|SandboxID)":"[^"]*"/g, ''),
    environment: [...(facts?.environment ?? [])].sort(),
    more: facts?.labels.more,
    restartPolicy: facts?.restartPolicy,
  };
}

const idOf = async (name: string) => (await host(name).inspect(serviceOf(name)))?.id;

describe('a fleet that people set up by hand', () => {
  it('is adopted by one apply, which restarts nothing and touches no .env', async () => {
    const before = await scene.commit(off);
    head = await scene.commit(on);
    const [ids, snapshot] = [await containerIds(scene), await scene.fleet.hosts.snapshot()];
    const run = await scene.run(pushEvent({ before, after: head }));
    expect([run.exitCode, run.outputs.result], told(run)).toEqual([0, 'applied']);
    for (const name of names) {
      expect(await scene.roleFile(name, 'role')).toBe(servers.includes(name) ? 'server' : 'agent');
      expect(await host(name).read(OVERRIDE)).toContain('/etc/github-runner');
      expect((await host(name).files())['.env']).toEqual(snapshot[name]?.files['.env']);
    }
    expect(await containerIds(scene)).toEqual(ids);
    expect(run.json?.clusters[0]?.notes).toMatchObject([{ code: 'guards-not-in-force', hosts: names }]);
    const record = await scene.cluster.object('configmap');
    expect(record.data).toMatchObject({ commit: head, started: head, repository: expect.any(String) });
    expect((await scene.cluster.object('lease')).spec).not.toHaveProperty('holderIdentity');
  });

  it('is unchanged by the same commit again: not a byte, not a container, not a version of the record', async () => {
    const snapshot = await scene.fleet.hosts.snapshot();
    const versions = await scene.cluster.history('configmap');
    const run = await scene.run(pushEvent({ before: head, after: head }));
    expect([run.exitCode, run.outputs.result, run.outputs.changed], told(run)).toEqual([0, 'unchanged', 'false']);
    expect(await scene.fleet.hosts.snapshot()).toEqual(snapshot);
    expect(await scene.cluster.history('configmap')).toEqual(versions);
  });

  it('keeps its containers when somebody says what started them again', async () => {
    const ids = await containerIds(scene);
    for (const name of servers) expect((await host(name).compose('up', '-d', 'k3s')).code).toBe(0);
    expect(await containerIds(scene)).toEqual(ids);
  });
});

describe('the rollout', () => {
  it('of the servers makes them anew one after the other, with the mount and all else as it was', async () => {
    const ids = await containerIds(scene);
    const was = Object.fromEntries(await Promise.all(names.map(async (name) => [name, await identityOf(name)])));
    const run = await scene.run(pushEvent({ before: head, after: head }), {
      inputs: { rollout: 'servers' },
      timeout: 400_000,
    });
    expect([run.exitCode, run.outputs.result], told(run)).toEqual([0, 'applied']);
    // A server is through, settled and all, before the next one begins.
    const steps = stepsOf(run).filter((step) => /^(recreate-service|start-service|settle) /.test(step));
    expect(steps).toHaveLength(9);
    for (const [index, name] of steps.map((step) => step.split(' ')[1]).entries()) {
      expect(name).toBe(steps[index - (index % 3)]?.split(' ')[1]);
    }
    const now = await containerIds(scene);
    for (const name of servers) {
      expect(now[name]).not.toBe(ids[name]);
      expect(now[name]).toBeDefined();
      expect((await host(name).inspect('k3s'))?.mounts['/etc/github-runner']).toBe(`${host(name).dir}/fleet-role.d`);
      expect(await identityOf(name)).toEqual(was[name]);
    }
    for (const name of ['node4', 'node5']) expect(now[name]).toBe(ids[name]);
    expect(run.json?.clusters[0]?.notes).toMatchObject([{ code: 'guards-not-in-force', hosts: ['node4', 'node5'] }]);
    // Every other byte of a .env stays.
    expect(await host('node2').read('.env')).toBe(OWN_ENV.replace('more.yml', `more.yml:${OVERRIDE}`));
    expect(await host('node3').read('.env')).toMatch(
      /^A=1\n# fleet-role.*\nCOMPOSE_FILE=docker-compose.yml:docker-compose.override.yml:docker-compose.fleet-role.yml\n$/,
    );
  }, 420_000);

  it('of all takes the agents too, each drained and uncordoned, and leaves what has its guards', async () => {
    const ids = await containerIds(scene);
    const was = Object.fromEntries(await Promise.all(names.map(async (name) => [name, await identityOf(name)])));
    const run = await scene.run(pushEvent({ before: head, after: head }), { inputs: { rollout: 'all' } });
    expect([run.exitCode, run.outputs.result], told(run)).toEqual([0, 'applied']);
    const now = await containerIds(scene);
    for (const name of servers) expect(now[name]).toBe(ids[name]);
    for (const name of ['node4', 'node5']) {
      const facts = await host(name).inspect('k3s-agent');
      expect(facts?.running).toBe(true);
      expect(facts?.id).not.toBe(ids[name]);
      expect(facts?.mounts['/etc/github-runner']).toBe(`${host(name).dir}/fleet-role.d`);
      expect(await identityOf(name)).toEqual(was[name]);
      expect(await scene.cluster.node(name)).toEqual([]);
      expect(stepsOf(run)).toContain(`drain ${name}`);
    }
    expect(run.json?.clusters[0]?.notes).toEqual([]);
    expect(refusalsOf(run)).toEqual([]);
    const again = await scene.run(pushEvent({ before: head, after: head }), { inputs: { rollout: 'all' } });
    expect(again.outputs.result, told(again)).toBe('unchanged');
  });

  it('is kept by a plain `docker compose up -d` of anybody, which restarts nothing', async () => {
    const snapshot = await scene.fleet.hosts.snapshot();
    for (const name of names) {
      const result = await host(name).compose('up', '-d');
      expect([name, result.code, result.code === 0 ? '' : result.stderr]).toEqual([name, 0, '']);
      const service = serviceOf(name);
      const other = service === 'k3s' ? 'k3s-agent' : 'k3s';
      expect(await host(name).inspect(service)).toEqual(snapshot[name]?.containers[service]);
      // The service of the other role comes into being, and idles.
      await until(`${other} of ${name} idles`, async () => (await host(name).logs(other)).includes('; idle until'));
    }
    const run = await scene.run(pushEvent({ before: head, after: head }));
    expect([run.exitCode, run.outputs.result], told(run)).toEqual([0, 'unchanged']);
  });

  it('ends with the controller: a plain `docker compose up -d` does not bring the override back', async () => {
    const after = await scene.commit(off);
    const ids = await Promise.all(names.map(idOf));
    const run = await scene.run(pushEvent({ before: head, after }));
    expect([run.exitCode, run.outputs.result], told(run)).toEqual([0, 'applied']);
    expect(await scene.cluster.object('configmap')).toBeNull();
    expect(await Promise.all(names.map(idOf))).toEqual(ids);
    for (const name of names) {
      expect(await scene.roleFile(name, 'role')).toBeNull();
      expect((await host(name).read('.env')) ?? '').not.toContain(OVERRIDE);
      const service = serviceOf(name);
      expect(await host(name).inspect(service)).toMatchObject({ running: true });
      // Without its role file the next reboot would start the other one.
      const other = service === 'k3s' ? 'k3s-agent' : 'k3s';
      expect(await host(name).inspect(other)).toMatchObject({ running: false });
      expect((await host(name).compose('up', '-d', service)).code).toBe(0);
      const facts = await host(name).inspect(service);
      expect([name, facts?.running]).toEqual([name, true]);
      expect(facts?.mounts).not.toHaveProperty('/etc/github-runner');
    }
  });
});
