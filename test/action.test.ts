import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { writeOutputs } from '../src/github/outputs.js';
import { readSettings, secretsOf } from '../src/settings.js';

const root = fileURLToPath(new URL('..', import.meta.url));

interface Action {
  readonly name: string;
  readonly description: string;
  readonly author: string;
  readonly branding: { readonly icon: string; readonly color: string };
  readonly inputs: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  readonly outputs: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  readonly runs: Readonly<Record<string, string>>;
}

const action = parse(readFileSync(`${root}action.yml`, 'utf8')) as Action;

/** What the runner gives for an input that the workflow leaves out. */
const defaultOf = (name: string): string =>
  String(action.inputs[name]?.default ?? '').replaceAll(/\$\{\{.*?\}\}/g, 'token-of-the-job');

function namesReadBy(work: (read: (name: string) => string) => unknown): Set<string> {
  const names = new Set<string>();
  work((name) => {
    names.add(name);
    return defaultOf(name);
  });
  return names;
}

describe('action.yml', () => {
  test('runs on Node 24, with a main and a post that are there', () => {
    expect(Object.keys(action.runs).sort()).toEqual(['main', 'post', 'using']);
    expect(action.runs.using).toBe('node24');
    for (const phase of ['main', 'post']) expect(existsSync(`${root}${action.runs[phase]}`), phase).toBe(true);
  });

  test('has what a published action needs: name, description, author and branding of the allowed colours', () => {
    for (const text of [action.name, action.description, action.author, action.branding.icon]) {
      expect(text).toMatch(/\S/);
    }
    const colors = ['white', 'black', 'yellow', 'blue', 'green', 'orange', 'red', 'purple', 'gray-dark'];
    expect(colors).toContain(action.branding.color);
  });

  test.each(Object.keys(action.inputs))('gives the input %s a description and a default that is text', (name) => {
    const input = action.inputs[name] ?? {};
    expect(Object.keys(input).sort()).toEqual(['default', 'description']);
    expect(input.description).toMatch(/^\S.*\.$/);
    expect(typeof input.default).toBe('string');
  });

  test('has exactly the inputs that the settings read', () => {
    const read = namesReadBy(readSettings);
    expect([...read].sort()).toEqual(Object.keys(action.inputs).sort());
  });

  test('has every secret that is masked among its inputs', () => {
    const read = namesReadBy(secretsOf);
    expect(read.size).toBeGreaterThan(0);
    for (const name of read) expect(Object.keys(action.inputs), name).toContain(name);
  });

  test('has the defaults that the settings take for an empty input', () => {
    const given = readSettings(defaultOf);
    expect({ ...given, token: null }).toEqual(readSettings(() => ''));
    expect(given.token).toBe('token-of-the-job');
  });

  test('has exactly the outputs that a run sets, each described', () => {
    const set: string[] = [];
    writeOutputs(
      { setOutput: (name) => void set.push(name), appendSummary: async () => undefined },
      {
        result: 'unchanged',
        changed: false,
        plan: null,
        summary: '',
        checkRunUrl: null,
        failedStep: '',
        failureReason: '',
      },
    );
    expect(set.sort()).toEqual(Object.keys(action.outputs).sort());
    for (const [name, output] of Object.entries(action.outputs)) expect(output.description, name).toMatch(/^\S.*\.$/);
  });
});
