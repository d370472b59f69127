/**
 * What every journal store must do, as a suite that runs over any of them.
 *
 * Invariant checked throughout: a journal is exactly what was reported as written, in order.
 */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { JournalStore } from "../../src/client/journal-store.ts";

export interface JournalStoreUnderTest {
  readonly store: JournalStore;
  /** The same journals through a new store, as after a restart of the process; the one before is over. */
  readonly reopen: () => JournalStore;
  /** Lets the store work until the promise is settled. */
  readonly settle: <T>(promise: Promise<T>) => Promise<T>;
  /** Changes a stored record behind the store's back; left out where there is no medium to damage. */
  readonly damage?: (idempotencyKey: string) => void;
}

const bytes = (...values: number[]): Uint8Array => Uint8Array.from(values);
const A = bytes(1, 2, 3);
const B = bytes(4);
const C = bytes(5, 6);
const EMPTY = bytes();

export function journalStoreConformance(name: string, make: () => JournalStoreUnderTest): void {
  describe(`${name} is a journal store`, () => {
    test("a journal that was never written is empty and not listed", async () => {
      const { store, settle } = make();
      assert.deepEqual(await settle(store.read("none")), []);
      assert.deepEqual(await settle(store.list()), []);
    });

    test("A5: records come back in the order of the appends, byte for byte, also after reopening", async () => {
      const { store, reopen, settle } = make();
      await settle(store.append("k", [A]));
      await settle(store.append("k", [B, EMPTY]));
      await settle(store.append("k", [C]));
      assert.deepEqual(await settle(store.read("k")), [A, B, EMPTY, C]);
      assert.deepEqual(await settle(reopen().read("k")), [A, B, EMPTY, C]);
    });

    test("appends that do not wait for each other keep their order", async () => {
      const { store, settle } = make();
      const numbers = Array.from({ length: 50 }, (_, i) => bytes(i));
      await settle(Promise.all(numbers.map((record) => store.append("k", [record]))));
      assert.deepEqual(await settle(store.read("k")), numbers);
    });

    test("a read sees every append that was made before it", async () => {
      const { store, settle } = make();
      const [, records] = await settle(Promise.all([store.append("k", [A]), store.read("k")]));
      assert.deepEqual(records, [A]);
    });

    test("appending nothing makes no journal", async () => {
      const { store, settle } = make();
      await settle(store.append("k", []));
      assert.deepEqual(await settle(store.list()), []);
    });

    test("journals do not mix, and all are listed", async () => {
      const { store, reopen, settle } = make();
      await settle(Promise.all([store.append("a", [A]), store.append("b", [B])]));
      await settle(store.append("a", [C]));
      assert.deepEqual(await settle(store.read("a")), [A, C]);
      assert.deepEqual(await settle(store.read("b")), [B]);
      assert.deepEqual([...(await settle(reopen().list()))].toSorted(), ["a", "b"]);
    });

    test("replace puts the new records in place of all old ones, and appends go on behind them", async () => {
      const { store, reopen, settle } = make();
      await settle(store.append("k", [A, B]));
      await settle(store.append("k", [A]));
      await settle(store.replace("k", [C, A]));
      await settle(store.append("k", [B]));
      assert.deepEqual(await settle(reopen().read("k")), [C, A, B]);
    });

    test("replace makes a journal that was not there, and without records ends it", async () => {
      const { store, settle } = make();
      await settle(store.replace("k", [A]));
      assert.deepEqual(await settle(store.read("k")), [A]);
      await settle(store.replace("k", []));
      assert.deepEqual(await settle(store.read("k")), []);
      assert.deepEqual(await settle(store.list()), []);
    });

    test("a removed journal is gone for good, and its name can be used again", async () => {
      const { store, reopen, settle } = make();
      await settle(store.append("k", [A]));
      await settle(store.append("other", [B]));
      await settle(store.remove("k"));
      await settle(store.remove("never there"));
      const reopened = reopen();
      assert.deepEqual(await settle(reopened.read("k")), []);
      assert.deepEqual(await settle(reopened.list()), ["other"]);
      await settle(reopened.append("k", [C]));
      assert.deepEqual(await settle(reopened.read("k")), [C]);
    });

    test("nobody shares bytes with the journal", async () => {
      const { store, settle } = make();
      const mine = bytes(1, 2, 3);
      const written = store.append("k", [mine]);
      mine.fill(9);
      await settle(written);
      const [read] = await settle(store.read("k"));
      read?.fill(8);
      assert.deepEqual(await settle(store.read("k")), [A]);
    });

    test("any name that a stream may have names a journal", async () => {
      const { store, reopen, settle } = make();
      const names = ["../escape", "a/b", "UPPER", "upper", "nul\u0000", "ünï", "x".repeat(128), " "];
      for (const name of names) await settle(store.append(name, [A]));
      assert.deepEqual([...(await settle(reopen().list()))].toSorted(), names.toSorted());
    });

    const damaging = make().damage !== undefined;
    if (damaging) {
      test("a damaged record makes read refuse the whole journal, never skip it", async () => {
        const { store, reopen, settle, damage } = make();
        await settle(store.append("k", [A]));
        await settle(store.append("k", [B]));
        await settle(store.append("intact", [C]));
        damage?.("k");
        await assert.rejects(settle(store.read("k")), { code: "stream_failed" });
        const reopened = reopen();
        await assert.rejects(settle(reopened.read("k")), { code: "stream_failed" });
        assert.deepEqual(await settle(reopened.read("intact")), [C]);
        assert.ok((await settle(reopened.list())).includes("k"), "it is still there to be reported");
      });
    }
  });
}
