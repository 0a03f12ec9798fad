// The rows of the benchmark as a person reads them.
//
// A row has `work`, `unit` and, where it was measured, `ours` and `runs`; beside something else also `other`,
// `otherName` and `ratio` (ours / other, the median of the runs). `bound` is one of `ratioAtMost`, `timesFaster` (other /
// ours at least) and `oursAtMost` (in the row's unit). `note` and `at` say more.

/** `within` or `over` its bound; `open` when there is no bound or nothing was measured to hold against it. */
export function verdictOf({ ours, ratio, bound }) {
  let isWithin;
  if (bound?.oursAtMost !== undefined && ours !== undefined) isWithin = ours <= bound.oursAtMost;
  else if (bound?.ratioAtMost !== undefined && ratio !== undefined) isWithin = ratio <= bound.ratioAtMost;
  else if (bound?.timesFaster !== undefined && ratio !== undefined) isWithin = 1 / ratio >= bound.timesFaster;
  else return 'open';
  return isWithin ? 'within' : 'over';
}

/** The rows as an aligned table, with the notes below it. */
export function writeTable(rows) {
  const lines = [
    ['work', 'ours', 'the other', '', 'ratio', 'bound', '', 'runs'],
    ...rows.map((row) => [
      row.work,
      amount(row.ours, row.unit),
      amount(row.other, row.unit),
      row.other === undefined ? '' : row.otherName,
      ratioOf(row),
      boundOf(row),
      { within: 'ok', over: 'OVER', open: '-' }[row.verdict],
      row.runs === undefined ? '' : String(row.runs),
    ]),
  ];
  const widths = lines[0].map((_, column) => Math.max(...lines.map((line) => line[column].length)));
  const right = new Set([1, 2, 4, 7]);
  const text = lines.map((line) =>
    line
      .map((cell, column) => (right.has(column) ? cell.padStart(widths[column]) : cell.padEnd(widths[column])))
      .join('  ')
      .trimEnd(),
  );
  text.splice(1, 0, widths.map((width) => '-'.repeat(width)).join('  '));
  const notes = rows.flatMap((row) => [
    ...(row.note === undefined ? [] : [`${row.work}: ${row.note}`]),
    ...(row.at === undefined ? [] : [`${row.work}: ${sizes(row)}`]),
  ]);
  return [...text, '', ...notes].join('\n').trimEnd();
}

function amount(value, unit) {
  if (value === undefined) return '';
  if (unit === 'ms' && Math.abs(value) >= 10_000) return `${number(value / 1000)} s`;
  return unit.startsWith('/') ? `${number(value)}${unit}` : `${number(value)} ${unit}`;
}

function ratioOf({ ratio, bound }) {
  if (ratio === undefined) return '';
  return bound?.timesFaster === undefined ? `${number(ratio)} ×` : `${number(1 / ratio)} × faster`;
}

function boundOf({ unit, bound }) {
  if (bound === undefined) return '';
  if (bound.ratioAtMost !== undefined) return `at most ${bound.ratioAtMost} ×`;
  if (bound.timesFaster !== undefined) return `at least ${bound.timesFaster} × faster`;
  return `at most ${amount(bound.oursAtMost, unit)}`;
}

function sizes({ at, unit }) {
  const total = { µs: 'ms', kB: 'MB' }[unit];
  return `in all ${Object.entries(at)
    .map(([hosts, value]) => `${number(value / 1000)} ${total} for ${Number(hosts).toLocaleString('en')} hosts`)
    .join(', ')}`;
}

/** Three digits that count. */
function number(value) {
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toFixed(digits);
}
