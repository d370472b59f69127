/** The log store against a disk that waits and fails: what is visible when, and what a failure does. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { HoldfastError } from "../../src/protocol/errors.ts";
import { openLogStreamStore } from "../../src/store/index.ts";
import {
  HOST,
  KEY_CHECK,
  OTHER_HOST,
  created,
  eventsFrom,
  growth,
  grown,
  streamName,
} from "../conformance/stream-fixtures.ts";
import { ManualClock } from "./manual-clock.ts";
import { ScriptedLog, progressOf, turn } from "./scripted-log.ts";

const NAME = streamName("s");
const OTHER = streamName("other");

function isUnavailable(error: unknown): boolean {
  return error instanceof HoldfastError && error.code === "unavailable";
}

test("B2: nothing of a commit is visible before its append has resolved", async () => {
  const log = new ScriptedLog();
  const store = await openLogStreamStore(log, new ManualClock());
  const state = await created(store, NAME);
  log.holding = true;
  const commit = store.commit(growth(NAME, state, { chunks: 1, events: 1 }));
  const creation = store.create({ name: OTHER, keyCheck: KEY_CHECK, host: HOST });
  assert.equal(await progressOf(commit), "waiting");
  assert.equal(await progressOf(creation), "waiting");
  assert.deepEqual(await store.load(NAME), { kind: "live", state });
  assert.deepEqual(await store.load(OTHER), { kind: "absent" });
  assert.deepEqual(await store.readEvents(NAME, 1, 1000), []);
  assert.deepEqual(await store.readChunks(NAME, 0, 1000), []);
  assert.equal(await store.countOpen("alice"), 1);
  await log.finish();
  assert.equal((await commit).kind, "committed");
  assert.equal((await creation).kind, "committed");
  assert.deepEqual(await store.readEvents(NAME, 1, 1000), [eventsFrom(1, 1)]);
});

test("B2: an answer that speaks of something staged waits for it to be durable", async () => {
  const log = new ScriptedLog();
  const store = await openLogStreamStore(log, new ManualClock());
  const state = await created(store, NAME);
  log.holding = true;
  const winner = store.commit(growth(NAME, state, { events: 1 }));
  const loser = store.commit(growth(NAME, state, { events: 1 }));
  const held = store.claim(NAME, OTHER_HOST);
  const unrelated = store.commit(growth(OTHER, state, { events: 1 }));
  assert.deepEqual(await unrelated, { kind: "conflict", state: undefined });
  assert.equal(await progressOf(loser), "waiting");
  assert.equal(await progressOf(held), "waiting");
  await log.finish();
  const [won, lost] = await Promise.all([winner, loser]);
  assert.equal(won.kind, "committed");
  assert.deepEqual(lost, { kind: "conflict", state: won.state });
  assert.equal((await held).kind, "held");
});

test("with no load an append starts at once; what waits meanwhile shares the next one", async () => {
  const log = new ScriptedLog();
  const store = await openLogStreamStore(log, new ManualClock());
  const names = Array.from({ length: 10 }, (_, at) => streamName(`s${at}`));
  const states = await Promise.all(names.map((name) => created(store, name)));
  log.holding = true;
  const appendsBefore = log.rows.appendCount;
  const [first, ...rest] = names.map((name, at) => growth(name, states[at] ?? assert.fail(), { events: 1 }));
  assert.ok(first !== undefined);
  const commits = [store.commit(first)];
  await Promise.resolve();
  await Promise.resolve();
  assert.equal(log.heldCount, 1, "no timer stands before the first append");
  for (const commit of rest) commits.push(store.commit(commit));
  const renewal = store.renew(streamName("s0"), 1, 1000);
  await turn();
  assert.equal(log.heldCount, 1, "one append at a time");
  await log.finish();
  assert.equal(log.heldCount, 1);
  await log.finish();
  await Promise.all(commits);
  assert.equal(await renewal, true);
  assert.equal(log.rows.appendCount - appendsBefore, 2);
});

test("F5: after a failed append everything of that group and every later call is refused", async () => {
  const log = new ScriptedLog();
  const store = await openLogStreamStore(log, new ManualClock());
  const state = await created(store, NAME);
  log.holding = true;
  const inGroup = [store.commit(growth(NAME, state, { events: 1 })), store.renew(NAME, 1, 1000)];
  await turn();
  const behind = [
    store.create({ name: OTHER, keyCheck: KEY_CHECK, host: HOST }),
    store.expire(NAME, state.hostEpoch),
  ];
  const refused = [...inGroup, ...behind].map((call) => assert.rejects(call, isUnavailable));
  const cause = new Error("the disk is full");
  await log.fail(cause);
  await Promise.all(refused);
  log.holding = false;
  const appends = log.rows.appendCount;
  const later = [
    () => store.commit(growth(NAME, state, { events: 1 })),
    () => store.create({ name: OTHER, keyCheck: KEY_CHECK, host: HOST }),
    () => store.claim(NAME, HOST),
    () => store.renew(NAME, 1, 1000),
    () => store.release(NAME, 1),
    () => store.expire(NAME, 0),
    () => store.forgetGone(0),
    () => store.load(NAME),
    () => store.readEvents(NAME, 1, 1000),
    () => store.readChunks(NAME, 0, 1000),
    () => store.countOpen("alice"),
    () => store.listIdle(0, 1),
  ];
  for (const call of later) {
    await assert.rejects(
      call,
      (error) => isUnavailable(error) && error instanceof Error && error.cause === cause,
    );
  }
  assert.equal(log.rows.appendCount, appends, "nothing is tried again on a failed log");
  const again = await openLogStreamStore(log.rows.reopened(), new ManualClock());
  assert.deepEqual(await again.load(NAME), { kind: "live", state });
});

test("a caller's bug is told to that caller and to nobody else in the group", async () => {
  const log = new ScriptedLog();
  const store = await openLogStreamStore(log, new ManualClock());
  const state = await created(store, NAME);
  const otherState = await created(store, OTHER);
  const commit = growth(NAME, state, { chunks: 1 });
  const results = await Promise.allSettled([
    store.commit({ ...commit, chunks: { first: 0, count: 1, sealed: new Uint8Array(1), macs: [] } }),
    store.commit({ ...commit, chunks: { first: 3, count: 1, sealed: new Uint8Array(1), macs: [] } }),
    store.commit(growth(NAME, state, { change: { eventFloor: 7 } })),
    store.create({ name: streamName("\ud800"), keyCheck: KEY_CHECK, host: HOST }),
    store.commit(growth(OTHER, otherState, { events: 1 })),
  ]);
  assert.deepEqual(
    results.map(({ status }) => status),
    ["rejected", "rejected", "rejected", "rejected", "fulfilled"],
  );
  await grown(store, NAME, state, { chunks: 1, events: 1 });
});

test("a large burst becomes several records, and a single large commit still goes through", async () => {
  const log = new ScriptedLog();
  const store = await openLogStreamStore(log, new ManualClock());
  const names = Array.from({ length: 12 }, (_, at) => streamName(`s${at}`));
  const states = await Promise.all(names.map((name) => created(store, name)));
  const before = log.rows.appendCount;
  const sealed = new Uint8Array(1024 * 1024);
  const large = { first: 1, count: 1, sealed };
  await Promise.all(
    names.map((name, at) =>
      store.commit({ ...growth(name, states[at] ?? assert.fail(), {}), events: large }),
    ),
  );
  assert.equal(log.rows.appendCount - before, 2);
});

test("A7: the rows of an expired stream are given back, except what others need", async () => {
  const log = new ScriptedLog();
  const clock = new ManualClock();
  const store = await openLogStreamStore(log, clock);
  const alone = await grown(store, NAME, await created(store, NAME), { events: 1 });
  const both = await Promise.all([
    grown(store, NAME, alone, { events: 1 }),
    created(store, OTHER).then((state) => grown(store, OTHER, state, { chunks: 1, events: 1 })),
  ]);
  const rows = log.rows.rowCount;
  await store.expire(NAME, both[0].hostEpoch);
  await turn();
  assert.ok(log.rows.rowCount < rows, `${log.rows.rowCount} of ${rows} rows are left`);
  const again = await openLogStreamStore(log.rows.reopened(), clock);
  assert.deepEqual(await again.readEvents(OTHER, 1, 1000), [eventsFrom(1, 1)]);
  assert.equal((await again.load(NAME)).kind, "gone");
  await again.expire(OTHER, both[1].hostEpoch);
  clock.advance(1);
  await again.forgetGone(clock.now());
  await turn();
  assert.equal(log.rows.rowCount, 2, "the format and the forgotten numbers are all that is left");
  const third = await created(again, streamName("third"));
  await again.expire(streamName("third"), third.hostEpoch);
  clock.advance(1);
  assert.equal(await again.forgetGone(clock.now()), 1);
  await turn();
  assert.equal(log.rows.rowCount, 2, "the older list of forgotten numbers went as well");
});

test("F2: renewals and risen floors do not make the log grow", async () => {
  const log = new ScriptedLog();
  const store = await openLogStreamStore(log, new ManualClock());
  let state = await created(store, NAME);
  for (let round = 0; round < 100; round++) await store.renew(NAME, 1, 1000);
  assert.equal(log.rows.rowCount, 3, "the last one that was freed waits for the next commit");
  for (let round = 0; round < 100; round++) {
    const change = { eventFloor: Math.max(1, state.eventHead) };
    state = await grown(store, NAME, state, { events: 1, change });
  }
  assert.ok(log.rows.rowCount <= 4, `${log.rows.rowCount} rows`);
  const again = await openLogStreamStore(log.rows.reopened(), new ManualClock());
  assert.deepEqual(await again.load(NAME), { kind: "live", state });
  assert.equal((await again.readEvents(NAME, state.eventFloor, 10_000)).length, 2);
});

test("rows that a commit frees go with the next commit; with none to come, when the store tidies up or closes", async () => {
  const log = new ScriptedLog();
  const store = await openLogStreamStore(log, new ManualClock());
  await created(store, NAME);
  await store.renew(NAME, 1, 1000);
  assert.deepEqual(log.dropped, []);
  assert.equal(log.drops, 0);
  await store.renew(NAME, 1, 1000);
  assert.deepEqual(log.dropped, [2]);
  assert.equal(log.drops, 0);
  await store.tidy(0);
  assert.deepEqual(log.dropped, [2, 3]);
  await store.renew(NAME, 1, 1000);
  await store.close();
  assert.deepEqual(log.dropped, [2, 3, 4]);
  assert.equal(log.drops, 2);
});

test("a stream that expires while it is read ends the reading and does not fail it", async () => {
  const clock = new ManualClock();
  const log = new ScriptedLog();
  const before = await openLogStreamStore(log, clock);
  let state = await created(before, NAME);
  for (let at = 0; at < 5; at++) state = await grown(before, NAME, state, { events: 1 });
  const reopened = new ScriptedLog(log.rows.reopened());
  const store = await openLogStreamStore(reopened, { now: () => clock.now(), youngestBytes: 0 });
  const gate = Promise.withResolvers<void>();
  reopened.reading = gate.promise;
  const reading = store.readEvents(NAME, 1, 1_000_000);
  await store.expire(NAME, state.hostEpoch);
  gate.resolve();
  assert.deepEqual(await reading, []);
});

test("a row that cannot be read fails that reading and leaves the store usable", async () => {
  const clock = new ManualClock();
  const log = new ScriptedLog();
  const before = await openLogStreamStore(log, clock);
  const state = await grown(before, NAME, await created(before, NAME), { events: 1 });
  const reopened = new ScriptedLog(log.rows.reopened());
  const store = await openLogStreamStore(reopened, { now: () => clock.now(), youngestBytes: 0 });
  const failing = Promise.reject(new Error("bad sector"));
  reopened.reading = failing;
  await assert.rejects(store.readEvents(NAME, 1, 1000), isUnavailable);
  reopened.reading = Promise.resolve();
  assert.deepEqual(await store.readEvents(NAME, 1, 1000), [eventsFrom(1, 1)]);
  await grown(store, NAME, state, { events: 1 });
});
