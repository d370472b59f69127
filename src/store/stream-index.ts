/**
 * What is durable, in memory: for each stream its state, its lease and where its batches lie. Streams that are over and quiet rest
 * as short texts (`resting.ts`) until one is asked for.
 *
 * The index changes in one way only, by the record of a group commit that is durable (`apply`), and
 * the same call rebuilds it from the log. So what a restart finds is what was there before, and
 * nothing is in the index that is not on the disk (A3, B2).
 *
 * Invariant: a row is pinned while it holds the last state of a stream, a batch that can still be
 * read, a tombstone, or the list of forgotten numbers; everything else in it may go.
 */
import { assert } from "../protocol/assert.ts";
import type { StreamName } from "../core/stream-state.ts";
import { applyCommit } from "../core/stream-state.ts";
import type { GroupRecord, StreamEntry } from "./commit-record.ts";
import type { NumberRange } from "./number-ranges.ts";
import { hasNumber } from "./number-ranges.ts";
import type { MovedLogs } from "./moved-logs.ts";
import { activityOf, packed, unpacked } from "./resting.ts";
import { rowAges } from "./row-ages.ts";
import { RowPins } from "./row-pins.ts";
import { SegmentList } from "./segment-list.ts";
import type { Lease } from "./stream-meta.ts";
import type { Absent, Gone, Live, LogName } from "./stream-store.ts";
import { LOGS } from "./stream-store.ts";

/** A live stream together with its lease. */
export interface Running extends Live {
  readonly lease: Lease;
}

export type View = Running | Gone | Absent;

/** One stream, under the number it was created with. */
export interface Slot {
  readonly number: number;
  /** Undefined while a rebuild has met entries of the stream but not yet its state. */
  name: StreamName | undefined;
  view: View;
  chunks: SegmentList;
  events: SegmentList;
  /** The row of the last restated state, or of the tombstone. */
  viewRow: number | undefined;
  /** What lies below these numbers was moved. */
  readonly moved: Record<LogName, number>;
}

const ABSENT: Absent = { kind: "absent" };
/** Packing so many takes some milliseconds. */
const REST_COUNT_MAX = 1_024;
/** Shared by all tombstones, which are many and have no batches. */
const NO_SEGMENTS = new SegmentList();

/** Principals may hold any character, so the length keeps the two parts apart. */
export function nameKey({ principal, idempotencyKey }: StreamName): string {
  return `${principal.length}:${principal}${idempotencyKey}`;
}

function nameIn(key: string): StreamName {
  const begin = key.indexOf(":") + 1;
  const end = begin + Number(key.slice(0, begin - 1));
  return { principal: key.slice(begin, end), idempotencyKey: key.slice(end) };
}

/** A commit renews the lease to what its claim asked for, and never shortens it. */
export function renewedByCommit(lease: Lease, nowMs: number): Lease {
  return { ...lease, untilMs: Math.max(lease.untilMs, nowMs + lease.leaseMs) };
}

export class StreamIndex {
  readonly #byNumber = new Map<number, Slot>();
  readonly #byName = new Map<string, Slot>();
  readonly #openOf = new Map<string, number>();
  readonly #gone = new Set<Slot>();
  /** Streams that are over, by name, as short texts; none of them has a slot. */
  readonly #resting = new Map<string, string>();
  /** Which rows are needed, and how old they are. */
  readonly pins = new RowPins();
  readonly ages = rowAges();
  #forgotten: readonly NumberRange[] = [];
  #forgottenRow: number | undefined;
  #nextNumber = 1;

  get nextNumber(): number {
    return this.#nextNumber;
  }

  get forgotten(): readonly NumberRange[] {
    return this.#forgotten;
  }

  /** The slot is good for this turn of the event loop: a stream that comes to rest gets another one. */
  find(key: string): Slot | undefined {
    return this.#byName.get(key) ?? this.#wake(key);
  }

