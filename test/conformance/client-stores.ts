/**
 * What every store of a client's blobs and conversations must do, as suites that run over any of them.
 *
 * Invariant checked throughout: what was reported as kept is there, byte for byte, also after a restart.
 */
import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import { blobIdOf, type ClientBlobStore } from "../../src/client/agent/blob-store.ts";
import type { ConversationRecord, ConversationStore } from "../../src/client/agent/conversation-store.ts";

export interface StoresUnderTest {
  readonly blobs: ClientBlobStore;
  readonly records: ConversationStore;
  /** The same through new stores, as after a restart of the process; those before are over. */
  readonly reopen: () => Promise<{ readonly blobs: ClientBlobStore; readonly records: ConversationStore }>;
  /** Changes a stored blob behind the store's back; left out where there is no medium to damage. */
  readonly damage?: (id: string) => Promise<void>;
  readonly close?: () => Promise<void>;
}

/** The stores' clock. */
export interface TestClock {
  nowMs: number;
}

const bytes = (...values: number[]): Uint8Array => Uint8Array.from(values);
const NO_BLOB = "0".repeat(64);

const record = (conversationId: string, more: Partial<ConversationRecord> = {}): ConversationRecord => ({
  conversationId,
  title: "A title",
  model: "provider/model",
  createdMs: 1,
  updatedMs: 2,
  version: 0,
  ...more,
});

