import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Connection, type Connector, createConnector } from '../../src/hosts/connection.js';
import { tryCommand } from '../helpers/command.js';
import { LOCAL, silentLogger } from './helpers.js';

let temp: string;
let connector: Connector;
let local: Connection;

beforeEach(async () => {
  temp = await mkdtemp(join(tmpdir(), 'fleet-local-'));
  connector = createConnector({
    ...{ temp, privateKeys: [], knownHosts: null, sshUser: null, useInventoryKeyFiles: false },
    logger: silentLogger,
  });
  local = connector.connect('node1', LOCAL);
});

afterEach(async () => {
  await connector.close();
  await rm(temp, { recursive: true });
});

describe('a local connection', () => {
  it('gives what the script printed, byte for byte', async () => {
    const result = await local.run('printf "a\\n\\n b"; printf "\\n\\n"', '', 20);
    expect(result).toEqual({ kind: 'done', stdout: 'a\n\n b\n\n' });
  });

  it.each([
    ['nothing', ''],
    ['quotes and dollars', `'"\`$(id)\`$HOME \\ \\n %s\n`],
    ['the words of the frame', 'fleet-role-data\nEOF\n\nfleet-role- begin\n'],
    ['a long value', `${'x'.repeat(300_000)}\n`],
    ['other alphabets and control characters', 'ä € 漢 \u0001\u001b[31m\r\n'],
  ])('hands on data unchanged: %s', async (_what, data) => {
    expect(await local.run('cat', data, 20)).toEqual({ kind: 'done', stdout: data });
  });

  it('does not let a child eat the rest of the script', async () => {
    const result = await local.run('cat >/dev/null; cat; cat\necho end', 'one\ntwo\n', 20);
    expect(result).toEqual({ kind: 'done', stdout: 'end\n' });
  });

  it('gives a status other than 0 with both outputs', async () => {
    const result = await local.run('echo out; echo err >&2; exit 3', '', 20);
    expect(result).toEqual({ kind: 'exited', code: 3, stdout: 'out\n', stderr: 'err\n' });
  });

  it('gives a script that is none as one that ended', async () => {
    const result = await local.run('if', '', 20);
    expect(result).toMatchObject({ kind: 'exited', code: 2 });
  });

  it('ends a script that hangs, with what it started', async () => {
    expect(await local.run('sleep 876543; echo never', '', 1)).toEqual({ kind: 'timed-out', seconds: 1 });
    expect((await tryCommand('pgrep', ['-f', '^sleep 876543'])).stdout).toBe('');
  });

  it('ends a script that prints without end', async () => {
    const result = await local.run('while :; do echo 12345678901234567890123456789012345678901234567890; done', '', 60);
    expect(result).toMatchObject({ kind: 'unreachable', class: 'command' });
    expect((result as { message: string }).message).toMatch(/^node1: .*4 MiB/);
  });

  it('keeps the secrets of the environment from what it runs', async () => {
    process.env.INPUT_TOKEN = 'hunter2';
    try {
      expect(JSON.stringify(await local.run('env', '', 20))).not.toContain('hunter2');
    } finally {
      delete process.env.INPUT_TOKEN;
    }
  });

  it('needs no file and runs nothing once it is closed', async () => {
    await local.run('true', '', 20);
    expect(await readdir(temp)).toEqual([]);
    await connector.close();
    expect(await local.run('true', '', 20)).toMatchObject({ kind: 'unreachable', class: 'connect' });
  });

  it('ends what still runs when it is closed', async () => {
    const running = local.run('sleep 765432', '', 600);
    await new Promise((resolve) => setTimeout(resolve, 300));
    await connector.close();
    expect(await running).toMatchObject({ kind: 'unreachable' });
    expect((await tryCommand('pgrep', ['-f', '^sleep 765432'])).stdout).toBe('');
  });
});
