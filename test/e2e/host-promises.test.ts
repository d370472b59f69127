/**
 * What a host promises about one stream, frame by frame: each of these rules was once broken on purpose without any other
 * test noticing.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { LIMITS } from "../../src/protocol/limits.ts";
import { progressOf } from "../store/scripted-log.ts";
import { bytes } from "./rig.ts";
import { kinds, NAME, OPEN, READ, ScriptedHost, settle } from "./scripted-host.ts";

const TICK_MS = 5_000;
const SWEEP_MS = 60_000;
const DAY_MS = 86_400_000;

test("B2: an emit resolves when its event is durable, and not before", async (t) => {
  const emits: Promise<number>[] = [];
  const host = await ScriptedHost.start(t, {
    application: async (stream) => {
      for await (const input of stream.inputs) {
        if (input.kind === "chunk") emits.push(stream.emit(input.body));
      }
    },
  });
  const { wire } = await host.attach(OPEN);
  host.log.holding = true;
  wire.write([{ kind: "chunk", seqno: 1, writerEpoch: 1, body: bytes("more") }]);
  await settle();
  const [, emitted = assert.fail("nothing was emitted")] = emits;
  assert.equal(await progressOf(emitted), "waiting");
  // The chunk's own commit; the event derived from it shares it or follows it.
  while (host.log.heldCount > 0) await host.log.finish();
  await settle();
  assert.equal(await emitted, 2);
});

test("F1: a turn that runs is kept although no client is attached", async (t) => {
  const gate = Promise.withResolvers<void>();
  let runs = 0;
  const host = await ScriptedHost.start(t, {
    application: async (stream) => {
      runs++;
      await gate.promise;
      await stream.emit(bytes("answer"));
    },
  });
  const { wire } = await host.attach(OPEN);
  wire.end();
  await settle();
  for (let ticks = 0; ticks < 3; ticks++) await host.clock.fire(TICK_MS);
  assert.equal(host.server.hostedCount, 1);
  gate.resolve();
  await settle();
  const reader = await host.attach(READ);
  assert.deepEqual(kinds(reader.heard), ["welcome", "event", "event"]);
  assert.equal(runs, 1);
  // And it is let go when the turn is over and the last client has left.
  reader.wire.end();
  await settle();
  await host.clock.fire(TICK_MS);
  assert.equal(host.server.hostedCount, 0);
});

test("A2: after a restart the whole window of chunks that may be sent again is known", async (t) => {
  const before = await ScriptedHost.start(t);
  const writer = await before.attach({ ...OPEN, firstChunk: bytes("chunk 0") });
  const count = LIMITS.unackedChunksMax + 44;
  const chunk = (seqno: number, body = `chunk ${seqno}`) =>
    ({ kind: "chunk", seqno, writerEpoch: 1, body: bytes(body) }) as const;
  for (let seqno = 1; seqno < count; seqno++) {
    writer.wire.write([chunk(seqno)]);
    if (seqno % 100 === 0) await settle();
  }
  await settle();
  await before.server.shutdown();
  const oldest = count - LIMITS.unackedChunksMax;
  for (const [seqno, body, answer] of [
    [oldest, `chunk ${oldest}`, "ack"],
    [oldest, "other words", "seqno_conflict"],
    [oldest - 1, `chunk ${oldest - 1}`, "seqno_conflict"],
  ] as const) {
    const after = await ScriptedHost.start(t, {}, before.log.rows.reopened());
    const again = await after.attach({ ...OPEN, mode: "resume", fresh: false, firstChunk: undefined });
    again.wire.write([chunk(seqno, body)]);
    await settle();
    assert.deepEqual(kinds(again.heard), ["welcome", answer], `chunk ${seqno}: ${body}`);
    await after.server.shutdown();
  }
});

test("D5: a client that is attached when the store fails is told how far the log is durable", async (t) => {
  const host = await ScriptedHost.start(t, {
    application: async (stream) => {
      for await (const input of stream.inputs) {
        if (input.kind === "chunk") await stream.emit(input.body).catch(() => undefined);
      }
    },
  });
  const { wire, heard } = await host.attach(OPEN);
  host.log.holding = true;
  wire.write([{ kind: "chunk", seqno: 1, writerEpoch: 1, body: bytes("more") }]);
  await settle();
  await host.log.fail(new Error("the disk went away"));
  await settle();
  assert.deepEqual(kinds(heard), ["welcome", "event", "durability_lost", "unavailable"]);
  assert.deepEqual(heard[2], { kind: "durability_lost", head: 1 });
});

test("D3: an abort that a reader's attach carries is recorded", async (t) => {
  const host = await ScriptedHost.start(t);
  await host.attach(OPEN);
  await host.attach({ ...READ, abort: true });
  const found = await host.store.load(NAME);
  assert.ok(found.kind === "live" && found.state.aborted);
});

test("A7: a stream whose writer is attached outlives the retention time, and not without it", async (t) => {
  const host = await ScriptedHost.start(t, { application: async () => undefined });
  const { wire } = await host.attach(OPEN);
  host.clock.add(DAY_MS);
  await host.clock.fire(SWEEP_MS);
  assert.equal((await host.store.load(NAME)).kind, "live");
  wire.end();
  await settle();
  await host.clock.fire(SWEEP_MS);
  assert.equal((await host.store.load(NAME)).kind, "gone");
});
