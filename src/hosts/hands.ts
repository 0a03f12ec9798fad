import { asset } from '../assets.js';
import type { Host } from '../fleet/fleet.js';
import type { FileState, HostObservation, ReachedHost } from '../plan/observation.js';
import type { Step } from '../plan/step.js';
import type { Connection } from './connection.js';
import { dockerSeconds, type LookOptions, observationOf, rejection } from './probe.js';
import { runtimeOf } from './runtime.js';
import { Answer, type DataLine, encode, hostData, hostScript } from './script.js';
import { sentence } from './words.js';

export interface CarryOutOptions extends LookOptions {
  /**
   * What was seen of the host when the steps were decided. Nothing is done where its role files or containers are others
   * by now. Without it nothing is compared.
   */
  readonly seen?: ReachedHost;
  /** How long to wait for another script that still works on the host; 30 unless told. */
  readonly lockSeconds?: number;
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
    ['step-seconds', String(Math.max(1, Math.floor(options.seconds / 2), Math.floor(options.seconds) - 90))],
    ...(options.seen === undefined ? [] : seenLines(options.seen)),
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

/** What the script compares under its lock: the role directory's small files, and the container of each service. */
function seenLines(seen: ReachedHost): DataLine[] {
  const files: [string, FileState][] = [
    ['role', seen.role],
    ['join-url', seen.joinUrl],
    ['cluster', seen.cluster],
    ['restart-policy', seen.keptPolicy],
  ];
  const lines = files.map(([name, file]): DataLine => {
    if (file.kind !== 'text') return ['seen-file', name, file.kind, '='];
    // What is no plain text does not come back byte for byte, and only its being there is compared.
    const plain = /^[\t\n\r\x20-\x7e]*$/.test(file.text);
    return ['seen-file', name, plain ? 'text' : 'odd', plain ? encode(file.text) : '='];
  });
  if (seen.services.kind === 'unknown') return lines;
  const services = Object.entries(seen.services.value);
  return [
    ...lines,
    ...services.map(([name, { containerId }]): DataLine => ['seen-service', name, encode(containerId ?? '')]),
  ];
}

function ended(first: Step | undefined, observation: HostObservation): CarriedOut {
  const message = observation.kind === 'unreachable' ? observation.message : 'The host script ended early.';
  return { done: [], failed: first === undefined ? null : { step: first, message }, observation };
}
