// Builds dist/ from src/: type check and emit by tsc, two bundles by ncc, then the shell files beside them.
// tsc first, because ncc's own TypeScript loader does not work with TypeScript 7 (vercel/ncc#1336).
import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const root = new URL('../..', import.meta.url).pathname;
const bin = join(root, 'node_modules', '.bin');
const run = (name, args) => execFileSync(join(bin, name), args, { cwd: root, stdio: 'inherit' });

// Stale chunks in dist/ would be shipped: both folders are made anew.
for (const folder of ['lib', 'dist']) rmSync(join(root, folder), { recursive: true, force: true });
run('tsc', []);
// Minified: half the bytes. ncc keeps all names but private ones (`#x`), so a stack still tells the way.
run('ncc', ['build', 'lib/index.js', '--minify', '-o', 'dist', '--license', 'licenses.txt']);
// In ASCII V8 keeps and reads one byte a character, where a single `…` makes it two. It stands in texts only.
const bundle = join(root, 'dist', 'index.js');
const escaped = (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
writeFileSync(bundle, readFileSync(bundle, 'utf8').replace(/[^\0-\x7f]/g, escaped));
// Octokit and undici, loaded by src/github/api.ts when they are needed. ncc calls every bundle index.js.
const work = mkdtempSync(join(tmpdir(), 'fleet-role-build-'));
run('ncc', ['build', 'lib/github/octokit.js', '--minify', '-o', work, '--license', 'licenses.txt']);
cpSync(join(work, 'index.js'), join(root, 'dist', 'octokit.js'));
cpSync(join(work, 'licenses.txt'), join(root, 'dist', 'octokit.licenses.txt'));
rmSync(work, { recursive: true });

// What src/assets.ts reads at run time keeps its path below dist/.
const ASSET = /\.(sh|yml|conf)$/;
for (const entry of readdirSync(join(root, 'src'), { recursive: true, withFileTypes: true })) {
  if (!entry.isFile() || !ASSET.test(entry.name)) continue;
  const from = join(entry.parentPath, entry.name);
  const to = join(root, 'dist', from.slice(join(root, 'src').length + 1));
  cpSync(from, to, { recursive: true, mode: 0 });
}
