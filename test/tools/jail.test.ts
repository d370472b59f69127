import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Worker } from "node:worker_threads";
import { Jail } from "../../src/tools/jail.ts";
import { inline, outcome, put, rig, temporaryDirectory } from "./rig.ts";

test("E6: no path leads outside, by dots, absolute names or symlinks", async (t) => {
  const { workspace, perform } = await rig(t);
  const outside = temporaryDirectory(t, "outside");
  put(outside, { "secret.txt": "secret" });
  put(workspace, { "in/a.txt": "fine" });
  symlinkSync(outside, join(workspace, "out"));
  symlinkSync(join(outside, "secret.txt"), join(workspace, "file"));
  symlinkSync("../..", join(workspace, "in/up"));
  symlinkSync(join(outside, "new.txt"), join(workspace, "dangling"));
  const name = outside.split("/").at(-1) ?? "";
  const paths = [
    "out/secret.txt",
    "file",
    `../${name}/secret.txt`,
    join(outside, "secret.txt"),
    `${workspace}/../${name}/secret.txt`,
    `in/up/${name}/secret.txt`,
    `in/../../${name}/secret.txt`,
    "/etc/passwd",
    "dangling",
  ];
  for (const path of paths) {
    outcome(await perform({ case: "readArgs", value: { path } }), "permissionDenied");
    outcome(await perform({ case: "writeArgs", value: { path, content: inline("x") } }), "permissionDenied");
    outcome(await perform({ case: "grepArgs", value: { path, pattern: "s" } }), "permissionDenied");
    outcome(await perform({ case: "globArgs", value: { path, pattern: "**" } }), "permissionDenied");
    outcome(
      await perform({ case: "shellArgs", value: { command: "true", workingDirectory: path } }),
      "permissionDenied",
    );
  }
  outcome(await perform({ case: "lsArgs", value: { path: "out" } }), "permissionDenied");
  outcome(await perform({ case: "deleteArgs", value: { path: "out/secret.txt" } }), "permissionDenied");
  assert.deepEqual(readdirSync(outside), ["secret.txt"]);
  assert.equal(readFileSync(join(outside, "secret.txt"), "utf8"), "secret");
});

test("E6: paths and symlinks within the workspace work, also absolute ones; loops end", async (t) => {
  const { workspace, perform } = await rig(t);
  put(workspace, { "a/b/c.txt": "found" });
  symlinkSync("a/b", join(workspace, "relative"));
  symlinkSync(join(workspace, "a"), join(workspace, "absolute"));
  symlinkSync("loop", join(workspace, "loop"));
  symlinkSync("../../a", join(workspace, "a/b/back"));
  for (const path of [
    "a/b/c.txt",
    "./a//b/../b/c.txt",
    "relative/c.txt",
    "absolute/b/c.txt",
    join(workspace, "a/b/c.txt"),
    "a/b/back/b/c.txt",
  ]) {
    outcome(await perform({ case: "readArgs", value: { path } }), "success");
  }
  outcome(
    await perform({ case: "writeArgs", value: { path: "relative/new.txt", content: inline("n") } }),
    "success",
  );
  assert.equal(readFileSync(join(workspace, "a/b/new.txt"), "utf8"), "n");
  outcome(await perform({ case: "readArgs", value: { path: "loop" } }), "permissionDenied");
});

test("E6: fifos, devices and sockets are refused at once", async (t) => {
  const { workspace, perform } = await rig(t);
  execFileSync("mkfifo", [join(workspace, "pipe")]);
  outcome(await perform({ case: "readArgs", value: { path: "pipe" } }), "error");
  outcome(await perform({ case: "writeArgs", value: { path: "pipe", content: inline("x") } }), "error");
  const found = await perform({ case: "grepArgs", value: { pattern: "x" } });
  assert.equal(outcome(found, "success")["matchCount"], 0);
});

