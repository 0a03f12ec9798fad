// npm run demo: a throw-away fleet repository with two commits and three local hosts, the bundle in plan and in apply
// against it, and what a reader sees of both. Needs git and nothing else.
import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';

const root = new URL('../..', import.meta.url).pathname;
const bundle = join(root, 'dist', 'index.js');
const hosts = ['mini-1', 'mini-2', 'mini-3'];
const base = mkdtempSync(join(tmpdir(), 'fleet-role-demo-'));

/** A stand-in for docker that works but knows no containers: the three hosts run nothing. */
const DOCKER = `#!/bin/sh
case " $* " in
  *" inspect "*)
    # Docker says so for each name that no container has, and ends with 1.
    for word; do case $word in *-k3s | *-k3s-agent) echo "Error: No such container: $word" >&2 ;; esac; done
    exit 1 ;;
  *) echo 'Docker version 28.0.0, stand-in' ;;
esac
`;

function write(path, text, mode = 0o644) {
  mkdirSync(join(path, '..'), { recursive: true });
  writeFileSync(path, text);
  chmodSync(path, mode);
}

function git(...args) {
  const identity = ['-c', 'user.name=Demo', '-c', 'user.email=demo@example.net', '-c', 'init.defaultBranch=main'];
  return execFileSync('git', ['-C', join(base, 'fleet'), ...identity, ...args], { encoding: 'utf8' }).trim();
}

function inventory(controller) {
  const lines = hosts.map(
    (name, index) => `        ${name}:
          ansible_connection: local
          github_runner_cluster_node_role: ${index === 0 ? 'server' : 'agent'}
          github_runner_cluster_dir: ${join(base, name)}
          github_runner_cluster_compose_project: ${name}
          github_runner_cluster_container_name: ${name}-k3s
          github_runner_cluster_agent_container_name: ${name}-k3s-agent
`,
  );
  return `all:
  children:
    github_runner_cluster:
      vars:
        github_runner_cluster_controller: ${controller}
        github_runner_cluster_tailnet_domain: example.ts.net
      hosts:
${lines.join('')}`;
}

function commit(text, message) {
  write(join(base, 'fleet', 'inventory.yml'), text);
  git('add', '.');
  git('commit', '-qm', message);
  return git('rev-parse', 'HEAD');
}

/** Runs the bundle as a shell outside GitHub would: inputs, and the files that the runner gives. */
function run(mode, from, to) {
  const temp = join(base, `${mode}-run`);
  mkdirSync(temp);
  for (const file of ['output', 'summary']) writeFileSync(join(temp, file), '');
  const env = {
    PATH: [join(base, 'bin'), process.env.PATH].join(delimiter),
    HOME: process.env.HOME ?? base,
    INPUT_MODE: mode,
    INPUT_REPOSITORY: join(base, 'fleet'),
    INPUT_REF: to,
    'INPUT_BASE-REF': from,
    'INPUT_CHECK-RUN': 'false',
    GITHUB_OUTPUT: join(temp, 'output'),
    GITHUB_STEP_SUMMARY: join(temp, 'summary'),
    GITHUB_WORKSPACE: base,
    RUNNER_TEMP: temp,
  };
  const result = spawnSync(process.execPath, [bundle], { env, encoding: 'utf8' });
  return {
    status: result.status,
    log: result.stdout + result.stderr,
    summary: readFileSync(join(temp, 'summary'), 'utf8'),
  };
}

function show(title, text) {
  console.log(`\n──── ${title} ${'─'.repeat(Math.max(0, 90 - title.length))}\n`);
  console.log(text.trimEnd());
}

function showFiles(name) {
  const lines = [];
  const walk = (folder, prefix) => {
    for (const entry of readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))) {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) walk(path, `${prefix}${entry.name}/`);
      else {
        const text = readFileSync(path, 'utf8');
        const brief =
          text.length < 120 && !text.includes('services:')
            ? text.trimEnd().replaceAll('\n', ' ⏎ ')
            : `(${text.split('\n').length} lines)`;
        lines.push(`${name}/${prefix}${entry.name}`.padEnd(52) + brief);
      }
    }
  };
  walk(join(base, name), '');
  return lines.join('\n');
}

let failed = false;
try {
  if (!existsSync(bundle)) throw new Error('dist/index.js is missing: run "npm run build" first');
  write(join(base, 'bin', 'docker'), DOCKER, 0o755);
  for (const name of hosts) {
    write(
      join(base, name, 'docker-compose.yml'),
      'services:\n  k3s:\n    image: node\n  k3s-agent:\n    image: node\n',
    );
  }
  mkdirSync(join(base, 'fleet'));
  git('init', '-q');
  const before = commit(inventory(false), 'describe the fleet');
  const after = commit(inventory(true), 'let fleet-role write the roles');
  for (const [mode, title] of [
    ['plan', 'what a reviewer sees of the pull request (plan, contacts no host)'],
    ['apply', 'what the merge does (apply, on three local hosts)'],
  ]) {
    const result = run(mode, before, after);
    show(title, result.summary || result.log);
    if (result.status !== 0) {
      failed = true;
      show(`the log of ${mode}, which ended with status ${result.status}`, result.log);
    }
  }
  show('what the hosts ended with', hosts.map(showFiles).join('\n'));
} finally {
  rmSync(base, { recursive: true, force: true });
}
console.log(failed ? '\nThe demo failed.' : '\nThe demo ran to its end; its folder is removed again.');
process.exitCode = failed ? 1 : 0;
