/**
 * What models write, as the page understands it. The tree is all that there is: nothing of it is markup.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import {
  type Block,
  blocksOf,
  type Inline,
  inlineOf,
  passagesOf,
  plainText,
  proseText,
  safeHref,
  sectionsOf,
} from "../../src/page/markdown.ts";

/** A text in which everything that means something is frequent. */
const written = fc
  .array(
    fc.constantFrom(
      ...Array.from("#*_~`[]()!<>|-+1.\\ \n\t:/"),
      "```",
      "~~~",
      "\n\n",
      "](",
      "http://a.b",
      "javascript:",
      "- ",
      "> ",
      "word",
      "ä",
      "\u202e",
    ),
    { maxLength: 60 },
  )
  .map((parts) => parts.join(""));

test("sections are the text itself, and what is behind the last blank line changes only the last one", () => {
  fc.assert(
    fc.property(written, written, (before, more) => {
      const sections = sectionsOf(before);
      assert.equal(sections.join(""), before);
      const grown = sectionsOf(before + more);
      assert.deepEqual(grown.slice(0, Math.max(0, sections.length - 1)), sections.slice(0, -1));
    }),
  );
});

test("code between fences keeps its blank lines and is nothing else, whether it is closed yet or not", () => {
  const code = "```ts\nlet a;\n\n# no title\n```";
  assert.deepEqual(sectionsOf(`${code}\n\nthen`).length, 2);
  const block = { kind: "code", language: "ts", text: "let a;\n\n# no title" };
  assert.deepEqual(blocksOf(code), [block]);
  assert.deepEqual(blocksOf(code.slice(0, -4)), [block]);
});

test("headings, lists, quotes, tables and rules", () => {
  const text = (said: string): Block => ({ kind: "paragraph", text: said });
  assert.deepEqual(blocksOf("## Two ##\nplain\nmore"), [
    { kind: "heading", level: 2, text: "Two" },
    text("plain\nmore"),
  ]);
  const inner = { kind: "list", isOrdered: false, start: 1, items: [[text("c")]] };
  assert.deepEqual(blocksOf("3. a\n4. b\n   - c"), [
    { kind: "list", isOrdered: true, start: 3, items: [[text("a")], [text("b"), inner]] },
  ]);
  assert.deepEqual(blocksOf("> a\n> b\n\n---"), [{ kind: "quote", inner: [text("a\nb")] }, { kind: "rule" }]);
  assert.deepEqual(blocksOf("| a | b |\n|---|:-:|\n| 1 | x \\| y |"), [
    { kind: "table", head: ["a", "b"], rows: [["1", "x | y"]] },
  ]);
  // As models write it: without a line between.
  assert.deepEqual(blocksOf("So:\n| a |\n|---|\n| 1 |\nmore | than that"), [
    text("So:"),
    { kind: "table", head: ["a"], rows: [["1"]] },
    text("more | than that"),
  ]);
});

function textOf(inline: Inline): string {
  return "inner" in inline ? inline.inner.map(textOf).join("") : inline.text;
}

test("emphasis, code and links within a line; what is none of them stays as it is", () => {
  const said = (text: string): readonly Inline[] => [{ kind: "text", text }];
  assert.deepEqual(inlineOf("a **b _c_** `d*` \\*e\\*"), [
    ...said("a "),
    { kind: "strong", inner: [...said("b "), { kind: "em", inner: said("c") }] },
    ...said(" "),
    { kind: "code", text: "d*" },
    ...said(" *e*"),
  ]);
  assert.deepEqual(inlineOf("see https://a.b/c?d=1. Yes"), [
    ...said("see "),
    { kind: "link", href: "https://a.b/c?d=1", inner: said("https://a.b/c?d=1") },
    ...said(". Yes"),
  ]);
  for (const plain of ["snake_case_name", "2 * 3 * 4", "a ** b", "[a](javascript:x)", "[x]", "<b>", "`"])
    assert.deepEqual(inlineOf(plain), said(plain), plain);
});

