import { spawn } from 'node:child_process';

/** What a finished command left behind. `code` is null when a signal ended it. */
export interface CommandResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CommandOptions {
  readonly cwd?: string;
  /** Added to the environment of the test. */
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string | Uint8Array;
  /** Milliseconds until the command is killed; 60,000 unless told. */
  readonly timeout?: number;
}

/** Runs a program without a shell and gives its result whatever its exit status. Throws when it cannot be started. */
export function tryCommand(
  program: string,
  args: readonly string[],
  options: CommandOptions = {},
): Promise<CommandResult> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
      env: { ...process.env, ...options.env },
      timeout: options.timeout ?? 60_000,
      killSignal: 'SIGKILL',
    });
    const out: Buffer[] = [];
    const err: Buffer[] = [];
    child.stdout.on('data', (chunk: Buffer) => out.push(chunk));
    child.stderr.on('data', (chunk: Buffer) => err.push(chunk));
    child.on('error', reject);
    child.on('close', (code) =>
      resolve({ code, stdout: Buffer.concat(out).toString('utf8'), stderr: Buffer.concat(err).toString('utf8') }),
    );
    // A command that does not read its input must not end the test with EPIPE.
    child.stdin.on('error', () => {});
    child.stdin.end(options.input ?? '');
  });
}

/** The standard output of a program; throws with its standard error when it does not exit with 0. */
export async function command(program: string, args: readonly string[], options: CommandOptions = {}): Promise<string> {
  const result = await tryCommand(program, args, options);
  if (result.code !== 0) {
    throw new Error(
      `${program} ${args.join(' ')}: exit ${result.code ?? 'by signal'}\n${result.stderr.trim() || result.stdout.trim()}`,
    );
  }
  return result.stdout;
}

/** Waits until `condition` holds, asking every 20 ms; throws with `what` after `timeout` milliseconds. */
export async function until(
  what: string,
  condition: () => boolean | Promise<boolean>,
  timeout = 30_000,
): Promise<void> {
  const end = Date.now() + timeout;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`waited ${timeout} ms in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
