import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import * as core from '../../src/github/actions-core.js';
import { plainLogger, runnerLogger } from '../../src/github/logger.js';
import { annotateLines, type Outputs, runnerOutputs, writeJobSummary, writeOutputs } from '../../src/github/outputs.js';
import type { Annotation } from '../../src/report/annotations.js';
import { planToJson } from '../../src/report/plan-json.js';
import { expectValidPlan } from '../helpers/plan-schema.js';
import { planOf } from '../report/builders.js';
import { commandsIn, HOSTILE, hiddenIn } from '../report/hostile.js';
import { RecordingLogger } from './recording-logger.js';

let folder: string;
let written: string[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'fleet-role-outputs-'));
  written = [];
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    written.push(String(text));
    return true;
  });
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

/** The outputs in the runner's file: `name<<DELIMITER`, the value, the delimiter. */
function outputsIn(text: string): Record<string, string> {
  const outputs: Record<string, string> = {};
  const lines = text.split('\n');
  while (lines.length > 1) {
    const [, name, delimiter] = /^([^<]+)<<(.+)$/.exec(lines.shift() ?? '') ?? [];
    if (name === undefined || delimiter === undefined) throw new Error('this is no output');
    const end = lines.indexOf(delimiter);
    outputs[name] = lines
      .splice(0, end + 1)
      .slice(0, -1)
      .join('\n');
  }
  return outputs;
}

const OUTPUTS: Outputs = {
  result: 'planned',
  changed: true,
  plan: planToJson(planOf()),
  summary: '## fleet-role\n\n| a |\n',
  checkRunUrl: 'https://github.com/acme/fleet/runs/1',
  failedStep: '',
  failureReason: '',
};

describe('the outputs', () => {
  test.each<[string, Partial<Outputs>]>([
    ['of a plan', {}],
    [
      'of a run without plan and check run',
      { plan: null, checkRunUrl: null, changed: false, result: 'failed', failureReason: 'no such mode' },
    ],
    ['with hostile texts', { failureReason: 'x\nEOF\nresult=applied', failedStep: 'drain ::error::' }],
  ])('%s are all set', (_what, overrides) => {
    const file = join(folder, 'output');
    writeFileSync(file, '');
    vi.stubEnv('GITHUB_OUTPUT', file);
    const outputs = { ...OUTPUTS, ...overrides };
    writeOutputs(runnerOutputs(core, process.env), outputs);
    const { plan, ...others } = outputsIn(readFileSync(file, 'utf8'));
    expect(others).toEqual({
      result: outputs.result,
      changed: String(outputs.changed),
      summary: outputs.summary,
      'check-run-url': outputs.checkRunUrl ?? '',
      'failed-step': outputs.failedStep,
      'failure-reason': outputs.failureReason,
    });
    if (outputs.plan === null) expect(plan).toBe('');
    else expectValidPlan(plan);
  });

  test('go nowhere in a terminal', () => {
    writeOutputs(runnerOutputs(core, {}), OUTPUTS);
    expect(written).toEqual([]);
  });
});