test("a link leads to the web or to a mailbox, and nowhere else", () => {
  for (const bad of [
    "javascript:alert(1)",
    "JaVaScRiPt:x",
    "java\nscript:x",
    " javascript:x",
    "data:text/html,x",
    "file:///etc",
    "/x",
    "#sign-in=x",
  ])
    assert.equal(safeHref(bad), undefined, bad);
  assert.equal(safeHref("mailto:a@b.c"), "mailto:a@b.c");
  fc.assert(
    fc.property(written, (text) => {
      const hrefs = (all: readonly Inline[]): readonly string[] =>
        all.flatMap((one) => [
          ...(one.kind === "link" ? [one.href] : []),
          ...("inner" in one ? hrefs(one.inner) : []),
        ]);
      for (const href of hrefs(inlineOf(text))) assert.match(href, /^(?:https?|mailto):/);
    }),
  );
});

test("no text is lost but the marks, and a text that is too long is left as it is", () => {
  fc.assert(
    fc.property(written, (text) => {
      const letters = (one: string): string => one.replaceAll(/[^a-zä]/g, "");
      // A link's address may be hidden behind its words.
      if (text.includes("](")) return;
      assert.equal(letters(inlineOf(text).map(textOf).join("")), letters(text));
    }),
  );
  const long = "*a ".repeat(10_000);
  assert.deepEqual(inlineOf(long), [{ kind: "text", text: long }]);
});

test("what turns text around is shown; in code so is everything that cannot be seen", () => {
  assert.equal(proseText("a\u202eb\u2067c"), "a\\u202eb\u2067c");
  assert.equal(plainText("a\u202eb\u2067c\u200b\u001b[1m\td\n"), "a\\u202eb\\u2067c\\u200b\\u001b[1m\td\n");
});

/** Neighbouring texts are one. */
function joined(inlines: readonly Inline[]): readonly Inline[] {
  const found: Inline[] = [];
  for (const inline of inlines) {
    const last = found.at(-1);
    if (inline.kind === "text" && last?.kind === "text")
      found[found.length - 1] = { kind: "text", text: last.text + inline.text };
    else found.push(inline);
  }
  return found;
}

const MARKED = fc.oneof(
  fc.constantFrom(
    "**bold words** ",
    "*so* ",
    "_it_ ",
    "`code here` ",
    "[a](https://a.example) ",
    "https://b.example ",
    "** ",
    "[ ",
    "\\* ",
    "` ",
  ),
  fc.string({ maxLength: 30 }),
  fc.lorem({ maxCount: 40 }),
);

test("passages joined are the text, each read by itself is what the whole is, and a text that grows changes the last one alone", () => {
  fc.assert(
    fc.property(fc.array(MARKED, { minLength: 30, maxLength: 200 }), fc.nat(), (pieces, cut) => {
      const text = pieces.join("");
      const passages = passagesOf(text);
      assert.equal(passages.map((passage) => passage.text).join(""), text);
      if (text.length <= 20_000)
        assert.deepEqual(
          joined(passages.flatMap((passage) => inlineOf(passage.text))),
          joined(inlineOf(text)),
        );
      const before = passagesOf(text.slice(0, cut % (text.length + 1)));
      assert.deepEqual(passagesOf(text, before), passages);
      assert.deepEqual(passages.slice(0, before.length - 1), before.slice(0, -1));
    }),
  );
  assert.ok(passagesOf("**word** ".repeat(1_000)).length > 3);
});

test("a text is not cut where an emphasis has begun that may still be closed", () => {
  const text = `${"word ".repeat(390)}**${"bold ".repeat(100)}word** ${"word ".repeat(500)}`;
  const whole = passagesOf(text);
  assert.ok(whole[0]?.text.endsWith("word** "));
  for (let end = 0; end < text.length; end += 50) {
    const before = passagesOf(text.slice(0, end));
    assert.deepEqual(before.slice(0, -1), whole.slice(0, before.length - 1), `${end} characters`);
  }
});

test("a megabyte without a space is cut all the same, not within a character, and is plain behind its beginning", () => {
  const passages = passagesOf("\u{1f600}".repeat(300_000));
  assert.ok(passages.every(({ text }) => text.length < 25_000 && text.isWellFormed()));
  assert.deepEqual([passages[0]?.isPlain, passages.at(-1)?.isPlain], [false, true]);
});
