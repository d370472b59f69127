/** Code in colours: what is a comment, a string, a number, a keyword; and that nothing of the text is lost by it. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as fc from "fast-check";
import { languagesIn, piecesOf } from "../../src/page/highlight.ts";

const languages = languagesIn(
  JSON.parse(readFileSync(new URL("../../src/page/languages.json", import.meta.url), "utf8")),
);

const coloured = (name: string, text: string): string =>
  piecesOf(text, name, languages)
    .map(({ kind, text: piece }) => (kind === undefined ? piece : `<${kind} ${piece}>`))
    .join("");

test("each language has its comments, strings, numbers and keywords", () => {
  assert.equal(
    coloured("ts", 'const a = "b\\"" + 0x1f; // let'),
    '<keyword const> a = <string "b\\""> + <number 0x1f>; <comment // let>',
  );
  assert.equal(
    coloured("JSON", '{"a": -1.5e3, "b": null}'),
    '{<string "a">: <number -1.5e3>, <string "b">: <keyword null>}',
  );
  assert.equal(
    coloured("python", '@cached\ndef f(): # x\n  """a\n  def"""'),
    '<keyword @cached>\n<keyword def> f(): <comment # x>\n  <string """a\n  def""">',
  );
  assert.equal(
    coloured("sh", "echo $HOME '# no' # yes"),
    "<keyword echo> <number $HOME> <string '# no'> <comment # yes>",
  );
  assert.equal(coloured("sql", "SELECT a from b -- c"), "<keyword SELECT> a <keyword from> b <comment -- c>");
  assert.equal(coloured("diff", "-a\n+b\n c"), "<removed -a>\n<added +b>\n c");
  assert.equal(coloured("html", '<a href="x">'), '<keyword <a> href=<string "x"><keyword >>');
  assert.equal(coloured("yaml", "a: 1 # b"), "<keyword a>: <number 1> <comment # b>");
  assert.equal(coloured("js", "instance.constant"), "instance.constant", "a part of a word is no keyword");
});

test("what is not known, and what is very long, is one piece", () => {
  assert.equal(coloured("cobol", 'MOVE "A" TO B'), 'MOVE "A" TO B');
  const long = 'x = "a"\n'.repeat(10_000);
  assert.deepEqual(piecesOf(long, "js", languages), [{ kind: undefined, text: long }]);
  assert.equal(languagesIn({ not: "a list" }).size, 0);
});

test("whatever a model writes, the pieces joined are the text", () => {
  const bits = [
    '"',
    "'",
    "`",
    "\\",
    "/*",
    "*/",
    "//",
    "#",
    "\n",
    "<!--",
    "'''",
    '"""',
    "a",
    "9",
    "$",
    "{",
    "\u202e",
    "😀",
    " ",
  ];
  const text = fc.array(fc.constantFrom(...bits), { maxLength: 60 }).map((all) => all.join(""));
  fc.assert(
    fc.property(text, fc.constantFrom(...languages.keys()), (written, name) => {
      const joined = piecesOf(written, name, languages).map((piece) => piece.text);
      assert.equal(joined.join(""), written);
    }),
  );
});
