/**
 * What every blob store must do: content-addressed, idempotent, honest about misses and damage.
 */
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { suite, test } from "node:test";
import type { ErrorCode } from "../../src/protocol/errors.ts";
import { HoldfastError } from "../../src/protocol/errors.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import type { BlobName, BlobSealer, BlobStore } from "../../src/store/index.ts";
import { sha256Hex } from "../../src/store/index.ts";

export interface BlobStoreHarness {
  readonly store: BlobStore;
  readonly reopen?: () => Promise<BlobStore>;
  readonly clock: { advance(ms: number): void };
  /** Changes the stored bytes of a blob behind the store's back. */
  readonly damage?: (name: BlobName) => void | Promise<void>;
}

/** Not a cipher: enough to see that the store keeps what the sealer gave it. */
const sealer: BlobSealer = {
  seal: (_, bytes) => Uint8Array.from([1, ...bytes.map((byte) => byte ^ 0xff)]),
  open: (_, sealed) => sealed.subarray(1).map((byte) => byte ^ 0xff),
};

function blob(text: string, space = "s"): { readonly name: BlobName; readonly bytes: Uint8Array } {
  const bytes = new TextEncoder().encode(text);
  return { name: { space, id: sha256Hex(bytes) }, bytes };
}

function hasCode(code: ErrorCode): (error: unknown) => boolean {
  return (error) => error instanceof HoldfastError && error.code === code;
}

const FIRST = { after: undefined, countMax: 100 };

