import { defineConfig } from 'vitest/config';

/** The end-to-end suite: real sshd, git, Docker Engine and Compose; one file at a time, since they share the engine. */
export default defineConfig({
  test: {
    root: new URL('..', import.meta.url).pathname,
    include: ['test/e2e/**/*.e2e.ts'],
    fileParallelism: false,
    testTimeout: 180_000,
    hookTimeout: 300_000,
  },
});
