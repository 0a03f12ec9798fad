// Fails when the committed dist/ is not what the source builds. `git status` and not `git diff`: it sees new files too.
import { execFileSync } from 'node:child_process';

const root = new URL('../..', import.meta.url).pathname;
const changed = execFileSync('git', ['status', '--porcelain', '--', 'dist'], { cwd: root, encoding: 'utf8' });
if (changed !== '') {
  process.stderr.write(`dist/ is not what the source builds:\n${changed}Run "npm run build" and commit dist/.\n`);
  process.exit(1);
}
