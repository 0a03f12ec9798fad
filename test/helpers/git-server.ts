import { spawn } from 'node:child_process';
import { mkdir, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { command, tryCommand } from './command.js';
import { temporaryFolder } from './temporary.js';

/** A file's text or bytes; a link (read from git, never followed); a program; or null: the file is removed. */
export type FileContent = string | Uint8Array | { readonly link: string } | { readonly executable: string } | null;

export interface CommitOptions {
  /** Branch that moves to the new commit. Default: main. */
  readonly branch?: string;
  /** First parent. Default: the branch's tip, or none when the branch does not exist. `null`: a commit without parent. */
  readonly from?: string | null;
  /** Further parents: a merge commit. */
  readonly merge?: readonly string[];
  readonly message?: string;
}

/** A real bare git repository in a directory of its own. */
export class GitRepository {
  /** The bare repository: what `INPUT_REPOSITORY` and `GitHubServer.addRepository` take. */
  readonly dir: string;
  #commits = 0;

  private constructor(dir: string) {
    this.dir = dir;
  }

  /** Makes an empty repository; it may be fetched by any SHA and with filters, as GitHub allows. */
  static async create(dir: string): Promise<GitRepository> {
    await mkdir(dir, { recursive: true });
    await command('git', ['init', '-q', '--bare', '-b', 'main', dir]);
    const repository = new GitRepository(dir);
    for (const [key, value] of [
      ['uploadpack.allowFilter', 'true'],
      ['uploadpack.allowAnySHA1InWant', 'true'],
      ['http.receivepack', 'false'],
    ] as const) {
      await repository.git('config', key, value);
    }
    return repository;
  }

  /** Standard output of git in this repository, without its last newline. */
  async git(...args: string[]): Promise<string> {
    return (await command('git', ['-C', this.dir, ...args])).replace(/\n$/, '');
  }

  /**
   * Commits `files` over the parent's tree and gives the new SHA. Times count up from a fixed start, so that the same
   * commits have the same SHAs every time.
   */
  async commit(files: Readonly<Record<string, FileContent>>, options: CommitOptions = {}): Promise<string> {
    const branch = options.branch ?? 'main';
    const tip = await tryCommand('git', ['-C', this.dir, 'rev-parse', '--verify', '-q', `refs/heads/${branch}`]);
    const from = options.from === undefined ? tip.stdout.trim() || null : options.from;
    const time = 1_767_225_600 + this.#commits++ * 60;
    const parts: (string | Uint8Array)[] = [];
    const data = (content: string | Uint8Array) => {
      const bytes = typeof content === 'string' ? Buffer.from(content) : content;
      parts.push(`data ${bytes.length}\n`, bytes, '\n');
    };
    // Without a parent the branch starts anew, also when it exists.
    if (from === null) parts.push(`reset refs/heads/${branch}\n`);
    parts.push(`commit refs/heads/${branch}\ncommitter Fleet <fleet@example.com> ${time} +0000\n`);
    data(options.message ?? `Commit ${this.#commits}`);
    if (from !== null) parts.push(`from ${from}\n`);
    for (const parent of options.merge ?? []) parts.push(`merge ${parent}\n`);
    for (const [path, content] of Object.entries(files)) {
      // git's own quoting: a JSON string is a C string for what file names hold here.
      const name = JSON.stringify(path);
      if (content === null) {
        parts.push(`D ${name}\n`);
      } else if (typeof content === 'string' || content instanceof Uint8Array) {
        parts.push(`M 100644 inline ${name}\n`);
        data(content);
      } else if ('link' in content) {
        parts.push(`M 120000 inline ${name}\n`);
        data(content.link);
      } else {
        parts.push(`M 100755 inline ${name}\n`);
        data(content.executable);
      }
    }
    parts.push('\n');
    const input = Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : part)));
    await command('git', ['-C', this.dir, 'fast-import', '--quiet', '--force'], { input });
    return this.git('rev-parse', `refs/heads/${branch}`);
  }

  /** Moves a branch (a force push) or makes it. */
  async setBranch(branch: string, sha: string): Promise<void> {
    await this.git('update-ref', `refs/heads/${branch}`, sha);
  }

  async deleteBranch(branch: string): Promise<void> {
    await this.git('update-ref', '-d', `refs/heads/${branch}`);
  }
}

export interface GitRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** User and password of basic authentication, or null. */
  readonly credentials: { readonly user: string; readonly password: string } | null;
  /** Body of a POST: protocol lines such as `want SHA`; gunzipped by nobody. */
  readonly body: Buffer;
  status: number;
}

export type GitBehaviour = { readonly status: number } | 'reset' | 'hang';

/**
 * Serves real repositories over HTTP by `git http-backend`, at `/OWNER/NAME` with or without `.git`, as GitHub does:
 * protocol v2, fetch by SHA, no push. Without the token (basic authentication with user `x-access-token`) it answers
 * 401, with another one too.
 */
