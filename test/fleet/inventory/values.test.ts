import { describe, expect, it } from 'vitest';
import type { Value } from '../../../src/fleet/inventory/inventory.js';
import { placeOf, problemsOf, read, value } from './snapshots.js';

const V = 'github_runner_cluster_dir';
const yaml = (text: string) =>
  value(read({ 'inventory.yml': `all:\n  hosts:\n    h:\n      ${V}: ${text}\n` }), 'h', V);
const iniHost = (text: string) => value(read({ 'inventory.ini': `h ${V}=${text}\n` }), 'h', V);
const iniVars = (text: string) => value(read({ 'inventory.ini': `h\n[all:vars]\n${V}=${text}\n` }), 'h', V);

describe('YAML scalars', () => {
  const table: readonly (readonly [string, Value])[] = [
    ['yes', true],
    ['Off', false],
    ['y', 'y'],
    ['n', 'n'],
    ['"yes"', 'yes'],
    ['022', 18],
    ['0o17', '0o17'],
    ['08', '08'],
    ['0x1f', 31],
    ['0b11', 3],
    ['1_000', 1000],
    ['10:30', 630],
    ['10:30:00', 37800],
    ['1.30', 1.3],
    ['1e3', '1e3'],
    ['1.0e+3', 1000],
    ['.5', 0.5],
    ['+3', 3],
    ['.inf', Number.POSITIVE_INFINITY],
    ['9007199254740993', '9007199254740993'],
    ['2024-01-02', '2024-01-02'],
    ['2001-12-14t21:59:43.10-05:00', '2001-12-14 21:59:43.100000-05:00'],
    ['~', null],
    ['Null', null],
    ['', null],
    ['=x', '=x'],
    ['a:b', 'a:b'],
    ['a#b', 'a#b'],
    ['a # b', 'a'],
    ["'it''s'", "it's"],
    ['"a\\tb\\u00e9"', 'a\tbé'],
    ['[a:b, c?]', ['a:b', 'c?']],
    ['{a: , b}', { a: null, b: null }],
    ['!!str 5', '5'],
    ['!!int "7"', 7],
    ['!unsafe "{{ x }}"', '{{ x }}'],
    ['! "12"', 12],
    ['|-\n        a\n         b', 'a\n b'],
    ['>\n        a\n        b\n\n        c\n', 'a b\nc\n'],
    ['a\n        b', 'a b'],
  ];

  it.each(table)('%s is what PyYAML makes of it', (text, expected) => {
    expect(yaml(text)).toEqual(expected);
  });

  it.each(['=', '<<', '2024-13-01', '0x_'])('%s is an error, as in Ansible', (text) => {
    expect(problemsOf(read({ 'inventory.yml': `all:\n  hosts:\n    h:\n      x: ${text}\n` }))).toEqual([
      'inventory.yml:4 bad-syntax',
    ]);
  });

  it('a deciding value that is not what it seems is warned of, on its line', () => {
    const { warnings } = read({
      'inventory.yml': `all:\n  vars:\n    other: 022\n    ${V}: 022\n  hosts: {h: }\n`,
      'host_vars/h': `\n${V}: 1.30`,
    });
    expect(warnings.map(({ code, file, line }) => `${file}:${line} ${code}`)).toEqual([
      'inventory.yml:4 yaml-1.1',
      'host_vars/h:2 yaml-1.1',
    ]);
    expect(warnings[0]?.message).toContain('022 as the number 18');
  });

  it('the key on is no name, and it is warned of', () => {
    const result = read({ 'inventory.yml': 'all:\n  hosts: {h: }\n', 'group_vars/all': 'x: 1\non: push\n' });
    expect([...(result.hosts.get('h')?.variables.keys() ?? [])]).toEqual(['x']);
    expect(result.warnings).toMatchObject([{ code: 'not-a-name', file: 'group_vars/all', line: 2 }]);
  });

  it('merge keys give what is not there, the first of a list the strongest', () => {
    const text = `a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\n${V}:\n  <<: [*a, *b]\n  z: 3\n`;
    const result = read({ 'inventory.yml': 'all:\n  hosts: {h: }\n', 'host_vars/h': text });
    expect(value(result, 'h', V)).toEqual({ y: 1, z: 3, x: 1 });
  });

  it('BOM, CRLF and a missing last line break change nothing', () => {
    const result = read({ 'inventory.yml': `\ufeffall:\r\n  hosts:\r\n    h:\r\n      ${V}: a` });
    expect(value(result, 'h', V)).toBe('a');
    expect(placeOf(result, 'h', V)).toBe('inventory.yml:4');
  });

  it('a JSON text without extension is read as JSON, where YAML would differ', () => {
    const result = read({ hosts: `{"all": {"hosts": {"h": {"${V}": 1e3, "x": "\\ud83d\\ude00\\/"}}}}` });
    expect(value(result, 'h', V)).toBe(1000);
    expect(value(result, 'h', 'x')).toBe('😀/');
  });
});

