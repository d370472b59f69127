/**
 * What reaches beyond the stream's two logs waits for the sync of the client's journal: a tool, and the promise of a stop.
 */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { type JournalStore, memoryJournalStore, type Tools } from "../../src/client/index.ts";
import { execRequest } from "./exec-messages.ts";
import { bytes, Rig, turn, until } from "./rig.ts";

/** A disk that syncs when the test says so. */
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

const someTurns = async (): Promise<void> => {
  for (let turns = 0; turns < 20; turns++) await turn();
};

test("C2: a tool does not run while the sync of its start alone is missing", async (t) => {
  const { rig, tools, runs } = await askedForATool(t);
  const disk = new HeldDisk();
  // The opening with the first chunk, then that the server has welcomed us and asked for a tool, then `started`.
  const held = disk.holdAt(3);
  const stream = await rig.client({ journals: disk, tools }).open({ first: bytes("go") });
  await stream.events.next();
  await until(() => disk.writes === 3, "the start is written");
  await someTurns();
  const runsBefore = runs();
  held.resolve();
  assert.equal(runsBefore, 0);
  await until(() => runs() === 1, "the tool starts");
});

test("D3: a wish to stop is safe only after the sync", async (t) => {
  const { rig, tools } = await askedForATool(t);
  const disk = new HeldDisk();
  const stream = await rig.client({ journals: disk, tools }).open({ first: bytes("go") });
  await stream.events.next();
  await someTurns();
  const held = disk.hold();
  let isSafe = false;
  const safe = stream.abort().then(() => (isSafe = true));
  await someTurns();
  const wasSafe = isSafe;
  held.resolve();
  assert.equal(wasSafe, false);
  await safe;
});

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
