/** The logs of a stream as its host reads them back. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { nodeSealing } from "../../src/sealing/node.ts";
import { StreamLogs } from "../../src/server/stream-logs.ts";
import { MemoryLog, openLogStreamStore } from "../../src/store/index.ts";
import { created, streamName } from "../conformance/stream-fixtures.ts";

const NAME = streamName("s");
const EVENTS = 40;

/** A log with a row for each event, and how often its store is asked. */
async function filled() {
  const store = await openLogStreamStore(new MemoryLog(), { now: Date.now });
  const logs = new StreamLogs(store, NAME, nodeSealing().sealer(new Uint8Array(32)));
  let expected = await created(store, NAME);
  for (let eventId = 1; eventId <= EVENTS; eventId++) {
    const event = { eventId, body: new Uint8Array(1_000).fill(eventId), end: undefined };
    const events = logs.sealEvents(eventId, [event]);
    const committed = await store.commit({ name: NAME, expected, chunks: undefined, events, change: {} });
    assert.ok(committed.kind === "committed");
    expected = committed.state;
  }
  const asked: number[] = [];
  const readEvents = store.readEvents.bind(store);
  store.readEvents = (name, from, bytesMax) => {
    asked.push(from);
    return readEvents(name, from, bytesMax);
  };
  return { logs, asked };
}

async function idsFrom(logs: StreamLogs, from: number, bytesMax: number): Promise<readonly number[]> {
  const events = await logs.readEvents(from, bytesMax);
  assert.ok(events.every(({ eventId, body }) => body.length === 1_000 && body[0] === eventId));
  return events.map(({ eventId }) => eventId);
}

test("B4: while an application reads its log back, what it has opened serves its clients, as large as they ask", async () => {
  const { logs, asked } = await filled();
  logs.readingBack(true);
  assert.equal((await idsFrom(logs, 1, 1_000_000)).length, EVENTS);
  assert.deepEqual(await idsFrom(logs, 3, 3_500), [3, 4, 5]);
  assert.deepEqual(await idsFrom(logs, EVENTS, 1), [EVENTS]);
  assert.deepEqual(asked, [1]);
});

test("F2: when it has read its log back, nothing of it is kept", async () => {
  const { logs, asked } = await filled();
  logs.readingBack(true);
  await logs.readEvents(1);
  logs.readingBack(false);
  assert.deepEqual(await idsFrom(logs, 39, 1_000_000), [39, 40]);
  assert.deepEqual(asked, [1, 39]);
});

test("B1: two that read at other places get what they asked for, without a gap", async () => {
  const { logs, asked } = await filled();
  logs.readingBack(true);
  assert.deepEqual((await idsFrom(logs, 1, 5_000)).at(0), 1);
  assert.deepEqual((await idsFrom(logs, 20, 5_000)).at(0), 20);
  assert.deepEqual((await idsFrom(logs, 3, 5_000)).at(0), 3);
  assert.deepEqual((await idsFrom(logs, 20, 5_000)).at(0), 20);
  assert.equal(asked.length, 4);
});
