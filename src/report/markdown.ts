import type { MovedBase } from '../fleet/moved-base.js';
import type { ClusterPlan, Plan } from '../plan/plan.js';
import type { Note, NoteCode } from '../plan/step.js';
import {
  type Budget,
  CHECK_RUN_FIELD_BUDGET,
  fitToBudget,
  ISSUE_BODY_BUDGET,
  JOB_SUMMARY_BUDGET,
  type Paragraph,
  type Part,
  type Rows,
  type Section,
} from './budget.js';
import { code, prose, proseLines } from './escape.js';
import { count, countKinds, progressOf, title } from './result.js';
import type { Failure, ReviewReport, RunReport } from './run.js';
import { changeTable, stepTable, type Table } from './tables.js';

/** What a check run shows: the three fields of its `output`. */
export interface RenderedReport {
  /** Plain text, one line. */
  readonly title: string;
  /** Markdown, at most `CHECK_RUN_FIELD_BUDGET` bytes, as `text`. */
  readonly summary: string;
  readonly text: string;
}

/** What a report shows beside the run itself. */
export interface ReportExtras {
  /** SHA-256 of `canonicalDecisions(plan)`, in hex digits; null when there is no plan to compare. */
  readonly decisionsHash: string | null;
  /** Annotations that had no room. */
  readonly annotationsLeftOut: number;
}

/** Hosts named in one row of a check run, and of the job summary. */
const CHECK_RUN_NAMES = 20;
const JOB_SUMMARY_NAMES = 1_000;
/** Above this many rows a table or list is folded. */
const FOLD_ABOVE = 30;
/** Notes that say of what nothing is known; they have a section of their own at the end. */
const NOT_LOOKED_AT: readonly NoteCode[] = ['not-observed', 'base-unreadable', 'unreachable', 'not-provisioned'];

/** Which rows go last when room is short: what stops a run stays longest. */
const RANKS = { stops: 0, clusters: 1, warnings: 2, changes: 3, steps: 4, notes: 5 } as const;

/**
 * The report as the check run shows it: `title` and `summary` say what the run came to and what to do next, `text` has
 * every cluster. While the run goes on (`result` is null) each step shows whether it is done, running, or to come.
 */
export function renderReport(report: RunReport, extras: ReportExtras): RenderedReport {
  const budget: Budget = { bytes: CHECK_RUN_FIELD_BUDGET, elsewhere: 'the job summary' };
  return {
    title: title(report),
    summary: fitToBudget(overview(report, extras), budget),
    text: fitToBudget(details(report, CHECK_RUN_NAMES), budget),
  };
}

/** The same content as one Markdown document for the job summary and the `summary` output, within their limit. */
export function renderJobSummary(report: RunReport, extras: ReportExtras): string {
  const heading = paragraph(`## fleet-role ${report.plan.mode}`, '');
  const sections = [[heading], ...overview(report, extras), ...details(report, JOB_SUMMARY_NAMES)];
  return `${fitToBudget(sections, { bytes: JOB_SUMMARY_BUDGET - 1, elsewhere: 'the `plan` output' })}\n`;
}

/** The same content as an issue: its title, and its body within the limit of an issue. */
export function renderIssue(report: RunReport): { readonly title: string; readonly body: string } {
  const sections = [
    ...overview(report, { decisionsHash: null, annotationsLeftOut: 0 }),
    ...details(report, CHECK_RUN_NAMES),
  ];
  const budget: Budget = { bytes: ISSUE_BODY_BUDGET, elsewhere: 'the job summary of the run' };
  return { title: title(report), body: fitToBudget(sections, budget) };
}

/** The report of a run that ended before there was a plan: bad input, a commit that cannot be had, our own error. */
export function renderFailure(failure: Failure): RenderedReport {
  const plan: Plan = { mode: 'plan', base: null, head: '', inventory: null, observed: false, clusters: [] };
  const report: RunReport = {
    plan,
    dryRun: false,
    result: 'failed',
    states: new Map(),
    failure,
    cancelled: false,
  };
  const lines = [`**Failed:** ${proseLines(failure.reason)}`];
  if (failure.advice !== null) lines.push('', proseLines(failure.advice));
  return { title: title(report), summary: lines.join('\n'), text: '' };
}

