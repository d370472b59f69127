import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { globSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { test } from "node:test";
import { writeTables } from "../../scripts/message-tables.ts";

const root = resolve(import.meta.dirname, "../..");
const buf = join(root, "node_modules/@bufbuild/buf/bin/buf");
const generated = "src/protocol/gen";

function run(...args: readonly string[]): void {
  // The plugin is found on the path, as under `npm run`.
  const path = `${join(root, "node_modules/.bin")}${delimiter}${process.env["PATH"] ?? ""}`;
  execFileSync(process.execPath, [buf, ...args], {
    cwd: root,
    env: { ...process.env, PATH: path },
    stdio: "pipe",
  });
}

function filesUnder(folder: string): ReadonlyMap<string, string> {
  const names = globSync("**/*.ts", { cwd: folder }).toSorted();
  return new Map(names.map((name) => [name, readFileSync(join(folder, name), "utf8")]));
}

test("the generated code is what the .proto files give", async () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-generate-"));
  try {
    run("generate", "--output", folder);
    // The tables are made of the descriptors, which are compared too.
    await writeTables(join(root, generated), join(folder, generated));
    const expected = filesUnder(join(folder, generated));
    const committed = filesUnder(join(root, generated));
    assert.ok(expected.size > 0, "nothing was generated");
    const names = [...new Set([...expected.keys(), ...committed.keys()])];
    const stale = names.filter((name) => expected.get(name) !== committed.get(name));
    assert.deepEqual(stale, [], "the generated code is out of date: run npm run generate");
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("the .proto files pass buf's rules and are formatted", () => {
  run("lint");
  run("format", "--diff", "--exit-code");
});
