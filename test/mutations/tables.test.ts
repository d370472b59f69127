/**
 * The tables of mutations follow the source: quick to know, before any of them is run.
 */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { test } from "node:test";
import { checkFit } from "./run.ts";
import { readTables } from "./tables.ts";

const root = new URL("../../", import.meta.url);

test("every mutation fits the source, changes it, has a name of its own and a test file", async () => {
  const mutations = await readTables();
  assert.ok(mutations.length > 100);
  assert.equal(new Set(mutations.map(({ name }) => name)).size, mutations.length);
  for (const { name, patches, file } of mutations) {
    assert.ok(patches.length > 0, name);
    assert.ok(existsSync(new URL(file, root)), `${name}: there is no ${file}`);
    assert.doesNotThrow(() => checkFit(patches), name);
    for (const { from, to } of patches) assert.notEqual(from, to, name);
  }
});