function overview(report: RunReport, extras: ReportExtras): Section[] {
  const { plan } = report;
  return [
    [
      paragraph(`**${prose(title(report))}**`, ''),
      ...outcome(report),
      ...failedSteps(report),
      ...(plan.clusters.length > 1 ? [clusterTable(plan)] : []),
      paragraph(...compared(plan, extras)),
      ...(report.movedBase ? [moved(report.movedBase)] : []),
      ...(report.review ? reviewed(report.review) : []),
    ],
  ];
}

/** What state a run left that did not end well, and what to do next. */
function outcome(report: RunReport): Paragraph[] {
  const { failure, cancelled, plan } = report;
  if (failure === null && !cancelled) return [];
  const lines: string[] = [];
  if (failure !== null) {
    const at = failure.step === null ? 'Failed' : `Failed at ${code(failure.step)}`;
    lines.push(`${at}: ${proseLines(failure.reason)}`, '');
  }
  const { listed, done, running } = progressOf(report);
  const writes = plan.mode === 'apply' || plan.mode === 'rejoin';
  if (writes && !report.dryRun) {
    const last =
      running === null ? '' : ` ${code(`${running.action} ${running.host}`)} was running and may be done in part.`;
    lines.push(`What it left: ${done} of ${count(listed, 'step')} are done, the others are not.${last}`, '');
  }
  const next = writes
    ? 'Run the same workflow again: it looks at every host afresh and goes on from what it finds.'
    : 'Nothing was written. Mend what the message names and run the workflow again.';
  lines.push(`What to do next: ${failure?.advice ? proseLines(failure.advice) : next}`, '');
  return [paragraph(...lines)];
}

/** Each step that failed, with its reason; of a single one the sentence above says it. */
function failedSteps({ failures = [] }: RunReport): Rows[] {
  if (failures.length < 2) return [];
  const rows = failures.map(({ step, reason }) => `- ${code(step)}: ${proseLines(reason)}`);
  return [listOf(rows, `Failed: ${failures.length}`, ['failed step', 'failed steps'], RANKS.stops)];
}

function clusterTable(plan: Plan): Rows {
  return {
    kind: 'rows',
    before: ['| cluster | changes | steps | refusals | problems |', '| --- | --- | --- | --- | --- |'],
    rows: plan.clusters.map(({ cluster, changes, steps, refusals }) => {
      const kinds = countKinds(changes.map(({ kind }) => kind));
      const cells = [kinds === '' ? 'none' : kinds, steps.length, refusals.length, cluster.problems.length];
      return `| ${code(cluster.name)} | ${cells.join(' | ')} |`;
    }),
    after: [''],
    what: ['cluster', 'clusters'],
    rank: RANKS.clusters,
  };
}

function compared(plan: Plan, extras: ReportExtras): string[] {
  const inventory = plan.inventory === null ? 'The inventory' : code(plan.inventory);
  const bases = new Set(plan.clusters.map(({ base }) => base));
  const against =
    bases.size > 1
      ? 'compared with the base that each cluster names'
      : plan.base === null
        ? 'compared with no base: every host counts as added'
        : `compared with ${code(plan.base)}`;
  const lines = [`${inventory} at ${code(plan.head)}, ${against}.`, ''];
  if (extras.decisionsHash !== null) {
    lines.push(`Decisions: ${code(`sha256:${extras.decisionsHash}`)}`, '');
  }
  if (extras.annotationsLeftOut > 0) {
    lines.push(`${count(extras.annotationsLeftOut, 'more annotation')} had no room on the inventory lines.`, '');
  }
  return lines;
}

/** A plan says what the pull request does to its merge base; what the merge will meet may be another inventory. */
function moved({ branch, mergeBase, tip, files }: MovedBase): Paragraph {
  const named = files.slice(0, FINDING_NAMES).map(code).join(', ');
  const more = files.length > FINDING_NAMES ? ` and ${files.length - FINDING_NAMES} more` : '';
  return paragraph(
    `**The base branch has gone on.** The plan compares with ${code(mergeBase)}, and ${code(branch)} at ${code(tip)} has since changed ${named}${more}. Bring the branch up to date to see what the merge will do.`,
    '',
  );
}

