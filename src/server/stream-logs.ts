/**
 * The two logs of one stream as the host reads and writes them: sealed below, plain above.
 *
 * Recent events stay in memory, so that live delivery needs neither the store nor the cipher; it is
 * the same read all the same, from wherever the cursor stands (B2).
 */
import type { StreamName } from "../core/stream-state.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { decodeClientFrame, encodeClientFrame } from "../protocol/frame-codec.ts";
import type { ClientFrame, EndReason } from "../protocol/frames.ts";
import { LIMITS } from "../protocol/limits.ts";
import type { SharedEvent } from "../protocol/shared-event.ts";
import type { SealedLabel, SyncSealer } from "../sealing/index.ts";
import type { Batch, ChunkBatch, StreamStore } from "../store/stream-store.ts";
import { type LogEntry, nameText, packEntries, unpackEntries } from "./entries.ts";

export interface LoggedEvent {
  readonly eventId: number;
  readonly body: Uint8Array;
  readonly end: EndReason | undefined;
}

export interface LoggedChunk {
  readonly seqno: number;
  readonly body: Uint8Array;
  readonly isClose: boolean;
  readonly mac: Uint8Array;
}

export interface FrameByLetter {
  readonly frame: ClientFrame;
  /** The writer epoch that it speaks for, or asks for. */
  readonly writerEpoch: number;
  /** With this client the other node could run the turn. */
  readonly canRun: boolean;
}

/** A writer epoch and a flag. */
const LETTER_HEAD_BYTES = 5;

/** The reading half: all that an application's run needs. */
export interface LogReader {
  /** Durable events from `from` on, as many as one read gives; rejects when there is none. */
  readEvents(from: number): Promise<readonly LoggedEvent[]>;
  readChunks(from: number): Promise<readonly LoggedChunk[]>;
}

/**
 * Enough for a reader that is a commit or two behind; more is read from the store. Kept small, because a thousand busy streams have a
 * thousand of these, and whatever stays this long is work for the garbage collector.
 */
const TAIL_BYTES = 32 * 1024;

/** More is kept of the youngest commit: live readers are about to ask for it. */
const TAIL_BYTES_MAX = 256 * 1024;

/** An event's objects around its body. */
const EVENT_HEAD_BYTES = 100;

/** One read of the store for an application: what is read at once is also opened at once, and clients wait meanwhile. */
const READ_BYTES = 64 * 1024;

/** What is kept while an application reads its log back: some thousand words. */
const OPENED_BYTES_MAX = 512 * 1024;

export class StreamLogs implements LogReader {
  readonly #store: StreamStore;
  readonly #name: StreamName;
  readonly #label: string;
  readonly #sealer: SyncSealer;
  #tail: SharedEvent[] = [];
  #tailBytes = 0;
  /** A run of events up to the last that was opened, while an application reads its log back. Clients read the same log then. */
  #opened: LoggedEvent[] | undefined;

  constructor(store: StreamStore, name: StreamName, sealer: SyncSealer) {
    this.#store = store;
    this.#name = name;
    this.#sealer = sealer;
    this.#label = nameText(name);
  }

