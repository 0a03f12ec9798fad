import { describe, expect, test } from 'vitest';
import { cutText, fitToBudget, type Rows, type Section, utf8Length } from '../../src/report/budget.js';

const BUDGET = { bytes: 600, elsewhere: 'the job summary' };

function rowsOf(count: number, rank: number, text = 'ä'.repeat(8)): Rows {
  const rows = Array.from({ length: count }, (_, at) => `| ${rank}.${at} | ${text} |`);
  return {
    kind: 'rows',
    before: ['<details>', '<summary>Steps</summary>', '', '| a | b |', '| --- | --- |'],
    rows,
    after: ['', '</details>', ''],
    what: ['step', 'steps'],
    rank,
  };
}

describe('fitToBudget', () => {
  test('leaves what fits as it is', () => {
    const section: Section = [{ kind: 'paragraph', lines: ['## One', ''] }, rowsOf(2, 1)];
    expect(fitToBudget([section], BUDGET)).toBe(
      [
        '## One',
        '',
        '<details>',
        '<summary>Steps</summary>',
        '',
        '| a | b |',
        '| --- | --- |',
        '| 1.0 | ääääääää |',
        '| 1.1 | ääääääää |',
        '',
        '</details>',
        '',
      ].join('\n'),
    );
  });

  test('cuts between rows, closes the fold, and says how many are missing and where they are', () => {
    const text = fitToBudget([[rowsOf(100, 1)]], BUDGET);
    const shown = text.match(/^\| 1\.\d+ \| ä{8} \|$/gm) ?? [];
    expect(shown.length).toBeGreaterThan(5);
    expect(text).toContain(`\n_${100 - shown.length} more steps: see the job summary._\n`);
    expect(text.match(/^\|.*$/gm)).toHaveLength(shown.length + 2);
    expect(text).toContain('</details>');
    expect(utf8Length(text)).toBeLessThanOrEqual(BUDGET.bytes);
  });

  test('keeps the rows of a low rank, wherever they stand', () => {
    const text = fitToBudget([[rowsOf(100, 2)], [rowsOf(6, 1)]], { ...BUDGET, bytes: 800 });
    expect(text.match(/\| 1\./g)).toHaveLength(6);
    expect((text.match(/\| 2\./g) ?? []).length).toBeLessThan(20);
  });

  test('leaves out whole sections when not even their frames fit', () => {
    const sections = Array.from(
      { length: 200 },
      (_, at): Section => [{ kind: 'paragraph', lines: [`## Cluster ${at}`, ''] }],
    );
    const text = fitToBudget(sections, BUDGET);
    const shown = text.match(/^## Cluster/gm) ?? [];
    expect(text).toContain(`Sections that are not shown here: ${200 - shown.length}. See the job summary.`);
    expect(utf8Length(text)).toBeLessThanOrEqual(BUDGET.bytes);
  });

  test.each(Array.from({ length: 40 }, (_, at) => 300 + at * 37))(
    'stays within %d bytes and breaks nothing',
    (bytes) => {
      const text = fitToBudget([[rowsOf(50, 3, '😀ä')], [rowsOf(50, 1), rowsOf(50, 2)]], { ...BUDGET, bytes });
      expect(utf8Length(text)).toBeLessThanOrEqual(bytes);
      expect(text.match(/<details>/g)?.length ?? 0).toBe(text.match(/<\/details>/g)?.length ?? 0);
      for (const line of text.split('\n')) {
        expect(line).toMatch(/^(?:\| .* \||_.*_|<\/?details>|<summary>.*<\/summary>|)$/);
      }
    },
  );
});

describe('cutText', () => {
  test.each([
    ['abc', 3, 'abc'],
    ['abcdef', 5, 'ab…'],
    ['äöü', 5, 'ä…'],
    ['😀😀', 7, '😀…'],
    ['😀😀', 6, '…'],
  ])('cuts %j to %d bytes as %j', (text, bytes, cut) => {
    expect(cutText(text, bytes)).toBe(cut);
    expect(Buffer.byteLength(cut)).toBeLessThanOrEqual(bytes);
  });

  test.each(['', 'abc', 'äöü', '→', '😀', 'a😀ä→', '\ud800', 'x\udc00y'])('measures %j as UTF-8 does', (text) => {
    expect(utf8Length(text)).toBe(Buffer.byteLength(text));
  });
});
