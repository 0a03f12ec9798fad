/**
 * A map that shows another one with a few entries replaced, added or taken out, without copying it: 10,000 hosts share
 * the variables of their groups. Entries keep the other map's order; added ones follow.
 */
export class OverlayMap<K, V> implements ReadonlyMap<K, V> {
  readonly #base: ReadonlyMap<K, V>;
  readonly #own: ReadonlyMap<K, V>;
  readonly #removed: ReadonlySet<K>;
  #size: number | null = null;

  constructor(base: ReadonlyMap<K, V>, own: ReadonlyMap<K, V>, removed: ReadonlySet<K>) {
    this.#base = base;
    this.#own = own;
    this.#removed = removed;
  }

  get size(): number {
    if (this.#size === null) {
      let size = 0;
      for (const _ of this.keys()) size++;
      this.#size = size;
    }
    return this.#size;
  }

  get(key: K): V | undefined {
    if (this.#removed.size > 0 && this.#removed.has(key)) return undefined;
    return this.#own.get(key) ?? this.#base.get(key);
  }

  has(key: K): boolean {
    return !this.#removed.has(key) && (this.#own.has(key) || this.#base.has(key));
  }

  forEach(callback: (value: V, key: K, map: ReadonlyMap<K, V>) => void): void {
    // Not by `entries`: two generators a host would be most of the cost of a big fleet.
    this.#base.forEach((value, key) => {
      if (!this.#removed.has(key)) callback(this.#own.get(key) ?? value, key, this);
    });
    this.#own.forEach((value, key) => {
      if (!this.#removed.has(key) && !this.#base.has(key)) callback(value, key, this);
    });
  }

  *entries(): MapIterator<[K, V]> {
    for (const [key, value] of this.#base) if (!this.#removed.has(key)) yield [key, this.#own.get(key) ?? value];
    for (const [key, value] of this.#own) if (!this.#removed.has(key) && !this.#base.has(key)) yield [key, value];
  }

  *keys(): MapIterator<K> {
    for (const [key] of this.entries()) yield key;
  }

  *values(): MapIterator<V> {
    for (const [, value] of this.entries()) yield value;
  }

  [Symbol.iterator](): MapIterator<[K, V]> {
    return this.entries();
  }
}
