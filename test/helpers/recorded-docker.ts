import { type ChildProcess, spawn } from 'node:child_process';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Connection } from '../../src/hosts/connection.js';
import { command } from './command.js';
import { temporaryFolder } from './temporary.js';

/** A `docker` in front of the real one that notes its arguments, for whoever runs it. */
export class Recorder {
  readonly folder: string;
  readonly #log: string;

  private constructor(folder: string) {
    this.folder = folder;
    this.#log = join(folder, 'log');
  }

  static async make(): Promise<Recorder> {
    const made = new Recorder(await temporaryFolder('recorder'));
    const real = (await command('sh', ['-c', 'command -v docker'])).trim();
    const text = `#!/bin/sh\n{ for word in "$@"; do printf '%s\\n' "$word"; done; printf -- '--\\n'; } >>${made.#log}\nexec ${real} "$@"\n`;
    await chmod(made.folder, 0o755);
    await writeFile(join(made.folder, 'docker'), text, { mode: 0o755 });
    await made.clear();
    return made;
  }

  async clear(): Promise<void> {
    await writeFile(this.#log, '');
    await chmod(this.#log, 0o666);
  }

  async calls(): Promise<string[][]> {
    const text = await readFile(this.#log, 'utf8');
    return text
      .split('--\n')
      .slice(0, -1)
      .map((call) => call.split('\n').slice(0, -1));
  }
}

/**
 * Runs scripts as root, or as this user with all of its groups, with the programs of a folder first on PATH. `begun` is
 * told the process, which leads a process group of its own. `environment` is added to what the script has.
 */
export function scriptRunner(
  name: string | null,
  first: string,
  begun: (child: ChildProcess) => void = () => {},
  environment: Readonly<Record<string, string>> = {},
): Connection {
  return {
    run: (script, input) =>
      new Promise((resolve) => {
        const text = `main() {\n${script}\n}\nmain "$@"`;
        const shell = ['sh', '-c', text, 'sh', '/nowhere'];
        const env = { PATH: `${first}:/usr/sbin:/usr/bin:/sbin:/bin`, HOME: '/nowhere', ...environment };
        const [program = '', ...args] =
          name === null ? shell : ['setpriv', `--reuid=${name}`, '--init-groups', ...shell];
        const child = spawn(program, name === null ? args : ['--regid', name, ...args], { env, detached: true });
        begun(child);
        let stdout = '';
        let stderr = '';
        child.stdout.on('data', (chunk) => {
          stdout += chunk;
        });
        child.stderr.on('data', (chunk) => {
          stderr += chunk;
        });
        child.on('close', (code) =>
          resolve(code === 0 ? { kind: 'done', stdout } : { kind: 'exited', code: code ?? -1, stdout, stderr }),
        );
        child.stdin.on('error', () => {});
        child.stdin.end(input);
      }),
  } as Connection;
}