  /**
   * Packs streams that have been over since `quietSinceMs`, some at a time; true when more may be left.
   * Call it only while no commit is under way: what is staged knows its stream by the slot's number.
   */
  rest(quietSinceMs: number): boolean {
    const most = this.#resting.size + REST_COUNT_MAX;
    for (const [key, slot] of this.#byName) {
      if (slot.view.kind !== "live" || slot.view.state.activityMs >= quietSinceMs) continue;
      const text = packed(slot);
      if (text === undefined) continue;
      this.#resting.set(key, text);
      this.#byName.delete(key);
      this.#byNumber.delete(slot.number);
      if (this.#resting.size === most) return true;
    }
    return false;
  }

  #wake(key: string): Slot | undefined {
    const text = this.#resting.get(key);
    if (text === undefined) return undefined;
    const slot = unpacked(nameIn(key), text);
    this.#resting.delete(key);
    this.#byName.set(key, slot);
    this.#byNumber.set(slot.number, slot);
    return slot;
  }

  slotOf(number: number): Slot | undefined {
    return this.#byNumber.get(number);
  }

  /** Every stream that is not at rest, gone ones too; in order of creation where none ever was at rest. */
  slots(): Iterable<Slot> {
    return this.#byNumber.values();
  }

  countOpen(principal: string): number {
    return this.#openOf.get(principal) ?? 0;
  }

  tombstones(): Iterable<Slot> {
    return this.#gone;
  }

  /** Live streams without activity since `beforeMs`, oldest first. */
  idleSince(beforeMs: number): readonly StreamName[] {
    const idle: { name: StreamName; activityMs: number }[] = [];
    for (const { name, view } of this.#byName.values()) {
      if (name === undefined || view.kind !== "live" || view.state.activityMs >= beforeMs) continue;
      idle.push({ name, activityMs: view.state.activityMs });
    }
    for (const [key, text] of this.#resting) {
      const activityMs = activityOf(text);
      if (activityMs < beforeMs) idle.push({ name: nameIn(key), activityMs });
    }
    return idle.toSorted((a, b) => a.activityMs - b.activityMs).map(({ name }) => name);
  }

