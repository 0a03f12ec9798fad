import { ReadingError } from './text.js';

/** Ansible's `[x:y:step]` in a host name of letters, and in the parts of an address. */
const NUMERIC_RANGE = '\\[[0-9]+:[0-9]+(?::[0-9]+)?\\]';
const HEX_RANGE = '\\[[0-9a-f]+:[0-9a-f]+(?::[0-9]+)?\\]';
const NAME_RANGE = '\\[(?:[a-z]:[a-z]|[0-9]+:[0-9]+)(?::[0-9]+)?\\]';
const LABEL = `(?:[\\p{L}\\p{N}_]|${NAME_RANGE})(?:[\\p{L}\\p{N}_-]|${NAME_RANGE})*(?<![_-])`;
const HOST_NAME = new RegExp(`^${LABEL}(?:\\.${LABEL})*$`, 'iu');
const V4_PART = `(?:[01]?[0-9]{1,2}|2[0-4][0-9]|25[0-5]|${NUMERIC_RANGE})`;
const V4 = new RegExp(`^(?:${V4_PART}\\.){3}${V4_PART}$`, 'i');
const V6_PART = `(?:[0-9a-f]{1,4}|${HEX_RANGE})`;
const V6_MIXED_PART = V6_PART;
/** Ansible's own list of the ways to write an IPv6 address; only the last way is anchored at its end, as there. */
const V6 = new RegExp(
  [
    `^(?:${V6_PART}:){7}${V6_PART}`,
    `(?:${V6_PART}:){1,6}:`,
    `(?:${V6_PART}:)(?::${V6_PART}){1,6}`,
    `(?:${V6_PART}:){2}(?::${V6_PART}){1,5}`,
    `(?:${V6_PART}:){3}(?::${V6_PART}){1,4}`,
    `(?:${V6_PART}:){4}(?::${V6_PART}){1,3}`,
    `(?:${V6_PART}:){5}(?::${V6_PART}){1,2}`,
    `(?:${V6_PART}:){6}(?::${V6_PART})`,
    `:(?::${V6_PART}){1,6}`,
    `${V6_PART}?::`,
    `(?:0:){6}(?:${V6_MIXED_PART}\\.){3}${V6_MIXED_PART}`,
    `::(?:ffff:)?(?:${V6_MIXED_PART}\\.){3}${V6_MIXED_PART}`,
    `(?:0:){5}ffff:(?:${V6_MIXED_PART}\\.){3}${V6_MIXED_PART}$`,
  ].join('|'),
  'iy',
);
const BRACKETED_PORT = /^\[(.+)\]:([0-9]+)$/u;
const PLAIN_PORT = /^((?:[^:[\]]|\[[^\]]*\])*):([0-9]+)$/u;
const LETTERS = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ';
const PYTHON_INTEGER = /^\s*[-+]?[0-9]+(?:_[0-9]+)*\s*$/;

/** No host is named at such length; without a bound a hostile name would cost seconds. */
const MAX_LENGTH = 1000;

export interface HostPattern {
  readonly names: readonly string[];
  readonly port: number | null;
}

/**
 * The hosts that one host line or key names, with its port: `web[01:03].example.net:2222`, `[::1]:22`.
 *
 * `limit` bounds the number of names. Throws a ReadingError at `at`: `bad-range` (also for a range without hosts, which
 * Ansible drops silently), `bad-host-name`, `too-big`.
 */
export function expandHostPattern(pattern: string, limit: number, at: number): HostPattern {
  if (pattern.length > MAX_LENGTH) {
    throw new ReadingError(
      'bad-host-name',
      `the host name ${pattern.slice(0, 40)}… is longer than ${MAX_LENGTH} characters`,
      at,
    );
  }
  // Most names: without a colon there is no port, and it need not be known whether the name is an address.
  const [address, port] = pattern.includes(':') ? splitPort(pattern) : [pattern, null];
  const names = address.includes('[') ? expandRanges(address, pattern, limit, at) : [address];
  for (const name of names) checkHostName(name, at);
  return { names, port };
}

/** Address and port; the pattern as it is when Ansible does not know it as an address. */
function splitPort(pattern: string): [string, number | null] {
  let address = pattern;
  let port: number | null = null;
  for (const form of [BRACKETED_PORT, PLAIN_PORT]) {
    const match = form.exec(address);
    if (match === null) continue;
    address = match[1] as string;
    port = Number(match[2]);
  }
  V6.lastIndex = 0;
  return V4.test(address) || V6.test(address) || HOST_NAME.test(address) ? [address, port] : [pattern, null];
}

/** Whether the name is an IPv4 or IPv6 address for Ansible (its short name is then the whole). */
export function isAddress(name: string): boolean {
  V6.lastIndex = 0;
  return V4.test(name) || V6.test(name);
}

