import { vaultText } from '../fleet/inventory/vault-text.js';

/** What both readers are given to decrypt with. */
export const PASSWORD = 'conformance';
const SEALED = ['sealed', '{{ base }}', 'True'].map((text) => vaultText(text, PASSWORD).trim().split('\n'));

/** A sequence of numbers that a seed fixes (a 32-bit linear congruential generator; its quality is enough here). */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = (seed * 2654435761) >>> 0;
    for (let round = 0; round < 5; round++) this.below(2);
  }

  /** A whole number from 0 to `limit - 1`. */
  below(limit: number): number {
    this.#state = (Math.imul(this.#state, 1664525) + 1013904223) >>> 0;
    return Math.floor((this.#state / 4294967296) * limit);
  }

  chance(percent: number): boolean {
    return this.below(100) < percent;
  }

  pick<T>(items: readonly T[]): T {
    return items[this.below(items.length)] as T;
  }
}

/** One inventory for both readers. */
export interface Sample {
  readonly files: Record<string, string>;
  readonly inventory: string;
  readonly playbookDir: string | null;
  /** Only text as people would write it: then both readers must take it. */
  readonly wellFormed: boolean;
}

type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

interface Group {
  readonly name: string;
  readonly children: Group[];
  readonly hosts: string[];
  readonly variables: [string, string][];
}

const GROUPS = [
  'github_runner_cluster',
  'zz_servers',
  'aa_agents',
  'rack_b',
  'rack-a',
  'site',
  'edge',
  'old',
  'x1',
  'ungrouped',
];
const HOSTS = ['mini-1', 'mini-2', 'Box3', 'pi4', 'rack_5', 'web1.example.net', '10.0.0.7', 'n08', 'localhost', 'z'];
const RANGES = ['r[1:3]', 'r[01:03]', 'l[a:c]', 's[1:9:4]', 'd[1:2]-[a:b]', 't[0:2].example.net', 'u[08:11]'];
const NAMES = [
  'ansible_host',
  'ansible_port',
  'ansible_user',
  'ansible_become',
  'github_runner_cluster_node_role',
  'github_runner_cluster_node_name',
  'github_runner_cluster_max_servers',
  'github_runner_cluster_bootstrap',
  'github_runner_cluster_tailnet_domain',
  'github_runner_cluster_tls_sans',
  'github_runner_cluster_dir',
  'github_runner_cluster_controller',
  'site_domain',
  'base',
  'settings',
  'number',
];
const TEMPLATES = [
  '{{ inventory_hostname }}.lan',
  '{{ inventory_hostname_short }}',
  'mesh.{{ site_domain }}',
  '{{ site_domain | default("example.net") }}',
  '{{ base }}',
  '{{ base | default(number) | string }}',
  '{{ number | int }}',
  '{{number|default(5)|int}}',
  '{{ number }}',
  '{{ base | lower }}-{{ number | string | upper }}',
  '{{ base | bool }}',
  '{{ number | default("") | bool }}',
  '{{ groups["all"][0] }}',
  "{{ groups['github_runner_cluster'] | default([]) }}",
  '{{ groups.github_runner_cluster[-1] }}',
  '{{ groups["github_runner_cluster"] }}',
  '{{ hostvars[inventory_hostname].base | default("none") }}',
  "{{ hostvars['mini-1']['site_domain'] }}",
  '{{ hostvars[groups.all[0]].ansible_host | default(inventory_hostname) }}',
  '{{ settings.port }}',
  '{{ settings["name"] | default("x", true) }}',
  '{{ settings.list[1] }}',
  '{{ settings }}',
  '{{ settings.missing.deep | default(base) }}',
  '{{ ansible_user | default("ops") }}',
  '[{{ number }}, 2]',
  '{{ group_names }}',
  '{{ group_names[0] }}\n',
  '{{ (base) }} and {{ 5 }}',
  'a {{ base }} b {{ none_here | default }} c',
  '{{ base | default(false, boolean=true) | bool }}',
];
const UNRESOLVED = [
  '{{ lookup("env", "HOME") }}',
  '{% if x %}a{% endif %}',
  '{{ base | regex_replace("a", "b") }}',
  '{{ 1 + 1 }}',
];
/** YAML scalars whose type is not what it seems, and those that people write every day. */
const YAML_VALUES = [
  'server',
  'agent',
  '"server"',
  "'agent'",
  '5',
  '"5"',
  '022',
  '0o17',
  '1_000',
  '1.30',
  '1e3',
  '10:30',
  '0x1f',
  'yes',
  'no',
  'on',
  '"on"',
  'y',
  'n',
  'true',
  'False',
  '~',
  'null',
  '',
  '2024-01-02',
  '.5',
  '-7',
  '+3',
  '100.64.0.1',
  'a b  c',
  '"a\\tb"',
  "'it''s'",
  '[a, b]',
  '[1, "2", 3.0]',
  '{port: 22, name: "", list: [x, y]}',
  '{name: edge, port: "2222"}',
  '"10.0.0.1"',
  'a#b',
  '"a # b"',
  '"é ü"',
  'x:y',
  '"{{ base }}"',
  '!unsafe "{{ base }}"',
  '!!str 5',
  '"1.0"',
  '3.0',
  '08',
  '1.',
  '12e03',
  '"True"',
  '"[1, 2]"',
  '.inf',
  '9007199254740993',
  '|-\n%Itext\n%I  more',
  '>\n%Ifolded\n%Itext',
] as const;
const INI_VALUES = [
  'server',
  'agent',
  '5',
  '"5"',
  "'5'",
  '022',
  '1_000',
  '1.30',
  '1e3',
  'True',
  'true',
  'no',
  'None',
  '[1,2]',
  "['a','b']",
  '"a b"',
  "'a b'",
  "{'port':22}",
  'a;b',
  '100.64.0.1',
  '0x1f',
  '/srv/x',
  'a=b',
  '""',
  '\'"quoted"\'',
  '"\'22\'"',
  '5,',
  '(1,2)',
  '-3',
  '+3',
  'x\\ y',
  'é',
  '0',
  '00',
  '1.5e-3',
  '{"a":1}',
  "u'x'",
  'set',
  '.5',
  '~',
  '2024-01-02',
  'yes#no',
] as const;
const INI_GROUP_VALUES = [
  ...INI_VALUES,
  '5  # note',
  '"x" # note',
  'a # b',
  'two words',
  '"a" "b"',
  'mesh.{{ site_domain }}',
  '',
  '{{ number | int }}',
];

/** The inventory of a seed. */
export function sampleOf(seed: number): Sample {
  return new Generator(new Random(seed)).sample();
}

class Generator {
  readonly #random: Random;
  readonly #files: Record<string, string> = {};

  constructor(random: Random) {
    this.#random = random;
  }

  sample(): Sample {
    const random = this.#random;
    const form = random.below(10);
    let inventory: string;
    let folder = random.chance(50) ? '' : 'deploy/';
    if (form < 4) {
      inventory = `${folder}${random.pick(['inventory.yml', 'hosts.yaml', 'hosts', 'inventory.prod.yml'])}`;
      this.#files[inventory] = this.#yaml(this.#tree());
    } else if (form < 7) {
      inventory = `${folder}${random.pick(['hosts.ini', 'hosts', 'inventory', 'hosts.prod'])}`;
      this.#files[inventory] = this.#ini(this.#tree());
    } else if (form < 8) {
      inventory = `${folder}${random.pick(['hosts.json', 'inventory'])}`;
      this.#files[inventory] = this.#json(this.#tree());
    } else {
      inventory = `${folder}inventory`;
      folder = `${inventory}/`;
      const names = [
        '01-base.yml',
        'hosts',
        'b.yaml',
        'c.json',
        'sub/d.yml',
        'notes.ini',
        'README.md',
        'z_last',
        '.hidden.yml',
      ];
      for (let count = 1 + random.below(3); count > 0; count--) {
        const name = random.pick(names);
        const write = name.endsWith('.json')
          ? this.#json
          : name === 'hosts' || name === 'z_last'
            ? this.#ini
            : this.#yaml;
        this.#files[`${folder}${name}`] = write.call(this, this.#tree());
      }
      // A directory without one readable file is nothing that Ansible reads.
      this.#files[`${folder}aa.yml`] ??= this.#yaml(this.#tree());
    }
    this.#varsFiles(folder);
    const playbookDir = random.chance(30) ? random.pick(['playbooks', 'deploy', '.']) : null;
    if (playbookDir !== null) this.#varsFiles(playbookDir === '.' ? '' : `${playbookDir}/`);
    if (playbookDir === 'playbooks') this.#files['playbooks/site.yml'] = '- hosts: all\n';
    if (playbookDir === 'deploy') this.#files['deploy/site.yml'] = '- hosts: all\n';
    const wellFormed = random.chance(88);
    if (!wellFormed) this.#spoil();
    return { files: this.#files, inventory, playbookDir, wellFormed };
  }

  /** A few characters of one file changed. */
  #spoil(): void {
    const random = this.#random;
    const path = random.pick(Object.keys(this.#files));
    let text = this.#files[path] as string;
    for (let count = 1 + random.below(3); count > 0; count--) {
      const at = random.below(text.length + 1);
      const put = random.pick([
        '',
        '',
        ' ',
        '\n',
        ':',
        ': ',
        '#',
        '"',
        "'",
        '- ',
        '[',
        ']',
        '{',
        '\t',
        '=',
        '\\',
        '&a ',
        '*a',
        '\r\n',
        'hosts:',
      ]);
      text = text.slice(0, at) + put + text.slice(at + random.below(3));
    }
    this.#files[path] = text;
  }

  #tree(): Group[] {
    const random = this.#random;
    const names = GROUPS.filter(() => random.chance(55));
    if (names.length === 0) names.push('github_runner_cluster');
    const groups = names.map((name): Group => ({ name, children: [], hosts: [], variables: [] }));
    for (const [index, group] of groups.entries()) {
      for (let count = random.below(4); count > 0; count--) {
        const host = random.chance(15) ? random.pick(RANGES) : random.pick(HOSTS);
        if (!group.hosts.includes(host)) group.hosts.push(host);
      }
      if (random.chance(60)) group.variables.push(...this.#variables(3));
      const parent = index > 0 && random.chance(60) ? groups[random.below(index)] : undefined;
      if (parent !== undefined && group.name !== 'ungrouped') parent.children.push(group);
      if (index > 1 && random.chance(15) && group.name !== 'ungrouped') {
        const second = groups[random.below(index)] as Group;
        if (!second.children.includes(group)) second.children.push(group);
      }
    }
    return groups;
  }

  #variables(most: number): [string, string][] {
    const random = this.#random;
    const names = new Set<string>();
    for (let count = random.below(most + 1); count > 0; count--) names.add(random.pick(NAMES));
    return [...names].map((name) => [name, name]);
  }

  #yamlValue(indent: string): string {
    const random = this.#random;
    if (random.chance(30)) return JSON.stringify(random.chance(4) ? random.pick(UNRESOLVED) : random.pick(TEMPLATES));
    if (random.chance(3)) return ['!vault |', ...random.pick(SEALED)].join(`\n${indent}  `);
    return random.pick(YAML_VALUES).replaceAll('%I', `${indent}  `);
  }

  #yamlLines(variables: readonly [string, string][], indent: string): string {
    return variables.map(([name]) => `${indent}${name}: ${this.#yamlValue(indent)}\n`).join('');
  }

  #yaml(groups: readonly Group[]): string {
    const random = this.#random;
    const written = new Set<string>();
    const tops = groups.filter((group) => !groups.some((other) => other.children.includes(group)));
    const head = random.chance(50) ? '---\n' : random.chance(10) ? '# fleet\n\n' : '';
    if (random.chance(70)) {
      let text = 'all:\n';
      if (random.chance(40)) text += this.#section('  vars:\n', this.#yamlLines(this.#variables(3), '    '));
      if (random.chance(30)) text += `  hosts:\n    ${random.pick(HOSTS)}:\n`;
      text += '  children:\n';
      for (const group of tops) text += this.#yamlGroup(group, '    ', written);
      return this.#finish(head + text);
    }
    return this.#finish(head + tops.map((group) => this.#yamlGroup(group, '', written)).join(''));
  }

  #finish(text: string): string {
    if (this.#random.chance(8)) return text.replaceAll('\n', '\r\n');
    if (this.#random.chance(5)) return `\ufeff${text}`;
    return this.#random.chance(5) ? text.trimEnd() : text;
  }

  #section(header: string, body: string): string {
    return body === '' ? '' : header + body;
  }

  #yamlGroup(group: Group, indent: string, written: Set<string>): string {
    const random = this.#random;
    const mark = random.chance(10) ? '  # a note' : '';
    if (written.has(group.name)) return `${indent}${group.name}:${mark}\n`;
    written.add(group.name);
    const parts: string[] = [];
    if (group.variables.length > 0) {
      let lines = this.#yamlLines(group.variables, `${indent}    `);
      if (random.chance(15)) lines += `${indent}    ansible_group_priority: ${random.pick(['10', '"3"', '2', '-1'])}\n`;
      parts.push(`${indent}  vars:\n${lines}`);
    }
    if (group.hosts.length > 0) {
      const lines = group.hosts.map((host) => this.#yamlHost(host, `${indent}    `)).join('');
      parts.push(`${indent}  hosts:\n${lines}`);
    } else if (random.chance(10)) parts.push(`${indent}  hosts: ${random.pick(['', '{}', 'lone-host', '~'])}\n`);
    if (group.children.length > 0) {
      const children = group.children.map((child) => this.#yamlGroup(child, `${indent}    `, written)).join('');
      parts.push(`${indent}  children:\n${children}`);
    }
    if (random.chance(50)) parts.reverse();
    return `${indent}${group.name}:${mark}\n${parts.join('')}`;
  }

  #yamlHost(name: string, indent: string): string {
    const random = this.#random;
    const key = random.chance(10) && !name.includes('[') ? `${name}:2200` : name;
    const shown = random.chance(10) || key.includes('[') ? JSON.stringify(key) : key;
    const variables = this.#variables(3);
    if (variables.length === 0) return `${indent}${shown}:${random.pick(['', ' {}', ' null', '  # note'])}\n`;
    return `${indent}${shown}:\n${this.#yamlLines(variables, `${indent}  `)}`;
  }

  #iniHost(name: string): string {
    const random = this.#random;
    const pattern = random.chance(12) && !name.includes(':') ? `${name}:2201` : name;
    const values = this.#variables(3).map(([variable]) => {
      if (random.chance(15))
        return `${variable}=${random.pick(['"{{ base }}"', '"mesh.{{ site_domain }}"', "'{{ number | int }}'"])}`;
      return `${variable}=${random.pick(INI_VALUES)}`;
    });
    const note = random.chance(15) ? '  # a note' : random.chance(5) ? ' #' : '';
    return `${[pattern, ...values].join(random.pick([' ', '  ', '\t']))}${note}\n`;
  }

  #ini(groups: readonly Group[]): string {
    const random = this.#random;
    const sections: string[] = [];
    for (const group of groups) {
      const hosts = group.hosts.map((host) => this.#iniHost(host)).join('');
      // A group needs a section of its own to be declared.
      sections.push(`[${group.name}]${random.chance(10) ? '  # note' : ''}\n${hosts}`);
      if (group.children.length > 0) {
        const children = group.children.map((child) => `${child.name}${random.chance(10) ? ' # note' : ''}\n`).join('');
        sections.push(`[${group.name}:children]\n${children}`);
      }
      if (group.variables.length > 0) {
        const equals = random.pick(['=', ' = ']);
        let lines = group.variables.map(([name]) => `${name}${equals}${random.pick(INI_GROUP_VALUES)}\n`).join('');
        if (random.chance(15)) lines += `ansible_group_priority=${random.pick(['10', '2', '"3"'])}\n`;
        sections.push(`[${group.name}:vars]\n${lines}`);
      }
    }
    if (random.chance(40)) {
      for (let count = sections.length; count > 1; count--) {
        const other = random.below(count);
        const last = sections[count - 1] as string;
        sections[count - 1] = sections[other] as string;
        sections[other] = last;
      }
    }
    const loose = random.chance(30) ? this.#iniHost(random.pick(HOSTS)) : '';
    if (random.chance(30)) {
      const lines = this.#variables(3).map(([name]) => `${name}=${random.pick(INI_GROUP_VALUES)}\n`);
      sections.push(`[all:vars]\n${lines.join('')}`);
    }
    const text = `${random.pick(['', '# fleet\n', '; old style\n\n'])}${loose}${sections.join(random.pick(['', '\n', '\n; --\n']))}`;
    return random.chance(8) ? text.replaceAll('\n', '\r\n') : text;
  }

  #json(groups: readonly Group[]): string {
    const random = this.#random;
    const written = new Set<string>();
    const value = (): Json =>
      random.chance(30)
        ? random.pick(TEMPLATES)
        : random.pick<Json>([
            'server',
            5,
            '5',
            true,
            null,
            1.5,
            [1, 'b'],
            { port: 22, list: ['x', 'y'], name: '' },
            'yes',
            'é\u2028',
            '',
          ]);
    const values = (variables: readonly [string, string][]) =>
      Object.fromEntries(variables.map(([name]) => [name, value()]));
    const groupOf = (group: Group): Json => {
      if (written.has(group.name)) return null;
      written.add(group.name);
      const result: { [key: string]: Json } = {};
      if (group.variables.length > 0) result.vars = values(group.variables);
      if (group.hosts.length > 0) {
        result.hosts = Object.fromEntries(
          group.hosts.map((host) => [host, random.chance(50) ? null : values(this.#variables(2))]),
        );
      }
      if (group.children.length > 0) {
        result.children = Object.fromEntries(group.children.map((child) => [child.name, groupOf(child)]));
      }
      return result;
    };
    const tops = groups.filter((group) => !groups.some((other) => other.children.includes(group)));
    const all = { all: { children: Object.fromEntries(tops.map((group) => [group.name, groupOf(group)])) } };
    return JSON.stringify(all, null, random.pick([0, 1, 2]));
  }

  #varsFiles(folder: string): void {
    const random = this.#random;
    for (let count = random.below(4); count > 0; count--) {
      const isHost = random.chance(45);
      const name = isHost ? random.pick(HOSTS) : random.pick(['all', ...GROUPS]);
      const base = `${folder}${isHost ? 'host_vars' : 'group_vars'}/${name}`;
      const paths = [
        '',
        '.yml',
        '.yaml',
        '.json',
        '/main.yml',
        '/b',
        '/a.yaml',
        '/sub/c.yml',
        '/.hidden.yml',
        '/x.txt',
        '/old~',
      ];
      const path = `${base}${random.pick(paths)}`;
      const taken = Object.keys(this.#files).some(
        (other) => other.startsWith(`${path}/`) || path.startsWith(`${other}/`),
      );
      if (taken) continue;
      const variables = this.#variables(4);
      if (path.endsWith('.json')) {
        this.#files[path] = JSON.stringify(
          Object.fromEntries(variables.map(([key]) => [key, random.pick(['j', 7, false, '{{ base }}'])])),
        );
      } else {
        let text = `${random.chance(50) ? '---\n' : ''}${this.#yamlLines(variables, '')}`;
        if (random.chance(15)) text += `defaults: &d {number: 9, base: Merged}\nsettings:\n  <<: *d\n  port: 99\n`;
        if (random.chance(5)) text += 'ansible_group_priority: 50\n';
        // Two `settings` in one file would be an error for fleet-role alone.
        if (/^settings:[^\n]/m.test(text) && /^settings:\n/m.test(text)) text = '# nothing\n';
        this.#files[path] = random.chance(6) ? vaultText(text, PASSWORD) : text;
      }
    }
  }
}
