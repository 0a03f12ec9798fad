// Many ssh hosts on this machine: a few sshd, each at some loopback addresses, all run by and for the present user.
import { execFileSync, spawn } from 'node:child_process';
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { findProgram, inParallel, timed } from './measure.mjs';

/** sshd's own limit of addresses. */
const ADDRESSES = 16;

/** A stand-in for docker that works but knows no containers: the hosts run nothing. */
const DOCKER = `#!/bin/sh
case " $* " in
  *" inspect "*)
    # Docker says so for each name that no container has, and ends with 1.
    for word; do case $word in *-k3s | *-k3s-agent) echo "Error: No such container: $word" >&2 ;; esac; done
    exit 1 ;;
  *) echo 'Docker version 28.0.0, stand-in' ;;
esac
`;

export class SshHosts {
  #base;
  #servers = [];

  constructor(base, count) {
    this.#base = base;
    this.user = userInfo().username;
    this.hosts = Array.from({ length: count }, (_, index) => ({
      address: `127.0.13.${index + 1}`,
      folder: join(base, 'hosts', `node-${index + 1}`),
      name: `node-${index + 1}`,
    }));
  }

  /** Keys, folders, the stand-in for docker, and every sshd listening. */
  async start() {
    const base = this.#base;
    for (const { folder } of this.hosts) {
      mkdirSync(folder, { recursive: true });
      writeFileSync(
        join(folder, 'docker-compose.yml'),
        'services:\n  k3s:\n    image: node\n  k3s-agent:\n    image: node\n',
      );
    }
    mkdirSync(join(base, 'bin'));
    mkdirSync(join(base, 'home'));
    writeFileSync(join(base, 'bin', 'docker'), DOCKER);
    chmodSync(join(base, 'bin', 'docker'), 0o755);
    for (const name of ['client', 'host']) {
      execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', '', '-f', join(base, name)]);
    }
    if (process.getuid?.() === 0) mkdirSync('/run/sshd', { recursive: true });
    const groups = [];
    for (let at = 0; at < this.hosts.length; at += ADDRESSES) groups.push(this.hosts.slice(at, at + ADDRESSES));
    this.port = await freePort(this.hosts.map((host) => host.address));
    await Promise.all(groups.map((group, index) => this.#startOne(group, index)));
    const key = readFileSync(join(base, 'host.pub'), 'utf8').trim();
    this.knownHosts = this.hosts.map(({ address }) => `[${address}]:${this.port} ${key}\n`).join('');
    this.privateKeyFile = join(base, 'client');
    this.knownHostsFile = join(base, 'known_hosts');
    this.privateKey = readFileSync(this.privateKeyFile, 'utf8');
    writeFileSync(this.knownHostsFile, this.knownHosts);
    this.configFile = join(base, 'ssh_config');
    writeFileSync(
      this.configFile,
      [
        `Port ${this.port}`,
        `User ${this.user}`,
        `IdentityFile ${this.privateKeyFile}`,
        'IdentitiesOnly yes',
        `UserKnownHostsFile ${this.knownHostsFile}`,
        'BatchMode yes',
        '',
      ].join('\n'),
    );
  }

  async #startOne(group, index) {
    const file = (name) => join(this.#base, `sshd${index}.${name}`);
    // SHLVL: bash, as a login shell that sshd starts for a command, reads ~/.bashrc only at the first level.
    const environment = `"PATH=${join(this.#base, 'bin')}:/usr/bin:/bin" HOME=${join(this.#base, 'home')} SHLVL=2`;
    writeFileSync(
      file('config'),
      [
        `Port ${this.port}`,
        ...group.map(({ address }) => `ListenAddress ${address}`),
        `HostKey ${join(this.#base, 'host')}`,
        'PidFile none',
        `AuthorizedKeysFile ${join(this.#base, 'client.pub')}`,
        `SetEnv ${environment}`,
        'LogLevel VERBOSE',
        'StrictModes no',
        'UsePAM no',
        'PermitRootLogin yes',
        'PasswordAuthentication no',
        'KbdInteractiveAuthentication no',
        'PrintMotd no',
        'PrintLastLog no',
        'UseDNS no',
        // Many hosts are one sshd here; its own limits must not look like a slow host.
        'MaxStartups 500:30:1000',
        'MaxSessions 100',
        '',
      ].join('\n'),
    );
    writeFileSync(file('log'), '');
    const sshd = spawn(findProgram('sshd'), ['-D', '-f', file('config'), '-E', file('log')], { stdio: 'ignore' });
    this.#servers.push(sshd);
    for (let tries = 0; tries < 500; tries++) {
      const log = readFileSync(file('log'), 'utf8');
      if (sshd.exitCode !== null) throw new Error(`sshd does not start:\n${log}`);
      if (log.split('Server listening on').length > group.length) return;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    throw new Error('sshd does not listen after 10 s');
  }

  /** Variables of the host with that number (from 1), for the inventory. */
  variables(number) {
    const { address, folder } = this.hosts[number - 1];
    return {
      ansible_host: address,
      ansible_port: this.port,
      ansible_user: this.user,
      github_runner_cluster_dir: folder,
    };
  }

  /** Milliseconds of `ssh HOST true` on every host, with further words for ssh. */
  async bare(parallelism, words = []) {
    const begin = performance.now();
    await inParallel(this.hosts, parallelism, ({ address }) =>
      timed('ssh', ['-F', this.configFile, ...words, address, 'true'], { env: { PATH: process.env.PATH } }),
    );
    return performance.now() - begin;
  }

  /** What the hosts got since the last time this was asked. */
  count() {
    let connections = 0;
    let commands = 0;
    for (const name of readdirSync(this.#base).filter((each) => /^sshd\d+\.log$/.test(each))) {
      const log = readFileSync(join(this.#base, name), 'utf8');
      connections += log.split('Connection from ').length - 1;
      commands += log.split('Starting session: command').length - 1;
      // Emptied and not removed: sshd keeps its log open for appending.
      writeFileSync(join(this.#base, name), '');
    }
    return { connections, commands };
  }

  /** Stops listening, and waits for that: sshd tidies its own files meanwhile. Sessions end with their clients. */
  async close() {
    await Promise.all(
      this.#servers.map(async (sshd) => {
        if (sshd.exitCode !== null || sshd.signalCode !== null) return;
        const exited = new Promise((resolve) => sshd.once('exit', resolve));
        sshd.kill('SIGTERM');
        await exited;
      }),
    );
  }
}

/** A port that is free on all of the addresses. */
async function freePort(addresses) {
  for (let tries = 0; tries < 50; tries++) {
    const servers = [];
    try {
      let port = 0;
      for (const address of addresses) {
        const server = createServer();
        servers.push(server);
        await new Promise((resolve, reject) => {
          server.once('error', reject);
          server.listen(port, address, resolve);
        });
        port = server.address().port;
      }
      return port;
    } catch {
      // Taken on one of the addresses: another port.
    } finally {
      await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
    }
  }
  throw new Error('no port is free on all addresses');
}
