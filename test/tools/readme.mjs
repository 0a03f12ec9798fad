// Writes what README.md shows of other files between its markers: the tables of inputs and outputs, from action.yml, and
// a plan, made by the bundle from the two inventories that stand above it in the README.
//
//   node test/tools/readme.mjs                 rewrites README.md
//   node test/tools/readme.mjs --check [FILE]  fails when README.md (or FILE) would be rewritten, and says what differs
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'yaml';

const root = new URL('../..', import.meta.url).pathname;
const action = parse(readFileSync(join(root, 'action.yml'), 'utf8'));
const cell = (text) => text.replaceAll('|', '\\|').replaceAll('\n', ' ');

const inputsTable = [
  '| input | default | what it says |',
  '| --- | --- | --- |',
  ...Object.entries(action.inputs).map(
    ([name, input]) =>
      `| \`${name}\` | ${input.default === '' ? '' : `\`${cell(input.default)}\``} | ${cell(input.description)} |`,
  ),
].join('\n');

const outputsTable = [
  '| output | what it holds |',
  '| --- | --- |',
  ...Object.entries(action.outputs).map(([name, output]) => `| \`${name}\` | ${cell(output.description)} |`),
].join('\n');

/** The report of the bundle in plan mode between the two inventories; the same every time, commit ids included. */
function plan(before, after) {
  const work = mkdtempSync(join(tmpdir(), 'fleet-role-readme-'));
  try {
    const when = '2026-01-01T00:00:00Z';
    const identity = { GIT_AUTHOR_NAME: 'A', GIT_AUTHOR_EMAIL: 'a@example.net', GIT_AUTHOR_DATE: when };
    const committer = { GIT_COMMITTER_NAME: 'A', GIT_COMMITTER_EMAIL: 'a@example.net', GIT_COMMITTER_DATE: when };
    const env = { PATH: process.env.PATH, HOME: work, ...identity, ...committer };
    const git = (...args) => execFileSync('git', ['-C', work, ...args], { env, encoding: 'utf8' }).trim();
    git('init', '-q', '-b', 'main', '.');
    const commit = (text, message) => {
      writeFileSync(join(work, 'inventory.yml'), text);
      git('add', 'inventory.yml');
      git('commit', '-qm', message);
      return git('rev-parse', 'HEAD');
    };
    const base = commit(before, 'before');
    const head = commit(after, 'after');
    for (const file of ['output', 'summary']) writeFileSync(join(work, file), '');
    const inputs = { INPUT_MODE: 'plan', INPUT_REPOSITORY: work, INPUT_REF: head, 'INPUT_BASE-REF': base };
    const files = { GITHUB_OUTPUT: join(work, 'output'), GITHUB_STEP_SUMMARY: join(work, 'summary') };
    const run = { ...env, ...inputs, ...files, 'INPUT_CHECK-RUN': 'false', GITHUB_WORKSPACE: work, RUNNER_TEMP: work };
    const result = spawnSync(process.execPath, [join(root, 'dist', 'index.js')], { env: run, encoding: 'utf8' });
    if (result.status !== 0) throw new Error(`the plan ended with ${result.status}: ${result.stdout}${result.stderr}`);
    // Under the README's own headings.
    return readFileSync(join(work, 'summary'), 'utf8')
      .replace(/^## .*\n+/, '')
      .replace(/^### /m, '#### ')
      .trim();
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

function between(text, name, content) {
  const [start, end] = [`<!-- ${name} -->\n`, `\n<!-- /${name} -->`];
  const from = text.indexOf(start);
  const to = text.indexOf(end);
  if (from < 0 || to < from) throw new Error(`README.md has no ${start.trim()} … ${end.trim()}`);
  return text.slice(0, from + start.length) + content + text.slice(to);
}

/** The fenced YAML block behind a marker. */
function inventory(text, name) {
  const found = new RegExp(`<!-- ${name} -->\n\`\`\`yaml\n([\\s\\S]*?)\`\`\``).exec(text);
  if (found === null) throw new Error(`README.md has no inventory behind <!-- ${name} -->`);
  return found[1];
}

const check = process.argv[2] === '--check';
const path = process.argv[3] ?? join(root, 'README.md');
const now = readFileSync(path, 'utf8');
let made = between(now, 'inputs', inputsTable);
made = between(made, 'outputs', outputsTable);
made = between(made, 'plan', plan(inventory(now, 'inventory before'), inventory(now, 'inventory after')));

if (!check) {
  writeFileSync(path, made);
} else if (made !== now) {
  const want = made.split('\n');
  const at = want.findIndex((line, index) => line !== now.split('\n')[index]);
  process.stderr.write(
    `README.md is not what action.yml and the bundle say, first at line ${at + 1}:\n${want[at]}\nRun "node test/tools/readme.mjs" and commit README.md.\n`,
  );
  process.exit(1);
}