describe('the job summary', () => {
  test('is the Markdown as it is', async () => {
    const file = join(folder, 'summary');
    writeFileSync(file, 'before\n');
    vi.stubEnv('GITHUB_STEP_SUMMARY', file);
    const logger = new RecordingLogger();
    await writeJobSummary(runnerOutputs(core, process.env), '## fleet-role\n', logger);
    expect(readFileSync(file, 'utf8')).toMatch(/^before\n## fleet-role\n+$/);
    expect(logger.lines).toEqual([]);
  });

  test('that cannot be written is a notice', async () => {
    const logger = new RecordingLogger();
    const port = {
      setOutput: () => undefined,
      appendSummary: () => Promise.reject(new Error('no GITHUB_STEP_SUMMARY')),
    };
    await writeJobSummary(port, 'text', logger);
    expect(logger.lines).toEqual(['notice: The job summary is not written: no GITHUB_STEP_SUMMARY']);
  });
});

describe('annotations without a check run', () => {
  const annotation: Annotation = {
    path: 'hosts/a,b.yml',
    line: 7,
    level: 'failure',
    title: 'even-servers',
    message: 'two\nservers',
  };

  test('stand on their lines', () => {
    annotateLines(runnerLogger(core), [
      annotation,
      { ...annotation, level: 'warning' },
      { ...annotation, level: 'notice' },
    ]);
    const place = 'title=even-servers,file=hosts/a%2Cb.yml,line=7';
    expect(written.join('').trimEnd().split('\n')).toEqual(
      ['error', 'warning', 'notice'].map((command) => `::${command} ${place}::two%0Aservers`),
    );
  });

  test('are at most ten of each level, and the log says how many are not given', () => {
    const logger = new RecordingLogger();
    const many = Array.from({ length: 14 }, () => annotation);
    annotateLines(logger, [...many, { ...annotation, level: 'notice' }]);
    expect(logger.lines.filter((line) => line.startsWith('error:'))).toHaveLength(10);
    expect(logger.lines.slice(10)).toEqual([
      'notice: two\nservers',
      'info: 4 more annotations had no room: the job summary has everything.',
    ]);
  });
});

describe('a logger', () => {
  test('for a terminal writes plain lines with their place', async () => {
    const out: string[] = [];
    const err: string[] = [];
    const sink = (list: string[]) => ({ write: (text: string) => list.push(text) });
    const logger = plainLogger({ out: sink(out), err: sink(err) });
    logger.debug('unseen');
    const value = await logger.group('node1', async () => {
      logger.info('one');
      return 42;
    });
    logger.error('bad', { file: 'inventory.yml', line: 3, title: 'bad-syntax' });
    logger.warning('odd', { file: 'inventory.yml', line: null });
    logger.notice('so');
    expect(value).toBe(42);
    expect(out).toEqual(['== node1\n', 'one\n']);
    expect(err).toEqual(['inventory.yml:3: error: bad-syntax: bad\n', 'inventory.yml: warning: odd\n', 'notice: so\n']);
    const verbose = plainLogger({ out: sink(out), err: sink(err), verbose: true });
    verbose.debug('seen');
    expect(err.at(-1)).toBe('debug: seen\n');
  });

  test('on GitHub closes its fold when the work fails', async () => {
    await expect(runnerLogger(core).group('a\n::error::b', () => Promise.reject(new Error('no')))).rejects.toThrow(
      'no',
    );
    const lines = written.join('').trimEnd().split(/\r?\n/);
    expect(lines).toEqual(['::group::a ::error::b', '::endgroup::']);
  });

  test.each(HOSTILE.map((text) => [text.slice(0, 60), text]))(
    'lets no text become a command: %j',
    async (_short, text) => {
      const at = { file: 'inventory.yml', line: 1, title: text };
      const runner = runnerLogger(core);
      const plain = plainLogger({ out: process.stdout, err: process.stdout, verbose: true });
      runner.info(text);
      plain.info(text);
      for (const say of ['notice', 'warning', 'error'] as const) plain[say](text, { ...at, file: text });
      plain.debug(text);
      await plain.group(text, async () => undefined);
      expect(commandsIn(written.join(''))).toEqual([]);
      expect(hiddenIn(written.join(''))).toEqual([]);

      written.length = 0;
      runner.debug(text);
      for (const say of ['notice', 'warning', 'error'] as const) runner[say](text, at);
      await runner.group(text, async () => undefined);
      const commands = written
        .join('')
        .trimEnd()
        .split(/\r\n|[\n\r\u0085\u2028\u2029]/);
      expect(commands.map((line) => /^::(\w+)/.exec(line)?.[1])).toEqual([
        'debug',
        'notice',
        'warning',
        'error',
        'group',
        'endgroup',
      ]);
      expect(hiddenIn(written.join(''))).toEqual([]);
    },
  );
});
