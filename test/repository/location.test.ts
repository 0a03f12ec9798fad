import { describe, expect, it } from 'vitest';
import { UserError } from '../../src/errors.js';
import { locate } from '../../src/repository/location.js';

const GITHUB = 'https://github.com';
const at = (repository: string | null, server = GITHUB, own: string | null = 'Octo/Fleet') =>
  locate(repository, own, server);

describe('where the input repository points', () => {
  it.each([
    [null, { url: 'https://github.com/Octo/Fleet', name: 'Octo/Fleet', own: true }],
    ['', { url: 'https://github.com/Octo/Fleet', own: true }],
    ['octo/fleet', { url: 'https://github.com/octo/fleet', own: true }],
    ['octo/other', { url: 'https://github.com/octo/other', own: false, github: { owner: 'octo', repo: 'other' } }],
    ['octo/.github', { url: 'https://github.com/octo/.github', own: false }],
    ['https://github.com/octo/fleet.git', { url: 'https://github.com/octo/fleet.git', own: true }],
    ['HTTPS://GitHub.com/octo/fleet/', { own: true, github: { owner: 'octo', repo: 'fleet' } }],
    ['https://github.com:8443/octo/fleet', { own: false, github: null }],
    ['http://github.com/octo/fleet', { own: false, github: null, unprotected: true }],
    ['https://github.com.evil.example/octo/fleet', { own: false, github: null }],
    ['https://git.example.com/a/b/c.git', { github: null, protocols: ['https', 'ssh', 'git'], unprotected: false }],
    ['http://127.0.0.1:3000/a/b', { github: null, unprotected: false }],
    ['git://git.example.com/a', { protocols: ['git'], unprotected: true }],
    ['ssh://git@git.example.com:2222/a/b.git', { url: 'ssh://git@git.example.com:2222/a/b.git', protocols: ['ssh'] }],
    ['git@git.example.com:a/b.git', { url: 'git@git.example.com:a/b.git', protocols: ['ssh'], own: false }],
  ] as const)('%j is a remote repository', (repository, expected) => {
    expect(at(repository)).toMatchObject({ kind: 'remote', ...expected });
  });

  it.each([
    ['/srv/fleet', '/srv/fleet'],
    ['./octo/fleet', './octo/fleet'],
    ['../fleet', '../fleet'],
    ['fleet', 'fleet'],
    ['.', '.'],
    ['octo/..', 'octo/..'],
    ['a/b/c', 'a/b/c'],
    ['/srv/a:b', '/srv/a:b'],
    ['file:///srv/a%20fleet', '/srv/a fleet'],
  ])('%j is a local path', (repository, path) => {
    expect(at(repository)).toMatchObject({ kind: 'local', path, own: false });
  });

  it('is the workspace when there is neither an input nor a repository of the workflow', () => {
    expect(at(null, GITHUB, null)).toMatchObject({ kind: 'local', path: '.', own: true });
  });

  it('is at GitHub Enterprise Server when GITHUB_SERVER_URL says so', () => {
    const server = 'https://ghes.example.com/';
    expect(at('octo/fleet', server)).toMatchObject({ url: 'https://ghes.example.com/octo/fleet', own: true });
    expect(at('https://github.com/octo/fleet', server)).toMatchObject({ own: false, github: null });
    expect(at('octo/fleet', 'http://ghes.example.com')).toMatchObject({
      unprotected: false,
      protocols: ['https', 'http', 'ssh', 'git'],
    });
  });

  it.each([
    'https://user:hunter2@github.com/octo/fleet',
    'https://hunter2@github.com/octo/fleet',
    'http://hunter2@127.0.0.1/octo/fleet',
    'https://:hunter2@github.com/octo/fleet',
    'ssh://git:hunter2@git.example.com/a',
    'git:hunter2@git.example.com:a/b',
    'git://hunter2@git.example.com/a',
  ])('refuses credentials and does not repeat them: %s', (repository) => {
    const refusal = thrownBy(() => at(repository));
    expect(refusal).toBeInstanceOf(UserError);
    expect(refusal.message).toContain('has credentials');
    expect(refusal.message).not.toContain('hunter2');
  });

  it.each([
    'ext::sh -c "touch /x"',
    'fd::17',
    'EXT::sh',
    'foo::https://github.com/a/b',
    '::x',
    '--upload-pack=touch /x',
    '-oProxyCommand=x:y',
    'ssh://-oProxyCommand=x/y',
    'git@-oProxyCommand=x:y',
    'ftp://example.com/a',
    'javascript://x',
    'git+ssh://git@example.com/a',
    'https://github.com/octo/fleet?x=1',
    'https://github.com/octo/fleet#x',
    'https://github.com\\@evil.example/a',
    'https://git hub.com/a/b',
    'https://',
    'file://elsewhere/srv/fleet',
    'file:///srv/%zz',
    'octo\u0000/fleet',
    'ssh://hunter2@host/a"b',
  ])('refuses %j', (repository) => {
    const refusal = thrownBy(() => at(repository));
    expect(refusal).toBeInstanceOf(UserError);
    expect(refusal.message).toContain('input repository');
    expect(refusal.message).not.toContain('hunter2');
  });

  it('takes no server that is not http, and none with credentials', () => {
    expect(() => at('a/b', 'ssh://github.com')).toThrow(/GITHUB_SERVER_URL/);
    expect(() => at('a/b', 'https://x:y@github.com')).toThrow(/GITHUB_SERVER_URL/);
  });
});

function thrownBy(work: () => unknown): Error {
  try {
    work();
  } catch (error) {
    return error as Error;
  }
  throw new Error('nothing was thrown');
}
