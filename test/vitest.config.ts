import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    root: new URL('..', import.meta.url).pathname,
    include: ['test/**/*.test.ts'],
    exclude: ['test/e2e/**'],
    // The default leaves one of two cores alone, and much of it waits for processes.
    maxWorkers: 2,
    // It imports JSON in a way that only bundlers take.
    server: { deps: { inline: ['@actions/workflow-parser'] } },
  },
});
