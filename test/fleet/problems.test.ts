import { describe, expect, it } from 'vitest';
import { declareFleet } from '../../src/fleet/declare.js';
import type { Cluster } from '../../src/fleet/fleet.js';
import type { Inventory } from '../../src/fleet/inventory/inventory.js';
import type { ProblemCode } from '../../src/fleet/problem.js';
import { type InventorySketch, sketchInventory } from '../helpers/inventory.js';

function declare(inventory: Inventory, groups = [...inventory.groups.keys()]): readonly Cluster[] {
  return declareFleet('c'.repeat(40), inventory, groups).clusters;
}

function problemsOf(...sketches: InventorySketch[]): Cluster['problems'] {
  return declare(sketchInventory(...sketches)).flatMap((cluster) => cluster.problems);
}

const three = { node1: {}, node2: {}, node3: {} };

interface Row {
  readonly code: ProblemCode;
  readonly when: string;
  readonly sketch: InventorySketch;
  readonly line: number;
  readonly hosts: readonly string[];
}

const rows: readonly Row[] = [
  {
    code: 'unknown-role',
    when: 'node_role is another word',
    sketch: { hosts: { ...three, node2: { node_role: 'controller' } } },
    line: 21,
    hosts: ['node2'],
  },
  {
    code: 'many-bootstraps',
    when: 'two hosts bootstrap',
    sketch: { hosts: { ...three, node1: { bootstrap: true }, node2: { bootstrap: 'yes' } } },
    line: 21,
    hosts: ['node1', 'node2'],
  },
  {
    code: 'agent-bootstraps',
    when: 'an agent bootstraps',
    sketch: { hosts: { ...three, node3: { bootstrap: true, node_role: 'agent' } } },
    line: 31,
    hosts: ['node3'],
  },
  {
    code: 'bootstrap-joins-elsewhere',
    when: 'the bootstrap host has a server_url',
    sketch: { hosts: { ...three, node1: { bootstrap: true, server_url: 'https://other:6443' } } },
    line: 12,
    hosts: ['node1'],
  },
  {
    code: 'no-servers',
    when: 'every host is an agent',
    sketch: { hosts: { node1: { node_role: 'agent' }, node2: { node_role: 'agent' } } },
    line: 11,
    hosts: [],
  },
  {
    code: 'even-servers',
    when: 'two hosts are forced servers',
    sketch: { hosts: { node1: { node_role: 'server' }, node2: { node_role: 'server' } } },
    line: 21,
    hosts: ['node1', 'node2'],
  },
  {
    code: 'nothing-to-join',
    when: 'no server may bootstrap',
    sketch: { hosts: { node1: { bootstrap: false } } },
    line: 10,
    hosts: ['node1'],
  },
  {
    code: 'bad-max-servers',
    when: 'max_servers is 0',
    sketch: { groupVars: { max_servers: 0 }, hosts: { node1: {} } },
    line: 2,
    hosts: ['node1'],
  },
  {
    code: 'sqlite-servers',
    when: 'a cluster on SQLite has two servers',
    sketch: {
      groupVars: { datastore: 'sqlite' },
      hosts: { node1: { node_role: 'server' }, node2: { node_role: 'server' } },
    },
    line: 21,
    hosts: ['node1', 'node2'],
  },
  {
    code: 'pinned-agent',
    when: 'an agent is pinned',
    sketch: {
      groupVars: { controller: true },
      hosts: { ...three, node3: { server_pinned: true, node_role: 'agent' } },
    },
    line: 32,
    hosts: ['node3'],
  },
  {
    code: 'setting-differs',
    when: 'a host has a port of its own',
    sketch: { hosts: { ...three, node2: { api_port: 7443 } } },
    line: 21,
    hosts: ['node2'],
  },
  {
    code: 'duplicate-node-name',
    when: 'two hosts have one node name',
    sketch: { hosts: { ...three, node3: { node_name: 'node1' } } },
    line: 31,
    hosts: ['node1', 'node3'],
  },
  {
    code: 'bad-node-name',
    when: 'a host is called Box_1',
    sketch: { hosts: { Box_1: {} } },
    line: 10,
    hosts: ['Box_1'],
  },
  {
    code: 'joins-itself',
    when: 'a server joins its own address',
    sketch: { hosts: { node1: { server_url: 'https://NODE1:6443', node_role: 'server' } } },
    line: 11,
    hosts: ['node1'],
  },
  {
    code: 'bad-join-url',
    when: 'server_url is not https',
    sketch: { hosts: { ...three, node2: { server_url: 'http://node9:6443' } } },
    line: 21,
    hosts: ['node2'],
  },
  {
    code: 'bad-value',
    when: 'a boolean is neither',
    sketch: { hosts: { ...three, node2: { server_pinned: 'maybe' } } },
    line: 21,
    hosts: ['node2'],
  },
  {
    code: 'same-machine',
    when: 'two hosts are one machine and directory',
    sketch: { hosts: { node1: { ansible_host: '10.0.0.1' }, node2: { ansible_host: '10.0.0.1' }, node3: {} } },
    line: 20,
    hosts: ['node1', 'node2'],
  },
];

