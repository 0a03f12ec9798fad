import { createHash } from 'node:crypto';
import { chmod, copyFile, mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { command, tryCommand } from './command.js';
import { docker } from './docker.js';
import { temporaryFolder } from './temporary.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const FOLDER = join(ROOT, 'test', 'e2e', 'stand-in');
const ENTRYPOINT = join(ROOT, 'src', 'node', 'node-entrypoint.sh');

/** Where the entrypoints lie in the image. */
export const OUR_ENTRYPOINT = '/usr/local/bin/node-entrypoint.sh';
export const FOREIGN_ENTRYPOINT = '/usr/local/bin/foreign-entrypoint.sh';

/** Tools that busybox has and the rancher/k3s image lacks: a script that needs one of them must fail here too. */
const LACKING = 'base64 httpd inotifyd nc netcat pgrep pkill stat timeout'.split(' ');

const built = new Map<string, Promise<string>>();

/**
 * The name of the stand-in image, which is built when these files have no image yet (about a second).
 * `files` adds or replaces programs: path in the image to path on this machine. Throws with the way out when the
 * entrypoint or busybox-static is missing.
 */
export function standInImage(files: Readonly<Record<string, string>> = {}): Promise<string> {
  const key = JSON.stringify(Object.entries(files).sort());
  let image = built.get(key);
  if (image === undefined) {
    image = build(files);
    built.set(key, image);
  }
  return image;
}

async function build(files: Readonly<Record<string, string>>): Promise<string> {
  const programs: Record<string, string> = {
    '/bin/busybox': await staticBusybox(),
    [OUR_ENTRYPOINT]: ENTRYPOINT,
    [FOREIGN_ENTRYPOINT]: join(FOLDER, 'foreign-entrypoint.sh'),
  };
  for (const name of await readdir(join(FOLDER, 'bin'))) programs[`/bin/${name}`] = join(FOLDER, 'bin', name);
  Object.assign(programs, files);

  const hash = createHash('sha256').update(await readFile(fileURLToPath(import.meta.url)));
  for (const [path, source] of Object.entries(programs).sort()) {
    const content = await readFile(source).catch(() => {
      throw new Error(`the stand-in image needs ${source}, which is not there`);
    });
    hash.update(`${path}\0${content.length}\0`).update(content);
  }
  const name = `fleet-role-stand-in:${hash.digest('hex').slice(0, 16)}`;
  if ((await tryCommand('docker', ['image', 'inspect', name])).code === 0) return name;

  const work = await temporaryFolder('image');
  try {
    const root = join(work, 'root');
    for (const folder of [
      'bin',
      'etc/rancher',
      'proc',
      'run',
      'sys',
      'tmp',
      'var/lib/rancher/k3s',
      'var/lib/tailscale',
    ]) {
      await mkdir(join(root, folder), { recursive: true });
    }
    for (const [path, source] of Object.entries(programs)) {
      await mkdir(join(root, dirname(path)), { recursive: true });
      await copyFile(source, join(root, path));
      await chmod(join(root, path), 0o755);
    }
    const busybox = join(root, 'bin', 'busybox');
    for (const tool of await hideTools(busybox)) {
      if (!(`/bin/${tool}` in programs)) await symlink('busybox', join(root, 'bin', tool));
    }
    await command('tar', ['-C', root, '--owner=0', '--group=0', '-cf', join(work, 'image.tar'), '.']);
    const changes = [
      'ENTRYPOINT ["/bin/k3s"]',
      'CMD ["agent"]',
      'ENV PATH=/bin:/usr/local/bin',
      // As rancher/k3s: /etc/rancher is not among them, so a recreated container has a new node password.
      'VOLUME ["/var/lib/kubelet","/var/lib/rancher/k3s","/var/lib/cni","/var/log"]',
    ];
    await docker(['import', ...changes.flatMap((change) => ['--change', change]), join(work, 'image.tar'), name]);
    return name;
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/**
 * Makes busybox forget the tools that the node image lacks, and gives the names of the others. Leaving out their links
 * is not enough: Debian's busybox is built so that its shell runs any of its own tools without looking at PATH. So the
 * last letter of their names in its sorted table is raised by one, and nobody finds them.
 */
async function hideTools(busybox: string): Promise<string[]> {
  const names = (await command(busybox, ['--list'])).trim().split('\n');
  const hidden = names.map((name) =>
    LACKING.includes(name) ? name.slice(0, -1) + String.fromCharCode(name.charCodeAt(name.length - 1) + 1) : name,
  );
  const program = await readFile(busybox);
  const table = program.indexOf(Buffer.from(`${names.join('\0')}\0`));
  const sorted = hidden.every((name, i) => i === 0 || (hidden[i - 1] as string) < name);
  if (table < 0 || !sorted) throw new Error(`the table of tools in ${busybox} is not as this helper knows it`);
  program.write(hidden.join('\0'), table, 'latin1');
  await writeFile(busybox, program);
  return names.filter((name) => !LACKING.includes(name));
}

async function staticBusybox(): Promise<string> {
  for (const path of ['/bin/busybox', '/usr/bin/busybox']) {
    const linked = await tryCommand('ldd', [path]);
    if (/not a dynamic executable|statically linked/.test(linked.stderr + linked.stdout)) return path;
  }
  throw new Error('busybox-static is not installed: run "bash .ci/install.sh"');
}
