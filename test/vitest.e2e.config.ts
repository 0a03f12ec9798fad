import { defineConfig } from 'vitest/config';

const LONG = process.env.FLEET_ROLE_LONG === '1';

/** The end-to-end suite: real sshd, git, Docker Engine and Compose; two files at a time, since much of it is waiting. */
export default defineConfig({
  test: {
    root: new URL('..', import.meta.url).pathname,
    include: ['test/e2e/**/*.e2e.ts'],
    // Those wait for leases to run out and for voters to settle, for a quarter of an hour: `npm run e2e:long`.
    exclude: LONG ? [] : ['test/e2e/trust*.e2e.ts'],
    maxWorkers: 2,
    testTimeout: 180_000,
    hookTimeout: 300_000,
  },
});
