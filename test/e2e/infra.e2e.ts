import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { getOctokit } from '@actions/github';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { runAction } from '../helpers/action.js';
import { command, tryCommand } from '../helpers/command.js';
import { pushEvent } from '../helpers/events.js';
import { GitServer } from '../helpers/git-server.js';
import { behaviours, GitHubServer } from '../helpers/github-server.js';
import { Sshd } from '../helpers/sshd.js';
import { TestUser } from '../helpers/test-user.js';

// The helpers of this suite are themselves programs that can be wrong: each must notice what it is there to notice.

const SHA = 'a'.repeat(40);
const REPO = { owner: 'octo', repo: 'fleet' };

describe('the GitHub server', () => {
  let server: GitHubServer;
  beforeAll(async () => {
    server = await GitHubServer.start();
    server.addRepository('octo/fleet');
  });
  afterEach(() => server.reset());
  afterAll(() => server.close());

  const client = (token = 'full-token') => getOctokit(token, { baseUrl: server.url }).rest;
  const annotation = {
    path: 'inventory.yml',
    start_line: 1,
    end_line: 1,
    annotation_level: 'failure' as const,
    message: 'm',
  };
  const create = (more: object = {}, token?: string) =>
    client(token).checks.create({ ...REPO, name: 'fleet-role plan', head_sha: SHA, ...more });
  const statusOf = (work: Promise<{ status: number }>) =>
    work.then(
      (r) => r.status,
      (e: { status: number }) => e.status,
    );

  test('keeps a check run through its life and appends annotations', async () => {
    const made = await create({
      status: 'in_progress',
      output: { title: 't', summary: 's', annotations: [annotation] },
    });
    await client().checks.update({
      ...REPO,
      check_run_id: made.data.id,
      conclusion: 'success',
      output: { title: 'done', summary: 's2', annotations: Array(50).fill(annotation) },
    });
    expect(server.checkRuns).toHaveLength(1);
    expect(server.checkRuns[0]).toMatchObject({
      status: 'completed',
      conclusion: 'success',
      title: 'done',
      summary: 's2',
    });
    expect(server.checkRuns[0]?.annotations).toHaveLength(51);
    const listed = await client().checks.listForRef({ ...REPO, ref: SHA });
    expect(listed.data.check_runs.map((r) => [r.id, r.conclusion])).toEqual([[made.data.id, 'success']]);
    expect(server.violations).toEqual([]);
    expect(server.requests.map((r) => [r.method, r.token])).toEqual(
      Array.from(['POST', 'PATCH', 'GET'], (m) => [m, 'full-token']),
    );
  });

  test.each([
    ['a field of the wrong type', { name: 7 }, 'must be string'],
    ['a field that GitHub does not know', { titel: 'x' }, 'titel'],
    ['a status that does not exist', { status: 'running' }, 'must be equal to one of the allowed values'],
    ['a completed run without conclusion', { status: 'completed' }, 'needs a conclusion'],
    [
      '51 annotations',
      { output: { title: 't', summary: 's', annotations: Array(51).fill(annotation) } },
      'more than 50',
    ],
    [
      'an annotation on line 0',
      { output: { title: 't', summary: 's', annotations: [{ ...annotation, start_line: 0 }] } },
      'start at 1',
    ],
    ['a summary of 65,536 characters', { output: { title: 't', summary: 'x'.repeat(65_536) } }, '65535'],
    ['a title of 65,536 characters', { output: { title: 'x'.repeat(65_536), summary: 's' } }, '65535'],
  ])('refuses %s and lists it as a violation', async (_, more, words) => {
    expect(await statusOf(create(more))).toBe(422);
    expect(server.violations.join()).toContain(words);
    expect(server.checkRuns).toEqual([]);
  });

  test('takes exactly 65,535 characters', async () => {
    expect(await statusOf(create({ output: { title: 't', summary: '€'.repeat(65_535) } }))).toBe(201);
    expect(server.violations).toEqual([]);
  });

  test('answers 404 and lists what GitHub does not have', async () => {
    const response = await fetch(`${server.url}/repos/octo/fleet/check-run`, { headers: { 'user-agent': 'test' } });
    expect(response.status).toBe(404);
    expect(server.violations).toEqual(['GET /repos/octo/fleet/check-run: GitHub has no such endpoint']);
  });

  test('refuses the check run of another token, a read-only token and an unknown one, without calling it a violation', async () => {
    server.tokens.set('other-token', { checks: 'write' });
    const made = await create();
    const update = (token: string) =>
      statusOf(client(token).checks.update({ ...REPO, check_run_id: made.data.id, name: 'x' }));
    expect(await update('other-token')).toBe(403);
    expect(await update('full-token')).toBe(200);
    await expect(create({}, 'read-token')).rejects.toThrow('Resource not accessible by integration');
    expect(await statusOf(create({}, 'nobody'))).toBe(401);
    expect(server.violations).toEqual([]);
  });

  test('plays scripted faults once and then answers as usual', async () => {
    server.onNext('POST', /check-runs$/, behaviours.badGateway);
    server.onNext('POST', /check-runs$/, behaviours.reset);
    server.onNext('POST', /check-runs$/, behaviours.secondaryLimit(1));
    expect(await statusOf(create())).toBe(502);
    await expect(create()).rejects.toThrow();
    await expect(create()).rejects.toMatchObject({ status: 403, response: { headers: { 'retry-after': '1' } } });
    expect(server.checkRuns).toEqual([]);
    server.onNext('POST', /check-runs$/, behaviours.doneThenReset);
    await expect(create()).rejects.toThrow();
    expect(server.checkRuns).toHaveLength(1);
    expect(await statusOf(create())).toBe(201);
    expect(server.violations).toEqual([]);
  });

  test('keeps issues and pull requests, one page at a time', async () => {
    for (let i = 0; i < 3; i++) await client().issues.create({ ...REPO, title: `drift ${i}`, labels: ['drift'] });
    await client().issues.update({ ...REPO, issue_number: 2, state: 'closed' });
    const open = await getOctokit('full-token', { baseUrl: server.url }).paginate('GET /repos/{owner}/{repo}/issues', {
      ...REPO,
      labels: 'drift',
      per_page: 1,
    });
    expect(open.map((issue) => issue.number)).toEqual([3, 1]);
    server.world.pulls.push({
      repository: 'octo/fleet',
      number: 7,
      headSha: SHA,
      headRef: 'change',
      baseRef: 'main',
      baseSha: 'b'.repeat(40),
      state: 'closed',
      mergeCommitSha: 'c'.repeat(40),
      mergedAt: '2026-01-01T00:00:00Z',
    });
    const found = await client().repos.listPullRequestsAssociatedWithCommit({ ...REPO, commit_sha: 'c'.repeat(40) });
    expect(found.data.map((p) => [p.number, p.head.sha])).toEqual([[7, SHA]]);
    expect((await client().repos.get(REPO)).data.default_branch).toBe('main');
    expect(server.violations).toEqual([]);
  });

  test('serves Enterprise Server below its prefix only', async () => {
    const enterprise = await GitHubServer.start({ prefix: '/api/v3' });
    try {
      enterprise.addRepository('octo/fleet');
      const octokit = getOctokit('full-token', { baseUrl: enterprise.url }).rest;
      expect((await octokit.repos.get(REPO)).status).toBe(200);
      expect(enterprise.requests[0]?.path).toBe('/repos/octo/fleet');
      expect(enterprise.violations).toEqual([]);
      await fetch(new URL('/repos/octo/fleet', enterprise.url));
      expect(enterprise.violations).toEqual(['GET /repos/octo/fleet: is not below /api/v3']);
    } finally {
      await enterprise.close();
    }
  });
});