/** How what is applied compares with what a reviewer saw. */
function reviewed({ pullRequest, head, why, differences, unseen }: ReviewReport): Part[] {
  const parts: Part[] = [];
  if (why !== null) parts.push(paragraph(`**No reviewed plan.** ${proseLines(why)}`, ''));
  else if (differences.length === 0) {
    const at = head === null ? '' : ` at ${code(head)}`;
    parts.push(paragraph(`This is the plan that pull request ${code(`${pullRequest}`)} showed${at}.`, ''));
  } else {
    const rows = differences.map(({ cluster, what }) => `- ${code(cluster)}: ${prose(what)}`);
    const heading = `Not as in the reviewed plan: ${differences.length}`;
    parts.push(listOf(rows, heading, ['difference', 'differences'], RANKS.stops));
  }
  const steps = unseen.flatMap(({ cluster, steps }) => {
    const actions = new Map<string, string[]>();
    for (const { action, host } of steps) actions.set(action, [...(actions.get(action) ?? []), host]);
    return [...actions].map(([action, hosts]) => {
      const named = hosts.slice(0, FINDING_NAMES).map(code).join(', ');
      const more = hosts.length > FINDING_NAMES ? ` and ${hosts.length - FINDING_NAMES} more` : '';
      return `- ${code(cluster)}: ${code(action)} on ${named}${more}`;
    });
  });
  if (steps.length > 0) {
    parts.push(listOf(steps, 'Not visible in review, because only the hosts show it', ['row', 'rows'], RANKS.notes));
  }
  return parts;
}

function details(report: RunReport, names: number): Section[] {
  const { plan } = report;
  const quiet = plan.clusters.filter(isQuiet);
  const sections = plan.clusters
    .filter((cluster) => !isQuiet(cluster))
    .map((one) => clusterSection(report, one, names));
  if (quiet.length > 0)
    sections.push([
      listOf(
        quiet.map(({ cluster }) => code(cluster.name)),
        'Nothing to do in',
        ['cluster', 'clusters'],
        RANKS.clusters,
      ),
    ]);
  const blind = notLookedAt(plan);
  return blind.length > 0 ? [...sections, blind] : sections;
}

/** Nothing to say but, perhaps, what was not looked at. */
function isQuiet({ cluster, changes, steps, refusals, notes }: ClusterPlan): boolean {
  const said = [cluster.problems, cluster.warnings, changes, steps, refusals, notes.filter((note) => !isBlind(note))];
  return said.every(({ length }) => length === 0);
}

function clusterSection(report: RunReport, clusterPlan: ClusterPlan, names: number): Section {
  const { plan } = report;
  const { cluster, changes, steps, refusals, notes } = clusterPlan;
  const going = plan.mode === 'apply' || plan.mode === 'rejoin';
  const states = going && !report.dryRun ? report.states : null;
  const parts: Part[] = [paragraph(`### Cluster ${code(cluster.name)}`, '', ...situation(plan, clusterPlan), '')];
  if (cluster.valid && cluster.readable) {
    if (changes.length > 0) {
      parts.push(
        tableOf(
          changeTable(changes, names),
          `Changes: ${countKinds(changes.map(({ kind }) => kind))}`,
          ['row', 'rows'],
          RANKS.changes,
        ),
      );
    } else {
      parts.push(paragraph('**Changes**: none.', ''));
    }
    const heading = plan.mode === 'drift' ? 'Differences, as the steps that would mend them' : 'Steps';
    if (steps.length > 0) {
      parts.push(
        tableOf(stepTable(clusterPlan, states, names), `${heading}: ${steps.length}`, ['row', 'rows'], RANKS.steps),
      );
    } else {
      parts.push(paragraph(`**${heading}**: none.`, ''));
    }
  }
  const bullets = (items: readonly Finding[], heading: string, what: Rows['what'], rank: number): void => {
    if (items.length > 0) parts.push(listOf(items.map(bullet), `${heading}: ${items.length}`, what, rank));
  };
  bullets(refusals, 'Refused', ['refusal', 'refusals'], RANKS.stops);
  bullets(cluster.problems, 'Problems, this cluster is not applied', ['problem', 'problems'], RANKS.stops);
  bullets(cluster.warnings, 'Warnings', ['warning', 'warnings'], RANKS.warnings);
  bullets(
    notes.filter((note) => !isBlind(note)),
    'Notes',
    ['note', 'notes'],
    RANKS.notes,
  );
  return parts;
}

