/**
 * Journals in tables: the suite of every journal store, damage, and processes that share a journal.
 */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { recordKey } from "../../src/client-node/journal-rows.ts";
import {
  type Owner,
  tableJournalStore,
  type TableJournalStore,
} from "../../src/client-node/table-journal-store.ts";
import { type TableStore } from "../../src/store/index.ts";
import { memoryTableStore } from "../store/memory-table-store.ts";
import { openSharedTables } from "../../src/store/sqlite/shared-tables.ts";
import { journalStoreConformance, type JournalStoreUnderTest } from "../conformance/journal-store.ts";

const bytes = (...values: number[]): Uint8Array => Uint8Array.from(values);
const now = (): number => Date.now();

async function changeRecord(tables: TableStore, idempotencyKey: string): Promise<void> {
  await tables.put(recordKey(idempotencyKey, 0), bytes(0, 0, 0, 0, 9));
}

function unopened(): never {
  throw new Error("a store is opened first");
}

const inMemory = (): JournalStoreUnderTest => {
  const tables = memoryTableStore({ now });
  return {
    store: tableJournalStore({ tables }),
    reopen: () => tableJournalStore({ tables }),
    settle: (promise) => promise,
    damage: (idempotencyKey) => changeRecord(tables, idempotencyKey),
  };
};

journalStoreConformance("the journal store over memory tables", inMemory, { damageable: true });

/** Each in a directory of its own, with a connection of its own after reopening, as after a restart. */
const inSqlite = async (): Promise<JournalStoreUnderTest> => {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-journals-"));
  const path = join(directory, "client.db");
  const opened = [await openSharedTables(path, { now })];
  return {
    store: tableJournalStore({ tables: opened[0] ?? unopened() }),
    async reopen() {
      await Promise.all(opened.map((tables) => tables.close()));
      const tables = await openSharedTables(path, { now });
      opened.push(tables);
      return tableJournalStore({ tables });
    },
    settle: (promise) => promise,
    damage: (idempotencyKey) => changeRecord(opened.at(-1) ?? unopened(), idempotencyKey),
    async close() {
      await Promise.all(opened.map((tables) => tables.close()));
      rmSync(directory, { recursive: true });
    },
  };
};

journalStoreConformance("the journal store over SQLite", inSqlite, { damageable: true });

/** Processes as rows see them: names, and which of them are alive. */
class Processes {
  readonly #alive = new Set<string>();

