// Rows about one small run: starting, size, and a plan of three hosts with its git commands.
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { distFolder, inventory, makeRepository, runBundle } from './fleet.mjs';
import { findProgram, sideBySide, timed } from './measure.mjs';

const root = new URL('../..', import.meta.url).pathname;
const megabyte = 1_000_000;

const bareNode = async () => (await timed(process.execPath, ['-e', '0'])).all;

/** The rows of a fleet of three hosts. */
export async function startRows({ base, runs }) {
  const repository = join(base, 'three');
  const commits = makeRepository(repository, [inventory(3, undefined, false), inventory(3)]);
  const run = (more = {}) => runBundle({ temp: join(base, 'three-run'), repository, commits, ...more });
  return [await firstLine(run, runs.cheap), sizeRow(), await planOfThree(run, runs.cheap, join(base, 'recorded'))];
}

async function firstLine(run, runs) {
  // The first line of a run that says everything tells of the first git command: by then all that a plan needs to
  // begin is loaded.
  const first = async () => (await run({ environment: { RUNNER_DEBUG: '1' } })).first;
  const [found] = await sideBySide(runs, first, [{ measure: bareNode }]);
  return {
    ...{ work: 'bundle start to its first line, plan mode', unit: 'ms', otherName: 'node -e 0', ...found },
    bound: { ratioAtMost: 3.3 },
  };
}

function sizeRow() {
  const files = readdirSync(distFolder, { recursive: true }).map((name) => statSync(join(distFolder, name)));
  const bytes = files.reduce((sum, file) => sum + (file.isFile() ? file.size : 0), 0);
  const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const sources = readdirSync(join(root, 'src'), { recursive: true })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => readFileSync(join(root, 'src', name), 'utf8'));
  const isDead = (name) =>
    !sources.some((text) => new RegExp(`(?:from |import\\()'(?:[./]+/node_modules/)?${name}['/]`).test(text));
  const dead = Object.keys(dependencies ?? {}).filter(isDead);
  return {
    ...{ work: 'bundle size, all files of dist', unit: 'MB', ours: bytes / megabyte, runs: 1 },
    bound: { oursAtMost: 1.2 },
    note: dead.length === 0 ? 'every dependency is imported' : `imported nowhere in src: ${dead.join(', ')}`,
  };
}

async function planOfThree(run, runs, folder) {
  const commands = await recordGit(run, folder);
  const byHand = async () => {
    let sum = await bareNode();
    for (const command of commands) sum += (await timed(findProgram('git'), command.args, command)).all;
    return sum;
  };
  const [found] = await sideBySide(runs, async () => (await run()).all, [{ measure: byHand }]);
  return {
    ...{ work: 'plan of a 3-host change, git included', unit: 'ms', ...found },
    otherName: `node -e 0 + its ${commands.length} git commands`,
    bound: { ratioAtMost: 2.5 },
    note: commands.map(({ args }) => `git ${args.find((word) => !word.startsWith('-'))}`).join(', '),
  };
}

/** The git commands that one run gives, each with its arguments, environment and input, in order. */
async function recordGit(run, folder) {
  const bin = join(folder, 'bin');
  mkdirSync(bin, { recursive: true });
  writeFileSync(
    join(bin, 'git'),
    `#!/bin/sh
made='${folder}'/$(date +%s%N)-$$
mkdir "$made"
printf '%s\\0' "$@" >"$made/args"
env -0 >"$made/env"
tee "$made/stdin" | exec '${findProgram('git')}' "$@"
`,
  );
  chmodSync(join(bin, 'git'), 0o755);
  await run({ path: [bin, process.env.PATH].join(delimiter) });
  const words = (file) => readFileSync(file, 'utf8').split('\0').slice(0, -1);
  return readdirSync(folder)
    .filter((name) => name !== 'bin' && existsSync(join(folder, name, 'stdin')))
    .sort()
    .map((name) => ({
      args: words(join(folder, name, 'args')),
      env: Object.fromEntries(
        words(join(folder, name, 'env')).map((line) => [
          line.slice(0, line.indexOf('=')),
          line.slice(line.indexOf('=') + 1),
        ]),
      ),
      stdin: join(folder, name, 'stdin'),
    }));
}
