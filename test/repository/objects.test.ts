import { describe, expect, it } from 'vitest';
import { parseBatch, parseTree } from '../../src/repository/objects.js';

const A = 'a'.repeat(40);
const B = 'b'.repeat(64);

describe('a listing of a tree', () => {
  it('has files, links and submodules with their sizes, whatever is in their names', () => {
    const listing = [
      `100644 blob ${A}       7\tinventory.yml`,
      `100755 blob ${A} 123456789\t"with \\"quotes\\", a\\ttab, a\\nnewline, a \\\\n and a \\033"`,
      `120000 blob ${A}      11\tlink`,
      `160000 commit ${A}       -\tmodule`,
      `100644 blob ${B}     BAD\tnot there`,
      '',
    ].join('\n');
    expect([...parseTree(Buffer.from(listing))]).toEqual([
      ['inventory.yml', { type: 'file', oid: A, size: 7 }],
      ['with "quotes", a\ttab, a\nnewline, a \\n and a \u001b', { type: 'file', oid: A, size: 123456789 }],
      ['link', { type: 'link', oid: A, size: 11 }],
      ['module', { type: 'module', oid: A, size: 0 }],
      ['not there', { type: 'file', oid: B, size: 0 }],
    ]);
  });

  it('can be empty', () => {
    expect(parseTree(Buffer.alloc(0)).size).toBe(0);
  });
});

describe('a batch of objects', () => {
  it('keeps every byte, newlines and what looks like a header included', () => {
    const bytes = Buffer.concat([Buffer.from([0, 255, 10, 13, 10]), Buffer.from(`${A} blob 3\nabc\n`)]);
    const output = Buffer.concat([
      Buffer.from(`${A} blob ${bytes.length}\n`),
      bytes,
      Buffer.from(`\n${A} missing\n${B} blob 0\n\n`),
    ]);
    const [one, missing, empty] = parseBatch(output, 3);
    expect(one?.content.equals(bytes)).toBe(true);
    expect(missing).toBeNull();
    expect(empty).toMatchObject({ oid: B, type: 'blob' });
    expect(empty?.content.length).toBe(0);
  });

  it.each([`${A} blob 4\nabc\n`, `${A} blob 3\nabc`, `${A} blob`, ''])('that ends early is an error: %j', (output) => {
    expect(() => parseBatch(Buffer.from(output), 1)).toThrow('git cat-file ended early');
  });
});