describe('INI values', () => {
  const table: readonly (readonly [string, Value])[] = [
    ['5', 5],
    ['"5"', 5],
    ['"\'5\'"', '5'],
    ['022', '022'],
    ['1_000', 1000],
    ['1e3', 1000],
    ['0x1f', 31],
    ['True', true],
    ['true', 'true'],
    ['None', null],
    ['[1,2]', [1, 2]],
    ['"[1, \'a\']"', [1, 'a']],
    ['5,', [5]],
    ['(1,2)', [1, 2]],
    ['"{\'a\': 1}"', { a: 1 }],
    ['"a b"', 'a b'],
    ['x\\ y', 'x y'],
    ['a=b', 'a=b'],
    ['a;b', 'a;b'],
    ['a#b', 'a'],
    ['"a#b"', 'a#b'],
    ['-3', -3],
    ['--3', '--3'],
    ['100.64.0.1', '100.64.0.1'],
  ];

  it.each(table)('%s on a host line is what Ansible makes of it', (text, expected) => {
    expect(iniHost(text)).toEqual(expected);
  });

  it.each([
    ['5  # note', 5],
    ['"a" # note', 'a'],
    ['a # note', 'a # note'],
    ['two words', 'two words'],
    ['"a" "b"', 'ab'],
    ["r'a\\b'", 'a\\b'],
    ["b'x'", 'x'],
    ["'\\x41\\101\\u00e9\\q'", 'AAé\\q'],
    ['', ''],
    ['f"x"', 'f"x"'],
    ["{'a', 'b'}", ['a', 'b']],
  ] satisfies [string, Value][])('%s in a :vars section is what Ansible makes of it', (text, expected) => {
    expect(iniVars(text)).toEqual(expected);
  });

  it.each(['3j', '...', '{[]: 1}'])('%s has no counterpart outside Python and is an error', (text) => {
    expect(problemsOf(read({ 'inventory.ini': `h\n[all:vars]\nx=${text}\n` }))).toEqual(['inventory.ini:3 bad-syntax']);
  });
});

describe('host patterns', () => {
  it.each([
    ['n[1:3]', ['n1', 'n2', 'n3'], undefined],
    ['n[01:03]', ['n01', 'n02', 'n03'], undefined],
    ['n[08:11]', ['n08', 'n09', 'n10', 'n11'], undefined],
    ['n[a:c]', ['na', 'nb', 'nc'], undefined],
    ['n[1:9:4]', ['n1', 'n5', 'n9'], undefined],
    ['n[:2]', ['n0', 'n1', 'n2'], undefined],
    ['n[1:2]-[a:b].x:2222', ['n1-a.x', 'n1-b.x', 'n2-a.x', 'n2-b.x'], 2222],
    ['10.0.0.[1:2]:22', ['10.0.0.1', '10.0.0.2'], 22],
    ['[::1]:2222', ['::1'], 2222],
    ['fe80::1', ['fe80::1'], undefined],
    ['bad_:22', ['bad_:22'], undefined],
  ])('%s names what Ansible takes it for', (pattern, names, port) => {
    for (const files of [
      { 'inventory.ini': `${pattern}\n` },
      { 'inventory.yml': `all:\n  hosts:\n    "${pattern}":\n` },
    ]) {
      const result = read(files);
      expect(problemsOf(result)).toEqual([]);
      expect([...result.hosts.keys()]).toEqual(names);
      expect(value(result, names[0] as string, 'ansible_port')).toBe(port);
    }
  });

  it('a port counts where the host is first named, and not later', () => {
    const result = read({ 'inventory.ini': '[a]\nh:2222\n[b]\nh:3333\n[c]\ni\n[d]\ni:4444\n' });
    expect(value(result, 'h', 'ansible_port')).toBe(2222);
    expect(value(result, 'i', 'ansible_port')).toBeUndefined();
  });
});

describe('which format a file is', () => {
  it.each([
    ['hosts', '[g]\nh x=1\n'],
    ['hosts', 'h x=1\n'],
    ['inventory.ini', '[g]\nh x=1\n'],
    ['hosts', 'g:\n  hosts:\n    h: {x: 1}\n'],
    ['hosts', '# a note\n---\ng: {hosts: {h: {x: 1}}}\n'],
    ['inventory.yml', '{"g": {"hosts": {"h": {"x": 1}}}}'],
  ])('%s: %j is understood', (path, text) => {
    const result = read({ [path]: text });
    expect(problemsOf(result)).toEqual([]);
    expect(value(result, 'h', 'x')).toBe(1);
  });

  it('a file without extension that begins as YAML and does not parse is a YAML error', () => {
    expect(problemsOf(read({ hosts: 'all:\n  hosts:\n    h: {\n' }))).toEqual(['hosts:4 bad-syntax']);
  });

  it.each(['', '# nothing\n', '---\n', '{}'])(
    'an empty file (%j) has no hosts and is no problem of its own',
    (text) => {
      const result = read({ 'inventory.yml': text });
      expect(problemsOf(result)).toEqual([]);
      expect(result.hosts.size).toBe(0);
    },
  );
});
