/**
 * One generation continues the text of another: what proves it, what heals, what is given up.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Join, promptOf } from "../../src/turn/join.ts";

const TEXT =
  "The wind is north by east — über dem Meer 🌊 — and it turns\n\nbefore the night, as 風 does in spring.";

/** What is said of the continuation, piece by piece; undefined: it is none. */
function newsOf(
  text: string,
  written: string,
  { isUnproved = false, pieceChars = 3 } = {},
): string | undefined {
  const join = new Join({ text, isUnproved });
  let news = "";
  for (let at = 0; at < written.length; at += pieceChars) {
    const more = join.take(written.slice(at, at + pieceChars));
    if (more === undefined) return undefined;
    news += more;
  }
  const rest = join.end();
  return rest === undefined ? undefined : news + rest;
}

test("G1: cut after any character, a model that writes on from its prompt gives exactly the rest", () => {
  for (let cut = 1; cut < TEXT.length; cut++) {
    const text = TEXT.slice(0, cut);
    if (!text.isWellFormed()) continue;
    const prompt = promptOf({ text, isUnproved: false });
    if (prompt === "") {
      assert.ok(!/\S\s+\S/.test(text), `cut at ${cut}: there is a word before the last one`);
      continue;
    }
    assert.ok(text.startsWith(prompt) && prompt.isWellFormed());
    assert.ok(!/\s$/.test(prompt), "providers trim it, or refuse it");
    for (const pieceChars of [1, 3, 1_000]) {
      assert.equal(newsOf(text, TEXT.slice(prompt.length), { pieceChars }), TEXT.slice(cut), `cut at ${cut}`);
      // The provider trims what its model writes.
      const trimmed = TEXT.slice(prompt.length).trimStart();
      assert.equal(newsOf(text, trimmed, { pieceChars }), TEXT.slice(cut), `cut at ${cut}`);
    }
  }
});

test("G1: a long word is cut, at 32 characters and between no halves of one", () => {
  for (const [end, pieceChars] of [
    ["", 32],
    [".", 33],
  ] as const) {
    const text = `see ${"🌊".repeat(40)}${end}`;
    const prompt = promptOf({ text, isUnproved: false });
    assert.ok(prompt.isWellFormed());
    assert.equal(text.length - prompt.length, pieceChars);
  }
  assert.equal(promptOf({ text: "north", isUnproved: false }), "", "nothing is left to begin with");
});

test("G1: what does not begin with the piece that was cut off is no continuation", () => {
  const text = "The wind is nor";
  for (const written of [TEXT, "The wind", " south", "north", "north by", " not", "", " no", " n or"]) {
    const isProved = written.trimStart().startsWith("nor");
    assert.equal(newsOf(text, written), isProved ? written.trimStart().slice(3) : undefined, written);
  }
});

test("G1: with all of the text in the prompt only an echo is refused, and white space stands once", () => {
  const unproved = { isUnproved: true };
  const text = "The wind is north by east, and it turns before the night. ";
  assert.equal(promptOf({ text, isUnproved: true }), text.trimEnd());
  assert.equal(newsOf(text, "Then it is calm.", unproved), "Then it is calm.");
  assert.equal(newsOf(text, " Then it is calm.", unproved), "Then it is calm.");
  assert.equal(newsOf(text, "The", unproved), "The", "that was all, and no echo");
  assert.equal(newsOf(text, "", unproved), "");
  const end = `${text.trimEnd().slice(-16)} Then`;
  for (const echo of [text, `\n${text}`, end, ` ${end}`])
    assert.equal(newsOf(text, echo, unproved), undefined, echo);
  assert.equal(newsOf("One\n\n", "\n\nTwo", unproved), "Two");
  assert.equal(newsOf("One\n\n", "\nTwo", unproved), "Two");
});

test("G1: with all of the text in the prompt, half a word cannot be told from two words that a provider has pushed together", () => {
  const unproved = { isUnproved: true };
  assert.equal(newsOf("The wind is nor", "th by east", unproved), undefined);
  assert.equal(newsOf("The wind is north", "by east", unproved), undefined);
  assert.equal(newsOf("The wind is north", " by east", unproved), " by east");
  assert.equal(newsOf("The wind is north", "", unproved), "", "that was all");
});

test("G1: an answer that is begun anew is no continuation, whatever letter it begins with", () => {
  const whole = "the wind is from the north, then it turns to the south\nthe two tides meet there";
  for (let cut = 1; cut < whole.length; cut++) {
    const text = whole.slice(0, cut);
    const prompt = promptOf({ text, isUnproved: false });
    if (prompt === "") continue;
    assert.equal(newsOf(text, whole), undefined, `cut at ${cut}, the same answer`);
    if (prompt.length > 12)
      assert.equal(newsOf(text, "these are other words"), undefined, `cut at ${cut}, another answer`);
    assert.equal(newsOf(text, whole.slice(prompt.length)), whole.slice(cut), `cut at ${cut}, the rest of it`);
  }
});

test("G1: one letter of a short text proves nothing where the answer begins with it, too", () => {
  assert.equal(newsOf("the t", "the tides meet"), undefined);
  assert.equal(newsOf("the t", "tides meet"), "ides meet");
});

test("G1: one that says nothing but the piece that was cut off has come to its end", () => {
  assert.equal(newsOf("the t", "t"), "");
  assert.equal(newsOf("the wind, the", " the"), "");
});
