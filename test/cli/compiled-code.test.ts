/** Where the compiled form of the command is kept: it is run as code, so no other user may have a hand in it. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { inherited } from "../inherited.ts";
import { cacheDirectory } from "../../src/cli/compiled-code.ts";

const COMMAND = join(import.meta.dirname, "../../src/cli/main.ts");
const COMPILED = ".cache/holdfast/compiled";

function homeOf(t: TestContext): string {
  const home = mkdtempSync(join(tmpdir(), "holdfast-compiled-"));
  t.after(() => rmSync(home, { recursive: true, force: true }));
  return home;
}

/** Starts the command in this home, and counts what is kept there afterwards. */
function keptBy(home: string, env: Readonly<Record<string, string>> = {}): number {
  const { status, stderr } = spawnSync(process.execPath, [COMMAND, "--version"], {
    env: { ...inherited(), NODE_COMPILE_CACHE: undefined, HOME: home, ...env },
    encoding: "utf8",
  });
  assert.deepEqual([status, stderr], [0, ""]);
  return readdirSync(home, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile()).length;
}

test("E4: compiled code lies in the user's cache directory, closed to others, and nowhere else", (t) => {
  const home = homeOf(t);
  assert.ok(keptBy(home) > 10);
  assert.equal(statSync(join(home, COMPILED)).mode & 0o777, 0o700);
  assert.deepEqual(readdirSync(home), [".cache"]);
  const elsewhere = homeOf(t);
  assert.ok(keptBy(homeOf(t), { XDG_CACHE_HOME: elsewhere }) === 0);
  assert.ok(readdirSync(join(elsewhere, "holdfast/compiled")).length > 0);
});

test("a directory that other users can read, write or replace is not used, and nor is one that the user does not want", (t) => {
  const readable = homeOf(t);
  mkdirSync(join(readable, COMPILED), { recursive: true });
  chmodSync(join(readable, COMPILED), 0o755);
  assert.equal(keptBy(readable), 0);

  const replaceable = homeOf(t);
  mkdirSync(join(replaceable, COMPILED), { recursive: true, mode: 0o700 });
  chmodSync(join(replaceable, ".cache"), 0o777);
  assert.equal(keptBy(replaceable), 0);

  assert.equal(keptBy(homeOf(t), { NODE_DISABLE_COMPILE_CACHE: "1" }), 0);
});

test("a home that is not there is not made", (t) => {
  const home = homeOf(t);
  const absent = join(home, "absent");
  const env = { ...inherited(), NODE_COMPILE_CACHE: undefined, HOME: absent };
  assert.equal(spawnSync(process.execPath, [COMMAND, "--version"], { env }).status, 0);
  assert.deepEqual(readdirSync(home), []);
});

test("each system has its own place, and without a home there is none", () => {
  const place = (platform: NodeJS.Platform, env: NodeJS.ProcessEnv, home?: string): string | undefined =>
    cacheDirectory({ platform, env, home });
  assert.equal(place("linux", {}, "/users/u"), "/users/u/.cache/holdfast/compiled");
  assert.equal(place("linux", { XDG_CACHE_HOME: "/x" }, "/users/u"), "/x/holdfast/compiled");
  assert.equal(
    place("linux", { XDG_CACHE_HOME: "relative" }, "/users/u"),
    "/users/u/.cache/holdfast/compiled",
  );
  assert.equal(place("darwin", {}, "/users/u"), "/users/u/Library/Caches/holdfast/compiled");
  assert.equal(place("linux", {}), undefined);
});
