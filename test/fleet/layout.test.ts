import { describe, expect, it } from 'vitest';
import { compareClusters } from '../../src/fleet/changes.js';
import { declareFleet, vanishedIntoGroups } from '../../src/fleet/declare.js';
import type { Cluster, Fleet } from '../../src/fleet/fleet.js';
import type { Inventory } from '../../src/fleet/inventory/inventory.js';
import { ParseCache } from '../../src/fleet/inventory/parse-cache.js';
import { readInventory } from '../../src/fleet/inventory/read.js';
import type { LayoutInputs } from '../../src/fleet/layout.js';
import { isNeeded } from '../../src/fleet/variables.js';

const GROUPS: LayoutInputs = { layout: 'groups', serverGroup: null, agentGroup: null };
const AUTO: LayoutInputs = { ...GROUPS, layout: 'auto' };

/** The inventory as read from YAML text; line 1 is the first line of the text. */
function read(text: string): Inventory {
  const bytes = new TextEncoder().encode(`${text.trim()}\n`);
  const snapshot = {
    commit: 'c'.repeat(40),
    entries: new Map([['inventory.yml', { type: 'file' as const, oid: 'o1', size: bytes.length }]]),
    blobs: new Map([['o1', bytes]]),
  };
  const needed = (variable: string) => isNeeded(variable, 'groups');
  return readInventory(snapshot, { inventory: null, playbookDir: null, vaultPassword: null, needed }, new ParseCache());
}

function fleet(text: string, inputs: LayoutInputs = GROUPS, names = ['github_runner_cluster']): Fleet {
  return declareFleet('c'.repeat(40), read(text), names, inputs);
}

function cluster(text: string, inputs: LayoutInputs = GROUPS, names?: string[]): Cluster {
  const [first, ...others] = fleet(text, inputs, names).clusters;
  if (first === undefined || others.length > 0) throw new Error('not one cluster');
  return first;
}

const K3S_ANSIBLE = `
k3s_cluster:
  children:
    server:
      hosts:
        192.16.35.11:
        192.16.35.12:
        192.16.35.13:
    agent:
      hosts:
        192.16.35.21:
  vars:
    api_endpoint: "{{ hostvars[groups['server'][0]]['ansible_host'] | default(groups['server'][0]) }}"
`;

/** Two servers would be a problem: three, and an agent; \`vars\` are those of the cluster. */
const named = (vars: string, extra = '') => `
k3s_cluster:
  children:
    server:
      hosts:
        a: {ansible_host: 10.0.0.1}
        b: {ansible_host: 10.0.0.2}
        c: {ansible_host: 10.0.0.3}
    agent:
      hosts:
        d: {ansible_host: 10.0.0.4${extra}}
  vars: {${vars}}
`;

