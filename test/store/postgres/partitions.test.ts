/** The log in PostgreSQL gives its space back: partitions by creation period, stragglers, and an upgrade beside nodes that know nothing of it. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Client } from "pg";
import { openPostgresStore, type PostgresStore } from "../../../src/store/postgres/index.ts";
import { openPostgresAdmin } from "../../../src/store/postgres/admin.ts";
import { closedRanges, isLittle, missingRanges, type Range } from "../../../src/store/postgres/partitions.ts";
import { MIGRATIONS, PERIOD_MS } from "../../../src/store/postgres/schema.ts";
import type { StreamState } from "../../../src/core/stream-state.ts";
import { created, grown, readAll, streamName } from "../../conformance/stream-fixtures.ts";
import { asked, type PostgresServer, startPostgres } from "./server.ts";

let server: PostgresServer;
before(async () => {
  server = await startPostgres();
});
after(() => server.close());

const ROUNDS = 20;
const STREAMS = 40;
const EVENTS = 200;
const RETENTION_MS = 6 * PERIOD_MS;
const KEPT = streamName("kept");
const DAY_MS = 24 * 60 * 60_000;

async function eventsOf(store: PostgresStore): Promise<number> {
  const batches = await readAll(1, (from) => store.streams.readEvents(KEPT, from, 100_000));
  return batches.reduce((sum, { count }) => sum + count, 0);
}

/** As autovacuum does it, when it pleases. Partitions of the log are left alone. */
async function sizeOf(url: string): Promise<number> {
  await asked(url, "VACUUM holdfast.streams");
  await asked(url, "VACUUM holdfast.tombstones");
  await asked(url, "VACUUM holdfast.receipts");
  const admin = await openPostgresAdmin(url, {});
  const { content } = await admin.status();
  assert.deepEqual(await admin.check(), []);
  await admin.close();
  return content?.bytes ?? 0;
}

async function partitionsOf(url: string): Promise<readonly string[]> {
  const rows = await asked(
    url,
    "SELECT c.relname::text AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'holdfast.log'::regclass ORDER BY 1",
  );
  return rows.map(({ name }) => String(name));
}

test("D7: over twenty retention periods under load the size on disk stays where it was, with one stream alive all the time", async (t) => {
  const url = await server.newDatabase();
  const store = await openPostgresStore(url);
  const peer = await openPostgresStore(url);
  t.after(() => Promise.all([store.close(), peer.close()]));
  const clock = await server.manualClock(url);
  clock.set(Date.now());
  const { streams } = store;
  let kept = await created(streams, KEPT);
  let young: readonly StreamState[] = [];
  const sizes: number[] = [];
  for (let round = 1; round <= ROUNDS; round++) {
    const old = young.map((state, at) => ({ state, name: streamName(`${round - 1}/${at}`) }));
    young = await Promise.all(
      Array.from({ length: STREAMS }, async (_, at) => {
        const name = streamName(`${round}/${at}`);
        return grown(streams, name, await created(streams, name), { events: EVENTS });
      }),
    );
    kept = await grown(streams, KEPT, kept, { events: 1 });
    assert.equal(await eventsOf(peer), round, "another node reads the straggler wherever it lies");
    clock.advance(RETENTION_MS);
    const gone = await Promise.all(old.map(({ name, state }) => streams.expire(name, state.hostEpoch)));
    assert.ok(gone.every(({ kind }) => kind === "gone"));
    await streams.forgetGone((await streams.now()) - RETENTION_MS);
    await streams.tidy(0);
    sizes.push(await sizeOf(url));
  }
  const [early = 0, late = 0] = [sizes[4], sizes.at(-1)];
  assert.ok(late <= early * 1.1, `the size stays where it was: ${sizes.join(", ")}`);
  assert.ok((await partitionsOf(url)).length < 12, "partitions of periods that are over are gone");
  const { sum } =
    (await asked(url, "SELECT sum(count)::int AS sum FROM holdfast.log_rest WHERE log = 1"))[0] ?? {};
  assert.ok(
    Number(sum) >= 1 && Number(sum) <= ROUNDS,
    "the straggler's batches, and only those, lie in the rest",
  );
});