/** Everything but the bytes, in an order of its own. */
function wordsOf(found: ConversationRecord | undefined): string {
  const fields = Object.entries({ ...found, checkpoint: 0 });
  return JSON.stringify(fields.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

async function idsOf(blobs: ClientBlobStore): Promise<string[]> {
  const ids: string[] = [];
  for await (const { id } of blobs.list()) ids.push(id);
  return ids.toSorted();
}

export function clientStoresConformance(
  name: string,
  open: (clock: TestClock) => Promise<StoresUnderTest>,
  { damageable }: { readonly damageable: boolean },
): void {
  const make = async (t: TestContext): Promise<StoresUnderTest & { readonly clock: TestClock }> => {
    const clock = { nowMs: 1_000 };
    const opened = await open(clock);
    t.after(() => opened.close?.());
    return { ...opened, clock };
  };

  describe(`${name} keeps a client's blobs`, () => {
    test("blobs come back byte for byte, also after reopening; others are not there", async (t) => {
      const { blobs, reopen } = await make(t);
      const kept = [bytes(), bytes(1, 2, 3), new Uint8Array(70_000).fill(9)];
      for (const blob of kept) await blobs.put(blobIdOf(blob), blob);
      const reopened = await reopen();
      for (const blob of kept) assert.deepEqual(await reopened.blobs.get(blobIdOf(blob)), blob);
      assert.equal(await reopened.blobs.get(NO_BLOB), undefined);
      assert.equal(await reopened.blobs.get("no blob id"), undefined);
      assert.deepEqual(await idsOf(reopened.blobs), kept.map(blobIdOf).toSorted());
    });

    test("a blob of several parts comes back whole", async (t) => {
      const { blobs } = await make(t);
      const large = new Uint8Array(1_300_000).map((_, at) => at % 251);
      await blobs.put(blobIdOf(large), large);
      assert.equal(blobIdOf((await blobs.get(blobIdOf(large))) ?? bytes()), blobIdOf(large));
      assert.equal(await blobs.delete(blobIdOf(large)), true);
      assert.equal(await blobs.get(blobIdOf(large)), undefined);
    });

    test("E5: bytes under another id than their own are refused", async (t) => {
      const { blobs } = await make(t);
      await assert.rejects(blobs.put(blobIdOf(bytes(1)), bytes(2)), { code: "invalid_frame" });
      await assert.rejects(blobs.put("short", bytes(2)), { code: "invalid_frame" });
      assert.deepEqual(await idsOf(blobs), []);
    });

    test("nobody shares bytes with the store", async (t) => {
      const { blobs } = await make(t);
      const mine = bytes(1, 2, 3);
      const id = blobIdOf(mine);
      const putting = blobs.put(id, mine);
      mine.fill(9);
      await putting;
      (await blobs.get(id))?.fill(8);
      assert.deepEqual(await blobs.get(id), bytes(1, 2, 3));
    });

    test("a blob is deleted once, and not at all when it was put again since", async (t) => {
      const { blobs, clock } = await make(t);
      const id = blobIdOf(bytes(1));
      await blobs.put(id, bytes(1));
      clock.nowMs = 2_000;
      await blobs.put(id, bytes(1));
      assert.equal(await blobs.delete(id, 1_000), false);
      assert.deepEqual(await blobs.get(id), bytes(1));
      for await (const { storedMs } of blobs.list()) assert.equal(storedMs, 2_000);
      assert.equal(await blobs.delete(id, 2_000), true);
      assert.equal(await blobs.delete(id), false);
      assert.equal(await blobs.get(id), undefined);
    });

    if (damageable) {
      test("E5: a damaged blob is refused, never given out", async (t) => {
        const { blobs, damage, reopen } = await make(t);
        const id = blobIdOf(bytes(1, 2, 3));
        await blobs.put(id, bytes(1, 2, 3));
        assert.ok(damage !== undefined);
        await damage(id);
        await assert.rejects(blobs.get(id), { code: "stream_failed" });
        await blobs.put(id, bytes(1, 2, 3));
        assert.deepEqual(await (await reopen()).blobs.get(id), bytes(1, 2, 3));
      });
    }
  });

  describe(`${name} keeps a client's conversations`, () => {
    test("a record comes back as it was, also after reopening", async (t) => {
      const { records, reopen } = await make(t);
      const turn = {
        idempotencyKey: "k",
        startedMs: 5,
        kind: "message" as const,
        checkpointEventId: 7,
        turnsBefore: 1,
        messagesBefore: 2,
      };
      const lastTurn = { idempotencyKey: "j", reason: "failed" as const, message: "ünlucky" };
      const more = { turn, lastTurn, checkpoint: bytes(0, 255), parentId: "p", subagentDepth: 2 };
      const stored = await records.put(record("c", more));
      assert.equal(stored.version, 1);
      const reopened = await reopen();
      const found = await reopened.records.get("c");
      assert.deepEqual(found?.checkpoint, bytes(0, 255));
      assert.equal(wordsOf(found), wordsOf(stored));
      assert.equal(await reopened.records.get("none"), undefined);
    });

    test("a checkpoint may be empty, or not there", async (t) => {
      const { records } = await make(t);
      await records.put(record("empty", { checkpoint: bytes() }));
      await records.put(record("none"));
      assert.deepEqual((await records.get("empty"))?.checkpoint, bytes());
      assert.equal((await records.get("none"))?.checkpoint, undefined);
    });

    test("D1: a record is written over only by somebody who has seen it as it is", async (t) => {
      const { records } = await make(t);
      const first = await records.put(record("c"));
      await assert.rejects(records.put(record("c")), { code: "busy" });
      const second = await records.put({ ...first, title: "Another" });
      await assert.rejects(records.put({ ...first, title: "Late" }), { code: "busy" });
      assert.equal((await records.get("c"))?.title, "Another");
      assert.equal(second.version, 2);
      const both = await Promise.allSettled([records.put(second), records.put(second)]);
      assert.deepEqual(both.map(({ status }) => status).toSorted(), ["fulfilled", "rejected"]);
    });

    test("all records are listed until they are removed", async (t) => {
      const { records, reopen } = await make(t);
      for (const id of ["b", "a", "ünï/../c"]) await records.put(record(id));
      await records.remove("a");
      await records.remove("never there");
      const listed = await (await reopen()).records.list();
      assert.deepEqual(listed.map(({ conversationId }) => conversationId).toSorted(), ["b", "ünï/../c"]);
    });
  });
}
