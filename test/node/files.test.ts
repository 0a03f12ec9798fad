import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { SOURCE } from './private-node.js';

const read = (name: string) => readFileSync(join(SOURCE, name), 'utf8');
const SCRIPTS = ['node-entrypoint.sh', 'fleet-role-is.sh'];

describe('the scripts', () => {
  test.each(SCRIPTS)('%s says what it is in its first two lines and is executable', (name) => {
    expect(read(name).split('\n').slice(0, 2)).toEqual(['#!/bin/sh', '# fleet-role-guards 1']);
    expect(statSync(join(SOURCE, name)).mode & 0o111).toBe(0o111);
  });

  test('share their rules word for word: each must work alone, so there is no third file', () => {
    const shared = SCRIPTS.map((name) => {
      const parts = read(name).split(/^# --- the same lines in .*$/m);
      expect(parts).toHaveLength(3);
      return parts[1];
    });
    expect(shared[0]).toBe(shared[1]);
    expect(shared[0]).toContain('has_datastore()');
  });

  test.each(SCRIPTS)('%s uses no program that the rancher/k3s image lacks', (name) => {
    // What fact 6.9 names as missing, and what a Debian machine would hide; the table tests run with the rest off PATH.
    const code = read(name).replaceAll(/^\s*#.*$/gm, '');
    const missing =
      'curl|stat|timeout|pgrep|pkill|nc|base64|httpd|inotifyd|python3?|perl|jq|bash|getent|dig|systemd-run';
    expect(code.match(new RegExp(`(^|[|&;(]\\s*|\\$\\()(${missing})\\s`, 'gm'))).toBeNull();
  });
});

/** What the override must say of a service, in whatever order. */
const MOUNT = {
  type: 'bind',
  source: './fleet-role.d',
  target: '/etc/github-runner',
  read_only: true,
  bind: { create_host_path: false },
};

describe('the override', () => {
  test('mounts the role directory read-only into each of the two services, and sets nothing else', () => {
    expect(parse(read('docker-compose.fleet-role.yml'))).toEqual({
      services: { k3s: { volumes: [MOUNT] }, 'k3s-agent': { volumes: [MOUNT] } },
    });
  });

  test('its second form also sets the entrypoint of each, on a line that can be left out', () => {
    const second = read('docker-compose.fleet-role-entrypoint.yml');
    const entrypoint = (role: string) => ['/etc/github-runner/node-entrypoint.sh', role];
    expect(parse(second)).toEqual({
      services: {
        k3s: { entrypoint: entrypoint('server'), volumes: [MOUNT] },
        'k3s-agent': { entrypoint: entrypoint('agent'), volumes: [MOUNT] },
      },
    });
    const without = second.replaceAll(/^ {4}entrypoint: .*\n/gm, '');
    expect(parse(without)).toEqual(parse(read('docker-compose.fleet-role.yml')));
  });
});

describe('the drop-ins', () => {
  const settings = (name: string) =>
    read(name)
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'));

  test('the one of k3s asks the guard with all it needs, and the data directory is left to fill in', () => {
    expect(settings('systemd/k3s.service.d/fleet-role.conf')).toEqual([
      '[Service]',
      'Environment=FLEET_ROLE_UNIT=k3s.service',
      'EnvironmentFile=-/etc/github-runner/k3s.env',
      'ExecCondition=/bin/sh /etc/github-runner/fleet-role-is.sh server /etc/github-runner/role "@DATA_DIR@/server" /etc/github-runner/join-url',
    ]);
  });

  test('the one of k3s-agent asks for the role', () => {
    expect(settings('systemd/k3s-agent.service.d/fleet-role.conf')).toEqual([
      '[Service]',
      'EnvironmentFile=-/etc/github-runner/k3s.env',
      'ExecCondition=/bin/sh /etc/github-runner/fleet-role-is.sh agent /etc/github-runner/role',
    ]);
  });
});

test('every file that a node gets has a kind that the build copies beside the bundle', () => {
  const names = readdirSync(SOURCE, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => entry.name);
  expect(names.filter((name) => !/\.(sh|yml|conf)$/.test(name))).toEqual([]);
});
