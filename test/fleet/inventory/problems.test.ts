import { describe, expect, it } from 'vitest';
import { readInventory, wantedEntries } from '../../../src/fleet/inventory/read.js';
import { type Content, placeAndCode, problemsOf, read, snapshotOf } from './snapshots.js';

const many = (count: number, line: (index: number) => string) =>
  Array.from({ length: count }, (_, index) => line(index)).join('');
const inYaml = (text: string) => ({ 'inventory.yml': text });
const inIni = (text: string) => ({ 'inventory.ini': text });
const withVars = (path: string, text: Content) => ({ 'inventory.yml': 'all:\n  hosts:\n    a:\n', [path]: text });

interface Wrong {
  readonly what: string;
  readonly files: Readonly<Record<string, Content>>;
  readonly problem: string;
  /** A word of the way out. */
  readonly says: string;
}

const wrongs: readonly Wrong[] = [
  {
    what: 'a YAML host line without a colon that makes one host of two names',
    files: inYaml('all:\n  hosts:\n    one\n    two\n'),
    problem: 'inventory.yml:3 bad-host-name',
    says: 'write each host as `name:`',
  },
  {
    what: 'a host line without a colon among others',
    files: inYaml('all:\n  hosts:\n    one:\n    two\n    three:\n'),
    problem: 'inventory.yml:4 bad-syntax',
    says: '`name:`',
  },
  {
    what: 'hosts as a list',
    files: inYaml('all:\n  hosts:\n    - one\n    - two\n'),
    problem: 'inventory.yml:3 bad-structure',
    says: 'write `name:` on a line',
  },
  {
    what: 'variables as a list',
    files: inYaml('all:\n  hosts: {a: }\n  vars:\n    - x: 1\n'),
    problem: 'inventory.yml:4 bad-structure',
    says: '`name: value`',
  },
  {
    what: 'a reversed range',
    files: inYaml('all:\n  hosts:\n    a:\n    n[3:1]:\n'),
    problem: 'inventory.yml:4 bad-range',
    says: '[begin:end]',
  },
  {
    what: 'a reversed range of letters',
    files: inIni('[g]\nn[c:a]\n'),
    problem: 'inventory.ini:2 bad-range',
    says: 'ends before it begins',
  },
  {
    what: 'a range with a dash',
    files: inIni('[g]\n\nn[1-3]\n'),
    problem: 'inventory.ini:3 bad-range',
    says: '[begin:end]',
  },
  { what: 'a range without an end', files: inIni('n[1:]\n'), problem: 'inventory.ini:1 bad-range', says: 'no end' },
  { what: 'a range with the step 0', files: inIni('n[1:3:0]\n'), problem: 'inventory.ini:1 bad-range', says: 'step 0' },
  {
    what: 'a range of different lengths',
    files: inIni('n[01:3]\n'),
    problem: 'inventory.ini:1 bad-range',
    says: 'different lengths',
  },
  {
    what: 'a host and a group of one name',
    files: inYaml('all:\n  hosts:\n    web:\n  children:\n    web:\n      hosts:\n        b:\n'),
    problem: 'inventory.yml:3 bad-host-name',
    says: 'rename one',
  },
  {
    what: 'an undefined child group',
    files: inIni('[cluster:children]\nservers\nagents\n[servers]\na\n'),
    problem: 'inventory.ini:3 undefined-group',
    says: 'add [agents]',
  },
  {
    what: 'variables of an undefined group',
    files: inIni('[servers]\na\n[server:vars]\nx=1\n'),
    problem: 'inventory.ini:3 undefined-group',
    says: 'add [server]',
  },
  {
    what: 'a loop of groups',
    files: inIni('[a]\nh\n[b]\n[a:children]\nb\n[b:children]\na\n'),
    problem: 'inventory.ini:7 group-loop',
    says: 'remove one link',
  },
  {
    what: 'a group that is its own child',
    files: inYaml('a:\n  hosts: {h: }\n  children:\n    a:\n'),
    problem: 'inventory.yml:4 group-loop',
    says: 'own child',
  },
  {
    what: 'all below another group',
    files: inYaml('top:\n  children:\n    all:\n  hosts: {h: }\nall:\n  children:\n    top:\n'),
    problem: 'inventory.yml:3 group-loop',
    says: 'remove one link',
  },
  {
    what: 'ungrouped below another group',
    files: inYaml('top:\n  children:\n    ungrouped:\n'),
    problem: 'inventory.yml:3 bad-structure',
    says: 'group of another name',
  },
  {
    what: 'the header of a vaulted inventory',
    files: inYaml('$ANSIBLE_VAULT;1.1;AES256\n6162\n'),
    problem: 'inventory.yml:1 vault-locked',
    says: 'vault-password',
  },
  {
    what: 'a vaulted vars file',
    files: withVars('group_vars/all/vault.yml', '$ANSIBLE_VAULT;1.1;AES256\n6162\n'),
    problem: 'group_vars/all/vault.yml:1 vault-locked',
    says: 'vault-password',
  },
  {
    what: 'an unknown key of a group',
    files: inYaml('all:\n  hosts:\n    a:\n  var:\n    x: 1\n'),
    problem: 'inventory.yml:4 bad-structure',
    says: 'hosts:, children: or vars:',
  },
  {
    what: 'a group that is a text',
    files: inYaml('all:\n  children:\n    web: a\n'),
    problem: 'inventory.yml:3 bad-structure',
    says: 'a group holds',
  },
  {
    what: 'a host that is a text',
    files: inYaml('all:\n  hosts:\n    a: b\n'),
    problem: 'inventory.yml:3 bad-structure',
    says: '`name: value`',
  },
  {
    what: 'a duplicate host key',
    files: inYaml('all:\n  hosts:\n    a:\n    b:\n    a:\n'),
    problem: 'inventory.yml:5 duplicate-key',
    says: 'there twice',
  },
  {
    what: 'a duplicate variable of a vars file',
    files: withVars('host_vars/a.yml', 'x: 1\ny: 2\nx: 3\n'),
    problem: 'host_vars/a.yml:3 duplicate-key',
    says: 'remove one',
  },
  {
    what: 'a duplicate key of JSON',
    files: { 'inventory/hosts': '{"all": {"hosts": {"a": null,\n"a": null}}}' },
    problem: 'inventory/hosts:2 duplicate-key',
    says: 'there twice',
  },
  {
    what: 'two keys that are one for Python',
    files: withVars('host_vars/a', '1: x\ntrue: y\n'),
    problem: 'host_vars/a:2 duplicate-key',
    says: 'there twice',
  },
  {
    what: 'a host name with a brace',
    files: inYaml('all:\n  hosts:\n    "{{ name }}":\n'),
    problem: 'inventory.yml:3 bad-host-name',
    says: 'space',
  },
  {
    what: 'a host name with braces alone',
    files: inIni('a{b}\n'),
    problem: 'inventory.ini:1 bad-host-name',
    says: 'names are not templates',
  },
  {
    what: 'a host name with a control character',
    files: inYaml('all:\n  hosts:\n    "a\\x1b[31m":\n'),
    problem: 'inventory.yml:3 bad-range',
    says: 'range',
  },
  {
    what: 'a host name with a bell',
    files: inYaml('all:\n  hosts:\n    "a\\ab":\n'),
    problem: 'inventory.yml:3 bad-host-name',
    says: 'control character',
  },
  {
    what: 'a host name with a text direction mark',
    files: inIni('a\u202eb\n'),
    problem: 'inventory.ini:1 bad-host-name',
    says: 'control character',
  },
  {
    what: 'a host name with a comma',
    files: inIni('a,b\n'),
    problem: 'inventory.ini:1 bad-host-name',
    says: 'one host a line',
  },
  { what: 'a host name with a slash', files: inIni('../a\n'), problem: 'inventory.ini:1 bad-host-name', says: 'slash' },
  {
    what: 'a host name like an option',
    files: inIni('-oX\n'),
    problem: 'inventory.ini:1 bad-host-name',
    says: 'option',
  },
  {
    what: 'a host that is a number',
    files: inYaml('all:\n  hosts:\n    17:\n'),
    problem: 'inventory.yml:3 bad-host-name',
    says: 'quotes',
  },
  {
    what: 'a host named on',
    files: inYaml('all:\n  hosts:\n    on:\n'),
    problem: 'inventory.yml:3 bad-host-name',
    says: 'quotes',
  },
  {
    what: 'a group that is a number',
    files: inYaml('17:\n  hosts: {a: }\n'),
    problem: 'inventory.yml:1 bad-structure',
    says: 'quotes',
  },
  {
    what: 'an INI file that is YAML',
    files: inIni('all:\n  hosts:\n    a:\n'),
    problem: 'inventory.ini:1 bad-host-name',
    says: 'colon',
  },
  {
    what: 'an unknown section',
    files: inIni('[a:host]\nb\n'),
    problem: 'inventory.ini:1 bad-structure',
    says: '[a:vars]',
  },
  {
    what: 'a section with a space',
    files: inIni('[a b]\nc\n'),
    problem: 'inventory.ini:1 bad-syntax',
    says: 'without spaces',
  },
  {
    what: 'a word that is no variable',
    files: inIni('a b\n'),
    problem: 'inventory.ini:1 bad-syntax',
    says: 'name=value',
  },
  { what: 'an open quote', files: inIni('a x="b\n'), problem: 'inventory.ini:1 bad-syntax', says: 'quote' },
  {
    what: 'a line of :vars without =',
    files: inIni('[a]\nb\n[a:vars]\nx\n'),
    problem: 'inventory.ini:4 bad-syntax',
    says: 'name=value',
  },
  {
    what: 'a byte order mark before INI',
    files: inIni('\ufeff[a]\nb\n'),
    problem: 'inventory.ini:1 bad-syntax',
    says: 'without',
  },
  {
    what: 'a file that is not UTF-8',
    files: { 'inventory.yml': new Uint8Array([0x61, 0x3a, 0x0a, 0x62, 0xff, 0x0a]) },
    problem: 'inventory.yml:2 unreadable-file',
    says: 'save it as UTF-8',
  },
  {
    what: 'a vars file that is not UTF-8',
    files: withVars('group_vars/all', new Uint8Array([0xc3])),
    problem: 'group_vars/all:1 unreadable-file',
    says: 'UTF-8',
  },
  {
    what: 'a .yml that does not parse, though it is good INI',
    files: inYaml('[servers]\na x=1\n'),
    problem: 'inventory.yml:2 bad-syntax',
    says: 'indentation',
  },
  {
    what: 'a .yml that is a list',
    files: inYaml('- a\n'),
    problem: 'inventory.yml:1 bad-structure',
    says: 'groups as keys',
  },
  { what: 'a tab', files: inYaml('all:\n\thosts:\n'), problem: 'inventory.yml:2 bad-syntax', says: 'spaces' },
  {
    what: 'a control character in YAML',
    files: inYaml('all:\n  hosts:\n    a: \u0007\n'),
    problem: 'inventory.yml:3 bad-syntax',
    says: 'U+0007',
  },
  {
    what: 'a second document',
    files: inYaml('a:\n---\nb:\n'),
    problem: 'inventory.yml:2 bad-syntax',
    says: 'second document',
  },
  {
    what: 'an unknown tag',
    files: inYaml('all:\n  vars:\n    x: !env HOME\n'),
    problem: 'inventory.yml:3 bad-syntax',
    says: '!env',
  },
  {
    what: 'an undefined alias',
    files: inYaml('all:\n  vars: *x\n'),
    problem: 'inventory.yml:2 bad-syntax',
    says: '&x',
  },
  {
    what: 'an alias inside its anchor',
    files: inYaml('all: &x\n  vars: *x\n'),
    problem: 'inventory.yml:2 bad-syntax',
    says: 'own anchor',
  },
  {
    what: 'a plugin configuration',
    files: inYaml('plugin: aws_ec2\nregions: [a]\n'),
    problem: 'inventory.yml:1 bad-structure',
    says: 'never runs',
  },
  {
    what: 'a script',
    files: { hosts: '#!/bin/sh\necho {}\n' },
    problem: 'hosts:1 unreadable-file',
    says: 'never runs',
  },
  {
    what: 'a vars file that is a list',
    files: withVars('host_vars/a.yml', '- x\n'),
    problem: 'host_vars/a.yml:1 bad-structure',
    says: '`name: value`',
  },
  {
    what: 'a bad priority',
    files: inYaml('a:\n  vars:\n    ansible_group_priority: high\n'),
    problem: 'inventory.yml:3 bad-structure',
    says: 'whole number',
  },
  {
    what: 'an inventory that is a link',
    files: { 'inventory.yml': { link: '/etc/passwd' } },
    problem: 'inventory.yml:1 outside-repository',
    says: 'never followed',
  },
  {
    what: 'a vars file that is a link',
    files: withVars('host_vars/a.yml', { link: 'b.yml' }),
    problem: 'host_vars/a.yml:1 outside-repository',
    says: 'never followed',
  },
  {
    what: 'group_vars that is a link',
    files: withVars('group_vars', { link: '../x' }),
    problem: 'group_vars:1 outside-repository',
    says: 'never followed',
  },
  {
    what: 'an inventory that is a submodule',
    files: { inventory: { module: true } },
    problem: 'inventory:1 unreadable-file',
    says: 'submodule',
  },
  {
    what: 'a link in an inventory directory',
    files: { 'inventory/a.yml': 'all:\n', 'inventory/b.yml': { link: 'a.yml' } },
    problem: 'inventory/b.yml:1 outside-repository',
    says: 'never followed',
  },
  {
    what: 'no inventory at all',
    files: { 'README.md': 'x' },
    problem: 'null:null unreadable-file',
    says: 'input inventory',
  },
  {
    what: 'deep nesting',
    files: inYaml(`all: ${'['.repeat(100)}`),
    problem: 'inventory.yml:1 too-big',
    says: '64 levels',
  },
  {
    what: 'deep nesting through aliases',
    files: inYaml(`a: &a ${'['.repeat(40)}${']'.repeat(40)}\nb: &b ${'['.repeat(40)}*a${']'.repeat(40)}\n`),
    problem: 'inventory.yml:2 too-big',
    says: '64 levels',
  },
  {
    what: 'a bomb of aliases',
    files: inYaml(`a0: &a0 {}\n${many(20, (index) => `a${index + 1}: &a${index + 1} [*a${index}, *a${index}]\n`)}`),
    problem: 'inventory.yml:10 too-big',
    says: '1,000 aliases',
  },
  {
    what: 'more than 20,000 hosts',
    files: inIni('[a]\nn[1:15000]\n[b]\nm[1:15000]\n'),
    problem: 'inventory.ini:4 too-big',
    says: '20,000 hosts',
  },
  {
    what: 'a range of ranges',
    files: inIni('n[1:9999]-[1:9999]\n'),
    problem: 'inventory.ini:1 too-big',
    says: '20,000',
  },
  {
    what: 'groups nested too deep',
    files: inIni(many(70, (index) => `[g${index}]\n[g${index}:children]\ng${index + 1}\n`).concat('[g70]\nh\n')),
    problem: 'inventory.ini:193 too-big',
    says: '64 levels',
  },
  {
    what: 'many hosts with many variables in few bytes',
    files: inIni(`n[1:20000] ${many(60, (index) => `v${index}=1 `)}\n`),
    problem: 'inventory.ini:1 too-big',
    says: 'split it',
  },
];

