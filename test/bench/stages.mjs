// `node stages.mjs HOSTS CHANGES`: the stages of one plan in this process, cold, as milliseconds in JSON.
// Node runs the TypeScript of this repository by stripping its types; only the `.js` of its imports has to be mapped.
import { createHash } from 'node:crypto';
import { registerHooks } from 'node:module';
import { editedInventory, inventory } from './fleet.mjs';

registerHooks({
  resolve: (specifier, context, next) =>
    next(/^\.\.?\/.*\.js$/.test(specifier) ? specifier.replace(/\.js$/, '.ts') : specifier, context),
});

const source = (path) => import(new URL(`../../src/${path}`, import.meta.url));
const { readInventory } = await source('fleet/inventory/read.ts');
const { ParseCache } = await source('fleet/inventory/parse-cache.ts');
const { declareFleet, DEFAULT_CLUSTER_GROUP } = await source('fleet/declare.ts');
const { isNeeded } = await source('fleet/variables.ts');
const { prepare } = await source('plan/prepare.ts');
const { assumeBase } = await source('plan/assume.ts');
const { makePlan } = await source('plan/make-plan.ts');
const { outcomeOf, resultOf } = await source('report/result.ts');
const { annotationsOf } = await source('report/annotations.ts');
const { canonicalDecisions, planToJson } = await source('report/plan-json.ts');
const { renderJobSummary, renderReport } = await source('report/markdown.ts');

const [hosts, changes] = process.argv.slice(2).map(Number);
const snapshots = [inventory(hosts), editedInventory(hosts, changes)].map((text, index) => {
  const oid = String(index).repeat(40);
  const content = Buffer.from(text);
  const entries = new Map([['inventory.yml', { type: 'file', oid, size: content.length }]]);
  return { commit: oid, entries, blobs: new Map([[oid, content]]) };
});

const times = {};
function stage(name, work) {
  const begin = performance.now();
  const made = work();
  times[name] = performance.now() - begin;
  return made;
}

const options = { inventory: null, playbookDir: null, vaultPassword: null, needed: isNeeded };
const cache = new ParseCache();
const inventories = stage('read', () => snapshots.map((snapshot) => readInventory(snapshot, options, cache)));
const [base, head] = stage('decide', () =>
  inventories.map((each, index) => declareFleet(snapshots[index].commit, each, [DEFAULT_CLUSTER_GROUP])),
);
const intent = {
  ...{ mode: 'plan', host: null, rollout: 'changed', installGuards: 'auto', drain: 'wait', guardsVersion: '1' },
};
const plan = stage('compare', () => {
  const inputs = prepare(head, { commit: base.commit, fleet: base, unreadable: null });
  const clusters = inputs.map((input) => makePlan(input, assumeBase(input.desired, '1'), intent));
  return { mode: 'plan', base: base.commit, head: head.commit, inventory: head.inventory, observed: false, clusters };
});
const shown = plan.clusters[0]?.changes.length;
if (shown !== changes) throw new Error(`the plan has ${shown} changes, not ${changes}`);
// As src/reporter.ts makes them all.
stage('report', () => {
  const outcome = { plan, dryRun: false, states: new Map(), failure: null, cancelled: false };
  const report = { ...outcome, result: resultOf(outcomeOf(outcome)).result };
  const annotations = annotationsOf(plan, true);
  const decisionsHash = createHash('sha256').update(canonicalDecisions(plan)).digest('hex');
  const extras = { decisionsHash, annotationsLeftOut: annotations.leftOut };
  return [renderReport(report, extras), renderJobSummary(report, extras), JSON.stringify(planToJson(plan))];
});
console.log(JSON.stringify(times));
