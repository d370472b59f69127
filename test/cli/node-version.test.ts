/**
 * `bin/holdfast.js` under a Node that is too old for everything behind it.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

const root = join(import.meta.dirname, "../..");
const BIN = join(root, "bin/holdfast.js");

test("an older Node says in one line which one it takes and how to get it, and nothing is imported", (t) => {
  const place = mkdtempSync(join(tmpdir(), "holdfast-node-"));
  t.after(() => rmSync(place, { recursive: true, force: true }));
  const disguise = join(place, "disguise.mjs");
  writeFileSync(
    disguise,
    'Object.defineProperty(process, "versions", { value: { ...process.versions, node: "20.20.2" } });\n',
  );
  // Alone, so that an import of anything would fail; then where everything is.
  const alone = join(place, "holdfast.mjs");
  cpSync(BIN, alone);
  for (const command of [alone, BIN]) {
    const flags = ["--import", pathToFileURL(disguise).href];
    const { status, stdout, stderr } = spawnSync(process.execPath, [...flags, command, "--version"], {
      encoding: "utf8",
    });
    const said =
      "Holdfast needs Node 24 or later; this is 20.20.2. For npx in this directory: npm install node@24\n";
    assert.deepEqual([status, stdout, stderr], [1, "", said]);
  }
});

test("the Node that the command asks for is the one of package.json", () => {
  const manifest: unknown = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const [, major] = /NODE_MAJOR_MIN = (\d+);/.exec(readFileSync(BIN, "utf8")) ?? [];
  assert.partialDeepStrictEqual(manifest, { engines: { node: `>=${String(major)}` } });
});
