import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { Random } from '../../conformance/generate.js';
import { type Content, read } from './snapshots.js';

/** Reads whatever it is; what is wrong must be a problem that names file and line. */
function survives(files: Readonly<Record<string, Content>>): void {
  const result = read(files);
  for (const problem of result.problems) {
    expect(problem.file).toBeTypeOf('string');
    expect(problem.line).toBeGreaterThan(0);
    expect(problem.message).not.toBe('');
  }
  // All hosts of all groups together are more than anybody asks for.
  for (const group of [...result.groups.values()].slice(0, 20)) expect(group.hosts.length).toBe(group.places.size);
  for (const host of result.hosts.values())
    for (const [name, variable] of host.variables) expect(variable.name).toBe(name);
}

const valid = readFileSync(new URL('cases.jsonl', import.meta.url), 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as { files: Record<string, string> });
const paths = ['inventory.yml', 'inventory.ini', 'hosts', 'inventory/hosts.yml'];
const pieces = [
  '{',
  '[',
  '}',
  ']',
  ':',
  ': ',
  '- ',
  '? ',
  '&a ',
  '*a',
  '<<: ',
  '"',
  "'",
  '\\',
  '|',
  '>',
  '#',
  '%',
  '!',
  '!!',
  '\t',
  '\r',
  '{{',
  '}}',
  '[1:99]',
  '\u2028',
  '\0',
  '😀',
  '=',
  ',',
  '[x:vars]',
  '$ANSIBLE_VAULT;1.1;AES256\n',
];

describe('hostile files', () => {
  it('random bytes never crash it', () => {
    const random = new Random(1);
    for (let round = 0; round < 300; round++) {
      const bytes = Uint8Array.from({ length: random.below(400) }, () => random.below(random.chance(50) ? 256 : 128));
      survives({ [random.pick(paths)]: bytes });
    }
  });

  it('mutated inventories never crash it', () => {
    const random = new Random(2);
    for (let round = 0; round < 600; round++) {
      const { files } = random.pick(valid);
      const changed: Record<string, string> = {};
      for (const [path, text] of Object.entries(files)) {
        let next = text;
        for (let count = random.below(6); count > 0; count--) {
          const at = random.below(next.length + 1);
          const put = random.chance(70)
            ? random.pick(pieces).repeat(1 + random.below(3))
            : next.slice(at, at + random.below(80));
          next = next.slice(0, at) + put + next.slice(at + random.below(12));
        }
        changed[path] = next;
      }
      survives(changed);
    }
  });

  const large = 300_000;
  const huge: readonly (readonly [string, string])[] = [
    ['open brackets', '['.repeat(large)],
    ['open braces', '{a: '.repeat(large / 4)],
    ['nested lists', '- '.repeat(large / 2)],
    ['nested keys', '? '.repeat(large / 2)],
    ['JSON brackets', `{"a": ${'['.repeat(large)}`],
    ['an open double quote', `a: "${'x'.repeat(large)}`],
    ['an open single quote', `a: '${' x'.repeat(large / 2)}`],
    ['an open JSON text', `{"a": "${'x'.repeat(large)}`],
    ['a long plain text', `all:\n  vars:\n    a: ${'x '.repeat(large / 2)}`],
    ['a long number', `all:\n  vars:\n    a: ${'1'.repeat(large)}`],
    ['a long JSON number', `{"all": {"vars": {"a": ${'1'.repeat(large)}}}}`],
    ['a long number with colons', `all:\n  vars:\n    a: 1${':1'.repeat(large / 2)}`],
    ['a long float', `all:\n  vars:\n    a: ${'1'.repeat(large)}.5`],
    ['a long key', `${'k'.repeat(large)}: 1`],
    ['long white space', `all:${' '.repeat(large)}x`],
    ['many line breaks', `all:${'\n'.repeat(large)}  x: 1`],
    ['many comments', `${'# x\n'.repeat(large / 4)}all:`],
    [
      'many anchors',
      `all:\n  vars:\n    a: [${Array.from({ length: 20_000 }, (_, index) => `&a${index} x`).join(', ')}]`,
    ],
    ['many aliases', `all:\n  vars:\n    b: &b x\n    a: [${'*b, '.repeat(20_000)}]`],
    ['a long tag', `a: !${'t'.repeat(large)} x`],
    ['a long anchor', `a: &${'t'.repeat(large)} x`],
    ['many merge keys', `all:\n  vars:\n    b: &b {x: 1}\n    a:\n${'      <<: *b\n'.repeat(2000)}`],
    ['a long template', `all:\n  vars:\n    ansible_host: "{{${' '.repeat(large)}x"\n  hosts: {h: }`],
    ['a deep template', `all:\n  vars:\n    ansible_host: "{{ ${'('.repeat(30_000)} }}"\n  hosts: {h: }`],
    ['many filters', `all:\n  vars:\n    ansible_host: "{{ 'x' ${'| lower '.repeat(5000)} }}"\n  hosts: {h: }`],
    ['a long host name', `all:\n  hosts:\n    ${'a.'.repeat(500)}:`],
    ['a folded text', `all:\n  vars:\n    a: >\n${'      x\n\n'.repeat(large / 10)}`],
  ];

  it.each(huge)('%s neither crashes nor hangs it', (_, text) => {
    for (const path of ['inventory.yml', 'hosts', 'inventory.ini']) survives({ [path]: text });
    survives({ 'inventory.yml': 'all:\n  hosts: {a: }\n', 'host_vars/a': text });
  });

  const hugeIni: readonly (readonly [string, string])[] = [
    ['a long host line', `h ${'a=1 '.repeat(large / 4)}`],
    ['a long host', 'h'.repeat(large)],
    ['a host of dashes', `a${'-'.repeat(large)}`],
    ['many brackets', `n${'[1:2]'.repeat(5000)}`],
    ['a huge range', 'n[1:99999999999999999999]'],
    ['a deep literal', `h\n[all:vars]\na=${'['.repeat(large)}`],
    ['a long list', `h\n[all:vars]\na=[${'1,'.repeat(large / 2)}]`],
    ['a long tuple', `h\n[all:vars]\na=${'1,'.repeat(large / 2)}`],
    ['a long text', `h\n[all:vars]\na='${'\\x41'.repeat(large / 4)}'`],
    ['joined texts', `h\n[all:vars]\na=${"'a' ".repeat(large / 4)}`],
    ['a long number', `h\n[all:vars]\na=${'1'.repeat(large)}`],
    ['long white space', `${' '.repeat(large)}h${' '.repeat(large)}x`],
    ['a long section', `[${'a'.repeat(large)}`],
    ['many groups', Array.from({ length: 20_000 }, (_, index) => `[g${index}]\nh${index}\n`).join('')],
    [
      'a chain of groups',
      `${Array.from({ length: 20_000 }, (_, index) => `[g${index}:children]\ng${index + 1}\n`).join('')}[g20000]\nh\n`,
    ],
    ['one host in many groups', Array.from({ length: 20_000 }, (_, index) => `[g${index}]\nh\n`).join('')],
    [
      'many parents',
      `${Array.from({ length: 3000 }, (_, index) => `[p${index}:children]\nm\n`).join('')}[m:children]\n${Array.from({ length: 3000 }, (_, index) => `l${index}\n`).join('')}${Array.from({ length: 3000 }, (_, index) => `[l${index}]\nh${index}\n`).join('')}[m]\n`,
    ],
  ];

  it.each(hugeIni)('INI with %s neither crashes nor hangs it', (_, text) => {
    survives({ 'inventory.ini': text });
  });
});