describe('what is wrong with the files', () => {
  it.each(wrongs)('$what is named with file, line and the way out', ({ files, problem, says }) => {
    const [first] = read(files).problems;
    expect(first && placeAndCode(first)).toBe(problem);
    expect(first?.message).toContain(says);
    expect(first?.message).toMatch(/^[^a-z].*[.!?]$/s);
  });

  it('is reported as a whole, not only the first', () => {
    const found = read(inYaml('all:\n  hosts:\n    a b:\n    n[2:1]:\n  vars: 5\n  var:\n')).problems;
    expect(found.map(placeAndCode)).toEqual([
      'inventory.yml:3 bad-host-name',
      'inventory.yml:4 bad-range',
      'inventory.yml:5 bad-structure',
      'inventory.yml:6 bad-structure',
    ]);
  });

  it.each([
    ['../inventory.yml', 'outside-repository'],
    ['a/../../inventory.yml', 'outside-repository'],
    ['/etc/ansible/hosts', 'outside-repository'],
    ['~/hosts', 'outside-repository'],
    ['missing.yml', 'unreadable-file'],
    ['inventory.yml/hosts', 'unreadable-file'],
  ])('the input inventory %s is %s', (inventory, code) => {
    const result = read({ 'inventory.yml': 'all:\n  hosts: {a: }\n' }, { inventory });
    expect(result.problems.map((problem) => problem.code)).toEqual([code]);
    expect(result.hosts.size).toBe(0);
  });

  it('a path through a link is never followed', () => {
    const result = read({ link: { link: '/etc' }, 'real/hosts': 'a\n' }, { inventory: 'link/hosts' });
    expect(problemsOf(result)).toEqual(['link:1 outside-repository']);
  });

  it.each([
    ['..', 'outside-repository'],
    ['nowhere', 'unreadable-file'],
  ])('the input playbook-dir %s is %s', (playbookDir, code) => {
    const result = read({ 'inventory.yml': 'all:\n  hosts: {a: }\n' }, { playbookDir });
    expect(result.problems.map((problem) => problem.code)).toEqual([code]);
  });

  it('a file beyond 16 MiB is not asked for and named', () => {
    const files = {
      'inventory.yml': 'all:\n  hosts: {a: }\n',
      'host_vars/a.yml': `x: "${'y'.repeat(16 * 1024 * 1024)}"`,
    };
    expect(wantedEntries(snapshotOf(files).entries, { inventory: null, playbookDir: null })).toEqual(['inventory.yml']);
    expect(problemsOf(read(files))).toEqual(['host_vars/a.yml:1 too-big']);
  });

  it('more than 64 MiB together are not asked for and named', () => {
    const entries = new Map(snapshotOf({ 'inventory.yml': 'all:\n' }).entries);
    for (let index = 0; index < 5; index++)
      entries.set(`group_vars/g${index}`, { type: 'file', oid: `${index}`, size: 15 * 1024 * 1024 });
    expect(wantedEntries(entries, { inventory: null, playbookDir: null })).toEqual([]);
    const options = { inventory: null, playbookDir: null, vaultPassword: null, needed: () => true };
    expect(problemsOf(readInventory({ commit: '', entries, blobs: new Map() }, options))).toEqual([
      'inventory.yml:1 too-big',
    ]);
  });

  it('a content that was not fetched is our own error', () => {
    const { entries } = snapshotOf({ 'inventory.yml': 'all:\n' });
    const options = { inventory: null, playbookDir: null, vaultPassword: null, needed: () => true };
    expect(() => readInventory({ commit: '', entries, blobs: new Map() }, options)).toThrow(
      'was not read from the repository',
    );
  });

  it('no more than a hundred problems are kept', () => {
    expect(read(inIni('a b\n'.repeat(1000))).problems).toHaveLength(100);
  });
});
