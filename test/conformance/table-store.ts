/**
 * What every table store must do: versions, atomic batches, expiry by its own clock.
 */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { HoldfastError } from "../../src/protocol/errors.ts";
import type { TableKey, TableStore } from "../../src/store/index.ts";
import { NO_ROW } from "../../src/store/index.ts";
import type { OpenedTables, TableStoreHarness } from "./table-fixtures.ts";
import { at, bytes } from "./table-fixtures.ts";

export type { TableStoreHarness } from "./table-fixtures.ts";

const FIRST = { after: undefined, countMax: 100 };

async function textAt(store: TableStore, where: TableKey): Promise<string | undefined> {
  const row = await store.get(where);
  return row === undefined ? undefined : new TextDecoder().decode(row.value);
}

export function tableStoreConformance(storeName: string, open: () => Promise<TableStoreHarness>): void {
  const opened: OpenedTables = async (t) => {
    const harness = await open();
    t.after(async () => {
      await harness.peer?.close();
      await harness.store.close();
    });
    return harness;
  };
  tableRows(storeName, opened);
  tableBatches(storeName, opened);
}

function tableRows(storeName: string, opened: OpenedTables): void {
  suite(`${storeName}: rows`, () => {
    test("a value that was put stays as it was when its Buffer is used again", async (t) => {
      const { store } = await opened(t);
      const value = Buffer.from("before");
      const put = store.put(at("k"), value);
      value.write("after!");
      await put;
      assert.equal(await textAt(store, at("k")), "before");
    });

    test("a row comes back as it was put, under its table and key only", async (t) => {
      const { store } = await opened(t);
      assert.equal(await store.get(at("k")), undefined);
      const version = await store.put(at("k"), bytes("v"));
      assert.ok(version > NO_ROW);
      assert.deepEqual(await store.get(at("k")), {
        key: "k",
        value: bytes("v"),
        version,
        expiresMs: undefined,
      });
      assert.equal(await store.get(at("k", "other")), undefined);
      await store.put(at("k"), new Uint8Array(0));
      assert.deepEqual((await store.get(at("k")))?.value, new Uint8Array(0));
    });

    test("nobody can change a row through the bytes they put or got", async (t) => {
      const { store } = await opened(t);
      const mine = bytes("v");
      await store.put(at("k"), mine);
      mine.fill(0);
      (await store.get(at("k")))?.value.fill(0);
      assert.equal(await textAt(store, at("k")), "v");
    });

    test("a version rises with each write and is never used again, not even after a delete", async (t) => {
      const { store } = await opened(t);
      const versions = [await store.put(at("k"), bytes("1")), await store.put(at("k"), bytes("2"))];
      assert.equal(await store.delete(at("k")), true);
      assert.equal(await store.delete(at("k")), false);
      versions.push(await store.put(at("k"), bytes("3")));
      assert.deepEqual(
        versions,
        [...new Set(versions)].toSorted((a, b) => a - b),
      );
      assert.deepEqual(await store.compareAndSwap(at("k"), versions[0] ?? 0, bytes("x")), {
        kind: "conflict",
        writes: [0],
      });
    });

    test("D1: of two that swap the same version, one wins", async (t) => {
      const { store, peer = store } = await opened(t);
      const version = await store.put(at("k"), bytes("0"));
      const results = await Promise.all([
        store.compareAndSwap(at("k"), version, bytes("1")),
        peer.compareAndSwap(at("k"), version, bytes("2")),
      ]);
      assert.deepEqual(results.map(({ kind }) => kind).toSorted(), ["conflict", "written"]);
      assert.equal(await textAt(store, at("k")), results[0].kind === "written" ? "1" : "2");
    });

    test("D1: of two that expect no row, one makes it", async (t) => {
      const { store, peer = store } = await opened(t);
      const results = await Promise.all([
        store.compareAndSwap(at("k"), NO_ROW, bytes("1")),
        peer.compareAndSwap(at("k"), NO_ROW, bytes("2")),
      ]);
      assert.deepEqual(results.map(({ kind }) => kind).toSorted(), ["conflict", "written"]);
    });

    test("rows are listed by prefix, in the order of their code points, in pages", async (t) => {
      const { store } = await opened(t);
      // U+FF5E comes before U+1F642, though its UTF-16 unit is the higher one. The others look like patterns.
      const keys = ["a", "a%", "a_", "ab", "aé", "a～", "a🙂"];
      for (const key of [...keys, "b", "A", "z"].toReversed()) await store.put(at(key), bytes(key));
      await store.put(at("a0", "other"), bytes("no"));
      const listed = await store.list("t", "a", FIRST);
      assert.deepEqual(
        listed.map(({ key }) => key),
        keys,
      );
      const pages: string[] = [];
      for (let after: string | undefined; ; after = pages.at(-1)) {
        const page = await store.list("t", "a", { after, countMax: 2 });
        if (page.length === 0) break;
        pages.push(...page.map(({ key }) => key));
      }
      assert.deepEqual(pages, keys);
      assert.deepEqual(
        (await store.list("t", "a%", FIRST)).map(({ key }) => key),
        ["a%"],
      );
      assert.equal((await store.list("t", "", FIRST)).length, keys.length + 3);
    });

    test("D7: a row ends when the store's clock says so, and is then as if it had never been", async (t) => {
      const { store, clock } = await opened(t);
      const version = await store.put(at("k"), bytes("v"), { ttlMs: 1000 });
      await store.put(at("stays"), bytes("v"));
      clock.advance(999);
      assert.equal((await store.get(at("k")))?.version, version);
      clock.advance(1);
      assert.equal(await store.get(at("k")), undefined);
      assert.deepEqual(
        (await store.list("t", "", FIRST)).map(({ key }) => key),
        ["stays"],
      );
      assert.equal((await store.compareAndSwap(at("k"), version, bytes("x"))).kind, "conflict");
      assert.equal(await store.delete(at("k")), false);
      assert.equal((await store.compareAndSwap(at("k"), NO_ROW, bytes("new"))).kind, "written");
      assert.equal((await store.get(at("k")))?.expiresMs, undefined);
    });

    test("a sweep removes what has ended, as much as asked for", async (t) => {
      const { store, clock } = await opened(t);
      for (const key of ["a", "b", "c"]) await store.put(at(key), bytes("v"), { ttlMs: 10 });
      await store.put(at("d"), bytes("v"), { ttlMs: 100 });
      assert.equal(await store.sweep(10), 0);
      clock.advance(10);
      assert.equal(await store.sweep(2), 2);
      assert.equal(await store.sweep(10), 1);
      assert.equal(await store.sweep(10), 0);
      assert.equal(await textAt(store, at("d")), "v");
    });
  });
}