  sealChunks(first: number, chunks: readonly LoggedChunk[]): ChunkBatch {
    const entries = chunks.map(({ body, isClose }): LogEntry => ({
      mark: isClose ? "close" : "plain",
      body,
    }));
    return { ...this.#seal("chunks", first, entries), macs: chunks.map(({ mac }) => mac) };
  }

  sealEvents(first: number, events: readonly LoggedEvent[]): Batch {
    const entries = events.map(({ body, end }): LogEntry => ({ mark: end ?? "plain", body }));
    return this.#seal("events", first, entries);
  }

  /** Called once the events are durable, before any reader gets them. */
  remember(events: readonly SharedEvent[]): void {
    for (const event of events) {
      this.#tail.push(event);
      this.#tailBytes += EVENT_HEAD_BYTES + event.body.length;
    }
    // Only when much has gathered: each cut copies what is left.
    if (this.#tailBytes > 2 * TAIL_BYTES) this.#trimTail(this.#tail.length - events.length);
  }

  #trimTail(olderCount: number): void {
    let dropped = 0;
    for (const { body } of this.#tail) {
      const bound = dropped < olderCount ? TAIL_BYTES : TAIL_BYTES_MAX;
      if (this.#tailBytes <= bound || dropped === this.#tail.length - 1) break;
      this.#tailBytes -= EVENT_HEAD_BYTES + body.length;
      dropped++;
    }
    if (dropped > 0) this.#tail = this.#tail.slice(dropped);
  }

  /** The recent events from `from` on, or undefined when they are no longer in memory. */
  recent(from: number): readonly SharedEvent[] | undefined {
    const first = this.#tail[0];
    return first !== undefined && first.eventId <= from ? this.#tail.slice(from - first.eventId) : undefined;
  }

  /** An application begins, or has ceased, to read its log back. Meanwhile each event is opened once for all readers. */
  readingBack(isSo: boolean): void {
    this.#opened = isSo ? [] : undefined;
  }

  async readEvents(from: number, bytesMax = READ_BYTES): Promise<readonly LoggedEvent[]> {
    const [oldest] = this.#opened ?? [];
    const known =
      oldest === undefined || oldest.eventId > from ? undefined : this.#opened?.slice(from - oldest.eventId);
    if (known !== undefined && known.length > 0) return fitting(known, bytesMax);
    const batches = present(await this.#store.readEvents(this.#name, from, bytesMax));
    const events = batches
      .flatMap((batch) => this.#openEvents(batch))
      .filter(({ eventId }) => eventId >= from);
    this.#keepOpened(events);
    return events;
  }

  #keepOpened(events: readonly LoggedEvent[]): void {
    if (this.#opened === undefined) return;
    const isNext = (this.#opened.at(-1)?.eventId ?? 0) + 1 === events[0]?.eventId;
    const kept = isNext ? [...this.#opened, ...events] : events;
    this.#opened = fitting(kept.toReversed(), OPENED_BYTES_MAX).toReversed();
  }

  async readChunks(from: number): Promise<readonly LoggedChunk[]> {
    const batches = present(await this.#store.readChunks(this.#name, from, READ_BYTES));
    return batches.flatMap((batch) => this.#openChunks(batch)).filter(({ seqno }) => seqno >= from);
  }

  /** A client's frame for the node that runs the stream. */
  sealLetter({ frame, writerEpoch, canRun }: FrameByLetter): Uint8Array {
    const encoded = encodeClientFrame(frame, this.#name.idempotencyKey);
    const plain = new Uint8Array(LETTER_HEAD_BYTES + encoded.length);
    const view = new DataView(plain.buffer);
    view.setUint32(0, writerEpoch);
    view.setUint8(4, Number(canRun));
    plain.set(encoded, LETTER_HEAD_BYTES);
    return new Uint8Array(this.#sealer.seal(this.#letterLabel(), plain));
  }

  openLetter(sealed: Uint8Array): FrameByLetter {
    const plain = this.#sealer.open(this.#letterLabel(), sealed);
    const view = new DataView(plain.buffer, plain.byteOffset);
    const { frame } = decodeClientFrame(plain.subarray(LETTER_HEAD_BYTES));
    return { frame, writerEpoch: view.getUint32(0), canRun: view.getUint8(4) === 1 };
  }

  #letterLabel(): SealedLabel {
    return { stream: this.#label, direction: "letter", first: 0, count: 1, kind: "letter" };
  }

  #openEvents(batch: Batch): readonly LoggedEvent[] {
    return this.#open("events", batch).map(({ mark, body }, at) => ({
      eventId: batch.first + at,
      body,
      end: mark === "plain" || mark === "close" ? undefined : mark,
    }));
  }

  #openChunks(batch: ChunkBatch): readonly LoggedChunk[] {
    return this.#open("chunks", batch).map(({ mark, body }, at) => ({
      seqno: batch.first + at,
      body,
      isClose: mark === "close",
      mac: batch.macs[at] ?? new Uint8Array(),
    }));
  }

  #seal(direction: "chunks" | "events", first: number, entries: readonly LogEntry[]): Batch {
    const count = entries.length;
    const label = { stream: this.#label, direction, first, count, kind: "batch" };
    return { first, count, sealed: this.#sealer.seal(label, packEntries(entries)) };
  }

  #open(direction: "chunks" | "events", { first, count, sealed }: Batch): readonly LogEntry[] {
    const label = { stream: this.#label, direction, first, count, kind: "batch" };
    return unpackEntries(this.#sealer.open(label, sealed), count);
  }
}

/** The first of them, up to about so much but at least one. */
function fitting(events: readonly LoggedEvent[], bytesMax: number): LoggedEvent[] {
  let bytes = 0;
  const end = events.findIndex(({ body }) => (bytes += EVENT_HEAD_BYTES + body.length) > bytesMax);
  return events.slice(0, end === -1 ? events.length : Math.max(1, end));
}

/** The reader asks only for events that exist. If nothing comes, the stream is gone, and asking again would not help. */
export function present<Read>(batches: readonly Read[]): readonly Read[] {
  if (batches.length === 0) throw new HoldfastError("unavailable", "the log is not there any more");
  return batches;
}

/** The MACs of the chunks from `first` on, of which there are `nextSeqno` in all: as many as can be unacknowledged, the newest. */
export async function readMacs(
  store: StreamStore,
  name: StreamName,
  from: number,
  nextSeqno: number,
): Promise<readonly Uint8Array[]> {
  const first = Math.max(from, nextSeqno - LIMITS.unackedChunksMax);
  const macs: Uint8Array[] = [];
  for (let seqno = first; seqno < nextSeqno; seqno = first + macs.length) {
    for (const batch of present(await store.readChunks(name, seqno, LIMITS.unackedBytesMax))) {
      macs.push(...batch.macs.slice(Math.max(0, first + macs.length - batch.first)));
    }
  }
  return macs.slice(0, nextSeqno - first);
}
