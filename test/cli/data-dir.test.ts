/** The data directory belongs to its user alone, also when somebody else made it. */
import assert from "node:assert/strict";
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { makeDataDir } from "../../src/node/data-dir.ts";
import { Cli } from "./cli-process.ts";

function directory(t: TestContext, mode: number, ...files: readonly string[]): string {
  const path = join(mkdtempSync(join(tmpdir(), "holdfast-data-")), "data");
  t.after(() => rmSync(join(path, ".."), { recursive: true, force: true }));
  mkdirSync(path);
  for (const file of files) writeFileSync(join(path, file), "");
  chmodSync(path, mode);
  return path;
}

function made(path: string): readonly string[] {
  const notices: string[] = [];
  makeDataDir(path, (notice) => notices.push(notice));
  return notices;
}

const modeOf = (path: string): number => statSync(path).mode & 0o777;

test("E4: a data directory that others may read is closed to them, and that is said", (t) => {
  for (const files of [[], ["lost+found"], ["holdfast.db"], ["api-key", "notes.txt"]]) {
    const path = directory(t, 0o755, ...files);
    assert.match(made(path).join(), /other users could read the data directory .*closed to them now/u);
    assert.equal(modeOf(path), 0o700);
    assert.deepEqual(made(path), [], "said once");
  }
  const fresh = join(directory(t, 0o755, "a"), "deeper", "data");
  assert.deepEqual(made(fresh), []);
  assert.equal(modeOf(fresh), 0o700);
});

test("E4: a directory that others use is refused as a data directory, and left as it is", (t) => {
  const path = directory(t, 0o755, "notes.txt");
  assert.throws(() => made(path), {
    code: "unavailable",
    message: /a directory of its own.*or .*chmod 700/u,
  });
  assert.equal(modeOf(path), 0o755);
});

test("E4: a data directory of another user is refused", (t) => {
  if (process.getuid?.() !== 0) {
    t.diagnostic("not root: a directory of another user cannot be made");
    return;
  }
  const path = directory(t, 0o700);
  chownSync(path, 12_345, 12_345);
  assert.throws(() => made(path), { code: "unavailable", message: /belongs to another user \(12345\)/u });
});

test("E4: serve says that it closed its data directory", async (t) => {
  const cli = new Cli(t);
  mkdirSync(cli.dataDir);
  chmodSync(cli.dataDir, 0o755);
  const server = await cli.serve();
  assert.match(server.stderr(), /other users could read the data directory/u);
  assert.equal(modeOf(cli.dataDir), 0o700);
});
