import { UserError } from '../errors.js';

/** Whether the text is a full object id of git: 40 hex digits, or 64 where the repository uses SHA-256. */
export function isFullSha(text: string): boolean {
  return /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/i.test(text);
}

/**
 * Refuses what is neither a SHA nor the name of a ref, by the rules of `git check-ref-format`: options (a leading
 * `-`), expressions (`main~1`, `main@{1}`, `a..b`), patterns, control characters and spaces.
 * @param input the input that gave it, for the message.
 * @throws UserError
 */
export function checkRef(ref: string, input: string): void {
  const why = wrongWith(ref);
  if (why === null) return;
  throw new UserError(
    `The input ${input} is ${shown(ref)}: ${why}. It accepts a commit SHA, or the name of a branch, a tag or a ref (refs/…).`,
  );
}

function wrongWith(ref: string): string | null {
  if (ref === '') return 'it is empty';
  if (ref.length > 1000) return 'it is too long for a ref';
  if (ref.startsWith('-')) return 'a ref does not start with -';
  if (/[\p{Cc}\p{Cf}]/u.test(ref)) return 'a ref has no control characters';
  if (/[ ~^:?*[\\]/.test(ref)) return 'a ref has none of the characters space ~ ^ : ? * [ \\';
  if (ref.includes('..')) return 'a ref has no two dots in a row';
  if (ref.includes('@{') || ref === '@') return 'it is an expression, not the name of a ref';
  if (/^\/|\/$|\/\/|\.$/.test(ref)) return 'it is no name of a ref';
  if (ref.split('/').some((part) => part.startsWith('.') || part.endsWith('.lock'))) return 'it is no name of a ref';
  return null;
}

/** The full refs that a name can mean, in the order of precedence; a branch and a tag have the same. */
export function candidates(ref: string, local: boolean): readonly string[] {
  if (ref === 'HEAD' || ref.startsWith('refs/')) return [ref];
  const all = [`refs/heads/${ref}`, `refs/tags/${ref}`, `refs/${ref}`];
  return local ? [...all, `refs/remotes/${ref}`] : all;
}

/**
 * The lines of `git ls-remote` and of `git show-ref --dereference`: full ref → object id. What an annotated tag
 * stands for has the key `refs/tags/NAME^{}`.
 */
export function parseRefs(output: string): ReadonlyMap<string, string> {
  const refs = new Map<string, string>();
  for (const line of output.split('\n')) {
    const found = /^([0-9a-f]{40,64})[\t ](\S+)$/.exec(line);
    if (found?.[1] !== undefined && found[2] !== undefined) refs.set(found[2], found[1]);
  }
  return refs;
}

/**
 * The object id of what `ref` means in a listing, peeled, or null when nothing is called so.
 * @throws UserError when it is both a branch and a tag, which differ: git and GitHub choose differently.
 */
export function pickRef(ref: string, refs: ReadonlyMap<string, string>, input: string, local: boolean): string | null {
  const peeled = (name: string): string | undefined => refs.get(`${name}^{}`) ?? refs.get(name);
  const branch = peeled(`refs/heads/${ref}`);
  const tag = peeled(`refs/tags/${ref}`);
  if (!ref.startsWith('refs/') && branch !== undefined && tag !== undefined && branch !== tag) {
    throw new UserError(
      `The input ${input} is ${shown(ref)}, which is both a branch and a tag there. Write refs/heads/${ref} or refs/tags/${ref}.`,
    );
  }
  for (const name of candidates(ref, local)) {
    const oid = peeled(name);
    if (oid !== undefined) return oid;
  }
  return null;
}

function shown(ref: string): string {
  const text = ref.length > 200 ? `${ref.slice(0, 200)}…` : ref;
  return JSON.stringify(text).replace(/[\p{Cc}\p{Cf}]/gu, '?');
}
