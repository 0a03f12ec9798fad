import { describe, expect, test } from 'vitest';
import { code, htmlCode, logText, plain, prose, proseLines, visible } from '../../src/report/escape.js';
import { cellsOf, commandsIn, forgedIn, HOSTILE, hiddenIn, outsideCode } from './hostile.js';

describe('visible', () => {
  test.each([
    ['node1', 'node1'],
    ['Küche', 'Küche'],
    ['a\nb', 'a b'],
    ['\u001b[31m', '\\x1b[31m'],
    ['a\u202eb', 'a\\u202eb'],
    ['\u{e0041}', '\\u{e0041}'],
    ['no\u00a0break', 'no\\xa0break'],
    ['\ud800', '\\ud800'],
  ])('shows %j as %j', (text, shown) => {
    expect(visible(text)).toBe(shown);
  });

  test('cuts a long text between characters', () => {
    expect(visible('abcdef', 4)).toBe('abcd…');
    expect(visible('abc😀', 4)).toBe('abc…');
  });
});

describe('prose', () => {
  test.each([
    ['two servers are left, one short of quorum.', 'two servers are left, one short of quorum.'],
    ['set `P_node_role: agent` on node4', 'set `P_node_role: agent` on node4'],
    ['write P_node_role: agent', 'write `P_node_role`: agent'],
    ['see (inventory.yml:12).', 'see (`inventory.yml:12`).'],
    ["'agnt' is no role", "'agnt' is no role"],
    ['it joins https://node1.ts.net:6443.', 'it joins `https://node1.ts.net:6443`.'],
    ['host deadbeef, GH-1', 'host `deadbeef`, `GH-1`'],
    ['3 of 5 voters — none yet', '3 of 5 voters — none yet'],
    ['1. one', '`1`. one'],
    ['@octocat #1', '`@octocat` `#1`'],
    ['an odd ` backtick', 'an odd `` ` `` backtick'],
  ])('writes %j as %j', (text, markdown) => {
    expect(prose(text)).toBe(markdown);
  });

  test('keeps the lines of a message apart', () => {
    expect(proseLines('declare what runs:\nnode4: node_role: agent\n')).toBe(
      'declare what runs:<br>node4: `node_role`: agent',
    );
  });
});

describe('code', () => {
  test.each([
    ['node1', '`node1`'],
    ['a`b', '`` a`b ``'],
    ['a|b', '`a\\|b`'],
    ['a\\|b', '`a\\\\x7cb`'],
    ['', '`""`'],
  ])('writes %j as %j', (text, markdown) => {
    expect(code(text)).toBe(markdown);
  });
});

describe('logText', () => {
  test.each([
    ['plain', 'plain'],
    ['::error::x', '\\x3a:error::x'],
    ['a ::error::x', 'a ::error::x'],
    ['one\n ::error::x', 'one\n \\x3a:error::x'],
    ['##[error]x', '#\\x23[error]x'],
    ['\tfile', '  file'],
  ])('writes %j as %j', (text, shown) => {
    expect(logText(text)).toBe(shown);
  });
});

describe('a hostile text', () => {
  test.each(HOSTILE.map((text) => [text.slice(0, 60), text]))('is data wherever it is shown: %j', (_short, text) => {
    for (const markdown of [code(text), prose(text), proseLines(text)]) {
      expect(forgedIn(markdown)).toEqual([]);
      expect(markdown).not.toContain('\n');
      expect(cellsOf(`| x | ${markdown} | y |`)).toBe(3);
      expect(markdown.length).toBeLessThan(10_000);
      // Between our own words it stays what it is.
      expect(forgedIn(`- ${code('a')}: ${markdown} (${code('b')})`)).toEqual([]);
    }
    expect(outsideCode(code(text))).toBe('\ufffc');
    expect(htmlCode(text)).toMatch(/^<code>[^<>"\n]*<\/code>$/);
    for (const shown of [visible(text), htmlCode(text)]) {
      expect(hiddenIn(shown)).toEqual([]);
      expect(shown).not.toContain('\n');
    }
    expect(hiddenIn(plain(text))).toEqual([]);
    expect(hiddenIn(logText(text))).toEqual([]);
    expect(commandsIn(logText(text))).toEqual([]);
  });
});
