/** Streams moved out of the rows they were written to: read as before, found after a restart, others' rows set free. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { StreamState } from "../../src/core/stream-state.ts";
import type { StreamStore } from "../../src/store/index.ts";
import { decodeRecord } from "../../src/store/commit-record.ts";
import { MemoryLog, openLogStreamStore } from "../../src/store/index.ts";
import { created, eventsFrom, grown, readAll, streamName } from "../conformance/stream-fixtures.ts";
import { ManualClock } from "./manual-clock.ts";
import { ScriptedLog, turn } from "./scripted-log.ts";

const LONG_MS = 100_000;

/** A log that counts what is read. */
class CountingLog extends MemoryLog {
  reads = 0;

  override read(row: number): Promise<Uint8Array> {
    this.reads += 1;
    return super.read(row);
  }
}

/** Streams that grow together, so that every row holds all of them. */
async function grownTogether(
  store: StreamStore,
  keys: readonly string[],
  rows: number,
): Promise<Map<string, StreamState>> {
  const states = new Map<string, StreamState>();
  await Promise.all(keys.map(async (key) => states.set(key, await created(store, streamName(key)))));
  for (let at = 0; at < rows; at++) {
    await Promise.all(
      [...states].map(async ([key, state]) => {
        states.set(
          key,
          await grown(store, streamName(key), state, { events: 2, chunks: at % 10 === 0 ? 1 : 0 }),
        );
      }),
    );
  }
  return states;
}

async function end(store: StreamStore, key: string, state: StreamState): Promise<void> {
  await grown(store, streamName(key), state, { events: 1, change: { end: "completed" } });
}

async function assertEvents(store: StreamStore, key: string, count: number): Promise<void> {
  const events = await readAll(1, (from) => store.readEvents(streamName(key), from, 500));
  const last = events.at(-1);
  assert.equal((last?.first ?? 0) + (last?.count ?? 0) - 1, count);
  for (const event of events) assert.deepEqual(event, eventsFrom(event.first, event.count));
}

test("ended streams leave the rows they shared, and are read in one go afterwards", async () => {
  const clock = new ManualClock();
  const log = new CountingLog();
  const store = await openLogStreamStore(log, clock);
  const states = await grownTogether(store, ["a", "b", "c"], 100);
  for (const [key, state] of states) await end(store, key, state);
  assert.ok(log.rowCount > 100);
  await store.tidy(clock.now());
  assert.ok(log.rowCount > 100, "they have not been quiet for long enough");
  clock.advance(LONG_MS);
  await store.tidy(clock.now());
  // The format, and one record with all three.
  assert.equal(log.rowCount, 2);

  const reopened = new CountingLog({}, log.rows);
  const again = await openLogStreamStore(reopened, clock);
  for (const key of states.keys()) {
    await assertEvents(again, key, 201);
    assert.equal((await readAll(0, (from) => again.readChunks(streamName(key), from, 500))).length, 10);
  }
  assert.equal(reopened.reads, 1);
  await again.tidy(clock.now());
  assert.equal(log.rowCount, 2);
});

test("F2: a stream that lives on does not keep what others have left behind", async () => {
  const clock = new ManualClock();
  const log = new MemoryLog();
  const store = await openLogStreamStore(log, clock);
  const states = await grownTogether(store, ["long", "x", "y", "z"], 60);
  clock.advance(LONG_MS);
  for (const key of ["x", "y", "z"]) assert.equal((await store.expire(streamName(key), 1)).kind, "gone");
  clock.advance(LONG_MS);
  const before = log.rowCount;
  await store.tidy(clock.now());
  assert.ok(before > 60 && log.rowCount < 10, `${before} rows became ${log.rowCount}`);
  const state = states.get("long") ?? assert.fail();
  await grown(store, streamName("long"), state, { events: 4 });
  await assertEvents(store, "long", 124);
  const again = await openLogStreamStore(log.reopened(), clock);
  await assertEvents(again, "long", 124);
});