describe('each problem has its code, the line of its cause and its hosts', () => {
  it.each(rows.map((row) => [row.code, row.when, row] as const))('%s when %s', (_code, _when, row) => {
    const found = problemsOf(row.sketch).filter((problem) => problem.code === row.code);
    expect(found[0]).toMatchObject({ file: 'inventory.yml', line: row.line, hosts: row.hosts });
    expect(found[0]?.message).toMatch(/[.]$/);
  });

  it('reports all problems of a cluster, not only the first', () => {
    const codes = problemsOf({ hosts: { Box_1: { node_role: 'boss' }, node2: { server_url: 'node1' } } }).map(
      (one) => one.code,
    );
    expect(codes).toEqual(expect.arrayContaining(['bad-node-name', 'unknown-role', 'bad-join-url']));
  });

  it('says no-such-group for a group that vanished, and declares no host of it', () => {
    const [cluster] = declare(sketchInventory({ hosts: three }), ['workers']);
    expect(cluster).toMatchObject({ readable: false, valid: false, controller: null, hosts: [] });
    expect(cluster?.problems[0]).toMatchObject({ code: 'no-such-group', file: 'inventory.yml', line: null });
  });

  it('says no-hosts for an empty group, on the line of the group', () => {
    const [cluster] = declare(sketchInventory({ hosts: {} }));
    expect(cluster?.problems[0]).toMatchObject({ code: 'no-hosts', file: 'inventory.yml', line: 1 });
  });

  it('says host-in-two-clusters in both clusters and leaves a third one valid', () => {
    const inventory = sketchInventory(
      { group: 'a', hosts: { node1: {} } },
      { group: 'b', hosts: { node1: {} } },
      { group: 'c', hosts: { node3: {} } },
    );
    const clusters = declare(inventory);
    expect(clusters.map((cluster) => [cluster.name, cluster.valid])).toEqual([
      ['a', false],
      ['b', false],
      ['c', true],
    ]);
    expect(clusters[0]?.problems.map((one) => one.code)).toContain('host-in-two-clusters');
    expect(clusters[1]?.problems.map((one) => one.code)).toContain('host-in-two-clusters');
  });

  it.each([
    [
      'its own directory, project and containers',
      { dir: '/srv/b', compose_project: 'b', container_name: 'b-k3s', agent_container_name: 'b-agent' },
      true,
    ],
    [
      'a directory of its own but the same project',
      { dir: '/srv/b', container_name: 'b-k3s', agent_container_name: 'b-agent' },
      false,
    ],
    ['another port', { ansible_port: 2222 }, true],
    ['another jump host', { ansible_ssh_common_args: '-J bastion' }, true],
  ])('takes a second host on one address with %s', (_what, own, valid) => {
    const hosts = { node1: { ansible_host: '10.0.0.1' }, node2: { ansible_host: '10.0.0.1', ...own }, node3: {} };
    expect(declare(sketchInventory({ hosts }))[0]?.valid).toBe(valid);
  });

  it('makes every cluster invalid when the inventory cannot be read, and says why in each', () => {
    const problem = {
      code: 'bad-syntax',
      message: 'It does not parse.',
      file: 'inventory.yml',
      line: 3,
      hosts: [],
    } as const;
    const inventory = { ...sketchInventory({ hosts: three }), problems: [problem] };
    const clusters = declare(inventory, ['github_runner_cluster', 'other']);
    expect(clusters.map((cluster) => [cluster.valid, cluster.problems[0]?.code])).toEqual([
      [false, 'bad-syntax'],
      [false, 'bad-syntax'],
    ]);
  });

  it('turns a needed variable without a value into the problem that the reader gave', () => {
    const inventory = sketchInventory({ hosts: three });
    const host = inventory.hosts.get('node2');
    const failure = {
      code: 'unresolved-template',
      message: 'It needs a lookup.',
      file: 'inventory.yml',
      line: 21,
      hosts: [],
    } as const;
    const hosts = new Map(inventory.hosts).set('node2', {
      name: 'node2',
      variables: host?.variables ?? new Map(),
      failures: new Map([
        ['ansible_host', failure],
        ['unrelated', failure],
      ]),
    });
    const [cluster] = declare({ ...inventory, hosts });
    expect(cluster?.problems).toEqual([{ ...failure, hosts: ['node2'] }]);
  });
});

