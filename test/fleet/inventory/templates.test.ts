import { describe, expect, it } from 'vitest';
import type { Value } from '../../../src/fleet/inventory/inventory.js';
import { placeAndCode, read, value } from './snapshots.js';
import { vaultText } from './vault-text.js';

const V = 'github_runner_cluster_dir';

function resolved(template: string) {
  return read({
    'inventory.yml': `all:
  vars:
    domain: example.net
    number: 5
    yes_text: "yes"
    nothing: null
    settings: {port: 22, name: "", list: [x, y], keys: 1}
    via: "{{ domain }}"
    shown: "{{ number }}"
    loop_a: "{{ loop_b }}"
    loop_b: "{{ loop_a }}"
    undefined_inside: "{{ nowhere }}"
    looked_up: "{{ lookup('env', 'HOME') }}"
    mixed: "{{ nowhere | lower }}{{ loop_a }}"
    untouched: "{{ x | weird }} {% if %}"
  children:
    g:
      hosts:
        h1.lan: {${V}: ${JSON.stringify(template)}}
        h2: {addr: "10.0.0.2", own: "{{ inventory_hostname }}"}
`,
  });
}

describe('templates of needed variables', () => {
  const table: readonly (readonly [string, Value])[] = [
    ['{{ inventory_hostname }}', 'h1.lan'],
    ['{{ inventory_hostname_short }}.x', 'h1.x'],
    ['mesh.{{ domain }}', 'mesh.example.net'],
    ['{{ via }}', 'example.net'],
    ['{{ number }}', 5],
    ['{{ shown }}', '5'],
    ['{{ number }}0', '50'],
    ['{{ number | string }}', '5'],
    ['{{ number|int }}', '5'],
    ['{{ "7.9" | int }}', '7'],
    ['{{ "x" | int(3) }}', '3'],
    ['{{ yes_text | bool }}', true],
    ['{{ yes_text | bool | string }}', 'True'],
    ['{{ domain | upper }}', 'EXAMPLE.NET'],
    ['{{ yes_text | bool | lower }}', 'true'],
    ['{{ nothing }}', null],
    ['a{{ nothing }}b', 'ab'],
    ['{{ nothing | lower }}', 'none'],
    ['{{ nowhere | default("d") }}', 'd'],
    ['{{ nowhere | default }}', ''],
    ['{{ undefined_inside | default("d") }}', 'd'],
    ['{{ settings.missing.deeper | default(domain) }}', 'example.net'],
    ['{{ settings.name | default("d") }}', ''],
    ['{{ settings.name | default("d", true) }}', 'd'],
    ['{{ settings.name | default("d", boolean=True) }}', 'd'],
    ['{{ settings["port"] }}', '22'],
    ['{{ settings.list[1] }}', 'y'],
    ['{{ settings.list[-1] }}', 'y'],
    ['{{ settings.list }}', ['x', 'y']],
    ['[{{ number }}, "a"]', [5, 'a']],
    ['{{ groups["g"][1] }}', 'h2'],
    ['{{ groups.g }}', ['h1.lan', 'h2']],
    ['{{ groups["no"] | default([]) }}', []],
    ['{{ hostvars["h2"].addr }}', '10.0.0.2'],
    ['{{ hostvars[groups["g"][1]]["own"] }}', 'h2'],
    ['{{ hostvars["no"].addr | default("d") }}', 'd'],
    ['{{ ansible_user | default("root") }}', 'root'],
    ['{{ group_names }}', ['g']],
    ['{{ (domain) }}\n', 'example.net\n'],
    ['no template', 'no template'],
    ['}} {', '}} {'],
  ];

  it.each(table)('%j is what Ansible makes of it', (template, expected) => {
    const result = resolved(template);
    expect([...(result.hosts.get('h1.lan')?.failures.values() ?? [])]).toEqual([]);
    expect(value(result, 'h1.lan', V)).toEqual(expected);
  });

  it.each([
    ['{{ lookup("file", "/etc/passwd") }}', 'calls something'],
    ['{{ looked_up }}', 'calls something'],
    ['{{ domain.upper() }}', 'calls something'],
    ['{{ "".__class__ }}', 'method'],
    ['{{ settings.keys }}', 'method'],
    ['{{ domain | regex_replace("a", "b") }}', 'regex_replace'],
    ['{{ 1 + 1 }}', '"+"'],
    ['{{ a if b else c }}', '"i"'],
    ['{% for a in b %}{% endfor %}', 'statement'],
    ['{# note #}', 'comment'],
    ['{{ domain', 'not closed'],
    ['{{ nowhere }}', 'nowhere, which the inventory does not define'],
    ['{{ undefined_inside }}', 'nowhere'],
    ['{{ loop_a }}', 'refers to itself'],
    ['{{ mixed | default("d") }}', 'refers to itself'],
    ['{{ ansible_hostname }}', 'only while Ansible runs'],
    ['{{ ansible_hostname | default("x") }}', 'only while Ansible runs'],
    ['{{ playbook_dir | default("x") }}', 'only while Ansible runs'],
    ['{{ hostvars["localhost"].x | default("x") }}', 'localhost'],
    ['{{ groups }}', 'all of groups'],
    ['{{- domain }}', 'trims'],
    ['{{ not domain }}', 'not'],
  ])('%s is left unresolved, with its place and the reason', (template, reason) => {
    const host = resolved(template).hosts.get('h1.lan');
    expect(host?.variables.has(V)).toBe(false);
    const failure = host?.failures.get(V);
    expect(failure && placeAndCode(failure)).toBe('inventory.yml:19 unresolved-template');
    expect(failure?.message).toContain(reason);
    expect(failure?.hosts).toEqual(['h1.lan']);
  });

  it('a template that is not needed is left alone', () => {
    expect(value(resolved('x'), 'h1.lan', 'untouched')).toBe('{{ x | weird }} {% if %}');
  });

  it('a template of a group is resolved for each of its hosts', () => {
    const result = read({
      'inventory.yml': `g:\n  vars: {ansible_host: "{{ inventory_hostname }}.lan"}\n  hosts: {a: , b: }\n`,
    });
    expect(['a', 'b'].map((host) => value(result, host, 'ansible_host'))).toEqual(['a.lan', 'b.lan']);
  });

  it('a bomb of templates does not grow', () => {
    const lines = Array.from(
      { length: 40 },
      (_, index) => `    v${index + 1}: "{{ v${index} }}{{ v${index} }}"\n`,
    ).join('');
    const result = read({
      'inventory.yml': `all:\n  vars:\n    v0: xxxxxxxx\n${lines}    ${V}: "{{ v40 }}"\n  hosts: {h: }\n`,
    });
    expect(result.hosts.get('h')?.failures.get(V)?.message).toContain('64 KiB');
  });

  it('a long chain of templates ends', () => {
    const lines = Array.from({ length: 5000 }, (_, index) => `    v${index + 1}: "{{ v${index} }}"\n`).join('');
    const result = read({
      'inventory.yml': `all:\n  vars:\n    v0: x\n${lines}    ${V}: "{{ v5000 }}"\n  hosts: {h: }\n`,
    });
    expect(result.hosts.get('h')?.failures.get(V)?.message).toContain('more than 60 variables');
  });
});

