/** Directories of Holdfast's own are closed to tools, wherever they lie. */
import assert from "node:assert/strict";
import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { createTools } from "../../src/tools/index.ts";
import { put, rig, temporaryDirectory } from "./rig.ts";

test("E4: data and keys within the workspace are neither read nor listed nor searched", async (t) => {
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
