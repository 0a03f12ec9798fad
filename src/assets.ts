import { readFileSync } from 'node:fs';

/**
 * The text of a file that ships beside the bundle: `node/…` (what runs on a node) or `hosts/script/…` (what runs on a
 * host). The path is relative to `src/` in the source tree and to `dist/` in the bundle; the build keeps the two alike.
 * Throws when the file is missing, which means a broken bundle and is never a user's error.
 */
export function asset(path: string): string {
  return readFileSync(new URL(`./${path}`, import.meta.url), 'utf8');
}