describe('a variable with our prefix that nothing reads', () => {
  it('is a warning on its line with the hosts that have it, and no problem', () => {
    const [cluster] = declare(
      sketchInventory({ groupVars: { controler: true }, hosts: { ...three, node2: { node_rol: 'agent' } } }),
    );
    expect(cluster?.valid).toBe(true);
    expect(cluster?.warnings).toMatchObject([
      {
        code: 'unknown-variable',
        line: 2,
        hosts: ['node1', 'node2', 'node3'],
        message: expect.stringContaining('controler'),
      },
      { code: 'unknown-variable', line: 21, hosts: ['node2'] },
    ]);
  });
});

describe('the connection', () => {
  const hostOf = (own: Record<string, string | number>) => declare(sketchInventory({ hosts: { node1: own } }))[0];

  it.each([
    ['-o ProxyJump=bastion', [{ keyword: 'ProxyJump', value: 'bastion' }]],
    [
      '-J ops@bastion:2222 -C',
      [
        { keyword: 'ProxyJump', value: 'ops@bastion:2222' },
        { keyword: 'Compression', value: 'yes' },
      ],
    ],
    [`-o ProxyCommand="ssh -W %h:%p -q ops@bastion"`, [{ keyword: 'ProxyJump', value: 'ops@bastion' }]],
    [
      '-o ConnectTimeout=5 -o "ServerAliveInterval 7"',
      [
        { keyword: 'ConnectTimeout', value: '5' },
        { keyword: 'ServerAliveInterval', value: '7' },
      ],
    ],
  ])('passes on %s', (args, options) => {
    expect(hostOf({ ansible_ssh_common_args: args })?.hosts[0]?.connection.options).toEqual(options);
  });

  it.each([
    ['-o ProxyCommand="nc %h %p"'],
    ['-o LocalCommand=id'],
    ['-o PermitLocalCommand=yes'],
    ['-F /dev/null'],
    ['-o ProxyCommand="ssh -W %h:%p bastion; id"'],
    ['-o ProxyCommand="ssh -oProxyCommand=id -W %h:%p bastion"'],
    ['-o "ProxyJump=-oProxyCommand=id"'],
    ["-o 'unclosed"],
    ['bare-word'],
  ])('refuses %s, which ssh would run or which is unknown', (args) => {
    expect(hostOf({ ansible_ssh_extra_args: args })?.problems.map((one) => one.code)).toContain('bad-value');
  });

  it('ignores the options that fleet-role sets itself, and remembers them', () => {
    const cluster = hostOf({ ansible_ssh_common_args: '-o ControlMaster=auto -o StrictHostKeyChecking=no' });
    expect(cluster).toMatchObject({
      valid: true,
      hosts: [{ ignoredSshOptions: ['ControlMaster', 'StrictHostKeyChecking'] }],
    });
  });

  it('takes port and user from the arguments only where no variable names them', () => {
    const args = { ansible_ssh_common_args: '-p 2200 -l ops' };
    expect(hostOf(args)?.hosts[0]?.connection).toMatchObject({ port: 2200, user: 'ops' });
    expect(hostOf({ ...args, ansible_port: 22, ansible_user: 'me' })?.hosts[0]?.connection).toMatchObject({
      port: 22,
      user: 'me',
    });
  });

  it.each([['-oProxyCommand=id'], ['host name'], ['%h'], ['a\nb']])('refuses %j as ansible_host', (value) => {
    expect(hostOf({ ansible_host: value })?.problems[0]?.code).toBe('bad-value');
  });

  it('brackets an IPv6 address in join URLs', () => {
    const [cluster] = declare(
      sketchInventory({ hosts: { node1: { node_address: 'fd00::1' }, node2: { node_role: 'agent' } } }),
    );
    expect(cluster?.hosts[1]?.joinUrl).toBe('https://[fd00::1]:6443');
  });
});
