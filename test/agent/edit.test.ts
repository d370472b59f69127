/** Exact replacement, all or nothing. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { applyEdits, type Edit } from "../../src/turn/edit.ts";

function edit(oldText: string, newText: string, all = false): Edit {
  return { oldText, newText, all };
}

test("edits apply one after the other", () => {
  const edited = applyEdits("one two three", [edit("one", "1"), edit("1 two", "1 2")]);
  assert.deepEqual(edited, { kind: "edited", text: "1 2 three", replacements: 2 });
});

test("every occurrence is replaced when that is wanted", () => {
  const edited = applyEdits("a-a-a", [edit("a", "$&$1", true)]);
  assert.deepEqual(edited, { kind: "edited", text: "$&$1-$&$1-$&$1", replacements: 3 });
});

test("what cannot be meant is refused, says why, and changes nothing", () => {
  const cases: readonly (readonly [string, readonly Edit[], RegExp])[] = [
    ["text", [edit("missing", "x")], /not in the file; read the file again/u],
    ["a  b\r\n", [edit("a b", "x")], /with other spaces or line ends/u],
    ["a a", [edit("a", "b")], /there 2 times; give more/u],
    ["}\n}\n}\n", [edit("}\n}\n", "}\n")], /there 2 times; give more/u],
    ["a", [edit("", "b")], /empty; to make a new file use write/u],
    ["a", [edit("a", "a")], /are the same/u],
    ["a", [edit("a", "b"), edit("b", "a")], /undo each other/u],
    ["a b", [edit("a", "x"), edit("c", "y")], /edit 2 of 2/u],
  ];
  for (const [text, edits, why] of cases) {
    const edited = applyEdits(text, edits);
    assert.equal(edited.kind, "failed");
    assert.match(edited.kind === "failed" ? edited.why : "", why);
  }
});

test("an edit that succeeds can be undone by its opposite, whatever the texts are", () => {
  fc.assert(
    fc.property(
      fc.string(),
      fc.string({ minLength: 1 }),
      fc.string({ minLength: 1 }),
      (around, oldText, newText) => {
        const text = `${around}${oldText}${around}`;
        const edited = applyEdits(text, [edit(oldText, newText)]);
        if (edited.kind === "failed") return;
        if (edited.text.indexOf(newText) !== edited.text.lastIndexOf(newText)) return;
        const back = applyEdits(edited.text, [edit(newText, oldText)]);
        assert.equal(back.kind === "edited" ? back.text : undefined, text);
      },
    ),
  );
});
