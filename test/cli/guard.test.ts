/** The parent of a server that is the first process of a container. */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { endsEverything, guard, pauseMsBefore } from "../../src/cli/guard.ts";
import { temporaryDirectory } from "../client-node/temporary.ts";

interface Guarded {
  readonly code: Promise<number>;
  readonly notes: readonly string[];
  /** How often it was started. */
  readonly starts: () => number;
}

/** A program that counts its starts in a file; `then` is what it does, with `starts` and `kill` at hand. */
function guarded(t: TestContext, then: string): Guarded {
  const file = join(temporaryDirectory(t), "starts");
  const program = `
    const { appendFileSync, readFileSync } = require("node:fs");
    appendFileSync(${JSON.stringify(file)}, ".");
    const starts = readFileSync(${JSON.stringify(file)}).length;
    const kill = () => process.kill(process.pid, "SIGKILL");
    ${then}`;
  const notes: string[] = [];
  const args = ["-e", program];
  const note = (text: string): void => void notes.push(text);
  const code = guard({ command: process.execPath, args, note, now: Date.now });
  return { code, notes, starts: () => (existsSync(file) ? readFileSync(file).length : 0) };
}

test("a server that a signal killed is started again; one that ends by itself is not, and its code is passed on", async (t) => {
  const { code, notes, starts } = guarded(t, "if (starts < 3) kill(); else process.exit(7);");
  assert.equal(await code, 7);
  assert.equal(starts(), 3);
  assert.deepEqual(
    notes.map((note) => /SIGKILL.*started again/.test(note)),
    [true, true],
  );
});

test("a signal is passed on, and what it kills is not started again", async (t) => {
  const { code, starts } = guarded(t, "setTimeout(() => undefined, 60_000);");
  while (starts() === 0) await sleep(10);
  process.kill(process.pid, "SIGTERM");
  assert.equal(await code, 143);
  assert.equal(starts(), 1);
});

test("it waits longer from kill to kill, and gives up at the sixth within a minute", () => {
  const starts = [0, 1_000, 2_000, 3_000, 4_000, 5_000];
  assert.deepEqual(
    starts.map((at, count) => pauseMsBefore(starts.slice(0, count + 1), at)),
    [250, 500, 1_000, 2_000, 4_000, undefined],
  );
  assert.equal(pauseMsBefore(starts, 64_500), 250);
});

test("process 1, and the main process of a systemd service, have nothing that outlives them; what they start may be guarded", () => {
  const [INVOCATION_ID, pid] = ["b0a1", 4_711];
  const service = { INVOCATION_ID, SYSTEMD_EXEC_PID: String(pid) };
  assert.ok(endsEverything({ pid: 1, ppid: 0, env: {} }));
  assert.ok(endsEverything({ pid, ppid: 1, env: service }));
  // The manager of a user's services is not process 1.
  assert.ok(endsEverything({ pid, ppid: 900, env: service }));
  assert.ok(endsEverything({ pid, ppid: 1, env: { INVOCATION_ID } }));
  // The guarded server itself, a server that a service starts, and one in a terminal: terminals may be services, too.
  assert.ok(!endsEverything({ pid: pid + 1, ppid: pid, env: service }));
  assert.ok(!endsEverything({ pid: pid + 1, ppid: 1, env: service }));
  assert.ok(!endsEverything({ pid, ppid: 900, env: { INVOCATION_ID } }));
  assert.ok(!endsEverything({ pid, ppid: 1, env: {} }));
});
