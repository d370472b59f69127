/**
 * The youngest event batches of all streams, so that following a live stream reads no row.
 *
 * Filled by durable commits only, those of earlier processes too, because a client that returns to a restarted server asks for the youngest events. Bounded by bytes over all streams together: the oldest batch goes
 * first, whosever it is. A stream that ends lets go of its batches. A batch that is sealed into a block of memory with others is copied out of it: a view would keep
 * the whole block, which the bound does not count. What is not here is read from the log; the bytes are the same (B4).
 *
 * Invariant: what is held of a stream is a dense run.
 */
import { ownCopy } from "./batch-reader.ts";
import type { GroupRecord } from "./commit-record.ts";
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

/** Numbers of streams without batches may wait in the queue, up to so many more than half of it. */
const STALE_MAX = 1_024;

export class EventTail {
  readonly #bytesMax: number;
  readonly #byStream = new Map<number, Fifo<Batch>>();
  /** The stream of each batch, oldest first. */
  readonly #queue = new Fifo<number>();
  #batches = 0;
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** A record that is durable. */
  follow({ entries }: Pick<GroupRecord, "entries">): void {
    for (const { stream, events, meta } of entries) {
      if (meta?.state.end !== undefined) this.drop(stream);
      else if (events !== undefined) this.add(stream, isView(events) ? ownCopy(events) : events);
    }
  }

  /** What is held are views of rows that were read: from now on it is copies, and the rows can go. */
  copyAll(): void {
    for (const held of this.#byStream.values()) {
      held.items = held.items.slice(held.start).map(ownCopy);
      held.start = 0;
    }
  }

  add(stream: number, batch: Batch): void {
    let held = this.#byStream.get(stream);
    const before = held?.items.at(-1);
    // A row that is read again may lack its neighbour: that one was moved.
    const isNext = before === undefined || before.first + before.count === batch.first;
    if (!isNext) this.drop(stream);
    if (held === undefined || !isNext) {
      held = new Fifo();
      this.#byStream.set(stream, held);
    }
    held.items.push(batch);
    this.#queue.items.push(stream);
    this.#count(1, batch);
    while (this.#bytes > this.#bytesMax) this.#evict();
  }

  /** The stream has ended: it gets no more batches. */
  drop(stream: number): void {
    const held = this.#byStream.get(stream);
    for (const batch of held?.items.slice(held.start) ?? []) this.#count(-1, batch);
    this.#byStream.delete(stream);
    const { items, start } = this.#queue;
    if (items.length - start <= 2 * this.#batches + STALE_MAX) return;
    this.#queue.items = items.slice(start).filter((number) => this.#byStream.has(number));
    this.#queue.start = 0;
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
    const stream = this.#queue.shift() ?? 0;
    const held = this.#byStream.get(stream);
    const batch = held?.shift();
    if (held === undefined || batch === undefined) return;
    this.#count(-1, batch);
    if (held.items.length === held.start) this.#byStream.delete(stream);
  }

  #count(more: 1 | -1, batch: Batch): void {
    this.#batches += more;
    this.#bytes += more * (batch.sealed.byteLength + OVERHEAD_BYTES);
  }
}

function isView({ sealed }: Batch): boolean {
  return sealed.buffer.byteLength > sealed.byteLength;
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
