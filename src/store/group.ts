/**
 * One group commit in the making: every operation judged against what is durable and what was staged
 * before it in the same group.
 *
 * Nothing here touches the index or the log. An operation either stages an entry or finds that it may
 * not; either way it has its answer, and `settled` says whether that answer may be given at once or
 * speaks of something that is not durable yet and must wait for the append (B2, D1).
 *
 * A failed assertion is the caller's bug. It is thrown before anything is staged, so the rest of the
 * group does not suffer from it.
 */
import { assert } from "../protocol/assert.ts";
import { joinedBytes } from "../protocol/bytes.ts";
import type { CommitShape, StateChange, StreamName } from "../core/stream-state.ts";
import { applyCommit, FIRST_HOST_EPOCH, newStreamState } from "../core/stream-state.ts";
import type { SealedBlob } from "./blob-store.ts";
import type { GroupRecord, StreamEntry } from "./commit-record.ts";
import type { MovedBatches } from "./moved-logs.ts";
import { encodeMovedBatches, rangeOf } from "./moved-logs.ts";
import type { NumberRange } from "./number-ranges.ts";
import { addNumbers } from "./number-ranges.ts";
import type { Running, StreamIndex, View } from "./stream-index.ts";
import { nameKey, renewedByCommit } from "./stream-index.ts";
import type { Lease } from "./stream-meta.ts";
import type {
  Absent,
  Commit,
  Committed,
  Conflict,
  Creation,
  Gone,
  Held,
  HostLease,
  Live,
  NewBatches,
} from "./stream-store.ts";

export interface Verdict<T> {
  readonly answer: T;
  /** True when the answer rests on durable things only. */
  readonly settled: boolean;
}

interface Staged {
  readonly number: number;
  readonly view: View;
}

/** One stream's batches that are to be moved. */
export interface Move {
  readonly name: StreamName;
  readonly number: number;
  readonly batches: MovedBatches;
}

const ABSENT: Absent = { kind: "absent" };
const NO_LOGS: NewBatches = { chunks: undefined, events: undefined };
export const NO_COMMIT: NonNullable<Creation["first"]> = { ...NO_LOGS, change: {} };
/** Where the logs of a stream stand that is not there yet. */
export const UNBORN = { hostEpoch: FIRST_HOST_EPOCH, nextSeqno: 0, eventHead: 0 };
/** The storage format numbers chunks and events with 32 bits. */
const NUMBER_MAX = 0xffff_ffff;

export class Group {
  readonly #index: StreamIndex;
  readonly #nowMs: number;
  readonly #staged = new Map<string, Staged>();
  readonly #entries: StreamEntry[] = [];
  readonly #bodies: Uint8Array[] = [];
  #bodyBytes = 0;
  /** What goes into the blob store with the record. */
  readonly blobs: SealedBlob[] = [];
  #forgotten: readonly NumberRange[] | undefined;
  #created = 0;

  constructor(index: StreamIndex, nowMs: number) {
    this.#index = index;
    this.#nowMs = Math.floor(nowMs);
  }