describe('the layout of groups', () => {
  it("reads k3s-ansible's own inventory: its cluster, roles, addresses and join URLs", () => {
    const found = cluster(K3S_ANSIBLE);
    expect(found.problems).toEqual([]);
    expect(found).toMatchObject({
      name: 'k3s_cluster',
      controller: false,
      datastore: 'etcd',
      bootstrap: '192.16.35.11',
      servers: ['192.16.35.11', '192.16.35.12', '192.16.35.13'],
    });
    expect(
      found.hosts.map(({ name, role, nodeName, address, joinUrl, runtime, dataDir, place }) => [
        `${name} ${role} ${nodeName} ${address} ${joinUrl} ${runtime} ${dataDir} ${place.line}`,
      ]),
    ).toEqual([
      ['192.16.35.11 server null 192.16.35.11 null native /var/lib/rancher/k3s 5'],
      ['192.16.35.12 server null 192.16.35.12 https://192.16.35.11:6443 native /var/lib/rancher/k3s 6'],
      ['192.16.35.13 server null 192.16.35.13 https://192.16.35.11:6443 native /var/lib/rancher/k3s 7'],
      ['192.16.35.21 agent null 192.16.35.21 https://192.16.35.11:6443 native /var/lib/rancher/k3s 10'],
    ]);
  });

  it('takes the data directory and the port that the other fleet sets, unless fleet-role has its own', () => {
    const theirs = cluster(named('api_port: 7443, k3s_server_location: /srv/k3s'));
    expect(theirs.settings?.apiPort).toBe(7443);
    expect(theirs.hosts.map((host) => host.dataDir)).toEqual(Array(4).fill('/srv/k3s'));
    expect(theirs.hosts[3]?.joinUrl).toBe('https://10.0.0.1:7443');
    const ours = cluster(
      named(
        'api_port: 7443, k3s_server_location: /srv/k3s, github_runner_cluster_api_port: 8443, github_runner_cluster_data_dir: /d',
      ),
    );
    expect([ours.settings?.apiPort, ours.hosts[0]?.dataDir]).toEqual([8443, '/d']);
  });

  it.each([
    ['ansible_host', 'ansible_host: 10.0.0.9', '10.0.0.9'],
    ['the inventory name', '', 'n'],
    ['node_address before ansible_host', 'ansible_host: 10.0.0.9, github_runner_cluster_node_address: n.x', 'n.x'],
    ['an IPv6 address', 'ansible_host: "fd00::9"', 'fd00::9'],
    [
      'a tailnet domain with a node name',
      'ansible_host: 10.0.0.9, github_runner_cluster_node_name: k, github_runner_cluster_tailnet_domain: ts.net',
      'k.ts.net',
    ],
  ])('gives a node the address of %s', (_what, vars, address) => {
    const found = cluster(`server: {hosts: {n: {${vars}}}}\nagent: {hosts: {m: {}}}`);
    expect([found.problems, found.hosts[0]?.address]).toEqual([[], address]);
  });

  it('makes the endpoint the join URL of all but the bootstrap host', () => {
    const found = cluster(
      named('api_endpoint: vip.example.net, api_port: 7443, github_runner_cluster_controller: true'),
    );
    expect(found.hosts.map((host) => host.joinUrl)).toEqual([null, ...Array(3).fill('https://vip.example.net:7443')]);
    // The bootstrap host's own file still names the first other server.
    expect(found.hosts[0]?.joinUrlFile).toBe('https://10.0.0.2:7443');
  });

  it.each(['10.0.0.1', 'A.Example'])('ignores an endpoint that is the bootstrap host: %s', (endpoint) => {
    const text = named(`api_endpoint: ${endpoint}`).replace(
      '10.0.0.1}',
      '10.0.0.1, github_runner_cluster_node_address: PLACE}',
    );
    const found = cluster(text.replace('PLACE', endpoint.toLowerCase()));
    expect(found.hosts.map((host) => host.joinUrl)).toEqual([
      null,
      ...Array(3).fill(`https://${endpoint.toLowerCase()}:6443`),
    ]);
  });

  it("keeps a host's own server_url before the endpoint", () => {
    const found = cluster(named('api_endpoint: vip', ', github_runner_cluster_server_url: "https://other:1"'));
    expect(found.hosts[3]?.joinUrl).toBe('https://other:1');
  });

  it('brackets an IPv6 endpoint', () => {
    expect(cluster(named('api_endpoint: "fd00::1"')).hosts[3]?.joinUrl).toBe('https://[fd00::1]:6443');
    expect(cluster(named('api_endpoint: "[fd00::1]"')).hosts[3]?.joinUrl).toBe('https://[fd00::1]:6443');
  });

  it('lets neither max_servers nor eligibility choose a role', () => {
    const vars = 'github_runner_cluster_controller: true, github_runner_cluster_max_servers: 1';
    const text = named(vars, ', github_runner_cluster_server_eligible: true').replace(
      '10.0.0.3}',
      '10.0.0.3, github_runner_cluster_server_eligible: false}',
    );
    expect(cluster(text).servers).toEqual(['a', 'b', 'c']);
  });

  it("lets fleet-role's own variables count where they are set", () => {
    const vars = ', github_runner_cluster_node_name: k3s-d, github_runner_cluster_runtime: compose';
    const found = cluster(
      named('github_runner_cluster_controller: true', vars).replace(
        '10.0.0.2}',
        '10.0.0.2, github_runner_cluster_bootstrap: true}',
      ),
    );
    expect(found.bootstrap).toBe('b');
    expect(found.hosts[3]).toMatchObject({ nodeName: 'k3s-d', runtime: 'compose', roleFile: 'agent' });
    const forced = cluster(
      named('')
        .replace('10.0.0.2}', '10.0.0.2, github_runner_cluster_node_role: agent}')
        .replace('10.0.0.4', '10.0.0.4, github_runner_cluster_node_role: server'),
    );
    expect(forced.servers).toEqual(['a', 'c', 'd']);
  });

  it('orders servers as their group does, whatever comes first in the file', () => {
    const text = 'k: {children: {agent: {hosts: {z: {}}}, server: {hosts: {y: {}, x: {}, w: {}}}}}';
    expect(cluster(text)).toMatchObject({ bootstrap: 'y', servers: ['y', 'x', 'w'] });
  });

  it.each([
    ['master and node', 'master: {hosts: {a: {}}}\nnode: {hosts: {b: {}}}', GROUPS],
    ['server before master', 'server: {hosts: {a: {}}}\nmaster: {hosts: {c: {}}}\nagent: {hosts: {b: {}}}', GROUPS],
    [
      'those that the inputs name',
      'cp: {hosts: {a: {}}}\nserver: {hosts: {x: {}}}\nworkers: {hosts: {b: {}}}',
      { ...GROUPS, serverGroup: 'cp', agentGroup: 'workers' },
    ],
    ['one that inherits its hosts', 'server: {children: {east: {hosts: {a: {}}}}}\nagent: {hosts: {b: {}}}', GROUPS],
  ])('finds the groups: %s', (_what, text, inputs) => {
    const found = cluster(text, inputs);
    expect(found.hosts.map((host) => `${host.name} ${host.role}`)).toEqual(['a server', 'b agent']);
  });

  it('takes a cluster of servers only', () => {
    expect(cluster('server: {hosts: {a: {}}}').hosts.map((host) => host.role)).toEqual(['server']);
    expect(cluster('server: {hosts: {a: {}}}\nagent: {hosts: {}}').problems).toEqual([]);
  });
});

