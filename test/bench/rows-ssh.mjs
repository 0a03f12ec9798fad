// Rows about ssh hosts with nothing to do, and about what a change of files costs them.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { inventory, makeRepository, runBundle } from './fleet.mjs';
import { findProgram, sideBySide, timed } from './measure.mjs';
import { SshHosts } from './ssh.mjs';

/** How many hosts each of the programs works on at the same time. */
const PARALLELISM = 20;

/** The default of OpenSSH 9.0 to 9.8 (sntrup761) takes several times the processor time of this one. */
const FAST = ['-o', 'KexAlgorithms=curve25519-sha256'];

/** The rows of hosts that are reached by a real sshd. */
export async function sshRows({ base, runs, quick, mayGoOn, onCleanup }) {
  const count = quick ? 10 : 50;
  const nothing = `nothing to do on ${count} ssh hosts, whole process`;
  const missing = ['ssh', 'sshd', 'ssh-keygen'].filter((name) => findProgram(name) === null);
  if (missing.length > 0) {
    return [{ work: nothing, bound: { ratioAtMost: 1.3 }, note: `${missing.join(', ')}: not installed` }];
  }
  const folder = join(base, 'ssh');
  mkdirSync(folder);
  const hosts = new SshHosts(folder, count);
  onCleanup(() => hosts.close());
  await hosts.start();

  const repository = join(folder, 'repository');
  const commits = makeRepository(repository, [inventory(count, (number) => hosts.variables(number))]);
  const apply = async (result) => {
    const inputs = {
      ...{ mode: 'apply', parallelism: String(PARALLELISM) },
      ...{ 'ssh-private-key': hosts.privateKey, 'ssh-known-hosts': hosts.knownHosts },
    };
    const ended = await runBundle({ temp: join(folder, 'run'), repository, commits, inputs });
    if (ended.result !== result) throw new Error(`the apply came to ${ended.result}, not ${result}:\n${ended.text}`);
    return ended.all;
  };

  hosts.count();
  const firstTime = await apply('applied');
  const changed = hosts.count();
  await apply('unchanged');
  const unchanged = hosts.count();
  const perHost = ({ connections, commands }) =>
    `${round(connections / count)} connection, ${round(commands / count)} commands a host`;
  const ansible = playbook(hosts, folder, join(repository, 'inventory.yml'), onCleanup);
  // Its run takes as long as all others of a quick benchmark together.
  const mayGoOnAnsible = quick ? () => false : mayGoOn.playbook;
  const [bare, fast, beside] = await sideBySide(
    runs.ssh,
    () => apply('unchanged'),
    [
      { measure: () => hosts.bare(PARALLELISM), mayGoOn: mayGoOn.ssh },
      { measure: () => hosts.bare(PARALLELISM, FAST), mayGoOn: mayGoOn.ssh },
      ...(ansible === null ? [] : [{ measure: ansible, mayGoOn: mayGoOnAnsible, least: quick ? 1 : undefined }]),
    ],
    { warmUp: false },
  );
  return [
    {
      ...{ work: nothing, unit: 'ms', otherName: 'ssh HOST true on each', ...bare, bound: { ratioAtMost: 1.3 } },
      note: `${PARALLELISM} at a time; ${perHost(unchanged)}; the stand-in for docker knows no container`,
    },
    { work: nothing, unit: 'ms', otherName: 'the same by curve25519', ...fast },
    {
      ...{ work: nothing, unit: 'ms', otherName: 'ansible-playbook, 2 files', bound: { timesFaster: 10 } },
      ...(beside ?? { note: 'ansible-playbook is not installed' }),
    },
    {
      ...{ work: `change of files on ${count} ssh hosts: commands`, unit: '/host', ours: changed.commands / count },
      ...{ runs: 1, bound: { oursAtMost: 2 } },
      note: `${perHost(changed)}; ${Math.round(firstTime)} ms`,
    },
    {
      ...{ work: `change of files on ${count} ssh hosts: connections`, unit: '/host' },
      ...{ ours: changed.connections / count, runs: 1, bound: { oursAtMost: 1 } },
    },
  ];
}

const round = (number) => Math.round(number * 100) / 100;

/**
 * Milliseconds of a playbook that keeps the same two files and finds nothing to do, at its fastest: no facts,
 * pipelining, a known interpreter, one connection a host. Null where Ansible is not installed.
 */
function playbook(hosts, folder, inventoryFile, onCleanup) {
  const program = findProgram('ansible-playbook');
  if (program === null) return null;
  const sockets = join(folder, 'cp');
  mkdirSync(sockets);
  const file = join(folder, 'playbook.yml');
  writeFileSync(
    file,
    `- hosts: github_runner_cluster
  gather_facts: false
  tasks:
    - ansible.builtin.copy:
        content: "{{ github_runner_cluster_node_role }}\\n"
        dest: "{{ github_runner_cluster_dir }}/fleet-role.d/role"
    - ansible.builtin.copy:
        content: "https://node-1.example.ts.net:6443\\n"
        dest: "{{ github_runner_cluster_dir }}/fleet-role.d/join-url"
      when: inventory_hostname != 'node-1'
`,
  );
  const config = join(folder, 'ansible.cfg');
  writeFileSync(
    config,
    `[defaults]
forks = ${PARALLELISM}
interpreter_python = ${findProgram('python3') === null ? 'auto_silent' : '/usr/bin/python3'}
private_key_file = ${hosts.privateKeyFile}
local_tmp = ${join(folder, 'ansible')}
[ssh_connection]
pipelining = True
control_path_dir = ${sockets}
ssh_args = -F ${hosts.configFile} -o ControlMaster=auto -o ControlPersist=60s
`,
  );
  // The next run begins without the connections of this one, as on a new runner.
  const disconnect = () => {
    for (const name of readdirSync(sockets)) {
      const control = `ControlPath=${join(sockets, name)}`;
      spawnSync('ssh', ['-F', hosts.configFile, '-o', control, '-O', 'exit', 'host'], { stdio: 'ignore' });
    }
  };
  onCleanup(disconnect);
  const env = { PATH: process.env.PATH, HOME: folder, ANSIBLE_CONFIG: config, LC_ALL: 'C.UTF-8' };
  return async () => {
    const ended = await timed(program, ['-i', inventoryFile, file], { env });
    disconnect();
    const busy = ended.text.split('\n').filter((line) => /^node-\d+ .* changed=[1-9]/.test(line));
    if (busy.length > 0) throw new Error(`the playbook found something to do:\n${busy.join('\n')}`);
    return ended.all;
  };
}
