import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Answer, answerOf, type World } from './github-endpoints.js';
import { OpenApi, type Operation } from './openapi.js';

/** What a token may do, by GitHub's permission names. A permission that is not named is not granted. */
export type Permissions = Readonly<Record<string, 'read' | 'write'>>;

/** The permissions of a job that asked for all that fleet-role can use. */
export const FULL: Permissions = {
  metadata: 'read',
  contents: 'read',
  checks: 'write',
  issues: 'write',
  'pull-requests': 'read',
};
/** The token of a fork's or of Dependabot's pull request: everything may be read, nothing written. */
export const READ_ONLY: Permissions = {
  metadata: 'read',
  contents: 'read',
  checks: 'read',
  issues: 'read',
  'pull-requests': 'read',
};

export interface RecordedRequest {
  readonly method: string;
  /** Path without the API prefix and without the query, still encoded. */
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  /** All headers, `authorization` included, names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** The token of the authorization header, or null. */
  readonly token: string | null;
  /** Parsed JSON, or undefined when there was no body. */
  readonly body: unknown;
  /** What was answered; 0 when the connection was reset or left hanging. */
  status: number;
}

/** What happens instead of the usual answer. */
export type Behaviour =
  | {
      readonly kind: 'answer';
      readonly status: number;
      readonly headers?: Record<string, string>;
      readonly body?: unknown;
    }
  /** The connection is reset and nothing was done. */
  | { readonly kind: 'reset' }
  /** The request is carried out, then the connection is reset: the client cannot know. */
  | { readonly kind: 'done-then-reset' }
  /** Nothing is ever answered; the connection stays open until the client or `close()` ends it. */
  | { readonly kind: 'hang' }
  /** The usual answer, so many milliseconds later. */
  | { readonly kind: 'late'; readonly ms: number };

/** Ready-made behaviours. */
export const behaviours = {
  reset: { kind: 'reset' },
  doneThenReset: { kind: 'done-then-reset' },
  hang: { kind: 'hang' },
  badGateway: {
    kind: 'answer',
    status: 502,
    headers: { 'content-type': 'text/html' },
    body: '<html>Bad Gateway</html>',
  },
  late: (ms: number): Behaviour => ({ kind: 'late', ms }),
  /** GitHub's secondary rate limit: 403 with the seconds to wait. */
  secondaryLimit: (seconds: number): Behaviour => ({
    kind: 'answer',
    status: 403,
    headers: { 'retry-after': String(seconds) },
    body: { message: 'You have exceeded a secondary rate limit. Please wait a few minutes before you try again.' },
  }),
  tooManyRequests: (seconds: number): Behaviour => ({
    kind: 'answer',
    status: 429,
    headers: { 'retry-after': String(seconds) },
    body: { message: 'Too many requests' },
  }),
  /** The primary limit: nothing remains until the reset time (seconds since 1970). */
  primaryLimit: (reset: number): Behaviour => ({
    kind: 'answer',
    status: 403,
    headers: { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(reset) },
    body: { message: 'API rate limit exceeded' },
  }),
  answer: (status: number, body: unknown, headers: Record<string, string> = {}): Behaviour => ({
    kind: 'answer',
    status,
    body,
    headers,
  }),
} as const;

export interface GitHubServerOptions {
  /** `/api/v3` plays GitHub Enterprise Server. Default: none. */
  readonly prefix?: string;
  /** Tokens and what they may do. Default: `full-token` with `FULL` and `read-token` with `READ_ONLY`. */
  readonly tokens?: Readonly<Record<string, Permissions>>;
}

interface Script {
  readonly method: string;
  readonly path: RegExp;
  readonly behaviour: Behaviour;
  left: number;
}

/** Which permission an operation needs. GitHub's description does not say it in a form to read. */
function permissionOf(operation: Operation): string {
  const rest = operation.path.replace('/repos/{owner}/{repo}', '');
  if (/check-(runs|suites)/.test(rest)) return 'checks';
  if (/pulls/.test(rest)) return 'pull-requests';
  if (/^\/(issues|labels)/.test(rest)) return 'issues';
  if (rest === '') return 'metadata';
  return 'contents';
}

