import type { Change } from '../fleet/change.js';
import type { Place } from '../fleet/problem.js';
import type { ClusterPlan, Plan } from '../plan/plan.js';
import {
  ANNOTATION_MESSAGE_LIMIT,
  ANNOTATION_TITLE_LIMIT,
  ANNOTATIONS_PER_REQUEST,
  cutText,
  RUNNER_MESSAGE_LIMIT,
} from './budget.js';
import { plain, visible } from './escape.js';
import { count, countKinds } from './result.js';

/** A remark on a line of a file at the head. All texts are plain. */
export interface Annotation {
  /** From the repository root. */
  readonly path: string;
  /** From 1. */
  readonly line: number;
  readonly level: AnnotationLevel;
  /** At most 255 characters. */
  readonly title: string;
  readonly message: string;
}

export type AnnotationLevel = 'failure' | 'warning' | 'notice';

export interface Annotations {
  /** Worst first, then by file and line. */
  readonly shown: readonly Annotation[];
  /** How many had no room. */
  readonly leftOut: number;
}

/** Annotations of one run: four requests. More would bury a diff, and everything is in the report as well. */
export const ANNOTATIONS_MAX = 4 * ANNOTATIONS_PER_REQUEST;

/** Bytes of a message, so that the same text is whole in a check run and in the runner's own annotations. */
const MESSAGE_BUDGET = Math.min(ANNOTATION_MESSAGE_LIMIT, RUNNER_MESSAGE_LIMIT) - 96;
/** Hosts named in one annotation. */
const NAMES = 10;
const LEVELS: readonly AnnotationLevel[] = ['failure', 'warning', 'notice'];

/**
 * What a reviewer should see on the lines of the fleet repository: problems, refusals (on the lines of their hosts),
 * warnings, and changes (on the line at the head that caused them; those of one line together).
 *
 * None when `ownRepository` is false: the check run then stands on a commit of another repository. A place that is no
 * file inside the repository gets none either.
 */
export function annotationsOf(plan: Plan, ownRepository: boolean): Annotations {
  if (!ownRepository) return { shown: [], leftOut: 0 };
  const all = unique(
    plan.clusters.flatMap((cluster) => [
      ...problems(cluster),
      ...refusals(cluster),
      ...warnings(cluster),
      ...changes(cluster),
    ]),
  );
  all.sort(
    (a, b) =>
      LEVELS.indexOf(a.level) - LEVELS.indexOf(b.level) ||
      compare(a.path, b.path) ||
      a.line - b.line ||
      compare(a.title, b.title),
  );
  return { shown: all.slice(0, ANNOTATIONS_MAX), leftOut: Math.max(0, all.length - ANNOTATIONS_MAX) };
}

/** The annotations in lists that one request may carry. */
export function batchesOf(annotations: readonly Annotation[]): Annotation[][] {
  const batches: Annotation[][] = [];
  for (let at = 0; at < annotations.length; at += ANNOTATIONS_PER_REQUEST) {
    batches.push(annotations.slice(at, at + ANNOTATIONS_PER_REQUEST));
  }
  return batches;
}

function problems({ cluster }: ClusterPlan): Annotation[] {
  return cluster.problems.flatMap((problem) => on(problem, 'failure', problem.code, problem.message));
}

function warnings({ cluster }: ClusterPlan): Annotation[] {
  return cluster.warnings.flatMap((warning) => on(warning, 'warning', warning.code, warning.message));
}

/** A refusal names hosts, not lines: it stands where the first of them that the head declares is listed. */
function refusals({ cluster, refusals }: ClusterPlan): Annotation[] {
  const places = new Map(cluster.hosts.map((host) => [host.name, host.place]));
  return refusals.flatMap(({ code, message, hosts }) => {
    const first = hosts.find((host) => places.has(host));
    const place = first === undefined ? undefined : places.get(first);
    return place === undefined ? [] : on(place, 'failure', `refused: ${code}`, message);
  });
}

function changes({ changes }: ClusterPlan): Annotation[] {
  const byLine = new Map<string, Change[]>();
  for (const change of changes) {
    // A line of the base may be another line, or none, in the files that the check run shows.
    if (change.cause.commit !== 'head') continue;
    const key = JSON.stringify([change.cause.file, change.cause.line]);
    const known = byLine.get(key);
    if (known === undefined) byLine.set(key, [change]);
    else known.push(change);
  }
  return Array.from(byLine.values(), (group) => {
    const place = group[0]?.cause ?? { file: null, line: null };
    const heading =
      group.length === 1 ? `${group[0]?.kind} of ${group[0]?.host}` : countKinds(group.map(({ kind }) => kind));
    const lines = group.slice(0, NAMES).map((change) => `${describe(change)}: ${change.cause.reason}`);
    if (group.length > NAMES) lines.push(`and ${count(group.length - NAMES, 'more host')}`);
    return on(place, 'notice', heading, lines.join('\n'));
  }).flat();
}

function describe({ host, kind, role, joinUrl }: Change): string {
  const parts = [`${host}: ${kind}`];
  if (role.from !== role.to) parts.push(`role ${role.from ?? 'none'} → ${role.to ?? 'none'}`);
  if (joinUrl.from !== joinUrl.to) parts.push(`join URL ${joinUrl.from ?? 'none'} → ${joinUrl.to ?? 'none'}`);
  return parts.join(', ');
}

function on({ file, line }: Place, level: AnnotationLevel, title: string, message: string): Annotation[] {
  if (file === null || !isInside(file)) return [];
  const shown = cutText(plain(message), MESSAGE_BUDGET);
  return [
    {
      path: file,
      line: Math.max(1, line ?? 1),
      level,
      title: shorten(visible(title)),
      message: shown.trim() === '' ? title : shown,
    },
  ];
}

/** A path that can be in a git tree: relative, with no way up. */
function isInside(path: string): boolean {
  return path !== '' && !path.split('/').some((part) => part === '' || part === '.' || part === '..');
}

function shorten(title: string): string {
  return title.length <= ANNOTATION_TITLE_LIMIT ? title : cutText(title, ANNOTATION_TITLE_LIMIT);
}

/** One problem may concern several clusters, such as a file that cannot be read: it is said once on its line. */
function unique(annotations: readonly Annotation[]): Annotation[] {
  return [...new Map(annotations.map((annotation) => [JSON.stringify(annotation), annotation])).values()];
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
