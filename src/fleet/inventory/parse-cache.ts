import { parseJson } from './json-parser.js';
import type { Key, Raw } from './raw.js';
import { decodeText, Lines, ReadingError } from './text.js';
import { decryptVault } from './vault.js';
import { type Node, parseYaml } from './yaml-parser.js';
import { Construction } from './yaml-values.js';

/** One file as text and, when it was asked for, as a document. It knows no path: two paths may share one blob. */
export class ParsedFile {
  readonly text: string;
  /** Decrypted from a vault: its lines are not those of the file. */
  readonly decrypted: boolean;
  #lines: Lines | null = null;
  #document: { readonly root: Node | null } | ReadingError | null = null;
  /** The values of the document's nodes. */
  readonly construction = new Construction();
  /** The variables of a vars file, kept by its reader. */
  variables: readonly VarsEntry[] | ReadingError | null = null;

  constructor(text: string, decrypted = false) {
    this.text = text;
    this.decrypted = decrypted;
  }

  /** The line of an offset. */
  lineOf(at: number): number {
    if (this.decrypted) return 1;
    this.#lines ??= new Lines(this.text);
    return this.#lines.lineOf(at);
  }

  /** The document, JSON first as Ansible tries it; null when the file is empty. Throws a ReadingError. */
  document(): Node | null {
    if (this.#document === null) {
      try {
        this.#document = { root: parseJson(this.text) ?? parseYaml(this.text) };
      } catch (error) {
        if (!(error instanceof ReadingError)) throw error;
        this.#document = error;
      }
    }
    if (this.#document instanceof ReadingError) throw this.#document;
    return this.#document.root;
  }
}

/** One variable of a vars file. */
export interface VarsEntry {
  readonly key: Key;
  readonly raw: Raw;
  readonly at: number;
  readonly valueNode: Node;
}

/**
 * What was parsed, by object id: the two commits of a run share most files. Create one for a run and hand it to every
 * `readInventory`.
 */
export class ParseCache {
  readonly #files = new Map<string, ParsedFile | ReadingError>();

  /** The file of an object id as it is. Throws a ReadingError. */
  file(oid: string, bytes: Uint8Array): ParsedFile {
    return this.#kept(oid, () => new ParsedFile(decodeText(bytes)));
  }

  /** The content of an encrypted file. Throws a ReadingError (`vault-locked`). */
  decrypted(oid: string, envelope: string, password: string | null): ParsedFile {
    return this.#kept(`${oid} ${password}`, () => {
      try {
        return new ParsedFile(decodeText(decryptVault(envelope, password)), true);
      } catch (error) {
        if (!(error instanceof ReadingError)) throw error;
        throw new ReadingError(error.code, `the file ${error.message}`, 0);
      }
    });
  }

  #kept(key: string, make: () => ParsedFile): ParsedFile {
    let file = this.#files.get(key);
    if (file === undefined) {
      try {
        file = make();
      } catch (error) {
        if (!(error instanceof ReadingError)) throw error;
        file = error;
      }
      this.#files.set(key, file);
    }
    if (file instanceof ReadingError) throw file;
    return file;
  }
}
