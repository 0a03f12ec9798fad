import { parseArgs } from 'node:util';
import { nextSteps } from '../../src/plan/next-steps.js';
import {
  type Change,
  changesOf,
  type Making,
  type Move,
  nameOf,
  OLD,
  scenarioOf,
  UNGUARDED,
  USUAL,
} from './changes.js';
import { type Explored, explore } from './explore.js';

/** The most faults on a path for a fleet of so many hosts (issue 5). */
export function faultsFor(hosts: number): number {
  if (hosts <= 3) return 4;
  return hosts === 4 ? 3 : 2;
}

const MAKINGS: Readonly<Record<string, Making>> = { usual: USUAL, unguarded: UNGUARDED, old: OLD };

/** The command line: the exit status, 0 when nothing is wrong. */
export function main(args: readonly string[]): number {
  const { values } = parseArgs({
    args: [...args],
    options: {
      hosts: { type: 'string', default: '3' },
      faults: { type: 'string' },
      change: { type: 'string' },
      making: { type: 'string', default: 'usual' },
      limit: { type: 'string' },
      violations: { type: 'string', default: '1' },
    },
  });
  const hosts = Number(values.hosts);
  const making = MAKINGS[values.making];
  if (making === undefined) throw new Error(`--making is one of ${Object.keys(MAKINGS).join(', ')}`);
  const changes: readonly Change[] =
    values.change === undefined ? changesOf(hosts) : [values.change.split(' ') as unknown as readonly Move[]];
  let wrong = 0;
  const sum = { states: 0, edges: 0, ends: 0 };
  for (const change of changes) {
    const faults = values.faults === undefined ? faultsFor(change.length) : Number(values.faults);
    const begun = performance.now();
    const limit = values.limit === undefined ? {} : { limit: Number(values.limit) };
    const found = explore(scenarioOf(change, making), {
      faults,
      decide: nextSteps,
      violations: Number(values.violations),
      ...limit,
    });
    console.log(`${line(nameOf(change), faults, found)} ${((performance.now() - begun) / 1000).toFixed(1)} s`);
    sum.states += found.states;
    sum.edges += found.edges;
    sum.ends += found.ends;
    if (found.violations.length > 0) wrong += 1;
    for (const { what, path } of found.violations)
      console.log([`  ${what}`, ...path.map((each) => `    ${each}`)].join('\n'));
  }
  const peak = Math.round(process.resourceUsage().maxRSS / 1024);
  console.log(
    `${changes.length} changes, ${wrong} with a violation: ${sum.states} states, ${sum.edges} transitions, ${sum.ends} ends; peak memory ${peak} MiB`,
  );
  return wrong === 0 ? 0 : 1;
}

function line(name: string, faults: number, found: Explored): string {
  const limited = found.cut ? ' (limit reached)' : '';
  return `${name}: k=${faults}, ${found.states} states, ${found.edges} transitions, ${found.ends} ends${limited}`;
}