export class GitServer {
  readonly requests: GitRequest[] = [];
  readonly #root: string;
  readonly #tokens: ReadonlySet<string> | null;
  readonly #scripts: { readonly path: RegExp; readonly behaviour: GitBehaviour }[] = [];
  readonly #server = createServer((request, response) => {
    this.#handle(request, response).catch(() => response.destroy());
  });

  private constructor(root: string, tokens: readonly string[] | null) {
    this.#root = root;
    this.#tokens = tokens === null ? null : new Set(tokens);
  }

  /** Starts a server on a free port of 127.0.0.1. `tokens: null` makes every repository public. */
  static async start(options: { tokens?: readonly string[] | null } = {}): Promise<GitServer> {
    const root = await temporaryFolder('git');
    const server = new GitServer(root, options.tokens === undefined ? ['full-token'] : options.tokens);
    await new Promise<void>((resolve) => server.#server.listen(0, '127.0.0.1', resolve));
    return server;
  }

  /** The value of GITHUB_SERVER_URL. */
  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Makes an empty repository `owner/name` that this server serves. */
  createRepository(fullName: string): Promise<GitRepository> {
    return GitRepository.create(join(this.#root, `${fullName.toLowerCase()}.git`));
  }

  /** The next request whose URL matches meets `behaviour`. */
  onNext(url: RegExp, behaviour: GitBehaviour): void {
    this.#scripts.push({ path: url, behaviour });
  }

  /** Ends the server and removes its repositories. */
  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeAllConnections();
    await closed;
    await rm(this.#root, { recursive: true, force: true });
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const headers: Record<string, string> = {};
    for (const [name, value] of Object.entries(request.headers)) headers[name] = String(value);
    const record: GitRequest = {
      method: request.method ?? 'GET',
      url: request.url ?? '/',
      headers,
      credentials: basic(headers.authorization),
      body: Buffer.concat(chunks),
      status: 0,
    };
    this.requests.push(record);
    const end = (status: number, text: string, more: Record<string, string> = {}) => {
      record.status = status;
      response.writeHead(status, { 'content-type': 'text/plain', ...more }).end(text);
    };
    const at = this.#scripts.findIndex((s) => s.path.test(record.url));
    if (at >= 0) {
      const { behaviour } = this.#scripts.splice(at, 1)[0] as { behaviour: GitBehaviour };
      if (behaviour === 'hang') return;
      if (behaviour === 'reset') {
        request.socket.resetAndDestroy();
        return;
      }
      end(behaviour.status, 'as scripted\n');
      return;
    }
    const permitted =
      this.#tokens === null ||
      (record.credentials?.user === 'x-access-token' && this.#tokens.has(record.credentials.password));
    if (!permitted) {
      end(401, 'Repository not found.\n', { 'www-authenticate': 'Basic realm="GitHub"' });
      return;
    }
    const target = new URL(record.url, 'http://localhost');
    const path = /^\/([\w.-]+)\/([\w.-]+?)(?:\.git)?\/(info\/refs|git-upload-pack)$/.exec(target.pathname);
    // Smart protocol and reading only, as GitHub: no loose files, no push.
    if (path === null || (path[3] === 'info/refs' && target.searchParams.get('service') !== 'git-upload-pack')) {
      end(403, 'Please upgrade your git client.\n');
      return;
    }
    const answer = await this.#backend(record, `/${path[1]}/${path[2]}.git/${path[3]}`.toLowerCase(), target.search);
    record.status = answer.status;
    response.writeHead(answer.status, answer.headers).end(answer.body);
  }

  /** Runs git's own CGI program and takes its answer apart. */
  #backend(
    record: GitRequest,
    path: string,
    search: string,
  ): Promise<{ status: number; headers: Record<string, string>; body: Buffer }> {
    return new Promise((resolve, reject) => {
      const child = spawn('git', ['http-backend'], {
        env: {
          PATH: process.env.PATH,
          GIT_PROJECT_ROOT: this.#root,
          GIT_HTTP_EXPORT_ALL: '1',
          GIT_PROTOCOL: record.headers['git-protocol'] ?? '',
          PATH_INFO: path,
          QUERY_STRING: search.slice(1),
          REQUEST_METHOD: record.method,
          CONTENT_TYPE: record.headers['content-type'] ?? '',
          CONTENT_LENGTH: String(record.body.length),
          HTTP_CONTENT_ENCODING: record.headers['content-encoding'] ?? '',
          REMOTE_USER: record.credentials?.user ?? '',
          REMOTE_ADDR: '127.0.0.1',
        },
        stdio: ['pipe', 'pipe', 'ignore'],
      });
      const chunks: Buffer[] = [];
      child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
      child.on('error', reject);
      child.stdin.on('error', () => {});
      child.stdin.end(record.body);
      child.on('close', () => {
        const output = Buffer.concat(chunks);
        const gap = output.indexOf('\r\n\r\n');
        const headers: Record<string, string> = {};
        let status = 200;
        for (const line of output.subarray(0, Math.max(gap, 0)).toString('latin1').split('\r\n')) {
          const colon = line.indexOf(':');
          const name = line.slice(0, colon).toLowerCase();
          if (name === 'status') status = Number.parseInt(line.slice(colon + 1), 10);
          else if (colon > 0) headers[name] = line.slice(colon + 1).trim();
        }
        if (gap < 0) reject(new Error('git http-backend gave no answer'));
        else resolve({ status, headers, body: output.subarray(gap + 4) });
      });
    });
  }
}

function basic(header: string | undefined): GitRequest['credentials'] {
  const encoded = /^basic\s+(.+)$/i.exec(header ?? '')?.[1];
  if (encoded === undefined) return null;
  const [user, ...password] = Buffer.from(encoded, 'base64').toString('utf8').split(':');
  return { user: user ?? '', password: password.join(':') };
}