describe('the git server', () => {
  let server: GitServer;
  let work: string;
  beforeAll(async () => {
    server = await GitServer.start();
    work = await mkdtemp(join(tmpdir(), 'fleet-infra-'));
  });
  afterAll(async () => {
    await server.close();
    await rm(work, { recursive: true, force: true });
  });

  const fetchBySha = async (sha: string, token: string | null, more: string[] = ['--depth=1']) => {
    const into = await mkdtemp(join(work, 'clone-'));
    await command('git', ['init', '-q', '--bare', into]);
    const env: Record<string, string> = { GIT_TERMINAL_PROMPT: '0', GIT_CONFIG_NOSYSTEM: '1' };
    if (token !== null) {
      env.GIT_CONFIG_COUNT = '1';
      env.GIT_CONFIG_KEY_0 = 'http.extraHeader';
      env.GIT_CONFIG_VALUE_0 = `Authorization: basic ${Buffer.from(`x-access-token:${token}`).toString('base64')}`;
    }
    const result = await tryCommand('git', ['-C', into, 'fetch', '-q', ...more, `${server.url}/octo/Fleet`, sha], {
      env,
    });
    return { into, ...result };
  };

  test('gives a commit by its SHA to whoever has the token, by protocol v2', async () => {
    const repository = await server.createRepository('octo/fleet');
    const first = await repository.commit({ 'a/b.yml': 'one\n', 'gone ü.txt': 'x' });
    const second = await repository.commit({ 'a/b.yml': 'two\n', 'gone ü.txt': null, out: { link: '/etc/passwd' } });
    await repository.setBranch('main', first);
    // The second commit is on no branch now, which GitHub serves all the same.
    const fetched = await fetchBySha(second, 'full-token');
    expect(fetched).toMatchObject({ code: 0, stderr: '' });
    const tree = await command('git', ['-C', fetched.into, 'ls-tree', '-r', second]);
    expect(tree).toMatch(/^100644 blob \w+\ta\/b.yml\n120000 blob \w+\tout\n$/);
    expect(server.requests.at(-1)).toMatchObject({
      credentials: { user: 'x-access-token', password: 'full-token' },
      status: 200,
    });
    expect(server.requests.every((r) => r.headers['git-protocol'] === 'version=2')).toBe(true);
    expect(server.requests.every((r) => !r.url.includes('token'))).toBe(true);
    expect((await fetchBySha(second, 'full-token', ['--filter=tree:0'])).code).toBe(0);
  });

  test.each([
    ['no token', null],
    ['another token', 'wrong'],
  ])('refuses a fetch with %s', async (_, token) => {
    const repository = await server.createRepository(`octo/private-${token}`);
    const sha = await repository.commit({ a: 'a' });
    const fetched = await fetchBySha(sha, token);
    expect(fetched.code).not.toBe(0);
    expect(server.requests.at(-1)?.status).toBe(401);
  });

  test('builds branches that diverge and merges, the same SHAs every time', async () => {
    const build = async (name: string) => {
      const repository = await server.createRepository(name);
      const base = await repository.commit({ f: '1' });
      const left = await repository.commit({ l: '2' });
      const right = await repository.commit({ r: '3' }, { branch: 'side', from: base });
      const merge = await repository.commit({}, { merge: [right] });
      const other = await repository.commit({ o: '4' }, { branch: 'other', from: null });
      return { repository, base, left, right, merge, other };
    };
    const one = await build('octo/one');
    const { repository: _, ...again } = await build('octo/two');
    expect(one).toMatchObject(again);
    const parents = await one.repository.git('log', '-1', '--format=%P', one.merge);
    expect(parents).toBe(`${one.left} ${one.right}`);

    const api = await GitHubServer.start();
    try {
      api.addRepository('octo/one', { gitDir: one.repository.dir });
      const rest = getOctokit('full-token', { baseUrl: api.url }).rest;
      const compare = (a: string, b: string) =>
        rest.repos.compareCommitsWithBasehead({ ...REPO, repo: 'one', basehead: `${a}...${b}` });
      expect((await compare(one.base, one.merge)).data).toMatchObject({ status: 'ahead', ahead_by: 3 });
      expect((await compare(one.merge, one.base)).data.status).toBe('behind');
      const diverged = (await compare(one.left, one.right)).data;
      expect([diverged.status, diverged.merge_base_commit.sha]).toEqual(['diverged', one.base]);
      await expect(compare(one.left, one.other)).rejects.toThrow('No common ancestor');
      await expect(compare(one.left, SHA)).rejects.toMatchObject({ status: 404 });
      const ref = await rest.git.getRef({ ...REPO, repo: 'one', ref: 'heads/side' });
      expect(ref.data.object.sha).toBe(one.right);
      await expect(rest.checks.create({ ...REPO, repo: 'one', name: 'n', head_sha: SHA })).rejects.toThrow(
        'No commit found for SHA',
      );
      expect(api.violations).toEqual([]);
    } finally {
      await api.close();
    }
  });
});

