/** `docs/WHAT-BREAKS.md` names a test in each row: the tests are there, under exactly these names. */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { repository } from "./entry-points.ts";

const SHOWN = /`(?<path>test\/[\w./-]+\.test\.ts)` "(?<name>[^"]+)"/g;
const TESTS = /\btest\(\s*(?<quote>["'`])(?<name>(?:\\.|(?!\k<quote>).)+)\k<quote>/g;

/** As the page writes them: with `...` for what is computed. */
function testNames(path: string): readonly string[] {
  const file = join(repository, path);
  assert.ok(existsSync(file), `there is no ${path}`);
  return [...readFileSync(file, "utf8").matchAll(TESTS)].map(({ groups }) =>
    (groups?.["name"] ?? "").replaceAll(/\$\{[^{}]*\}/g, "..."),
  );
}

test("each row of what breaks is shown by a test that exists", () => {
  const page = readFileSync(join(repository, "docs/WHAT-BREAKS.md"), "utf8");
  const rows = page
    .split("\n")
    .filter((line) => line.startsWith("| "))
    .slice(2);
  assert.ok(rows.length > 25);
  for (const row of rows) {
    const shown = [...(row.split("|").at(-2) ?? "").matchAll(SHOWN)];
    assert.ok(shown.length > 0, row);
    for (const { groups: { path = "", name = "" } = {} } of shown)
      assert.ok(testNames(path).includes(name), `${path} has no test "${name}"`);
  }
});
