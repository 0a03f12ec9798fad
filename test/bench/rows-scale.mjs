// Rows about big fleets that nobody contacts: a plan beside ansible-inventory, memory, the report, growth.
import { join } from 'node:path';
import { editedInventory, inventory, makeRepository, runBundle } from './fleet.mjs';
import { findProgram, median, sideBySide, timed } from './measure.mjs';

const SIZES = [100, 1_000, 10_000];
const STAGES = ['read', 'decide', 'compare', 'report'];
const stagesScript = new URL('./stages.mjs', import.meta.url).pathname;

/** The rows of fleets of 100, 1,000 and 10,000 hosts. */
export async function scaleRows(world) {
  const { base, runs } = world;
  const fleets = SIZES.map((hosts) => {
    const repository = join(base, `fleet-${hosts}`);
    const commits = makeRepository(repository, [inventory(hosts), editedInventory(hosts, 1)]);
    return { hosts, repository, commits, times: [], peaks: [] };
  });
  // Every plan tells its peak memory as well, so that one set of runs serves all rows.
  const plan = async ({ repository, commits, times, peaks }) => {
    const ended = await runBundle({ temp: join(base, 'plan-run'), repository, commits, peak: true });
    times.push(ended.all);
    peaks.push(ended.peak / 1000);
    return ended.all;
  };
  const [small, middle, big] = fleets;
  for (let run = 0; run < runs.slow; run++) await plan(small);
  const beside = [await besideAnsible(middle, plan, world), await besideAnsible(big, plan, world)];

  const stages = [];
  for (const hosts of SIZES) stages.push({ hosts, ...(await stagesOf(hosts, hosts * 0.3, runs.stages)) });
  const time = (fleet) => median(fleet.times) * 1000;
  const memory = (fleet) => median(fleet.peaks) * 1000;
  const fewest = Math.min(...fleets.map((fleet) => fleet.times.length));
  return [
    ...beside,
    {
      ...{ work: 'peak memory, plan over 10,000 hosts', unit: 'MB', ours: median(big.peaks), runs: big.peaks.length },
      bound: { oursAtMost: 350 },
    },
    {
      ...{ work: 'report of 1,000 hosts and 300 changes', unit: 'ms', ours: stages[1].report, runs: runs.stages },
      bound: { oursAtMost: 100 },
      note: 'once, in a process that rendered nothing before',
    },
    grows('time a host, whole process', 'µs', fleets, time, fewest),
    grows('memory a host, whole process', 'kB', fleets, memory, fewest),
    ...STAGES.map((stage) =>
      grows(`time a host to ${stage}, 30 % changed`, 'µs', stages, (each) => each[stage] * 1000, runs.stages),
    ),
  ];
}

async function besideAnsible(fleet, plan, { base, runs, quick, mayGoOn }) {
  const isBig = fleet.hosts >= 10_000;
  const work = `plan over ${fleet.hosts.toLocaleString('en')} hosts, whole process`;
  const bound = { timesFaster: isBig ? 10 : 8 };
  const program = findProgram('ansible-inventory');
  const ours = () => plan(fleet);
  // Its 10,000 hosts take it longer than all that a quick benchmark may.
  if (program === null || (quick && isBig)) {
    for (let run = 0; run < runs.alone; run++) await ours();
    const note = program === null ? 'ansible-inventory is not installed' : 'beside ansible-inventory without --quick';
    return { work, unit: 'ms', ours: median(fleet.times), runs: runs.alone, bound, note };
  }
  const args = ['-i', join(fleet.repository, 'inventory.yml'), '--list'];
  const env = { PATH: process.env.PATH, HOME: base, LC_ALL: 'C.UTF-8' };
  const other = async () => (await timed(program, args, { env, quiet: true })).all;
  const others = [{ measure: other, mayGoOn: isBig ? mayGoOn.inventory : undefined }];
  const [found] = await sideBySide(runs.slow, ours, others, { warmUp: !isBig });
  return { work, unit: 'ms', otherName: 'ansible-inventory --list', ...found, bound };
}

/**
 * What one more host costs between 1,000 and 10,000 hosts, beside what it costs between 100 and 1,000: a start-up that
 * costs the same for all hides nothing then. Linear growth is a ratio of 1, quadratic growth one of 10; up to 2 is left
 * to caches that 10,000 hosts do not fit into and to the garbage collector, which has more to keep.
 */
function grows(work, unit, sizes, value, runs) {
  const [small, middle, big] = sizes;
  const slope = (from, to) => (value(to) - value(from)) / (to.hosts - from.hosts);
  const ours = slope(middle, big);
  const other = slope(small, middle);
  return {
    ...{ work: `${work}: 1,000 to 10,000`, unit, ours, otherName: 'the same, 100 to 1,000', other, runs },
    ratio: ours / other,
    bound: { ratioAtMost: 2 },
    at: Object.fromEntries(sizes.map((each) => [each.hosts, value(each)])),
  };
}

/** Median milliseconds of each stage of a plan, each run in a process of its own. */
async function stagesOf(hosts, changes, runs) {
  const found = [];
  for (let run = 0; run < runs; run++) {
    const { text } = await timed(process.execPath, ['--no-warnings', stagesScript, String(hosts), String(changes)]);
    found.push(JSON.parse(text));
  }
  return Object.fromEntries(STAGES.map((stage) => [stage, median(found.map((each) => each[stage]))]));
}