function expandRanges(address: string, pattern: string, limit: number, at: number): string[] {
  let names = [address];
  while (names.some((name) => name.includes('['))) {
    const next: string[] = [];
    for (const name of names) {
      if (!name.includes('[')) {
        next.push(name);
        continue;
      }
      const { head, items, tail } = firstRange(name, pattern, limit - next.length, at);
      for (const item of items) next.push(head + item + tail);
    }
    names = next;
  }
  return names;
}

interface Range {
  readonly head: string;
  readonly items: readonly string[];
  readonly tail: string;
}

function firstRange(name: string, pattern: string, limit: number, at: number): Range {
  const fail = (why: string): never => {
    throw new ReadingError(
      'bad-range',
      `the range of ${JSON.stringify(pattern)} ${why}; write it as [begin:end] or [begin:end:step]`,
      at,
    );
  };
  const parts = name.replace('[', '|').replace(']', '|').split('|');
  if (parts.length !== 3) fail('is not closed or the name holds a |');
  const [head, range, tail] = parts as [string, string, string];
  const bounds = range.split(':');
  if (bounds.length !== 2 && bounds.length !== 3) fail('has no begin and end');
  const begin = bounds[0] === '' ? '0' : (bounds[0] as string);
  const end = bounds[1] as string;
  const stepText = bounds[2] ?? '1';
  if (end === '') fail('has no end');
  let width = 0;
  if (begin.startsWith('0') && begin.length > 1) {
    width = begin.length;
    if (width !== end.length) fail('has a begin and an end of different lengths');
  }
  if (!PYTHON_INTEGER.test(stepText)) fail('has a step that is no number');
  const step = Number(stepText.replaceAll('_', ''));
  if (step === 0) fail('has the step 0');
  const first = LETTERS.indexOf(begin);
  const last = LETTERS.indexOf(end);
  const items: string[] = [];
  const add = (item: string) => {
    if (items.length >= limit) {
      throw new ReadingError('too-big', `${JSON.stringify(pattern)} names too many hosts (20,000 at most)`, at);
    }
    items.push(width === 0 ? item : zeroFill(item, width));
  };
  if (first !== -1 && last !== -1) {
    if (first > last) fail('ends before it begins');
    const letters = LETTERS.slice(first, last + 1);
    if (step > 0) for (let index = 0; index < letters.length; index += step) add(letters[index] as string);
  } else {
    if (!PYTHON_INTEGER.test(begin) || !PYTHON_INTEGER.test(end))
      fail('has bounds that are neither numbers nor letters');
    const from = Number(begin.replaceAll('_', ''));
    const to = Number(end.replaceAll('_', '')) + 1;
    if (step > 0) for (let number = from; number < to; number += step) add(String(number));
    else for (let number = from; number > to; number += step) add(String(number));
  }
  if (items.length === 0) fail('holds no host, because it ends before it begins');
  return { head, items, tail };
}

/** Python's `zfill`: the sign stays in front. */
function zeroFill(text: string, width: number): string {
  if (!/^[-+]/.test(text)) return text.padStart(width, '0');
  return text[0] + text.slice(1).padStart(width - 1, '0');
}

/** Holds nothing that any of the checks below looks for; nearly every name is one. */
const PLAIN_NAME = /^[A-Za-z0-9_][A-Za-z0-9_.-]*$/;

/** Throws for a name that Ansible takes but that is a slip of the pen, or that no tool could use safely. */
export function checkHostName(name: string, at: number): void {
  if (PLAIN_NAME.test(name)) return;
  const fail = (why: string): never => {
    throw new ReadingError('bad-host-name', `the host name ${JSON.stringify(name)} ${why}`, at);
  };
  if (name === '') fail('is empty; give it a name');
  if (/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(name)) fail('holds a control character; remove it');
  if (/\s/u.test(name))
    fail('holds a space: a host line without a colon joins the next line; write each host as `name:`');
  if (/[{}]/.test(name)) fail('holds a brace: names are not templates; write the name out');
  if (name.includes(',')) fail('holds a comma; write one host a line');
  if (name.includes('/')) fail('holds a slash; a host is named by a name or an address');
  if (/^\.+$/.test(name)) fail('is no name; give it one');
  if (name.startsWith('-')) fail('begins with a dash; ssh would take it for an option');
}

/** Throws for a group name that Ansible takes but that leads out of `group_vars/` or cannot be shown. */
export function checkGroupName(name: string, at: number): void {
  const fail = (why: string): never => {
    throw new ReadingError('bad-structure', `the group name ${JSON.stringify(name)} ${why}`, at);
  };
  if (/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(name)) fail('holds a control character; remove it');
  if (/(?:^|\/)\.*(?:\/|$)/.test(name)) fail('is no name of a file in group_vars; give it another');
}