test("E6: our own journals in the workspace are closed to tools", async (t) => {
  const { workspace, perform } = await rig(t);
  put(workspace, { ".holdfast/journal": "sealed", "sub/.holdfast/x": "theirs" });
  outcome(await perform({ case: "readArgs", value: { path: ".holdfast/journal" } }), "permissionDenied");
  outcome(
    await perform({ case: "writeArgs", value: { path: ".holdfast/new", content: inline("x") } }),
    "permissionDenied",
  );
  outcome(await perform({ case: "readArgs", value: { path: "sub/.holdfast/x" } }), "success");
});

/** Swaps `swap` between a directory and a symlink to outside, as fast as it can, until it is told to stop. */
const SWAPPER = `
const { renameSync, rmSync, symlinkSync } = require("node:fs");
const { workerData } = require("node:worker_threads");
const [root, outside, stop] = workerData;
const flag = new Int32Array(stop);
const move = (from, to) => {
  for (;;) {
    try {
      return renameSync(root + from, root + to);
    } catch {
      // A write made the directory while it was away, and may be in it still.
      try {
        rmSync(root + to, { recursive: true, force: true });
      } catch {}
    }
  }
};
symlinkSync(outside, root + "/link");
while (Atomics.load(flag, 0) === 0) {
  move("/swap", "/parked");
  move("/link", "/swap");
  move("/swap", "/link");
  move("/parked", "/swap");
  Atomics.add(flag, 1, 1);
}
`;

test("E6: a directory that is swapped for a symlink again and again never leads outside", async (t) => {
  const root = temporaryDirectory(t, "race");
  const outside = temporaryDirectory(t, "outside");
  mkdirSync(join(root, "swap"));
  put(root, { "swap/f.txt": "inside" });
  put(outside, { "f.txt": "OUTSIDE" });
  const stop = new SharedArrayBuffer(8);
  const flag = new Int32Array(stop);
  const swapper = new Worker(SWAPPER, { eval: true, workerData: [root, outside, stop] });
  await once(swapper, "online");
  const { perform } = await rig(t, { workspace: root });
  const jail = Jail.open(root);
  t.after(() => jail.close());
  const until = performance.now() + 2500;
  let tries = 0;
  const outcomes = new Map<string, number>();
  try {
    while (performance.now() < until) {
      for (let n = 0; n < 500; n++) {
        tries++;
        try {
          using place = jail.locate("swap/f.txt");
          const path = place.held === undefined ? "" : readFileSync(`/proc/self/fd/${place.held.fd}`, "utf8");
          assert.notEqual(path, "OUTSIDE");
        } catch (cause) {
          assert(cause instanceof Error && "code" in cause, String(cause));
          assert(["EACCES", "ENOENT", "EAGAIN"].includes(String(cause.code)), String(cause));
        }
      }
      const wrote = await perform({
        case: "writeArgs",
        value: { path: `swap/w${tries % 7}.txt`, content: inline("x") },
      });
      const read = await perform({ case: "readArgs", value: { path: "swap/f.txt" } });
      const found = await perform({ case: "globArgs", value: { pattern: "**/*.txt" } });
      for (const result of [wrote, read, found]) {
        const name = `${result.case} ${result.value?.result.case}`;
        outcomes.set(name, (outcomes.get(name) ?? 0) + 1);
      }
      assert(read.case === "readResult");
      if (read.value.result.case === "success") {
        assert.deepEqual(
          read.value.result.value.content?.content.value,
          new Uint8Array(Buffer.from("inside")),
        );
      }
    }
  } finally {
    Atomics.store(flag, 0, 1);
    await once(swapper, "exit");
  }
  t.diagnostic(
    `${tries} walks against ${Atomics.load(flag, 1)} swaps: ${JSON.stringify(Object.fromEntries(outcomes))}`,
  );
  assert.deepEqual(readdirSync(outside), ["f.txt"]);
  assert(Atomics.load(flag, 1) > 100, "the swapper swapped");
});
