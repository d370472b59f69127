/** `docs/WHAT-BREAKS.md` names a test in each row: the tests are there. */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { repository } from "./entry-points.ts";

test("each row of what breaks is shown by a test that exists", () => {
  const page = readFileSync(join(repository, "docs/WHAT-BREAKS.md"), "utf8");
  const rows = page
    .split("\n")
    .filter((line) => line.startsWith("| "))
    .slice(2);
  assert.ok(rows.length > 25);
  for (const row of rows) {
    const shown = row.split("|").at(-2) ?? "";
    const [, path = "", name] = /`(test\/[\w./-]+)`(?: "([^"]+)")?/.exec(shown) ?? [];
    assert.ok(path !== "" && existsSync(join(repository, path)), row);
    if (!path.endsWith(".ts")) continue;
    const text = readFileSync(join(repository, path), "utf8");
    assert.ok(name !== undefined && text.includes(name), `${path} has no test "${name}"`);
  }
});
