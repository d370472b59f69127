/** Directories of Holdfast's own are closed to tools, wherever they lie. */
import assert from "node:assert/strict";
import { mkdirSync, renameSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { createTools } from "../../src/tools/index.ts";
import { findProgram } from "../../src/tools/sandbox.ts";
import { inline, outcome, put, type Rig, rig, temporaryDirectory } from "./rig.ts";

test("E4, E6: data and keys within the workspace are neither read nor listed nor searched", async (t) => {
  const workspace = temporaryDirectory(t, "closed");
  put(workspace, {
    "server/data/api-key": "canary",
    ".config/holdfast/keys/a": "canary",
    "server/readme": "fine",
  });
  symlinkSync(join(workspace, "server/data"), join(workspace, "shortcut"));
  const closed = [join(workspace, "server/data"), join(workspace, ".config/holdfast")];
  const { perform } = await rig(t, { workspace, closed });
  for (const path of [
    "server/data/api-key",
    "shortcut/api-key",
    "server/../server/data/api-key",
    ".config/holdfast/keys/a",
  ]) {
    const result = await perform({ case: "readArgs", value: { path } });
    assert.ok(result.case === "readResult" && result.value.result.case === "permissionDenied", path);
  }
  const found = await perform({ case: "grepArgs", value: { pattern: "canary" } });
  assert.ok(found.case === "grepResult" && found.value.result.case === "success");
  assert.equal(found.value.result.value.matchCount, 0);
  const listed = await perform({ case: "lsArgs", value: { path: "server", depth: 3 } });
  assert.doesNotMatch(
    JSON.stringify(listed, (_, value: unknown) => (typeof value === "bigint" ? Number(value) : value)),
    /api-key/u,
  );
  const fine = await perform({ case: "readArgs", value: { path: "server/readme" } });
  assert.ok(fine.case === "readResult" && fine.value.result.case === "success");
});

test("a workspace that is such a directory itself is refused", async (t) => {
  const workspace = temporaryDirectory(t, "closed");
  const stateDirectory = temporaryDirectory(t, "state");
  await assert.rejects(
    createTools({ workspace, stateDirectory, closed: [workspace] }),
    /choose another one/u,
  );
});

/** Everything that file tools could tell about what lies in a directory. */
async function toldOf({ perform }: Rig, directory: string): Promise<string> {
  const results = [
    await perform({ case: "readArgs", value: { path: `${directory}/api-key` } }),
    await perform({ case: "lsArgs", value: { path: directory } }),
    await perform({ case: "lsArgs", value: { path: "", depth: 9 } }),
    await perform({ case: "globArgs", value: { pattern: "**/api-*" } }),
    await perform({ case: "globArgs", value: { pattern: "**", path: directory } }),
    await perform({ case: "grepArgs", value: { pattern: "canary" } }),
    await perform({ case: "grepArgs", value: { pattern: "canary", path: directory } }),
  ];
  const written = { path: `${directory}/api-key`, content: inline("mine") };
  outcome(await perform({ case: "writeArgs", value: written }), "permissionDenied");
  outcome(await perform({ case: "deleteArgs", value: { path: `${directory}/api-key` } }), "permissionDenied");
  outcome(
    await perform({ case: "shellArgs", value: { command: "ls", workingDirectory: directory } }),
    "permissionDenied",
  );
  const text = JSON.stringify(results, (_, value: unknown) => {
    if (value instanceof Uint8Array) return Buffer.from(value).toString();
    return typeof value === "bigint" ? Number(value) : value;
  });
  // The requests are answered with the paths that they named.
  return text.replaceAll(`${directory}/api-key`, "");
}

test("E4: a closed directory is known by its inode: it stays closed when it is moved, and so does one in its place", async (t) => {
  for (const env of [{ PATH: "/nowhere" }, { PATH: process.env["PATH"] }]) {
    const workspace = temporaryDirectory(t, "closed");
    put(workspace, { "a/data/api-key": "canary", "a/fine": "fine" });
    const place = await rig(t, {
      workspace,
      env,
      closed: [join(workspace, "a/data"), join(workspace, "late")],
    });
    // One above it, then itself: neither has its path any more.
    renameSync(join(workspace, "a"), join(workspace, "b"));
    renameSync(join(workspace, "b/data"), join(workspace, "b/d2"));
    assert.doesNotMatch(await toldOf(place, "b/d2"), /api-key|canary/u);
    put(workspace, { "a/data/api-key": "canary" });
    assert.doesNotMatch(await toldOf(place, "a/data"), /api-key|canary/u);
    renameSync(join(workspace, "a/data"), join(workspace, "d3"));
    assert.doesNotMatch(await toldOf(place, "d3"), /api-key|canary/u);
    // Made when the tools were there already.
    put(workspace, { "late/api-key": "canary" });
    outcome(await place.perform({ case: "readArgs", value: { path: "b/fine" } }), "success");
    renameSync(join(workspace, "late"), join(workspace, "early"));
    assert.doesNotMatch(await toldOf(place, "early"), /api-key|canary/u);
  }
});

test("E4: the directory above a closed one may be a symlink, also before the closed one is there", async (t) => {
  const workspace = temporaryDirectory(t, "closed");
  mkdirSync(join(workspace, "real"));
  symlinkSync("real", join(workspace, "link"));
  const { perform } = await rig(t, { workspace, closed: [join(workspace, "link/data")] });
  const value = { path: "real/data/api-key", content: inline("mine") };
  outcome(await perform({ case: "writeArgs", value }), "permissionDenied");
});

test("E4: the sandbox hides closed directories where they are now, also outside of the workspace", async (t) => {
  if (findProgram("bwrap", tmpdir(), process.env) === undefined) {
    t.diagnostic("bubblewrap is not installed: the sandbox was not tried");
    return;
  }
  const workspace = temporaryDirectory(t, "closed");
  const outside = temporaryDirectory(t, "outside");
  put(workspace, { "a/data/api-key": "canary" });
  put(outside, { "data/api-key": "canary", "b.txt": "fine\n" });
  const env = { PATH: process.env["PATH"], HOME: temporaryDirectory(t, "home") };
  const { perform } = await rig(t, {
    workspace,
    env,
    closed: [join(workspace, "a/data"), join(outside, "data")],
    config: { shell: { sandbox: "require", readable: [outside] } },
  });
  const command = `mv a b; cat b/data/api-key ${outside}/data/api-key; cat ${outside}/b.txt`;
  for (const _ of ["the one that moves it", "the next one"]) {
    const result = await perform({ case: "shellArgs", value: { command } });
    assert(result.case === "shellResult" && result.value.result.case === "success");
    assert.equal(String(Buffer.from(result.value.result.value.stdout?.content.value ?? [])), "fine\n");
  }
});
