import { describe, expect, test } from 'vitest';
import type { ApiAnswer, ApiCall } from '../../src/github/api.js';
import type { CheckRunState } from '../../src/github/check-run.js';
import type { RunContext } from '../../src/github/events.js';
import type { RunOutcome } from '../../src/main.js';
import { Reporter } from '../../src/reporter.js';
import { planOf } from '../report/builders.js';
import { RecordingLogger } from './recording-logger.js';

const SHA = '3'.repeat(40);
const CONTEXT: RunContext = {
  kind: 'run',
  event: 'push',
  mode: 'apply',
  refusal: null,
  pullRequest: null,
  contactsHosts: true,
  trustsInventory: true,
  repository: { own: 'acme/fleet', fleet: 'acme/fleet', isOwn: true },
  head: { kind: 'sha', sha: SHA },
  base: { kind: 'none' },
  checkCommit: SHA,
  fleetBranch: 'main',
  defaultBranch: 'main',
};

/** A run that tells GitHub and the runner; each answer to an update waits for `answer`. */
function telling(answerOf: (conclusion: string) => ApiAnswer = () => ({ kind: 'ok', status: 200, data: { id: 7 } })) {
  const conclusions: string[] = [];
  const saved: (CheckRunState | null)[] = [];
  const outputs: Record<string, string> = {};
  let whileClosing = (): void => {};
  const reporter = new Reporter({
    api: {
      request: async ({ route, parameters }: ApiCall) => {
        if (!route.startsWith('PATCH')) return { kind: 'ok', status: 201, data: { id: 7, html_url: 'page' } };
        const conclusion = String(parameters.conclusion);
        conclusions.push(conclusion);
        whileClosing();
        await new Promise((resolve) => setImmediate(resolve));
        return answerOf(conclusion);
      },
    },
    outputs: {
      setOutput: (name, value) => {
        outputs[name] = value;
      },
      appendSummary: async () => {},
    },
    logger: new RecordingLogger(),
    workflow: {
      id: '1',
      attempt: '1',
      url: null,
      serverUrl: 'https://git.example',
      apiUrl: 'https://api.example',
    },
    checkName: null,
    driftIssue: null,
    onCheckRun: (state) => saved.push(state),
  });
  return {
    reporter,
    conclusions,
    saved,
    outputs,
    onClosing: (act: () => void) => {
      whileClosing = act;
    },
  };
}

const done: RunOutcome = {
  plan: planOf({ mode: 'apply' }),
  dryRun: false,
  states: new Map(),
  failure: null,
  cancelled: false,
};

describe('what the post step is told of the check run', () => {
  test('is nothing once it was closed', async () => {
    const { reporter, saved } = telling();
    await reporter.begin(CONTEXT, true);
    expect(saved).toEqual([{ owner: 'acme', repo: 'fleet', id: 7 }]);
    await reporter.finish(done);
    expect(saved.at(-1)).toBeNull();
  });

  test('is nothing once it was closed as cancelled', async () => {
    const { reporter, saved } = telling();
    await reporter.begin(CONTEXT, true);
    await reporter.cancel();
    expect(saved.at(-1)).toBeNull();
  });

  test('is what the run came to where GitHub did not take the conclusion', async () => {
    const { reporter, saved } = telling(() => ({ kind: 'refused', status: 403, message: 'No' }));
    await reporter.begin(CONTEXT, true);
    await reporter.finish(done);
    expect(saved.at(-1)).toEqual({
      owner: 'acme',
      repo: 'fleet',
      id: 7,
      ended: { conclusion: 'success', title: expect.stringMatching(/\S/) },
    });
  });
});

describe('a signal', () => {
  test('while the check run is closed comes too late for the result and for the conclusion', async () => {
    const { reporter, conclusions, outputs, onClosing } = telling();
    await reporter.begin(CONTEXT, true);
    onClosing(() => void reporter.cancel());
    const verdict = await reporter.finish(done);
    expect(verdict).toMatchObject({ result: 'unchanged', exitCode: 0, conclusion: 'success' });
    expect(conclusions).toEqual(['success']);
    expect(outputs.result).toBe('unchanged');
  });

  test('after the last step and before the closing cancels the result as well as the conclusion', async () => {
    const { reporter, conclusions, outputs } = telling();
    await reporter.begin(CONTEXT, true);
    const cancelled = reporter.cancel();
    const verdict = await reporter.finish(done);
    await cancelled;
    expect(verdict).toMatchObject({ result: 'failed', exitCode: 1, conclusion: 'cancelled' });
    expect(conclusions).toEqual(['cancelled']);
    expect(outputs).toMatchObject({ result: 'failed', 'failure-reason': 'the run was cancelled' });
  });

  test('while a failure before the plan is told comes too late', async () => {
    const { reporter, conclusions, onClosing } = telling();
    await reporter.begin(CONTEXT, true);
    onClosing(() => void reporter.cancel());
    const verdict = await reporter.fail({ step: null, reason: 'Bad input.', advice: null });
    expect(verdict.conclusion).toBe('failure');
    expect(conclusions).toEqual(['failure']);
  });
});