  start(id: string): Owner {
    this.#alive.add(id);
    return { id, isAlive: (other) => this.#alive.has(other), nameOf: (other) => `process ${other}` };
  }

  kill(id: string): void {
    this.#alive.delete(id);
  }
}

journalStoreConformance("the journal store of one process among several", () => {
  const tables = memoryTableStore({ now });
  const processes = new Processes();
  let started = 0;
  const open = (): TableJournalStore => {
    processes.kill(String(started));
    return tableJournalStore({ tables, owner: processes.start(String(++started)) });
  };
  return { store: open(), reopen: open, settle: (promise) => promise };
});

for (const [what, lost] of [
  ["a record in the middle", 1],
  ["the last record", 2],
] as const) {
  test(`C6: ${what} that is gone refuses the whole journal`, async () => {
    const tables = memoryTableStore({ now });
    const store = tableJournalStore({ tables });
    await store.append("k", [bytes(1), bytes(2), bytes(3)]);
    await tables.delete(recordKey("k", lost));
    await assert.rejects(store.read("k"), { code: "stream_failed" });
    assert.deepEqual(await store.list(), ["k"]);
  });
}

test("a record too many, as a lost head would leave it, refuses the journal", async () => {
  const tables = memoryTableStore({ now });
  const store = tableJournalStore({ tables });
  await store.append("k", [bytes(1)]);
  await tables.put(recordKey("k", 1), bytes(0));
  await assert.rejects(store.read("k"), { code: "stream_failed" });
});

test("a journal of thousands of records is replaced as one", async () => {
  const tables = memoryTableStore({ now });
  const store = tableJournalStore({ tables });
  const many = Array.from({ length: 5_000 }, (_, at) => bytes(at & 0xff, at >> 8));
  await store.append("k", many);
  assert.deepEqual(await store.read("k"), many);
  await store.replace("k", [bytes(7)]);
  assert.deepEqual(await store.read("k"), [bytes(7)]);
  assert.deepEqual(
    await tables.list("journal_records", "", { after: undefined, countMax: 10 }).then((rows) => rows.length),
    1,
  );
});

test("D1: a journal that another process has claimed is refused, and says who has it", async () => {
  const tables = memoryTableStore({ now });
  const processes = new Processes();
  const first = tableJournalStore({ tables, owner: processes.start("first") });
  const second = tableJournalStore({ tables, owner: processes.start("second") });
  assert.deepEqual(await first.claim("k"), { kind: "claimed" });
  await first.append("k", [bytes(1)]);
  assert.deepEqual(await second.claim("k"), { kind: "held", holder: "process first" });
  await assert.rejects(second.append("k", [bytes(2)]), { code: "fenced", message: /process first/ });
  await assert.rejects(second.remove("k"), { code: "fenced" });
  assert.deepEqual(await second.read("k"), [bytes(1)]);

  await first.release("k");
  assert.deepEqual(await second.claim("k"), { kind: "claimed" });
  await second.append("k", [bytes(2)]);
  assert.deepEqual(await first.read("k"), [bytes(1), bytes(2)]);
});

test("D1: the journal of a dead process is free, and what it says afterwards is refused", async () => {
  const tables = memoryTableStore({ now });
  const processes = new Processes();
  const first = tableJournalStore({ tables, owner: processes.start("first") });
  const second = tableJournalStore({ tables, owner: processes.start("second") });
  await first.claim("k");
  await first.append("k", [bytes(1)]);
  processes.kill("first");
  assert.deepEqual(await second.claim("k"), { kind: "claimed" });
  await assert.rejects(first.append("k", [bytes(9)]), { code: "fenced" });
  await second.append("k", [bytes(2)]);
  assert.deepEqual(await second.read("k"), [bytes(1), bytes(2)]);
});

test("D1: of two processes that begin a journal of the same name, one is fenced and has written nothing", async () => {
  const tables = memoryTableStore({ now });
  const processes = new Processes();
  const stores = ["first", "second"].map((id) => tableJournalStore({ tables, owner: processes.start(id) }));
  for (const store of stores) assert.deepEqual(await store.claim("k"), { kind: "claimed" });
  const ends = await Promise.allSettled(stores.map((store, at) => store.append("k", [bytes(at)])));
  assert.deepEqual(ends.map(({ status }) => status).toSorted(), ["fulfilled", "rejected"]);
  const winner = ends.findIndex(({ status }) => status === "fulfilled");
  assert.deepEqual(await stores[0]?.read("k"), [bytes(winner)]);
});

test("a name that is claimed and never written is no journal, and can be claimed again", async () => {
  const tables = memoryTableStore({ now });
  const processes = new Processes();
  const first = tableJournalStore({ tables, owner: processes.start("first") });
  const second = tableJournalStore({ tables, owner: processes.start("second") });
  await first.claim("k");
  await first.append("k", [bytes(1)]);
  await first.remove("k");
  await first.release("k");
  assert.deepEqual(await second.list(), []);
  assert.deepEqual(await second.claim("k"), { kind: "claimed" });
});

test("a journal of another server is not listed until it is claimed here", async () => {
  const tables = memoryTableStore({ now });
  const [here, there] = ["http://here", "http://there"].map((server) =>
    tableJournalStore({ tables, server }),
  );
  assert.ok(here !== undefined && there !== undefined);
  await there.append("k", [bytes(1)]);
  assert.deepEqual([await here.list(), await there.list()], [[], ["k"]]);
  assert.deepEqual(await here.listForeign(), [{ idempotencyKey: "k", server: "http://there" }]);
  assert.deepEqual(await tableJournalStore({ tables }).list(), ["k"]);
  await here.claim("k");
  await here.append("k", [bytes(2)]);
  await here.release("k");
  assert.deepEqual([await here.list(), await there.list()], [["k"], []]);
});

test("D1: of two processes that find a dead one's journal at the same moment, one has it and the other knows who", async () => {
  const tables = memoryTableStore({ now });
  const processes = new Processes();
  const dead = tableJournalStore({ tables, owner: processes.start("dead") });
  await dead.claim("s");
  await dead.append("s", [bytes(1)]);
  const [first, second] = ["one", "two"].map((id) =>
    tableJournalStore({ tables, owner: processes.start(id) }),
  );
  processes.kill("dead");
  const claims = await Promise.all([first?.claim("s"), second?.claim("s")]);
  assert.deepEqual(claims, [{ kind: "claimed" }, { kind: "held", holder: "process one" }]);
});
