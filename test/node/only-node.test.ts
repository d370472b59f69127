/** One node at a time on a shared store, judged by the store's clock. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { holdNode } from "../../src/node/only-node.ts";
import { ManualClock } from "../store/manual-clock.ts";
import { memoryTableStore } from "../store/memory-table-store.ts";

const LEASE = { ttlMs: 15_000, renewMs: 5, pollMs: 1, waitMs: 10_000 };
/** Never renewed while a test runs, as by a process that is stopped. */
const STOPPED = { ...LEASE, renewMs: 1_000_000 };

test("D7: a second node waits until the first has let go, or its row has ended; the first then hears of it", async () => {
  const clock = new ManualClock();
  const tables = memoryTableStore(clock);
  const first = await holdNode(tables, "a", STOPPED);
  let isHeld = false;
  const second = holdNode(tables, "b", LEASE).then((held) => {
    isHeld = true;
    return held;
  });
  clock.advance(14_999);
  await assert.rejects(
    holdNode(tables, "c", { ...LEASE, waitMs: 20 }),
    /another server \(a\) uses this PostgreSQL/,
  );
  assert.equal(isHeld, false);
  clock.advance(1);
  const held = await second;
  // The one that was stopped wakes: its row is another's.
  const woken = await holdNode(tables, "b", LEASE);
  await held.lost;
  await first.release();
  assert.ok(
    (await tables.get({ table: "nodes", key: "serving" })) !== undefined,
    "a late release frees nothing",
  );
  await woken.release();
  await (await holdNode(tables, "c", LEASE)).release();
});

test("the same node takes its own row at once, after a restart", async () => {
  const tables = memoryTableStore(new ManualClock());
  await holdNode(tables, "a", STOPPED);
  const again = await holdNode(tables, "a", STOPPED);
  await again.release();
});
