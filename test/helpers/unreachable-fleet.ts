import { expect } from 'vitest';
import type { PlanJson } from '../../src/report/plan-json.js';
import { type ActionResult, type RunActionOptions, runAction } from './action.js';
import type { ActionEvent } from './events.js';
import { type GitRepository, GitServer } from './git-server.js';
import { GitHubServer } from './github-server.js';
import { expectValidPlan } from './plan-schema.js';

/** An inventory of hosts that nobody answers for: every connection is refused at once. */
export function inventory(hosts: readonly string[], controller = false, group = 'github_runner_cluster'): string {
  return [
    `${group}:`,
    `  vars: { github_runner_cluster_controller: ${controller}, ansible_port: 1 }`,
    '  hosts:',
    ...hosts.map((host, index) => `    ${host}: { ansible_host: 127.0.${group.length}.${index + 1} }`),
    '',
  ].join('\n');
}

/** What an apply needs before it contacts a host. */
export const KNOWN_HOSTS = { 'ssh-known-hosts': 'node1 ssh-ed25519 AAAA' };

/** A fleet repository and GitHub's API, and no host behind it: what a run tells GitHub, and what it asks. */
export class UnreachableFleet {
  readonly git: GitServer;
  readonly repository: GitRepository;
  readonly github: GitHubServer;

  private constructor(git: GitServer, repository: GitRepository, github: GitHubServer) {
    this.git = git;
    this.repository = repository;
    this.github = github;
  }

  /** `octo/fleet`; `prefix` plays Enterprise Server. */
  static async create(
    options: Parameters<typeof GitHubServer.start>[0] & { readonly tokens?: Readonly<Record<string, object>> } = {},
  ): Promise<UnreachableFleet> {
    const git = await GitServer.start({ tokens: Object.keys(options.tokens ?? { 'full-token': 0, 'read-token': 0 }) });
    const repository = await git.createRepository('octo/fleet');
    const github = await GitHubServer.start(options);
    github.addRepository('octo/fleet', { gitDir: repository.dir });
    return new UnreachableFleet(git, repository, github);
  }

  /** Runs the committed bundle, main and post; checks what every run must keep. */
  async run(event: ActionEvent, options: Omit<RunActionOptions, 'event'> = {}): Promise<ActionResult> {
    const result = await runAction({ serverUrl: this.git.url, apiUrl: this.github.url, ...options, event });
    expect(this.github.violations).toEqual([]);
    expect(result.post?.exitCode, result.post?.log).toBe(0);
    expect(await result.leftInTemp()).toEqual([]);
    return result;
  }

  /** What was asked of GitHub, in order. */
  calls(): string[] {
    return this.github.requests.map(
      ({ method, path }) => `${method} ${path.replace('/repos/octo/fleet', '').replace(/\d{4,}$/, 'ID')}`,
    );
  }

  async close(): Promise<void> {
    await Promise.all([this.git.close(), this.github.close()]);
  }
}

/** The `plan` output, valid by its schema. */
export function planOf({ outputs }: ActionResult): PlanJson {
  const json = JSON.parse(outputs.plan ?? '') as PlanJson;
  expectValidPlan(json);
  return json;
}

/** What GitHub counts as failed is what the job counts as failed: every check run is closed and says the same. */
export function expectAgreement(github: GitHubServer, result: ActionResult, conclusion: 'success' | 'failure'): void {
  expect(result.exitCode, result.log).toBe(conclusion === 'success' ? 0 : 1);
  for (const { conclusion: said, status } of github.checkRuns) {
    expect([status, said]).toEqual(['completed', conclusion]);
  }
}