  /** What is to be appended; undefined when no operation changed anything. */
  record(): GroupRecord | undefined {
    if (this.#entries.length === 0 && this.#forgotten === undefined) return undefined;
    return { timeMs: this.#nowMs, entries: this.#entries, forgotten: this.#forgotten };
  }

  create({
    name,
    keyCheck,
    conversationCheck,
    host,
    first = NO_COMMIT,
  }: Creation): Verdict<Live | Gone | Committed> {
    assertStorable(name, host.hostId);
    assertContinues({ ...first, expected: UNBORN });
    const key = nameKey(name);
    const { view } = this.#at(key);
    if (view.kind === "live") return this.#verdict(key, live(view));
    if (view.kind === "gone") return this.#verdict(key, view);
    const own = new Uint8Array(keyCheck);
    const unborn = newStreamState(own, this.#nowMs, FIRST_HOST_EPOCH, conversationCheck?.slice());
    const state = applyCommit(unborn, shapeOf(first), this.#nowMs);
    const number = this.#index.nextNumber + this.#created;
    const lease = this.#leaseFor(host);
    this.#created += 1;
    this.blobs.push(...(first.blobs ?? []));
    this.#restate(name, key, number, { kind: "live", state, lease }, first);
    return this.#verdict(key, { kind: "committed", state });
  }

  claim(name: StreamName, host: HostLease): Verdict<Live | Gone | Absent | Held> {
    assertStorable(name, host.hostId);
    const key = nameKey(name);
    const { number, view } = this.#at(key);
    if (view.kind !== "live") return this.#verdict(key, view);
    const leaseLeftMs = view.lease.untilMs - this.#nowMs;
    if (view.lease.hostId !== host.hostId && leaseLeftMs > 0) {
      return this.#verdict(key, { kind: "held", hostId: view.lease.hostId, leaseLeftMs });
    }
    const state = { ...view.state, hostEpoch: view.state.hostEpoch + 1 };
    this.#restate(name, key, number, { kind: "live", state, lease: this.#leaseFor(host) }, NO_LOGS);
    return this.#verdict(key, { kind: "live", state });
  }

  renew(name: StreamName, hostEpoch: number, leaseMs: number): Verdict<boolean> {
    assertLeaseMs(leaseMs);
    return this.#changeLease(name, hostEpoch, (lease) => ({
      ...lease,
      untilMs: Math.max(lease.untilMs, this.#nowMs + leaseMs),
    }));
  }

  release(name: StreamName, hostEpoch: number): Verdict<boolean> {
    return this.#changeLease(name, hostEpoch, (lease) => ({ ...lease, leaseMs: 0, untilMs: 0 }));
  }

  commit(commit: Commit): Verdict<Committed | Conflict> {
    assertContinues(commit);
    const { name, expected, chunks, events, change } = commit;
    const key = nameKey(name);
    const { number, view } = this.#at(key);
    if (view.kind !== "live") return this.#verdict(key, { kind: "conflict", state: undefined });
    const before = view.state;
    if (
      before.hostEpoch !== expected.hostEpoch ||
      before.nextSeqno !== expected.nextSeqno ||
      before.eventHead !== expected.eventHead
    ) {
      return this.#verdict(key, { kind: "conflict", state: before });
    }
    const state = applyCommit(before, shapeOf(commit), this.#nowMs);
    assert(state.nextSeqno <= NUMBER_MAX && state.eventHead < NUMBER_MAX, "a log has at most 2^32 entries");
    const after: Running = { kind: "live", state, lease: renewedByCommit(view.lease, this.#nowMs) };
    this.blobs.push(...(commit.blobs ?? []));
    // A light entry needs a batch: batches pin its row, and with it the activity that it stands for.
    if ((chunks ?? events) !== undefined && isNoChange(change)) {
      this.#stage(key, number, after, { ...NO_ENTRY, stream: number, chunks, events });
    } else {
      this.#restate(name, key, number, after, { chunks, events });
    }
    return this.#verdict(key, { kind: "committed", state });
  }

  expire(name: StreamName, hostEpoch: number): Verdict<Gone | Conflict> {
    const key = nameKey(name);
    const { number, view } = this.#at(key);
    if (view.kind === "gone") return this.#verdict(key, view);
    if (view.kind === "absent") return this.#verdict(key, { kind: "conflict", state: undefined });
    if (view.state.hostEpoch !== hostEpoch) {
      return this.#verdict(key, { kind: "conflict", state: view.state });
    }
    const gone: Gone = { kind: "gone", keyCheck: view.state.keyCheck, goneMs: this.#nowMs };
    const tombstone = { name, keyCheck: gone.keyCheck, goneMs: gone.goneMs };
    this.#stage(key, number, gone, { ...NO_ENTRY, stream: number, tombstone });
    return this.#verdict(key, gone);
  }

  /** Only durable tombstones: one that is staged in this group is younger than any that is asked for. */
  forgetGone(beforeMs: number): Verdict<number> {
    const numbers: number[] = [];
    for (const { name, number, view } of this.#index.tombstones()) {
      if (name === undefined || view.kind !== "gone" || view.goneMs >= beforeMs) continue;
      const key = nameKey(name);
      if (this.#staged.has(key)) continue;
      this.#staged.set(key, { number, view: ABSENT });
      numbers.push(number);
    }
    if (numbers.length > 0) {
      this.#forgotten = addNumbers(this.#forgotten ?? this.#index.forgotten, numbers);
    }
    return { answer: numbers.length, settled: this.#forgotten === undefined };
  }

  /** Replaces streams by tombstones and forgets these at once, with those that there are. */
  forget(names: readonly StreamName[]): Verdict<number> {
    const numbers: number[] = [];
    for (const name of names) {
      const key = nameKey(name);
      const { number, view } = this.#at(key);
      if (view.kind === "absent") continue;
      const { keyCheck } = view.kind === "gone" ? view : view.state;
      const tombstone = { name, keyCheck, goneMs: this.#nowMs };
      if (view.kind === "gone") this.#staged.set(key, { number, view: ABSENT });
      else this.#stage(key, number, ABSENT, { ...NO_ENTRY, stream: number, tombstone });
      numbers.push(number);
    }
    if (numbers.length > 0) this.#forgotten = addNumbers(this.#forgotten ?? this.#index.forgotten, numbers);
    return { answer: numbers.length, settled: numbers.length === 0 };
  }

  /** Writes the batches of a stream once more, into this group's body, and restates it. False when it is gone. */
  move({ name, number, batches }: Move): Verdict<boolean> {
    const key = nameKey(name);
    const at = this.#at(key);
    if (at.view.kind !== "live" || at.number !== number) return this.#verdict(key, false);
    const { state, lease } = at.view;
    // What the floor has passed meanwhile is gone.
    const events = rangeOf(batches.events);
    const isPassed = events.first + events.count <= state.eventFloor;
    const kept = isPassed ? { ...batches, events: [] } : batches;
    const body = encodeMovedBatches(kept);
    const moved = {
      chunks: rangeOf(kept.chunks),
      events: rangeOf(kept.events),
      bodyOffset: this.#bodyBytes,
      bodyLength: body.byteLength,
    };
    this.#bodies.push(body);
    this.#bodyBytes += body.byteLength;
    this.#stage(key, number, at.view, { ...NO_ENTRY, stream: number, meta: { name, state, lease }, moved });
    return this.#verdict(key, true);
  }

  /** What goes beside the record; undefined when nothing was moved. */
  body(): Uint8Array | undefined {
    return this.#bodyBytes === 0 ? undefined : joinedBytes(this.#bodies);
  }

  #changeLease(name: StreamName, hostEpoch: number, next: (lease: Lease) => Lease): Verdict<boolean> {
    const key = nameKey(name);
    const { number, view } = this.#at(key);
    if (view.kind !== "live" || view.state.hostEpoch !== hostEpoch) return this.#verdict(key, false);
    this.#restate(name, key, number, { ...view, lease: next(view.lease) }, NO_LOGS);
    return this.#verdict(key, true);
  }

  #at(key: string): Staged {
    return this.#staged.get(key) ?? this.#index.find(key) ?? { number: 0, view: ABSENT };
  }

  #restate(
    name: StreamName,
    key: string,
    number: number,
    view: Running,
    { chunks, events }: NewBatches,
  ): void {
    const meta = { name, state: view.state, lease: view.lease };
    this.#stage(key, number, view, { ...NO_ENTRY, stream: number, chunks, events, meta });
  }

  #stage(key: string, number: number, view: View, entry: StreamEntry): void {
    this.#staged.set(key, { number, view });
    this.#entries.push(entry);
  }

  #verdict<T>(key: string, answer: T): Verdict<T> {
    return { answer, settled: !this.#staged.has(key) };
  }

  #leaseFor({ hostId, leaseMs }: HostLease): Lease {
    assertLeaseMs(leaseMs);
    return { hostId, leaseMs, untilMs: this.#nowMs + leaseMs };
  }
}

const NO_ENTRY = {
  ...NO_LOGS,
  meta: undefined,
  tombstone: undefined,
  moved: undefined,
} as const;

export function live(view: Running): Live {
  return { kind: "live", state: view.state };
}

/** Whether a commit only lengthens the logs. */
export function isNoChange(change: StateChange): boolean {
  return (
    change.writer === undefined &&
    change.closed === undefined &&
    change.aborted === undefined &&
    change.end === undefined &&
    change.eventFloor === undefined
  );
}

/** A lone surrogate would be read back from the disk as another name. */
function assertStorable(name: StreamName, hostId: string): void {
  assert(name.principal.isWellFormed(), "a principal is well-formed text");
  assert(name.idempotencyKey.isWellFormed(), "an idempotency key is well-formed text");
  assert(hostId.isWellFormed(), "a host id is well-formed text");
}

export function shapeOf({
  chunks,
  events,
  change,
}: Pick<Commit, "chunks" | "events" | "change">): CommitShape {
  return { chunkCount: chunks?.count ?? 0, eventCount: events?.count ?? 0, change };
}

export function assertContinues({ expected, chunks, events, change }: Omit<Commit, "name">): void {
  assert(chunks === undefined || chunks.first === expected.nextSeqno, "chunks begin at the next seqno");
  assert(chunks === undefined || chunks.macs.length === chunks.count, "each chunk has its MAC");
  assert(events === undefined || events.first === expected.eventHead + 1, "events begin after the head");
  for (const batch of [chunks, events]) {
    assert(
      batch === undefined || (Number.isSafeInteger(batch.count) && batch.count >= 1),
      "a batch holds something",
    );
  }
  for (const writer of change.writer?.writers ?? []) {
    assert(writer.journalId.isWellFormed(), "a journal id is well-formed text");
  }
}

export function assertLeaseMs(leaseMs: number): void {
  assert(Number.isSafeInteger(leaseMs) && leaseMs >= 0, "a lease is a whole number of milliseconds");
}