describe('the sshd', () => {
  let user: TestUser;
  let sshd: Sshd;
  const addresses = ['127.0.0.2', '127.0.0.3'];
  beforeAll(async () => {
    user = await TestUser.create();
    sshd = await Sshd.start({ addresses, users: [user] });
  });
  beforeEach(() => sshd.forget());
  afterAll(async () => {
    await sshd.close();
    await user.remove();
  });

  const ssh = async (server: Sshd, address: string, knownHosts: string, remote: string, name = user.name) => {
    const file = join(user.home, 'known_hosts');
    await writeFile(file, knownHosts);
    const options = ['BatchMode=yes', 'StrictHostKeyChecking=yes', `UserKnownHostsFile=${file}`, 'IdentitiesOnly=yes'];
    const args = [
      '-F',
      'none',
      '-i',
      server.privateKeyFile,
      '-p',
      String(server.port),
      ...options.flatMap((o) => ['-o', o]),
    ];
    return tryCommand('ssh', [...args, `${name}@${address}`, remote]);
  };

  test('runs commands on several addresses and knows which connection brought which', async () => {
    expect(await ssh(sshd, '127.0.0.2', sshd.knownHosts, 'cd; pwd; exit 5')).toEqual({
      code: 5,
      stdout: `${user.home}\n`,
      stderr: '',
    });
    expect(await ssh(sshd, '127.0.0.3', sshd.knownHosts, 'sh -s "a b"\ntrue')).toMatchObject({ code: 0 });
    expect((await sshd.connections()).map((c) => [c.address, c.commands])).toEqual([
      ['127.0.0.2', ['cd; pwd; exit 5']],
      ['127.0.0.3', ['sh -s "a b"\ntrue']],
    ]);
    expect(await sshd.connections('127.0.0.3')).toHaveLength(1);
  });

  test('prints nothing of its own, and the user may use docker', async () => {
    expect(await ssh(sshd, '127.0.0.2', sshd.knownHosts, 'docker version --format ok')).toEqual({
      code: 0,
      stdout: 'ok\n',
      stderr: '',
    });
  });

  test('a changed host key is noticed', async () => {
    const before = sshd.knownHosts;
    await sshd.changeHostKey();
    const result = await ssh(sshd, '127.0.0.2', before, 'true');
    expect(result.code).toBe(255);
    expect(result.stderr).toContain('Host key verification failed');
    expect(result.stderr).toContain(sshd.fingerprint);
    expect(await sshd.connections()).toMatchObject([{ commands: [] }]);
    expect((await ssh(sshd, '127.0.0.2', sshd.knownHosts, 'true')).code).toBe(0);
  });

  test('a stopped one refuses connections until it is resumed', async () => {
    await sshd.pause();
    expect((await ssh(sshd, '127.0.0.2', sshd.knownHosts, 'true')).stderr).toContain('Connection refused');
    await sshd.resume();
    expect((await ssh(sshd, '127.0.0.2', sshd.knownHosts, 'true')).code).toBe(0);
  });

  test('plays a noisy host and an ordinary user whose sudo asks for a password', async () => {
    const ordinary = await TestUser.create({ root: false, sudo: 'password' });
    const noisy = await Sshd.start({ users: [ordinary], banner: 'Welcome to node 1!' });
    try {
      const result = await ssh(
        noisy,
        '127.0.0.1',
        noisy.knownHosts,
        'id -u; docker info >/dev/null && sudo -n true',
        ordinary.name,
      );
      expect(result.stdout).toMatch(/^Welcome to node 1!\n[1-9]\d*\n$/);
      expect(result.stderr).toContain('a password is required');
    } finally {
      await noisy.close();
      await ordinary.remove();
    }
  });
});

