import { parseJson } from '../../src/fleet/inventory/json-parser.js';
import { type Key, PyFloat, type Raw, Unsafe, Vaulted } from '../../src/fleet/inventory/raw.js';
import { ReadingError } from '../../src/fleet/inventory/text.js';
import { parseYaml } from '../../src/fleet/inventory/yaml-parser.js';
import { Construction } from '../../src/fleet/inventory/yaml-values.js';
import { Random } from './generate.js';

export interface DocumentAnswer {
  readonly error?: string;
  readonly value?: Typed;
  readonly doubled?: boolean;
}

type Typed =
  | null
  | boolean
  | { readonly int: string }
  | { readonly float: number | string }
  | { readonly text: string }
  | { readonly unsafe: string }
  | { readonly vault: true }
  | { readonly map: readonly (readonly [Typed, Typed])[] }
  | readonly Typed[];

const WHOLE = [
  'all:\n  hosts:\n    a:\n      x: 1\n    b:\n  children:\n    g:\n      hosts: {c: , d: {y: "z"}}\n',
  'base: &x\n  k: 1\n  l: [a, b]\nother: &y {k: 2, m: 3}\nmore:\n  <<: *x\n  k: 3\nlist:\n  - *x\n  - <<: [*x, *y]\n    z: 1\n',
  'text: |\n  one\n   two\n\n  three\nfold: >-\n  a\n  b\n\n  c\n   d\nq: "a\n  b \\\n  c"\n',
  '{"a": [1, 2.5, "x", null, true], "b": {"c": "\\u00e9"}}',
  '- a\n- b: 1\n  c: 2\n-\n  - d\n  - e\n? k\n: v\n',
  'a: b\n# c\nd: "e" # f\ng: \'h\'\ni:\n- j\n- k\nl: m\n  n\n o: p\n',
];
const PIECES = [
  'a',
  'b',
  'c: ',
  ': ',
  '- ',
  '\n',
  '\n  ',
  '\n    ',
  '  ',
  ' ',
  '\t',
  '"',
  "'",
  '[',
  ']',
  '{',
  '}',
  ', ',
  ',',
  '?',
  '? ',
  '|',
  '>',
  '|-',
  '>+',
  '|2',
  '#',
  ' # c',
  '&x ',
  '*x',
  '&y ',
  '*y',
  '<<: ',
  '!vault ',
  '!unsafe x',
  '!!str ',
  '!!int ',
  '!!float ',
  '! ',
  'yes',
  'no',
  'on',
  '0o17',
  '017',
  '1_0',
  '1.30',
  '1:30',
  '12:30:45',
  '2001-01-02',
  '2001-12-14t21:59:43.10-05:00',
  '~',
  'null',
  'Null',
  '.5',
  '1e3',
  '1.0e+3',
  '0x1f',
  '-',
  '+1',
  '=',
  '---',
  '...',
  '%YAML 1.1\n',
  '\\',
  '\\n',
  '\\u00e9',
  'é',
  '\u0085',
  '\u2028',
  '@',
  '`',
  '%',
  '!',
  '&',
  '*',
  'key: value',
  '\nkey: value',
  '\n- item',
  'x:y',
  'a b',
  '\r\n',
  '\r',
  'é: 1',
  '"q": ',
  "'it''s'",
  '{a: 1}',
  '[1, 2]',
  '<<: *x',
  '<<: [*x, *y]',
  '\ufeff',
  'n',
  'y',
  'NaN',
  'Infinity',
  '"a"',
  '-1',
  '1.5',
  '08',
  '0',
  '0b11',
  '+.inf',
  '.nan',
  'true',
  'False',
  '!foo ',
  '!!set ',
  '\n\n',
  '\n \n',
];

/** A loose text: pieces of YAML, or a whole document with a few of them put in. */
export function documentOf(seed: number): string {
  const random = new Random(seed);
  let text = '';
  if (random.chance(50)) {
    text = random.pick(WHOLE);
    for (let count = 1 + random.below(4); count > 0; count--) {
      const at = random.below(text.length + 1);
      const piece = random.chance(75) ? random.pick(PIECES) : '';
      text = text.slice(0, at) + piece + text.slice(at + (random.chance(66) ? 0 : random.below(4)));
    }
  } else for (let count = 1 + random.below(12); count > 0; count--) text += random.pick(PIECES);
  return text;
}

/** How fleet-role reads the text otherwise than Ansible did, or null. */
export function documentDifference(text: string, answer: DocumentAnswer): string | null {
  let ours: Typed;
  try {
    const root = parseJson(text) ?? parseYaml(text);
    ours = root === null ? null : typed(new Construction().value(root));
  } catch (error) {
    if (!(error instanceof ReadingError)) return `crashed: ${error instanceof Error ? error.stack : error}`;
    const onPurpose =
      (error.code === 'duplicate-key' && answer.doubled === true) ||
      /inside its own anchor|remove its tag|the tag !unsafe/.test(error.message);
    if (answer.error !== undefined || onPurpose) return null;
    return `Ansible reads it as ${shown(answer.value)}, fleet-role says: ${error.message}`;
  }
  if (answer.error !== undefined) return `fleet-role reads it as ${shown(ours)}, Ansible says: ${answer.error}`;
  return shown(ours) === shown(answer.value) ? null : `${shown(ours)} instead of ${shown(answer.value)}`;
}

function typed(raw: Raw | Key): Typed {
  if (raw === null || typeof raw === 'boolean') return raw;
  if (typeof raw === 'number' || typeof raw === 'bigint') return { int: String(raw) };
  if (typeof raw === 'string') return { text: raw };
  if (raw instanceof PyFloat) return { float: raw.number };
  if (raw instanceof Unsafe) return { unsafe: raw.text };
  if (raw instanceof Vaulted) return { vault: true };
  if (raw instanceof Map) return { map: [...raw].map(([key, value]) => [typed(key), typed(value)] as const) };
  return (raw as readonly Raw[]).map(typed);
}

/** JSON in which a float key is its number, and infinities have one name. */
function shown(value: unknown): string {
  return (
    JSON.stringify(value, (name, item) => {
      if (name === 'float') return String(item).replace('Infinity', 'inf').replace('NaN', 'nan');
      if (name === 'map')
        return item.map(([key, inner]: [Typed, Typed]) => [
          isFloat(key) ? { int: String(Number(key.float)) } : key,
          inner,
        ]);
      return item;
    }) ?? 'nothing'
  );
}

function isFloat(key: Typed): key is { readonly float: number | string } {
  return key !== null && typeof key === 'object' && 'float' in key;
}
