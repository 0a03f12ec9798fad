import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

/** A shell that the node scripts must work under: its name in test titles and its command line up to the script. */
export interface Shell {
  readonly name: string;
  readonly command: readonly [string, ...string[]];
}

const WANTED: readonly Shell[] = [
  { name: 'dash', command: ['dash'] },
  { name: 'busybox ash', command: ['busybox', 'ash'] },
  { name: 'bash', command: ['bash'] },
];

/** The file of a program on PATH, or null. */
export function onPath(program: string): string | null {
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    const file = join(folder, program);
    try {
      accessSync(file, constants.X_OK);
      return file;
    } catch {
      // The next folder may have it.
    }
  }
  return null;
}

/**
 * The shells to test under: those of dash, busybox ash and bash that are installed, and `sh` when none of them is.
 * FLEET_ROLE_ALL_SHELLS=1 (set by .ci/run): throws when one is missing. FLEET_ROLE_SHELL=NAME: only that one (the
 * mutation runner, which wants to know that a test goes red and not that it does so three times).
 */
export function shells(env: NodeJS.ProcessEnv = process.env): readonly Shell[] {
  const installed = WANTED.filter((shell) => onPath(shell.command[0]) !== null);
  if (env.FLEET_ROLE_ALL_SHELLS === '1' && installed.length !== WANTED.length) {
    const missing = WANTED.filter((shell) => !installed.includes(shell)).map((shell) => shell.command[0]);
    throw new Error(`FLEET_ROLE_ALL_SHELLS=1 and not installed: ${missing.join(', ')}; run "bash .ci/install.sh"`);
  }
  const chosen = installed.filter((shell) => env.FLEET_ROLE_SHELL === undefined || env.FLEET_ROLE_SHELL === shell.name);
  return chosen.length > 0 ? chosen : [{ name: 'sh', command: ['sh'] }];
}
