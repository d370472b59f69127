/**
 * The benchmark itself runs: two rows in their smallest size, as a user starts them. Nothing is said about speed.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { isRecord } from "../bench/harness/numbers.ts";

const main = `${import.meta.dirname}/../bench/main.ts`;

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

test("a quick run prints a table, writes its numbers, and leaves nothing behind", async () => {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-bench-test-"));
  try {
    const json = join(directory, "bench.json");
    const { code, stdout, stderr } = await bench("--quick", "--only", "latency,reconnect", "--json", json);
    assert.equal(code, 0, stderr + stdout);
    assert.match(stdout, /emit to reader, p50/);
    assert.match(stdout, /to the first event, after a kill and a restart/);
    const report: unknown = JSON.parse(readFileSync(json, "utf8"));
    const rows = listIn(report, "rows");
    assert.equal(rows.length, 2);
    for (const line of rows.flatMap((row) => listIn(row, "lines"))) {
      assert.ok(isRecord(line) && isRecord(line["value"]));
      const { median } = line["value"];
      assert.ok(typeof median === "number" && median > 0, `${String(line["what"])} was measured`);
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});

test("a row that does not exist is refused with the names of those that do", async () => {
  const { code, stderr } = await bench("--only", "speed");
  assert.equal(code, 2);
  assert.match(stderr, /^there is no row speed\n/);
  assert.match(stderr, /--only NAMES .*: delivery, appends/);
});
