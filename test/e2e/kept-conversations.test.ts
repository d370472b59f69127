/**
 * A conversation that the server keeps: durable with the events that name it, readable with its key alone, and gone when its time is over or
 * its client says so.
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Client } from "../../src/client/index.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { type Application, createServer } from "../../src/server/index.ts";
import { DATABASE_FILE, openSqliteStore } from "../../src/store/index.ts";
import { memoryTransport } from "../../src/transport/index.ts";
import { newFolder } from "../store/sqlite-fixtures.ts";
import { bytes, HOME_KEY, rest, Rig, text, turn, until, words } from "./rig.ts";

const idOf = (body: Uint8Array): string => createHash("sha256").update(body).digest("hex");
const TRIP = { id: "trip", keepMs: 60_000 };

/** Keeps what it is told, and says under which name; or says what is kept under a name. */
const keeper: Application = async (stream) => {
  let said = 0;
  for await (const _ of stream.past()) said++;
  for await (const input of stream.inputs) {
    if (input.kind === "close") return;
    if (input.kind !== "chunk" || said-- > 0) continue;
    const found = await stream.conversation?.get(text(input.body));
    const kept = { id: idOf(input.body), bytes: input.body };
    if (stream.conversation === undefined) await stream.emit(bytes("no conversation"));
    else if (found !== undefined) await stream.emit(found);
    else await stream.emit(bytes(kept.id), [kept]);
  }
};

async function told(rig: Rig, word: string, conversation = TRIP, principal = "alice"): Promise<string> {
  const client = rig.client({ principal, credentials: async () => principal });
  const stream = await client.open({ first: bytes(word), conversation });
  await stream.close();
  return words(await rest(stream))[0] ?? "";
}

test("what a turn keeps outlives its stream, and is read by the next one", async (t) => {
  const rig = await Rig.start(t, keeper);
  const id = await told(rig, "Oslo");
  assert.equal(id, idOf(bytes("Oslo")));
  await rig.crash();
  assert.equal(await told(rig, id), "Oslo");
  const blobs = await rig.client({ principal: "alice" }).conversation(TRIP);
  assert.equal(text(await blobs.get(id)), "Oslo");
  const large = new Uint8Array(300_000).fill(1);
  assert.equal((await blobs.get(await blobs.put(large))).length, large.length);
});

test("E1, E2: another conversation, another principal and another home key find nothing", async (t) => {
  const rig = await Rig.start(t, keeper);
  const id = await told(rig, "Oslo");
  assert.notEqual(await told(rig, id, { ...TRIP, id: "other" }), "Oslo");
  assert.notEqual(await told(rig, id, TRIP, "bob"), "Oslo");
  // The same key for two principals: a thief's own space.
  const thief = rig.client({ principal: "alice", credentials: async () => "bob" });
  await assert.rejects((await thief.conversation(TRIP)).get(id), { code: "not_found" });
  const stranger = rig.client({ principal: "alice", homeKey: new Uint8Array(32).fill(8) });
  await assert.rejects((await stranger.conversation(TRIP)).get(id), { code: "not_found" });
});

test("E1: a stream is not found with another conversation key than its own", async (t) => {
  const rig = await Rig.start(t, keeper);
  const own = rig.process({ journals: "none" });
  const stream = await own.client.open({ first: bytes("Oslo"), conversation: TRIP });
  await stream.events.next();
  own.kill();
  const other = await rig
    .client({ journals: "none" })
    .resume(stream.idempotencyKey, { conversation: { ...TRIP, id: "other" } });
  // If it were let in, it would come to its end.
  await Promise.allSettled([other.close()]);
  assert.equal(await other.ended, "lost");
  assert.equal(other.status.failure?.code, "not_found");
});

