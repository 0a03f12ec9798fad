import { describe, expect, it } from 'vitest';
import { ParseCache } from '../../../src/fleet/inventory/parse-cache.js';
import { readInventory } from '../../../src/fleet/inventory/read.js';
import { deciding, order, placeOf, problemsOf, read, snapshotOf, value } from './snapshots.js';

const V = 'github_runner_cluster_dir';
const inventory = `all:
  vars: {${V}: inline-all}
  children:
    parent:
      vars: {${V}: inline-parent}
      children:
        child:
          vars: {${V}: inline-child}
          hosts:
            h: {${V}: inline-host}
`;

describe('the precedence of variables', () => {
  /** From the weakest to the strongest; each beats all above it. */
  const places: readonly (readonly [string, string])[] = [
    ['group_vars/all.yml', 'file-all'],
    ['play/group_vars/all/x', 'play-all'],
    ['group_vars/parent', 'file-parent'],
    ['group_vars/child.json', 'file-child'],
    ['play/group_vars/parent.yaml', 'play-parent'],
    ['play/group_vars/child.yml', 'play-child'],
    ['host_vars/h/main.yml', 'file-host'],
    ['play/host_vars/h', 'play-host'],
  ];

  it.each(places.map((_, index) => index))('place %i beats all weaker ones', (last) => {
    const withoutHost = inventory.replace(`{${V}: inline-host}`, '');
    const files = Object.fromEntries(places.slice(0, last + 1).map(([path, text]) => [path, `{"${V}": "${text}"}`]));
    const result = read({ 'inventory.yml': withoutHost, ...files, 'play/x': '' }, { playbookDir: 'play' });
    expect(value(result, 'h', V)).toBe(places[last]?.[1]);
    expect(placeOf(result, 'h', V)).toBe(`${places[last]?.[0]}:1`);
  });

  it("a host's own value beats all groups, and its files beat that", () => {
    expect(value(read({ 'inventory.yml': inventory, 'group_vars/child': `${V}: x` }), 'h', V)).toBe('inline-host');
    expect(value(read({ 'inventory.yml': inventory, 'host_vars/h': `${V}: x` }), 'h', V)).toBe('x');
  });

  it('what lost is kept, the strongest first, each with its place', () => {
    const result = read({ 'inventory.yml': inventory, 'group_vars/parent.yml': `---\n${V}: file\n` });
    const variable = result.hosts.get('h')?.variables.get(V);
    expect(variable).toMatchObject({ value: 'inline-host', source: 'host h', file: 'inventory.yml', line: 10 });
    expect(
      variable?.overrides.map(({ source, file, line, value: lost }) => `${source} ${file}:${line} ${lost}`),
    ).toEqual([
      'group_vars/parent.yml group_vars/parent.yml:2 file',
      'group child inventory.yml:8 inline-child',
      'group parent inventory.yml:5 inline-parent',
      'group all inventory.yml:2 inline-all',
    ]);
  });

  const siblings = (first: string, second: string) =>
    `a:\n  vars: {${V}: a${first}}\n  hosts: {h: }\nb:\n  vars: {${V}: b${second}}\n  hosts: {h: }\n`;

  it('of groups of one depth the last by name wins, whatever the order', () => {
    expect(value(read({ 'inventory.yml': siblings('', '') }), 'h', V)).toBe('b');
  });

  it('ansible_group_priority counts in the inventory, and is a common variable in group_vars', () => {
    expect(value(read({ 'inventory.yml': siblings(', ansible_group_priority: 2', '') }), 'h', V)).toBe('a');
    const result = read({ 'inventory.yml': siblings('', ''), 'group_vars/a': 'ansible_group_priority: 2' });
    expect(value(result, 'h', V)).toBe('b');
    expect(value(result, 'h', 'ansible_group_priority')).toBe(2);
  });

  it('a deeper group beats a priority', () => {
    const deep = `a:\n  vars: {${V}: a, ansible_group_priority: 99}\n  hosts: {h: }\nb:\n  children:\n    c:\n      vars: {${V}: c}\n      hosts: {h: }\n`;
    expect(value(read({ 'inventory.yml': deep }), 'h', V)).toBe('c');
  });

  it.each([
    [['host_vars/h', 'host_vars/h.yml'], 'host_vars/h'],
    [['host_vars/h.yml', 'host_vars/h.yaml'], 'host_vars/h.yml'],
    [['host_vars/h.json', 'host_vars/h.yaml'], 'host_vars/h.yaml'],
    [['host_vars/h/b.yml', 'host_vars/h/a.yml', 'host_vars/h.yml'], 'host_vars/h/b.yml'],
    [['host_vars/h/a.yml', 'host_vars/h/sub/0.yml'], 'host_vars/h/sub/0.yml'],
    [['host_vars/h/a.yml', 'host_vars/h/b.txt', 'host_vars/h/.c.yml', 'host_vars/h/d.yml~'], 'host_vars/h/a.yml'],
    [['host_vars/h.yml/x'], 'host_vars/h.yml/x'],
  ])('of %j the value of %s wins', (paths, winner) => {
    const files = Object.fromEntries(paths.map((path) => [path, `{"${V}": "${path}"}`]));
    expect(value(read({ 'inventory.yml': 'all:\n  hosts: {h: }\n', ...files }), 'h', V)).toBe(winner);
  });

  it('a host whose name has dots has its file', () => {
    const result = read({
      'inventory.yml': 'all:\n  hosts: {web1.example.net: }\n',
      'host_vars/web1.example.net': `${V}: x`,
    });
    expect(value(result, 'web1.example.net', V)).toBe('x');
  });

  it('hosts with the same groups share what the groups give', () => {
    const result = read({ 'inventory.yml': `g:\n  vars: {${V}: x}\n  hosts: {a: , b: }\n` });
    expect(result.hosts.get('a')?.variables).toBe(result.hosts.get('b')?.variables);
  });

  it('a map of variables shows replaced, added and inherited entries once each', () => {
    const result = read({ 'inventory.yml': 'all:\n  vars: {x: 1, y: 2}\n  hosts:\n    a: {y: 3, z: 4}\n' });
    const variables = result.hosts.get('a')?.variables;
    expect([...(variables ?? [])].map(([name, { value: shown }]) => `${name}=${shown}`)).toEqual(['x=1', 'y=3', 'z=4']);
    expect(variables?.size).toBe(3);
    expect(variables?.has('w')).toBe(false);
  });
});

