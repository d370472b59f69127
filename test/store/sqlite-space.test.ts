/** What is no longer needed gives its disk back, and a start does not read what it need not. */
import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import type { SqliteStore } from "../../src/store/index.ts";
import {
  DATABASE_FILE,
  openSqlite,
  openSqliteReadOnly,
  openSqliteStore,
  sha256Hex,
} from "../../src/store/index.ts";
import { created, eventsFrom, grown, readAll, streamName } from "../conformance/stream-fixtures.ts";
import { ManualClock } from "./manual-clock.ts";
import { newFolder } from "./sqlite-fixtures.ts";

const STREAMS = 16;
const LABEL = "x".repeat(30_000);
const MEGABYTE = 2 ** 20;

/** Some 20 MB in streams that have all ended. */
async function fill({ streams }: SqliteStore): Promise<void> {
  await Promise.all(
    Array.from({ length: STREAMS }, async (_, number) => {
      const name = streamName(`s${number}`);
      let state = await created(streams, name);
      for (let at = 0; at < 40; at++) state = await grown(streams, name, state, { events: 1, label: LABEL });
      await grown(streams, name, state, { events: 1, label: LABEL, change: { end: "completed" } });
    }),
  );
}

/** The files of a database, whoever has them open. */
function sizeOf(folder: string): number {
  return ["", "-wal"].reduce(
    (sum, suffix) =>
      sum + (statSync(join(folder, DATABASE_FILE + suffix), { throwIfNoEntry: false })?.size ?? 0),
    0,
  );
}

async function until(condition: () => boolean): Promise<void> {
  for (let tries = 0; !condition(); tries++) {
    assert.ok(tries < 600, "it did not happen in time");
    await wait(50);
  }
}

test("A7: streams that expired give their disk back, while the server runs", async () => {
  const folder = newFolder();
  const clock = new ManualClock();
  const store = await openSqliteStore(folder, clock);
  await fill(store);
  assert.ok(sizeOf(folder) > 15 * MEGABYTE);
  clock.advance(1000);
  await Promise.all(
    Array.from({ length: STREAMS }, (_, number) => store.streams.expire(streamName(`s${number}`), 1)),
  );
  await until(() => sizeOf(folder) < 2 * MEGABYTE);
  await store.close();
  const again = await openSqliteStore(folder, clock);
  assert.equal((await again.streams.load(streamName("s3"))).kind, "gone");
  await again.close();
});

test("moved streams are read whole after a restart, and the start passes over their bodies", async () => {
  const folder = newFolder();
  const clock = new ManualClock();
  const store = await openSqliteStore(folder, clock);
  await fill(store);
  clock.advance(100_000);
  await store.streams.tidy(clock.now());
  await store.close();

  let scanned = 0;
  const looking = await openSqliteReadOnly(join(folder, DATABASE_FILE), clock);
  for await (const { record } of looking.log.scan()) scanned += record.byteLength;
  await looking.close();
  assert.ok(scanned < MEGABYTE / 2, `${scanned} bytes were scanned`);

  const again = await openSqliteStore(folder, clock);
  for (const number of [0, 7, STREAMS - 1]) {
    const name = streamName(`s${number}`);
    const events = await readAll(1, (from) => again.streams.readEvents(name, from, MEGABYTE));
    assert.deepEqual(
      events,
      Array.from({ length: 41 }, (_, at) => eventsFrom(at + 1, 1, LABEL)),
    );
  }
  await again.close();
});

test("a row's number is never used again, not even when the last rows were dropped before a restart", async () => {
  const path = join(newFolder(), DATABASE_FILE);
  const clock = new ManualClock();
  let database = await openSqlite(path, clock);
  const record = (): Uint8Array => Uint8Array.of(1, 2, 3);
  assert.deepEqual(
    [await database.log.append(record()), await database.log.append(record(), record())],
    [1, 2],
  );
  await database.log.drop([2]);
  await database.close();
  database = await openSqlite(path, clock);
  assert.equal(await database.log.append(record()), 3);
  assert.deepEqual(await database.log.readBody(3), new Uint8Array(0));
  await assert.rejects(database.log.readBody(2), /no row 2/);
  await database.close();
});

test("E8: large blobs and commits share the disk: neither waits for the whole of the other", async () => {
  const folder = newFolder();
  const clock = new ManualClock();
  const store = await openSqliteStore(folder, clock);
  const name = streamName("s");
  let state = await created(store.streams, name);
  const bytes = new Uint8Array(16 * MEGABYTE).fill(7);

  const blob = { isStored: false };
  const putting = store.blobs
    .put({ space: "s", id: sha256Hex(bytes) }, bytes)
    .then(() => (blob.isStored = true));
  let commits = 0;
  while (!blob.isStored) {
    state = await grown(store.streams, name, state, { events: 1 });
    commits += 1;
  }
  await putting;
  assert.ok(commits > 5, `${commits} commits went through while the blob was stored`);
  await store.close();
});
