/**
 * Conversations and blobs of a Node client: in SQLite, sealed, shared by processes, with an opened client.
 */
import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { tableBlobStore } from "../../src/client-node/blobs.ts";
import { tableConversationStore } from "../../src/client-node/conversations.ts";
import { openClient } from "../../src/client-node/index.ts";
import { blobIdOf } from "../../src/client/index.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { openSharedTables } from "../../src/store/sqlite/shared-tables.ts";
import { type TableStore } from "../../src/store/index.ts";
import { memoryTableStore } from "../store/memory-table-store.ts";
import { clientStoresConformance, type TestClock } from "../conformance/client-stores.ts";
import { temporaryDirectory } from "./temporary.ts";

const HOME_KEY = new Uint8Array(32).fill(5);

const storesOver = (tables: TableStore, clock: TestClock) => {
  const sealer = nodeSealing().homeSealer(HOME_KEY);
  return {
    blobs: tableBlobStore({ tables, sealer, now: () => clock.nowMs }),
    records: tableConversationStore(tables, sealer),
  };
};

clientStoresConformance(
  "SQLite",
  async (clock) => {
    const directory = mkdtempSync(join(tmpdir(), "holdfast-stores-"));
    const path = join(directory, "client.db");
    const open = () => openSharedTables(path, { now: Date.now });
    let tables = await open();
    return {
      ...storesOver(tables, clock),
      async reopen() {
        await tables.close();
        tables = await open();
        return storesOver(tables, clock);
      },
      async damage(id) {
        const at = { table: "client_blob_parts", key: `${id}/0000` };
        const row = await tables.get(at);
        assert.ok(row !== undefined);
        await tables.put(
          at,
          row.value.map((byte, place) => (place === row.value.length - 1 ? byte ^ 1 : byte)),
        );
      },
      async close() {
        await tables.close();
        rmSync(directory, { recursive: true });
      },
    };
  },
  { damageable: true },
);

test("a blob of which a part is gone is damaged, not shorter", async (t) => {
  const path = join(temporaryDirectory(t), "client.db");
  const tables = await openSharedTables(path, { now: Date.now });
  t.after(() => tables.close());
  const { blobs } = storesOver(tables, { nowMs: 1 });
  const large = new Uint8Array(1_200_000).fill(3);
  await blobs.put(blobIdOf(large), large);
  await tables.delete({ table: "client_blob_parts", key: `${blobIdOf(large)}/0001` });
  await assert.rejects(blobs.get(blobIdOf(large)), { code: "stream_failed" });
});

test("blobs put at once are one write; one on its way to the disk can be read", async () => {
  const tables = memoryTableStore({ now: () => 1 });
  const { blobs } = storesOver(tables, { nowMs: 1 });
  const all = [1, 2, 3, 1].map((value) => Uint8Array.of(value));
  const writing = Promise.all(all.map((bytes) => blobs.put(blobIdOf(bytes), bytes)));
  assert.deepEqual(await blobs.get(blobIdOf(Uint8Array.of(2))), Uint8Array.of(2));
  await writing;
  const rows = await tables.list("client_blobs", "", { after: undefined, countMax: 10 });
  assert.deepEqual(new Set(rows.map(({ version }) => version)).size, 1, "one batch");
  assert.equal(rows.length, 3);
});

test("F5: when the write that blobs share fails, each put fails, and none of them can be read", async () => {
  const tables = memoryTableStore({ now: () => 1 });
  const { blobs } = storesOver(tables, { nowMs: 1 });
  await tables.close();
  const all = [1, 2].map((value) => Uint8Array.of(value));
  const puts = await Promise.allSettled(all.map((bytes) => blobs.put(blobIdOf(bytes), bytes)));
  assert.deepEqual(
    puts.map(({ status }) => status),
    ["rejected", "rejected"],
  );
  await assert.rejects(blobs.get(blobIdOf(Uint8Array.of(1))), { code: "unavailable" });
});

