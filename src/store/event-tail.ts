/**
 * The youngest event batches of all streams, so that following a live stream reads no row.
 *
 * Filled by durable commits only, bounded by bytes over all streams together: the oldest batch goes
 * first, whosever it is. What is not here is read from the log; the bytes are the same (B4).
 *
 * Invariant: what is held of a stream is a dense run up to its event head.
 */
import type { Batch } from "./stream-store.ts";

/** What a held batch costs besides its bytes. */
const OVERHEAD_BYTES = 128;

/** A first-in first-out list that is cheap at both ends, however long it grows. */
class Fifo<T> {
  items: T[] = [];
  start = 0;

  shift(): T | undefined {
    const first = this.items[this.start];
    if (first === undefined) return undefined;
    this.start += 1;
    if (this.start * 2 > this.items.length) {
      this.items = this.items.slice(this.start);
      this.start = 0;
    }
    return first;
  }
}

interface Held {
  readonly stream: number;
  readonly batch: Batch;
}

export class EventTail {
  readonly #bytesMax: number;
  readonly #byStream = new Map<number, Fifo<Batch>>();
  readonly #queue = new Fifo<Held>();
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  add(stream: number, batch: Batch): void {
    let held = this.#byStream.get(stream);
    if (held === undefined) {
      held = new Fifo();
      this.#byStream.set(stream, held);
    }
    held.items.push(batch);
    this.#queue.items.push({ stream, batch });
    this.#bytes += cost(batch);
    while (this.#bytes > this.#bytesMax) this.#evict();
  }

  /** The batches from the one that holds `from` on, up to `bytesMax` but at least one; none when it is not held. */
  read(stream: number, from: number, bytesMax: number): readonly Batch[] {
    const held = this.#byStream.get(stream);
    const found: Batch[] = [];
    if (held === undefined || from < (held.items[held.start]?.first ?? Infinity)) return found;
    let bytes = 0;
    for (let at = lastAtOrBefore(held, from); at < held.items.length; at++) {
      const batch = held.items[at];
      if (batch === undefined || batch.first + batch.count <= from) continue;
      bytes += batch.sealed.byteLength;
      if (found.length > 0 && bytes > bytesMax) break;
      found.push(batch);
    }
    return found;
  }

  #evict(): void {
    const oldest = this.#queue.shift();
    if (oldest === undefined) return;
    this.#bytes -= cost(oldest.batch);
    const held = this.#byStream.get(oldest.stream);
    if (held === undefined) return;
    held.shift();
    if (held.items.length === held.start) this.#byStream.delete(oldest.stream);
  }
}

function lastAtOrBefore(held: Fifo<Batch>, from: number): number {
  let low = held.start;
  let high = held.items.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >>> 1;
    if ((held.items[middle]?.first ?? Infinity) <= from) low = middle;
    else high = middle - 1;
  }
  return low;
}

function cost(batch: Batch): number {
  return batch.sealed.byteLength + OVERHEAD_BYTES;
}
