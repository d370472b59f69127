/**
 * The screen with a line below that is rewritten, seen on a small terminal.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { ttyScreen } from "../../src/cli/chat/screen.ts";
import { styleOf } from "../../src/cli/chat/style.ts";
import { TinyTerminal } from "./tiny-terminal.ts";

function screenOf(columns: number, height = 6) {
  const terminal = new TinyTerminal(columns, height);
  return { terminal, screen: ttyScreen(terminal, styleOf(terminal, {})) };
}

test("the line stands below the text, is rewritten, and goes away", () => {
  const { terminal, screen } = screenOf(20);
  screen.status("connecting …");
  screen.write("Hello ");
  assert.deepEqual(terminal.lines, ["Hello", "connecting …"]);
  screen.status("writing · 1 s");
  screen.write("world.\nMore");
  assert.deepEqual(terminal.lines, ["Hello world.", "More", "writing · 1 s"]);
  screen.status("writing · 2 s and many more words");
  assert.deepEqual(terminal.lines, ["Hello world.", "More", "writing · 2 s and …"]);
  screen.status(undefined);
  assert.deepEqual(terminal.lines, ["Hello world.", "More"]);
});

test("a note has a line of its own, and the text goes on after it", () => {
  const { terminal, screen } = screenOf(40);
  screen.status("busy");
  screen.write("some text");
  screen.note("queued");
  screen.write("and more");
  assert.deepEqual(terminal.lines, ["some text", "queued", "and more", "busy"]);
  screen.note("again");
  screen.write("\n\nanother paragraph");
  assert.deepEqual(terminal.lines.slice(2), ["and more", "again", "", "another paragraph", "busy"]);
});

test("while somebody else has the screen, everything waits", () => {
  const { terminal, screen } = screenOf(40);
  screen.status("busy");
  screen.write("before");
  const giveBack = screen.hold();
  screen.write(" meanwhile");
  screen.status("busier");
  screen.note("noted");
  terminal.write("Allow? y\n");
  assert.deepEqual(terminal.lines, ["before", "Allow? y", ""]);
  giveBack();
  assert.deepEqual(terminal.lines, ["before", "Allow? y", " meanwhile", "noted", "", "busier"]);
});

test("whatever is written in whatever pieces reads as if there were no line below it", () => {
  const piece = fc.string({
    unit: fc.constantFrom("a", "b", " ", "\n", "日", "é", "👩‍👩‍👧", "word "),
    maxLength: 30,
  });
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), fc.integer({ min: 4, max: 25 }), (pieces, columns) => {
      const plain = new TinyTerminal(columns, 1_000);
      plain.write(pieces.join(""));
      const { terminal, screen } = screenOf(columns, 8);
      for (const [at, text] of pieces.entries()) {
        screen.status(`status ${at}`);
        screen.write(text);
      }
      screen.status(undefined);
      const shown = (lines: readonly string[]): string => lines.join("\n").trimEnd();
      assert.equal(shown(terminal.lines), shown(plain.lines));
    }),
  );
});