test("a turn whose conversation cannot be read waits for a client with its key; a reader gets the log meanwhile", async (t) => {
  const rig = await Rig.start(t, keeper);
  const own = rig.process({ journals: "none" });
  const stream = await own.client.open({ first: bytes("Oslo"), conversation: TRIP });
  await stream.events.next();
  own.kill();
  await rig.crash();
  const reader = await rig.client().follow(stream.idempotencyKey);
  const heard: string[] = [];
  const listening = (async () => {
    for await (const { body } of reader.events) heard.push(text(body));
  })();
  const client = rig.client({ journals: "none" });
  const keyless = await client.resume(stream.idempotencyKey);
  await keyless.send(bytes("Bergen"));
  for (let turns = 0; turns < 50; turns++) await turn();
  assert.deepEqual(heard, [idOf(bytes("Oslo"))], "nothing runs without the key");
  keyless.leave();
  await keyless.ended;
  const resumed = await client.resume(stream.idempotencyKey, { conversation: TRIP });
  await resumed.close();
  assert.deepEqual(words(await rest(resumed)), [idOf(bytes("Oslo")), idOf(bytes("Bergen")), ""]);
  await listening;
  assert.equal(heard.length, 3);
});

test("D3: a turn that cannot be read can be stopped", async (t) => {
  const rig = await Rig.start(t, keeper);
  const own = rig.process({ journals: "none" });
  const stream = await own.client.open({ first: bytes("Oslo"), conversation: TRIP });
  await stream.events.next();
  own.kill();
  await rig.crash();
  const stopper = await rig.client({ journals: "none" }).abort(stream.idempotencyKey);
  assert.equal(await stopper.ended, "aborted");
});

test("a conversation is gone when its client says so", async (t) => {
  const rig = await Rig.start(t, keeper);
  const id = await told(rig, "Oslo");
  const blobs = await rig.client({ principal: "alice" }).conversation(TRIP);
  await blobs.forget();
  await assert.rejects(blobs.get(id), { code: "not_found" });
  await blobs.forget();
});

test("E4, E8: on the disk nothing of it can be read, a principal has a quota, and the sweep clears what is over", async (t) => {
  const folder = newFolder();
  let aheadMs = 0;
  const now = (): number => Date.now() + aheadMs;
  const store = await openSqliteStore(folder, { now });
  const sealing = nodeSealing();
  const limits = { bytesMax: 20_000, ttlMs: 30_000 };
  const server = createServer({
    store: store.streams,
    blobs: store.blobs,
    sealing,
    application: keeper,
    conversations: limits,
    sweepIntervalMs: 20,
  });
  t.after(() => store.close());
  t.after(() => server.shutdown());
  const transport = memoryTransport(server.accept, { principalOf: (name) => name, blobs: server.blobs });
  const client = new Client({
    connect: transport.connect,
    blobs: transport.blobs,
    sealing,
    homeKey: HOME_KEY,
    credentials: async () => "alice",
  });
  t.after(() => client.close());
  const canary = `a canary that sings ${"la ".repeat(20)}`;
  const stream = await client.open({ first: bytes(canary), conversation: TRIP });
  await stream.close();
  await rest(stream);
  const files = [DATABASE_FILE, `${DATABASE_FILE}-wal`].map((file) => readFileSync(join(folder, file)));
  const { key } = { key: sealing.deriveConversationKey(HOME_KEY, "", TRIP.id) };
  for (const secret of [Buffer.from("a canary that sings"), Buffer.from(key), Buffer.from(TRIP.id)])
    assert.ok(!files.some((file) => file.includes(secret)), `${secret.toString("latin1")} lies on the disk`);
  assert.deepEqual((await store.blobs.listSpaces({ after: undefined, countMax: 10 })).length, 1);

  const blobs = await client.conversation({ ...TRIP, id: "large" });
  const large = await blobs.put(new Uint8Array(20_000));
  await assert.rejects(blobs.put(new Uint8Array(1)), { code: "too_large" });
  assert.equal((await blobs.get(large)).length, 20_000, "what is there can be read");
  const refused = await client.open({ first: bytes("more"), conversation: TRIP });
  await refused.ended;
  assert.equal(refused.status.failure?.code, "too_large", "and opens no stream that would keep more");
  // The server keeps nothing for longer than it may, whatever the client asks for.
  aheadMs = limits.ttlMs + 1_000;
  const isEmpty = async (): Promise<boolean> =>
    (await store.blobs.listSpaces({ after: undefined, countMax: 10 })).length === 0;
  await until(isEmpty, "what is over is cleared");
  await until(
    async () =>
      blobs.put(new Uint8Array(1)).then(
        () => true,
        () => false,
      ),
    "there is room again",
  );
});
