import { readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { PlanJson } from '../../src/report/plan-json.js';
import { type ActionResult, type RunActionOptions, runAction } from './action.js';
import type { ActionEvent } from './events.js';
import { type GitRepository, GitServer } from './git-server.js';
import { GitHubServer } from './github-server.js';
import { StandInCluster } from './kubectl.js';
import { expectValidPlan } from './plan-schema.js';
import { type InventoryOptions, makeSshFleet, type SshFleet, type SshFleetOptions } from './ssh-fleet.js';

/** The parts of a scene beside the cluster. */
export interface Parts {
  readonly fleet: SshFleet;
  readonly git: GitServer;
  readonly repository: GitRepository;
  readonly github: GitHubServer;
}

export async function makeParts(count: number, options: SshFleetOptions): Promise<Parts> {
  const fleet = await makeSshFleet(count, options);
  const git = await GitServer.start({ tokens: ['full-token', 'read-token'] });
  const repository = await git.createRepository('octo/fleet');
  const github = await GitHubServer.start();
  github.addRepository('octo/fleet', { gitDir: repository.dir });
  return { fleet, git, repository, github };
}

/** The real parts of one fleet: hosts behind sshd, its repository behind a git server, and GitHub's API. */
export class FleetScene {
  readonly fleet: SshFleet;
  readonly git: GitServer;
  readonly repository: GitRepository;
  readonly github: GitHubServer;

  constructor({ fleet, git, repository, github }: Parts) {
    this.fleet = fleet;
    this.git = git;
    this.repository = repository;
    this.github = github;
  }

  /** Commits `inventory.yml` of the fleet. */
  commit(options: InventoryOptions, where: { readonly branch?: string; readonly from?: string } = {}): Promise<string> {
    return this.repository.commit({ 'inventory.yml': this.fleet.inventory(options) }, where);
  }

  /** Runs the committed bundle, main and post, for an event; checks what every run must keep. */
  async run(event: ActionEvent, options: Omit<RunActionOptions, 'event'> = {}): Promise<Run> {
    const result = await runAction({
      serverUrl: this.git.url,
      apiUrl: this.github.url,
      watch: ['full-token', 'read-token', keyLine(this.fleet.sshd.privateKeyFile)],
      ...options,
      inputs: { ...this.fleet.inputs(), ...options.inputs },
      event,
    });
    expect(this.github.violations).toEqual([]);
    expect(result.seenInArguments).toEqual([]);
    return { ...result, json: planOf(result) };
  }

  /** A file of a host's role directory without white space around it; null when it is absent. */
  async roleFile(host: string, name: string): Promise<string | null> {
    return (await this.fleet.host(host).read(join('fleet-role.d', name)))?.trim() ?? null;
  }

  url(host: string): string {
    return `https://${this.fleet.nodeAddress(host)}:6443`;
  }

  async close(): Promise<void> {
    await this.fleet.close();
    await this.git.close();
    await this.github.close();
  }
}

/** A fleet whose cluster is what the first host's kubectl shows; the other servers have no API that answers. */
export class Scene extends FleetScene {
  readonly cluster: StandInCluster;

  private constructor(parts: Parts, cluster: StandInCluster) {
    super(parts);
    this.cluster = cluster;
  }

  static async create(count: number, options: SshFleetOptions = {}): Promise<Scene> {
    const parts = await makeParts(count, options);
    const { list } = parts.fleet.hosts;
    const first = list[0];
    if (first === undefined) throw new Error('a scene without a host');
    const names = list.map((host) => host.name);
    return new Scene(parts, await StandInCluster.create(first, names));
  }

  /** Hosts as if fleet-role had never been there; what runs goes on. */
  async reset(): Promise<void> {
    for (const host of this.fleet.hosts.list) {
      for (const path of ['fleet-role.d', '.env', 'docker-compose.fleet-role.yml']) {
        await rm(join(host.dir, path), { recursive: true, force: true });
      }
    }
    await this.cluster.make(this.fleet.hosts.list.map((host) => host.name));
    this.github.reset();
    this.git.requests.length = 0;
    await this.fleet.sshd.forget();
  }
}

export interface Run extends ActionResult {
  /** The `plan` output, valid by its schema; null when it is empty. */
  readonly json: PlanJson | null;
}

function planOf(result: ActionResult): PlanJson | null {
  const text = result.outputs.plan ?? '';
  if (text === '') return null;
  const json = JSON.parse(text) as PlanJson;
  expectValidPlan(json);
  return json;
}

/** A line of the key that stands nowhere else. */
function keyLine(file: string): string {
  return readFileSync(file, 'utf8').split('\n')[2] ?? '';
}