test("D7: letters to a node that is gone, and the receipts of processes that died, go with their time", async (t) => {
  const url = await server.newDatabase();
  const store = await openPostgresStore(url);
  const peer = await openPostgresStore(url);
  t.after(() => Promise.all([store.close(), peer.close()]));
  const clock = await server.manualClock(url);
  clock.set(Date.now());
  await store.letters.post({ to: "gone", name: KEPT, hostEpoch: 1, sealed: Uint8Array.of(1) });
  const left = async () =>
    (
      await asked(
        url,
        "SELECT (SELECT count(*)::int FROM holdfast.letters) AS letters, (SELECT count(*)::int FROM holdfast.receipts) AS receipts",
      )
    )[0];
  await store.streams.tidy(0);
  assert.deepEqual(await left(), { letters: 1, receipts: 2 });
  clock.advance(8 * DAY_MS);
  // A process that lives writes its receipt with each group.
  await store.tables.put({ table: "t", key: "k" }, Uint8Array.of(1));
  await store.streams.tidy(0);
  assert.deepEqual(await left(), { letters: 0, receipts: 1 });
});

test("F2: an older node writes and reads on while a newer one makes partitions of the log", async (t) => {
  const url = await server.newDatabase();
  await asked(
    url,
    "CREATE SCHEMA holdfast; CREATE TABLE holdfast.schema_version (only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one), version bigint NOT NULL, usable_from bigint NOT NULL); INSERT INTO holdfast.schema_version VALUES (true, 2, 1)",
  );
  for (const { sql } of MIGRATIONS.filter(({ version }) => version <= 2)) await asked(url, sql);
  // As versions before partitions wrote and read it, with the plans that the server keeps for their connections.
  const older = new Client({ connectionString: url });
  await older.connect();
  t.after(() => older.end());
  const write = (period: number, first: number) =>
    older.query({
      name: "write",
      text: "INSERT INTO holdfast.log (period, stream, log, first, count, sealed) VALUES ($1, 1, 1, $2, 1, '\\x00')",
      values: [period, first],
    });
  const read = async (): Promise<number> => {
    const { rows } = await older.query<{ first: string }>({
      name: "read",
      text: "SELECT first FROM holdfast.log WHERE period = ANY($1) AND stream = 1 ORDER BY first",
      values: [[period, period + 3]],
    });
    return rows.length;
  };
  const period = Math.floor(Date.now() / PERIOD_MS);
  for (let first = 1; first <= 8; first++) await write(period, first);
  for (let times = 0; times < 8; times++) assert.equal(await read(), 8);
  const newer = await openPostgresStore(url);
  t.after(() => newer.close());
  await write(period, 9);
  await write(period + 3, 10);
  assert.equal(await read(), 10);
  const rows = await asked(
    url,
    "SELECT c.relname::text AS place, count(*)::int AS count FROM holdfast.log l JOIN pg_class c ON c.oid = l.tableoid GROUP BY 1",
  );
  const counts = new Map(rows.map(({ place, count }) => [String(place).replace(/\d+_\d+/, "N"), count]));
  assert.deepEqual(
    [...counts].toSorted(([a], [b]) => a.localeCompare(b)),
    [
      ["log_N", 1],
      ["log_rest", 9],
    ],
  );
  await assert.rejects(
    write(period + 3, 10),
    { code: "23505" },
    "a batch is there once, in whichever partition",
  );
});

test("ranges are made ahead, and longer where there are many; one that is closed and nearly empty goes", () => {
  const first = missingRanges([], 100);
  assert.deepEqual(first, [
    { from: 101, to: 107 },
    { from: 107, to: 113 },
  ]);
  assert.deepEqual(missingRanges(first, 101), []);
  assert.deepEqual(missingRanges(first, 102), [{ from: 113, to: 119 }]);
  // All nodes were away: what was made meanwhile is in the rest.
  assert.equal(missingRanges(first, 500)[0]?.from, 501);
  const many: readonly Range[] = Array.from({ length: 16 }, (_, at) => ({ from: 6 * at, to: 6 * at + 6 }));
  assert.deepEqual(missingRanges(many, 90), [
    { from: 96, to: 108 },
    { from: 108, to: 120 },
  ]);
  assert.deepEqual(closedRanges(first, 107), []);
  assert.deepEqual(closedRanges(first, 108), [{ from: 101, to: 107 }]);
  const left = { streams: 1, rows: 10, bytes: 1_000, diskBytes: 100_000 };
  assert.equal(isLittle(left), true);
  assert.equal(isLittle({ ...left, diskBytes: 5_000 }), false, "its streams have not ended yet");
  assert.equal(
    isLittle({ ...left, bytes: 2 ** 26, diskBytes: 2 ** 40 }),
    false,
    "commits would wait too long",
  );
});
