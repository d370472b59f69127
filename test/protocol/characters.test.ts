import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { cutAt, firstChars, lastChars } from "../../src/protocol/characters.ts";

const texts = fc.string({ unit: "binary", maxLength: 12 });
const bounds = fc.nat({ max: 30 });

test("the beginning and the end of a text are whole characters of it, one less than may be at the most", () => {
  fc.assert(
    fc.property(texts, bounds, (text, charsMax) => {
      for (const part of [firstChars(text, charsMax), lastChars(text, charsMax)]) {
        assert.ok(part.isWellFormed());
        assert.ok(part.length <= charsMax && part.length >= Math.min(text.length, charsMax - 1));
      }
      assert.ok(text.startsWith(firstChars(text, charsMax)));
      assert.ok(text.endsWith(lastChars(text, charsMax)));
    }),
  );
});

test("a mark stands where something was cut off, and nowhere else", () => {
  assert.equal(firstChars("a🙂b", 4, "…"), "a🙂b");
  assert.equal(firstChars("a🙂b", 2, "…"), "a…");
  assert.equal(lastChars("a🙂b", 4, "…"), "a🙂b");
  assert.equal(lastChars("a🙂b", 2, "…"), "…b");
});

test("half of a character that stands alone is cut off like one that has its other half", () => {
  assert.equal(cutAt("a\ud83d", 2), 1);
  assert.equal(firstChars("a\ud83d", 2), "a\ud83d", "what is not too long stays as it is");
});
