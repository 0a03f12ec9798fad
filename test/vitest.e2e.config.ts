import { defineConfig } from 'vitest/config';

/** The end-to-end suite: real sshd, git, Docker Engine and Compose; two files at a time, since much of it is waiting. */
export default defineConfig({
  test: {
    root: new URL('..', import.meta.url).pathname,
    include: ['test/e2e/**/*.e2e.ts'],
    maxWorkers: 2,
    testTimeout: 180_000,
    hookTimeout: 300_000,
  },
});