test("a stream that grows and ends while it is moved loses nothing", async () => {
  const clock = new ManualClock();
  const log = new ScriptedLog();
  const store = await openLogStreamStore(log, clock);
  const states = await grownTogether(store, ["a", "b"], 20);
  for (const [key, state] of states) await end(store, key, state);
  clock.advance(LONG_MS);
  log.holding = true;
  const tidied = store.tidy(clock.now());
  const expired = (async () => {
    while (log.heldCount === 0) await turn();
    return store.expire(streamName("a"), 1);
  })();
  while (log.heldCount === 0) await turn();
  await log.finish();
  while (log.heldCount > 0) await log.finish();
  log.holding = false;
  await Promise.all([tidied, expired]);
  assert.equal((await store.load(streamName("a"))).kind, "gone");
  const again = await openLogStreamStore(log.rows.reopened(), clock);
  assert.equal((await again.load(streamName("a"))).kind, "gone");
  await assertEvents(again, "b", 41);
});

test("B4: a reader that is under way when its rows go looks where they went", async () => {
  const clock = new ManualClock();
  const log = new ScriptedLog();
  const before = await openLogStreamStore(log, clock);
  const states = await grownTogether(before, ["a", "b"], 20);
  for (const [key, state] of states) await end(before, key, state);
  clock.advance(LONG_MS);
  // Reopened, so that nothing is held in memory.
  const again = new ScriptedLog(log.rows.reopened());
  const store = await openLogStreamStore(again, clock);
  const tidied = store.tidy(clock.now());
  while (again.dropped.length === 0) {
    const events = store.readEvents(streamName("a"), 1, 1_000_000);
    await turn();
    const found = await events;
    assert.equal(found[0]?.first, 1);
  }
  await tidied;
  await assertEvents(store, "a", 41);
});

test("A3: a crash before old rows are dropped leaves two copies, and one of them goes", async () => {
  const clock = new ManualClock();
  const log = new MemoryLog();
  const lossy = new MemoryLog();
  const recording = new ScriptedLog(log);
  const append = recording.append.bind(recording);
  recording.append = async (record, body, freed) => {
    await lossy.append(record.slice(), body?.slice());
    return append(record, body, freed);
  };
  const store = await openLogStreamStore(recording, clock);
  for (const [key, state] of await grownTogether(store, ["a", "b"], 20)) await end(store, key, state);
  clock.advance(LONG_MS);
  await store.tidy(clock.now());
  assert.ok(lossy.rowCount > 20 && log.rowCount === 2);
  const again = await openLogStreamStore(lossy.reopened(), clock);
  assert.equal(lossy.rowCount, 2);
  for (const key of ["a", "b"]) await assertEvents(again, key, 41);
});

test("a long stream is moved in pieces of a bounded size", async () => {
  const clock = new ManualClock();
  const log = new MemoryLog();
  const store = await openLogStreamStore(log, clock);
  const name = streamName("long");
  let state = await created(store, name);
  const label = "x".repeat(10_000);
  for (let at = 0; at < 120; at++) state = await grown(store, name, state, { events: 1, label });
  await grown(store, name, state, { events: 1, label, change: { end: "completed" } });
  clock.advance(LONG_MS);
  await store.tidy(clock.now());
  assert.ok(log.rowCount >= 5 && log.rowCount <= 8, `${log.rowCount} rows`);
  const again = await openLogStreamStore(log.reopened(), clock);
  const events = await readAll(1, (from) => again.readEvents(name, from, 50_000));
  assert.deepEqual(
    events,
    Array.from({ length: 121 }, (_, at) => eventsFrom(at + 1, 1, label)),
  );
});

test("what a round has no room for is not restated before its turn comes", async () => {
  const clock = new ManualClock();
  const log = new MemoryLog();
  const moves: string[] = [];
  const append = log.append.bind(log);
  log.append = (record, body) => {
    for (const { meta, moved } of log.rowCount === 0 ? [] : decodeRecord(record).entries) {
      if (moved !== undefined) moves.push(meta?.name.idempotencyKey ?? "");
    }
    return append(record, body);
  };
  const store = await openLogStreamStore(log, clock);
  let large = await created(store, streamName("large"));
  const label = "x".repeat(500_000);
  for (let at = 0; at < 40; at++)
    large = await grown(store, streamName("large"), large, { events: 1, label });
  await end(store, "large", large);
  await end(store, "small", await created(store, streamName("small")));
  clock.advance(LONG_MS);
  await store.tidy(clock.now());
  assert.ok(moves.filter((name) => name === "large").length >= 40);
  assert.equal(moves.filter((name) => name === "small").length, 1);
});
