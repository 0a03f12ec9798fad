import type { FileReader } from './file-reader.js';
import type { GroupGraph } from './group-graph.js';
import { typeWord } from './raw.js';
import type { SourceFile } from './sources.js';
import { ReadingError } from './text.js';
import { type FileContext, readYamlInventory, truthy } from './yaml-inventory.js';
import { resolve } from './yaml-values.js';

/** Adds one inventory file to the graph in the format that Ansible would settle on. */
export function addInventoryFile(source: SourceFile, reader: FileReader, graph: GroupGraph): void {
  const file = reader.open(source);
  if (file === null) return;
  const context: FileContext = {
    graph,
    placeOf: (at) => ({ file: source.path, line: file.lineOf(at) }),
    warn: (code, message, at) => reader.warn(code, message, { file: source.path, line: file.lineOf(at) }),
    report: (error) => reader.report(source.path, file, error),
  };
  try {
    const root = file.document();
    const node = root === null ? null : resolve(root);
    if (node?.kind === 'mapping') {
      readYamlInventory(node, file.construction, context);
      return;
    }
    const value = node === null ? null : file.construction.value(node);
    if (truthy(value)) {
      throw new ReadingError(
        'bad-structure',
        `the inventory is ${typeWord(value)}; it must be groups as keys`,
        node?.at ?? 0,
      );
    }
  } catch (error) {
    if (!(error instanceof ReadingError)) throw error;
    context.report(error);
  }
}
