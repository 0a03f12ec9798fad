// `npm run conformance`: random inventories, read by the installed ansible-core and by fleet-role, must agree.
//   --seed N      another sequence of inventories (default 1); --seed random takes one from the clock and prints it
//   --count N     how many (default 600)
//   --documents N how many loose YAML and JSON texts besides (default 4000)
// Node runs the TypeScript of this repository by stripping its types; only the `.js` of its imports has to be mapped.
import { existsSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { fileURLToPath } from 'node:url';

registerHooks({
  resolve(specifier, context, next) {
    if (/^\.\.?\/.*\.js$/.test(specifier) && context.parentURL?.startsWith('file:')) {
      const source = new URL(specifier.replace(/\.js$/, '.ts'), context.parentURL);
      if (existsSync(fileURLToPath(source))) return next(source.href, context);
    }
    return next(specifier, context);
  },
});

const { main } = await import('./compare.ts');
process.exitCode = await main(process.argv.slice(2));