describe('the cluster of the layout of groups', () => {
  const both = 'server: {hosts: {a: {}}}, agent: {hosts: {b: {}}}';
  it.each([
    ['the group above both', `k3s: {children: {${both}}}`, ['c'], 'k3s'],
    ['the nearest of several above both', `site: {children: {k3s: {children: {${both}}}}}`, ['c'], 'k3s'],
    [
      'the nearest where one is further up',
      'p: {children: {q: {children: {server: {hosts: {a: {}}}}}}}\nx: {children: {q: {}, agent: {hosts: {b: {}}}}}\ny: {children: {x: {}}}',
      ['c'],
      'x',
    ],
    ['the one that cluster-groups names, where none holds both', both.replace('}}, ', '}}\n'), ['c'], 'c'],
    [
      'the one that cluster-groups names among equals',
      `k: {children: {${both}}}\nl: {children: {server: {}, agent: {}}}`,
      ['l'],
      'l',
    ],
    ['never all', `all: {children: {${both}}}`, ['c'], 'c'],
  ])('is named by %s', (_what, text, names, name) => {
    const found = cluster(text, GROUPS, names);
    expect([found.name, found.problems]).toEqual([name, []]);
  });

  it('warns of hosts that are in it and have no role', () => {
    const found = cluster(`k3s: {hosts: {nfs: {}}, children: {${both}}}`);
    expect(found.hosts.map((host) => host.name)).toEqual(['a', 'b']);
    expect(found.warnings).toMatchObject([{ code: 'no-role-group', line: 1, hosts: ['nfs'] }]);
  });
});

describe('a group whose order Ansible leaves to chance', () => {
  const open = (name: string) =>
    `${name}: {children: {x: {children: {y: {hosts: {a: {}}}}}, z: {children: {w: {hosts: {b: {}, c: {}}}}}}}`;
  it.each([
    ['the ordered group', open('github_runner_cluster'), { ...GROUPS, layout: 'ordered' } as const, ['open-order']],
    ['the group of servers', `${open('server')}\nagent: {hosts: {d: {}}}`, GROUPS, ['open-order']],
    ['the group of agents, where order decides nothing', `${open('agent')}\nserver: {hosts: {d: {}}}`, GROUPS, []],
  ])('is a warning for %s', (_what, text, inputs, codes) => {
    expect(cluster(text, inputs).warnings.map(({ code }) => code)).toEqual(codes);
  });
});

