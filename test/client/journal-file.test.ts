/**
 * A journal gives each record what it needs, and decides nothing by itself.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { journalFile } from "../../src/client/journal-file.ts";
import type { JournalStore } from "../../src/client/journal-store.ts";
import { memoryJournalStore } from "../../src/client/memory-journal-store.ts";
import type { JournalRecord } from "../../src/core/journal.ts";
import type { RecordNeed } from "../../src/core/record-needs.ts";
import { nodeSealing } from "../../src/sealing/node.ts";

const RECORD: JournalRecord = { kind: "acked", nextSeqno: 1 };

/** A disk whose syncs the test holds. `isOrdered`: it may count a record before its sync. */
function heldDisk(isOrdered: boolean) {
  const kept = memoryJournalStore();
  let held = Promise.withResolvers<void>();
  const appends: number[] = [];
  const append = async (name: string, records: readonly Uint8Array[]): Promise<void> => {
    appends.push(records.length);
    await held.promise;
    await kept.append(name, records);
  };
  const handOver: JournalStore["handOver"] = (name, records) => {
    return { handedOver: Promise.resolve(), synced: append(name, records) };
  };
  const store: JournalStore = { ...kept, append, ...(isOrdered ? { handOver } : {}) };
  const sync = async (): Promise<void> => {
    held.resolve();
    held = Promise.withResolvers();
    await settle();
  };
  return { store, sync, appends };
}

const settle = async (): Promise<void> => {
  for (let turns = 0; turns < 10; turns++) await new Promise((resolve) => setImmediate(resolve));
};

async function open(isOrdered: boolean) {
  const disk = heldDisk(isOrdered);
  const counts = { written: 0, failed: 0 };
  const file = journalFile(disk.store, nodeSealing().homeSealer(new Uint8Array(32)), "s", 0, {
    written: (count) => (counts.written += count),
    failed: () => counts.failed++,
    recordsMax: 1_000,
  });
  file.release();
  await settle();
  const append = async (...needs: readonly RecordNeed[]): Promise<number> => {
    for (const need of needs) file.append(RECORD, need);
    await settle();
    return counts.written;
  };
  return { ...disk, file, counts, append };
}

test("A5: where another log has no order with the journal, a record that needs order counts when it is synced", async () => {
  const { append, sync, counts } = await open(false);
  assert.equal(await append("order"), 0);
  await sync();
  assert.equal(counts.written, 1);
});

test("A5: on the server's disk a record that needs order counts once it is handed over", async () => {
  const { append, sync, counts } = await open(true);
  assert.equal(await append("order"), 1);
  assert.equal(await append("order"), 1, "one write at a time: the next one waits for this sync");
  await sync();
  assert.equal(counts.written, 2);
});

test("C2: a record that needs a sync counts only then, on the server's disk too, and so do those that share its append", async () => {
  for (const isOrdered of [true, false]) {
    for (const needs of [["sync"], ["order", "sync"], ["nothing", "sync"]] as const) {
      const { append, sync, counts } = await open(isOrdered);
      assert.equal(await append(...needs), 0);
      await sync();
      assert.equal(counts.written, needs.length);
    }
  }
});

test("A6: a record that needs nothing waits for others, and is written with them or when it is time", async () => {
  const { append, sync, file, counts, appends } = await open(false);
  await append("nothing", "nothing");
  assert.deepEqual(appends, []);
  await append("order");
  assert.deepEqual(appends, [3]);
  await sync();
  await append("nothing");
  file.flush();
  await settle();
  assert.deepEqual(appends, [3, 1]);
  await sync();
  assert.equal(counts.written, 4);
});
