/**
 * Maps and sets for what comes and goes: they live as long as the process, their values as long as an answer.
 *
 * The engine makes a new table when a `Map` or a `Set` grows or shrinks. The old table still points at what was in it and at its successor until the old objects
 * are collected, and so all that these values lead to grows old with it (decision 240). Here a table holds boxes, which are emptied, or there is none.
 */

export class PassingMap<Key, Value> {
  readonly #boxes = new Map<Key, { value: Value | undefined }>();

  get size(): number {
    return this.#boxes.size;
  }

  get(key: Key): Value | undefined {
    return this.#boxes.get(key)?.value;
  }

  has(key: Key): boolean {
    return this.#boxes.has(key);
  }

  set(key: Key, value: Value): void {
    const box = this.#boxes.get(key);
    if (box === undefined) this.#boxes.set(key, { value });
    else box.value = value;
  }

  delete(key: Key): void {
    const box = this.#boxes.get(key);
    if (box !== undefined) box.value = undefined;
    this.#boxes.delete(key);
  }

  *values(): Generator<Value, void> {
    for (const { value } of this.#boxes.values()) if (value !== undefined) yield value;
  }
}

/** In the order in which they came. */
export class PassingSet<Value> {
  readonly #values: Value[] = [];

  get size(): number {
    return this.#values.length;
  }

  /** Returns how to take it out again. */
  add(value: Value): () => void {
    this.#values.push(value);
    return () => this.delete(value);
  }

  delete(value: Value): void {
    const at = this.#values.indexOf(value);
    if (at !== -1) this.#values.splice(at, 1);
  }

  /** Those of now. */
  [Symbol.iterator](): Iterator<Value> {
    return [...this.#values].values();
  }
}
