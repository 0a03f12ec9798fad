// npm run mutation [-- WORDS]: breaks each guard on purpose (only those whose name contains WORDS), runs the test that
// covers it, wants red, restores the file byte for byte, wants green, and prints a table. Exit 1 unless all is so.
//
// A file that is broken is never left behind: it is restored on every end of this process that a process can see, and
// the next run restores it from the backup after one that it cannot (SIGKILL, power).
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MUTATIONS } from './mutations.mjs';

const ROOT = new URL('../..', import.meta.url).pathname;
const CACHE = join(ROOT, '.cache');
/** While a file is broken: which one, its text, and the process that broke it. */
const BACKUP = join(CACHE, 'mutation-backup.json');
const REPORTS = mkdtempSync(join(tmpdir(), 'fleet-role-mutation-'));

let broken = null;

function restore() {
  if (broken === null) return;
  const { file, text } = broken;
  writeFileSync(join(ROOT, file), text);
  broken = null;
  rmSync(BACKUP, { force: true });
}

function breakFile(file, text, brokenText) {
  mkdirSync(CACHE, { recursive: true });
  // The backup first: from here on the file can be had again, whatever happens. `wx`: one run at a time.
  writeFileSync(BACKUP, JSON.stringify({ file, text, pid: process.pid }), { flag: 'wx' });
  broken = { file, text };
  writeFileSync(join(ROOT, file), brokenText);
}

/** Restores what a killed run left broken. Throws when that run is still there. */
function restoreFromBackup() {
  let left;
  try {
    left = JSON.parse(readFileSync(BACKUP, 'utf8'));
  } catch (error) {
    if (error.code === 'ENOENT') return;
    // Killed while the backup was written, which is before the file is broken.
    rmSync(BACKUP);
    return;
  }
  let alive = true;
  try {
    process.kill(left.pid, 0);
  } catch (error) {
    alive = error.code === 'EPERM';
  }
  if (alive) throw new Error(`process ${left.pid} is at the same work: wait for it, or end it`);
  writeFileSync(join(ROOT, left.file), left.text);
  rmSync(BACKUP);
  console.log(`restored ${left.file}, which a killed run had left broken`);
}

let running = null;

/** How the covering test ends: `red`, `green`, or what is wrong with the run itself. */
async function verdict({ file, name }) {
  const report = join(REPORTS, 'report.json');
  rmSync(report, { force: true });
  running = spawn(
    join(ROOT, 'node_modules/.bin/vitest'),
    ['run', '--config', 'test/vitest.config.ts', file, '-t', name, '--reporter=json', `--outputFile=${report}`],
    {
      cwd: ROOT,
      // One shell will do: that the others agree is what the tests themselves say.
      env: { ...process.env, FLEET_ROLE_SHELL: 'dash', FLEET_ROLE_ALL_SHELLS: '' },
      stdio: ['ignore', 'ignore', 'pipe'],
    },
  );
  let words = '';
  running.stderr.on('data', (chunk) => {
    words += chunk;
  });
  const [status, signal] = await once(running, 'close');
  running = null;
  let counts;
  try {
    counts = JSON.parse(readFileSync(report, 'utf8'));
  } catch {
    return {
      result: `no report (exit ${status ?? signal}): ${words.trim().replaceAll(/\s+/g, ' ').slice(-300)}`,
      tests: 0,
    };
  }
  const tests = counts.numPassedTests + counts.numFailedTests;
  if (tests === 0) return { result: 'no test has that name', tests };
  return { result: counts.numFailedTests > 0 ? 'red' : status === 0 ? 'green' : `exit ${status}`, tests };
}

/** What speaks against a mutation before it is tried, or null. */
function objection({ file, from, to }, text) {
  const found = text.split(from).length - 1;
  if (found !== 1) return `its text occurs ${found} times in ${file}, not once`;
  if (from === to) return 'it changes nothing';
  return null;
}

/** A broken script that does not even parse would prove nothing: every test goes red for it. */
function syntaxError(file) {
  if (!file.endsWith('.sh')) return null;
  const check = spawnSync('sh', ['-n', join(ROOT, file)], { encoding: 'utf8' });
  return check.status === 0 ? null : `is no valid script: ${check.stderr.trim()}`;
}

async function tryMutation(mutation) {
  const path = join(ROOT, mutation.file);
  const bytes = readFileSync(path);
  const text = bytes.toString('utf8');
  const against = objection(mutation, text);
  if (against !== null) return { ok: false, broken: against, restored: '', tests: 0 };
  let whenBroken;
  breakFile(
    mutation.file,
    text,
    text.replace(mutation.from, () => mutation.to),
  );
  try {
    const error = syntaxError(mutation.file);
    whenBroken = error === null ? await verdict(mutation.test) : { result: error, tests: 0 };
  } finally {
    restore();
  }
  if (!readFileSync(path).equals(bytes)) throw new Error(`${mutation.file} was not restored byte for byte`);
  const whenRestored = await verdict(mutation.test);
  return {
    ok: whenBroken.result === 'red' && whenRestored.result === 'green',
    broken: whenBroken.result,
    restored: whenRestored.result,
    tests: whenRestored.tests,
  };
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => {
    restore();
    running?.kill();
    process.exit(130);
  });
}
process.on('exit', () => {
  restore();
  rmSync(REPORTS, { recursive: true, force: true });
});

restoreFromBackup();
const words = process.argv.slice(2).join(' ');
const chosen = MUTATIONS.filter((mutation) => mutation.name.includes(words));
if (chosen.length === 0) throw new Error(`no mutation has "${words}" in its name`);
const before = execFileSync('git', ['status', '--porcelain', '--', 'src'], { cwd: ROOT, encoding: 'utf8' });
const width = Math.max(...chosen.map((mutation) => mutation.name.length));
console.log(`${'mutation'.padEnd(width)}  broken  restored  tests  seconds`);
let proved = 0;
for (const mutation of chosen) {
  const started = Date.now();
  const { ok, broken: whenBroken, restored, tests } = await tryMutation(mutation);
  if (ok) proved += 1;
  const seconds = ((Date.now() - started) / 1000).toFixed(1);
  const row = `${mutation.name.padEnd(width)}  ${whenBroken.padEnd(6)}  ${restored.padEnd(8)}  ${String(tests).padStart(5)}  ${seconds.padStart(7)}`;
  console.log(ok ? row : `${row}  NOT PROVED (${mutation.test.file}: ${mutation.test.name})`);
}
const after = execFileSync('git', ['status', '--porcelain', '--', 'src'], { cwd: ROOT, encoding: 'utf8' });
if (before !== after) console.log(`src changed meanwhile:\n${after}`);
console.log(`${proved} of ${chosen.length} mutations proved: red when broken, green when restored`);
process.exitCode = proved === chosen.length ? 0 : 1;