  /** All streams of a principal, those at rest and tombstones too. */
  namesOf(principal: string): readonly StreamName[] {
    const begin = nameKey({ principal, idempotencyKey: "" });
    const keys = [...this.#byName.keys(), ...this.#resting.keys()];
    return keys.filter((key) => key.startsWith(begin)).map(nameIn);
  }

  apply(row: number, record: GroupRecord): void {
    this.ages.add(row, record.timeMs);
    for (const entry of record.entries) this.#applyEntry(row, entry, record.timeMs);
    if (record.forgotten !== undefined) this.#forget(row, record.forgotten);
  }

  /**
   * Ends a rebuild: entries of forgotten streams go, and every other stream must be whole. Returns what
   * is wrong with the first one that is not.
   */
  findDamage(): string | undefined {
    for (const slot of this.#byNumber.values()) {
      if (hasNumber(this.#forgotten, slot.number)) {
        this.#remove(slot);
        continue;
      }
      const damage = this.#damageOf(slot);
      if (damage !== undefined) return `stream number ${slot.number}: ${damage}`;
    }
    return undefined;
  }

  #damageOf(slot: Slot): string | undefined {
    const { view, name } = slot;
    if (view.kind === "absent" || name === undefined) return "there are entries of it, but no state";
    if (this.#byName.get(nameKey(name)) !== slot) return "another stream has the same name";
    if (view.kind === "gone") return undefined;
    const { state } = view;
    if (!slot.chunks.isDense(0, state.nextSeqno)) {
      return `its chunks are not dense up to seqno ${state.nextSeqno - 1}`;
    }
    if (!slot.events.isDense(state.eventFloor, state.eventHead + 1)) {
      return `its events are not dense from ${state.eventFloor} to ${state.eventHead}`;
    }
    return undefined;
  }

  #applyEntry(row: number, entry: StreamEntry, timeMs: number): void {
    const slot = this.#slotAt(entry.stream);
    assert(slot.view.kind !== "gone", "nothing follows a tombstone");
    const { chunks, events, meta, tombstone, moved } = entry;
    if (moved !== undefined) this.#move(slot, row, moved);
    for (const log of LOGS) {
      const batch = entry[log];
      if (batch === undefined) continue;
      slot[log].push(batch.first, batch.count, row);
      this.pins.pin(row);
    }
    if (tombstone !== undefined) {
      this.#letGoOfRows(slot);
      this.#setView(slot, tombstone.name, {
        kind: "gone",
        keyCheck: tombstone.keyCheck,
        goneMs: tombstone.goneMs,
      });
      this.#gone.add(slot);
      slot.viewRow = this.#repinned(row, slot.viewRow);
    } else if (meta !== undefined) {
      this.#setView(slot, meta.name, { kind: "live", state: meta.state, lease: meta.lease });
      slot.viewRow = this.#repinned(row, slot.viewRow);
      if (meta.state.eventFloor > 1) this.#unpin(slot.events.dropBelow(meta.state.eventFloor));
    } else if (slot.view.kind === "live" && slot.name !== undefined) {
      const shape = { chunkCount: chunks?.count ?? 0, eventCount: events?.count ?? 0, change: {} };
      const state = applyCommit(slot.view.state, shape, timeMs);
      // No change of life in a light entry, so the principal's count of open streams stays.
      slot.view = { kind: "live", state, lease: renewedByCommit(slot.view.lease, timeMs) };
    }
  }

  #move(slot: Slot, row: number, moved: MovedLogs): void {
    for (const log of LOGS) {
      const { first, count } = moved[log];
      slot.moved[log] = Math.max(slot.moved[log], first + count);
      if (count === 0) continue;
      this.pins.pin(row);
      this.#unpin(slot[log].replace(first, count, row));
    }
  }

  #unpin(rows: readonly number[]): void {
    for (const row of rows) this.pins.unpin(row);
  }

  /** What lay in `before` lies in `row` now. */
  #repinned(row: number, before: number | undefined): number {
    this.pins.pin(row);
    if (before !== undefined) this.pins.unpin(before);
    return row;
  }

  #forget(row: number, forgotten: readonly NumberRange[]): void {
    this.#forgotten = forgotten;
    this.#forgottenRow = this.#repinned(row, this.#forgottenRow);
    this.#nextNumber = Math.max(this.#nextNumber, (forgotten.at(-1)?.last ?? 0) + 1);
    for (const slot of this.#gone) {
      if (hasNumber(forgotten, slot.number)) this.#remove(slot);
    }
  }

  #slotAt(number: number): Slot {
    const known = this.#byNumber.get(number);
    if (known !== undefined) return known;
    const slot: Slot = {
      number,
      name: undefined,
      view: ABSENT,
      chunks: new SegmentList(),
      events: new SegmentList(),
      viewRow: undefined,
      moved: { chunks: 0, events: 1 },
    };
    this.#byNumber.set(number, slot);
    this.#nextNumber = Math.max(this.#nextNumber, number + 1);
    return slot;
  }

  #setView(slot: Slot, name: StreamName, view: View): void {
    const opened = Number(isOpen(view)) - Number(isOpen(slot.view));
    if (opened !== 0) {
      const count = this.countOpen(name.principal) + opened;
      if (count === 0) this.#openOf.delete(name.principal);
      else this.#openOf.set(name.principal, count);
    }
    if (slot.name === undefined) {
      slot.name = name;
      this.#byName.set(nameKey(name), slot);
    }
    slot.view = view;
  }

  #letGoOfRows(slot: Slot): void {
    for (const log of LOGS) {
      this.#unpin(slot[log].dropBelow(Infinity));
      slot[log] = NO_SEGMENTS;
    }
  }

  #remove(slot: Slot): void {
    this.#letGoOfRows(slot);
    if (slot.viewRow !== undefined) this.pins.unpin(slot.viewRow);
    slot.viewRow = undefined;
    if (slot.name !== undefined) {
      const key = nameKey(slot.name);
      this.#setView(slot, slot.name, ABSENT);
      if (this.#byName.get(key) === slot) this.#byName.delete(key);
    }
    this.#gone.delete(slot);
    this.#byNumber.delete(slot.number);
  }
}

function isOpen(view: View): boolean {
  return view.kind === "live" && view.state.end === undefined;
}
