import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Answer, type Kubectl, kubectlOn, kubectlOnAny } from '../../src/cluster/kubectl.js';
import { composeHost, hasShell, LocalHost, SHELLS } from '../hosts/helpers.js';
import { kubectlBy } from './world.js';

const WILD = ['get', '', ' two  words ', `'"\\`, '$(id) `id` $HOME', '-i', '--all', '*', 'ä'];

describe.each(SHELLS.filter(hasShell))('kubectl on a host whose sh is %s', (shell) => {
  let host: LocalHost;
  beforeEach(() => {
    host = new LocalHost(shell);
    host.docker({ out: 'said\n', script: `cat >${host.base}/stdin` });
    host.program(
      'k3s',
      `for word in "$@"; do printf '%s\\n' "$word"; done >${host.base}/k3s.log; cat >${host.base}/stdin`,
    );
  });
  afterEach(() => host.close());
  const stdin = (): string => readFileSync(join(host.base, 'stdin'), 'utf8');

  it('gets its arguments as they are and nothing to read', async () => {
    const answer = await kubectlOn(host.connection, composeHost()).run(WILD, 20);
    expect(answer).toEqual({ kind: 'answered', text: 'said\n' });
    expect(host.dockerCalls()).toEqual([['exec', 'github-runner-k3s', 'kubectl', ...WILD]]);
    expect(stdin()).toBe('');
  });

  it('reads its input byte for byte, which stands in no argument', async () => {
    const input = `{"a":"${'x'.repeat(100_000)}"}\n\n  $(id) \\ 'EOF'\n\n`;
    const kubectl = kubectlOn(host.connection, composeHost({ dockerContext: 'far' }));
    expect(await kubectl.run(['create', '-f', '-'], 20, input)).toMatchObject({ kind: 'answered' });
    expect(host.dockerCalls()).toEqual([
      ['--context', 'far', 'exec', '-i', 'github-runner-k3s', 'kubectl', 'create', '-f', '-'],
    ]);
    expect(stdin()).toBe(input);
  });

  it('is that of k3s on a native host', async () => {
    const kubectl = kubectlOn(host.connection, composeHost({ runtime: 'native' }));
    expect(await kubectl.run(WILD, 20, 'data\n')).toMatchObject({ kind: 'answered' });
    expect(host.dockerCalls()).toEqual([]);
    expect(readFileSync(join(host.base, 'k3s.log'), 'utf8')).toBe(
      ['kubectl', ...WILD].map((word) => `${word}\n`).join(''),
    );
    expect(stdin()).toBe('data\n');
  });

  it('says the last line of what it said on failure', async () => {
    host.docker({ err: 'a warning\nError from server\n', code: 1 });
    expect(await kubectlOn(host.connection, composeHost()).run(['get'], 20)).toEqual({
      kind: 'failed',
      why: 'kubectl on node1: Error from server',
    });
  });

  it.each(['a\nb', 'a\rb'])('is not run with the argument %j', async (argument) => {
    expect(await kubectlOn(host.connection, composeHost()).run([argument], 20)).toMatchObject({ kind: 'failed' });
    expect(host.dockerCalls()).toEqual([]);
  });
});

describe('kubectl on any of several servers', () => {
  const calls: string[] = [];
  const down = new Set<string>();
  const server = (name: string): Kubectl =>
    kubectlBy(async (args, seconds, input): Promise<Answer> => {
      calls.push([name, ...args, seconds, input].join(' '));
      return down.has(name) ? { kind: 'failed', why: `${name} is down` } : { kind: 'answered', text: name };
    });
  const all = [server('a'), server('b'), server('c')];
  beforeEach(() => {
    calls.length = 0;
    down.clear();
  });

  it('asks one after the other until one answers, and that one first from then on', async () => {
    const kubectl = kubectlOnAny(() => all);
    down.add('a');
    expect(await kubectl.run(['get'], 5, 'data')).toEqual({ kind: 'answered', text: 'b' });
    down.clear();
    expect(await kubectl.run(['get'], 5, 'data')).toEqual({ kind: 'answered', text: 'b' });
    expect(calls).toEqual(['a get 5 data', 'b get 5 data', 'b get 5 data']);
  });

  it('forgets a server that is no longer one', async () => {
    let servers = all;
    const kubectl = kubectlOnAny(() => servers);
    await kubectl.run(['get'], 5);
    servers = all.slice(1);
    expect(await kubectl.run(['get'], 5)).toEqual({ kind: 'answered', text: 'b' });
  });

  it('fails with the reasons of all', async () => {
    for (const name of ['a', 'b', 'c']) down.add(name);
    expect(await kubectlOnAny(() => all).run(['get'], 5)).toEqual({
      kind: 'failed',
      why: 'a is down; b is down; c is down',
    });
    expect(await kubectlOnAny(() => []).run(['get'], 5)).toEqual({ kind: 'failed', why: 'there is no server to ask' });
  });
});