describe('the order of hosts', () => {
  it('a group lists its own hosts, then those of its children, level by level', () => {
    const result = read({
      'inventory.yml': `top:
  children:
    b:
      children:
        d: {hosts: {h5: , h1: }}
      hosts: {h3: }
    a: {hosts: {h4: , h3: }}
  hosts: {h2: , h1: }
`,
    });
    expect(order(result, 'top')).toEqual(['h2', 'h1', 'h3', 'h4', 'h5']);
    expect(result.groups.get('top')?.places.get('h3')).toEqual({ file: 'inventory.yml', line: 6 });
    expect(result.groups.get('top')?.places.get('h1')).toEqual({ file: 'inventory.yml', line: 8 });
    expect(result.groups.get('top')?.orderWarning).toBeNull();
    expect(result.groups.get('top')?.children).toEqual(['b', 'a']);
    expect(result.groups.get('d')?.place).toEqual({ file: 'inventory.yml', line: 5 });
  });

  it('groups below different groups have an order that Ansible leaves open, and it is said', () => {
    const result = read({
      'inventory.yml':
        'top:\n  children:\n    a:\n      children: {c: {hosts: {h1: }}}\n    b:\n      children: {d: {hosts: {h2: }}}\n',
    });
    expect(order(result, 'top')).toEqual(['h1', 'h2']);
    expect(result.groups.get('top')?.orderWarning).toMatchObject({
      code: 'open-order',
      file: 'inventory.yml',
      line: 1,
    });
    expect(result.groups.get('a')?.orderWarning).toBeNull();
  });

  it.each([
    ['after', '[b]\nh2\n[a]\nh1\n[top:children]\na\nb\n', ['h1', 'h2']],
    ['before', '[top:children]\na\nb\n[b]\nh2\n[a]\nh1\n', ['h2', 'h1']],
  ])('INI children written %s their sections keep the order that Ansible gives them', (_, text, expected) => {
    expect(order(read({ 'inventory.ini': text }), 'top')).toEqual(expected);
  });

  it('hosts outside every group, or in all alone, are ungrouped', () => {
    const result = read({
      'inventory.yml': 'all:\n  hosts: {c: , a: }\n  children:\n    g: {hosts: {a: }}\n    ungrouped: {hosts: {b: }}\n',
    });
    expect(order(result, 'ungrouped')).toEqual(['b', 'c']);
    expect(order(result)).toEqual(['c', 'a', 'b']);
  });

  it('files of a directory are merged by name; .ini, hidden and backup files are passed over', () => {
    const result = read({
      'inventory/10': '[g]\nb\n',
      'inventory/2.yml': 'g: {hosts: {a: }}\n',
      'inventory/0.ini': '[g]\nno\n',
      'inventory/.1': '[g]\nno\n',
      'inventory/1~': '[g]\nno\n',
      'inventory/sub/x.json': '{"g": {"hosts": {"c": null}}}',
      'inventory/group_vars/g': `${V}: x`,
    });
    expect(problemsOf(result)).toEqual([]);
    expect(order(result, 'g')).toEqual(['b', 'a', 'c']);
    expect(value(result, 'c', V)).toBe('x');
  });
});

describe('two commits of one run', () => {
  it('parse a file that they share once', () => {
    const cache = new ParseCache();
    const options = { inventory: null, playbookDir: null, vaultPassword: null, needed: deciding };
    const snapshot = snapshotOf({ 'inventory.yml': 'all:\n  hosts: {a: {x: [1, 2]}}\n' });
    const first = readInventory(snapshot, options, cache);
    const second = readInventory(snapshot, options, cache);
    // One list object shows that the file was not parsed anew.
    expect(second.hosts.get('a')?.variables.get('x')?.value).toBe(first.hosts.get('a')?.variables.get('x')?.value);
  });
});
