import { chmod, copyFile, readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { command, tryCommand } from './command.js';
import type { Host } from './fleet.js';
import { standInImage } from './stand-in.js';

const FOLDER = fileURLToPath(new URL('../e2e/etcd', import.meta.url));

/** The stand-in image with this machine's Node and etcd in it. Throws with the way out when there is no etcd. */
export async function etcdImage(): Promise<string> {
  const found = await tryCommand('which', ['etcd']);
  if (found.code !== 0) throw new Error('etcd is not installed: run "bash .ci/install.sh" (package etcd-server)');
  const programs = { '/bin/node': process.execPath, '/bin/etcd': found.stdout.trim() };
  const libraries = await Promise.all(Object.values(programs).map(librariesOf));
  const paths = libraries.flat();
  // A static busybox asks the libc beside them to look up names, even for an address, and crashes without these.
  const folder = dirname(paths.find((path) => path.includes('/libc.so')) ?? '');
  for (const name of ['libnss_files.so.2', 'libnss_dns.so.2', 'libresolv.so.2']) paths.push(join(folder, name));
  return standInImage({ ...programs, ...Object.fromEntries(paths.map((path) => [path, path])) });
}

/** The paths of the libraries that a program is linked with, its loader among them. */
async function librariesOf(program: string): Promise<readonly string[]> {
  return [...(await command('ldd', [program])).matchAll(/\/\S+/g)].map(([path]) => path);
}

/** Puts the k3s that runs a real etcd on a host, for its next start. */
export async function playEtcd(host: Host): Promise<void> {
  for (const name of await readdir(FOLDER)) {
    if (name.endsWith('.md')) continue;
    await copyFile(join(FOLDER, name), join(host.standInDir, name));
    await chmod(join(host.standInDir, name), 0o755);
  }
}
