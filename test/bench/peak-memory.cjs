// Preloaded into a measured Node process: writes the peak of its resident memory (kB) to the file that
// FLEET_BENCH_PEAK names. Not getrusage: its value starts from the parent's size at the time of the fork.
const { readFileSync, writeFileSync } = require('node:fs');

process.on('exit', () => {
  const peak = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'));
  writeFileSync(process.env.FLEET_BENCH_PEAK, peak === null ? '' : peak[1]);
});
