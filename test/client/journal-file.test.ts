/**
 * A journal gives each record what it needs, and decides nothing by itself.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { journalFile } from "../../src/client/journal-file.ts";
import type { JournalStore } from "../../src/client/journal-store.ts";
import { newJournal } from "../../src/client/new-journal.ts";
import { systemEnvironment } from "../../src/transport/environment.ts";
import { memoryJournalStore } from "../../src/client/memory-journal-store.ts";
import type { JournalRecord } from "../../src/core/journal.ts";
import type { RecordNeed } from "../../src/core/record-needs.ts";
import { nodeSealing } from "../../src/sealing/node.ts";

const OPENED = newJournal(systemEnvironment(), false);
const RECORD: JournalRecord = { kind: "acked", nextSeqno: 1 };

/** A disk whose syncs the test holds. */
function heldDisk() {
  const kept = memoryJournalStore();
  let held = Promise.withResolvers<void>();
  const appends: number[] = [];
  const append = async (name: string, records: readonly Uint8Array[]): Promise<void> => {
    appends.push(records.length);
    await held.promise;
    await kept.append(name, records);
  };
  const store: JournalStore = { ...kept, append };
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

async function open() {
  const disk = heldDisk();
  const counts = { written: 0, failed: 0 };
  const file = journalFile(
    disk.store,
    nodeSealing().homeSealer(new Uint8Array(32)),
    "s",
    { journal: OPENED, length: 1 },
    {
      written: (count) => (counts.written += count),
      failed: () => counts.failed++,
      recordsMax: 1_000,
    },
  );
  file.release();
  await settle();
  const append = async (...needs: readonly RecordNeed[]): Promise<number> => {
    for (const need of needs) file.append(RECORD, need);
    await settle();
    return counts.written;
  };
  return { ...disk, file, counts, append };
}

test("A5, C2: a record that needs a sync counts only then, and so do those that share its append", async () => {
  for (const needs of [["sync"], ["sync", "sync"], ["nothing", "sync"]] as const) {
    const { append, sync, counts } = await open();
    assert.equal(await append(...needs), 0);
    await sync();
    assert.equal(counts.written, needs.length);
  }
});

test("A6: a record that needs nothing waits for others, and is written with them or when it is time", async () => {
  const { append, sync, file, counts, appends } = await open();
  await append("nothing", "nothing");
  assert.deepEqual(appends, []);
  await append("sync");
  assert.deepEqual(appends, [3]);
  await sync();
  await append("nothing");
  file.flush();
  await settle();
  assert.deepEqual(appends, [3, 1]);
  await sync();
  assert.equal(counts.written, 4);
});