export function blobStoreConformance(storeName: string, open: () => Promise<BlobStoreHarness>): void {
  const opened = async (t: TestContext): Promise<BlobStoreHarness> => {
    const harness = await open();
    t.after(() => harness.store.close());
    return harness;
  };

  suite(`${storeName}: blobs`, () => {
    test("a blob comes back as it was put, and a missing one is a miss", async (t) => {
      const { store } = await opened(t);
      const { name, bytes } = blob("hello");
      assert.deepEqual(await store.get(name), { kind: "miss" });
      assert.equal(await store.has(name), false);
      assert.deepEqual(await store.put(name, bytes), { existed: false });
      assert.equal(await store.has(name), true);
      assert.deepEqual(await store.get(name), { kind: "found", bytes });
    });

    test("the bytes that were put stay the caller's, who may use a Buffer again", async (t) => {
      const { store } = await opened(t);
      const { name, bytes } = blob("hello");
      const buffer = Buffer.from(bytes.slice().buffer);
      const put = store.put(name, buffer);
      buffer.fill(0);
      await put;
      assert.equal(buffer.byteLength, bytes.byteLength);
      assert.deepEqual(await store.get(name), { kind: "found", bytes });
    });

    test("an empty blob is a blob, not a miss", async (t) => {
      const { store } = await opened(t);
      const { name, bytes } = blob("");
      await store.put(name, bytes);
      assert.deepEqual(await store.get(name), { kind: "found", bytes });
    });

    test("E5: a put whose id is not that of the bytes is refused and stores nothing", async (t) => {
      const { store } = await opened(t);
      const { name } = blob("one");
      await assert.rejects(store.put(name, blob("two").bytes), hasCode("invalid_frame"));
      await assert.rejects(
        store.put({ space: "s", id: name.id.toUpperCase() }, blob("one").bytes),
        hasCode("invalid_frame"),
      );
      assert.equal(await store.has(name), false);
    });

    test("E5: bytes that changed in the store are refused on the way out", async (t) => {
      const { store, damage } = await opened(t);
      if (damage === undefined) return t.diagnostic("this store cannot be damaged from outside");
      const { name, bytes } = blob("hello");
      await store.put(name, bytes);
      await damage(name);
      await assert.rejects(store.get(name), hasCode("stream_failed"));
    });

    test("E5: nobody can change a blob through the bytes they put or got", async (t) => {
      const { store } = await opened(t);
      const { name, bytes } = blob("hello");
      const mine = bytes.slice();
      await store.put(name, mine);
      mine.fill(0);
      const got = await store.get(name);
      assert.ok(got.kind === "found");
      got.bytes.fill(0);
      assert.deepEqual(await store.get(name), { kind: "found", bytes });
    });

    test("a put is idempotent, and makes the blob young again", async (t) => {
      const { store, clock } = await opened(t);
      const { name, bytes } = blob("hello");
      await store.put(name, bytes);
      const [before] = await store.list("s", FIRST);
      clock.advance(500);
      assert.deepEqual(await store.put(name, bytes), { existed: true });
      const listed = await store.list("s", FIRST);
      assert.equal(listed.length, 1);
      assert.equal(listed[0]?.storedMs, (before?.storedMs ?? 0) + 500);
    });

    test("E2: one space does not see the blobs of another", async (t) => {
      const { store } = await opened(t);
      const { name, bytes } = blob("hello", "mine");
      await store.put(name, bytes);
      const theirs = { space: "theirs", id: name.id };
      assert.equal(await store.has(theirs), false);
      assert.deepEqual(await store.get(theirs), { kind: "miss" });
      assert.equal(await store.delete(theirs), false);
      assert.deepEqual(await store.list("theirs", FIRST), []);
      assert.equal(await store.has(name), true);
    });

    test("E4: with a sealer the store holds only sealed bytes, and the id is that of the plaintext", async (t) => {
      const { store } = await opened(t);
      const { name, bytes } = blob("hello");
      await store.put(name, bytes, sealer);
      assert.deepEqual(await store.get(name, sealer), { kind: "found", bytes });
      await assert.rejects(store.get(name), hasCode("stream_failed"));
    });

    test("a deleted blob is a miss", async (t) => {
      const { store } = await opened(t);
      const { name, bytes } = blob("hello");
      await store.put(name, bytes);
      assert.equal(await store.delete(name), true);
      assert.equal(await store.delete(name), false);
      assert.deepEqual(await store.get(name), { kind: "miss" });
      assert.deepEqual(await store.listSpaces(FIRST), []);
    });

    test("blobs and spaces are listed in order and in pages; a space is cleared as a whole", async (t) => {
      const { store } = await opened(t);
      const blobs = ["a", "b", "c", "d", "e"].map((text) => blob(text, "full"));
      for (const { name, bytes } of blobs) await store.put(name, bytes);
      const lone = blob("lone", "alone");
      await store.put(lone.name, lone.bytes);
      const ids = blobs.map(({ name }) => name.id).toSorted();
      const first = (await store.list("full", { after: undefined, countMax: 3 })).map(({ id }) => id);
      const rest = (await store.list("full", { after: first.at(-1), countMax: 3 })).map(({ id }) => id);
      assert.deepEqual([...first, ...rest], ids);
      assert.equal(first.length, 3);
      assert.deepEqual(await store.listSpaces(FIRST), ["alone", "full"]);
      assert.deepEqual(await store.listSpaces({ after: "alone", countMax: 1 }), ["full"]);
      assert.equal(await store.clear("full"), 5);
      assert.deepEqual(await store.listSpaces(FIRST), ["alone"]);
    });

    test("F2: a space that has an end is cleared then, as a whole; each put with a time moves the end", async (t) => {
      const { store, clock } = await opened(t);
      const [first, second, other] = [
        blob("first", "kept"),
        blob("second", "kept"),
        blob("other", "endless"),
      ];
      await store.put(first.name, first.bytes, undefined, 1_000);
      await store.put(other.name, other.bytes);
      clock.advance(900);
      await store.put(second.name, second.bytes, undefined, 1_000);
      clock.advance(900);
      assert.equal(await store.sweepSpaces(10), 0);
      assert.equal(await store.has(first.name), true, "older blobs live as long as their space");
      assert.equal(await store.storedBytes("kept"), first.bytes.length + second.bytes.length);
      assert.equal(await store.storedBytes(""), 16);
      clock.advance(100);
      assert.equal(await store.sweepSpaces(10), 1);
      assert.deepEqual(await store.listSpaces(FIRST), ["endless"]);
      assert.equal(await store.storedBytes("kept"), 0);
      assert.equal(await store.sweepSpaces(10), 0);
      // A space that was cleared before has no end any more.
      await store.put(first.name, first.bytes, undefined, 1_000);
      await store.clear("kept");
      await store.put(first.name, first.bytes);
      clock.advance(2_000);
      assert.equal(await store.sweepSpaces(10), 0);
      assert.equal(await store.has(first.name), true);
    });

    test("E8: a blob of 64 MiB is stored, one byte more is refused", async (t) => {
      const { store } = await opened(t);
      const large = new Uint8Array(LIMITS.blobBytesMax + 1);
      await assert.rejects(store.put({ space: "s", id: sha256Hex(large) }, large), hasCode("too_large"));
      const most = large.subarray(1);
      const name = { space: "s", id: sha256Hex(most) };
      await store.put(name, most);
      const got = await store.get(name);
      assert.ok(got.kind === "found" && got.bytes.byteLength === LIMITS.blobBytesMax);
    });

    test("a restart finds the blobs", async (t) => {
      const { store, reopen } = await opened(t);
      if (reopen === undefined) return t.diagnostic("this store does not outlive its process");
      const { name, bytes } = blob("hello");
      await store.put(name, bytes);
      const again = await reopen();
      t.after(() => again.close());
      assert.deepEqual(await again.get(name), { kind: "found", bytes });
    });

    test("a closed store refuses", async (t) => {
      const { store } = await opened(t);
      const { name, bytes } = blob("hello");
      await store.close();
      await assert.rejects(store.put(name, bytes), hasCode("unavailable"));
      await assert.rejects(store.get(name), hasCode("unavailable"));
      await store.close();
    });
  });
}
