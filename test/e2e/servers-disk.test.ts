/**
 * A client whose journals lie on the server's own disk: a chunk leaves when its record has been handed over. It rests on one thing,
 * that the disk makes writes durable in the order in which it was given them; what reaches beyond the stream's two logs waits
 * for the sync as ever.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import {
  Client,
  type ClientStream,
  type JournalStore,
  memoryJournalStore,
  type Tools,
} from "../../src/client/index.ts";
import { tableJournalStore } from "../../src/client-node/table-journal-store.ts";
import { nodeSealing } from "../../src/sealing/node.ts";
import { type Application, createServer } from "../../src/server/index.ts";
import { DATABASE_FILE, openLogStreamStore } from "../../src/store/index.ts";
import { lockPathOf } from "../../src/store/sqlite/database.ts";
import { sqliteLog } from "../../src/store/sqlite/sqlite-log.ts";
import { sqliteTables } from "../../src/store/sqlite/sqlite-tables.ts";
import { startThread } from "../../src/store/sqlite/thread.ts";
import { memoryTransport } from "../../src/transport/index.ts";
import { newFolder } from "../store/sqlite-fixtures.ts";
import { execRequest } from "./exec-messages.ts";
import { bytes, HOME_KEY, PRINCIPAL, Rig, text, turn, until } from "./rig.ts";

/** Says every chunk back. */
const echo: Application = async (stream) => {
  for await (const input of stream.inputs) {
    if (input.kind === "chunk") await stream.emit(input.body);
    if (input.kind === "close") return;
  }
};

async function nextWord(stream: ClientStream): Promise<string> {
  const next = await stream.events.next();
  return next.done === true ? "" : text(next.value.body);
}

/** A disk that is given everything at once, and syncs when the test says so. */
class HeldDisk implements JournalStore {
  readonly #kept = memoryJournalStore();
  readonly list = this.#kept.list.bind(this.#kept);
  readonly read = this.#kept.read.bind(this.#kept);
  readonly replace = this.#kept.replace.bind(this.#kept);
  readonly remove = this.#kept.remove.bind(this.#kept);
  readonly #held = Promise.withResolvers<void>();
  #synced: Promise<void> = Promise.resolve();
  #holdsAt = 0;
  writes = 0;

