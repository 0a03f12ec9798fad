import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const SRC = fileURLToPath(new URL('../src', import.meta.url));

interface Import {
  readonly from: string;
  /** A path below src/ without extension, or a package's name. */
  readonly to: string;
  readonly typeOnly: boolean;
}

const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.ts'));

function importsOf(path: string): Import[] {
  const text = readFileSync(join(SRC, path), 'utf8');
  const found = text.matchAll(/^(?:import|export) (type )?(?:[^'";]*? from )?'([^']+)';/gms);
  return [...found].map((match) => {
    const name = match[2] ?? '';
    const local = name.startsWith('.') ? relative(SRC, join(SRC, dirname(path), name)).replace(/\.js$/, '') : name;
    return { from: path, to: local, typeOnly: match[1] !== undefined };
  });
}

const all = files.flatMap(importsOf);
const roomOf = (path: string): string => (path.includes('/') ? (path.split('/')[0] ?? '') : path.replace(/\.ts$/, ''));
const isLocal = (one: Import) =>
  !one.to.startsWith('node:') && !one.to.startsWith('@') && files.includes(`${one.to}.ts`);

/** What each room may import from; nothing else in src/. Everybody may import the types of log, errors and settings. */
const ARROWS: Readonly<Record<string, readonly string[]>> = {
  fleet: ['repository/snapshot'],
  plan: ['fleet'],
  report: ['plan', 'fleet'],
  hosts: ['plan', 'fleet', 'assets'],
  cluster: ['hosts', 'plan', 'fleet'],
  tracker: ['plan'],
  apply: ['tracker', 'cluster', 'hosts', 'plan', 'fleet'],
  judge: ['apply', 'read-fleets', 'repository', 'github', 'plan', 'fleet'],
  repository: [],
  github: ['report', 'plan', 'fleet'],
  assets: [],
  errors: [],
  log: [],
  settings: ['fleet', 'plan'],
  'read-fleets': ['fleet', 'plan', 'repository', 'github'],
  'run-hands': ['apply', 'cluster', 'hosts', 'plan', 'fleet'],
  review: ['apply', 'fleet', 'plan', 'github', 'report'],
  main: [
    'judge',
    'apply',
    'review',
    'cluster',
    'hosts',
    'plan',
    'fleet',
    'repository',
    'github',
    'report',
    'read-fleets',
    'run-hands',
  ],
  reporter: ['main', 'github', 'report', 'plan', 'fleet'],
};
const FOR_ALL = ['log', 'errors', 'settings'];

describe('the rooms of the house', () => {
  it('are found: the reader of imports sees what is there', () => {
    expect(files.length).toBeGreaterThan(60);
    expect(all).toContainEqual({ from: 'plan/next-steps.ts', to: 'plan/rules/index', typeOnly: false });
    expect(all).toContainEqual({ from: 'fleet/inventory/read.ts', to: 'repository/snapshot', typeOnly: true });
  });

  it.each(['fleet', 'plan', 'report'])('%s touches nothing', (room) => {
    const wrong = all.filter(
      (one) =>
        roomOf(one.from) === room &&
        (one.to.startsWith('@actions/') || one.to.startsWith('@octokit/') || one.to.startsWith('node:')) &&
        !(one.from === 'fleet/inventory/vault.ts' && one.to === 'node:crypto'),
    );
    expect(wrong).toEqual([]);
    const worlds =
      /\b(?:process\.|Date\.now|new Date\(\)|Math\.random|globalThis|performance\.now|setTimeout|(?<![#.])fetch\()/;
    const impure = files.filter((path) => roomOf(path) === room && worlds.test(withoutComments(path)));
    expect(impure).toEqual([]);
  });

  it('import only what lies below them', () => {
    const wrong = all.filter((one) => {
      const room = roomOf(one.from);
      const target = isLocal(one) ? roomOf(`${one.to}.ts`) : null;
      if (target === null || room === 'index' || room === target || FOR_ALL.includes(target)) return false;
      const allowed = ARROWS[room] ?? [];
      return !allowed.includes(target) && !(allowed.includes(one.to) && one.typeOnly);
    });
    expect(wrong).toEqual([]);
  });

  it('are all known', () => {
    const rooms = new Set(files.map(roomOf));
    expect([...rooms].filter((room) => room !== 'index' && ARROWS[room] === undefined)).toEqual([]);
  });

  it('read inputs in settings alone', () => {
    const readers = files.filter((path) => /getInput\(/.test(withoutComments(path)));
    expect(readers).toEqual(['github/runtime.ts']);
  });

  it('name the fields of the plan in report/plan-json alone', () => {
    const writers = files.filter((path) => /JSON\.stringify\(planToJson|publishesLabels: /.test(withoutComments(path)));
    expect(writers.filter((path) => !path.startsWith('fleet/'))).toEqual(['report/plan-json.ts']);
  });
});

function withoutComments(path: string): string {
  return readFileSync(join(SRC, path), 'utf8')
    .replace(/\/\*[\s\S]*?\*\//g, '')
    .replace(/(^|\s)\/\/.*$/gm, '$1');
}