describe('problems of the layout of groups', () => {
  const groups = { ...GROUPS };
  it.each([
    [
      'a host in both groups',
      'server:\n  hosts:\n    a: {}\nagent:\n  hosts:\n    b: {}\n    a: {}',
      groups,
      { code: 'bad-structure', line: 7, hosts: ['a'], message: /a is in server and in agent; .* remove it/ },
    ],
    [
      'no group of servers',
      'agent: {hosts: {b: {}}}',
      groups,
      { code: 'no-such-group', message: /server or master.*server-group/ },
    ],
    [
      'no group of the name in server-group',
      'server: {hosts: {b: {}}}',
      { ...groups, serverGroup: 'cp' },
      { code: 'no-such-group', message: /no group cp.*server-group/ },
    ],
    [
      'no group of the name in agent-group',
      'server: {hosts: {b: {}}}',
      { ...groups, agentGroup: 'w' },
      { code: 'no-such-group', message: /no group w.*agent-group/ },
    ],
    [
      'an empty group of servers',
      'agent: {hosts: {b: {}}}\nserver: {hosts: {}}',
      groups,
      { code: 'no-hosts', line: 2, message: /controller off/ },
    ],
    [
      'two groups that hold both',
      'k: {children: {server: {hosts: {a: {}}}, agent: {hosts: {b: {}}}}}\nl: {children: {server: {}, agent: {}}}',
      groups,
      { code: 'bad-structure', line: 2, message: /k and l.*cluster-groups/ },
    ],
    [
      'an endpoint with a scheme',
      named('', ', api_endpoint: "https://vip"'),
      groups,
      { code: 'bad-value', line: 10, message: /api_endpoint/ },
    ],
    [
      'a port that is none',
      named('', ', api_port: high'),
      groups,
      { code: 'bad-value', line: 10, message: /^api_port/ },
    ],
    [
      'an endpoint whose template cannot be resolved',
      named('', ', api_endpoint: "{{ lookup(1) }}"'),
      groups,
      { code: 'unresolved-template', line: 10 },
    ],
    [
      'two ports in one cluster',
      named('api_port: 7443', ', api_port: 8443'),
      groups,
      { code: 'setting-differs', line: 10, hosts: ['d'], message: /^api_port is 7443 for a and 8443 for d/ },
    ],
    [
      'an endpoint that is the host itself',
      named('api_endpoint: 10.0.0.2'),
      groups,
      { code: 'joins-itself', line: 11, hosts: ['b'], message: /remove api_endpoint/ },
    ],
    [
      'a tailnet domain without a node name',
      named('', ', github_runner_cluster_tailnet_domain: ts.net'),
      groups,
      { code: 'bad-value', line: 10, message: /node_name/ },
    ],
    ['two servers', 'server: {hosts: {a: {}, b: {}}}\nagent: {hosts: {c: {}}}', groups, { code: 'even-servers' }],
    [
      'one machine twice',
      'server: {hosts: {a: {ansible_host: 10.0.0.1}}}\nagent: {hosts: {b: {ansible_host: 10.0.0.1}}}',
      groups,
      { code: 'same-machine', line: 2, hosts: ['a', 'b'] },
    ],
  ])(
    '%s',
    (_what, text, inputs, {
      message,
      ...expected
    }: { code: string; line?: number; hosts?: string[]; message?: RegExp }) => {
      const { problems, valid } = cluster(text, inputs);
      expect(valid).toBe(false);
      expect(problems).toMatchObject([expected]);
      if (message !== undefined) expect(problems[0]?.message.replace(/\n/g, ' ')).toMatch(message);
    },
  );

  it('leaves the other layout alone: what it does not need cannot make it invalid', () => {
    const text = 'github_runner_cluster:\n  hosts: {a: {}}\n  vars: {api_endpoint: "{{ lookup(1) }}", api_port: high}';
    expect(cluster(text, { ...GROUPS, layout: 'ordered' })).toMatchObject({ valid: true, settings: { apiPort: 6443 } });
  });
});

