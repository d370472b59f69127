/** Who looks at the end of something that grows stays there, and who goes up stays where they are. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { isAtEnd } from "../../src/page/at-end.ts";

const box = (scrollTop: number, scrollHeight: number) => ({ scrollTop, scrollHeight, clientHeight: 100 });

test("what was added before the browser told of the scroll is no step away from the end", () => {
  const followed = { isAtEnd: true, top: 700 };
  assert.equal(isAtEnd(box(900, 1_300), followed, 40), true);
  assert.equal(isAtEnd(box(700, 1_300), followed, 40), true);
});

test("a person who goes up has left the end, and is there again when near it", () => {
  assert.equal(isAtEnd(box(899, 1_300), { isAtEnd: true, top: 900 }, 40), false);
  assert.equal(isAtEnd(box(1_000, 1_300), { isAtEnd: false, top: 900 }, 40), false);
  assert.equal(isAtEnd(box(1_170, 1_300), { isAtEnd: false, top: 900 }, 40), true);
});

test("what has become shorter is seen at its end", () => {
  assert.equal(isAtEnd(box(200, 300), { isAtEnd: true, top: 900 }, 40), true);
});
