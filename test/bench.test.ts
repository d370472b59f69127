/**
 * `npm run bench` itself runs, with the options of bench/README.md: `npm run bench -- --quick`, `npm run bench -- --only delivery,latency`,
 * `npm run bench -- --rounds 3 --json result.json`. Some rows, in their smallest size. Nothing is said about speed.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { isRecord } from "../bench/harness/numbers.ts";

const main = `${import.meta.dirname}/../bench/main.ts`;

/** Lines that subtract one measurement from another: in a run so small it may come out as anything. */
const DIFFERENCES = /, added: |resident memory|live memory|disk, /;

interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A run that its test no longer waits for is ended: what it starts would stand in the way of every test behind it. */
function bench({ signal }: TestContext, ...args: string[]): Promise<Ran> {
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [main, ...args], { signal }, (_error, stdout, stderr) => {
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
async function quickRun(t: TestContext, ...names: string[]): Promise<string> {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-bench-test-"));
  try {
    const json = join(directory, "bench.json");
    const { code, stdout, stderr } = await bench(t, "--quick", "--only", names.join(","), "--json", json);
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

/** Each run in a test of its own, so that one that does not end has a name; and what it must have printed beside its numbers. */
const RUNS: readonly (readonly [rows: readonly string[], printed: readonly RegExp[]])[] = [
  [["latency"], [/emit to reader, p50/]],
  [["reconnect"], [/to the first event, after a kill and a restart/]],
  [["first-token", "line"], [/to the first token, p50: Holdfast .* AI SDK/]],
  [["behind"], [/to the first missing word: after a kill, 1,999 words late/]],
  [["tool-turn"], [/21 model calls/]],
  [["conversation"], [/after 500 turns: sent from the checkpoint, server restarted/]],
  [["gateway"], [/to the first token, p50, added: Holdfast .* Portkey/]],
  [["gateway-continue"], [/1000 messages: the turn goes on/]],
  [["gateway-parked"], [/the second half, all went on/]],
  [["gateway-database"], [/a small answer: messages to the database's thread/]],
  [["gateway-over", "gateway-doors"], [/live memory .* bytes\/answer/]],
];

for (const [rows, printed] of RUNS) {
  test(`a quick run of ${rows.join(" and ")} prints a table, writes its numbers, and leaves nothing behind`, async (t) => {
    const stdout = await quickRun(t, ...rows);
    for (const pattern of printed) assert.match(stdout, pattern);
  });
}

test("--rounds says how often each row is measured, and the JSON says machine and commit", async (t) => {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-bench-test-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  const json = join(directory, "result.json");
  const { code, stderr } = await bench(t, "--quick", "--only", "appends", "--rounds", "2", "--json", json);
  assert.equal(code, 0, stderr);
  const report: unknown = JSON.parse(readFileSync(json, "utf8"));
  assert.ok(isRecord(report) && isRecord(report["machine"]));
  assert.equal(report["rounds"], 2);
  assert.match(String(report["machine"]["commit"]), /^[0-9a-f]{7,}/);
});

test("a row that does not exist is refused with the names of those that do", async (t) => {
  const { code, stderr } = await bench(t, "--only", "speed");
  assert.equal(code, 2);
  assert.match(stderr, /^there is no row speed\n/);
  assert.match(stderr, /--only NAMES .*: delivery, appends/);
});
