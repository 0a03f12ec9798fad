import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

let swept: Promise<void> | undefined;

/**
 * A new folder below the system's temporary one, whose name says which process made it. Whoever asks removes it; what
 * test runs that were killed left behind is removed by the next one.
 */
export async function temporaryFolder(kind: string): Promise<string> {
  swept ??= sweep();
  await swept;
  return mkdtemp(join(tmpdir(), `fleet-${kind}-${process.pid}-`));
}

/** Whether a process of this id runs. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

async function sweep(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const pid = /^fleet-[a-z]+-(\d+)-\w{6}$/.exec(name)?.[1];
    if (pid !== undefined && !isAlive(Number(pid))) await rm(join(tmpdir(), name), { recursive: true, force: true });
  }
}
