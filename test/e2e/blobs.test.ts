/**
 * Blobs end to end in one process: what the client puts the application finds, and the other way round.
 */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { HoldfastError } from "../../src/protocol/index.ts";
import type { Application } from "../../src/server/index.ts";
import type { BlobCalls } from "../../src/transport/index.ts";
import { bytes, rest, Rig, text, words } from "./rig.ts";

/** Reads the blob that the first chunk names, and names one of its own that says the same twice. */
const doubling: Application = async (stream) => {
  for await (const input of stream.inputs) {
    if (input.kind !== "chunk") continue;
    const named = await stream.blobs?.get(text(input.body));
    const twice = await stream.blobs?.put(Buffer.concat([named ?? bytes("?"), named ?? bytes("?")]));
    await stream.end(bytes(twice ?? "no blobs here"));
    return;
  }
};

/** Fails as the network does, so many times. */
function failing(calls: BlobCalls, times: number, code: "connection_lost" | "unauthenticated"): BlobCalls {
  let left = times;
  const attempt = async (): Promise<void> => {
    if (left-- > 0) throw new HoldfastError(code, "as told");
  };
  return {
    put: async (...call) => attempt().then(() => calls.put(...call)),
    get: async (...call) => attempt().then(() => calls.get(...call)),
    forget: async (...call) => attempt().then(() => calls.forget(...call)),
  };
}

test("a blob that the first chunk names is put before that chunk is said", async (t) => {
  const rig = await Rig.start(t, doubling);
  const client = rig.client();
  const stream = await client.open();
  const body = new Uint8Array(randomBytes(300_000));
  const id = await stream.putBlob(body);
  await stream.send(bytes(id));
  const [twice = ""] = words(await rest(stream));
  assert.equal(await stream.ended, "completed");
  assert.deepEqual(
    Buffer.from(await stream.getBlob(twice)),
    Buffer.concat([body, body]),
    "also after the end",
  );
  await assert.rejects(stream.putBlob(body), { code: "stream_ended" });
  await assert.rejects(stream.getBlob("0".repeat(64)), { code: "not_found" });
  await assert.rejects(stream.getBlob("not an id"), { code: "invalid_frame" });
  await client.close();
  await assert.rejects(stream.getBlob(twice), { code: "unavailable" });
});

test("a blob outlives the server that took it, and calls are repeated over breaks", async (t) => {
  const rig = await Rig.start(t, doubling);
  const stream = await rig.client({ blobs: failing(rig.blobs, 3, "connection_lost") }).open();
  const id = await stream.putBlob(bytes("again"));
  await rig.crash();
  assert.equal(text(await stream.getBlob(id)), "again");
  await stream.send(bytes(id));
  const [twice = ""] = words(await rest(stream));
  assert.equal(text(await stream.getBlob(twice)), "againagain");
});

test("F5: a store that fails while the application reads a blob ends no stream: it is let go, and run again", async (t) => {
  const rig = await Rig.start(t, doubling);
  const stream = await rig.client().open();
  const id = await stream.putBlob(bytes("again"));
  rig.blobFailures = 2;
  await stream.send(bytes(id));
  const [twice = ""] = words(await rest(stream));
  assert.equal(await stream.ended, "completed");
  assert.equal(text(await stream.getBlob(twice)), "againagain");
});

test("credentials that ran out are asked for once, and then it is over", async (t) => {
  const rig = await Rig.start(t, doubling);
  let asked = 0;
  const credentials = async (): Promise<string> => (asked++, "alice");
  const once = rig.client({ credentials, blobs: failing(rig.blobs, 1, "unauthenticated") });
  await (await once.open()).putBlob(bytes("one"));
  assert.equal(asked, 2);
  const twice = rig.client({ credentials, blobs: failing(rig.blobs, 2, "unauthenticated") });
  const stream = await twice.open();
  await assert.rejects(stream.putBlob(bytes("two")), { code: "unauthenticated" });
  assert.equal(asked, 4);
});

test("E5: bytes that are not those of the id are not handed on", async (t) => {
  const rig = await Rig.start(t, doubling);
  const lying = { ...rig.blobs, get: async () => bytes("something else") };
  const stream = await rig.client({ blobs: lying }).open();
  const id = await stream.putBlob(bytes("the truth"));
  await assert.rejects(stream.getBlob(id), { code: "stream_failed" });
});

test("E8: what is too large for a blob is refused before anything is sent", async (t) => {
  const rig = await Rig.start(t, doubling);
  const stream = await rig.client().open();
  await assert.rejects(stream.putBlob(new Uint8Array(64 * 1024 * 1024 + 1)), { code: "too_large" });
});

test("D5: a stream without durability has no blobs, on either side", async (t) => {
  const rig = await Rig.start(t, doubling);
  await rig.loseStore();
  const stream = await rig.client().open({ first: bytes("x") });
  await assert.rejects(stream.putBlob(bytes("x")), { code: "unavailable" });
  assert.deepEqual(words(await rest(stream)), ["no blobs here"]);
});

test("a client without blob calls says so; one that leaves ends what waits", async (t) => {
  const rig = await Rig.start(t, doubling);
  const bare = await rig.client({ blobs: undefined }).open();
  await assert.rejects(bare.putBlob(bytes("x")), { code: "unavailable", message: /blobs/ });
  const client = rig.client({ blobs: failing(rig.blobs, 1e9, "connection_lost") });
  const stream = await client.open();
  const put = assert.rejects(stream.putBlob(bytes("x")), { code: "unavailable" });
  stream.leave();
  await put;
  assert.equal(client.get(stream.idempotencyKey), undefined);
});

test("an open stream is found by its idempotency key, as its writer has it", async (t) => {
  const rig = await Rig.start(t, doubling);
  const client = rig.client();
  assert.equal(client.get("mine"), undefined);
  const writer = await client.open({ idempotencyKey: "mine" });
  const reader = await client.follow("mine");
  assert.equal(client.get("mine"), writer);
  reader.leave();
  writer.leave();
  await Promise.all([reader.ended, writer.ended]);
  assert.equal(client.get("mine"), undefined);
});
