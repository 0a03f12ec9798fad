import { describe, expect, it } from 'vitest';
import { UserError } from '../../src/errors.js';
import { checkRef, isFullSha, parseRefs, pickRef } from '../../src/repository/ref-names.js';

const A = 'a'.repeat(40);
const B = 'b'.repeat(40);

describe('the name of a ref', () => {
  it.each(['main', 'feature/x', 'v1.2.3', 'refs/heads/main', 'refs/pull/12/merge', 'HEAD', 'grün', A, 'a'.repeat(64)])(
    'can be %j',
    (ref) => expect(() => checkRef(ref, 'ref')).not.toThrow(),
  );

  it.each([
    '',
    '-',
    '--upload-pack=touch x',
    '-c',
    'a b',
    'a\nb',
    'a\u0000',
    'a\u202eb',
    'a..b',
    'main~1',
    'main^',
    'HEAD^{tree}',
    'HEAD:inventory.yml',
    'ma?n',
    'ma*n',
    'ma[in',
    'a\\b',
    'main@{1}',
    '@',
    '/main',
    'main/',
    'a//b',
    'main.',
    '.main',
    'a/.b',
    'main.lock',
    'x'.repeat(1001),
  ])('cannot be %j', (ref) => {
    expect(() => checkRef(ref, 'base-ref')).toThrow(UserError);
    expect(() => checkRef(ref, 'base-ref')).toThrow(/^The input base-ref is /);
  });

  it('is shown on one line when it is refused', () => {
    let message = '';
    try {
      checkRef('a\n::error::b\u202e', 'ref');
    } catch (error) {
      message = (error as Error).message;
    }
    expect(message).toMatch(/^The input ref is [^\n\u202e]+$/);
  });

  it('is no SHA unless it has all its digits', () => {
    expect([A, A.toUpperCase(), 'b'.repeat(64)].map(isFullSha)).toEqual([true, true, true]);
    expect(['a'.repeat(39), 'a'.repeat(41), 'g'.repeat(40), `${A}\n`].map(isFullSha)).toEqual([
      false,
      false,
      false,
      false,
    ]);
  });
});

describe('what a name means', () => {
  it('is a branch, a tag, a full ref, or HEAD, and nothing that only ends alike', () => {
    const refs = parseRefs(
      `${A}\trefs/heads/main\n${B}\trefs/heads/x/refs/heads/other\n${B}\tHEAD\n${B} refs/pull/1/head\n`,
    );
    expect(pickRef('main', refs, 'ref', false)).toBe(A);
    expect(pickRef('refs/heads/main', refs, 'ref', false)).toBe(A);
    expect(pickRef('HEAD', refs, 'ref', false)).toBe(B);
    expect(pickRef('pull/1/head', refs, 'ref', false)).toBe(B);
    expect(pickRef('other', refs, 'ref', false)).toBeNull();
  });

  it('is what an annotated tag stands for', () => {
    expect(pickRef('v1', parseRefs(`${A}\trefs/tags/v1\n${B}\trefs/tags/v1^{}\n`), 'ref', false)).toBe(B);
  });

  it('is not guessed when a branch and a tag differ', () => {
    const refs = parseRefs(`${A}\trefs/tags/v1\n${B}\trefs/heads/v1\n`);
    expect(() => pickRef('v1', refs, 'ref', false)).toThrow(/both a branch and a tag/);
    expect(pickRef('refs/tags/v1', refs, 'ref', false)).toBe(A);
    expect(pickRef('v1', parseRefs(`${A}\trefs/tags/v1\n${A}\trefs/heads/v1\n`), 'ref', false)).toBe(A);
  });

  it('is a remote branch in a local clone alone', () => {
    const refs = parseRefs(`${A} refs/remotes/origin/main\n`);
    expect(pickRef('origin/main', refs, 'ref', true)).toBe(A);
    expect(pickRef('origin/main', refs, 'ref', false)).toBeNull();
  });
});