describe('runAction', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'fleet-action-'));
    await writeFile(
      join(folder, 'action.yml'),
      `inputs:
  base-ref: {}
  token: { default: "\${{ github.token }}" }
  observe: { default: false }
  two words: { default: "" }
runs: { using: node24, main: main.mjs, post: post.mjs }
`,
    );
    await writeFile(
      join(folder, 'main.mjs'),
      `import { appendFileSync, writeFileSync } from 'node:fs';
const env = process.env;
appendFileSync(env.GITHUB_OUTPUT, 'plan<<END\\n{"a":\\n1}\\nEND\\nresult=failed=yes\\n');
if (env.GITHUB_STATE) appendFileSync(env.GITHUB_STATE, 'key<<E\\nv\\nE\\n');
appendFileSync(env.GITHUB_STEP_SUMMARY, '# main');
writeFileSync(env.RUNNER_TEMP + '/secret', 'x');
console.log('s3cret ::add-mask::');
console.log('::add-mask::s3cret%0Aline');
console.log('::error file=a/b.yml,line=3,title=c%3Ad::bad%0As3cret');
console.log(JSON.stringify(env));
if (env['INPUT_BASE-REF'] === 'wait') {
  process.on('SIGTERM', () => { console.log('got TERM'); });
  console.log('between two hosts');
  setInterval(() => {}, 1000);
} else process.exitCode = 3;
`,
    );
    await writeFile(
      join(folder, 'post.mjs'),
      `import { appendFileSync, rmSync } from 'node:fs';
appendFileSync(process.env.GITHUB_STEP_SUMMARY, 'post ' + process.env.STATE_key);
rmSync(process.env.RUNNER_TEMP + '/secret');
console.log('post in ' + process.version);
`,
    );
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));
  const event = pushEvent({ before: SHA, after: 'b'.repeat(40) });
  const environmentOf = (log: string) => JSON.parse(log.split('\n').find((line) => line.startsWith('{"')) ?? '{}');

  test('hands over inputs, event and files as the runner does, then runs post with the state', async () => {
    const run = await runAction({
      action: folder,
      inputs: { 'base-ref': 'v1', 'two words': 'x' },
      event,
      token: 'tok',
    });
    expect(run).toMatchObject({
      exitCode: 3,
      outputs: { plan: '{"a":\n1}', result: 'failed=yes' },
      state: { key: 'v' },
      summary: '# main',
      masks: ['s3cret', 'line'],
      annotations: [{ level: 'error', file: 'a/b.yml', line: 3, title: 'c:d', message: 'bad\n***' }],
      post: { exitCode: 0, summary: 'post v' },
    });
    // What is printed before its mask is seen by everybody.
    expect(run.visibleLog.split('\n')[0]).toBe('s3cret ::add-mask::');
    expect(run.post?.log).toMatch(/^post in v24\./);
    expect(await run.leftInTemp()).toEqual([]);
    const env = environmentOf(run.log);
    expect(env).toMatchObject({
      'INPUT_BASE-REF': 'v1',
      INPUT_TOKEN: 'tok',
      INPUT_OBSERVE: 'false',
      INPUT_TWO_WORDS: 'x',
      GITHUB_EVENT_NAME: 'push',
      GITHUB_SHA: 'b'.repeat(40),
      GITHUB_REF_NAME: 'main',
      GITHUB_ACTIONS: 'true',
      RUNNER_TEMP: run.runnerTemp,
    });
    const names = Object.keys(env).filter((name) => !/^(GITHUB|RUNNER|INPUT)_/.test(name));
    expect(names.sort()).toEqual(['CI', 'HOME', 'PATH']);
    expect(await run.leftovers()).toEqual([]);
    await run.dispose();
  });

  test('outside GitHub gives only the inputs and the usual files, and runs no post', async () => {
    const run = await runAction({ action: folder, inputs: { 'base-ref': 'v1' } });
    expect(Object.keys(environmentOf(run.log)).sort()).toEqual(
      [
        'GITHUB_OUTPUT',
        'GITHUB_STEP_SUMMARY',
        'GITHUB_WORKSPACE',
        'HOME',
        'INPUT_BASE-REF',
        'PATH',
        'RUNNER_TEMP',
      ].sort(),
    );
    expect(run.post).toBeNull();
    await run.dispose();
  });

  test('an input that action.yml does not have is an error', async () => {
    await expect(runAction({ action: folder, inputs: { base: 'x' } })).rejects.toThrow('no input "base"');
  });

  test('a run can be cancelled and killed at a place in its log, and post still runs', async () => {
    const run = await runAction({
      action: folder,
      inputs: { 'base-ref': 'wait' },
      event,
      interrupt: [
        { when: (log) => log.includes('between two hosts'), signal: 'SIGTERM' },
        { when: (log) => log.includes('got TERM'), signal: 'SIGKILL' },
      ],
    });
    expect(run).toMatchObject({ exitCode: null, signal: 'SIGKILL', post: { exitCode: 0, summary: 'post v' } });
    await run.dispose();
  });

  test('notices a secret in the arguments of a process, and a process left behind', async () => {
    await writeFile(
      join(folder, 'leaky.mjs'),
      `import { spawn } from 'node:child_process';
spawn('sleep', ['30', '30'], { detached: true, stdio: 'inherit', argv0: 'p4ssword' }).unref();
console.log('started');
setInterval(() => {}, 1000);
`,
    );
    let asked = 0;
    const run = await runAction({
      action: folder,
      bundle: join(folder, 'leaky.mjs'),
      event,
      post: false,
      watch: ['p4ssword'],
      // Each time it is asked, all processes are looked at afterwards.
      interrupt: { when: (log) => log.includes('started') && ++asked > 1, signal: 'SIGTERM' },
    });
    expect(run.seenInArguments).toEqual(['p4ssword 30 30']);
    expect((await run.leftovers()).map((p) => p.command)).toEqual(['p4ssword 30 30']);
    await run.dispose();
    expect(await run.leftovers()).toEqual([]);
  });
});
