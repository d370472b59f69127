/**
 * What is going to happen, as a binary heap.
 *
 * Entries at the same time run in an order drawn from the seed, so that many seeds explore many
 * interleavings; whoever needs an order (frames of a connection) keeps a queue of its own.
 *
 * Invariant: `pop` never gives an entry that was cancelled, nor one earlier than the one before.
 */
import type { Random } from "./random.ts";

/** Whose entry it is: a process that can die (its entries vanish) or pause (it keeps them for later). */
export interface Owner {
  readonly name: string;
  readonly alive: boolean;
  /** True when the owner took the entry over, to run it when it wakes. */
  hold(run: () => void, label: string | undefined): boolean;
}

export interface Entry {
  readonly atMs: number;
  readonly tie: number;
  readonly serial: number;
  /** Undefined once it was cancelled. */
  run: (() => void) | undefined;
  readonly label: string | undefined;
  readonly owner: Owner | undefined;
}

/** Below this many cancelled entries, cleaning up costs more than it gives. */
const CANCELLED_MIN = 64;

export class EventQueue {
  readonly #random: Random;
  #heap: Entry[] = [];
  #serial = 0;
  #cancelled = 0;

  constructor(random: Random) {
    this.#random = random;
  }

  get size(): number {
    return this.#heap.length - this.#cancelled;
  }

  push(atMs: number, run: () => void, label: string | undefined, owner: Owner | undefined): Entry {
    const entry = { atMs, tie: this.#random.uint32(), serial: this.#serial++, run, label, owner };
    this.#heap.push(entry);
    this.#rise(this.#heap.length - 1, entry);
    return entry;
  }

  cancel(entry: Entry): void {
    if (entry.run === undefined) return;
    entry.run = undefined;
    this.#cancelled++;
    if (this.#cancelled > CANCELLED_MIN && this.#cancelled * 2 > this.#heap.length) this.#compact();
  }

  /** When the next entry is due; undefined when there is none. */
  peekMs(): number | undefined {
    for (;;) {
      const top = this.#heap[0];
      if (top === undefined) return undefined;
      if (top.run !== undefined && top.owner?.alive !== false) return top.atMs;
      // Neutralised as well: a dead process may still cancel it.
      if (top.run === undefined) this.#cancelled--;
      else top.run = undefined;
      this.#removeTop();
    }
  }

  /** Takes the next entry out. Whoever runs it clears `run` first, so that cancelling it later does nothing. */
  pop(): Entry | undefined {
    if (this.peekMs() === undefined) return undefined;
    const top = this.#heap[0];
    this.#removeTop();
    return top;
  }

  #removeTop(): void {
    const last = this.#heap.pop();
    if (last !== undefined && this.#heap.length > 0) this.#sink(0, last);
  }

  #rise(from: number, entry: Entry): void {
    const heap = this.#heap;
    let index = from;
    while (index > 0) {
      const up = (index - 1) >> 1;
      const parent = heap[up];
      if (parent === undefined || before(parent, entry)) break;
      heap[index] = parent;
      index = up;
    }
    heap[index] = entry;
  }

  #sink(from: number, entry: Entry): void {
    const heap = this.#heap;
    let index = from;
    for (;;) {
      let down = 2 * index + 1;
      let child = heap[down];
      if (child === undefined) break;
      const right = heap[down + 1];
      if (right !== undefined && before(right, child)) {
        child = right;
        down++;
      }
      if (before(entry, child)) break;
      heap[index] = child;
      index = down;
    }
    heap[index] = entry;
  }

  /** Cancelled timers far in the future would otherwise fill the heap: most timers are cancelled. */
  #compact(): void {
    this.#heap = this.#heap.filter((entry) => entry.run !== undefined);
    this.#cancelled = 0;
    for (let index = (this.#heap.length >> 1) - 1; index >= 0; index--) {
      const entry = this.#heap[index];
      if (entry !== undefined) this.#sink(index, entry);
    }
  }
}

function before(a: Entry, b: Entry): boolean {
  if (a.atMs !== b.atMs) return a.atMs < b.atMs;
  if (a.tie !== b.tie) return a.tie < b.tie;
  return a.serial < b.serial;
}
