/** Streams that are over rest as short texts: nothing that a store is asked tells them from others. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { packed, unpacked } from "../../src/store/resting.ts";
import { MemoryLog, openLogStreamStore, type StreamStore } from "../../src/store/index.ts";
import { rebuildIndex } from "../../src/store/rebuild.ts";
import { nameKey } from "../../src/store/stream-index.ts";
import {
  HOST,
  chunksFrom,
  created,
  eventsFrom,
  grown,
  readAll,
  streamName,
} from "../conformance/stream-fixtures.ts";
import { ManualClock } from "./manual-clock.ts";

const LONG_MS = 100_000;
const KEYS = Array.from({ length: 8 }, (_, at) => `k:${at}`);

async function over(store: StreamStore, key: string): Promise<void> {
  const name = streamName(key, "3:bob");
  const state = await grown(store, name, await created(store, name), { chunks: 2, events: 3 });
  await grown(store, name, state, { events: 1, change: { end: "completed", closed: true } });
}

/** Streams that have been over for long, in a store that was just tidied. */
async function atRest(): Promise<{ store: StreamStore; clock: ManualClock; log: MemoryLog }> {
  const clock = new ManualClock();
  const log = new MemoryLog();
  const store = await openLogStreamStore(log, clock);
  await Promise.all(KEYS.map((key) => over(store, key)));
  clock.advance(LONG_MS);
  await store.tidy(clock.now());
  return { store, clock, log };
}

async function assertRead(store: StreamStore, key: string): Promise<void> {
  const name = streamName(key, "3:bob");
  const events = await readAll(1, (from) => store.readEvents(name, from, 1));
  assert.deepEqual(events, [eventsFrom(1, 3), eventsFrom(4, 1)]);
  assert.deepEqual(await readAll(0, (from) => store.readChunks(name, from, 1)), [chunksFrom(0, 2)]);
}

test("F2: a slot at rest is a short text, and unpacks to itself", async () => {
  const { log } = await atRest();
  const index = await rebuildIndex(log.reopened());
  for (const key of KEYS) {
    const name = streamName(key, "3:bob");
    const slot = index.find(nameKey(name)) ?? assert.fail();
    const text = packed(slot) ?? assert.fail("it was not moved as a whole");
    assert.ok(text.length < 160, `${text.length} bytes`);
    assert.deepEqual(unpacked(name, text), slot);
  }
});

test("a stream that runs, or lies in several rows, does not rest", async () => {
  const clock = new ManualClock();
  const log = new MemoryLog();
  const store = await openLogStreamStore(log, clock);
  await over(store, "over");
  await created(store, streamName("runs", "3:bob"));
  const index = await rebuildIndex(log.reopened());
  for (const key of ["over", "runs"]) {
    assert.equal(packed(index.find(nameKey(streamName(key, "3:bob"))) ?? assert.fail()), undefined);
  }
});

test("streams at rest are listed, read, claimed, expired and forgotten like others, also after a restart", async () => {
  const { store, clock, log } = await atRest();
  const again = await openLogStreamStore(log.reopened(), clock);
  await again.tidy(clock.now());
  for (const each of [store, again]) {
    const idle = await each.listIdle(clock.now(), 100);
    assert.deepEqual(idle.map(({ idempotencyKey }) => idempotencyKey).toSorted(), KEYS);
    assert.ok(idle.every(({ principal }) => principal === "3:bob"));
    assert.deepEqual(await each.listIdle(0, 100), []);
    for (const key of KEYS) await assertRead(each, key);
    await each.tidy(clock.now());
    const name = streamName("k:1", "3:bob");
    const claimed = await each.claim(name, HOST);
    assert.equal(claimed.kind, "live");
    assert.equal(await each.renew(name, 2, HOST.leaseMs), true);
    assert.equal((await each.expire(streamName("k:2", "3:bob"), 1)).kind, "gone");
    assert.equal((await each.load(streamName("k:2", "3:bob"))).kind, "gone");
    assert.equal((await each.load(streamName("k:2", "bob"))).kind, "absent");
    clock.advance(LONG_MS);
    assert.equal(await each.forgetGone(clock.now()), 1);
    await each.tidy(clock.now());
    for (const key of KEYS.filter((other) => other !== "k:2")) await assertRead(each, key);
  }
});

test("F2: events of a stream that runs are in memory, those of one that is over are read from the log", async () => {
  const log = new MemoryLog();
  let reads = 0;
  const read = log.read.bind(log);
  log.read = (row) => {
    reads++;
    return read(row);
  };
  const store = await openLogStreamStore(log, new ManualClock());
  const name = streamName("runs", "3:bob");
  await grown(store, name, await created(store, name), { chunks: 2, events: 3 });
  await store.readEvents(name, 1, 1);
  assert.equal(reads, 0);
  await over(store, "over");
  await store.readEvents(streamName("over", "3:bob"), 1, 1);
  assert.equal(reads, 1);
});
