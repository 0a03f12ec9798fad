import { readFile, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { basicAuth } from '../../src/repository/remote.js';
import type { RepositoryOptions } from '../../src/repository/repository.js';
import { type GitRepository, GitServer } from '../helpers/git-server.js';
import { type Bench, everything, makeBench, textOf } from './setup.js';

const TOKEN = 'ghs_16C7e42F292c6912E7710c838347Ae178B4a';
const BASIC = Buffer.from(`x-access-token:${TOKEN}`).toString('base64');

let bench: Bench;
let server: GitServer;
let origin: GitRepository;
let before: string;
let after: string;
beforeAll(async () => {
  bench = await makeBench();
  server = await GitServer.start({ tokens: [TOKEN] });
  origin = await server.createRepository('octo/fleet');
  before = await origin.commit({ a: 'a' });
  after = await origin.commit({ a: 'b' });
});
beforeEach(() => {
  server.requests.length = 0;
});
afterAll(async () => {
  await bench.remove();
  await server.close();
});

const open = (options: Partial<RepositoryOptions> = {}) =>
  bench.open({ repository: null, thisRepository: 'octo/fleet', serverUrl: server.url, token: TOKEN, ...options });

describe('the token', () => {
  it('is in every request to the GitHub server, and on no command line', async () => {
    const repository = await open();
    expect(repository.own).toBe(true);
    expect(await repository.resolve('main', 'ref')).toBe(after);
    const [head, base] = await repository.snapshot([after, before], everything);
    expect([textOf(head, 'a'), textOf(base, 'a')]).toEqual(['b', 'a']);
    expect(await repository.isAncestor(before, after)).toBe('yes');
    expect(server.requests.length).toBeGreaterThan(4);
    for (const request of server.requests) {
      expect(request.headers.authorization).toBe(`Basic ${BASIC}`);
      expect(request.url).not.toContain(TOKEN);
    }
    const commands = (await bench.commands()).join('\n');
    expect(commands).toContain('fetch');
    for (const secret of [TOKEN, BASIC]) {
      expect(commands).not.toContain(secret);
      expect(bench.logger.lines.join('\n')).not.toContain(secret);
    }
    expect(basicAuth(TOKEN)).toBe(BASIC);
  });

  it('fetches both commits at once, and only them', async () => {
    const repository = await open();
    const count = (await bench.commands()).length;
    await repository.snapshot([after, before], everything);
    const wants = server.requests.map((request) => request.body.toString('latin1')).join('\n');
    expect([...wants.matchAll(/want ([0-9a-f]{40})/g)].map((match) => match[1]).sort()).toEqual([before, after].sort());
    expect(wants).toContain('deepen 1');
    expect((await bench.commands()).slice(count).filter((line) => / fetch .*--depth=1 /.test(line))).toHaveLength(1);
  });

  it('is in no error, and the error says which commit, from where, why, and what to do', async () => {
    const repository = await open({ token: `${TOKEN}x` });
    const refusal = await repository.snapshot([after], everything).catch((e: unknown) => (e as Error).message);
    expect(refusal).toContain(after);
    expect(refusal).toContain('octo/fleet');
    expect(refusal).toContain('contents: read');
    expect(refusal).not.toContain(TOKEN);
    expect(refusal).not.toContain(Buffer.from(`x-access-token:${TOKEN}x`).toString('base64'));
  });

  it('is taken out of what git says', async () => {
    // A server that repeats what it was sent, as a proxy's error page might.
    const echo = await listen((request, response) => {
      response.writeHead(500, { 'content-type': 'text/plain' });
      response.end(`${request.headers.authorization} ${TOKEN}\n::error::forged \u001b[31m\n`);
    });
    try {
      const repository = await open({ serverUrl: urlOf(echo) });
      const message = await repository.resolve('main', 'ref').catch((e: unknown) => (e as Error).message);
      expect(message).toContain('octo/fleet cannot be read');
      expect(message).toContain('***');
      expect(message).not.toContain(TOKEN);
      expect(message).not.toContain(BASIC);
      expect(message).not.toMatch(/[\p{Cc}]/u);
    } finally {
      echo.close();
    }
  });

  it('goes to no other host', async () => {
    const other = await GitServer.start({ tokens: null });
    try {
      const there = await other.createRepository('octo/fleet');
      const commit = await there.commit({ a: 'elsewhere' });
      const repository = await open({ repository: `${other.url}/octo/fleet` });
      expect(repository).toMatchObject({ own: false, github: null });
      expect(textOf((await repository.snapshot([commit], everything))[0], 'a')).toBe('elsewhere');
      expect(other.requests.length).toBeGreaterThan(0);
      for (const request of other.requests) expect(request.headers.authorization).toBeUndefined();
    } finally {
      await other.close();
    }
  });

  it('does not follow a redirect to another host', async () => {
    const other = await GitServer.start({ tokens: null });
    const there = await other.createRepository('octo/fleet');
    const commit = await there.commit({ a: 'elsewhere' });
    const redirect = await listen((request, response) => {
      response.writeHead(302, { location: `${other.url}${request.url}` }).end();
    });
    try {
      const repository = await open({ serverUrl: urlOf(redirect) });
      await expect(repository.snapshot([commit], everything)).rejects.toThrow(commit);
      expect(other.requests).toEqual([]);
    } finally {
      redirect.close();
      await other.close();
    }
  });

  it('is the one header even when the runner is configured with another', async () => {
    const config = join(bench.dir, 'gitconfig');
    await writeFile(config, `[http "${server.url}/"]\n\textraheader = Authorization: Basic b3RoZXI6b3RoZXI=\n`);
    const repository = await open({ environment: { GIT_CONFIG_GLOBAL: config } });
    await repository.snapshot([after], everything);
    for (const request of server.requests) expect(request.headers.authorization).toBe(`Basic ${BASIC}`);
  });

  it('cannot bring a second header with it', async () => {
    await expect(open({ token: 'a\nX-Other: b' })).rejects.toThrow(/input token/);
  });

  it('is not needed for a repository that is public', async () => {
    const open2 = await GitServer.start({ tokens: null });
    try {
      const commit = await (await open2.createRepository('octo/fleet')).commit({ a: 'public' });
      const repository = await open({ serverUrl: open2.url, token: '' });
      expect(textOf((await repository.snapshot([commit], everything))[0], 'a')).toBe('public');
      for (const request of open2.requests) expect(request.headers.authorization).toBeUndefined();
    } finally {
      await open2.close();
    }
  });
});

describe('git', () => {
  it('asks nobody for a password, not even a helper of the runner, when the token is wrong', async () => {
    const witness = join(bench.dir, 'helper-ran');
    const config = join(bench.dir, 'helper-config');
    await writeFile(config, `[credential]\n\thelper = "!touch '${witness}'; :"\n`);
    const repository = await open({
      token: 'wrong',
      environment: { GIT_CONFIG_GLOBAL: config, GIT_ASKPASS: `touch ${witness}`, SSH_ASKPASS: `touch ${witness}` },
    });
    await expect(repository.snapshot([after], everything)).rejects.toThrow(after);
    await expect(readFile(witness)).rejects.toThrow(/ENOENT/);
  });

  it('sees no input, no token and no variable that would lead it elsewhere', async () => {
    const repository = await open({
      environment: {
        'INPUT_SSH-PRIVATE-KEY': 'secret-key',
        GITHUB_TOKEN: 'secret-token',
        GIT_DIR: '/nowhere',
        GIT_OBJECT_DIRECTORY: '/nowhere',
        GIT_TRACE: join(bench.dir, 'trace'),
        GIT_CONFIG_PARAMETERS: "'http.extraHeader=X-Other: 1'",
        GIT_CONFIG_COUNT: '1',
        GIT_CONFIG_KEY_0: 'http.extraHeader',
        GIT_CONFIG_VALUE_0: 'X-Other: 1',
        https_proxy: 'http://proxy.example.com',
      },
    });
    expect(textOf((await repository.snapshot([after], everything))[0], 'a')).toBe('b');
    for (const request of server.requests) expect(request.headers['x-other']).toBeUndefined();
    const environment = await readFile(join(bench.dir, 'commands.env'), 'utf8');
    expect(environment).not.toMatch(/secret-key|secret-token|nowhere|GIT_TRACE/);
    expect(environment).toContain('https_proxy=http://proxy.example.com');
  });

  it('may not be sent to a transport that runs programs by the configuration of the runner', async () => {
    const witness = join(bench.dir, 'ext-ran');
    const config = join(bench.dir, 'ext-config');
    const url = JSON.stringify(`ext::touch ${witness} `).slice(1, -1);
    await writeFile(
      config,
      `[protocol "ext"]\n\tallow = always\n[url "${url}"]\n\tinsteadOf = "${server.url}/octo/fleet"\n`,
    );
    const repository = await open({ environment: { GIT_CONFIG_GLOBAL: config } });
    await expect(repository.snapshot([after], everything)).rejects.toThrow(/not allowed/);
    await expect(readFile(witness)).rejects.toThrow(/ENOENT/);
  });

  it('is stopped when the server never answers', async () => {
    const requests: string[] = [];
    const silent = await listen((request) => {
      requests.push(request.url ?? '');
    });
    try {
      const repository = await open({ serverUrl: urlOf(silent), bounds: { read: 10_000, network: 1_000 } });
      await expect(repository.snapshot([after], everything)).rejects.toThrow(/git did not end within 1 s/);
      expect(requests).toHaveLength(1);
    } finally {
      silent.closeAllConnections();
      silent.close();
    }
  });

  it('is missed with a clear word when it is not installed', async () => {
    const repository = await open({ environment: { PATH: join(bench.dir, 'nowhere') } });
    await expect(repository.resolve('main', 'ref')).rejects.toThrow(/git is not on the PATH/);
  });

  it('tells when a fetch goes over the network in the clear', async () => {
    const repository = await bench.open({ repository: 'http://git.example.com/fleet' });
    expect(bench.logger.lines).toContainEqual(
      expect.stringMatching(/^warning: http:\/\/git.example.com\/fleet is fetched/),
    );
    await repository.close();
  });
});

async function listen(handler: Parameters<typeof createServer>[1] & {}): Promise<Server> {
  const listening = createServer(handler);
  await new Promise<void>((resolve) => listening.listen(0, '127.0.0.1', resolve));
  return listening;
}

function urlOf(listening: Server): string {
  return `http://127.0.0.1:${(listening.address() as AddressInfo).port}`;
}
