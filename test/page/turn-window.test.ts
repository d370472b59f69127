/** Of a long conversation those turns are drawn that can be seen, and few others. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { windowOf } from "../../src/page/turn-window.ts";

const SCREEN = 800;

test("a turn that can be seen is drawn, and no more than three screens and what stands with them", () => {
  const drawn = fc.array(fc.integer({ min: 20, max: 3_000 }), { minLength: 1, maxLength: 300 });
  fc.assert(
    fc.property(
      drawn,
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.boolean(),
      (heights, where, isAtEnd) => {
        const total = heights.reduce((sum, px) => sum + px, 0);
        const top = isAtEnd ? total - SCREEN : where * Math.max(0, total - SCREEN);
        const seen = { top: isAtEnd ? 0 : top, height: SCREEN, isAtEnd };
        const { first, end } = windowOf(heights, seen);
        let at = 0;
        for (const [turn, px] of heights.entries()) {
          const isSeen = at + px > top && at < top + SCREEN;
          if (isSeen) assert.ok(turn >= first && turn < end, `turn ${turn} of ${first} to ${end}`);
          const isFar = at + px < top - SCREEN || at > top + 2 * SCREEN;
          if (isFar && turn >= first && turn < end)
            assert.ok(turn < first + 8 || turn >= end - 8, `turn ${turn} of ${first} to ${end}`);
          at += px;
        }
      },
    ),
  );
});

test("a short conversation is drawn whole, and so is what comes behind its end", () => {
  const heights = Array<number>(8).fill(2_000);
  for (const top of [0, 5_000, 15_200])
    assert.equal(windowOf(heights, { top, height: SCREEN, isAtEnd: false }).first, 0);
  assert.deepEqual(windowOf([100], { top: 0, height: SCREEN, isAtEnd: true }), { first: 0, end: 8 });
  assert.deepEqual(windowOf([], { top: 0, height: SCREEN, isAtEnd: true }), { first: 0, end: 0 });
});

test("beyond the end of what has become shorter, its end is drawn", () => {
  const heights = Array<number>(100).fill(100);
  assert.ok(windowOf(heights, { top: 9_200, height: SCREEN, isAtEnd: false }).end >= 100);
  assert.ok(windowOf(heights, { top: 50_000, height: SCREEN, isAtEnd: false }).end >= 100);
});