/**
 * A local HTTP server that plays the part of GitHub's REST API that fleet-role may use. Every request is checked
 * against GitHub's OpenAPI description; what is wrong there is answered as GitHub would (404, 422) **and** listed in
 * `violations`, which a test expects to be empty. Refusals that a program may meet in life (another token's check run,
 * a missing permission, an unknown commit) are answered and are no violation.
 */
export class GitHubServer {
  /** Every request in the order of arrival. */
  readonly requests: RecordedRequest[] = [];
  /** One line for each thing that GitHub's description does not allow. */
  readonly violations: string[] = [];
  /** Repositories, check runs, issues and pull requests; a test may add to it and read it. */
  readonly world: World = { repositories: new Map(), checkRuns: [], issues: [], pulls: [], nextId: 1000 };
  readonly tokens: Map<string, Permissions>;
  readonly #prefix: string;
  readonly #scripts: Script[] = [];
  readonly #server = createServer((request, response) => {
    this.#handle(request, response).catch((error: unknown) => {
      this.violations.push(`the server itself failed: ${error instanceof Error ? error.stack : String(error)}`);
      response.destroy();
    });
  });

  private constructor(options: GitHubServerOptions) {
    this.#prefix = options.prefix ?? '';
    this.tokens = new Map(Object.entries(options.tokens ?? { 'full-token': FULL, 'read-token': READ_ONLY }));
  }

  /** Starts a server on a free port of 127.0.0.1. */
  static async start(options: GitHubServerOptions = {}): Promise<GitHubServer> {
    const server = new GitHubServer(options);
    await new Promise<void>((resolve) => server.#server.listen(0, '127.0.0.1', resolve));
    return server;
  }

  /** The value of GITHUB_API_URL, prefix included. */
  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}${this.#prefix}`;
  }

  /** The check runs made so far, oldest first. */
  get checkRuns(): World['checkRuns'] {
    return this.world.checkRuns;
  }

  /**
   * Makes a repository known. With `gitDir` commits, refs and comparisons are answered from that real repository and a
   * check run on a commit that it lacks is refused, as GitHub does; without, any full SHA is believed.
   */
  addRepository(
    fullName: string,
    options: { gitDir?: string; defaultBranch?: string; private?: boolean; fork?: boolean } = {},
  ): void {
    this.world.repositories.set(fullName.toLowerCase(), {
      fullName,
      gitDir: options.gitDir ?? null,
      defaultBranch: options.defaultBranch ?? 'main',
      private: options.private ?? false,
      fork: options.fork ?? false,
    });
  }

  /** The next `times` requests of this method (or `*`) whose path matches meet `behaviour`. Scripts are tried in order. */
  onNext(method: string, path: RegExp, behaviour: Behaviour, times = 1): void {
    this.#scripts.push({ method: method.toUpperCase(), path, behaviour, left: times });
  }

  /** Requests of one method whose path matches. */
  requestsOf(method: string, path: RegExp): RecordedRequest[] {
    return this.requests.filter((r) => r.method === method.toUpperCase() && path.test(r.path));
  }

  /** Forgets requests, violations, scripts and what was made; repositories and tokens stay. */
  reset(): void {
    this.requests.length = 0;
    this.violations.length = 0;
    this.#scripts.length = 0;
    this.world.checkRuns.length = 0;
    this.world.issues.length = 0;
    this.world.pulls.length = 0;
  }

  /** Ends the server and every open connection. */
  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeAllConnections();
    await closed;
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString('utf8');
    const target = new URL(request.url ?? '/', 'http://localhost');
    const method = request.method ?? 'GET';
    const headers: Record<string, string> = {};
    for (const [name, value] of Object.entries(request.headers)) headers[name] = String(value);
    const within = target.pathname === this.#prefix || target.pathname.startsWith(`${this.#prefix}/`);
    const path = within ? target.pathname.slice(this.#prefix.length) : target.pathname;
    let body: unknown;
    let parsed = true;
    try {
      if (text !== '') body = JSON.parse(text);
    } catch {
      parsed = false;
    }
    const record: RecordedRequest = {
      method,
      path,
      query: Object.fromEntries(target.searchParams),
      headers,
      token: /^(?:token|bearer)\s+(.+)$/i.exec(headers.authorization ?? '')?.[1] ?? null,
      body: parsed ? body : text,
      status: 0,
    };
    this.requests.push(record);

    const script = this.#scripts.find(
      (s) => s.left > 0 && (s.method === '*' || s.method === method) && s.path.test(path),
    );
    if (script !== undefined) script.left -= 1;
    const behaviour = script?.behaviour;
    // What a client sends is checked even where the answer is scripted: a retry must be right as well.
    const ordinary = this.#answer(record, within, parsed, target.searchParams, behaviour);
    if (behaviour?.kind === 'hang') return;
    if (behaviour?.kind === 'reset' || behaviour?.kind === 'done-then-reset') {
      request.socket.resetAndDestroy();
      return;
    }
    if (behaviour?.kind === 'late') await new Promise((resolve) => setTimeout(resolve, behaviour.ms));
    const answer: Answer =
      behaviour?.kind === 'answer'
        ? {
            status: behaviour.status,
            body: behaviour.body,
            ...(behaviour.headers ? { headers: behaviour.headers } : {}),
          }
        : ordinary;
    record.status = answer.status;
    const isText = typeof answer.body === 'string';
    response.writeHead(answer.status, {
      'content-type': isText ? 'text/plain; charset=utf-8' : 'application/json; charset=utf-8',
      'x-ratelimit-remaining': '4999',
      ...answer.headers,
    });
    response.end(answer.body === undefined ? '' : isText ? answer.body : JSON.stringify(answer.body));
  }

  /** The ordinary answer; a request whose behaviour does not carry it out is only checked. */
  #answer(
    record: RecordedRequest,
    within: boolean,
    parsed: boolean,
    query: URLSearchParams,
    behaviour: Behaviour | undefined,
  ): Answer {
    const where = `${record.method} ${record.path}`;
    const wrong = (status: number, message: string): Answer => {
      this.violations.push(`${where}: ${message}`);
      return { status, body: { message, documentation_url: 'https://docs.github.com/rest', status: String(status) } };
    };
    if (!within) return wrong(404, `is not below ${this.#prefix}`);
    if (!parsed) return wrong(400, 'Problems parsing JSON');
    if ((record.headers['user-agent'] ?? '') === '') return wrong(403, 'a request needs a User-Agent header');
    const operation = OpenApi.shared().find(record.method, record.path);
    if (operation === null) return wrong(404, 'GitHub has no such endpoint');
    const problems = [...OpenApi.shared().checkRequest(operation, query, record.body), ...tooLong(record.body, 'body')];
    if (problems.length > 0) return wrong(422, `Validation Failed: ${problems.join('; ')}`);

    if (record.token === null) return { status: 401, body: { message: 'Requires authentication' } };
    const permissions = this.tokens.get(record.token);
    if (permissions === undefined) return { status: 401, body: { message: 'Bad credentials' } };
    const granted = permissions[permissionOf(operation)];
    if (granted === undefined || (record.method !== 'GET' && granted !== 'write')) {
      return { status: 403, body: { message: 'Resource not accessible by integration', status: '403' } };
    }
    if (behaviour !== undefined && behaviour.kind !== 'done-then-reset' && behaviour.kind !== 'late') {
      return { status: 0, body: undefined };
    }
    const answer = answerOf(this.world, operation, {
      query,
      // biome-ignore lint/suspicious/noExplicitAny: checked against GitHub's description just above
      body: record.body as any,
      token: record.token,
      accept: record.headers.accept ?? '',
      api: this.url,
      path: record.path,
    });
    if (answer === null) return wrong(404, `this server does not play ${operation.method} ${operation.path}`);
    if (answer.violation !== undefined) this.violations.push(`${where}: ${answer.violation}`);
    if (typeof answer.body !== 'string') {
      // Our own answers are held to the description too, so that no test rests on a shape that GitHub never sends.
      const ours = OpenApi.shared().checkAnswer(operation, answer.status, answer.body);
      if (ours.length > 0) this.violations.push(`${where}: the server's own answer is wrong: ${ours.join('; ')}`);
    }
    return answer;
  }
}

/** GitHub's limit of every text field, which the description states for some of them only. */
const TEXT_LIMIT = 65_535;

function tooLong(value: unknown, at: string): string[] {
  if (typeof value === 'string') {
    const length = [...value].length;
    return length > TEXT_LIMIT ? [`${at} is too long (${length} characters, maximum ${TEXT_LIMIT})`] : [];
  }
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, member]) => tooLong(member, `${at}/${key}`));
}
