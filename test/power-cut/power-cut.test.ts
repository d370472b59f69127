/**
 * `npm run power-cut -- --cuts 10`, with two: the power of a server's disk is cut, where that can be done.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

test("A3, B2: what was acknowledged or shown is on the disk when the power goes", async (t) => {
  const main = join(import.meta.dirname, "main.ts");
  const { stdout } = await promisify(execFile)(process.execPath, [main, "--cuts", "2"]);
  t.diagnostic(stdout.trim());
  assert.match(stdout, /^(?:cut 1: .*\ncut 2: .*, [1-9]\d* had been shown\nno violation|skipped: .*)\n$/);
});
