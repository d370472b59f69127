/**
 * A stream that is being made: opening record and first chunk are one record in the store, and until it is durable nobody is told
 * that there is such a stream.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { nodeSealing } from "../../src/sealing/node.ts";
import { turn, bytes, text } from "./rig.ts";
import { kinds, NAME, OPEN, READ, ScriptedHost, settle, STREAM_KEY } from "./scripted-host.ts";

test("A4, B2: a fresh stream and its first chunk are one synced write, and whoever asks meanwhile waits for it", async (t) => {
  const { log, attach } = await ScriptedHost.start(t);
  log.holding = true;
  const writer = await attach(OPEN);
  const reader = await attach(READ);
  assert.deepEqual([log.heldCount, writer.heard, reader.heard], [1, [], []]);
  await log.finish();
  await settle();
  assert.deepEqual(kinds(writer.heard), ["welcome"]);
  assert.deepEqual(kinds(reader.heard), ["welcome"]);
  const [welcome] = writer.heard;
  assert.ok(welcome?.kind === "welcome" && welcome.nextSeqno === 1 && !welcome.resumed);
  assert.equal(log.heldCount, 0);
});

test("F5: a stream whose making failed is told to nobody", async (t) => {
  const { log, attach } = await ScriptedHost.start(t);
  log.holding = true;
  const writer = await attach(OPEN);
  const reader = await attach(READ);
  await log.fail(new Error("the disk went away"));
  await settle();
  assert.deepEqual(kinds(writer.heard), ["unavailable"]);
  assert.deepEqual(kinds(reader.heard), ["unavailable"]);
});

test("D4: whoever waits for a stream that another node made first is judged by what that one made", async (t) => {
  const { log, store, attach } = await ScriptedHost.start(t);
  log.holding = true;
  const keyCheck = nodeSealing().keyCheck(STREAM_KEY);
  const made = store.create({ name: NAME, keyCheck, host: { hostId: "another", leaseMs: 60_000 } });
  await turn();
  const late = await attach(OPEN, new Uint8Array(32).fill(4));
  const right = await attach(READ);
  log.holding = false;
  await log.finish();
  await settle();
  assert.equal((await made).kind, "committed");
  assert.deepEqual(kinds(late.heard), ["unavailable"]);
  assert.deepEqual(kinds(right.heard), ["unavailable"]);
});

test("D4: an attach that is refused makes no stream, and nobody waits for one", async (t) => {
  const { store, attach } = await ScriptedHost.start(t);
  const { heard } = await attach({ ...OPEN, eventId: 5, firstChunk: undefined, fresh: false });
  assert.deepEqual(kinds(heard), ["event_ahead"]);
  assert.equal((await store.load(NAME)).kind, "absent");
  assert.deepEqual(kinds((await attach(READ)).heard), ["not_found"]);
  assert.deepEqual(kinds((await attach(OPEN)).heard), ["welcome"]);
});

test("D4: a connection that is gone before it is attached makes no stream, and nobody waits for one", async (t) => {
  const gate = Promise.withResolvers<void>();
  const { store, attach } = await ScriptedHost.start(t, { looking: gate.promise });
  const { wire } = await attach(OPEN);
  const other = await attach({ ...OPEN, journalId: "another" });
  wire.end();
  await settle();
  gate.resolve();
  await settle();
  assert.deepEqual(kinds(other.heard), ["welcome"]);
  const found = await store.load(NAME);
  assert.ok(found.kind === "live");
  assert.deepEqual(
    found.state.writers.map(({ journalId }) => journalId),
    ["another"],
  );
});

test("the application of a stream that is being made has the stream's blobs", async (t) => {
  const found: (string | undefined)[] = [];
  const { log, attach } = await ScriptedHost.start(t, {
    application: async ({ inputs, blobs }) => {
      for await (const _ of inputs) {
        // More often than anybody may ask in vain.
        for (let asked = 0; asked < 20; asked++) assert.equal(await blobs?.get("0".repeat(64)), undefined);
        const id = (await blobs?.put(bytes("large"))) ?? "";
        found.push(text((await blobs?.get(id)) ?? bytes("nothing")));
      }
    },
  });
  log.holding = true;
  const writer = await attach(OPEN);
  log.holding = false;
  await log.finish();
  await settle();
  assert.deepEqual(found, ["large"]);
  assert.deepEqual(kinds(writer.heard), ["welcome"]);
});
