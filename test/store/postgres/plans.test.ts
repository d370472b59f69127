/** How PostgreSQL finds what the production statements name, in tables that are large: by keys, never by reading a table whole. */
import assert from "node:assert/strict";
import { homedir } from "node:os";
import { after, before, test, type TestContext } from "node:test";
import type { StreamName } from "../../../src/core/stream-state.ts";
import type { Act } from "../../../src/store/postgres/acts.ts";
import { parseAddress } from "../../../src/store/postgres/address.ts";
import { connect, type Connection, type Statement } from "../../../src/store/postgres/driver.ts";
import { beginning, groupStatements } from "../../../src/store/postgres/group-statements.ts";
import { openPostgresStore } from "../../../src/store/postgres/index.ts";
import { readLetters } from "../../../src/store/postgres/letter-sql.ts";
import { BY_KEYS } from "../../../src/store/postgres/readers.ts";
import { PERIOD_MS } from "../../../src/store/postgres/schema.ts";
import { pageOf } from "../../../src/store/postgres/stream-questions.ts";
import { lookUp } from "../../../src/store/postgres/stream-sql.ts";
import {
  created,
  growth,
  grown,
  HOST,
  KEY_CHECK,
  OTHER_HOST,
  streamName,
} from "../../conformance/stream-fixtures.ts";
import { asked, type PostgresServer, startPostgres } from "./server.ts";

let server: PostgresServer;
let url: string;
before(async () => {
  server = await startPostgres();
  url = await filled();
});
after(() => server.close());

const STREAMS = 10_000;
const BATCHES = 20;
/** More often than a connection makes a new plan for a statement before it keeps one. */
const TIMES = 12;
/** More than a store reads by. */
const CONNECTIONS = 6;
const NAMES = Array.from({ length: 6 }, (_, at) => streamName(`mine-${at}`));

/** Half of them in the rest, half in the range that runs in two hours. */
const FILL = `INSERT INTO holdfast.streams (principal, idempotency_key, period, birth, key_check, created_ms, activity_ms, idle_slot, host_epoch, host_id, lease_ms,
    lease_until_ms, writers, writer_count, writer_epoch, next_seqno, event_head, event_floor, is_closed, is_aborted, end_reason)
  SELECT 'p' || at % 100, 'old-' || at, holdfast.now_ms() / ${PERIOD_MS} + 2 * (at % 2), 1, '', 1, holdfast.now_ms(), holdfast.now_ms() / 600000 + at % 50, 1, 'h' || at % 9, 0, 0, '[]', 0, 0, 0, ${BATCHES}, 1, true, false, 'completed'
  FROM generate_series(1, ${STREAMS}) AS at;
INSERT INTO holdfast.log (period, stream, log, first, count, sealed)
  SELECT period, id, 1, at, 1, '\\x5a' FROM holdfast.streams, generate_series(1, ${BATCHES}) AS at WHERE principal <> 'alice';
INSERT INTO holdfast.tombstones SELECT 'p', 'gone-' || at, '', at FROM generate_series(1, ${STREAMS}) AS at;
INSERT INTO holdfast.rows SELECT 't', 'key-' || at, 1, NULL, '\\x5a' FROM generate_series(1, ${STREAMS}) AS at;
INSERT INTO holdfast.letters (host_id, principal, idempotency_key, host_epoch, posted_ms, sealed)
  SELECT 'h' || at % 9, 'p', 'old-' || at, 1, holdfast.now_ms(), '\\x5a' FROM generate_series(1, ${STREAMS}) AS at`;

async function filled(): Promise<string> {
  const url = await server.newDatabase();
  await (await openPostgresStore(url)).close();
  await asked(url, FILL);
  await asked(url, "ANALYZE");
  return url;
}

async function planOf(connection: Connection, { text, values }: Statement): Promise<readonly string[]> {
  const explained = { text: `EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) ${text}` };
  const { rows } = await connection.ask(values === undefined ? explained : { ...explained, values });
  return rows.map((row) => String(row["QUERY PLAN"]));
}

async function connected(t: TestContext, url: string): Promise<Connection> {
  const connection = await connect(parseAddress(url, {}, homedir()), "holdfast");
  t.after(() => connection.end());
  return connection;
}

