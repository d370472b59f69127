/** The memory stores are real implementations: they pass the same suites as those on a disk. */
import { HoldfastError } from "../../src/protocol/errors.ts";
import {
  MemoryLog,
  memoryBlobStore,
  memoryStreamStore,
  openLogStreamStore,
  sha256Hex,
} from "../../src/store/index.ts";
import { memoryTableStore } from "./memory-table-store.ts";
import assert from "node:assert/strict";
import { test } from "node:test";
import { blobStoreConformance } from "../conformance/blob-store.ts";
import { streamStoreConformance } from "../conformance/stream-store.ts";
import { tableStoreConformance } from "../conformance/table-store.ts";
import { ManualClock } from "./manual-clock.ts";

streamStoreConformance("the log store over a memory log", async () => {
  const clock = new ManualClock();
  const blobs = memoryBlobStore(clock);
  const log = new MemoryLog({ storeBlob: blobs.store });
  const store = await openLogStreamStore(log, clock);
  return {
    store,
    clock,
    blobs: () => blobs,
    appends: () => log.appendCount,
    reopen: () => openLogStreamStore(log.reopened(), clock),
  };
});

blobStoreConformance("the memory blob store", async () => {
  const clock = new ManualClock();
  let lie = false;
  const digest = (bytes: Uint8Array): string => (lie ? "0".repeat(64) : sha256Hex(bytes));
  const store = memoryBlobStore({ now: clock.now, digest });
  // Stored bytes cannot be reached from outside; a digest that no longer matches is the same to the store.
  return { store, clock, damage: () => void (lie = true) };
});

tableStoreConformance("the memory table store", async () => {
  const clock = new ManualClock();
  return { store: memoryTableStore(clock), clock };
});

test("D5: a memory stream store says that nothing survives", async () => {
  const store = await memoryStreamStore({ now: Date.now });
  assert.equal(store.durability, "none");
  await store.close();
  await assert.rejects(store.load({ principal: "p", idempotencyKey: "k" }), HoldfastError);
  assert.equal(new MemoryLog({ durability: "fsync" }).durability, "fsync");
});
