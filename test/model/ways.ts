/** 53 bits of a text: two multiplicative hashes that are mixed into each other. Not for anything that needs secrecy. */
export function hash53(text: string): number {
  let low = 0xdeadbeef;
  let high = 0x41c6ce57;
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    low = Math.imul(low ^ code, 2654435761);
    high = Math.imul(high ^ code, 1597334677);
  }
  low = Math.imul(low ^ (low >>> 16), 2246822507) ^ Math.imul(high ^ (high >>> 13), 3266489909);
  high = Math.imul(high ^ (high >>> 16), 2246822507) ^ Math.imul(low ^ (low >>> 13), 3266489909);
  return 4294967296 * (2097151 & high) + (low >>> 0);
}

/**
 * The states that were seen, each as 53 bits of its key (two of a million states fall together with a chance of about
 * one in 20,000), the way by which each was first reached, and the ways that cost nothing.
 */
export class Ways {
  readonly #ids = new Map<number, number>();
  readonly #parents: number[] = [];
  readonly #labels: string[] = [];
  readonly #interned = new Map<string, string>();
  readonly #from: number[] = [];
  readonly #to: number[] = [];
  edges = 0;

  get size(): number {
    return this.#parents.length;
  }

  /** The number of this state; `isNew` is called with it when it was not seen before. */
  add(key: string, parent: number, label: string, isNew: (id: number) => void): number {
    this.edges += 1;
    const hash = hash53(key);
    const known = this.#ids.get(hash);
    if (known !== undefined) return known;
    const id = this.#parents.length;
    this.#ids.set(hash, id);
    this.#parents.push(parent);
    const same = this.#interned.get(label);
    if (same === undefined) this.#interned.set(label, label);
    this.#labels.push(same ?? label);
    isNew(id);
    return id;
  }

  connect(from: number, to: number): void {
    this.#from.push(from);
    this.#to.push(to);
  }

  pathTo(id: number): readonly string[] {
    const path: string[] = [];
    for (let at = id; at > 0; at = this.#parents[at] ?? -1) path.push(this.#labels[at] ?? '');
    return path.reverse();
  }

  /** A state from which ways that cost nothing lead back to it; null when every such way ends. */
  loop(): number | null {
    const size = this.size;
    const into = new Int32Array(size);
    const first = new Int32Array(size + 1);
    for (const from of this.#from) first[from + 1] = (first[from + 1] ?? 0) + 1;
    for (let id = 0; id < size; id += 1) first[id + 1] = (first[id + 1] ?? 0) + (first[id] ?? 0);
    const fill = first.slice();
    const next = new Int32Array(this.#from.length);
    this.#from.forEach((from, index) => {
      const to = this.#to[index] ?? 0;
      const place = fill[from] ?? 0;
      next[place] = to;
      fill[from] = place + 1;
      into[to] = (into[to] ?? 0) + 1;
    });
    const free: number[] = [];
    for (let id = 0; id < size; id += 1) if (into[id] === 0) free.push(id);
    let left = size;
    for (let at = free.pop(); at !== undefined; at = free.pop()) {
      left -= 1;
      for (let edge = first[at] ?? 0; edge < (first[at + 1] ?? 0); edge += 1) {
        const to = next[edge] ?? 0;
        into[to] = (into[to] ?? 0) - 1;
        if (into[to] === 0) free.push(to);
      }
    }
    if (left === 0) return null;
    // Who is left lies on a loop or behind one; going on among them comes round.
    let at = into.findIndex((count) => count > 0);
    const seen = new Set<number>();
    const back = new Map<number, number>();
    for (let from = 0; from < size; from += 1) {
      if ((into[from] ?? 0) === 0) continue;
      for (let edge = first[from] ?? 0; edge < (first[from + 1] ?? 0); edge += 1) {
        const to = next[edge] ?? 0;
        if ((into[to] ?? 0) > 0 && !back.has(to)) back.set(to, from);
      }
    }
    while (!seen.has(at)) {
      seen.add(at);
      at = back.get(at) ?? at;
    }
    // Show it from its first state on.
    return Math.min(...[...seen].filter((id) => this.#onLoop(id, back)));
  }

  #onLoop(id: number, back: ReadonlyMap<number, number>): boolean {
    let at = back.get(id) ?? id;
    for (let steps = 0; steps <= back.size; steps += 1) {
      if (at === id) return true;
      at = back.get(at) ?? id;
    }
    return false;
  }
}
