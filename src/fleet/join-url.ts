/** The parts of a join URL that decide where a node goes. */
export interface JoinTarget {
  /** Lower case; an IPv6 address without its brackets. */
  readonly host: string;
  readonly port: number;
}

/**
 * Where a join URL points to; null when it is no `https://HOST[:PORT]` (a path, a query, credentials or white space
 * make it none: k3s would take the first and drop the rest without a word).
 */
export function parseJoinUrl(text: string): JoinTarget | null {
  const match =
    /^https:\/\/(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?\.?)(?::(\d{1,5}))?\/?$/.exec(text);
  if (match === null) return null;
  // k3s takes https's own port where none is given.
  const port = match[2] === undefined ? 443 : Number(match[2]);
  if (port < 1 || port > 65_535) return null;
  const host = (match[1] as string).toLowerCase().replace(/^\[|\]$/g, '');
  return { host, port };
}

/** `https://ADDRESS:PORT`, an IPv6 address in brackets. */
export function joinUrlOf(address: string, port: number): string {
  return `https://${address.includes(':') ? `[${address}]` : address}:${port}`;
}
