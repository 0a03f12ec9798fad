import { asset } from '../assets.js';
import type { Host } from '../fleet/fleet.js';
import type { Step } from '../plan/step.js';

/** The parts of the host script that every runtime shares, in order; the runtime's own stand between them. */
const BEFORE = ['lib', 'inside', 'files'];
const AFTER = ['probe', 'main'];

/** One line of the script's data: a name and its words. */
export type DataLine = readonly string[];

const made = new Map<string, string>();

/**
 * The host script for a runtime, made of `hosts/script/*.sh`. It gets its data on standard input (`hostData`). Comments
 * stay at home: some shells read what is sent to them byte by byte.
 */
export function hostScript(parts: readonly string[]): string {
  const key = parts.join(' ');
  const script =
    made.get(key) ??
    [...BEFORE, ...parts, ...AFTER]
      .map((part) => asset(`hosts/script/${part}.sh`))
      .join('\n')
      .replace(/^[ \t]*#.*\n/gm, '');
  made.set(key, script);
  return script;
}

/**
 * A value as one word that `printf %b` turns back into exactly these bytes, whatever they are: everything but a few plain
 * characters is written in octal. The `=` keeps an empty value a word.
 */
export function encode(value: string): string {
  let text = '=';
  for (const byte of Buffer.from(value, 'utf8')) {
    const character = String.fromCharCode(byte);
    text += /[A-Za-z0-9_./:@,+-]/.test(character) ? character : `\\0${byte.toString(8).padStart(3, '0')}`;
  }
  return text;
}

/** The data for the host script: what every runtime needs, then `lines` of its own, then the steps. */
export function hostData(host: Host, lines: readonly DataLine[], steps: readonly Step[]): string {
  const all: DataLine[] = [['directory', encode(host.directory)], ...lines];
  for (const step of steps) all.push(['step', step.action, step.service ?? '-', encode(step.value ?? '')]);
  all.push(['end']);
  return `${all.map((line) => line.join(' ')).join('\n')}\n`;
}

/** What the script said: the texts of each key, in order. */
export class Answer {
  readonly #lines = new Map<string, string[]>();

  constructor(stdout: string) {
    for (const line of stdout.split('\n')) {
      const space = line.indexOf(' ');
      const key = space < 0 ? line : line.slice(0, space);
      const texts = this.#lines.get(key) ?? [];
      texts.push(space < 0 ? '' : line.slice(space + 1));
      this.#lines.set(key, texts);
    }
  }

  all(key: string): readonly string[] {
    return this.#lines.get(key) ?? [];
  }

  /** The first text of a key; null when the script did not say it. */
  get(key: string): string | null {
    return this.all(key)[0] ?? null;
  }
}
