import { chmod, copyFile, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import type { Host, Service } from './fleet.js';
import { CLUSTER_KUBECTL } from './kubectl.js';
import type { Run, Scene } from './scene.js';

/** Where a server's container finds the directory that its kubectl shows. */
const STATE = '/var/lib/rancher/k3s/stand-in';

/**
 * Lets every host's kubectl show the cluster of the first one: the APIs of one cluster. To be called before the hosts'
 * containers are made.
 */
export async function shareCluster(scene: Scene): Promise<void> {
  for (const host of scene.fleet.hosts.list) {
    const file = parse((await host.read('docker-compose.yml')) ?? '') as {
      services: Record<Service, { volumes: string[] }>;
    };
    for (const service of Object.values(file.services)) service.volumes.push(`${scene.cluster.directory}:${STATE}`);
    await host.write('docker-compose.yml', stringify(file, { lineWidth: 0 }));
    await mkdir(host.standInDir, { recursive: true });
    await standInKubectl(host);
  }
}

/** Puts the stand-in kubectl on a host, or back in place of another one. */
export async function standInKubectl(host: Host): Promise<void> {
  const path = join(host.standInDir, 'kubectl');
  await copyFile(CLUSTER_KUBECTL, path);
  await chmod(path, 0o755);
}

/** Makes the hosts of these names the voters of the cluster, as /db/info tells them. */
export function voters(scene: Scene, names: readonly string[]): Promise<void> {
  const members = names.map((name, index) => ({
    ID: index + 1,
    name: `${name}-0000000${index + 1}`,
    peerURLs: [`https://${scene.fleet.nodeAddress(name)}:2380`],
    clientURLs: [`https://${scene.fleet.nodeAddress(name)}:2379`],
  }));
  return scene.cluster.memberList(`${JSON.stringify({ members })}\n`);
}

/** The container id of the service that each host runs. */
export async function containerIds(scene: Scene): Promise<Record<string, string | undefined>> {
  const snapshot = await scene.fleet.hosts.snapshot();
  return Object.fromEntries(
    Object.entries(snapshot).map(([name, { containers }]) => {
      const running = Object.values(containers).find((container) => container?.running === true);
      return [name, running?.id];
    }),
  );
}

/** `ACTION HOST` of every step of a run, in order. */
export function stepsOf(run: Run): string[] {
  return run.json?.clusters.flatMap((cluster) => cluster.steps.map((step) => `${step.action} ${step.host}`)) ?? [];
}

/** Code and hosts of every refusal of a run. */
export function refusalsOf(run: Run): string[] {
  return (
    run.json?.clusters.flatMap((cluster) =>
      cluster.refusals.map((refusal) => `${refusal.code} ${refusal.hosts.join(' ')}`.trim()),
    ) ?? []
  );
}

/** Every reason that a run gives in its plan, its failure included. */
export function wordsOf(run: Run): string {
  const refusals = run.json?.clusters.flatMap((cluster) => cluster.refusals.map((refusal) => refusal.message)) ?? [];
  return [...refusals, run.outputs['failure-reason'] ?? ''].join('\n');
}

/** What a test shows of a run that went another way than it should: its log, and every reason that it gives. */
export function told(run: Run): string {
  return `${run.visibleLog}\n${wordsOf(run)}`;
}