function situation(plan: Plan, { cluster, base }: ClusterPlan): string[] {
  if (!cluster.readable) return [cluster.valid ? 'It was not read.' : 'It cannot be read.'];
  const controller = cluster.controller ? 'Controller on' : 'Controller off';
  const servers = `servers ${cluster.servers.length === 0 ? 'none' : cluster.servers.map(code).join(', ')}`;
  const bootstrap =
    cluster.bootstrap === null ? 'no bootstrap host in the inventory' : `bootstrap host ${code(cluster.bootstrap)}`;
  const lines = [`${controller}, datastore ${cluster.datastore ?? 'unknown'}, ${servers}, ${bootstrap}.`];
  if (plan.clusters.some((other) => other.base !== base)) {
    lines.push(base === null ? 'No base: every host counts as added.' : `Compared with ${code(base)}.`);
  }
  return lines;
}

function notLookedAt(plan: Plan): Section {
  const items = plan.clusters.flatMap(({ cluster, notes }) =>
    notes.filter(isBlind).map((note) => ({ ...note, cluster: cluster.name })),
  );
  const general = plan.observed
    ? []
    : ['- No host was contacted: the steps assume that the fleet is as the base declares and healthy.'];
  // The sentence above already says it for all clusters.
  const rows = items.filter((item) => plan.observed || item.code !== 'not-observed');
  const named =
    plan.clusters.length > 1 ? (item: (typeof rows)[number]): string => `in ${code(item.cluster)}` : () => '';
  const lines = [...general, ...rows.map((item) => bullet({ ...item, where: named(item) }))];
  return lines.length === 0 ? [] : [listOf(lines, 'Not looked at', ['note', 'notes'], RANKS.notes)];
}

function isBlind({ code }: Note): boolean {
  return NOT_LOOKED_AT.includes(code);
}

interface Finding {
  readonly code: string;
  readonly message: string;
  readonly hosts: readonly string[];
  readonly file?: string | null;
  readonly line?: number | null;
  readonly where?: string;
}

/** Hosts named at one finding; its message may name more. */
const FINDING_NAMES = 10;

function bullet({ code: kind, message, hosts, file = null, line = null, where = '' }: Finding): string {
  const at = file === null ? '' : ` at ${code(line === null ? file : `${file}:${line}`)}`;
  const more = hosts.length > FINDING_NAMES ? ` and ${hosts.length - FINDING_NAMES} more` : '';
  const named = hosts.length === 0 ? '' : ` (${hosts.slice(0, FINDING_NAMES).map(code).join(', ')}${more})`;
  return `- **${code(kind)}**${where === '' ? '' : ` ${where}`}${at}${named}: ${proseLines(message)}`;
}

function paragraph(...lines: string[]): Paragraph {
  return { kind: 'paragraph', lines };
}

function tableOf({ head, rows }: Table, heading: string, what: Rows['what'], rank: number): Rows {
  return folded(rows, head, heading, what, rank);
}

function listOf(rows: readonly string[], heading: string, what: Rows['what'], rank: number): Rows {
  return folded(
    rows.map((row) => (row.startsWith('- ') ? row : `- ${row}`)),
    [],
    heading,
    what,
    rank,
  );
}

/** Rows under their heading (our own words), folded away when there are many. */
function folded(
  rows: readonly string[],
  head: readonly string[],
  heading: string,
  what: Rows['what'],
  rank: number,
): Rows {
  const many = rows.length > FOLD_ABOVE;
  const before = many ? ['<details>', `<summary>${heading}</summary>`, '', ...head] : [`**${heading}**`, '', ...head];
  return { kind: 'rows', before, rows, after: many ? ['', '</details>', ''] : [''], what, rank };
}
