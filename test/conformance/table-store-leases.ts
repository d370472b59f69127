/**
 * The part of the suite about leases of a table store, and the fences that they put around batches.
 */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { OpenedTables } from "./table-fixtures.ts";
import { at, bytes } from "./table-fixtures.ts";

export function tableStoreLeases(storeName: string, opened: OpenedTables): void {
  suite(`${storeName}: leases`, () => {
    test("D1: of many that want a lease at once, one gets it", async (t) => {
      const { store, peer = store } = await opened(t);
      const results = await Promise.all(
        ["a", "b", "c", "d"].map((holder, place) =>
          (place % 2 === 0 ? store : peer).acquire("l", holder, 1000),
        ),
      );
      assert.deepEqual(results.map(({ kind }) => kind).toSorted(), ["acquired", "held", "held", "held"]);
    });

    test("D7: a lease runs out by the store's clock, and the next token is higher", async (t) => {
      const { store, clock } = await opened(t);
      const first = await store.acquire("l", "a", 1000);
      assert.ok(first.kind === "acquired");
      clock.advance(999);
      assert.deepEqual(await store.acquire("l", "b", 1000), { kind: "held", holder: "a", leaseLeftMs: 1 });
      clock.advance(1);
      assert.equal(await store.renew("l", first.token, 1000), false);
      const second = await store.acquire("l", "b", 1000);
      assert.ok(second.kind === "acquired" && second.token > first.token);
    });

    test("a renewal prolongs the lease and does not shorten it", async (t) => {
      const { store, clock } = await opened(t);
      const lease = await store.acquire("l", "a", 1000);
      assert.ok(lease.kind === "acquired");
      clock.advance(500);
      assert.equal(await store.renew("l", lease.token, 1000), true);
      assert.equal(await store.renew("l", lease.token, 1), true);
      clock.advance(999);
      assert.equal((await store.acquire("l", "b", 1000)).kind, "held");
      assert.equal(await store.renew("l", lease.token + 1, 1000), false);
      assert.equal(await store.renew("other", lease.token, 1000), false);
    });

    test("D1: the same holder that asks again gets a new token, and the old one is fenced", async (t) => {
      const { store } = await opened(t);
      const first = await store.acquire("l", "a", 1000);
      const second = await store.acquire("l", "a", 1000);
      assert.ok(first.kind === "acquired" && second.kind === "acquired" && second.token > first.token);
      assert.equal(await store.renew("l", first.token, 1000), false);
      assert.equal(await store.renew("l", second.token, 1000), true);
    });

    test("a released lease is free at once; releasing with an old token does nothing", async (t) => {
      const { store } = await opened(t);
      const first = await store.acquire("l", "a", 1000);
      assert.ok(first.kind === "acquired");
      await store.release("l", first.token);
      assert.equal((await store.acquire("l", "b", 1000)).kind, "acquired");
      await store.release("l", first.token);
      assert.equal((await store.acquire("l", "a", 1000)).kind, "held");
    });

    test("a fence may carry more than its lease and token", async (t) => {
      const { store } = await opened(t);
      const held = await store.acquire("l", "a", 1000);
      assert.ok(held.kind === "acquired");
      const fence = { lease: "l", token: held.token, release: () => store.release("l", held.token) };
      const written = await store.batch([{ kind: "put", ...at("k"), value: bytes("1") }], [fence]);
      assert.equal(written.kind, "written");
    });

    test("D1: a holder that slept too long cannot write behind its fence", async (t) => {
      const { store, clock } = await opened(t);
      const old = await store.acquire("l", "a", 1000);
      assert.ok(old.kind === "acquired");
      const write = { kind: "put", ...at("k"), value: bytes("1") } as const;
      assert.equal((await store.batch([write], [{ lease: "l", token: old.token }])).kind, "written");
      clock.advance(1000);
      const late = await store.batch([{ ...write, value: bytes("2") }], [{ lease: "l", token: old.token }]);
      assert.deepEqual(late, { kind: "fenced", lease: "l" });
      const now = await store.acquire("l", "b", 1000);
      assert.ok(now.kind === "acquired");
      const fenced = await store.batch([{ ...write, value: bytes("2") }], [{ lease: "l", token: old.token }]);
      assert.deepEqual(fenced, { kind: "fenced", lease: "l" });
      assert.deepEqual((await store.get(at("k")))?.value, bytes("1"));
      assert.equal((await store.batch([write], [{ lease: "l", token: now.token }])).kind, "written");
    });
  });
}
