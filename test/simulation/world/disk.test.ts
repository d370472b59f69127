import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { DISK_KINDS, type SimCommitLog, SimDisk, SimProcess, World } from "./index.ts";

interface Machine {
  readonly world: World;
  readonly disk: SimDisk;
  readonly process: SimProcess;
  readonly log: SimCommitLog;
}

function machine(seed = 1): Machine {
  const world = new World(seed);
  const disk = new SimDisk(world, "disk");
  const process = new SimProcess(world, "server");
  return { world, disk, process, log: disk.openCommitLog(process) };
}

async function settle<T>(world: World, promise: Promise<T>): Promise<T> {
  promise.catch(() => {});
  await world.run();
  return promise;
}

async function scanAll(log: SimCommitLog): Promise<string[]> {
  const rows: string[] = [];
  for await (const { row, record } of log.scan()) rows.push(`${row}:${record.join(",")}`);
  return rows;
}

/** A log opened by the next life of the process. */
function reopened({ disk, process }: Machine): SimCommitLog {
  return disk.openCommitLog(process.restart());
}

const record = (...bytes: number[]): Uint8Array => Uint8Array.from(bytes);

describe("the simulated commit log", () => {
  test("A3: an append resolves with its row only when the row is durable", async () => {
    const { world, disk, log } = machine();
    const appended = log.append(record(1, 2));
    assert.deepEqual(disk.durableRows(), []);
    assert.equal(disk.version(), 0);
    assert.equal(await settle(world, appended), 1);
    assert.deepEqual(disk.durableRows(), [{ row: 1, record: record(1, 2) }]);
    assert.equal(disk.version(), 1);
    assert.deepEqual(await settle(world, log.read(1)), record(1, 2));
  });

  test("rows survive a restart in order, dropped ones do not, and numbers are never used again", async () => {
    const at = machine();
    for (let i = 1; i <= 4; i++) await settle(at.world, at.log.append(record(i)));
    await settle(at.world, at.log.drop([2, 4]));
    await settle(at.world, at.log.drop([4]));
    const log = reopened(at);
    assert.deepEqual(await settle(at.world, scanAll(log)), ["1:1", "3:3"]);
    assert.equal(await settle(at.world, log.append(record(5))), 5);
    await assert.rejects(settle(at.world, log.read(4)), { code: "stream_failed" });
  });

  test("what a crash finds unsynced is lost, kept or torn, and never more than that", async () => {
    const outcomes = new Map<string, number>();
    for (let seed = 0; seed < 60; seed++) {
      const at = machine(seed);
      await settle(at.world, at.log.append(record(1)));
      at.log.append(record(2, 2, 2)).then(
        () => assert.fail("a dead process hears nothing"),
        () => assert.fail("a dead process hears nothing"),
      );
      const log = reopened(at);
      const rows = await settle(at.world, scanAll(log));
      assert.ok(rows.join() === "1:1" || rows.join() === "1:1,2:2,2,2", rows.join());
      const fate = ["lost_unsynced", "kept_unsynced", "torn"].filter(
        (kind) => at.world.counters.of(`disk.${kind}`) > 0,
      );
      assert.equal(fate.length, 1);
      outcomes.set(fate.join(), (outcomes.get(fate.join()) ?? 0) + 1);
      assert.equal(at.world.counters.of("disk.torn_tail_cut"), fate.join() === "torn" ? 1 : 0);

      const next = await settle(at.world, log.append(record(3)));
      assert.deepEqual((await settle(at.world, scanAll(reopened(at)))).at(-1), `${next}:3`);
    }
    assert.equal(outcomes.size, 3, [...outcomes.keys()].join());
  });

  test("a process can die between the write and the sync, and before the write", async () => {
    for (const [effect, kind] of [
      [1, "disk.append"],
      [2, "disk.sync"],
    ] as const) {
      const at = machine();
      at.process.crashAtEffect(effect, "before");
      void at.log.append(record(1));
      assert.equal(at.process.alive, false);
      assert.equal(at.world.counters.of(`crash.before.${kind}`), 1);
      await at.world.run();
      if (kind === "disk.append") assert.deepEqual(at.disk.durableRows(), []);
    }
  });

  test("F5: after a failed sync the handle refuses everything for ever; a new one finds all or nothing", async () => {
    const found = new Set<string>();
    for (let seed = 0; seed < 40; seed++) {
      const at = machine(seed);
      await settle(at.world, at.log.append(record(1)));
      at.disk.failSync();
      await assert.rejects(settle(at.world, at.log.append(record(2))), { code: "unavailable" });
      await assert.rejects(settle(at.world, at.log.append(record(3))), { code: "unavailable" });
      await assert.rejects(settle(at.world, at.log.read(1)), { code: "unavailable" });
      await assert.rejects(settle(at.world, at.log.drop([1])), { code: "unavailable" });
      await assert.rejects(settle(at.world, scanAll(at.log)), { code: "unavailable" });
      found.add((await settle(at.world, scanAll(reopened(at)))).join());
    }
    assert.deepEqual([...found].toSorted(), ["1:1", "1:1,2:2"]);
  });

  test("F5: a full disk refuses the write and the handle; space given back helps the next handle", async () => {
    const at = machine();
    await settle(at.world, at.log.append(record(1)));
    at.disk.faults.full = true;
    await settle(at.world, at.log.drop([1]));
    await assert.rejects(settle(at.world, at.log.append(record(2))), { code: "unavailable" });
    at.disk.faults.full = false;
    await assert.rejects(settle(at.world, at.log.append(record(2))), { code: "unavailable" });
    await settle(at.world, reopened(at).append(record(3)));
  });

  test("a flipped bit is noticed wherever it is, nothing is cut, and healing brings everything back", async () => {
    for (let seed = 0; seed < 100; seed++) {
      const at = machine(seed);
      await settle(at.world, at.log.append(record(1, 2, 3)));
      await settle(at.world, at.log.append(record(4)));
      assert.equal(at.disk.flipBit(), true);
      const log = reopened(at);
      await assert.rejects(settle(at.world, scanAll(log)), { code: "stream_failed" });
      const reads = await settle(at.world, Promise.allSettled([log.read(1), log.read(2)]));
      assert.equal(reads.filter(({ status }) => status === "rejected").length, 1);
      at.disk.heal();
      assert.deepEqual(await settle(at.world, scanAll(log)), ["1:1,2,3", "2:4"]);
    }
    assert.equal(machine().disk.flipBit(), false);
  });

  test("opening a log takes it away from whoever had it", async () => {
    const at = machine();
    const pending = at.log.append(record(1));
    const other = at.disk.openCommitLog(new SimProcess(at.world, "other"));
    await assert.rejects(settle(at.world, pending), { code: "unavailable" });
    await assert.rejects(settle(at.world, at.log.append(record(2))), { code: "unavailable" });
    await settle(at.world, other.append(record(3)));
  });

  test("a closed log refuses", async () => {
    const at = machine();
    await at.log.close();
    await assert.rejects(settle(at.world, at.log.append(record(1))), { code: "unavailable" });
  });

  test("the disk goes on while its process is paused, which hears of it when it wakes", async () => {
    const at = machine();
    let heardAtMs = -1;
    at.log.append(record(1)).then(
      () => (heardAtMs = at.world.nowMs),
      () => assert.fail(),
    );
    at.process.pause(1_000);
    await at.world.run({ untilMs: 500 });
    assert.equal(at.disk.durableRows().length, 1);
    assert.equal(heardAtMs, -1);
    await at.world.run();
    assert.equal(heardAtMs, 1_000);
  });
});

