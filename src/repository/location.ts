import { UserError } from '../errors.js';

/** What the input `repository` names. */
export type Location = RemoteLocation | LocalLocation;

export interface RemoteLocation {
  readonly kind: 'remote';
  /** For people: `owner/name` at the server, else the URL. */
  readonly name: string;
  /** Without credentials. */
  readonly url: string;
  /** It is the repository that the workflow belongs to. */
  readonly own: boolean;
  /** The repository at the GitHub server: it alone gets the token, and its API may be asked. */
  readonly github: GitHubName | null;
  /** Protocols that git may use to reach it. */
  readonly protocols: readonly string[];
  /** Whoever is on the way to it can read and change what is fetched. */
  readonly unprotected: boolean;
}

export interface LocalLocation {
  readonly kind: 'local';
  readonly name: string;
  /** As given; relative to the workspace. */
  readonly path: string;
  readonly own: boolean;
}

export interface GitHubName {
  readonly owner: string;
  readonly repo: string;
}

const OWNER_NAME = /^[A-Za-z0-9_][A-Za-z0-9_-]*\/(?!\.{1,2}$)[A-Za-z0-9._-]+$/;
const ACCEPTED =
  'It accepts owner/name, a URL (https, ssh, git, http or file), or a path to a work tree or a bare repository.';

/**
 * Reads the input `repository`: null or empty is `thisRepository` (`owner/name`), or the workspace where there is
 * none. `owner/name` wins over a path that looks alike (which is written `./owner/name`), and `file://` is a path.
 * @param serverUrl where `owner/name` is, from GITHUB_SERVER_URL.
 * @throws UserError when it has credentials, names a transport helper of git, or is none of the accepted forms.
 */
export function locate(repository: string | null, thisRepository: string | null, serverUrl: string): Location {
  const server = readServer(serverUrl);
  const given = repository?.trim() ?? '';
  if (given === '') {
    if (thisRepository === null || thisRepository === '') return { kind: 'local', name: '.', path: '.', own: true };
    return atServer(thisRepository, thisRepository, server);
  }
  if (/[\p{Cc}\p{Cf}]/u.test(given) || given.startsWith('-')) throw refused(given, 'it is no repository');
  if (/^[A-Za-z0-9+.-]*::/.test(given)) throw refused(given, 'a transport helper of git would run a program');
  const scheme = /^([A-Za-z][A-Za-z0-9+.-]*):\/\//.exec(given)?.[1]?.toLowerCase();
  if (scheme !== undefined) return atUrl(given, scheme, thisRepository, server);
  if (OWNER_NAME.test(given)) return atServer(given, thisRepository, server);
  if (/^[^/]+:/.test(given)) return atUrl(given, 'scp', thisRepository, server);
  return { kind: 'local', name: given, path: given, own: false };
}

interface Server {
  readonly url: string;
  readonly origin: string;
  readonly path: string;
}

function readServer(serverUrl: string): Server {
  const url = parse(serverUrl);
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '') {
    throw new UserError('GITHUB_SERVER_URL must be an http or https URL without credentials.');
  }
  const path = url.pathname.replace(/\/+$/, '');
  return { url: `${url.origin}${path}`, origin: url.origin, path };
}

function atServer(name: string, thisRepository: string | null, server: Server): RemoteLocation {
  if (!OWNER_NAME.test(name))
    throw new UserError(`GITHUB_REPOSITORY is ${JSON.stringify(name)}, which is no owner/name.`);
  return remoteAt(`${server.url}/${name}`, name, thisRepository, server);
}

function remoteAt(url: string, name: string, thisRepository: string | null, server: Server): RemoteLocation {
  const parsed = new URL(url);
  const inServer = parsed.origin === server.origin && parsed.pathname.startsWith(`${server.path}/`);
  const path = inServer ? parsed.pathname.slice(server.path.length + 1).replace(/(?:\.git)?\/*$/, '') : '';
  const [owner, repo] = OWNER_NAME.test(path) ? path.split('/') : [];
  const github = owner !== undefined && repo !== undefined ? { owner, repo } : null;
  const plain = parsed.protocol === 'http:';
  return {
    kind: 'remote',
    name,
    url,
    own: github !== null && path.toLowerCase() === thisRepository?.toLowerCase(),
    github,
    protocols: plain ? ['https', 'http', 'ssh', 'git'] : ['https', 'ssh', 'git'],
    unprotected: plain && !inServer && !isLoopback(parsed.hostname),
  };
}

function atUrl(given: string, scheme: string, thisRepository: string | null, server: Server): Location {
  if (/[\s\\"]/.test(given)) throw refused(given, 'a URL has no spaces, quotes or backslashes');
  if (scheme === 'scp') return atSsh(given, /^(?:([^@]*)@)?(.*?):/.exec(given));
  const url = parse(given);
  if (url === null) throw refused(given, 'it is no URL');
  if (url.password !== '' || (url.username !== '' && scheme !== 'ssh')) throw credentials();
  if (url.search !== '' || url.hash !== '') throw refused(given, 'the URL of a repository has no ? and no #');
  switch (scheme) {
    case 'https':
    case 'http': {
      const clean = `${url.origin}${url.pathname}`;
      return remoteAt(clean, clean, thisRepository, server);
    }
    case 'ssh':
      return atSsh(given, /^ssh:\/\/(?:([^@/]*)@)?([^/:]*)/i.exec(given));
    case 'git':
      return { ...elsewhere(given, ['git']), unprotected: !isLoopback(url.hostname) };
    case 'file':
      if (url.host !== '' && url.host !== 'localhost') throw refused(given, 'a file URL has no host');
      return { kind: 'local', name: given, path: decoded(url.pathname, given), own: false };
    default:
      throw refused(given, `${scheme} is no protocol that it may use`);
  }
}

function atSsh(given: string, parts: RegExpExecArray | null): RemoteLocation {
  const [, user, host] = parts ?? [];
  if (host === undefined || host === '' || host.startsWith('-')) throw refused(given, 'it names no host');
  if (user?.includes(':')) throw credentials();
  return elsewhere(given, ['ssh']);
}

function elsewhere(url: string, protocols: readonly string[]): RemoteLocation {
  return { kind: 'remote', name: url, url, own: false, github: null, protocols, unprotected: false };
}

function decoded(path: string, given: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    throw refused(given, 'a % in it starts no character');
  }
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '[::1]' || host === '::1' || /^127\.\d+\.\d+\.\d+$/.test(host);
}

function parse(text: string): URL | null {
  return URL.canParse(text) ? new URL(text) : null;
}

function credentials(): UserError {
  // The value is not repeated: it holds the secret.
  return new UserError(
    'The input repository has credentials in its URL. Remove them: the input token is used for the GitHub server, and an ssh agent or a credential helper of git for others.',
  );
}

function refused(given: string, why: string): UserError {
  // A URL may hold a secret although it is wrong in another way.
  const shown = JSON.stringify(given.replace(/\/\/[^/@]*@/g, '//***@'));
  return new UserError(`The input repository is ${shown}: ${why}. ${ACCEPTED}`);
}
