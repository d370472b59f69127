/**
 * The demo (`npx holdfast demo`), run as people run it; and its proof, which has to notice when something is wrong.
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { openSharedDatabase } from "../../src/cli/demo/cluster.ts";
import { newBoard } from "../../src/cli/demo/board.ts";
import { printProof } from "../../src/cli/demo/proof-table.ts";
import { prove } from "../../src/cli/demo/proof.ts";
import { textWidth } from "../../src/cli/chat/text-width.ts";
import { COMMAND } from "../command.ts";
import { inherited } from "../inherited.ts";
import { openPostgresStore } from "../../src/store/postgres/index.ts";
import { asked, startPostgres } from "../store/postgres/server.ts";
import { soundEvidence } from "./demo-evidence.ts";

/** The show takes half a minute; a test run has the machine not to itself. */
const PATIENCE_MS = 150_000;

interface Running {
  readonly child: ChildProcess;
  readonly output: () => string;
  readonly code: Promise<number | null>;
  /** Where it makes its directory. */
  readonly temporary: string;
}

function start(t: TestContext, flags: readonly string[]): Running {
  const temporary = mkdtempSync(join(tmpdir(), "holdfast-demo-test-"));
  const child = spawn(process.execPath, [COMMAND, "demo", ...flags], {
    cwd: temporary,
    env: { ...inherited(), PATH: process.env["PATH"], HOME: temporary, TMPDIR: temporary },
    stdio: ["ignore", "pipe", "pipe"],
    timeout: PATIENCE_MS,
    killSignal: "SIGKILL",
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => (output += text));
  }
  const code = once(child, "close").then(() => child.exitCode);
  t.after(async () => {
    child.kill("SIGKILL");
    await code;
    rmSync(temporary, { recursive: true, force: true });
  });
  return { child, output: () => output, code, temporary };
}

test("B1, C1: a demo with real kills proves that nothing is lost and no tool runs twice", async (t) => {
  const { output, code, temporary } = start(t, ["--fast"]);
  assert.equal(await code, 0, output());
  const text = output();
  assert.equal(text.match(/SIGKILL to client \d+$/gm)?.length, 3);
  assert.equal(text.match(/SIGKILL to server \d+$/gm)?.length, 3);
  assert.match(text, /^7 of 7: Everything at once$/m);
  assert.match(text, /is told that "slow" is unknown/);
  const verdicts = text.match(/^(?:ok|FAILED) +\w+/gm) ?? [];
  assert.deepEqual(
    verdicts.map((line) => line.replace(/ +/, " ")),
    [
      "events",
      "chunks",
      "screen",
      "answer",
      "steps",
      "execs",
      "order",
      "runs",
      "effects",
      "unknown",
      "edit",
      "end",
    ].map((name) => `ok ${name}`),
  );
  assert.match(text, /The proof holds: nothing lost, no tool ran twice\./);
  assert.match(text, /^\S.* serve\n$/m, "it ends with the next command to paste");
  assert.ok(!text.includes("\u001b"), "a pipe gets no colours");
  assert.deepEqual(demoDirectories(temporary), []);
});

test("B1, C1, D1: a demo of three nodes kills the one that runs the turn, and its proof reads the database", async (t) => {
  const postgres = await startPostgres();
  t.after(() => postgres.close());
  const store = await postgres.newDatabase();
  const inUse = await postgres.newDatabase();
  await (await openPostgresStore(inUse)).close();
  await assert.rejects(openSharedDatabase(inUse, {}), /has tables of Holdfast already/);
  const { output, code } = start(t, ["--fast", "--nodes", "3", "--store", store]);
  assert.equal(await code, 0, output());
  const text = output();
  assert.equal(text.match(/SIGKILL to node-\d, process \d+, which runs the turn$/gm)?.length, 3);
  assert.equal(text.match(/^ok /gm)?.length, 12);
  assert.match(text, /Of 3 nodes the one with the turn was killed 3 times/);
  const left = await asked(store, "SELECT nspname FROM pg_namespace WHERE nspname = 'holdfast'");
  assert.deepEqual(left, [], "its tables are removed");
});

test("a demo that is interrupted leaves no process and no directory behind", async (t) => {
  const { child, output, code, temporary } = start(t, []);
  while (!output().includes("begins a turn")) await once(child.stdout ?? child, "data");
  child.kill("SIGINT");
  assert.equal(await code, 130, output());
  const pids = [...output().matchAll(/process (\d+)/g)].map(([, pid]) => Number(pid));
  assert.equal(pids.length, 2);
  for (const pid of pids) assert.throws(() => process.kill(pid, 0), { code: "ESRCH" });
  assert.deepEqual(demoDirectories(temporary), []);
});

function demoDirectories(path: string): readonly string[] {
  return readdirSync(path).filter((name) => name.startsWith("holdfast-demo-"));
}

test("the log of the show keeps to a narrow screen, and the agent's words run on over it", () => {
  let shown = "";
  const screen = { isTTY: true, columns: 40, write: (text: string) => (shown += text) };
  const board = newBoard({ stdout: screen, env: { NO_COLOR: "1" }, now: () => 0 });
  board.piece("One two three four five ");
  board.piece("six seven eight nine ten eleven");
  board.say("network", "cut, in the middle of a rather long sentence that needs two lines");
  board.piece("twelve");
  printProof(prove(soundEvidence()), { server: 1, client: 2, network: 3 }, board);
  for (const line of shown.split("\n")) assert.ok(textWidth(line.trimEnd()) <= 40, line);
  assert.match(
    shown,
    /^0\.0s agent\n {2}One two three four five six seven\s+eight nine ten eleven\n0\.0s network\n/,
  );
  assert.match(shown, /The server was killed once, the client/);
});
