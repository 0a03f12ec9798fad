import { asset } from '../assets.js';
import type { Host } from '../fleet/fleet.js';
import type { HostObservation, ReachedHost } from '../plan/observation.js';
import type { Step } from '../plan/step.js';
import type { Connection } from './connection.js';
import { dockerSeconds, type LookOptions, observationOf, rejection } from './probe.js';
import { runtimeOf } from './runtime.js';
import { Answer, type DataLine, encode, hostData, hostScript } from './script.js';
import { sentence } from './words.js';

export interface CarryOutOptions extends LookOptions {
  /** How long to wait for another script that still works on the host; 30 unless told. */
  readonly lockSeconds?: number;
  /** What the plan saw: a host that was changed since is left alone. */
  readonly seen?: ReachedHost;
}

export interface FailedStep {
  readonly step: Step;
  /** A sentence without the host's name: why, and the way out where there is one. */
  readonly message: string;
}

export interface CarriedOut {
  /** The steps that are done, in order; a step that found everything as it should be is done, too. */
  readonly done: readonly Step[];
  readonly failed: FailedStep | null;
  /** How the host is afterwards, whether or not a step failed. */
  readonly observation: HostObservation;
}

/**
 * Does `steps` on one host in order, until one fails, under the host's lock, and looks again: all in one remote command.
 * Every step only makes true what it says, so that one that is true already changes nothing. Never throws for a host's
 * fault. Where the command itself fails, `done` is empty: what was done until then the next look tells.
 */
export async function carryOut(
  connection: Connection,
  host: Host,
  steps: readonly Step[],
  options: CarryOutOptions,
): Promise<CarriedOut> {
  const runtime = runtimeOf(host);
  const first = steps[0];
  const rejected = rejection(host, runtime);
  if (rejected !== null) return ended(first, rejected);
  const lines: DataLine[] = [
    ...runtime.data(host, dockerSeconds(options.seconds)),
    ['lock-seconds', String(options.lockSeconds ?? 30)],
  ];
  if (steps.some((step) => step.action === 'install-guards')) {
    lines.push(['guard-entrypoint', encode(asset('node/node-entrypoint.sh'))]);
    lines.push(['guard-condition', encode(asset('node/fleet-role-is.sh'))]);
  }
  const data = hostData(host, lines, steps);
  const result = await connection.run(hostScript(runtime.parts), data, options.seconds);
  const observation = observationOf(host, result);
  if (result.kind !== 'done') return ended(first, observation);
  const answer = new Answer(result.stdout);
  const done = answer.all('step-done').flatMap((number) => steps[Number(number) - 1] ?? []);
  const said = answer.get('step-failed');
  if (said !== null) {
    const space = said.indexOf(' ');
    const step = steps[Number(said.slice(0, space)) - 1];
    if (step !== undefined) return { done, failed: { step, message: sentence(said.slice(space + 1)) }, observation };
  }
  const undone = steps[done.length];
  if (undone === undefined) return { done, failed: null, observation };
  return { done, failed: { step: undone, message: 'The host script did not say what became of it.' }, observation };
}

function ended(first: Step | undefined, observation: HostObservation): CarriedOut {
  const message = observation.kind === 'unreachable' ? observation.message : 'The host script ended early.';
  return { done: [], failed: first === undefined ? null : { step: first, message }, observation };
}