test("a blob that was put lately is not written again, until it is old, gone or damaged", async () => {
  const clock = { nowMs: 1 };
  const tables = memoryTableStore({ now: () => clock.nowMs });
  const sealer = nodeSealing().homeSealer(HOME_KEY);
  const blobs = tableBlobStore({ tables, sealer, now: () => clock.nowMs, rememberMs: 100 });
  const bytes = Uint8Array.of(7);
  const id = blobIdOf(bytes);
  const storedMs = async (): Promise<number | undefined> => {
    for await (const blob of blobs.list()) return blob.storedMs;
    return undefined;
  };
  await blobs.put(id, bytes);
  clock.nowMs = 50;
  await blobs.put(id, bytes);
  assert.equal(await storedMs(), 1);
  clock.nowMs = 101;
  await blobs.put(id, bytes);
  assert.equal(await storedMs(), 101);
  assert.equal(await blobs.delete(id), true);
  await blobs.put(id, bytes);
  assert.deepEqual(await blobs.get(id), bytes);
  await tables.delete({ table: "client_blob_parts", key: `${id}/0000` });
  await assert.rejects(blobs.get(id), { code: "stream_failed" });
  await blobs.put(id, bytes);
  assert.deepEqual(await blobs.get(id), bytes);
  await tables.delete({ table: "client_blobs", key: id });
  assert.equal(await blobs.get(id), undefined, "somebody else has deleted it");
  await blobs.put(id, bytes);
  assert.deepEqual(await blobs.get(id), bytes);
  await assert.rejects(blobs.put(id, Uint8Array.of(8)), { code: "invalid_frame" });
});

test("D1: of two processes that begin a turn in the same conversation one is refused", async (t) => {
  const path = join(temporaryDirectory(t), "client.db");
  const opened = await Promise.all([1, 2].map(() => openSharedTables(path, { now: Date.now })));
  t.after(() => Promise.all(opened.map((tables) => tables.close())));
  const [one, two] = opened.map((tables) => storesOver(tables, { nowMs: 1 }).records);
  assert.ok(one !== undefined && two !== undefined);
  const begun = { conversationId: "c", title: "", model: "", createdMs: 0, updatedMs: 0, version: 0 };
  const seen = await one.put(begun);
  const both = await Promise.allSettled([one.put({ ...seen, title: "1" }), two.put({ ...seen, title: "2" })]);
  assert.deepEqual(both.map(({ status }) => status).toSorted(), ["fulfilled", "rejected"]);
});

test("E4: an opened client has stores that survive it, and nothing in them is readable on the disk", async (t) => {
  const directory = temporaryDirectory(t);
  const open = () =>
    openClient({
      scope: "application",
      directory,
      homeKey: HOME_KEY,
      connect: () => ({ write: () => 0, end: () => undefined }),
    });
  const secret = new TextEncoder().encode("canary in a blob");
  const first = await open();
  await first.stores.blobs.put(blobIdOf(secret), secret);
  await first.stores.records.put({
    conversationId: "c",
    title: "canary in a title",
    model: "",
    createdMs: 0,
    updatedMs: 0,
    version: 0,
    checkpoint: new TextEncoder().encode("canary in a checkpoint"),
  });
  await first.close();
  const second = await open();
  t.after(() => second.close());
  assert.deepEqual(await second.stores.blobs.get(blobIdOf(secret)), secret);
  assert.equal((await second.stores.records.get("c"))?.title, "canary in a title");
  const files = readdirSync(directory, { recursive: true, withFileTypes: true }).filter((file) =>
    file.isFile(),
  );
  assert.ok(files.length > 0);
  for (const { parentPath, name } of files) {
    assert.ok(!readFileSync(join(parentPath, name)).includes("canary"), `${name} is sealed`);
  }
});

test("without persistence the stores live in memory", async () => {
  const client = await openClient({
    persistence: false,
    connect: () => ({ write: () => 0, end: () => undefined }),
  });
  const bytes = Uint8Array.of(1);
  await client.stores.blobs.put(blobIdOf(bytes), bytes);
  assert.deepEqual(await client.stores.blobs.get(blobIdOf(bytes)), bytes);
  await client.close();
});
