/** A seat that one node of several has, judged by the store's clock. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { holdSeat, tryHoldSeat } from "../../src/node/held-seat.ts";
import { ManualClock } from "../store/manual-clock.ts";
import { memoryTableStore } from "../store/memory-table-store.ts";

const TIMES = { ttlMs: 15_000, renewMs: 5, pollMs: 1 };
/** Never renewed while a test runs, as by a process that is stopped. */
const STOPPED = { ...TIMES, renewMs: 1_000_000 };

test("D7: a second node waits until the first has let go, or its row has ended; the first then hears of it", async () => {
  const clock = new ManualClock();
  const tables = memoryTableStore(clock);
  const { signal } = new AbortController();
  const first = await holdSeat(tables, "a", signal, STOPPED);
  let isHeld = false;
  const second = holdSeat(tables, "b", signal, TIMES).then((held) => {
    isHeld = true;
    return held;
  });
  clock.advance(14_999);
  assert.equal(await tryHoldSeat(tables, "c", TIMES), undefined);
  assert.equal(isHeld, false);
  clock.advance(1);
  const held = await second;
  // The one that was stopped wakes: its row is another's.
  const woken = await holdSeat(tables, "b", signal, TIMES);
  await held.lost;
  await first.release();
  assert.ok(
    (await tables.get({ table: "nodes", key: "serving" })) !== undefined,
    "a late release frees nothing",
  );
  await woken.release();
  await (await holdSeat(tables, "c", signal, TIMES)).release();
});

test("the same node takes its own seat at once, after a restart", async () => {
  const tables = memoryTableStore(new ManualClock());
  const { signal } = new AbortController();
  await holdSeat(tables, "a", signal, STOPPED);
  const again = await holdSeat(tables, "a", signal, STOPPED);
  assert.equal(again.isSure(), true);
  await again.release();
});

test("a holder that did not renew in time is not sure of its seat; who waits stops when it is told to", async () => {
  const tables = memoryTableStore(new ManualClock());
  const held = await tryHoldSeat(tables, "a", { ...STOPPED, ttlMs: 1 });
  assert.ok(held !== undefined);
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(held.isSure(), false);
  const stop = new AbortController();
  const waiting = holdSeat(tables, "b", stop.signal, TIMES);
  stop.abort();
  await assert.rejects(waiting, { name: "AbortError" });
});