describe('layout auto', () => {
  const pair = 'server: {hosts: {a: {}}}\nagent: {hosts: {b: {}}}';
  it.each([
    [
      'the ordered group where it exists',
      `${pair}\ngithub_runner_cluster: {hosts: {a: {}}}`,
      AUTO,
      'ordered',
      /has the group github_runner_cluster/,
    ],
    [
      'the ordered group even where it is empty',
      `${pair}\ngithub_runner_cluster: {hosts: {}}`,
      AUTO,
      'ordered',
      /has the group/,
    ],
    [
      'the two groups where it does not',
      pair,
      AUTO,
      'groups',
      /no group github_runner_cluster, and has server and agent/,
    ],
    ['the older names', 'master: {hosts: {a: {}}}\nnode: {hosts: {b: {}}}', AUTO, 'groups', /master and node/],
    ['the ordered one where a group of the pair is missing', 'server: {hosts: {a: {}}}', AUTO, 'ordered', /no pair/],
    ['what the input says', pair, { ...AUTO, layout: 'ordered' } as const, 'ordered', /input layout/],
  ])('picks %s, and says why', (_what, text, inputs, kind, reason) => {
    expect(fleet(text, inputs).layout).toEqual({ kind, reason: expect.stringMatching(reason) });
  });

  it('keeps to the ordered layout where cluster-groups names several groups', () => {
    expect(fleet(pair, AUTO, ['x', 'y']).layout).toMatchObject({
      kind: 'ordered',
      reason: expect.stringMatching(/one cluster/),
    });
  });

  it('warns where the ordered group holds a group of servers and one of agents', () => {
    const text = 'k: {children: {server: {hosts: {a: {}}}, agent: {hosts: {b: {}}}}}';
    expect(cluster(text, AUTO, ['k']).warnings).toMatchObject([{ code: 'layout', line: 1 }]);
    expect(cluster(text, { ...AUTO, layout: 'ordered' }, ['k']).warnings).toEqual([]);
  });

  it('takes an ordered group that vanished since the base as a problem, not as another layout', () => {
    const before = fleet(`${pair}\ngithub_runner_cluster: {hosts: {z: {}}}`, AUTO);
    const after = fleet(pair, AUTO);
    expect(vanishedIntoGroups(after, before)).toBe(true);
    expect(vanishedIntoGroups(before, after)).toBe(false);
    expect(vanishedIntoGroups(after, after)).toBe(false);
    expect(vanishedIntoGroups(after, fleet('x: {}', AUTO))).toBe(false);
  });
});

describe('changes in the layout of groups', () => {
  const compare = (before: string, after: string) => {
    const [base, head] = [cluster(before), cluster(after)];
    if (!base.valid || !head.valid) throw new Error(JSON.stringify([base.problems, head.problems]));
    return compareClusters(base, head);
  };

  it('names the group as the cause of a role, and no order', () => {
    const before = 'server:\n  hosts:\n    a: {}\nagent:\n  hosts:\n    b: {}\n    c: {}';
    const after = 'server:\n  hosts:\n    a: {}\n    b: {}\n    c: {}\nagent:\n  hosts: {}';
    const { changes, warnings } = compare(before, after);
    expect(changes).toMatchObject([
      { host: 'b', kind: 'promotion', cause: { line: 4, reason: 'the group of b is now server (a group of servers)' } },
      { host: 'c', kind: 'promotion', cause: { line: 5 } },
    ]);
    expect(warnings).toEqual([]);
  });

  it.each([
    ['api_port', 'api_port: 7443', 11],
    ['api_endpoint', 'api_endpoint: vip', 11],
  ])('names %s as the cause of a join URL', (variable, vars, line) => {
    const { changes } = compare(named(''), named(vars));
    expect(changes.map(({ host, kind, cause }) => [host, kind, cause.line])).toEqual(
      ['b', 'c', 'd'].map((host) => [host, 'join-url', line]),
    );
    expect(changes[0]?.cause.reason).toContain(variable);
  });

  it('names the first server as the cause where the endpoint only follows it', () => {
    const after = K3S_ANSIBLE.replace('        192.16.35.11:\n', '').replace(
      '35.13:\n',
      '35.13:\n        192.16.35.11:\n',
    );
    const { changes, warnings } = compare(K3S_ANSIBLE, after);
    expect(changes.map(({ host, kind }) => `${kind} ${host}`)).toEqual([
      'join-url 192.16.35.12',
      'join-url 192.16.35.13',
      'join-url 192.16.35.11',
      'join-url 192.16.35.21',
    ]);
    for (const { cause } of changes) expect(cause.reason).not.toContain('api_endpoint');
    expect(warnings.map(({ code }) => code)).toEqual(['bootstrap-moved']);
  });

  it('names the address of the bootstrap host as the cause', () => {
    const { changes } = compare(named(''), named('').replace('10.0.0.1', '10.0.0.9'));
    expect(changes.find(({ host }) => host === 'd')?.cause).toMatchObject({
      line: 5,
      reason: expect.stringContaining('ansible_host'),
    });
  });
});