describe("the simulated journal store", () => {
  test("an append of several records survives a crash whole or not at all, and only a suffix is lost", async () => {
    const counts = new Set<number>();
    for (let seed = 0; seed < 200; seed++) {
      const { world, disk, process } = machine(seed);
      const store = disk.openJournalStore(process);
      for (let i = 0; i < 4; i++) void store.append("k", [record(2 * i), record(2 * i + 1)]);
      await world.run({ stepsMax: 1 });
      const durable = disk.durableJournal("k").length;
      const records = await settle(world, disk.openJournalStore(process.restart()).read("k"));
      assert.ok(records.length % 2 === 0 && records.length >= durable, `${records.length}`);
      assert.deepEqual(
        records,
        Array.from({ length: records.length }, (_, i) => record(i)),
      );
      counts.add(records.length);
    }
    assert.deepEqual(counts, new Set([2, 4, 6, 8]));
  });

  test("a crash in a replace leaves the old records or the new ones", async () => {
    const found = new Set<string>();
    for (let seed = 0; seed < 40; seed++) {
      const { world, disk, process } = machine(seed);
      const store = disk.openJournalStore(process);
      await settle(world, store.append("k", [record(1), record(2)]));
      void store.replace("k", [record(9)]);
      found.add((await settle(world, disk.openJournalStore(process.restart()).read("k"))).join());
    }
    assert.deepEqual([...found].toSorted(), ["1,2", "9"]);
  });

  test("a torn first append is no journal", async () => {
    let torn = 0;
    for (let seed = 0; seed < 20; seed++) {
      const { world, disk, process } = machine(seed);
      void disk.openJournalStore(process).append("k", [record(1)]);
      const store = disk.openJournalStore(process.restart());
      const kept = world.counters.of("disk.kept_unsynced");
      torn += world.counters.of("disk.torn");
      assert.deepEqual(await settle(world, store.list()), kept === 1 ? ["k"] : []);
    }
    assert.ok(torn > 0);
  });

  test("the crash of one tab takes nothing from another that shares its journals", async () => {
    for (let seed = 0; seed < 40; seed++) {
      const { world, disk, process } = machine(seed);
      const other = disk.openJournalStore(new SimProcess(world, "other tab"));
      const mine = disk.openJournalStore(process);
      void mine.append("k", [record(1)]);
      const theirs = other.append("k", [record(2)]);
      process.crash();
      await settle(world, theirs);
      const records = await settle(world, other.read("k"));
      assert.ok(["2", "1,2"].includes(records.join()), records.join());
    }
  });

  test("F5: one failed sync ends the whole handle, with everything that waits on it", async () => {
    const { world, disk, process } = machine();
    const store = disk.openJournalStore(process);
    disk.failSync();
    const outcomes = await settle(
      world,
      Promise.allSettled([store.append("a", [record(1)]), store.append("a", [record(2)]), store.read("b")]),
    );
    assert.deepEqual(
      outcomes.slice(0, 2).map(({ status }) => status),
      ["rejected", "rejected"],
    );
    await assert.rejects(settle(world, store.append("c", [record(3)])), { code: "unavailable" });
    await settle(world, disk.openJournalStore(process).append("c", [record(3)]));
  });
});

test("every kind of disk fault can be hit by chance alone", async () => {
  const world = new World(3);
  world.expectKinds(DISK_KINDS);
  const disk = new SimDisk(world, "disk");
  Object.assign(disk.faults, { slow: 0.1, syncFails: 0.05 });
  const settled = (): void => {};

  function live(process: SimProcess): void {
    const store = disk.openJournalStore(process);
    store.read("k").then(settled, settled);
    for (let i = 0; i < 10; i++) store.append("k", [record(i)]).then(settled, settled);
    process.env.after(30, () => {
      store.append("k", [record(0)]).then(settled, settled);
    });
    world.enqueue(world.random.int(40), () => live(process.restart()), "restart");
  }
  live(new SimProcess(world, "client"));
  await world.run({ stepsMax: 2_000 });
  disk.faults.full = true;
  await world.run({ stepsMax: 500 });
  disk.faults.full = false;
  disk.flipBit();
  await world.run({ stepsMax: 500 });
  assert.deepEqual(world.counters.neverHit(), []);
});
