/**
 * The token bucket.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { AssertionFailed } from "../../src/protocol/assert.ts";
import * as budget from "../../src/core/budget.ts";

const options: budget.Options = { burst: 3, refillMs: 100 };

function waits(times: readonly number[]): readonly number[] {
  let state = budget.init(options, 0);
  return times.map((nowMs) => {
    const [next, { waitMs }] = budget.spend(state, nowMs);
    state = next;
    return waitMs;
  });
}

test("F3: a burst costs nothing, then each further one waits its turn", () => {
  assert.deepEqual(waits([0, 0, 0, 0, 0]), [0, 0, 0, 100, 200]);
});

test("F3: a bucket refills with time, and never beyond its burst", () => {
  assert.deepEqual(waits([0, 0, 0, 100, 150]), [0, 0, 0, 0, 50]);
  assert.deepEqual(waits([0, 1e9, 1e9, 1e9, 1e9]), [0, 0, 0, 0, 100]);
});

test("F3: a clock that jumps back takes no tokens away, and gives none a second time", () => {
  assert.deepEqual(waits([1000, 0, 0, 0]), [0, 0, 0, 100]);
  assert.deepEqual(waits([1000, 1000, 1000, 0, 1000]), [0, 0, 0, 100, 200]);
});

test("F3: whoever waits as told spends at most burst + T / refill within any span T", () => {
  const gaps = fc.array(fc.integer({ min: 0, max: 400 }), { minLength: 1, maxLength: 60 });
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 5 }),
      fc.integer({ min: 1, max: 200 }),
      gaps,
      (burst, refillMs, gaps) => {
        let state = budget.init({ burst, refillMs }, 0);
        let nowMs = 0;
        const turns: number[] = [];
        for (const gap of gaps) {
          nowMs += gap;
          const [next, { waitMs }] = budget.spend(state, nowMs);
          state = next;
          nowMs += waitMs;
          turns.push(nowMs);
        }
        for (const [first, from] of turns.entries()) {
          for (const [offset, to] of turns.slice(first).entries()) {
            // A turn may be up to 1 ms late, since waits are whole milliseconds.
            assert.ok(offset + 1 <= burst + (to - from + 1) / refillMs);
          }
        }
      },
    ),
  );
});

test("E1: whoever is refused owes nothing, and waits for the next token only", () => {
  let state = budget.init(options, 0);
  const takes = (nowMs: number): number => {
    const [next, { waitMs }] = budget.take(state, nowMs);
    state = next;
    return waitMs;
  };
  assert.deepEqual([0, 0, 0, 0, 0, 40].map(takes), [0, 0, 0, 100, 100, 60]);
  assert.deepEqual([100, 100].map(takes), [0, 100]);
});

test("a token that is given back can be spent again, and never makes more than the burst", () => {
  const whole = budget.init(options, 0);
  const [spent] = budget.take(whole, 0);
  assert.deepEqual([budget.isWhole(whole, 0), budget.isWhole(spent, 0)], [true, false]);
  assert.equal(budget.isWhole(budget.giveBack(spent), 0), true);
  assert.equal(budget.giveBack(whole).tokens, options.burst);
  assert.equal(budget.isWhole(spent, 100), true, "time gives it back as well");
});

test("a budget that allows nothing is a mistake of whoever configured it", () => {
  assert.throws(() => budget.init({ burst: 0, refillMs: 100 }, 0), AssertionFailed);
  assert.throws(() => budget.init({ burst: 1, refillMs: 0 }, 0), AssertionFailed);
});
