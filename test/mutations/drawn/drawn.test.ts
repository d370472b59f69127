/**
 * Mutations drawn by lot: what the operators change, and that the same seed draws the same.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { checkFit } from "../run.ts";
import { draw, patchOf } from "./drawing.ts";
import { distanceTo, likelyTests } from "./likely-tests.ts";
import { changesOf } from "./operators.ts";
import { SURVIVORS } from "./survivors.ts";

function mutantsOf(text: string): string[] {
  return changesOf(text).map(({ start, end, to }) => text.slice(0, start) + to + text.slice(end));
}

test("an operator turns comparisons, literals and conditions, and leaves out calls", () => {
  const text = "function f(): void {\n  if (a <= 1) {\n    this.#g(b);\n  }\n}\n";
  assert.deepEqual(mutantsOf(text), [
    text.replace("(a <= 1)", "(false)"),
    text.replace("<=", "<"),
    text.replace("1", "(1 + 1)"),
    text.replace("this.#g(b);", ";"),
  ]);
});

test("an operator leaves types, texts and comments alone", () => {
  const text =
    'interface A {\n  readonly b: true;\n  c: 1 | 2;\n}\n/** a <= b */\nconst d: Array<number> = e("===");\n';
  assert.deepEqual(mutantsOf(text), []);
});

test("an operator leaves the names of properties alone, and takes their values", () => {
  const text = "const a = { 403: b, 404: 5 };\nc ? 1 : d;\n";
  assert.deepEqual(mutantsOf(text), [text.replace("5", "(5 + 1)"), text.replace("1 :", "(1 + 1) :")]);
});

test("a patch names its place by as many lines as make it the only one", () => {
  const text = "a();\nb(1);\nc();\nb(1);\n";
  const { from, to } = patchOf("x.ts", text, { start: 18, end: 19, to: "2" });
  assert.equal(text.split(from).length, 2);
  assert.equal(text.replace(from, to), "a();\nb(1);\nc();\nb(2);\n");
});

test("equal seeds draw equal mutations, and each fits the source", () => {
  const drawn = draw(7, 60);
  assert.equal(drawn.length, 60);
  assert.deepEqual(drawn, draw(7, 60));
  assert.notDeepEqual(drawn, draw(8, 60));
  for (const patch of drawn) checkFit([patch]);
});

test("a test that imports the changed file is tried first, and one that cannot load it never", () => {
  const direct = "test/gateway/http/json-reader.test.ts";
  const ofRoom = "test/gateway/http/bodies.test.ts";
  const foreign = "test/core/outbox.test.ts";
  const file = "src/gateway/http/json-reader.ts";
  assert.deepEqual(likelyTests(file, [foreign, ofRoom, direct]), [direct, ofRoom]);
  assert.equal(distanceTo(file, direct), 1);
  assert.equal(distanceTo(file, foreign), undefined);
});

test("of the tests of a room the first has a word of the file's name", () => {
  const [namesake, ofFolder] = ["test/agent/models/anthropic.test.ts", "test/agent/models/failures.test.ts"];
  assert.deepEqual(likelyTests("src/agent/models/anthropic-prompt.ts", [ofFolder, namesake]), [
    namesake,
    ofFolder,
  ]);
});

test("a file that only a started process loads is found by its name", () => {
  assert.notEqual(distanceTo("src/gateway/sessions.ts", "test/cli/serve.test.ts"), undefined);
});

test("what survives rightly is in the source as it is listed, and GUARANTEES has the reason", () => {
  const read = (path: string): string => readFileSync(new URL(`../../../${path}`, import.meta.url), "utf8");
  const lines = read("docs/GUARANTEES.md").split("\n");
  for (const { file, from, why } of SURVIVORS) {
    assert.ok(read(file).includes(from), `${file} has no ${from}`);
    assert.ok(
      lines.some((line) => line.includes(`\`${file}\``) && line.includes(`| ${why}`)),
      `GUARANTEES does not say of ${file}: ${why}`,
    );
  }
});
