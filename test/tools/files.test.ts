import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { LsEntryKind } from "../../src/protocol/index.ts";
import { removeTemporary } from "../../src/tools/write.ts";
import { Jail } from "../../src/tools/jail.ts";
import { inline, outcome, put, type Result, rig, Run, sha256 } from "./rig.ts";

function contentBytes(result: Result, run = new Run()): Uint8Array {
  assert(result.case === "readResult" && result.value.result.case === "success");
  const content = result.value.result.value.content?.content;
  if (content?.case === "inline") return content.value;
  assert(content?.case === "blobId");
  const bytes = run.blobs.get(Buffer.from(content.value).toString("hex"));
  assert(bytes !== undefined);
  return bytes;
}

const text = (result: Result, run?: Run) => Buffer.from(contentBytes(result, run)).toString();

test("read gives lines of a file, and the size, hash and line count of the whole", async (t) => {
  const { workspace, perform } = await rig(t);
  const whole = "one\ntwo\nthree\nfour";
  put(workspace, { "a.txt": whole, "empty.txt": "" });
  const all = await perform({ case: "readArgs", value: { path: "a.txt" } });
  assert.equal(text(all), whole);
  const { totalLines, sizeBytes, sha256: hash, truncated, mediaType } = outcome(all, "success");
  assert.deepEqual(
    { totalLines, sizeBytes, truncated, mediaType },
    { totalLines: 4, sizeBytes: 18, truncated: false, mediaType: "text/plain" },
  );
  assert.deepEqual(hash, new Uint8Array(sha256(whole)));
  const range = async (firstLine: number, lineCount?: number) =>
    text(
      await perform({
        case: "readArgs",
        value: { path: "a.txt", firstLine, ...(lineCount === undefined ? {} : { lineCount }) },
      }),
    );
  assert.equal(await range(2, 2), "two\nthree\n");
  assert.equal(await range(4), "four");
  assert.equal(await range(5), "");
  assert.equal(await range(0, 1), "one\n");
  const empty = await perform({ case: "readArgs", value: { path: "empty.txt" } });
  assert.equal(outcome(empty, "success")["totalLines"], 0);
  outcome(await perform({ case: "readArgs", value: { path: "none.txt" } }), "notFound");
  outcome(await perform({ case: "readArgs", value: { path: "." } }), "error");
});

test("read tells images by their bytes, counts no lines in binary files, cuts huge ones at a line", async (t) => {
  const { workspace, perform } = await rig(t);
  const png = Buffer.concat([Buffer.from("89504e470d0a1a0a", "hex"), Buffer.from([0, 0, 10, 10])]);
  const line = "0123456789abcde\n";
  const huge = line.repeat(600_000);
  put(workspace, { "x.txt": png, "b.bin": Buffer.from([1, 0, 2]), "huge.log": huge });
  const image = outcome(await perform({ case: "readArgs", value: { path: "x.txt" } }), "success");
  assert.deepEqual([image["mediaType"], image["totalLines"]], ["image/png", 0]);
  const binary = outcome(await perform({ case: "readArgs", value: { path: "b.bin" } }), "success");
  assert.equal(binary["mediaType"], "application/octet-stream");
  const run = new Run();
  const result = await perform({ case: "readArgs", value: { path: "huge.log" } }, run);
  const view = outcome(result, "success");
  assert.deepEqual([view["truncated"], view["totalLines"], view["sizeBytes"]], [true, 600_000, huge.length]);
  assert.deepEqual(view["sha256"], new Uint8Array(sha256(huge)));
  assert.equal(contentBytes(result, run).length, 8 * 1024 * 1024);
  const last = await perform({ case: "readArgs", value: { path: "huge.log", firstLine: 600_000 } });
  assert.equal(text(last), line);
});

test("write replaces a file in one step, keeps its mode, makes directories, and takes content from a blob", async (t) => {
  const { workspace, perform } = await rig(t);
  put(workspace, { "run.sh": "old" });
  chmodSync(join(workspace, "run.sh"), 0o750);
  const before = statSync(join(workspace, "run.sh")).ino;
  const written = outcome(
    await perform({ case: "writeArgs", value: { path: "run.sh", content: inline("new") } }),
    "success",
  );
  assert.deepEqual([written["created"], written["bytesWritten"]], [false, 3]);
  const after = statSync(join(workspace, "run.sh"));
  assert.notEqual(after.ino, before);
  assert.equal(after.mode & 0o777, 0o750);
  const run = new Run();
  const large = Buffer.alloc(100_000, "x");
  const blobId = Buffer.from(await run.upload(large), "hex");
  const content = { content: { case: "blobId", value: blobId } } as const;
  const deep = await perform({ case: "writeArgs", value: { path: "a/b/c.txt", content } }, run);
  assert.equal(outcome(deep, "success")["created"], true);
  assert.deepEqual(readFileSync(join(workspace, "a/b/c.txt")), large);
  assert.deepEqual(readdirSync(workspace).toSorted(), ["a", "run.sh"]);
  outcome(await perform({ case: "writeArgs", value: { path: "a/b", content: inline("") } }), "error");
  outcome(await perform({ case: "writeArgs", value: { path: "run.sh/x", content: inline("") } }), "notFound");
});