test("every statement of a group finds its rows by a key, in large tables", async (t) => {
  const store = await openPostgresStore(url);
  t.after(() => store.close());
  const states = await Promise.all(NAMES.map((name) => created(store.streams, name)));
  const rows = await asked(
    url,
    "SELECT id::int, period::int FROM holdfast.streams WHERE principal = 'alice' ORDER BY idempotency_key",
  );
  const place = (at: number) => ({
    id: Number(rows[at]?.["id"]),
    period: Number(rows[at]?.["period"]),
    origin: states[at] ?? assert.fail(),
  });
  const on = (at: number) => ({ name: NAMES[at] ?? assert.fail(), place: place(at) });
  const commit = growth(on(0).name, states[0] ?? assert.fail(), {
    chunks: 1,
    events: 2,
    change: { eventFloor: 2 },
  });
  const blob = { space: "s", id: "b", sealed: Uint8Array.of(1), keepMs: 1 };
  const name = streamName("new");
  const acts: readonly Act[] = [
    { kind: "commit", ...on(0), commit: { ...commit, letters: [1, 2], blobs: [blob] } },
    { kind: "commit", ...on(1), commit: growth(on(1).name, states[1] ?? assert.fail(), { events: 1 }) },
    { kind: "claim", ...on(2), host: OTHER_HOST },
    { kind: "renew", ...on(3), hostEpoch: 1, leaseMs: 1 },
    { kind: "release", ...on(4), hostEpoch: 1 },
    { kind: "expire", ...on(5), hostEpoch: 1 },
    { kind: "create", name, birth: 1, creation: { name, keyCheck: KEY_CHECK, host: HOST, first: commit } },
    {
      kind: "write",
      writes: [
        { kind: "put", table: "t", key: "key-7", value: Uint8Array.of(1), expectedVersion: 1 },
        { kind: "delete", table: "t", key: "key-8" },
      ],
    },
  ];
  const connection = await connected(t, url);
  await asked(url, "INSERT INTO holdfast.receipts VALUES (1, 1, 0, 0, holdfast.now_ms())");
  // Commits alone are a group of fewer statements.
  for (const group of [acts, acts.slice(0, 2)]) {
    const { statements } = groupStatements({ store: 1, term: 1, groupNumber: 1 }, group);
    assert.equal(
      statements.some(({ name }) => name === "holdfast-lock"),
      group === acts,
    );
    await connection.ask(beginning({ synchronousCommit: "on", isPooled: true }));
    for (const statement of statements)
      assertByKeys(statement, await planOf(connection, statement), group.length);
    await connection.ask({ text: "ROLLBACK" });
  }
});

function assertByKeys({ name }: Statement, plan: readonly string[], rowsMax: number): void {
  const shown = `${name}\n${plan.join("\n")}`;
  assert.ok(!plan.some((line) => line.includes("Seq Scan")), shown);
  const touched = plan.filter((line) => /Scan.* on (streams|log_|rows|tombstones|letters)/.test(line));
  const read = touched.map((line) => Number(/rows=([\d.]+)/.exec(line)?.[1] ?? 0));
  assert.ok(
    read.every((count) => count <= rowsMax),
    shown,
  );
  if (name !== "holdfast-commit") return;
  const order = plan.flatMap(
    (line) => /(Function|Index) Scan.* on (?:streams s(?:_1)?|i)\b/.exec(line)?.[1] ?? [],
  );
  assert.deepEqual(
    order,
    ["Function", "Index"],
    `rows are found in the order in which they are asked for: ${shown}`,
  );
}

test("a page, a look and letters are read by a key, and a page from one partition", async (t) => {
  const connection = await connected(t, url);
  await connection.ask(BY_KEYS);
  const name = streamName("old-7", "p7");
  for (const log of ["events", "chunks"] as const) {
    const plan = await planOf(connection, pageOf(log, name, 3, 100_000));
    assert.ok(!plan.some((line) => line.includes("Seq Scan")), plan.join("\n"));
    const partitions = plan.flatMap((line) =>
      line.includes("never executed") ? [] : (/Scan.* on (log_\w+)/.exec(line)?.[1] ?? []),
    );
    assert.equal(new Set(partitions).size, 1, plan.join("\n"));
  }
  for (const statement of [lookUp([{ name }, { name: streamName("none") }]), readLetters("h3", 10)]) {
    const plan = await planOf(connection, statement);
    assert.ok(!plan.some((line) => line.includes("Seq Scan")), plan.join("\n"));
  }
});

/** A range's partition is empty when the first plans are made, and large later. */
test("a store at work reads no table whole, with the plans that its connections keep", async () => {
  const clock = await server.manualClock(url);
  clock.set(Date.now());
  const store = await openPostgresStore(url);
  const { streams, letters, tables } = store;
  const work = (name: StreamName): Promise<void>[] =>
    Array.from({ length: CONNECTIONS }, async (_, at) => {
      const own = { ...name, idempotencyKey: `${name.idempotencyKey}-${at}` };
      let state = await created(streams, own);
      for (let times = 0; times < TIMES; times++) {
        state = await grown(streams, own, state, { chunks: 1, events: 2 });
        await streams.readEvents(own, 1, 10_000);
        await streams.readChunks(own, 0, 10_000);
        await streams.look([own]);
        await streams.renew(own, state.hostEpoch, 10_000);
        await streams.countOpen("alice");
        await streams.listIdle(1_000, 10);
        await tables.put({ table: "t", key: own.idempotencyKey }, Uint8Array.of(times));
        await tables.get({ table: "t", key: own.idempotencyKey });
        await letters.post({ to: "me", name: own, hostEpoch: 1, sealed: Uint8Array.of(1) });
        await letters.read("me", 10);
      }
      await streams.release(own, state.hostEpoch);
      await streams.claim(own, OTHER_HOST);
      await streams.expire(own, state.hostEpoch + 1);
    });
  // How often a table was read whole before: by what filled it, and by the server itself.
  const scans = () =>
    asked(
      url,
      "SELECT relname::text AS name, seq_scan::int AS scans FROM pg_stat_user_tables WHERE schemaname = 'holdfast' AND (relname IN ('streams', 'rows', 'tombstones', 'letters') OR relname LIKE 'log%') ORDER BY 1",
    );
  const before = await scans();
  await Promise.all(work(streamName("early")));
  clock.advance(8 * PERIOD_MS);
  await Promise.all(work(streamName("late")));
  // Its connections tell what they have counted when they end.
  await store.close();
  assert.deepEqual(await scans(), before);
});
