import type { Cause, Change } from '../fleet/change.js';
import type { ClusterPlan } from '../plan/plan.js';
import type { PlannedStep, StepState, Voters } from '../plan/step.js';
import { code, prose } from './escape.js';
import { count, stateOf } from './result.js';
import type { RunReport } from './run.js';

/** A table without its rows' limits: the lines above the rows, and the rows. */
export interface Table {
  readonly head: readonly string[];
  readonly rows: readonly string[];
}

/** Above this many rows, rows that say the same of several hosts become one. */
const GROUP_ABOVE = 20;

/**
 * The changes of one cluster: who, from and to, and why. Of many changes, those that differ in nothing but the host are
 * one row that names at most `names` hosts.
 */
export function changeTable(changes: readonly Change[], names: number): Table {
  const groups =
    changes.length > GROUP_ABOVE ? groupBy(changes, changeKey) : changes.map((change): Many<Change> => [change]);
  return {
    head: tableHead(['host', 'change', 'role', 'join URL', 'why']),
    rows: groups.map((group) => {
      const { kind, role, joinUrl } = group[0];
      return row([
        hostsCell(
          group.map(({ host }) => host),
          names,
        ),
        kind,
        fromTo(role.from, role.to),
        fromTo(joinUrl.from, joinUrl.to),
        `${reasonCell(group)}${placeCell(group.map(({ cause }) => cause))}`,
      ]);
    }),
  };
}

/**
 * The steps of one cluster in their order. Where neighbouring hosts get the same steps, these are shown once for all of
 * them. The state is a column of its own where `states` is not null.
 */
export function stepTable(cluster: ClusterPlan, states: RunReport['states'] | null, names: number): Table {
  const { steps } = cluster;
  const counted = steps.some(({ voters }) => voters !== null);
  const groups = steps.length > GROUP_ABOVE ? groupSteps(steps) : steps.map((step): Many<PlannedStep> => [step]);
  return {
    head: tableHead([
      '#',
      ...(states === null ? [] : ['state']),
      'step',
      'host',
      'what and why',
      ...(counted ? ['voters', 'if one more server fails here'] : []),
    ]),
    rows: groups.map((group) => {
      const first = group[0];
      const last = group.at(-1) ?? first;
      const hosts = group.map(({ host }) => host);
      return row([
        group.length === 1 ? `${first.number}` : `${first.number} … ${last.number}`,
        ...(states === null ? [] : [stateCell(group.map((step) => stateOf(states, cluster, step)))]),
        `\`${first.action}\``,
        hostsCell(hosts, names),
        `${prose(first.detail)}${writtenValue(first)}`,
        ...(counted ? [votersCell(first.voters), failureCell(first.voters)] : []),
      ]);
    }),
  };
}

type Many<T> = [T, ...T[]];

/** Items with the same key, in the order of the first of each. */
function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): Many<T>[] {
  const groups = new Map<string, Many<T>>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return [...groups.values()];
}

/**
 * Steps in blocks of one host each; blocks that follow each other and say the same of different hosts are shown as one,
 * step by step. So `1 a, 2 b` of each of fifty hosts become two rows, and no membership change loses its place.
 */
function groupSteps(steps: readonly PlannedStep[]): Many<PlannedStep>[] {
  const groups: Many<PlannedStep>[] = [];
  let open: Many<PlannedStep>[] = [];
  let openKey: string | null = null;
  let at = 0;
  while (at < steps.length) {
    let end = at + 1;
    while (end < steps.length && steps[end]?.host === steps[at]?.host) end++;
    const block = steps.slice(at, end);
    const key = block.map(stepKeyOf).join('\n');
    if (key === openKey) {
      for (const [index, step] of block.entries()) open[index]?.push(step);
    } else {
      open = block.map((step): Many<PlannedStep> => [step]);
      openKey = key;
      groups.push(...open);
    }
    at = end;
  }
  return groups;
}

/** What two changes have in common when they are the same for two hosts; a cause may be on another line for each. */
function changeKey({ host, kind, role, joinUrl, cause }: Change): string {
  return JSON.stringify([
    kind,
    role.from,
    role.to,
    joinUrl.from,
    joinUrl.to,
    cause.commit,
    cause.file,
    without(host, cause.reason),
  ]);
}

function stepKeyOf({ action, service, value, detail, voters, host }: PlannedStep): string {
  return JSON.stringify([action, service, value, without(host, detail), voters]);
}

function without(host: string, text: string): string {
  return text.split(host).join('\u0000');
}

function hostsCell(hosts: readonly string[], names: number): string {
  const shown = hosts.slice(0, names).map(code).join(', ');
  if (hosts.length === 1) return shown;
  const more = hosts.length > names ? ` and ${hosts.length - names} more` : '';
  return `${count(hosts.length, 'host')}: ${shown}${more}`;
}

function fromTo(from: string | null, to: string | null): string {
  const shown = (value: string | null): string => (value === null ? 'none' : code(value));
  if (from === to) return from === null ? '–' : `${shown(from)}, as before`;
  return `${shown(from)} → ${shown(to)}`;
}

function reasonCell(group: Many<Change>): string {
  const { host, cause } = group[0];
  const likewise = group.length > 1 && cause.reason.includes(host) ? ' (and likewise for the others)' : '';
  return `${prose(cause.reason)}${likewise}`;
}

/** Where the causes are: all of them are in the same file of the same commit. */
function placeCell(causes: readonly Cause[]): string {
  const [first] = causes;
  if (first === undefined || first.file === null) return '';
  const lines = causes.flatMap(({ line }) => (line === null ? [] : [line])).sort((a, b) => a - b);
  const [low, high] = [lines[0], lines.at(-1)];
  const at = low === undefined ? '' : low === high ? `:${low}` : `:${low}–${high}`;
  return ` (${code(`${first.file}${at}`)}${first.commit === 'base' ? ' of the base' : ''})`;
}

/** The written value, unless the sentence beside it has it already. */
function writtenValue({ value, detail }: PlannedStep): string {
  if (value === null || value === '' || detail.includes(value)) return '';
  return ` — ${code(value)}`;
}

const STATE_WORDS: Readonly<Record<StepState, string>> = {
  done: '✅ done',
  running: '⏳ running',
  failed: '❌ failed',
  'to-come': 'to come',
};

function stateCell(states: readonly StepState[]): string {
  if (new Set(states).size === 1 && states[0] !== undefined) return STATE_WORDS[states[0]];
  return (['done', 'failed', 'running', 'to-come'] as const)
    .map((state) => [state, states.filter((one) => one === state).length] as const)
    .filter(([, number]) => number > 0)
    .map(([state, number]) => `${STATE_WORDS[state]}: ${number}`)
    .join(', ');
}

function votersCell(voters: Voters | null): string {
  if (voters === null) return '–';
  const { before, after, healthy, quorum } = voters;
  const change = before === after ? `${after}` : `${before} → ${after}`;
  return `${change} (${healthy} healthy), quorum ${quorum}`;
}

function failureCell(voters: Voters | null): string {
  if (voters === null) return '–';
  if (voters.healthy < voters.quorum) return '**there is no quorum already**';
  if (voters.tolerance < 1) return '**quorum is lost**';
  return voters.tolerance === 1 ? 'quorum holds' : `quorum holds; ${voters.tolerance} may fail`;
}

function tableHead(cells: readonly string[]): string[] {
  return [row(cells), row(cells.map(() => '---'))];
}

function row(cells: readonly string[]): string {
  return `| ${cells.join(' | ')} |`;
}
