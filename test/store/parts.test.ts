/** The small parts under the log store, each against something plain or generated. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { create, fromBinary, toBinary } from "../../src/protocol/message.ts";
import * as fc from "fast-check";
import {
  CommitRecordSchema,
  MovedBatchesSchema,
  StreamEnd,
} from "../../src/protocol/gen/holdfast/storage/v1/commit.ts";
import { RecordEncoder, decodeRecord, entriesOf } from "../../src/store/commit-record.ts";
import type { GroupRecord } from "../../src/store/commit-record.ts";
import { EventTail } from "../../src/store/event-tail.ts";
import { byCodePoint } from "../../src/store/key-order.ts";
import { decodeMovedBatches, encodeMovedBatches } from "../../src/store/moved-logs.ts";
import { addNumbers, hasNumber } from "../../src/store/number-ranges.ts";
import { RowPins } from "../../src/store/row-pins.ts";
import type { Batch } from "../../src/store/stream-store.ts";
import type { Segment } from "../../src/store/segment-list.ts";
import { SegmentList } from "../../src/store/segment-list.ts";
import { KEY_CHECK, chunksFrom, eventsFrom } from "../conformance/stream-fixtures.ts";

const RECORD: GroupRecord = {
  timeMs: 1_700_000_000_123,
  entries: [
    {
      stream: 1,
      chunks: chunksFrom(0, 2),
      events: eventsFrom(1, 300),
      meta: undefined,
      tombstone: undefined,
      moved: undefined,
    },
    {
      stream: 2 ** 40,
      chunks: undefined,
      events: undefined,
      meta: {
        name: { principal: "alice", idempotencyKey: "ключ" },
        state: {
          keyCheck: KEY_CHECK,
          conversationCheck: Uint8Array.of(1, 2, 3),
          createdMs: 1_700_000_000_000,
          activityMs: 1_700_000_000_100,
          hostEpoch: 3,
          writers: [
            { journalId: "one", sinceSeqno: 0, sinceEvent: 0 },
            { journalId: "two", sinceSeqno: 4, sinceEvent: 9 },
          ],
          writerEpoch: 5,
          nextSeqno: 7,
          closed: true,
          eventHead: 12,
          eventFloor: 2,
          aborted: true,
          end: "failed",
        },
        lease: { hostId: "h", leaseMs: 1000, untilMs: 1_700_000_001_000 },
      },
      tombstone: undefined,
      moved: {
        chunks: { first: 0, count: 7 },
        events: { first: 2, count: 11 },
        bodyOffset: 300,
        bodyLength: 2 ** 33,
      },
    },
    {
      stream: 3,
      chunks: undefined,
      events: undefined,
      meta: undefined,
      tombstone: {
        name: { principal: "bob", idempotencyKey: "k" },
        keyCheck: KEY_CHECK,
        goneMs: 1_700_000_000_123,
      },
      moved: undefined,
    },
  ],
  forgotten: [
    { first: 1, last: 5 },
    { first: 9, last: 2 ** 40 },
  ],
};

test("a record decodes to what was encoded, and one stream's entries can be picked from it", () => {
  const bytes = new RecordEncoder().encode(RECORD);
  assert.deepEqual(decodeRecord(bytes), RECORD);
  for (const entry of RECORD.entries) assert.deepEqual(entriesOf(bytes, entry.stream), [entry]);
  assert.deepEqual(entriesOf(bytes, 77), []);
});

test("the hand-written codec and the generated one agree byte for byte", () => {
  const bytes = new RecordEncoder().encode(RECORD);
  const message = fromBinary(CommitRecordSchema, bytes);
  assert.deepEqual(toBinary(CommitRecordSchema, message), bytes);
  assert.equal(message.entries[1]?.meta?.end, StreamEnd.FAILED);
  assert.equal(message.entries[1]?.stream, 2n ** 40n);
  const rebuilt = create(CommitRecordSchema, {
    timeMs: 5n,
    entries: [{ stream: 4n, events: eventsFrom(3, 2) }],
  });
  assert.deepEqual(decodeRecord(toBinary(CommitRecordSchema, rebuilt)).entries[0]?.events, eventsFrom(3, 2));
});

test("a field that this format does not have is refused, not skipped", () => {
  const bytes = new RecordEncoder().encode(RECORD);
  assert.throws(() => decodeRecord(Uint8Array.from([...bytes, 0x7a, 0x00])), /unknown field 15/);
  assert.throws(() => decodeRecord(bytes.subarray(0, bytes.length - 1)));
});

test("a packed list of segments is the list that was pushed, through any lookups and drops", () => {
  const step = fc.record({
    gap: fc.nat(3),
    count: fc.integer({ min: 1, max: 300 }),
    rows: fc.oneof(fc.nat(3), fc.nat(2 ** 40)),
    dropTo: fc.option(fc.nat(100), { freq: 20 }),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 400, size: "max" }), (steps) => {
      const list = new SegmentList();
      let plain: Segment[] = [];
      let end = 0;
      let row = 0;
      for (const { gap, count, rows, dropTo } of steps) {
        row += rows;
        list.push(end + gap, count, row);
        plain.push({ first: end + gap, count, row });
        end += gap + count;
        if (dropTo === null) continue;
        const floor = Math.floor((end * dropTo) / 100);
        const dropped = plain.filter((segment) => segment.first + segment.count <= floor);
        plain = plain.slice(dropped.length);
        assert.deepEqual(
          list.dropBelow(floor),
          dropped.map((segment) => segment.row),
        );
      }
      assert.deepEqual(Array.from({ [Symbol.iterator]: () => list[Symbol.iterator]() }), plain);
      for (let number = 0; number <= end; number += Math.max(1, Math.floor(end / 50))) {
        const holds = plain.find(({ first, count }) => first <= number && number < first + count);
        assert.deepEqual(list.find(number), holds);
      }
      const from = plain[0]?.first ?? end;
      const dense = plain.every(({ first }, at) => {
        const before = plain[at - 1];
        return before === undefined || before.first + before.count === first;
      });
      assert.equal(list.isDense(from, end), dense);
      assert.equal(list.isDense(from, end + 1), false);
    }),
  );
});

test("F2: a million batches of one stream cost a few megabytes", () => {
  const list = new SegmentList();
  for (let at = 0; at < 200; at++) list.push(at + 1, 1, at * 3 + 1000);
  const started = process.memoryUsage().arrayBuffers;
  for (let at = 200; at < 1_000_000; at++) list.push(at + 1, 1, at * 3 + 1000);
  assert.ok(process.memoryUsage().arrayBuffers - started < 16_000_000);
  assert.deepEqual(list.find(777_777), { first: 777_777, count: 1, row: 777_776 * 3 + 1000 });
});

test("segments that overlap are a bug, and so is a move of half a batch", () => {
  const list = new SegmentList();
  list.push(1, 5, 10);
  assert.throws(() => list.push(5, 1, 11), /overlap/);
  assert.throws(() => list.replace(2, 4, 11), /whole batches/);
  assert.throws(() => list.replace(0, 2, 11), /whole batches/);
});

test("a run of segments is replaced by one, wherever it lies, and the others stay", () => {
  const step = fc.record({
    count: fc.integer({ min: 1, max: 5 }),
    rows: fc.oneof(fc.nat(3), fc.nat(2 ** 40)),
  });
  const move = fc.record({ from: fc.nat(100), to: fc.nat(100) });
  fc.assert(
    fc.property(
      fc.array(step, { minLength: 1, maxLength: 300, size: "max" }),
      fc.array(move, { maxLength: 5 }),
      fc.nat(100),
      (steps, moves, floorPart) => {
        const list = new SegmentList();
        let plain: Segment[] = [];
        let end = 1;
        let row = 0;
        const push = (count: number): void => {
          list.push(end, count, row);
          plain.push({ first: end, count, row });
          end += count;
        };
        for (const { count, rows } of steps) {
          row += rows;
          push(count);
        }
        const floor = Math.floor((end * floorPart) / 100);
        list.dropBelow(floor);
        plain = plain.filter(({ first, count }) => first + count > floor);
        for (const { from, to } of moves) {
          const low = Math.floor((Math.min(from, to) * plain.length) / 101);
          const run = plain.slice(low, Math.floor((Math.max(from, to) * plain.length) / 101) + 1);
          const [head] = run;
          if (head === undefined) continue;
          row += 1;
          const moved = { first: head.first, count: run.reduce((sum, { count }) => sum + count, 0), row };
          assert.deepEqual(
            list.replace(moved.first, moved.count, row),
            run.map((segment) => segment.row),
          );
          plain = plain.toSpliced(low, run.length, moved);
        }
        push(3);
        assert.deepEqual(Array.from({ [Symbol.iterator]: () => list[Symbol.iterator]() }), plain);
        for (const segment of plain) {
          assert.deepEqual(list.find(segment.first), segment);
          assert.deepEqual(list.find(segment.first + segment.count - 1), segment);
          assert.deepEqual(list.from(segment.first).next().value, segment);
        }
      },
    ),
  );
});

test("a segment fills the gap that dropped rows left", () => {
  const list = new SegmentList();
  list.push(501, 10, 90);
  assert.deepEqual(list.replace(1, 500, 1000), []);
  list.push(511, 1, 1001);
  assert.equal(list.isDense(1, 512), true);
  assert.deepEqual(list.find(500), { first: 1, count: 500, row: 1000 });
  assert.deepEqual(list.find(511), { first: 511, count: 1, row: 1001 });
});

test("moved batches decode to what was encoded, and agree with the generated code", () => {
  const batches = {
    chunks: [chunksFrom(0, 2), chunksFrom(2, 1)],
    events: [eventsFrom(1, 300), eventsFrom(301, 1)],
  };
  const bytes = encodeMovedBatches(batches);
  assert.deepEqual(decodeMovedBatches(bytes), batches);
  assert.deepEqual(toBinary(MovedBatchesSchema, fromBinary(MovedBatchesSchema, bytes)), bytes);
  assert.throws(() => decodeMovedBatches(bytes.subarray(0, -1)));
});

test("a row is sparse when half of what was needed in it is not any more", () => {
  const pins = new RowPins();
  for (let at = 0; at < 5; at++) pins.pin(7);
  pins.unpin(7);
  pins.unpin(7);
  assert.equal(pins.isSparse(7), false);
  pins.unpin(7);
  assert.equal(pins.isSparse(7), true);
  assert.equal(pins.isSparse(8), false);
});

test("a row is free when its last pin goes, and only then", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(600), fc.boolean()), { maxLength: 500, size: "max" }), (steps) => {
      const pins = new RowPins();
      const plain = new Map<number, number>();
      const freed = new Set<number>();
      for (const [row, isPin] of steps) {
        const count = plain.get(row) ?? 0;
        if (isPin) {
          pins.pin(row);
          plain.set(row, count + 1);
          freed.delete(row);
        } else if (count > 0) {
          pins.unpin(row);
          plain.set(row, count - 1);
          if (count === 1) freed.add(row);
        } else {
          assert.throws(() => pins.unpin(row), /pinned/);
        }
        assert.equal(pins.isPinned(row), (plain.get(row) ?? 0) > 0);
      }
      assert.deepEqual(new Set(pins.takeFreed()), freed);
      assert.deepEqual(pins.takeFreed(), []);
    }),
  );
});

test("ranges hold exactly the numbers that were added, and do not touch each other", () => {
  fc.assert(
    fc.property(fc.array(fc.array(fc.integer({ min: 1, max: 60 })), { maxLength: 6 }), (additions) => {
      let ranges = addNumbers([], []);
      for (const numbers of additions) ranges = addNumbers(ranges, numbers);
      const plain = new Set(additions.flat());
      for (let number = 0; number <= 62; number++) assert.equal(hasNumber(ranges, number), plain.has(number));
      for (const [at, range] of ranges.entries()) {
        assert.ok(range.first <= range.last && range.first > (ranges[at - 1]?.last ?? -1) + 1);
      }
    }),
  );
});

test("keys are ordered as their UTF-8 bytes are", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), fc.string({ unit: "binary" }), (a, b) => {
      assert.equal(Math.sign(byCodePoint(a, b)), Buffer.compare(Buffer.from(a), Buffer.from(b)));
    }),
  );
});

test("F2: the tail holds the youngest batches within its bound, the rest must be read", () => {
  const tail = new EventTail(10_000);
  for (let at = 1; at <= 100; at++) {
    tail.add(1, { first: at * 2 - 1, count: 2, sealed: new Uint8Array(100) });
    tail.add(2, { first: at, count: 1, sealed: new Uint8Array(100) });
  }
  assert.deepEqual(tail.read(1, 1, 1000), []);
  const last = tail.read(1, 200, 1000);
  assert.deepEqual(
    last.map(({ first }) => first),
    [199],
  );
  assert.equal(tail.read(2, 90, 250).length, 2);
  assert.equal(tail.read(2, 90, 1).length, 1);
  assert.deepEqual(tail.read(2, 101, 1000), []);
});

test("B4: the tail has no gap: behind one it begins anew", () => {
  const tail = new EventTail(10_000);
  for (const first of [1, 3, 9, 11]) tail.add(1, { first, count: 2, sealed: new Uint8Array(100) });
  assert.deepEqual(tail.read(1, 1, 1000), []);
  assert.deepEqual(
    tail.read(1, 9, 1000).map(({ first }) => first),
    [9, 11],
  );
});

test("F2: a batch of the tail keeps no more memory than its own bytes", () => {
  const tail = new EventTail(10_000);
  const sealed = new Uint8Array(new ArrayBuffer(8_192), 40, 100).fill(7);
  const events = { first: 1, count: 1, sealed };
  tail.follow({
    entries: [
      { stream: 1, events, chunks: undefined, meta: undefined, tombstone: undefined, moved: undefined },
    ],
  });
  const [held] = tail.read(1, 1, 1000);
  assert.deepEqual(held?.sealed, sealed);
  assert.equal(held?.sealed.buffer.byteLength, 100);
});

test("F2: a stream that has ended leaves the tail, and takes no room from others", () => {
  const tail = new EventTail(10_000);
  const batch = (first: number): Batch => ({ first, count: 1, sealed: new Uint8Array(100) });
  tail.add(1, batch(1));
  for (let stream = 2; stream < 5_000; stream++) {
    for (const first of [1, 2]) tail.add(stream, batch(first));
    tail.drop(stream);
    assert.deepEqual(tail.read(stream, 1, 1000), []);
  }
  assert.equal(tail.read(1, 1, 1000).length, 1);
  // The bound is what it was: of a hundred more batches the oldest go.
  for (let first = 2; first <= 100; first++) tail.add(1, batch(first));
  assert.deepEqual(tail.read(1, 1, 1000), []);
  assert.equal(tail.read(1, 60, 1).length, 1);
});
