// The objects of the API, kept in etcd or, on a cluster without it, in one file.

import { readFileSync, renameSync, writeFileSync } from 'node:fs';

/** A refusal by the API, in kubectl's words. `during` is what kubectl puts before them when it reads an object. */
export class ApiError extends Error {
  constructor(reason, message, during = '') {
    super(`Error from server (${reason}): ${during}${message}`);
    this.reason = reason;
    this.said = message;
  }
}

/** The kind as the API's sentences name it. */
export const resourceOf = (kind) => (kind === 'leases' ? 'leases.coordination.k8s.io' : kind);

/** SQLite's part: a file with all entries and their versions. */
export class FileBackend {
  #file;
  #entries;

  constructor(file) {
    this.#file = file;
    let text = '';
    try {
      text = readFileSync(file, 'utf8');
    } catch {
      // A new one.
    }
    this.#entries = text === '' ? { revision: 1, kvs: {} } : JSON.parse(text);
    this.#save();
  }

  async range(prefix) {
    return Object.entries(this.#entries.kvs)
      .filter(([key]) => key.startsWith(prefix))
      .map(([key, { value, version }]) => ({ key, value, version }));
  }

  async put(key, value, version) {
    if ((this.#entries.kvs[key]?.version ?? '0') !== version) return null;
    const next = String(++this.#entries.revision);
    if (value === null) delete this.#entries.kvs[key];
    else this.#entries.kvs[key] = { value, version: next };
    this.#save();
    return next;
  }

  #save() {
    writeFileSync(`${this.#file}.new`, JSON.stringify(this.#entries));
    renameSync(`${this.#file}.new`, this.#file);
  }
}

const keyOf = (kind, namespace, name) => `/registry/${kind}/${namespace}/${name}`;

/** Objects by kind, namespace ('' for Nodes) and name, with resourceVersions. */
export class Store {
  #backend;

  constructor(backend) {
    this.#backend = backend;
  }

  async get(kind, namespace, name) {
    const key = keyOf(kind, namespace, name);
    const entry = (await this.#backend.range(key)).find((each) => each.key === key);
    return entry === undefined ? null : parse(entry);
  }

  async list(kind) {
    return (await this.#backend.range(`/registry/${kind}/`)).map(parse);
  }

  /** Makes it, or replaces that version (null: whatever is there). Returns what is stored now. */
  async put(kind, object, version) {
    const { name, namespace = '' } = object.metadata;
    const { resourceVersion: _, ...metadata } = object.metadata;
    const key = keyOf(kind, namespace, name);
    const wanted = version ?? (await this.get(kind, namespace, name))?.metadata.resourceVersion ?? '0';
    const stored = await this.#backend.put(key, JSON.stringify({ ...object, metadata }), wanted);
    if (stored === null) {
      const named = `${resourceOf(kind)} "${name}"`;
      if (wanted === '0') throw new ApiError('AlreadyExists', `${named} already exists`);
      throw new ApiError(
        'Conflict',
        `Operation cannot be fulfilled on ${named}: the object has been modified; please apply your changes to the latest version and try again`,
      );
    }
    return { ...object, metadata: { ...metadata, resourceVersion: stored } };
  }

  /** Changes an object in place; `change` returns the new one, or null to leave it. Null where there is none. */
  async update(kind, namespace, name, change) {
    for (;;) {
      const now = await this.get(kind, namespace, name);
      if (now === null) return null;
      const next = change(structuredClone(now));
      if (next === null || JSON.stringify(next) === JSON.stringify(now)) return now;
      try {
        return await this.put(kind, next, now.metadata.resourceVersion);
      } catch (error) {
        if (error.reason !== 'Conflict' && error.reason !== 'AlreadyExists') throw error;
      }
    }
  }

  /** True when something was deleted. */
  async delete(kind, namespace, name) {
    for (;;) {
      const now = await this.get(kind, namespace, name);
      if (now === null) return false;
      const done = await this.#backend.put(keyOf(kind, namespace, name), null, now.metadata.resourceVersion);
      if (done !== null) return true;
    }
  }

  /** Everything, for a migration to another backend. */
  async copyTo(backend) {
    for (const { key, value } of await this.#backend.range('/registry/')) await backend.put(key, value, '0');
  }
}

function parse({ value, version }) {
  const object = JSON.parse(value);
  return { ...object, metadata: { ...object.metadata, resourceVersion: version } };
}
