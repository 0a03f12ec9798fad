// Running programs with a clock, and what is made of the numbers.
import { spawn } from 'node:child_process';
import { accessSync, constants, openSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** What still runs, so that an interrupted benchmark leaves nothing behind. */
const running = new Set();
let isEnding = false;

/**
 * Runs a program to its end with its output kept as text. Gives milliseconds until the first byte of either output
 * (`first`, null without any) and until it ended (`all`). Throws when it ends with another status than 0.
 * `quiet` sends standard output to /dev/null, for programs that print megabytes that nobody looks at.
 */
export function timed(program, args, { env = process.env, cwd, stdin, quiet = false } = {}) {
  return new Promise((resolve, reject) => {
    if (isEnding) throw new Error('the benchmark is ending');
    const input = stdin === undefined ? 'ignore' : openSync(stdin, 'r');
    let first = null;
    let text = '';
    const begin = performance.now();
    const child = spawn(program, args, { env, cwd, stdio: [input, quiet ? 'ignore' : 'pipe', 'pipe'] });
    running.add(child);
    const hear = (data) => {
      first ??= performance.now() - begin;
      text += data;
    };
    child.stdout?.on('data', hear);
    child.stderr.on('data', hear);
    child.on('error', (error) => {
      running.delete(child);
      reject(error);
    });
    child.on('close', (code, signal) => {
      running.delete(child);
      const all = performance.now() - begin;
      if (code === 0) resolve({ first, all, text });
      else reject(new Error(`${program} ${args.join(' ')} ended with ${code ?? signal}:\n${text.slice(-2000)}`));
    });
  });
}

/** Ends every program that `timed` still waits for, and lets it start no other. */
export function endAll() {
  isEnding = true;
  for (const child of running) child.kill('SIGTERM');
}

/** The path of a program, looked for on PATH and where sshd is; null when it is not installed. */
export function findProgram(name) {
  for (const folder of [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/usr/bin']) {
    try {
      accessSync(join(folder, name), constants.X_OK);
      return join(folder, name);
    } catch {
      // Not in this folder.
    }
  }
  return null;
}

/** The middle of the numbers, or the mean of the two in the middle. */
export function median(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/**
 * Measures `ours` and each of `others` side by side, `runs` times, after one that does not count where `warmUp` says so:
 * each ratio is of one run, and who goes first changes from run to run, so that a machine that becomes slower favours
 * nobody. Another that takes long can have a `mayGoOn`: asked with the milliseconds of its last run, once it had `least` (default 3).
 * Gives the medians, one object for each of the others.
 */
export async function sideBySide(runs, ours, others, { warmUp = true } = {}) {
  const all = [{ measure: ours }, ...others];
  if (warmUp) for (const { measure } of all) await measure();
  const found = others.map(() => ({ ours: [], other: [], ratios: [] }));
  const wants = ({ mayGoOn, least = 3 }, { other }) =>
    mayGoOn === undefined || other.length < least || mayGoOn(other.at(-1));
  for (let run = 0; run < runs; run++) {
    const taking = others.map((other, index) => wants(other, found[index]));
    if (!taking.includes(true)) break;
    const times = [];
    for (let turn = 0; turn < all.length; turn++) {
      const index = (turn + run) % all.length;
      if (index === 0 || taking[index - 1]) times[index] = await all[index].measure();
    }
    for (const [index, taken] of taking.entries()) {
      if (!taken) continue;
      found[index].ours.push(times[0]);
      found[index].other.push(times[index + 1]);
      found[index].ratios.push(times[0] / times[index + 1]);
    }
  }
  return found.map((each) => ({
    ours: median(each.ours),
    other: median(each.other),
    ratio: median(each.ratios),
    runs: each.ratios.length,
  }));
}

/** Runs `work` over the items, at most `width` at a time. */
export async function inParallel(items, width, work) {
  const left = items.values();
  const one = async () => {
    for (const item of left) await work(item);
  };
  await Promise.all(Array.from({ length: width }, one));
}
