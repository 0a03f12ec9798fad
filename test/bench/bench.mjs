// `npm run bench`: what fleet-role costs, beside what the same work costs others on this machine. Prints a table, and
// writes it as JSON. Needs git; measures ssh and Ansible where they are installed; needs no network and asserts nothing.
//   --quick       fewer runs and fewer hosts: under a minute instead of five
//   --all-runs    seven runs for every row, however long that takes; else what is slow on a slow machine gets three
//   --json FILE   where the JSON goes (default: fleet-role-bench.json in the machine's folder for temporary files)
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, loadavg, tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { copyBundle, distFolder } from './fleet.mjs';
import { endAll, findProgram } from './measure.mjs';
import { clusterRows } from './rows-cluster.mjs';
import { scaleRows } from './rows-scale.mjs';
import { sshRows } from './rows-ssh.mjs';
import { startRows } from './rows-start.mjs';
import { verdictOf, writeTable } from './table.mjs';

const { values: options } = parseArgs({
  options: { quick: { type: 'boolean' }, 'all-runs': { type: 'boolean' }, json: { type: 'string' } },
});
const quick = options.quick === true;
const jsonFile = options.json ?? join(tmpdir(), 'fleet-role-bench.json');

/** Runs of each row, one that does not count aside; `alone`: of what has nothing beside it. */
const runs = quick
  ? { cheap: 5, slow: 3, alone: 2, stages: 3, ssh: 3 }
  : { cheap: 11, slow: 7, alone: 7, stages: 7, ssh: 7 };
const begin = performance.now();
/** Whether a slow program gets one more run, so that the whole ends in time on a slow machine. */
const before = (deadline) => (last) => options['all-runs'] === true || performance.now() - begin + last < deadline;
const mayGoOn = { inventory: before(60_000), playbook: before(200_000), ssh: before(270_000) };

function machineFacts() {
  const version = (program, ...args) => {
    if (findProgram(program) === null) return null;
    const { stdout, stderr } = spawnSync(program, args, { encoding: 'utf8' });
    return `${stdout}${stderr}`.split('\n')[0].trim();
  };
  return {
    cores: cpus().length,
    processor: cpus()[0]?.model ?? 'unknown',
    memoryGB: Math.round(totalmem() / 1e9),
    load: Math.round((loadavg()[0] ?? 0) * 10) / 10,
    platform: `${process.platform} ${process.arch}`,
    node: process.version,
    git: version('git', '--version'),
    ssh: version('ssh', '-V'),
    ansible: version('ansible-playbook', '--version'),
  };
}

let interrupted = false;
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.on(signal, () => {
    interrupted = true;
    endAll();
  });
}

const base = mkdtempSync(join(tmpdir(), 'fleet-bench-'));
const cleanups = [];
try {
  if (!existsSync(join(distFolder, 'index.js'))) {
    throw new Error('dist/index.js is missing: run "npm run build" first');
  }
  copyBundle(base);
  const machine = machineFacts();
  const facts = Object.entries(machine).filter(([, value]) => value !== null);
  console.log(`${facts.map(([name, value]) => `${name} ${value}`).join('; ')}\n`);
  const world = {
    ...{ base, runs, quick, mayGoOn },
    onCleanup: (work) => cleanups.push(work),
  };
  const rows = [];
  for (const part of [startRows, scaleRows, sshRows, clusterRows]) {
    const made = await part(world);
    rows.push(...made.map((row) => ({ ...row, verdict: verdictOf(row) })));
  }
  console.log(writeTable(rows));
  const seconds = Math.round((performance.now() - begin) / 1000);
  writeFileSync(jsonFile, `${JSON.stringify({ version: 1, quick, seconds, machine, rows }, null, 2)}\n`);
  console.log(`\n${seconds} s. The same as JSON: ${jsonFile}`);
} catch (error) {
  console.error(interrupted ? 'Interrupted.' : error);
  process.exitCode = interrupted ? 130 : 1;
} finally {
  // The last made first: a connection ends while its server still listens.
  for (const cleanup of cleanups.reverse()) await cleanup();
  rmSync(base, { recursive: true, force: true });
}
