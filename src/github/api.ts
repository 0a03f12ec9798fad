import type { Logger } from '../log.js';

/** One request to GitHub's REST API. */
export interface ApiCall {
  /** `METHOD /path/{parameter}`, as GitHub's documentation writes it. */
  readonly route: string;
  /** Path parameters and the members of the query or body. */
  readonly parameters: Readonly<Record<string, unknown>>;
  /**
   * Says, after an attempt whose outcome nobody knows (a reset connection, a 5xx, a time-out), what the request would
   * have answered if it was carried out, or null if it was not. Needed where doing it twice is not the same as once.
   */
  readonly landed?: () => Promise<unknown>;
  readonly patience?: Patience;
  /** Ends the request, and the waiting before another attempt. */
  readonly signal?: AbortSignal;
}

export type ApiAnswer =
  | { readonly kind: 'ok'; readonly status: number; readonly data: unknown }
  /** GitHub understood and says no (4xx): asking again would not help. */
  | { readonly kind: 'refused'; readonly status: number; readonly message: string }
  /** Nobody answered, or only errors of the server or a rate limit, for as long as our patience went. */
  | { readonly kind: 'unavailable'; readonly message: string };

export interface GitHubApi {
  /** Never throws for what GitHub or the network does. */
  request(call: ApiCall): Promise<ApiAnswer>;
}

/** How long to go on; all in milliseconds. */
export interface Patience {
  /** One attempt, its answer read to the end. */
  readonly timeout: number;
  /** The waits before further attempts; there is one attempt more than waits. */
  readonly waits: readonly number[];
  /** The longest wait that a rate limit may ask for. */
  readonly limitWait: number;
}

/** For what a reader waits for. */
export const PATIENT: Patience = { timeout: 30_000, waits: [1_000, 4_000, 10_000], limitWait: 90_000 };
/** For what the next report replaces anyway. */
export const ONCE: Patience = { timeout: 10_000, waits: [], limitWait: 0 };
/** For a run that is being ended: GitHub kills it some seconds after SIGINT, and two are ours to close the check run. */
export const URGENT: Patience = { timeout: 900, waits: [50], limitWait: 0 };

/** Time, passed in so that tests do not wait. */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
  /** Resolves after `ms` milliseconds, or at once when `signal` is aborted. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  now: Date.now,
  sleep(ms, signal) {
    return new Promise((resolve) => {
      if (signal?.aborted) {
        resolve();
        return;
      }
      const end = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', end);
        resolve();
      };
      const timer = setTimeout(end, ms);
      signal?.addEventListener('abort', end);
    });
  },
};

export interface ApiOptions {
  readonly token: string;
  /** `GITHUB_API_URL`. */
  readonly baseUrl: string;
  readonly logger: Logger;
  readonly clock?: Clock;
}

type Send = (route: string, parameters: Record<string, unknown>) => Promise<{ status: number; data: unknown }>;

/**
 * GitHub's REST API through Octokit, which goes through the proxy that the runner's environment names. Octokit is
 * loaded with the first request: a run that needs no API does not pay for it.
 *
 * Repeated are, with growing waits: 5xx, lost connections and time-outs, and rate limits (429, and 403 that says so) as
 * late as they ask for. Never any other 4xx.
 */
export function createApi(options: ApiOptions): GitHubApi {
  const { token, baseUrl, logger, clock = systemClock } = options;
  let loading: Promise<Send> | null = null;

  async function load(): Promise<Send> {
    const { getOctokit } = await import(/* webpackIgnore: true */ './octokit.js');
    const debug = (message: string): void => logger.debug(message);
    const log = { debug, info: debug, warn: debug, error: debug };
    return getOctokit(token, { baseUrl, log }).request;
  }

  return {
    async request(call) {
      loading ??= load();
      const send = await loading;
      const { timeout, waits, limitWait } = call.patience ?? PATIENT;
      for (let attempt = 0; ; attempt++) {
        const outcome = await attemptOnce(send, call, timeout);
        if (outcome.kind === 'ok' || outcome.kind === 'refused') return outcome;
        if (outcome.kind === 'unclear' && call.landed !== undefined && !call.signal?.aborted) {
          const data = await call.landed();
          if (data !== null) return { kind: 'ok', status: 200, data };
        }
        const wait = outcome.kind === 'limited' ? (outcome.wait(clock.now()) ?? waits[attempt] ?? 0) : waits[attempt];
        const over =
          attempt >= waits.length || call.signal?.aborted || (outcome.kind === 'limited' && (wait ?? 0) > limitWait);
        if (over || wait === undefined) return { kind: 'unavailable', message: outcome.message };
        logger.debug(`${call.route}: ${outcome.message}; again in ${wait} ms`);
        await clock.sleep(wait, call.signal);
      }
    },
  };
}

type Attempt =
  | Exclude<ApiAnswer, { kind: 'unavailable' }>
  /** It may have been carried out. */
  | { readonly kind: 'unclear'; readonly message: string }
  | { readonly kind: 'limited'; readonly message: string; readonly wait: (now: number) => number | null };

async function attemptOnce(send: Send, call: ApiCall, timeout: number): Promise<Attempt> {
  const signals = [AbortSignal.timeout(timeout), ...(call.signal === undefined ? [] : [call.signal])];
  try {
    const { status, data } = await send(call.route, {
      ...call.parameters,
      request: { signal: AbortSignal.any(signals) },
    });
    // Octokit gives text for a body that it could not read to its end.
    return typeof data === 'object' && data !== null
      ? { kind: 'ok', status, data }
      : { kind: 'unclear', message: `GitHub's answer (${status}) was cut off` };
  } catch (error) {
    return failedAttempt(error);
  }
}

/** What Octokit throws: `response` is missing when there was no answer. */
interface RequestFailure {
  readonly message?: unknown;
  readonly status?: unknown;
  readonly response?: { readonly headers?: Readonly<Record<string, unknown>> };
}

function failedAttempt(error: unknown): Attempt {
  const {
    message: said,
    status,
    response,
  } = (typeof error === 'object' && error !== null ? error : {}) as RequestFailure;
  const message = typeof said === 'string' && said !== '' ? said : 'no answer';
  if (response === undefined || typeof status !== 'number')
    return { kind: 'unclear', message: `GitHub did not answer: ${message}` };
  if (status >= 500) return { kind: 'unclear', message: `GitHub answered ${status}` };
  const header = (name: string): number | null => {
    const value = Number.parseInt(String(response.headers?.[name] ?? ''), 10);
    return Number.isNaN(value) ? null : value;
  };
  const after = header('retry-after');
  const exhausted = header('x-ratelimit-remaining') === 0;
  // GitHub may send its secondary limit without a header; then its words are all there is.
  const limited =
    status === 429 || (status === 403 && (after !== null || exhausted || /secondary rate limit/i.test(message)));
  if (!limited) return { kind: 'refused', status, message };
  const reset = header('x-ratelimit-reset');
  return {
    kind: 'limited',
    message: `GitHub's rate limit is reached (${status})`,
    wait: (now) => {
      if (after !== null) return after * 1_000;
      if (exhausted && reset !== null) return Math.max(0, reset * 1_000 - now) + 1_000;
      // GitHub's advice for a secondary limit that names no time.
      return status === 403 ? 60_000 : null;
    },
  };
}
