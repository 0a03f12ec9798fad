import type { SshOption } from './fleet.js';

/** What of an inventory's ssh arguments fleet-role understands. */
export interface SshArguments {
  readonly options: readonly SshOption[];
  readonly port: number | undefined;
  readonly user: string | undefined;
  /** Keywords that fleet-role sets itself. */
  readonly ignored: readonly string[];
  /** Sentences: what cannot be used, and the way out. */
  readonly errors: readonly string[];
}

const IGNORED = new Set([
  'controlmaster',
  'controlpath',
  'controlpersist',
  'stricthostkeychecking',
  'userknownhostsfile',
]);
const NUMBER = /^\d{1,6}$/;
const HOP =
  /^(?:ssh:\/\/)?(?:[A-Za-z0-9_][A-Za-z0-9_.-]*@)?(?:[A-Za-z0-9_][A-Za-z0-9_.-]*|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?$/;

const OPTIONS: readonly { readonly keyword: SshOption['keyword']; readonly value: RegExp }[] = [
  { keyword: 'ConnectTimeout', value: NUMBER },
  { keyword: 'ServerAliveInterval', value: NUMBER },
  { keyword: 'ServerAliveCountMax', value: NUMBER },
  { keyword: 'Compression', value: /^(?:yes|no)$/ },
  { keyword: 'AddressFamily', value: /^(?:any|inet|inet6)$/ },
  { keyword: 'IPQoS', value: /^[A-Za-z0-9]+(?: [A-Za-z0-9]+)?$/ },
];

/** Splits text into words by the quoting rules of a POSIX shell, without any expansion; null for an open quote. */
export function splitWords(text: string): readonly string[] | null {
  const words: string[] = [];
  let word: string | null = null;
  let at = 0;
  while (at < text.length) {
    const char = text[at] as string;
    if (/\s/.test(char)) {
      if (word !== null) words.push(word);
      word = null;
      at += 1;
    } else if (char === "'") {
      const end = text.indexOf("'", at + 1);
      if (end < 0) return null;
      word = (word ?? '') + text.slice(at + 1, end);
      at = end + 1;
    } else if (char === '"') {
      word ??= '';
      at += 1;
      while (at < text.length && text[at] !== '"') {
        if (text[at] === '\\' && '"\\$`'.includes(text[at + 1] ?? ' ')) at += 1;
        word += text[at] ?? '';
        at += 1;
      }
      if (at >= text.length) return null;
      at += 1;
    } else {
      if (char === '\\') at += 1;
      word = (word ?? '') + (text[at] ?? '');
      at += 1;
    }
  }
  if (word !== null) words.push(word);
  return words;
}

/**
 * Reads `ansible_ssh_common_args` or `ansible_ssh_extra_args` as words. Only options with a closed set of safe values
 * are taken; a ProxyCommand of the plain form `ssh … -W %h:%p HOST` is read as a ProxyJump.
 */
export function parseSshArguments(text: string): SshArguments {
  const out = {
    options: [] as SshOption[],
    port: undefined as number | undefined,
    user: undefined as string | undefined,
  };
  const ignored: string[] = [];
  const errors: string[] = [];
  const words = splitWords(text);
  if (words === null) return { ...out, ignored, errors: ['a quote is not closed'] };
  const pending = [...words];

  const take = (keyword: string, value: string): void => {
    const lower = keyword.toLowerCase();
    const option = OPTIONS.find((candidate) => candidate.keyword.toLowerCase() === lower);
    if (IGNORED.has(lower)) ignored.push(keyword);
    else if (lower === 'proxyjump' && value.split(',').every((hop) => HOP.test(hop))) {
      out.options.push({ keyword: 'ProxyJump', value });
    } else if (lower === 'port' && NUMBER.test(value) && Number(value) >= 1 && Number(value) <= 65_535) {
      out.port = Number(value);
    } else if (lower === 'user' && /^[A-Za-z0-9_][A-Za-z0-9_.-]*$/.test(value)) out.user = value;
    else if (lower === 'proxycommand') {
      const jump = proxyCommandAsJump(value);
      if (jump === null) errors.push('this ProxyCommand would run as shell on the runner; use ProxyJump');
      else out.options.push({ keyword: 'ProxyJump', value: jump });
    } else if (option?.value.test(value)) out.options.push({ keyword: option.keyword, value });
    else errors.push(`the ssh option ${keyword} with this value is not one that fleet-role passes on; remove it`);
  };

  while (pending.length > 0) {
    const word = pending.shift() as string;
    const flag = /^-([oJpl])(.*)$/s.exec(word);
    if (flag === null) {
      if (word === '-C') out.options.push({ keyword: 'Compression', value: 'yes' });
      else if (word === '-4' || word === '-6')
        out.options.push({ keyword: 'AddressFamily', value: word === '-4' ? 'inet' : 'inet6' });
      else errors.push(`the ssh argument ${JSON.stringify(word)} is not one that fleet-role passes on; remove it`);
      continue;
    }
    const value = flag[2] === '' ? pending.shift() : flag[2];
    if (value === undefined) {
      errors.push(`the ssh argument ${word} has no value`);
    } else if (flag[1] === 'o') {
      const pair = /^\s*([A-Za-z]+)(?:\s*=\s*|\s+)(.*)$/s.exec(value);
      if (pair === null) errors.push(`the ssh option ${JSON.stringify(value)} has no value`);
      else take(pair[1] as string, (pair[2] as string).trim());
    } else take({ J: 'ProxyJump', p: 'Port', l: 'User' }[flag[1] as 'J' | 'p' | 'l'], value);
  }
  return { ...out, ignored, errors };
}

/** The hop of `ssh [-q] [-p PORT] [-l USER] -W %h:%p HOST` in any order of its words; null for any other command. */
function proxyCommandAsJump(command: string): string | null {
  const unquoted = /^(["'])(.*)\1$/s.exec(command)?.[2] ?? command;
  const words = splitWords(unquoted);
  if (words === null || words[0] !== 'ssh') return null;
  let forwards = false;
  let host: string | null = null;
  let port: string | null = null;
  let user: string | null = null;
  for (let at = 1; at < words.length; at += 1) {
    const word = words[at] as string;
    const value = words[at + 1];
    if (word === '-W' && value === '%h:%p') forwards = true;
    else if (word === '-p' && value !== undefined && NUMBER.test(value)) port = value;
    else if (word === '-l' && value !== undefined && /^[A-Za-z0-9_.-]+$/.test(value)) user = value;
    else if (word === '-q') continue;
    else if (!word.startsWith('-') && host === null) {
      host = word;
      continue;
    } else return null;
    at += 1;
  }
  if (!forwards || host === null) return null;
  const jump = `${user === null ? '' : `${user}@`}${host}${port === null ? '' : `:${port}`}`;
  return HOP.test(jump) ? jump : null;
}
