/**
 * `npm run bench` itself runs: some rows in their smallest size, as a user starts them. Nothing is said about speed.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { isRecord } from "../bench/harness/numbers.ts";

const main = `${import.meta.dirname}/../bench/main.ts`;

/** Lines that subtract one measurement from another: in a run so small it may come out as anything. */
const DIFFERENCES = /, added: |resident memory|live memory|disk, /;

interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function bench(...args: string[]): Promise<Ran> {
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [main, ...args], (_error, stdout, stderr) => {
      resolve({ code: child.exitCode ?? -1, stdout, stderr });
    });
  });
}

function listIn(value: unknown, name: string): readonly unknown[] {
  const list: unknown = isRecord(value) ? value[name] : undefined;
  assert.ok(Array.isArray(list), `${name} is a list`);
  return list;
}

/** What a quick run of these rows prints, each of its lines measured. */
async function quickRun(...names: string[]): Promise<string> {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-bench-test-"));
  try {
    const json = join(directory, "bench.json");
    const { code, stdout, stderr } = await bench("--quick", "--only", names.join(","), "--json", json);
    assert.equal(code, 0, stderr + stdout);
    const report: unknown = JSON.parse(readFileSync(json, "utf8"));
    const rows = listIn(report, "rows");
    assert.equal(rows.length, names.length);
    for (const line of rows.flatMap((row) => listIn(row, "lines"))) {
      assert.ok(isRecord(line) && isRecord(line["value"]));
      const { median } = line["value"];
      const what = String(line["what"]);
      assert.ok(Number.isFinite(median), `${what} is a number`);
      assert.ok(Number(median) > 0 || DIFFERENCES.test(what), `${what} was measured`);
    }
    return stdout;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

test("a quick run prints a table, writes its numbers, and leaves nothing behind", async () => {
  const stdout = await quickRun("latency", "reconnect");
  assert.match(stdout, /emit to reader, p50/);
  assert.match(stdout, /to the first event, after a kill and a restart/);
});

test("the agent's rows run: every turn ends well, and a tool runs as often as it was called", async () => {
  const stdout = await quickRun("first-token", "line", "behind", "tool-turn", "conversation");
  assert.match(stdout, /to the first token, p50: Holdfast .* AI SDK/);
  assert.match(stdout, /to the first missing word: after a kill, 1,999 words late/);
  assert.match(stdout, /21 model calls/);
  assert.match(stdout, /after 500 turns: sent from the checkpoint, server restarted/);
});

test("the gateway's rows run: Portkey's answers, tool results go on where they should, all that waited are answered, what a killed gateway answered is kept", async () => {
  const stdout = await quickRun(
    "gateway",
    "gateway-continue",
    "gateway-parked",
    "gateway-database",
    "gateway-over",
    "gateway-doors",
  );
  assert.match(stdout, /to the first token, p50, added: Holdfast .* Portkey/);
  assert.match(stdout, /1000 messages: the turn goes on/);
  assert.match(stdout, /the second half, all went on/);
  assert.match(stdout, /a small answer: messages to the database's thread/);
  assert.match(stdout, /live memory .* bytes\/answer/);
});

test("a row that does not exist is refused with the names of those that do", async () => {
  const { code, stderr } = await bench("--only", "speed");
  assert.equal(code, 2);
  assert.match(stderr, /^there is no row speed\n/);
  assert.match(stderr, /--only NAMES .*: delivery, appends/);
});
