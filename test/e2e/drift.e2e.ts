import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { pushEvent, scheduleEvent } from '../helpers/events.js';
import { Scene } from '../helpers/scene.js';

const on = { cluster: { controller: true }, hosts: { node4: { node_role: 'agent' } } };
let scene: Scene;

beforeAll(async () => {
  scene = await Scene.create(4);
});
afterAll(() => scene.close());

describe('a schedule', () => {
  const drift = (sha: string) => scene.run(scheduleEvent({ sha }), { inputs: { mode: 'auto', 'drift-issue': 'true' } });

  it('compares the fleet with what was applied, keeps one issue, and closes it when the drift is gone', async () => {
    const before = await scene.commit({ hosts: on.hosts });
    const after = await scene.commit(on);
    const applied = await scene.run(pushEvent({ before, after }));
    expect([applied.exitCode, applied.outputs.result], applied.log).toEqual([0, 'applied']);

    const clean = await drift(after);
    expect([clean.exitCode, clean.outputs.result], clean.log).toEqual([0, 'unchanged']);
    expect(scene.github.world.issues).toEqual([]);

    // A commit that was never applied is no drift: what counts is the record.
    const later = await scene.commit({ ...on, hosts: { node4: { node_role: 'agent', server_url: 'https://v:6443' } } });
    const role = join(scene.fleet.host('node4').dir, 'fleet-role.d', 'role');
    await writeFile(role, 'server\n');
    const found = await drift(later);
    expect([found.exitCode, found.outputs.result, found.outputs.changed], found.log).toEqual([1, 'drifted', 'false']);
    expect(found.json?.clusters[0]?.steps.map((step) => `${step.action} ${step.host} ${step.value}`)).toEqual([
      'write-role node4 agent',
    ]);
    expect(await scene.roleFile('node4', 'role')).toBe('server');
    expect(scene.github.world.issues).toMatchObject([{ state: 'open' }]);

    await writeFile(role, 'agent\n');
    expect((await drift(later)).outputs.result).toBe('unchanged');
    expect(scene.github.world.issues).toMatchObject([{ state: 'closed' }]);
  });
});
