import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { test, type TestContext } from "node:test";
import { type GrepArgs, GrepArgsSchema } from "../../src/protocol/index.ts";
import { create } from "../../src/protocol/message.ts";
import { searchInThread } from "../../src/tools/grep-thread.ts";
import { searchOf } from "../../src/tools/grep.ts";
import { Jail } from "../../src/tools/jail.ts";
import { searchFiles } from "../../src/tools/own-search.ts";
import { searchWithRipgrep } from "../../src/tools/ripgrep.ts";
import { findProgram } from "../../src/tools/sandbox.ts";
import { CASES, plantTree, SEARCHED, told } from "./search-tree.ts";
import { outcome, put, rig, Run, temporaryDirectory } from "./rig.ts";

const RIPGREP = findProgram("rg", tmpdir(), process.env);

function planted(t: TestContext): Jail {
  const root = temporaryDirectory(t, "search");
  plantTree(root);
  const jail = Jail.open(root);
  t.after(() => jail.close());
  return jail;
}

async function withRipgrep(ripgrep: string, args: GrepArgs, jail: Jail): Promise<readonly string[]> {
  const { path, glob } = args;
  return told(
    await searchWithRipgrep(ripgrep, { path, glob, search: searchOf(args) }, jail, new Run().signal),
  );
}

test("our own search finds what is written down", async (t) => {
  const jail = planted(t);
  for (const { name, args, found } of CASES) {
    const { path, glob, ...rest } = create(GrepArgsSchema, args);
    const what = { path, glob, search: searchOf({ path, glob, ...rest }) };
    assert.deepEqual(told(searchFiles(what, jail)), found, name);
    if (name === CASES[0]?.name)
      assert.deepEqual(told(await searchInThread(what, jail, new Run().signal)), found);
  }
});

test("ripgrep, where it is installed, finds the same", async (t) => {
  if (RIPGREP === undefined) {
    t.diagnostic("ripgrep is not installed: only our own search was compared with what is written down");
    return;
  }
  const jail = planted(t);
  for (const { name, args, found } of CASES) {
    assert.deepEqual(await withRipgrep(RIPGREP, create(GrepArgsSchema, args), jail), found, name);
  }
  const options = [
    "--files",
    "--no-config",
    "--no-require-git",
    "--no-ignore-global",
    "--no-ignore-parent",
    "--sort",
    "path",
  ];
  const listed = execFileSync(RIPGREP, options, { cwd: jail.root.path, encoding: "utf8" });
  assert.deepEqual(listed.trim().split("\n"), SEARCHED);
  await assert.rejects(withRipgrep(RIPGREP, create(GrepArgsSchema, { pattern: "(" }), jail), {
    code: "EINVAL",
  });
});

test("glob finds the files that a search looks at, sorted, relative to the workspace", async (t) => {
  const { workspace, perform } = await rig(t);
  plantTree(workspace);
  const find = async (value: { pattern: string; path?: string; resultsMax?: number }) => {
    const result = await perform({ case: "globArgs", value });
    assert(result.case === "globResult" && result.value.result.case === "success");
    const { paths, truncated } = result.value.result.value;
    return truncated ? [...paths, "cut"] : paths;
  };
  assert.deepEqual(await find({ pattern: "**" }), SEARCHED);
  assert.deepEqual(await find({ pattern: "**/*.ts" }), ["src/a.ts", "src/b.ts", "src/build/inner.ts"]);
  assert.deepEqual(await find({ pattern: "*.ts", path: "src" }), ["src/a.ts", "src/b.ts"]);
  assert.deepEqual(await find({ pattern: "*.ts" }), []);
  assert.deepEqual(await find({ pattern: "src/[ab].{ts,js}" }), ["src/a.ts", "src/b.ts"]);
  assert.deepEqual(await find({ pattern: "**/*.txt", resultsMax: 2 }), ["latin.txt", "nobreak.txt", "cut"]);
  assert.deepEqual(await find({ pattern: ".github/*" }), [".github/ci.ts"]);
  outcome(await perform({ case: "globArgs", value: { pattern: "**", path: "none" } }), "notFound");
  outcome(await perform({ case: "globArgs", value: { pattern: "{a,b}".repeat(12) } }), "error");
});

test("a pattern that runs away is stopped, and leaves no descriptor behind", async (t) => {
  const root = temporaryDirectory(t, "runaway");
  put(root, { "a.txt": `${"a".repeat(60)}!\n` });
  const jail = Jail.open(root);
  t.after(() => jail.close());
  const what = {
    path: "",
    glob: "",
    search: searchOf(create(GrepArgsSchema, { pattern: "^(a+)+$" })),
  };
  const before = readdirSync("/proc/self/fd").length;
  await assert.rejects(searchInThread(what, jail, new Run().signal, 400), { code: "ETIMEDOUT" });
  const run = new Run();
  const running = searchInThread(what, jail, run.signal, 60_000);
  run.controller.abort();
  await assert.rejects(running, { code: "ABORT_ERR" });
  assert(readdirSync("/proc/self/fd").length <= before + 2);
});

test("a pattern that is none is an error that says so", async (t) => {
  const { perform } = await rig(t);
  const value = outcome(await perform({ case: "grepArgs", value: { pattern: "(" } }), "error");
  assert.equal(value["systemCode"], "EINVAL");
});

test("long lines and many results are cut, and everything is counted", async (t) => {
  const { workspace, perform } = await rig(t);
  put(workspace, { "min.js": `x${"y".repeat(5000)}\n`.repeat(400) });
  const result = await perform({ case: "grepArgs", value: { pattern: "x" } });
  assert(result.case === "grepResult" && result.value.result.case === "success");
  const { files, matchCount, truncated } = result.value.result.value;
  assert.deepEqual([matchCount, truncated], [400, true]);
  assert.match(files[0]?.lines[0]?.text ?? "", /more characters\]$/);
  const chars = (files[0]?.lines ?? []).reduce((sum, { text }) => sum + text.length, 0);
  assert(chars < 256 * 1024);
});
