/** Opening a log: damage and newer formats are refused, and what a crash took back is done again. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ErrorCode } from "../../src/protocol/errors.ts";
import { HoldfastError } from "../../src/protocol/errors.ts";
import { MemoryLog, openLogStreamStore } from "../../src/store/index.ts";
import { encodeFormat } from "../../src/store/commit-record.ts";
import { created, grown, streamName } from "../conformance/stream-fixtures.ts";
import { ManualClock } from "./manual-clock.ts";
import { ScriptedLog, turn } from "./scripted-log.ts";

const NAME = streamName("s");

function isRefusal(code: ErrorCode, message: RegExp): (error: unknown) => boolean {
  return (error) => error instanceof HoldfastError && error.code === code && message.test(error.message);
}

/** A log with one stream: created in row 2, an event and a chunk each in rows 3 to 5, lease renewed in row 6. */
async function filledLog(): Promise<MemoryLog> {
  const log = new MemoryLog();
  const store = await openLogStreamStore(log, new ManualClock());
  let state = await created(store, NAME);
  for (let at = 0; at < 3; at++) state = await grown(store, NAME, state, { events: 1, chunks: 1 });
  await store.renew(NAME, 1, 20_000);
  return log.reopened();
}

for (const row of [3, 4, 5]) {
  test(`B1: a log that lost row ${row} of a live stream is refused`, async () => {
    const log = await filledLog();
    await log.drop([row]);
    await assert.rejects(openLogStreamStore(log, new ManualClock()), isRefusal("stream_failed", /not dense/));
  });
}

test("D4: a log that lost the only state of a stream is refused, not taken for a log without it", async () => {
  const log = await filledLog();
  await log.drop([2, 6]);
  await assert.rejects(openLogStreamStore(log, new ManualClock()), isRefusal("stream_failed", /no state/));
});

test("B1: a batch that is there twice is refused", async () => {
  const log = await filledLog();
  await log.append(await log.read(5));
  await assert.rejects(openLogStreamStore(log, new ManualClock()), isRefusal("stream_failed", /row 7/));
});

test("A7: an entry after the tombstone of its stream is refused", async () => {
  const log = await filledLog();
  const event = await log.read(5);
  const store = await openLogStreamStore(log, new ManualClock());
  assert.equal((await store.expire(NAME, 1)).kind, "gone");
  await log.append(event);
  await assert.rejects(
    openLogStreamStore(log.reopened(), new ManualClock()),
    isRefusal("stream_failed", /tombstone/),
  );
});

test("B4: what a log said last is in memory when it is open, and the rest in its rows", async () => {
  const log = new MemoryLog();
  const before = await openLogStreamStore(log, new ManualClock());
  let state = await created(before, NAME);
  for (let at = 0; at < 100; at++) state = await grown(before, NAME, state, { events: 1 });
  const rows = new ScriptedLog(log.reopened());
  const store = await openLogStreamStore(rows, { now: new ManualClock().now, youngestBytes: 5_000 });
  const failing = Promise.reject(new Error("bad sector"));
  failing.catch(() => undefined);
  rows.reading = failing;
  await assert.rejects(store.readEvents(NAME, 1, 1_000), isRefusal("unavailable", /row/));
  assert.deepEqual(await store.readEvents(NAME, 90, 1_000_000), await before.readEvents(NAME, 90, 1_000_000));
  rows.reading = Promise.resolve();
  assert.deepEqual(await store.readEvents(NAME, 1, 1), await before.readEvents(NAME, 1, 1));
});

test("a record that cannot be decoded is refused, and the row is named", async () => {
  const log = await filledLog();
  for (const record of [Uint8Array.of(), Uint8Array.of(255, 255), (await log.read(5)).subarray(0, 40)]) {
    const damaged = await filledLog();
    await damaged.append(record);
    await assert.rejects(openLogStreamStore(damaged, new ManualClock()), isRefusal("stream_failed", /row 7/));
  }
});

test("a log that does not begin with its format is refused", async () => {
  const log = await filledLog();
  await log.drop([1]);
  await assert.rejects(openLogStreamStore(log, new ManualClock()), isRefusal("stream_failed", /format/));
});

test("a newer format is refused with a clear message, and nothing is written", async () => {
  const log = new MemoryLog();
  await log.append(encodeFormat({ formatVersion: 2 }));
  await log.append(Uint8Array.of(1, 2, 3));
  await assert.rejects(
    openLogStreamStore(log, new ManualClock()),
    isRefusal("unsupported_version", /format 2, written by a newer Holdfast/),
  );
  assert.equal(log.appendCount, 2);
  assert.equal(log.rowCount, 2);
});

test("a log that cannot be written is not opened", async () => {
  const log = new ScriptedLog();
  log.holding = true;
  const opening = openLogStreamStore(log, new ManualClock());
  const refused = assert.rejects(opening, isRefusal("unavailable", /cannot be written/));
  await turn();
  await log.fail(new Error("read-only"));
  await refused;
});

test("A7: drops that a crash took back are done again, and bring no stream back", async () => {
  const clock = new ManualClock();
  const log = new MemoryLog();
  // The same log, as if every drop had been lost.
  const lossy = new MemoryLog();
  const recording = new ScriptedLog(log);
  const append = recording.append.bind(recording);
  recording.append = async (record) => {
    await lossy.append(record);
    return append(record);
  };
  const store = await openLogStreamStore(recording, clock);
  const other = streamName("other");
  const state = await grown(store, NAME, await created(store, NAME), { events: 1, chunks: 1 });
  await created(store, other);
  await store.expire(NAME, state.hostEpoch);
  clock.advance(1);
  await store.forgetGone(clock.now());
  await grown(store, NAME, await created(store, NAME), { events: 2 });
  assert.ok(lossy.rowCount > log.rowCount);

  const again = await openLogStreamStore(lossy.reopened(), clock);
  assert.equal(lossy.rowCount, log.rowCount);
  const found = await again.load(NAME);
  assert.ok(found.kind === "live");
  assert.equal(found.state.eventHead, 2);
  assert.equal(found.state.nextSeqno, 0);
  assert.equal(await again.countOpen("alice"), 2);
});

test("A7: a forgotten stream in a row that others need does not come back, nor does its number", async () => {
  const clock = new ManualClock();
  const log = new MemoryLog();
  const store = await openLogStreamStore(log, clock);
  const kept = streamName("kept");
  const [gone, live] = await Promise.all([created(store, NAME), created(store, kept)]);
  await Promise.all([grown(store, NAME, gone, { events: 1 }), grown(store, kept, live, { events: 1 })]);
  clock.advance(1);
  await store.expire(NAME, 1);
  clock.advance(1);
  assert.equal(await store.forgetGone(clock.now()), 1);
  let again = await openLogStreamStore(log.reopened(), clock);
  assert.equal((await again.load(NAME)).kind, "absent");
  await grown(again, NAME, await created(again, NAME), { events: 3 });
  again = await openLogStreamStore(log.reopened(), clock);
  const found = await again.load(NAME);
  assert.ok(found.kind === "live" && found.state.eventHead === 3);
  assert.equal((await again.readEvents(NAME, 1, 1000)).length, 1);
});
