/**
 * A write counts when the disk has it: the file is synced before it gets its name, and the directory after.
 */
import assert from "node:assert/strict";
import { readlinkSync } from "node:fs";
import { open } from "node:fs/promises";
import { basename, join } from "node:path";
import { test, type TestContext } from "node:test";
import { inline, outcome, put, rig } from "./rig.ts";

/** Every sync of a file handle in this process, as the path that it is about, while the test runs. */
async function watchSyncs(t: TestContext): Promise<string[]> {
  const handle = await open(import.meta.filename);
  const prototype: unknown = Object.getPrototypeOf(handle);
  await handle.close();
  assert.ok(isSyncing(prototype));
  const synced: string[] = [];
  const { sync } = prototype;
  prototype.sync = async function recorded() {
    const path = readlinkSync(`/proc/self/fd/${this.fd}`);
    await sync.call(this);
    synced.push(path);
  };
  t.after(() => {
    prototype.sync = sync;
  });
  return synced;
}

interface Syncing {
  sync: (this: { readonly fd: number }) => Promise<void>;
}

function isSyncing(value: unknown): value is Syncing {
  return typeof value === "object" && value !== null && "sync" in value;
}

test("C2: a written file and its directory are synced before the write is done", async (t) => {
  const { workspace, perform } = await rig(t);
  put(workspace, { "sub/a.txt": "old" });
  const syncs = await watchSyncs(t);
  for (const path of ["sub/a.txt", "sub/new.txt"]) {
    const args = { path, content: inline("new") };
    outcome(await perform({ case: "writeArgs", value: args }), "success");
    const synced = syncs.splice(0);
    const [file, directory] = synced;
    assert.match(basename(file ?? ""), /^\.holdfast-.*\.tmp$/, "the file, while it has its temporary name");
    assert.equal(directory, join(workspace, "sub"), "then the directory that has its name");
    assert.equal(synced.length, 2);
  }
});
