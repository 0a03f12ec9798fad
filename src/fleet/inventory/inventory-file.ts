import type { FileReader } from './file-reader.js';
import type { GroupGraph } from './group-graph.js';
import { readIniInventory } from './ini-inventory.js';
import type { ParsedFile } from './parse-cache.js';
import { typeWord } from './raw.js';
import { extensionOf, type SourceFile } from './sources.js';
import { ReadingError } from './text.js';
import { type FileContext, readYamlInventory, truthy } from './yaml-inventory.js';
import type { Node } from './yaml-parser.js';
import { resolve } from './yaml-values.js';

/** Where Ansible tries YAML, before INI. */
const YAML_EXTENSIONS = ['', '.yml', '.yaml', '.json'];

/**
 * Adds one inventory file to the graph in the format that Ansible settles on: with the extension of YAML or JSON, or
 * with none, YAML first; else INI. Where Ansible would fall from a broken `.yml` to INI, the file is in error here.
 */
export function addInventoryFile(source: SourceFile, reader: FileReader, graph: GroupGraph): void {
  const file = reader.open(source);
  if (file === null) return;
  const context: FileContext = {
    graph,
    placeOf: (at) => ({ file: source.path, line: file.lineOf(at) }),
    warn: (code, message, at) => reader.warn(code, message, { file: source.path, line: file.lineOf(at) }),
    needed: (variable) => reader.needed(variable),
    report: (error) => reader.report(source.path, file, error),
  };
  try {
    addText(source, file, context);
  } catch (error) {
    if (!(error instanceof ReadingError)) throw error;
    context.report(error);
  }
}

function addText(source: SourceFile, file: ParsedFile, context: FileContext): void {
  if (file.text.startsWith('#!')) {
    throw new ReadingError(
      'unreadable-file',
      'the file is a script, which fleet-role never runs; write the hosts out',
      0,
    );
  }
  const extension = extensionOf(source.path);
  if (extension === '.toml') {
    throw new ReadingError('unreadable-file', 'TOML inventories are not read; write it as YAML or INI', 0);
  }
  if (!YAML_EXTENSIONS.includes(extension)) {
    readIniInventory(file.text, context);
    return;
  }
  let root: Node | null;
  try {
    root = file.document();
  } catch (error) {
    if (!(error instanceof ReadingError) || extension !== '' || error.code === 'too-big' || looksLikeYaml(file.text))
      throw error;
    readIniInventory(file.text, context);
    return;
  }
  const node = root === null ? null : resolve(root);
  if (node?.kind === 'mapping') {
    readYamlInventory(node, file.construction, context);
    return;
  }
  if (extension === '') {
    readIniInventory(file.text, context);
    return;
  }
  const value = node === null ? null : file.construction.value(node);
  // An empty file holds no host for Ansible either.
  if (truthy(value)) {
    throw new ReadingError(
      'bad-structure',
      `the inventory is ${typeWord(value)}; it must be groups as keys`,
      node?.at ?? 0,
    );
  }
}

/** Whether the first line that says something is `---`, or a key alone: Ansible takes neither as INI. */
function looksLikeYaml(text: string): boolean {
  const first = /^(?:\ufeff)?(?:[ \t]*(?:[#;].*)?(?:\r\n?|\n))*(.*)/.exec(text)?.[1]?.slice(0, 1000) ?? '';
  return /^---(?:\s|$)|^[^[\s][^#]*:\s*(?:#.*)?$|^\s*\{/.test(first);
}
