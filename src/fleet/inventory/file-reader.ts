import type { Snapshot } from '../../repository/snapshot.js';
import type { Place, Problem, Warning } from '../problem.js';
import { type Assignments, assign } from './group-graph.js';
import type { ParseCache, ParsedFile, VarsEntry } from './parse-cache.js';
import { isMapping, keyText, type Raw, typeWord, type Vaulted } from './raw.js';
import { MAX_FILE_BYTES, type SourceFile } from './sources.js';
import { decodeText, ReadingError } from './text.js';
import { decryptVault, isVault } from './vault.js';
import { truthy } from './yaml-inventory.js';
import { resolve, surpriseOf } from './yaml-values.js';

/** Who mends a hundred problems sees the rest with the next commit; a hostile file must not fill the memory. */
export const MAX_PROBLEMS = 100;
/** A line of a hostile file may be its whole length. */
const MAX_MESSAGE = 600;

/** Opens the files of one snapshot and collects what is wrong with them, each thing once. */
export class FileReader {
  readonly #snapshot: Snapshot;
  readonly #cache: ParseCache;
  readonly #vaultPassword: string | null;
  readonly #needed: (variable: string) => boolean;
  readonly #problems: Problem[];
  readonly #warnings: Warning[];
  readonly #variables = new Map<string, Assignments>();
  readonly #decrypted = new Map<Vaulted, string>();
  readonly #secrets = new Set<string>();

  constructor(
    snapshot: Snapshot,
    cache: ParseCache,
    options: { readonly vaultPassword: string | null; readonly needed: (variable: string) => boolean },
    problems: Problem[],
    warnings: Warning[],
  ) {
    this.#snapshot = snapshot;
    this.#cache = cache;
    this.#vaultPassword = options.vaultPassword;
    this.#needed = options.needed;
    this.#problems = problems;
    this.#warnings = warnings;
  }

  needed(variable: string): boolean {
    return this.#needed(variable);
  }

  /** Texts that were encrypted in the repository: they must be masked before anything is printed. */
  get secrets(): readonly string[] {
    return [...this.#secrets];
  }

  /** The file's text and document, or null after the problem was noted. */
  open(file: SourceFile): ParsedFile | null {
    if (file.entry.size > MAX_FILE_BYTES) {
      this.report(file.path, null, new ReadingError('too-big', 'the file is larger than 16 MiB; split it', null));
      return null;
    }
    const bytes = this.#snapshot.blobs.get(file.entry.oid);
    if (bytes === undefined) throw new Error(`the content of ${file.path} was not read from the repository`);
    try {
      const plain = this.#cache.file(file.entry.oid, bytes);
      return isVault(plain.text) ? this.#cache.decrypted(file.entry.oid, plain.text, this.#vaultPassword) : plain;
    } catch (error) {
      if (!(error instanceof ReadingError)) throw error;
      const line = error.at === null ? 1 : lineIn(bytes, error.at);
      this.#add(problemOf(error, { file: file.path, line }));
      return null;
    }
  }

  report(path: string, file: ParsedFile | null, error: ReadingError): void {
    const line = file === null || error.at === null ? 1 : file.lineOf(error.at);
    this.#add(problemOf(error, { file: path, line }));
  }

  #add(problem: Problem): void {
    if (this.#problems.length < MAX_PROBLEMS) this.#problems.push(problem);
  }

  /** Notes problems that are known already. */
  addProblems(problems: readonly Problem[]): void {
    for (const found of problems) {
      const problem = { ...found, message: sentence(found.message) };
      const known = this.#problems.some(
        (other) => other.code === problem.code && other.file === problem.file && other.message === problem.message,
      );
      if (!known) this.#add(problem);
    }
  }

  warn(code: string, message: string, place: Place): void {
    if (this.#warnings.length < MAX_PROBLEMS)
      this.#warnings.push({ code, message: sentence(message), hosts: [], ...place });
  }

  /** The text of an encrypted value. Throws a ReadingError that says what is missing. */
  decrypt(value: Vaulted): string {
    let text = this.#decrypted.get(value);
    if (text === undefined) {
      text = decodeText(decryptVault(value.envelope, this.#vaultPassword));
      this.#decrypted.set(value, text);
      this.#keepSecret(text);
    }
    return text;
  }

  #keepSecret(raw: Raw): void {
    if (typeof raw === 'string' && raw.trim() !== '') this.#secrets.add(raw.trim());
    else if (isMapping(raw)) for (const value of raw.values()) this.#keepSecret(value);
    else if (Array.isArray(raw)) for (const value of raw) this.#keepSecret(value);
  }

  /** The variables of a vars file; none after a problem, which is noted once. */
  variables(source: SourceFile): Assignments {
    const known = this.#variables.get(source.path);
    if (known !== undefined) return known;
    const variables: Assignments = new Map();
    this.#variables.set(source.path, variables);
    const file = this.open(source);
    if (file === null) return variables;
    file.variables ??= readVariables(file);
    if (file.variables instanceof ReadingError) {
      this.report(source.path, file, file.variables);
      return variables;
    }
    for (const { key, raw, at, valueNode } of file.variables) {
      const place = { file: source.path, line: file.lineOf(at) };
      if (file.decrypted) this.#keepSecret(raw);
      if (typeof key === 'string') {
        assign(variables, key, { raw, place });
        const surprise = this.#needed(key) && !file.decrypted ? surpriseOf(key, valueNode) : null;
        if (surprise !== null) this.warn('yaml-1.1', surprise, { file: source.path, line: file.lineOf(valueNode.at) });
      } else this.warn('not-a-name', notAName(keyText(key), typeWord(key)), place);
    }
    return variables;
  }
}

/** What is said of a key that names no variable. */
export function notAName(text: string, word: string): string {
  return `YAML 1.1 reads the key here as ${word} (${text}), so no variable has this name; put it in quotes`;
}

function readVariables(file: ParsedFile): readonly VarsEntry[] | ReadingError {
  try {
    const root = file.document();
    if (root === null) return [];
    const node = resolve(root);
    if (node.kind === 'mapping') {
      return file.construction.pairs(node).map(({ key, keyNode, valueNode }) => ({
        key,
        raw: file.construction.value(valueNode),
        valueNode,
        at: keyNode.at,
      }));
    }
    const value = file.construction.value(node);
    if (!truthy(value)) return [];
    throw new ReadingError(
      'bad-structure',
      `the file is ${typeWord(value)}; variables are \`name: value\` lines`,
      node.at,
    );
  } catch (error) {
    if (error instanceof ReadingError) return error;
    throw error;
  }
}

function problemOf(error: ReadingError, place: Place): Problem {
  return { code: error.code, message: sentence(error.message), hosts: [], ...place };
}

/** With a capital and a full stop. */
function sentence(message: string): string {
  const short = message.length > MAX_MESSAGE ? `${message.slice(0, 300)} … ${message.slice(-250)}` : message;
  const text = short.charAt(0).toUpperCase() + short.slice(1);
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

function lineIn(bytes: Uint8Array, at: number): number {
  let line = 1;
  for (const character of new TextDecoder().decode(bytes).slice(0, at)) if (character === '\n') line++;
  return line;
}
