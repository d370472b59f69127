/**
 * What every journal store must do, as a suite that runs over any of them.
 *
 * Invariant checked throughout: a journal is exactly what was reported as written, in order.
 */
import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import type { JournalStore } from "../../src/client/journal-store.ts";

export interface JournalStoreUnderTest {
  readonly store: JournalStore;
  /** The same journals through a new store, as after a restart of the process; the one before is over. */
  readonly reopen: () => JournalStore | Promise<JournalStore>;
  /** Lets the store work until the promise is settled. */
  readonly settle: <T>(promise: Promise<T>) => Promise<T>;
  /** Changes a stored record behind the store's back; left out where there is no medium to damage. */
  readonly damage?: (idempotencyKey: string) => void | Promise<void>;
  /** Gives back what the store holds. */
  readonly close?: () => Promise<void>;
}

export interface JournalStoreMedium {
  /** There is something under the store that can be damaged: `damage` is there. */
  readonly damageable: boolean;
}

const bytes = (...values: number[]): Uint8Array => Uint8Array.from(values);
const A = bytes(1, 2, 3);
const B = bytes(4);
const C = bytes(5, 6);
const EMPTY = bytes();

export function journalStoreConformance(
  name: string,
  open: () => JournalStoreUnderTest | Promise<JournalStoreUnderTest>,
  { damageable }: JournalStoreMedium = { damageable: false },
): void {
  const make = async (t: TestContext): Promise<JournalStoreUnderTest> => {
    const opened = await open();
    t.after(() => opened.close?.());
    return opened;
  };

  describe(`${name} is a journal store`, () => {
    test("a journal that was never written is empty and not listed", async (t) => {
      const { store, settle } = await make(t);
      assert.deepEqual(await settle(store.read("none")), []);
      assert.deepEqual(await settle(store.list()), []);
    });

    test("A5: records come back in the order of the appends, byte for byte, also after reopening", async (t) => {
      const { store, reopen, settle } = await make(t);
      await settle(store.append("k", [A]));
      await settle(store.append("k", [B, EMPTY]));
      await settle(store.append("k", [C]));
      assert.deepEqual(await settle(store.read("k")), [A, B, EMPTY, C]);
      assert.deepEqual(await settle((await reopen()).read("k")), [A, B, EMPTY, C]);
    });

    test("appends that do not wait for each other keep their order", async (t) => {
      const { store, settle } = await make(t);
      const numbers = Array.from({ length: 50 }, (_, i) => bytes(i));
      await settle(Promise.all(numbers.map((record) => store.append("k", [record]))));
      assert.deepEqual(await settle(store.read("k")), numbers);
    });

    test("a read sees every append that was made before it", async (t) => {
      const { store, settle } = await make(t);
      const [, records] = await settle(Promise.all([store.append("k", [A]), store.read("k")]));
      assert.deepEqual(records, [A]);
    });

    test("appending nothing makes no journal", async (t) => {
      const { store, settle } = await make(t);
      await settle(store.append("k", []));
      assert.deepEqual(await settle(store.list()), []);
    });

    test("journals do not mix, and all are listed", async (t) => {
      const { store, reopen, settle } = await make(t);
      await settle(Promise.all([store.append("a", [A]), store.append("b", [B])]));
      await settle(store.append("a", [C]));
      assert.deepEqual(await settle(store.read("a")), [A, C]);
      assert.deepEqual(await settle(store.read("b")), [B]);
      assert.deepEqual([...(await settle((await reopen()).list()))].toSorted(), ["a", "b"]);
    });

    test("replace puts the new records in place of all old ones, and appends go on behind them", async (t) => {
      const { store, reopen, settle } = await make(t);
      await settle(store.append("k", [A, B]));
      await settle(store.append("k", [A]));
      await settle(store.replace("k", [C, A]));
      await settle(store.append("k", [B]));
      assert.deepEqual(await settle((await reopen()).read("k")), [C, A, B]);
    });

    test("replace makes a journal that was not there, and without records ends it", async (t) => {
      const { store, settle } = await make(t);
      await settle(store.replace("k", [A]));
      assert.deepEqual(await settle(store.read("k")), [A]);
      await settle(store.replace("k", []));
      assert.deepEqual(await settle(store.read("k")), []);
      assert.deepEqual(await settle(store.list()), []);
    });

    test("a removed journal is gone for good, and its name can be used again", async (t) => {
      const { store, reopen, settle } = await make(t);
      await settle(store.append("k", [A]));
      await settle(store.append("other", [B]));
      await settle(store.remove("k"));
      await settle(store.remove("never there"));
      const reopened = await reopen();
      assert.deepEqual(await settle(reopened.read("k")), []);
      assert.deepEqual(await settle(reopened.list()), ["other"]);
      await settle(reopened.append("k", [C]));
      assert.deepEqual(await settle(reopened.read("k")), [C]);
    });

    test("nobody shares bytes with the journal", async (t) => {
      const { store, settle } = await make(t);
      const mine = bytes(1, 2, 3);
      const written = store.append("k", [mine]);
      mine.fill(9);
      await settle(written);
      const [read] = await settle(store.read("k"));
      read?.fill(8);
      assert.deepEqual(await settle(store.read("k")), [A]);
    });

    test("any name that a stream may have names a journal", async (t) => {
      const { store, reopen, settle } = await make(t);
      const names = ["../escape", "a/b", "UPPER", "upper", "nul\u0000", "ünï", "x".repeat(128), " "];
      for (const name of names) await settle(store.append(name, [A]));
      assert.deepEqual([...(await settle((await reopen()).list()))].toSorted(), names.toSorted());
    });

    if (damageable) {
      test("a damaged record makes read refuse the whole journal, never skip it", async (t) => {
        const { store, reopen, settle, damage } = await make(t);
        await settle(store.append("k", [A]));
        await settle(store.append("k", [B]));
        await settle(store.append("intact", [C]));
        assert.ok(damage !== undefined);
        await damage("k");
        await assert.rejects(settle(store.read("k")), { code: "stream_failed" });
        const reopened = await reopen();
        await assert.rejects(settle(reopened.read("k")), { code: "stream_failed" });
        assert.deepEqual(await settle(reopened.read("intact")), [C]);
        assert.ok((await settle(reopened.list())).includes("k"), "it is still there to be reported");
      });
    }
  });
}
