/** Rows in memory: read once for all who ask, whenever they ask, and counted once. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryLog } from "../../src/store/index.ts";
import { rowReader } from "../../src/store/row-reader.ts";

/** A log that counts what is read. */
class CountingLog extends MemoryLog {
  reads = 0;

  override readBody(row: number): Promise<Uint8Array> {
    this.reads += 1;
    return super.readBody(row);
  }
}

test("whoever asks for a row while it is being read, or at any moment after, does not read it again", async () => {
  for (let turns = 0; turns < 20; turns++) {
    const log = new CountingLog();
    const row = await log.append(Uint8Array.of(1), new Uint8Array(100));
    const rows = rowReader(log, 1_000);
    const first = rows.bodyOf(row);
    for (let turn = 0; turn < turns; turn++) await Promise.resolve();
    await Promise.all([first, rows.bodyOf(row)]);
    assert.equal(log.reads, 1, `asked again after ${turns} turns`);
  }
});
