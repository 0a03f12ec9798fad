import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { carryOut } from '../../src/hosts/hands.js';
import { lookAt } from '../../src/hosts/probe.js';
import type { Step } from '../../src/plan/step.js';
import { until } from '../helpers/command.js';
import { Recorder, scriptRunner } from '../helpers/recorded-docker.js';
import { standInImage } from '../helpers/stand-in.js';
import { temporaryFolder } from '../helpers/temporary.js';
import { composeHost, step } from '../hosts/helpers.js';
import { PrivateEngine } from './private-engine.js';

const WHOLE = [step('create-role-directory'), step('install-guards', '1'), step('add-override')];

describe('an engine that is started again', () => {
  let engine: PrivateEngine;
  let folder: string;
  let recorder: Recorder;

  beforeAll(async () => {
    recorder = await Recorder.make();
    engine = await PrivateEngine.start();
    folder = await temporaryFolder('restarted');
    await engine.load(await standInImage());
  });

  afterAll(async () => {
    await engine?.close();
    if (recorder !== undefined) await rm(recorder.folder, { recursive: true });
    if (folder !== undefined) await rm(folder, { recursive: true });
  });

  it('leaves down what it is not to bring back, and brings back what it is', async () => {
    const name = 'fleet-role-restarted';
    const there = composeHost({
      directory: folder,
      composeProject: name,
      containers: { k3s: name, 'k3s-agent': `${name}-a` },
    });
    const service = {
      image: await standInImage(),
      network_mode: 'none',
      restart: 'unless-stopped',
      stop_grace_period: '30s',
    };
    const k3s = {
      ...{
        ...service,
        container_name: name,
        environment: { K3S_TOKEN: 'x' },
        volumes: ['./data:/var/lib/rancher/k3s'],
      },
      entrypoint: ['/usr/local/bin/node-entrypoint.sh', 'server'],
    };
    const agent = { ...k3s, container_name: `${name}-a` };
    await writeFile(join(folder, 'docker-compose.yml'), JSON.stringify({ services: { k3s, 'k3s-agent': agent } }));
    const runner = scriptRunner(null, recorder.folder, undefined, engine.environment());
    const act = async (...steps: Step[]) => {
      const { failed } = await carryOut(runner, there, steps, { seconds: 120 });
      expect(failed).toBeNull();
    };
    const status = async () => (await engine.docker(['inspect', '--format', '{{.State.Status}}', name])).trim();
    const runs = async () => {
      const seen = await lookAt(runner, there, { seconds: 60 });
      return seen.kind === 'reached' && seen.services.kind === 'known' && seen.services.value.k3s.state === 'running';
    };
    await act(...WHOLE, step('start-service', null, 'k3s'));
    await until('k3s runs', runs);
    await act(step('set-restart-policy', 'no', 'k3s'));
    expect(await status()).toBe('running');
    await engine.restart();
    expect(await status()).toBe('exited');
    await act(step('set-restart-policy', 'unless-stopped', 'k3s'), step('start-service', null, 'k3s'));
    await until('k3s runs', runs);
    await engine.restart();
    await until('k3s runs again', runs);
    // A fenced one that was created again and not started: whatever brings it up, k3s does not run.
    await act(step('write-role', 'agent'), step('recreate-service', null, 'k3s'));
    await engine.restart();
    expect(await runs()).toBe(false);
    await engine.tryDocker(['start', name]);
    expect(await runs()).toBe(false);
  });
});
