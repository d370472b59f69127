import assert from "node:assert/strict";
import { test } from "node:test";
import { HoldfastError } from "../../../src/protocol/index.ts";
import { newServerCounters } from "../../../src/server/index.ts";
import { type ByteBudget, byteBudget } from "../../../src/server/http/byte-budget.ts";
import { turn } from "../../e2e/rig.ts";

/** Notes who got it. */
function follow(budget: ByteBudget, got: string[]) {
  return (who: string, bytes: number) =>
    budget.reserve(who, bytes).then((reservation) => {
      got.push(`${who} ${bytes}`);
      return reservation;
    });
}

test("F2: no more is held than the budget allows, and whoever waits is served in order", async () => {
  const budget = byteBudget(100, 10);
  const got: string[] = [];
  const reserve = follow(budget, got);
  const first = await reserve("a", 50);
  const second = await reserve("b", 50);
  const third = reserve("c", 40);
  const fourth = reserve("d", 10);
  await turn();
  assert.deepEqual(got, ["a 50", "b 50"]);
  assert.equal(budget.heldBytes, 100);
  first.shrinkTo(30);
  await turn();
  assert.deepEqual(got, ["a 50", "b 50"], "the first in line is not passed by a smaller one");
  second.release();
  second.release();
  for (const held of [first, await third, await fourth]) held.release();
  assert.deepEqual(got, ["a 50", "b 50", "c 40", "d 10"]);
  assert.equal(budget.heldBytes, 0);
});

test("F2: one principal gets half, and does not block the others while it waits for more", async () => {
  const budget = byteBudget(100, 10);
  const got: string[] = [];
  const reserve = follow(budget, got);
  const held = await reserve("greedy", 50);
  const more = reserve("greedy", 1);
  await reserve("modest", 50);
  assert.deepEqual(got, ["greedy 50", "modest 50"]);
  held.release();
  await more;
});

test("F2: the line itself is bounded", async () => {
  const budget = byteBudget(10, 1);
  await budget.reserve("a", 5);
  const waiting = budget.reserve("a", 5);
  await assert.rejects(
    budget.reserve("b", 5),
    (error) => error instanceof HoldfastError && error.code === "overloaded" && error.retryAfterMs === 1_000,
  );
  void waiting;
});

test("F2: one principal fills half of the line, and the others still get in", async () => {
  const budget = byteBudget(100, 4);
  await budget.reserve("greedy", 50);
  const waiting = [budget.reserve("greedy", 50), budget.reserve("greedy", 50)];
  await assert.rejects(
    budget.reserve("greedy", 50),
    (error) => error instanceof HoldfastError && error.code === "overloaded",
  );
  (await budget.reserve("modest", 50)).release();
  void waiting;
});

test("a tally counts a value at its bound below it, and one above all bounds in the last place", () => {
  const { appendBytes } = newServerCounters();
  for (const bytes of [256, 257, 1e9]) appendBytes.add(bytes);
  assert.deepEqual(appendBytes.counts.slice(0, 2), [1, 1]);
  assert.equal(appendBytes.counts.at(-1), 1);
  assert.equal(appendBytes.count, 3);
  assert.equal(appendBytes.sum, 256 + 257 + 1e9);
});
