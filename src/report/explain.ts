import type { ExplainedValue, ExplainedVariable, Explanation } from '../fleet/explain.js';
import {
  type Budget,
  CHECK_RUN_FIELD_BUDGET,
  CHECK_RUN_TITLE_BUDGET,
  cutText,
  fitToBudget,
  JOB_SUMMARY_BUDGET,
  type Section,
} from './budget.js';
import { code, prose, proseLines, visible } from './escape.js';
import type { RenderedReport } from './markdown.js';
import type { RunReport } from './run.js';

/** What is shown in place of a value that may be a secret. */
const HIDDEN = 'set, not shown';
/** Overridden values of one variable that are shown. */
const OVERRIDES = 10;

/** The one line that says it all, as plain text without markup. */
export function explanationTitle({ host, cluster }: Explanation): string {
  const role = host.role === 'server' ? 'a server' : 'an agent';
  const bootstrap = host.bootstrap ? ' and its bootstrap host' : '';
  const invalid = cluster.valid ? '' : ', which has problems and is not applied';
  const sentence = `${host.name} is ${role} of ${cluster.name}${bootstrap}${invalid}`;
  return cutText(visible(sentence), CHECK_RUN_TITLE_BUDGET);
}

/** The explanation as a check run shows it: its `text` has the variables. */
export function renderExplanation(report: RunReport, explanation: Explanation): RenderedReport {
  const budget: Budget = { bytes: CHECK_RUN_FIELD_BUDGET, elsewhere: 'the job summary' };
  return {
    title: explanationTitle(explanation),
    summary: fitToBudget([story(report, explanation)], budget),
    text: fitToBudget(variableSections(explanation), budget),
  };
}

/** The same as one Markdown document for the job summary and the `summary` output, within their limit. */
export function renderExplanationSummary(report: RunReport, explanation: Explanation): string {
  const heading: Section = [{ kind: 'paragraph', lines: ['## fleet-role explain', ''] }];
  const sections = [heading, story(report, explanation), ...variableSections(explanation)];
  return `${fitToBudget(sections, { bytes: JOB_SUMMARY_BUDGET - 1, elsewhere: 'the inventory' })}\n`;
}

/** The same as lines of a log, each of them one line of printable text. */
export function explanationLines(explanation: Explanation): readonly string[] {
  const { cluster, layout, role, variables } = explanation;
  const lines = [`Layout ${layout.kind}: ${layout.reason}.`, ...role];
  for (const { code: kind, message, file, line } of cluster.problems)
    lines.push(`Problem ${kind}${at({ file, line })}: ${message}`);
  for (const variable of variables) {
    lines.push(`${variable.name} = ${variable.failure ?? variable.value ?? `(${HIDDEN})`}  [${origin(variable)}]`);
    for (const lost of variable.overrides)
      lines.push(`    overrides ${lost.value ?? `(${HIDDEN})`}  [${origin(lost)}]`);
  }
  return lines.map((line) => visible(line));
}

function story({ plan }: RunReport, explanation: Explanation): Section {
  const { host, cluster, layout, role } = explanation;
  const node = host.nodeName === null ? 'which only the host knows' : code(host.nodeName);
  const where = `${code(plan.inventory ?? 'the inventory')} at ${code(plan.head)}`;
  return [
    { kind: 'paragraph', lines: [`**${prose(explanationTitle(explanation))}**`, ''] },
    {
      kind: 'paragraph',
      lines: [
        `In ${where}, listed at ${code(placeText(host.place) ?? 'an unknown place')}; node name ${node}, address ${code(host.address)}, runtime ${code(host.runtime)}.`,
        '',
        `Layout ${prose(layout.kind)}: ${prose(`${layout.reason}.`)} No host was contacted.`,
        '',
      ],
    },
    {
      kind: 'rows',
      before: ['**How its role came about**', ''],
      rows: role.map((sentence) => `- ${prose(sentence)}`),
      after: [''],
      what: ['sentence', 'sentences'],
      rank: 0,
    },
    {
      kind: 'rows',
      before: ['**Problems of its cluster**', ''],
      rows: cluster.problems.map(
        ({ code: kind, message, file, line }) => `- **${code(kind)}**${mark({ file, line })}: ${proseLines(message)}`,
      ),
      after: [''],
      what: ['problem', 'problems'],
      rank: 1,
    },
  ];
}

function variableSections({ variables }: Explanation): Section[] {
  const table = (decides: boolean, heading: string, none: string, rank: number): Section => {
    const rows = variables.filter((variable) => variable.decides === decides).map(row);
    if (rows.length === 0) return [{ kind: 'paragraph', lines: [`**${heading}**: ${none}`, ''] }];
    return [
      {
        kind: 'rows',
        before: [
          `**${heading}: ${rows.length}**`,
          '',
          '| variable | value | from | overrides |',
          '| --- | --- | --- | --- |',
        ],
        rows,
        after: [''],
        what: ['variable', 'variables'],
        rank,
      },
    ];
  };
  return [
    table(true, 'Variables that fleet-role reads', 'none is set, so all have their defaults.', 2),
    table(false, 'Other variables of the host', 'none.', 3),
  ];
}

function row(variable: ExplainedVariable): string {
  const { name, failure, overrides } = variable;
  const lost = overrides.slice(0, OVERRIDES).map((one) => `${valueCell(one)} from ${originCell(one)}`);
  if (overrides.length > OVERRIDES) lost.push(`and ${overrides.length - OVERRIDES} more`);
  const cells = [
    code(name),
    failure === null ? valueCell(variable) : prose(failure),
    originCell(variable),
    lost.length === 0 ? '–' : lost.join('<br>'),
  ];
  return `| ${cells.join(' | ')} |`;
}

function valueCell({ value }: ExplainedValue): string {
  return value === null ? `_${HIDDEN}_` : code(value);
}

function originCell({ source, file, line }: ExplainedValue): string {
  return `${code(source)}${source === file && line !== null ? ` line ${line}` : mark({ file, line })}`;
}

function origin({ source, file, line }: ExplainedValue): string {
  const place = placeText({ file, line });
  return place === null || source === file ? (place ?? source) : `${source}, ${place}`;
}

type PlaceOf = Pick<ExplainedValue, 'file' | 'line'>;

function mark(place: PlaceOf): string {
  const text = placeText(place);
  return text === null ? '' : ` at ${code(text)}`;
}

function at(place: PlaceOf): string {
  const text = placeText(place);
  return text === null ? '' : ` at ${text}`;
}

function placeText({ file, line }: PlaceOf): string | null {
  return file === null ? null : line === null ? file : `${file}:${line}`;
}