function tableBatches(storeName: string, opened: OpenedTables): void {
  suite(`${storeName}: batches`, () => {
    test("A4: the writes of a batch happen together", async (t) => {
      const { store } = await opened(t);
      await store.put(at("old"), bytes("x"));
      const result = await store.batch([
        { kind: "put", ...at("a"), value: bytes("1"), expectedVersion: NO_ROW },
        { kind: "put", ...at("b", "u"), value: bytes("2") },
        { kind: "delete", ...at("old") },
      ]);
      assert.ok(result.kind === "written");
      assert.equal((await store.get(at("a")))?.version, result.version);
      assert.equal(await textAt(store, at("b", "u")), "2");
      assert.equal(await store.get(at("old")), undefined);
    });

    test("A4: one failed expectation and nothing of the batch happens", async (t) => {
      const { store } = await opened(t);
      const version = await store.put(at("a"), bytes("1"));
      const result = await store.batch([
        { kind: "put", ...at("new"), value: bytes("x") },
        { kind: "put", ...at("a"), value: bytes("2"), expectedVersion: version + 1000 },
        { kind: "delete", ...at("a", "u"), expectedVersion: version },
        { kind: "put", ...at("b"), value: bytes("x"), expectedVersion: NO_ROW },
      ]);
      assert.deepEqual(result, { kind: "conflict", writes: [1, 2] });
      assert.equal(await textAt(store, at("a")), "1");
      assert.equal(await store.get(at("new")), undefined);
      assert.equal(await store.get(at("b")), undefined);
    });

    test("a delete may expect a version too", async (t) => {
      const { store } = await opened(t);
      const version = await store.put(at("a"), bytes("1"));
      const wrong = await store.batch([{ kind: "delete", ...at("a"), expectedVersion: version + 1 }]);
      assert.equal(wrong.kind, "conflict");
      const right = await store.batch([{ kind: "delete", ...at("a"), expectedVersion: version }]);
      assert.equal(right.kind, "written");
      assert.equal(await store.get(at("a")), undefined);
    });

    test("a key that occurs twice, holds a NUL or is too long is the caller's bug", async (t) => {
      const { store } = await opened(t);
      const twice = { kind: "delete", ...at("a") } as const;
      await assert.rejects(store.batch([twice, twice]), /occurs once/);
      await assert.rejects(store.put(at("a\0b"), bytes("x")), /without NUL/);
      await assert.rejects(store.put(at("\ud800"), bytes("x")), /well-formed/);
      await assert.rejects(store.put(at("k".repeat(513)), bytes("x")), /at most 512 bytes/);
      await store.put(at("k".repeat(512)), bytes("x"));
    });

    test("A3: a restart finds rows, versions and expiries", async (t) => {
      const { store, reopen, clock } = await opened(t);
      if (reopen === undefined) return t.diagnostic("this store does not outlive its process");
      const version = await store.put(at("a"), bytes("1"), { ttlMs: 1000 });
      clock.advance(400);
      const again = await reopen();
      t.after(() => again.close());
      assert.equal((await again.get(at("a")))?.version, version);
      assert.ok((await again.put(at("b"), bytes("2"))) > version);
      clock.advance(600);
      assert.equal(await again.get(at("a")), undefined);
    });

    test("a closed store refuses", async (t) => {
      const { store } = await opened(t);
      await store.close();
      const isUnavailable = (error: unknown): boolean =>
        error instanceof HoldfastError && error.code === "unavailable";
      await assert.rejects(store.get(at("a")), isUnavailable);
      await assert.rejects(store.put(at("a"), bytes("x")), isUnavailable);
      await store.close();
    });
  });
}
