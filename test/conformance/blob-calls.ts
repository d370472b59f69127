/**
 * What the blob calls of every transport must do, against a real server.
 */
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { describe, test, type TestContext } from "node:test";
import type { BlobCalls, ClientMeta } from "../../src/transport/index.ts";

export interface BlobCallsUnderTest {
  readonly blobs: BlobCalls;
  /** Of a stream that is there. */
  readonly meta: ClientMeta;
  /** Credentials of somebody else. */
  readonly stranger: string;
}

const MIB = 1024 * 1024;
const idOf = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");
const notFound = { name: "HoldfastError", code: "not_found" };
const never = new AbortController().signal;

export function blobCallsSuite(name: string, start: (t: TestContext) => Promise<BlobCallsUnderTest>): void {
  describe(`blob calls: ${name}`, () => {
    test("E5: a blob comes back as it went, and may be put again", async (t) => {
      const { blobs, meta } = await start(t);
      for (const size of [0, 1, 64 * 1024, 256 * 1024 + 1, MIB]) {
        const bytes = new Uint8Array(randomBytes(size));
        await blobs.put(meta, idOf(bytes), bytes, never);
        await blobs.put(meta, idOf(bytes), bytes, never);
        assert.deepEqual(await blobs.get(meta, idOf(bytes), never), bytes, `${size} bytes`);
      }
    });

    test("E8: 64 MiB is the largest blob", async (t) => {
      const { blobs, meta } = await start(t);
      const bytes = new Uint8Array(64 * MIB + 1).fill(0x68);
      const largest = bytes.subarray(1);
      await blobs.put(meta, idOf(largest), largest, never);
      const got = await blobs.get(meta, idOf(largest), never);
      assert.ok(Buffer.from(got).equals(largest));
      const refused = { name: "HoldfastError", code: "too_large" };
      await assert.rejects(blobs.put(meta, idOf(bytes), bytes, never), refused);
    });

    test("E5: an id that is not that of the bytes is refused, and so is one that is none", async (t) => {
      const { blobs, meta } = await start(t);
      const bytes = new Uint8Array(randomBytes(1000));
      const refused = { name: "HoldfastError", code: "invalid_frame" };
      await assert.rejects(blobs.put(meta, idOf(Uint8Array.of(1)), bytes, never), refused);
      await assert.rejects(blobs.put(meta, "abc", bytes, never), refused);
      await assert.rejects(blobs.get(meta, idOf(Uint8Array.of(1)), never), notFound);
    });

    test("E1, E2: a miss, another principal, a wrong stream key and no stream are one answer", async (t) => {
      const { blobs, meta, stranger } = await start(t);
      const bytes = new Uint8Array(randomBytes(100_000));
      const id = idOf(bytes);
      await blobs.put(meta, id, bytes, never);
      await assert.rejects(blobs.get(meta, idOf(Uint8Array.of(2)), never), notFound);
      for (const other of [
        { ...meta, credentials: stranger },
        { ...meta, streamKey: new Uint8Array(32).fill(9) },
        { ...meta, idempotencyKey: "no-such-stream" },
      ]) {
        await assert.rejects(blobs.get(other, id, never), notFound);
        await assert.rejects(blobs.put(other, id, bytes, never), notFound);
      }
    });

    test("E1, E2: a conversation's blobs are found by its key and principal alone, need no stream, and are forgotten together", async (t) => {
      const { blobs, meta, stranger } = await start(t);
      const conversation = { key: new Uint8Array(32).fill(5), keepMs: 60_000 };
      const own = { ...meta, idempotencyKey: "no-such-stream", conversation };
      const [small, large] = [new Uint8Array(randomBytes(100)), new Uint8Array(randomBytes(300_000))];
      for (const bytes of [small, large]) await blobs.put(own, idOf(bytes), bytes, never);
      assert.deepEqual(await blobs.get(own, idOf(large), never), large);
      for (const other of [
        meta,
        { ...own, credentials: stranger },
        { ...own, conversation: { ...conversation, key: new Uint8Array(32).fill(6) } },
      ]) {
        await assert.rejects(blobs.get(other, idOf(small), never), notFound);
        if (other !== meta) await blobs.forget(other, never);
      }
      assert.deepEqual(await blobs.get(own, idOf(small), never), small, "theirs was not forgotten");
      await assert.rejects(blobs.forget(meta, never), { name: "HoldfastError", code: "invalid_frame" });
      const short = { ...own, conversation: { ...conversation, key: new Uint8Array(31) } };
      await assert.rejects(blobs.get(short, idOf(small), never), { code: "invalid_frame" });
      await blobs.forget(own, never);
      await assert.rejects(blobs.get(own, idOf(small), never), notFound);
      await blobs.forget(own, never);
    });

    test("E7: nothing is told without credentials", async (t) => {
      const { blobs, meta } = await start(t);
      const anonymous = { ...meta, credentials: undefined };
      const refused = { name: "HoldfastError", code: "unauthenticated" };
      await assert.rejects(blobs.get(anonymous, idOf(Uint8Array.of(1)), never), refused);
      await assert.rejects(blobs.put(anonymous, idOf(Uint8Array.of(1)), Uint8Array.of(1), never), refused);
    });

    test("a call that is stopped rejects with the reason", async (t) => {
      const { blobs, meta } = await start(t);
      const bytes = new Uint8Array(8 * MIB);
      const reason = new Error("enough");
      const stop = new AbortController();
      const put = blobs.put(meta, idOf(bytes), bytes, stop.signal);
      stop.abort(reason);
      await assert.rejects(put, (error) => error === reason);
      await assert.rejects(blobs.get(meta, idOf(bytes), stop.signal), (error) => error === reason);
    });
  });
}