test("write keeps the permissions of a file, not the bits that lend its owner's rights", async (t) => {
  const { workspace, perform } = await rig(t);
  put(workspace, { tool: "#!/bin/sh\n" });
  const path = join(workspace, "tool");
  chmodSync(path, 0o6755);
  assert.equal(statSync(path).mode & 0o7777, 0o6755);
  outcome(
    await perform({ case: "writeArgs", value: { path: "tool", content: inline("#!/bin/sh\nid\n") } }),
    "success",
  );
  assert.equal(statSync(path).mode & 0o7777, 0o755);
});

test("write and delete honour the hash that they expect", async (t) => {
  const { workspace, perform } = await rig(t);
  put(workspace, { "a.txt": "old", "b.txt": "b" });
  const write = async (expectedSha256: Uint8Array, path = "a.txt") =>
    perform({ case: "writeArgs", value: { path, content: inline("new"), expectedSha256 } });
  assert.equal(outcome(await write(sha256("other")), "error")["systemCode"], "ESTALE");
  assert.equal(outcome(await write(new Uint8Array()), "error")["systemCode"], "EEXIST");
  assert.equal(readFileSync(join(workspace, "a.txt"), "utf8"), "old");
  outcome(await write(sha256("old")), "success");
  outcome(await write(new Uint8Array(), "fresh.txt"), "success");
  assert.equal(outcome(await write(sha256("x"), "nowhere.txt"), "error")["systemCode"], "ESTALE");
  const remove = async (expectedSha256: Uint8Array) =>
    perform({ case: "deleteArgs", value: { path: "b.txt", expectedSha256 } });
  assert.equal(outcome(await remove(sha256("other")), "error")["systemCode"], "ESTALE");
  outcome(await remove(sha256("b")), "success");
  assert.deepEqual(readdirSync(workspace).toSorted(), ["a.txt", "fresh.txt"]);
});

test("delete takes files, symlinks themselves and empty directories, nothing else", async (t) => {
  const { workspace, perform } = await rig(t);
  put(workspace, { "full/a.txt": "abc" });
  mkdirSync(join(workspace, "empty"));
  symlinkSync("full/a.txt", join(workspace, "link"));
  const remove = async (path: string) => perform({ case: "deleteArgs", value: { path } });
  outcome(await remove("link"), "success");
  assert(existsSync(join(workspace, "full/a.txt")));
  assert.equal(outcome(await remove("full"), "error")["systemCode"], "ENOTEMPTY");
  assert.equal(outcome(await remove("full/a.txt"), "success")["sizeBytes"], 3);
  outcome(await remove("empty"), "success");
  outcome(await remove("empty"), "notFound");
  outcome(await remove("."), "permissionDenied");
});

test("C2: the temporary file of a write that a crash cut off is removed", async (t) => {
  const { workspace } = await rig(t);
  const mark = "f".repeat(64);
  put(workspace, { [`d/.holdfast-${mark.slice(0, 32)}.tmp`]: "half", "d/a.txt": "old" });
  const jail = Jail.open(workspace);
  t.after(() => jail.close());
  removeTemporary("d/a.txt", mark, jail);
  assert.deepEqual(readdirSync(join(workspace, "d")), ["a.txt"]);
  removeTemporary("d/a.txt", mark, jail);
});

test("ls lists levels, kinds and sizes, leaves out what it is told to, and is bounded", async (t) => {
  const { workspace, perform } = await rig(t);
  put(workspace, { "a/b/c.txt": "12345", "a/node_modules/x.js": "", ".env": "", "z.txt": "1" });
  symlinkSync("z.txt", join(workspace, "link"));
  execFileSync("mkfifo", [join(workspace, "pipe")]);
  const list = async (value: { path?: string; depth?: number; ignore?: string[]; entriesMax?: number }) => {
    const result = await perform({ case: "lsArgs", value });
    assert(result.case === "lsResult" && result.value.result.case === "success");
    return result.value.result.value;
  };
  const top = await list({});
  const { FILE, DIRECTORY, SYMLINK, UNSPECIFIED } = LsEntryKind;
  assert.deepEqual(
    top.entries.map(({ path, kind, sizeBytes }) => [path, kind, Number(sizeBytes)]),
    [
      [".env", FILE, 0],
      ["a", DIRECTORY, 0],
      ["link", SYMLINK, 0],
      ["pipe", UNSPECIFIED, 0],
      ["z.txt", FILE, 1],
    ],
  );
  const deep = await list({ path: "a", depth: 9, ignore: ["node_modules"] });
  assert.deepEqual(
    deep.entries.map(({ path }) => path),
    ["b", "b/c.txt"],
  );
  const cut = await list({ depth: 9, entriesMax: 5 });
  assert.deepEqual([cut.entries.length, cut.truncated], [5, true]);
  outcome(await perform({ case: "lsArgs", value: { path: "z.txt" } }), "notFound");
});

test("what would run without end is stopped by the signal", async (t) => {
  const { workspace, perform } = await rig(t);
  writeFileSync(join(workspace, "a.txt"), "a");
  const run = new Run();
  run.controller.abort();
  outcome(
    await perform({ case: "writeArgs", value: { path: "a.txt", content: inline("b") } }, run),
    "aborted",
  );
  outcome(await perform({ case: "readArgs", value: { path: "a.txt" } }, run), "aborted");
  assert.equal(readFileSync(join(workspace, "a.txt"), "utf8"), "a");
  assert.deepEqual(readdirSync(workspace), ["a.txt"]);
});
