/** `docs/WHAT-BREAKS.md` has each break for each kind of client, and names a test in each row: the tests are there, under exactly these names. */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { repository } from "./entry-points.ts";

const SHOWN = /`(?<path>test\/[\w./-]+\.test\.ts)` "(?<name>[^"]+)"/g;
const TESTS = /\btest\(\s*(?<quote>["'`])(?<name>(?:\\.|(?!\k<quote>).)+)\k<quote>/g;

const KINDS = ["native", "fetch", "stock", "whole"];

/** As the page writes them: with `...` for what is computed. */
function testNames(path: string): readonly string[] {
  const file = join(repository, path);
  assert.ok(existsSync(file), `there is no ${path}`);
  return [...readFileSync(file, "utf8").matchAll(TESTS)].map(({ groups }) =>
    (groups?.["name"] ?? "").replaceAll(/\$\{[^{}]*\}/g, "..."),
  );
}

/** Cells of each row; an empty one repeats the cell above it. */
function rowsOfPage(): readonly (readonly string[])[] {
  const page = readFileSync(join(repository, "docs/WHAT-BREAKS.md"), "utf8");
  let above: readonly string[] = [];
  return page
    .split("\n")
    .filter((line) => line.startsWith("| "))
    .slice(2)
    .map((line) => {
      const cells = line.split("|").slice(1, -1);
      const [what = "", client = "", ...rest] = cells.map((cell, at) => cell.trim() || (above[at] ?? ""));
      return (above = [what, client, ...rest]);
    });
}

test("each row of what breaks is shown by a test that exists", () => {
  const rows = rowsOfPage();
  assert.ok(rows.length > 25);
  for (const row of rows) {
    const cell = row.at(-1) ?? "";
    const shown = [...cell.matchAll(SHOWN)];
    assert.ok(shown.length > 0, row.join(" | "));
    assert.match(cell.replaceAll(SHOWN, ""), /^[, ]*$/, "each name stands behind its file");
    for (const { groups: { path = "", name = "" } = {} } of shown)
      assert.ok(testNames(path).includes(name), `${path} has no test "${name}"`);
  }
});

test("each break is there for all kinds of clients, but for one that a single client has", () => {
  const clients = new Map<string, Set<string>>();
  let whole = "";
  for (const [what = "", client = ""] of rowsOfPage()) {
    if (!what.startsWith("the same, ")) whole = what;
    const known = clients.get(whole) ?? new Set();
    const named = client === "all" ? KINDS : client.split(", ").filter((name) => KINDS.includes(name));
    clients.set(whole, known.union(new Set(named)));
  }
  for (const [what, known] of clients) if (known.size > 0) assert.deepEqual(known, new Set(KINDS), what);
  assert.ok([...clients.values()].filter(({ size }) => size > 0).length > 20);
});
