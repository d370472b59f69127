/**
 * What is really durable: the server's disk, read past the server.
 *
 * The truth is decrypted from the rows that would survive a power cut right now, so a server cannot
 * talk its way around it. Whatever becomes durable is checked as it does; whatever the server tells
 * anybody is checked against it (`frame-checks.ts`).
 */
import { decodeFormat, decodeRecord } from "../../src/store/commit-record.ts";
import type { StreamEntry } from "../../src/store/commit-record.ts";
import type { Batch } from "../../src/store/stream-store.ts";
import { applyCommit, type StreamName, type StreamState } from "../../src/core/stream-state.ts";
import type { SyncSealer } from "../../src/sealing/index.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { type LogEntry, unpackEntries } from "../../src/server/entries.ts";
import type { SimDisk } from "./world/index.ts";

export interface TrueStream {
  readonly name: StreamName;
  state: StreamState;
  /** Set once a tombstone has replaced the stream. */
  isGone: boolean;
  readonly chunks: LogEntry[];
  readonly events: LogEntry[];
  /** In the world's time. */
  readonly beganMs: number;
  /** The event head when the abort became durable. */
  abortedAt: number | undefined;
}

/** Told of everything that becomes durable, in order. */
export interface TruthListener {
  began(stream: TrueStream): void;
  chunk(stream: TrueStream, seqno: number, entry: LogEntry): void;
  event(stream: TrueStream, eventId: number, entry: LogEntry): void;
  changed(stream: TrueStream, before: StreamState): void;
  gone(stream: TrueStream): void;
}

/** Tells all of them, in order. */
export function everyListener(listeners: readonly TruthListener[]): TruthListener {
  return {
    began: (stream) => listeners.forEach((one) => one.began(stream)),
    chunk: (stream, seqno, entry) => listeners.forEach((one) => one.chunk(stream, seqno, entry)),
    event: (stream, eventId, entry) => listeners.forEach((one) => one.event(stream, eventId, entry)),
    changed: (stream, before) => listeners.forEach((one) => one.changed(stream, before)),
    gone: (stream) => listeners.forEach((one) => one.gone(stream)),
  };
}

export class Truth {
  readonly #disk: SimDisk;
  readonly #streamKeyOf: (idempotencyKey: string) => Uint8Array;
  readonly #listener: TruthListener;
  readonly #sealing = nodeSealing({ randomBytes: (count) => new Uint8Array(count) });
  readonly #sealers = new Map<string, SyncSealer>();
  readonly #byNumber = new Map<number, TrueStream>();
  readonly #byName = new Map<string, TrueStream>();
  readonly #nonces = new Set<string>();
  #version = 0;
  #lastRow = 0;

  constructor(disk: SimDisk, streamKeyOf: (idempotencyKey: string) => Uint8Array, listener: TruthListener) {
    this.#disk = disk;
    this.#streamKeyOf = streamKeyOf;
    this.#listener = listener;
  }

  get streams(): Iterable<TrueStream> {
    return this.#byName.values();
  }

  of(principal: string, idempotencyKey: string): TrueStream | undefined {
    this.refresh();
    return this.#byName.get(nameId({ principal, idempotencyKey }));
  }

  /** Cheap when nothing became durable since the last call. */
  refresh(): void {
    const version = this.#disk.version();
    if (version === this.#version) return;
    this.#version = version;
    for (const { row, record } of this.#disk.durableRows("commits", this.#lastRow)) {
      this.#lastRow = row;
      if (decodeFormat(record) !== undefined) continue;
      const group = decodeRecord(record);
      for (const entry of group.entries) this.#apply(entry, group.timeMs);
    }
  }

  #apply(entry: StreamEntry, timeMs: number): void {
    if (entry.tombstone !== undefined) {
      const gone = this.#byNumber.get(entry.stream);
      if (gone !== undefined && !gone.isGone) {
        gone.isGone = true;
        this.#listener.gone(gone);
      }
      return;
    }
    const stream = this.#byNumber.get(entry.stream) ?? this.#begin(entry);
    const before = stream.state;
    const shape = { chunkCount: entry.chunks?.count ?? 0, eventCount: entry.events?.count ?? 0, change: {} };
    const state = entry.meta?.state ?? applyCommit(before, shape, timeMs);
    const chunks = this.#open(stream, "chunks", entry.chunks);
    const events = this.#open(stream, "events", entry.events);
    for (const one of events) {
      stream.events.push(one);
      this.#listener.event(stream, stream.events.length, one);
    }
    stream.state = state;
    for (const one of chunks) {
      stream.chunks.push(one);
      this.#listener.chunk(stream, stream.chunks.length - 1, one);
    }
    if (state.aborted && stream.abortedAt === undefined) stream.abortedAt = state.eventHead;
    this.#listener.changed(stream, before);
  }

  #begin(entry: StreamEntry): TrueStream {
    const { meta } = entry;
    if (meta === undefined) throw new Error("a stream begins with its state");
    const before = this.#byName.get(nameId(meta.name));
    if (before !== undefined) throw new Error("A7: a stream began a second time under the same name");
    const stream: TrueStream = {
      name: meta.name,
      state: { ...meta.state, nextSeqno: 0, eventHead: 0, end: undefined, writers: [] },
      isGone: false,
      chunks: [],
      events: [],
      beganMs: this.#disk.world.nowMs,
      abortedAt: undefined,
    };
    this.#byNumber.set(entry.stream, stream);
    this.#byName.set(nameId(meta.name), stream);
    this.#listener.began(stream);
    return stream;
  }

  #open(stream: TrueStream, direction: "chunks" | "events", batch: Batch | undefined): readonly LogEntry[] {
    if (batch === undefined) return [];
    const { first, count, sealed } = batch;
    const expected = direction === "chunks" ? stream.chunks.length : stream.events.length + 1;
    if (first !== expected) throw new Error(`A1, B1: ${direction} go on at ${first}, not at ${expected}`);
    this.#checkNonce(stream, direction, sealed);
    const label = JSON.stringify([stream.name.principal, stream.name.idempotencyKey]);
    const opened = this.#sealerOf(stream).open(
      { stream: label, direction, first, count, kind: "batch" },
      sealed,
    );
    return unpackEntries(opened, count);
  }

  /** Version, incarnation, counter: together with stream and direction they are key and nonce. */
  #checkNonce(stream: TrueStream, direction: string, sealed: Uint8Array): void {
    const header = Buffer.from(sealed.subarray(0, 25)).toString("latin1");
    const used = `${nameId(stream.name)} ${direction} ${header}`;
    if (this.#nonces.has(used)) throw new Error("E3: a key and nonce were used twice");
    this.#nonces.add(used);
  }

  #sealerOf(stream: TrueStream): SyncSealer {
    const id = nameId(stream.name);
    const known = this.#sealers.get(id);
    if (known !== undefined) return known;
    const sealer = this.#sealing.sealer(this.#streamKeyOf(stream.name.idempotencyKey));
    this.#sealers.set(id, sealer);
    return sealer;
  }
}

export function nameId(name: StreamName): string {
  return JSON.stringify([name.principal, name.idempotencyKey]);
}
