import type { Change } from '../../src/fleet/change.js';
import type { Cluster, Host, Role } from '../../src/fleet/fleet.js';
import type { ClusterPlan, Plan } from '../../src/plan/plan.js';
import type { PlannedStep } from '../../src/plan/step.js';
import type { RunReport } from '../../src/report/run.js';

export const HEAD = 'c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00';
export const BASE = 'ba5eba11ba5eba11ba5eba11ba5eba11ba5eba11';

export function hostOf(name: string, role: Role = 'agent', overrides: Partial<Host> = {}): Host {
  const joinUrl = role === 'server' && name === 'node1' ? null : 'https://node1.example.ts.net:6443';
  return {
    name,
    nodeName: name,
    address: `${name}.example.ts.net`,
    role,
    bootstrap: name === 'node1',
    nodeRole: null,
    declaredBootstrap: null,
    joinUrl,
    serverUrl: null,
    tlsSans: ['node1.example.ts.net'],
    publishesLabels: true,
    eligible: null,
    pinned: false,
    runtime: 'compose',
    connection: { type: 'ssh', host: name, port: 22, user: null, become: false, keyFile: '/keys/one', options: [] },
    directory: '~/.github-runner',
    composeProject: 'github-runner',
    composeFiles: [],
    containers: { k3s: 'github-runner-k3s', 'k3s-agent': 'github-runner-k3s-agent' },
    dockerContext: null,
    dataDir: '/var/lib/rancher/k3s',
    roleFile: role,
    joinUrlFile: joinUrl,
    place: { file: 'inventory.yml', line: 9 },
    ignoredSshOptions: [],
    sources: new Map(),
    ...overrides,
  };
}

export function clusterOf(overrides: Partial<Cluster> = {}): Cluster {
  return {
    name: 'github_runner_cluster',
    readable: true,
    valid: true,
    settings: { controller: true, maxServers: 5, apiPort: 6443, datastore: 'etcd' },
    controller: true,
    datastore: 'etcd',
    bootstrap: 'node1',
    servers: ['node1', 'node2', 'node4'],
    problems: [],
    warnings: [],
    hosts: [hostOf('node1', 'server'), hostOf('node2', 'server'), hostOf('node3'), hostOf('node4', 'server')],
    ...overrides,
  };
}

export function changeOf(host: string, overrides: Partial<Change> = {}): Change {
  return {
    host,
    kind: 'promotion',
    cause: { commit: 'head', file: 'inventory.yml', line: 12, reason: 'node_role is server now' },
    role: { from: 'agent', to: 'server' },
    joinUrl: { from: 'https://node1.example.ts.net:6443', to: 'https://node2.example.ts.net:6443' },
    ...overrides,
  };
}

export function stepOf(number: number, host: string, overrides: Partial<PlannedStep> = {}): PlannedStep {
  return {
    number,
    action: 'write-join-url',
    host,
    service: null,
    value: 'https://node2.example.ts.net:6443',
    detail: 'node1 leaves, so the join URL names node2',
    voters: { before: 3, after: 3, healthy: 3, quorum: 2, tolerance: 1 },
    ...overrides,
  };
}

export function clusterPlanOf(overrides: Partial<ClusterPlan> = {}): ClusterPlan {
  return { cluster: clusterOf(), base: BASE, changes: [], steps: [], refusals: [], notes: [], ...overrides };
}

export function planOf(overrides: Partial<Plan> = {}): Plan {
  return {
    mode: 'plan',
    base: BASE,
    head: HEAD,
    inventory: 'inventory.yml',
    observed: false,
    clusters: [clusterPlanOf()],
    ...overrides,
  };
}

export function reportOf(plan: Plan, overrides: Partial<RunReport> = {}): RunReport {
  return { plan, dryRun: false, result: 'planned', states: new Map(), failure: null, cancelled: false, ...overrides };
}

/** A cluster whose inventory cannot be read: what the parser knew of it must not reach the JSON. */
export function unreadableOf(overrides: Partial<Cluster> = {}): Cluster {
  return clusterOf({
    readable: false,
    valid: false,
    problems: [
      { code: 'bad-syntax', message: 'inventory.yml line 3 is no YAML', file: 'inventory.yml', line: 3, hosts: [] },
    ],
    ...overrides,
  });
}