describe('Ansible Vault', () => {
  const sealed = vaultText('top {{ domain }}', 'right').trim().replaceAll('\n', '\n          ');
  const files = { 'inventory.yml': `all:\n  hosts:\n    h:\n      ${V}: !vault |\n          ${sealed}\n` };

  it('an encrypted value is decrypted, never templated, and named as a secret', () => {
    const result = read(files, { vaultPassword: 'right' });
    expect(value(result, 'h', V)).toBe('top {{ domain }}');
    expect(result.secrets).toEqual(['top {{ domain }}']);
  });

  it.each([
    [null, 'give the input vault-password'],
    ['wrong', 'cannot be decrypted with this vault-password'],
  ])('a needed one with the password %j is vault-locked, on its line', (vaultPassword, says) => {
    const failure = read(files, { vaultPassword }).hosts.get('h')?.failures.get(V);
    expect(failure && placeAndCode(failure)).toBe('inventory.yml:4 vault-locked');
    expect(failure?.message).toContain(says);
  });

  it('one that is not needed stays closed', () => {
    const result = read(files, { needed: () => false });
    expect(value(result, 'h', V)).toBe('<encrypted>');
    expect(result.secrets).toEqual([]);
  });

  it('a vars file and an inventory are decrypted as a whole', () => {
    const result = read(
      {
        'inventory.yml': vaultText('all:\n  hosts: {h: }\n', 'right'),
        'host_vars/h': vaultText(`\n${V}: sealed\n`, 'right'),
      },
      { vaultPassword: 'right' },
    );
    expect(result.problems).toEqual([]);
    expect(result.hosts.get('h')?.variables.get(V)).toMatchObject({ value: 'sealed', file: 'host_vars/h', line: 1 });
    expect(result.secrets).toEqual(['sealed']);
  });

  it.each([
    ['a byte changed', (text: string) => text.replace(/[0-9a-f]{4}\n$/, '3030\n')],
    ['cut off', (text: string) => text.slice(0, 120)],
    ['no hex', (text: string) => `${text.slice(0, 40)}zz\n`],
    ['another cipher', (text: string) => text.replace('AES256', 'AES')],
    ['nothing but the header', () => '$ANSIBLE_VAULT;1.1;AES256\n'],
  ])('a vaulted file with %s is vault-locked and names the file', (_, spoil) => {
    const result = read(
      { 'inventory.yml': 'all:\n  hosts: {h: }\n', 'host_vars/h': spoil(vaultText('x: 1\n', 'right')) },
      { vaultPassword: 'right' },
    );
    expect(result.problems.map(placeAndCode)).toEqual(['host_vars/h:1 vault-locked']);
  });
});
