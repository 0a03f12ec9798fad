const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu;

/** One line of what a program printed, bounded and without control characters; empty when it printed nothing. */
export function clean(text: string): string {
  const line = text
    .split(/\r\n|\r|\n/)
    .map((each) => each.replace(UNSEEN, ' ').trim())
    .find((each) => each !== '');
  if (line === undefined) return '';
  const short = line.length > 200 ? `${line.slice(0, 200)}…` : line;
  return short.replace(/^ssh: /, '').replace(/[.\s]+$/, '');
}

/** A hostile value for a message: one line, bounded, no control characters. */
export function show(text: string): string {
  const line = text.replace(UNSEEN, ' ').trim();
  return `'${line.length > 120 ? `${line.slice(0, 120)}…` : line}'`;
}

/** Words of the host script as a sentence: a capital letter, a full stop, one line. */
export function sentence(words: string): string {
  const line = words.replace(UNSEEN, ' ').trim();
  return `${line.charAt(0).toUpperCase()}${line.slice(1).replace(/\.$/, '')}.`;
}
