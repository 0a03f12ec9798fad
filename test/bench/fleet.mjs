// Fleets of any size as inventories, repositories with two commits, and the bundle at work on them.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { timed } from './measure.mjs';

const root = new URL('../..', import.meta.url).pathname;
export const distFolder = join(root, 'dist');
let bundle = join(distFolder, 'index.js');
const preload = new URL('./peak-memory.cjs', import.meta.url).pathname;

/** Lets every run take a copy of dist in `folder`: a build that somebody starts meanwhile changes nothing. */
export function copyBundle(folder) {
  cpSync(distFolder, join(folder, 'dist'), { recursive: true });
  bundle = join(folder, 'dist', 'index.js');
}

const GROUP = 'github_runner_cluster';

/**
 * An inventory of `count` hosts in one cluster: five servers (fewer where there are fewer hosts) and agents. `more`
 * gives further variables of a host by its number from 1, `controller` whether fleet-role writes roles.
 */
export function inventory(count, more = () => ({}), controller = true) {
  const lines = [
    'all:',
    '  children:',
    `    ${GROUP}:`,
    '      vars:',
    `        ${GROUP}_controller: ${controller}`,
    `        ${GROUP}_tailnet_domain: example.ts.net`,
    '      hosts:',
  ];
  const servers = count >= 5 ? 5 : 1;
  for (let number = 1; number <= count; number++) {
    lines.push(`        node-${number}:`);
    const variables = {
      ansible_host: `10.${number >> 16}.${(number >> 8) & 255}.${number & 255}`,
      [`${GROUP}_node_role`]: number <= servers ? 'server' : 'agent',
      ...more(number),
    };
    for (const [name, value] of Object.entries(variables)) lines.push(`          ${name}: ${value}`);
  }
  return `${lines.join('\n')}\n`;
}

/** The same fleet after an edit: `changed` agents, spread over the inventory, join through another URL. */
export function editedInventory(count, changed) {
  const first = count >= 5 ? 6 : 2;
  const every = Math.max(1, Math.floor((count - first + 1) / changed));
  const isChanged = (number) => number >= first && (number - first) % every === 0 && (number - first) / every < changed;
  return inventory(count, (number) =>
    isChanged(number) ? { [`${GROUP}_server_url`]: 'https://elsewhere.example.net:6443' } : {},
  );
}

/** A repository in `folder` with one commit for each text of `inventory.yml`; gives their ids. */
export function makeRepository(folder, texts) {
  mkdirSync(folder, { recursive: true });
  const identity = ['-c', 'user.name=Bench', '-c', 'user.email=bench@example.net', '-c', 'init.defaultBranch=main'];
  const git = (...args) => execFileSync('git', ['-C', folder, ...identity, ...args], { encoding: 'utf8' }).trim();
  git('init', '-q');
  return texts.map((text, index) => {
    writeFileSync(join(folder, 'inventory.yml'), text);
    git('add', '.');
    git('commit', '-qm', `commit ${index + 1}`);
    return git('rev-parse', 'HEAD');
  });
}

/**
 * One run of the bundle as a shell outside GitHub would start it. Gives what `timed` gives, the outputs `result` and
 * `changed`, and with `peak: true` its peak memory in kB.
 */
export async function runBundle({ temp, repository, commits, inputs = {}, path, environment = {}, peak = false }) {
  mkdirSync(temp, { recursive: true });
  const file = (name) => {
    writeFileSync(join(temp, name), '');
    return join(temp, name);
  };
  const env = {
    PATH: path ?? process.env.PATH,
    HOME: temp,
    INPUT_MODE: 'plan',
    INPUT_REPOSITORY: repository,
    INPUT_REF: commits.at(-1),
    'INPUT_BASE-REF': commits.at(-2) ?? commits.at(-1),
    'INPUT_CHECK-RUN': 'false',
    ...Object.fromEntries(Object.entries(inputs).map(([name, value]) => [`INPUT_${name.toUpperCase()}`, value])),
    GITHUB_OUTPUT: file('output'),
    GITHUB_STEP_SUMMARY: file('summary'),
    GITHUB_WORKSPACE: temp,
    RUNNER_TEMP: temp,
    ...environment,
    ...(peak ? { FLEET_BENCH_PEAK: file('peak') } : {}),
  };
  const result = await timed(process.execPath, [...(peak ? ['--require', preload] : []), bundle], { env });
  const outputs = readFileSync(env.GITHUB_OUTPUT, 'utf8');
  const output = (name) => new RegExp(`^${name}(?:=|<<\\S+\\n)(.*)$`, 'm').exec(outputs)?.[1] ?? '';
  return {
    ...result,
    result: output('result'),
    changed: output('changed'),
    peak: peak ? Number(readFileSync(env.FLEET_BENCH_PEAK, 'utf8')) : null,
  };
}
