import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readPrivateKeys } from '../../src/hosts/private-key.js';

let folder: string;
let ed25519: string;
let rsa: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'fleet-keys-'));
  ed25519 = make('ed25519', ['-t', 'ed25519', '-N', '']);
  rsa = make('rsa', ['-t', 'rsa', '-b', '1024', '-m', 'PEM', '-N', '']);
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

function make(name: string, args: string[]): string {
  execFileSync('ssh-keygen', ['-q', '-C', '', '-f', join(folder, name), ...args]);
  return readFileSync(join(folder, name), 'utf8');
}

describe('readPrivateKeys', () => {
  it('has no keys for empty text', () => {
    expect(readPrivateKeys('')).toEqual([]);
    expect(readPrivateKeys(' \r\n')).toEqual([]);
  });

  it.each<[string, (key: string) => string]>([
    ['as it is', (key) => key],
    ['with CRLF line ends', (key) => key.replace(/\n/g, '\r\n')],
    ['without its final newline', (key) => key.trimEnd()],
    ['with both', (key) => key.trimEnd().replace(/\n/g, '\r\n')],
    ['indented', (key) => key.replace(/^/gm, '    ')],
    ['with a byte order mark', (key) => `\uFEFF${key}`],
  ])('repairs a key %s', (_how, harm) => {
    expect(readPrivateKeys(harm(ed25519))).toEqual([ed25519]);
    expect(readPrivateKeys(harm(rsa))).toEqual([rsa]);
  });

  it('gives several keys in order', () => {
    expect(readPrivateKeys(`${rsa}\n\n${ed25519}`)).toEqual([rsa, ed25519]);
    expect(readPrivateKeys(ed25519 + ed25519)).toEqual([ed25519, ed25519]);
  });

  it.each<[string, () => string, RegExp]>([
    ['other text', () => 'hunter2', /is not a private key/],
    ['a public key', () => readFileSync(join(folder, 'ed25519.pub'), 'utf8'), /is not a private key/],
    ['text beside a key', () => `${ed25519}hunter2\n`, /something else/],
    ['a key without its end', () => ed25519.split('\n').slice(0, 3).join('\n'), /is not a private key/],
    ['a damaged key', () => ed25519.replace(/\n(.)/, '\n!$1'), /1 of input ssh-private-key is damaged/],
    ['a cut OpenSSH key', () => shorten(ed25519), /is damaged/],
    ['a key with a passphrase', () => make('locked', ['-t', 'ed25519', '-N', 'hunter2']), /has a passphrase/],
    ['an old key with one', () => make('oldlocked', ['-t', 'rsa', '-m', 'PEM', '-N', 'hunter2']), /has a passphrase/],
  ])('refuses %s without showing it', (_what, text, words) => {
    const given = text();
    let message = '';
    try {
      readPrivateKeys(given);
    } catch (error) {
      expect(error).toHaveProperty('name', 'UserError');
      message = (error as Error).message;
    }
    expect(message).toMatch(words);
    expect(message).toContain('ssh-private-key');
    for (const line of given.split('\n').filter((each) => each !== '' && !each.startsWith('-----'))) {
      expect(message).not.toContain(line);
    }
  });
});

/** The same key with all but the first 8 characters of its body gone. */
function shorten(key: string): string {
  const lines = key.trimEnd().split('\n');
  return [lines[0], (lines[1] as string).slice(0, 8), lines.at(-1), ''].join('\n');
}
