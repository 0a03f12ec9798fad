// `npm run model -- --hosts N`: explores every declared change of one or two hosts of fleets of N hosts.
import { registerHooks } from 'node:module';

// Node strips the types of this repository's TypeScript; only the `.js` of its imports has to be mapped.
registerHooks({
  resolve: (specifier, context, next) =>
    next(/^\.\.?\/.*\.js$/.test(specifier) ? specifier.replace(/\.js$/, '.ts') : specifier, context),
});

const { main } = await import('./main.ts');
process.exitCode = main(process.argv.slice(2));
