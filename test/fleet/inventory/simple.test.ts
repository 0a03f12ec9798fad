import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { Lines, ReadingError } from '../../../src/fleet/inventory/text.js';
import { type Node, parseYaml } from '../../../src/fleet/inventory/yaml-parser.js';
import { Random } from '../../conformance/generate.js';

/** What a text is read to, with lines and columns in place of offsets; or the error. */
function outcome(text: string): unknown {
  const lines = new Lines(text);
  const column = (at: number): number => at - (text.lastIndexOf('\n', at - 1) + 1);
  const shown = (node: Node | null): unknown => {
    if (node === null) return null;
    const place = `${lines.lineOf(node.at)}:${column(node.at)} ${node.tag}`;
    if (node.kind === 'scalar') return [place, node.plain, node.text];
    if (node.kind === 'alias') return [place, 'alias', shown(node.target)];
    if (node.kind === 'sequence') return [place, node.items.map(shown)];
    return [place, node.pairs.map(([key, value]) => [shown(key), shown(value)])];
  };
  try {
    return shown(parseYaml(text));
  } catch (error) {
    if (!(error instanceof ReadingError)) throw error;
    return [error.code, error.message, error.at === null ? null : lines.lineOf(error.at)];
  }
}

/** Lines that end with CR LF mean the same, and no entry of theirs is read at once. */
function expectSameByTokens(text: string): void {
  expect(outcome(text), text).toEqual(outcome(text.replaceAll('\n', '\r\n')));
}

const files = readFileSync(new URL('cases.jsonl', import.meta.url), 'utf8')
  .trim()
  .split('\n')
  .flatMap((line) => Object.values((JSON.parse(line) as { files: Record<string, string> }).files))
  .filter((text) => !text.includes('\r'));

const LINES = [
  ...['a: b', 'b: 1', 'c:', 'd:', 'e.f-g: x/y.z', 'u: https://h.example:6443', 'w: a:b', '7: 8', 'k: v w', 'n: null'],
  ...['a', '- a', '- a: b', '- ', '? q', ': r', '"s": t', "x: 's'", 'y: [1, 2]', 'z: {k: v}', 'm: |', 'o: >-', '---'],
  ...[
    '',
    '# note',
    'p: q # note',
    'p: q ',
    '&x a: b',
    'a: *x',
    '<<: *x',
    'a: &x',
    'a: !t b',
    'a:b',
    'a: -',
    'a: b:',
    '...',
  ],
];

describe('entries that are read at once are read to what their tokens are read to', () => {
  it('in every inventory of the cases', () => {
    expect(files.length).toBeGreaterThan(100);
    for (const text of files) expectSameByTokens(text);
  });

  it('wherever they stand among other lines', () => {
    const random = new Random(8);
    for (let round = 0; round < 6_000; round++) {
      let indent = 0;
      let text = '';
      const count = 1 + random.below(12);
      for (let line = 0; line < count; line++) {
        // Mostly what is right, at times one too far left or right.
        const steps = [0, 0, 0, 0, 2, 2, -2, -2, 1, -1, 4];
        indent = Math.max(0, indent + (steps[random.below(steps.length)] as number));
        // The simple ones stand at the front of the list.
        const written = LINES[random.below(random.below(3) === 0 ? LINES.length : 10)] as string;
        text += `${' '.repeat(indent)}${written}\n`;
      }
      expectSameByTokens(random.below(8) === 0 ? text.trimEnd() : text);
    }
  });
});
