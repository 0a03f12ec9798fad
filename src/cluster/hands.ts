import type { Host } from '../fleet/fleet.js';
import type { Member } from '../plan/observation.js';
import type { Step } from '../plan/step.js';
import { type Kubectl, kubectlOnAny } from './kubectl.js';
import {
  cancelRemoval,
  clearPassword,
  clearServerTraces,
  clearStaleRemoval,
  removeMember,
  saveSnapshot,
} from './members.js';
import { type DrainOptions, deleteNode, drainNode, uncordonNode } from './nodes.js';
import { deleteRecord, readRecord, writeRecord } from './record.js';
import {
  lookEvicted,
  lookNoVoter,
  lookReady,
  lookRemoved,
  lookVotes,
  settled,
  type WaitOptions,
  waitFor,
} from './waits.js';

/** What a step on the cluster must know beside its host. */
export interface StepFacts {
  /** The host's own member; null when none is listed. */
  readonly member: Member | null;
  readonly identity: string | null;
  /** The hosts of the voters; null among them: one that is no host of the inventory. */
  readonly voters: readonly (Host | null)[];
  readonly group: string;
}

export interface StepOptions {
  readonly drain: Omit<DrainOptions, 'stepSeconds' | 'clock' | 'sleep' | 'signal'>;
  readonly wait: WaitOptions;
  /** How long all voters must have been healthy between two changes. */
  readonly settleSeconds: number;
  readonly repository: string;
  /** Names the run, for the record. */
  readonly run: string;
}

/** Seconds that k3s gets to say that a former member does not vote any more. */
const NO_VOTER_SECONDS = 60;

/**
 * Does one step through the servers in `through`, in order of preference. Null when it is done (a step that finds
 * everything as it should be is done, too), else why it failed, as a sentence for people.
 */
export async function carryOutOnCluster(
  through: readonly Host[],
  step: Step,
  host: Host,
  facts: StepFacts,
  kubectlOf: (host: Host) => Kubectl,
  options: StepOptions,
): Promise<string | null> {
  const servers = through.map(kubectlOf);
  const any = kubectlOnAny(() => servers);
  const node = host.nodeName;
  switch (step.action) {
    case 'snapshot':
      return saveSnapshot(kubectlOf(host), options.wait.seconds);
    case 'settle': {
      const ghost = facts.voters.includes(null);
      if (ghost) return 'a voter is no host of the inventory, and unknown is never healthy';
      const voters = facts.voters.flatMap((voter) => (voter === null ? [] : [kubectlOf(voter)]));
      return settled(voters, options.settleSeconds, options.wait);
    }
    case 'write-record':
      return completeRecord(any, step.value ?? '', facts, options);
    case 'delete-record':
      return deleteRecord(any);
    default:
      break;
  }
  if (node === null) return `the node name of ${host.name} is not known`;
  switch (step.action) {
    case 'drain':
      return drainNode(any, node, { ...options.drain, ...options.wait, stepSeconds: options.wait.seconds });
    case 'uncordon':
      return uncordonNode(any, node);
    case 'delete-node':
      return deleteNode(any, node);
    case 'clear-password':
      return clearPassword(any, node);
    case 'remove-member':
      return removeMember(any, node, facts.member);
    case 'cancel-removal':
      return cancelRemoval(any, node);
    case 'clean-node': {
      if (step.value === 'stale') return clearStaleRemoval(any, node);
      const wait = { ...options.wait, seconds: Math.min(NO_VOTER_SECONDS, options.wait.seconds) };
      // At most so long: a k3s that never writes it must not stop the demotion.
      await waitFor(() => lookNoVoter(servers, node), wait);
      return clearServerTraces(any, node);
    }
    case 'confirm-removed':
      return waitFor(() => lookRemoved(servers, node, step.value ?? ''), options.wait);
    case 'await-eviction':
      return waitFor(() => lookEvicted(servers, facts.member?.addresses ?? []), options.wait);
    case 'await-voter':
      return waitFor(() => lookVotes(servers, node, step.value ?? ''), options.wait);
    case 'await-ready':
      return waitFor(() => lookReady(servers, node, step.service === 'k3s-agent'), options.wait);
    default:
      throw new Error(`${step.action} does not go through the API`);
  }
}

/** The commit is complete: it is the base of the next apply. */
async function completeRecord(
  kubectl: Kubectl,
  commit: string,
  facts: StepFacts,
  { repository, run }: StepOptions,
): Promise<string | null> {
  const { identity, group } = facts;
  if (identity === null) return 'no cluster says which one it is';
  for (let attempt = 0; attempt < 3; attempt++) {
    const read = await readRecord(kubectl);
    if (read.kind === 'unknown') return read.why;
    const record = { commit, started: commit, begun: null, repository, group, identity, run };
    const written = await writeRecord(kubectl, record, read.value?.resourceVersion ?? null);
    if (written.kind === 'written') return null;
    if (written.kind === 'failed') return written.why;
  }
  return 'somebody else wrote the record again and again';
}