  async append(name: string, records: readonly Uint8Array[]): Promise<void> {
    if (++this.writes === this.#holdsAt) this.#synced = this.#held.promise;
    await this.#synced;
    await this.#kept.append(name, records);
  }

  readonly handOver = (name: string, records: readonly Uint8Array[]) => {
    return { handedOver: Promise.resolve(), synced: this.append(name, records) };
  };

  /** From that write on nothing is synced, until the test has decided. */
  holdAt(write: number): PromiseWithResolvers<void> {
    this.#holdsAt = write;
    return this.#held;
  }

  /** From now on nothing is synced, until the test has decided. */
  hold(): PromiseWithResolvers<void> {
    const held = Promise.withResolvers<void>();
    this.#synced = held.promise;
    return held;
  }
}

test("A5: on the server's disk a chunk leaves once its record is handed over, and a failed sync ends the stream", async (t) => {
  const rig = await Rig.start(t, echo);
  const disk = new HeldDisk();
  const stream = await rig.client({ journals: disk }).open({ first: bytes("one") });
  await stream.events.next();
  const held = disk.hold();
  assert.equal(await stream.send(bytes("two")), 1);
  assert.equal(await nextWord(stream), "two");
  // What comes behind waits: nothing may follow a record that can still be lost.
  const later = stream.send(bytes("three"));
  await turn();
  assert.equal(stream.status.unacknowledged, 1);
  held.reject(new Error("the disk went away"));
  await assert.rejects(later, { code: "stream_ended" });
  assert.equal(stream.status.failure?.code, "unavailable");
  await assert.rejects(stream.send(bytes("four")), { code: "stream_ended" });
});

test("C2, D3: on the server's disk a tool starts, and a wish to stop is safe, only after the sync", async (t) => {
  const { rig, tools, runs } = await askedForATool(t);
  const disk = new HeldDisk();
  const held = disk.hold();
  const stream = await rig.client({ journals: disk, tools }).open({ first: bytes("go") });
  await stream.events.next();
  for (let turns = 0; turns < 20; turns++) await turn();
  const runsBefore = runs();
  held.resolve();
  assert.equal(runsBefore, 0);
  await until(() => runs() === 1, "the tool starts");
  const heldAgain = disk.hold();
  let isSafe = false;
  const safe = stream.abort().then(() => (isSafe = true));
  for (let turns = 0; turns < 20; turns++) await turn();
  const wasSafe = isSafe;
  heldAgain.resolve();
  assert.equal(wasSafe, false);
  await safe;
});

test("C2: on the server's disk a tool does not run while the sync of its start alone is missing", async (t) => {
  const { rig, tools, runs } = await askedForATool(t);
  const disk = new HeldDisk();
  // The opening with the first chunk, then `received`, then `started`.
  const held = disk.holdAt(3);
  const stream = await rig.client({ journals: disk, tools }).open({ first: bytes("go") });
  await stream.events.next();
  await until(() => disk.writes === 3, "the start is written");
  for (let turns = 0; turns < 20; turns++) await turn();
  const runsBefore = runs();
  held.resolve();
  assert.equal(runsBefore, 0);
  await until(() => runs() === 1, "the tool starts");
});

/** A server and a client of it on one database; what the client may know of the disk is what a gateway may. */
async function startOn(t: TestContext, folder: string) {
  const path = join(folder, DATABASE_FILE);
  const thread = await startThread({ path, lockPath: lockPathOf(path), mode: "own" });
  const store = await openLogStreamStore(sqliteLog(thread), { now: Date.now });
  const application: Application = async (stream) => {
    let told = 0;
    for await (const _ of stream.past()) told++;
    for await (const input of stream.inputs)
      if (input.kind === "chunk" && told-- <= 0) await stream.emit(input.body);
  };
  const sealing = nodeSealing();
  const server = createServer({ store, sealing, application });
  const { connect } = memoryTransport(server.accept, { principalOf: () => PRINCIPAL });
  const tables = sqliteTables(thread, Date.now);
  const journals = tableJournalStore({ tables, isOnServersDisk: true });
  const client = new Client({ connect, sealing, homeKey: HOME_KEY, journals });
  const stop = async (): Promise<void> => {
    await client.close();
    await server.shutdown();
    await thread.close();
  };
  t.after(stop);
  return { thread, client, stop };
}

for (const moment of ["ahead of", "behind"] as const) {
  test(`A5, F5: a database that fails ${moment} a record that was handed over has no chunk without its record`, async (t) => {
    const folder = newFolder();
    const first = await startOn(t, folder);
    const stream = await first.client.open({ first: bytes("one") });
    await stream.events.next();
    await until(() => stream.status.unacknowledged === 0, "the first is acknowledged");
    // No disk can hold one part twice: the transaction fails, and with it everything that is asked afterwards.
    const part = { upload: 7, part: 0, bytes: bytes("x") };
    const poison = () => [first.thread.call("putPart", part), first.thread.call("putPart", part)];
    const before = moment === "ahead of" ? poison() : [];
    const said = await Promise.allSettled([stream.send(bytes("two"))]);
    const after = moment === "behind" ? poison() : [];
    await Promise.allSettled([...before, ...after, stream.ended, stream.send(bytes("never"))]);
    if (moment === "behind") assert.equal(said[0].status, "fulfilled");
    await first.stop();

    const again = await startOn(t, folder);
    const resumed = await again.client.resume(stream.idempotencyKey);
    const next = await resumed.send(bytes("three"));
    const words = ["one", "two", "three"].filter((word) => word !== "two" || next === 2);
    for (const word of words) assert.equal(await nextWord(resumed), word);
  });
}

/** An application that asks for a tool at each chunk, and tools that never end. `runs` tells how often one has started. */
async function askedForATool(t: TestContext): Promise<{ rig: Rig; tools: Tools; runs: () => number }> {
  const rig = await Rig.start(t, async (stream) => {
    for await (const input of stream.inputs) {
      if (input.kind === "chunk") await stream.emit(execRequest);
      if (input.kind === "close") return;
    }
  });
  let runs = 0;
  const tools: Tools = {
    policy: () => ({ repeatable: false, needsApproval: false }),
    approve: async () => ({ allowed: true, untilMs: 0 }),
    run: () => new Promise(() => runs++),
    stopLeftover: () => undefined,
  };
  return { rig, tools, runs: () => runs };
}
