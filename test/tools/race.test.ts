/**
 * E6 against another process: while it swaps a directory and a file for symlinks to outside, no file tool reads, lists, finds, writes
 * or deletes anything there.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test, type TestContext } from "node:test";
import { inline, put, type Request, type Result, rig, type Rig, sha256, temporaryDirectory } from "./rig.ts";

const SWAPPER = join(import.meta.dirname, "programs/swapper.ts");
const OUTSIDE = { "f.txt": "OUTSIDE", "only-outside.txt": "OUTSIDE", "victim.txt": "OUTSIDE" };
/** Of each tool. Few are enough to notice a path that is resolved as a whole. */
const ROUNDS_MIN = 60;
const SWAPS_MIN = 5;

interface Swapper {
  /** Hundreds. */
  readonly swaps: () => number;
  stop(): Promise<void>;
}

async function startSwapper(t: TestContext, root: string, outside: string): Promise<Swapper> {
  const child = spawn(process.execPath, [SWAPPER, root, outside], { stdio: ["pipe", "pipe", "inherit"] });
  t.after(() => child.kill("SIGKILL"));
  let swaps = 0;
  const lines = createInterface({ input: child.stdout }).on("line", () => swaps++);
  await once(lines, "line");
  const exited = once(child, "exit");
  return {
    swaps: () => swaps,
    stop: async () => {
      child.stdin.end();
      assert.deepEqual(await exited, [0, null]);
    },
  };
}

/** Everything in a result, as text. */
function wordsOf(result: Result): string {
  return JSON.stringify(result.value?.result, (_, value: unknown) => {
    if (value instanceof Uint8Array) return Buffer.from(value).toString("latin1");
    return typeof value === "bigint" ? Number(value) : value;
  });
}

/** One try of each tool; the results by name. An edit is a read and a write that expects what was read. */
async function tryAll(
  { perform }: Rig,
  round: number,
  greps: boolean,
): Promise<readonly (readonly [string, Result])[]> {
  const content = inline(`inside ${round}`);
  const write = (path: string): Request => ({ case: "writeArgs", value: { path, content } });
  const requests: readonly (readonly [string, Request])[] = [
    ["read", { case: "readArgs", value: { path: "swap/f.txt" } }],
    ["read", { case: "readArgs", value: { path: "leaf.txt" } }],
    ["ls", { case: "lsArgs", value: { path: "swap" } }],
    ["ls", { case: "lsArgs", value: { path: "", depth: 3 } }],
    ["glob", { case: "globArgs", value: { pattern: "**/*.txt" } }],
    ["glob", { case: "globArgs", value: { pattern: "*", path: "swap" } }],
    ["grep", { case: "grepArgs", value: { pattern: "OUT.IDE" } }],
    ["grep", { case: "grepArgs", value: { pattern: "OUT.IDE", path: "swap" } }],
    ["grep", { case: "grepArgs", value: { pattern: "OUT.IDE", path: "leaf.txt" } }],
    ["write", write("swap/f.txt")],
    ["write", write("leaf.txt")],
    ["write", write("swap/victim.txt")],
    ["delete", { case: "deleteArgs", value: { path: "swap/victim.txt" } }],
  ];
  const results: (readonly [string, Result])[] = [];
  for (const [name, request] of requests) {
    if (name !== "grep" || greps) results.push([name, await perform(request)]);
  }
  const read = await perform({ case: "readArgs", value: { path: "swap/f.txt" } });
  if (read.case === "readResult" && read.value.result.case === "success") {
    const bytes = read.value.result.value.content?.content.value ?? new Uint8Array();
    const value = { path: "swap/f.txt", content: inline("inside"), expectedSha256: sha256(bytes) };
    results.push(["edit", read], ["edit", await perform({ case: "writeArgs", value })]);
  }
  return results;
}

for (const engine of ["ripgrep", "our own search"]) {
  test(`E6: a process that swaps directories and files for symlinks leads no file tool outside (${engine})`, async (t) => {
    const workspace = temporaryDirectory(t, "race");
    const outside = temporaryDirectory(t, "outside");
    put(workspace, { "swap/f.txt": "inside", "swap/victim.txt": "inside", "leaf.txt": "inside" });
    put(outside, OUTSIDE);
    const env = { PATH: engine === "ripgrep" ? process.env["PATH"] : "/nowhere" };
    const place = await rig(t, { workspace, env });
    const swapper = await startSwapper(t, workspace, outside);
    const before = swapper.swaps();
    const tried = new Map<string, number>();
    const done = new Map<string, number>();
    for (let round = 0; round < ROUNDS_MIN || swapper.swaps() - before < SWAPS_MIN; round++) {
      // A search takes a process or a thread each time.
      const greps = round % (engine === "ripgrep" ? 3 : 10) === 0;
      for (const [name, result] of await tryAll(place, round, greps)) {
        assert.doesNotMatch(wordsOf(result), /OUTSIDE|only-outside/u, name);
        tried.set(name, (tried.get(name) ?? 0) + 1);
        if (result.value?.result.case === "success") done.set(name, (done.get(name) ?? 0) + 1);
      }
    }
    await swapper.stop();
    t.diagnostic(
      `${swapper.swaps()}00 swaps, tried ${JSON.stringify([...tried])}, done ${JSON.stringify([...done])}`,
    );
    for (const name of ["read", "ls", "glob", "grep", "write"]) assert((done.get(name) ?? 0) > 0, name);
    const left = Object.fromEntries(
      readdirSync(outside).map((name) => [name, readFileSync(join(outside, name), "utf8")]),
    );
    assert.deepEqual(left, OUTSIDE);
  });
}
