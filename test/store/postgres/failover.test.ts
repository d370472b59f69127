/** A primary with a synchronous standby that dies: nothing that was acknowledged is lost, nothing happens twice, and what a commit survives is never less than was said. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { appendFileSync, chownSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { promisify } from "node:util";
import { Client } from "pg";
import type { StreamName, StreamState } from "../../../src/core/stream-state.ts";
import {
  freePort,
  newFolder,
  type OwnPostgres,
  ownPostgresIn,
  userOf,
} from "../../../src/cli/demo/own-postgres.ts";
import { HoldfastError } from "../../../src/protocol/errors.ts";
import { openPostgresStore, type PostgresStore } from "../../../src/store/postgres/index.ts";
import { created, growth, grown, readAll, stateOf, streamName } from "../../conformance/stream-fixtures.ts";
import { asked, type PostgresServer, startPostgres } from "./server.ts";

/** A standby made as an operator without `pg_basebackup` does it: a copy of the files between the start and the end of a backup. */
async function standbyOf(primary: PostgresServer): Promise<OwnPostgres> {
  const [folder, port] = [newFolder(), await freePort()];
  const data = join(folder, "data");
  const session = new Client({ connectionString: primary.urlOf("postgres") });
  await session.connect();
  await session.query("SELECT pg_backup_start('standby', true)");
  await promisify(execFile)("cp", ["-a", join(primary.folder, "data"), data], { ...userOf(), cwd: folder });
  const { rows } = await session.query<{ labelfile: string }>("SELECT labelfile FROM pg_backup_stop(false)");
  await session.end();
  rmSync(join(data, "postmaster.pid"));
  const { uid, gid } = userOf();
  const label = rows[0]?.labelfile ?? assert.fail("a backup has a label");
  for (const [name, text] of [
    ["backup_label", label],
    ["standby.signal", ""],
  ] as const) {
    writeFileSync(join(data, name), text);
    if (uid !== undefined && gid !== undefined) chownSync(join(data, name), uid, gid);
  }
  const conninfo = `host=127.0.0.1 port=${primary.port} user=holdfast application_name=standby`;
  appendFileSync(join(data, "postgresql.conf"), `port = ${port}\nprimary_conninfo = '${conninfo}'\n`);
  const standby = ownPostgresIn(folder, port);
  await standby.start();
  return standby;
}

async function until(url: string, condition: string): Promise<void> {
  while ((await asked(url, `SELECT 1 WHERE ${condition}`)).length === 0);
}

interface Pair {
  readonly primary: PostgresServer;
  readonly store: PostgresStore;
  /** Another one at the same address. */
  readonly open: () => Promise<PostgresStore>;
  /** Of the primary's and the standby's database. */
  readonly urls: readonly [string, string];
}

/** A store that was opened before there was a standby promises no quorum, and goes on without one. */
async function pair(t: TestContext, promised: "fsync" | "quorum"): Promise<Pair> {
  const primary = await startPostgres({ settings: ["wal_keep_size = '256MB'"] });
  t.after(() => primary.close());
  const url = await primary.newDatabase();
  const standby = await standbyOf(primary);
  t.after(() => standby.close());
  const both = url.replace(`:${primary.port}`, `:${primary.port},127.0.0.1:${standby.port}`);
  const open = async (): Promise<PostgresStore> => {
    const store = await openPostgresStore(both, { patienceMs: 120_000, answerMsMax: 120_000 });
    t.after(() => store.close());
    return store;
  };
  const before = promised === "fsync" ? await open() : undefined;
  await asked(url, "ALTER SYSTEM SET synchronous_standby_names = 'standby'");
  await asked(url, "SELECT pg_reload_conf()");
  await until(url, "EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')");
  const store = before ?? (await open());
  assert.equal(store.streams.durability, promised);
  return { primary, store, open, urls: [url, url.replace(`:${primary.port}`, `:${standby.port}`)] };
}

async function eventCount(store: PostgresStore, name: StreamName): Promise<number> {
  const batches = await readAll(1, (from) => store.streams.readEvents(name, from, 100_000));
  return batches.reduce((sum, { count }) => sum + count, 0);
}

test("A3: the primary dies under commits, the standby is promoted, and has all that was acknowledged, once", async (t) => {
  const { primary, store, urls } = await pair(t, "fsync");
  const names = Array.from({ length: 5 }, (_, at) => streamName(`s${at}`));
  const acked = new Map<StreamName, StreamState>();
  const { promise: underWay, resolve: onEnough } = Promise.withResolvers<void>();
  let [isPromoted, commits] = [false, 0];
  const writing = names.map(async (name) => {
    let state = await created(store.streams, name);
    for (let more = 3; more > 0;) {
      if (isPromoted) more--;
      state = await grown(store.streams, name, state, { events: 1 });
      acked.set(name, state);
      if (++commits >= 20) onEnough();
    }
  });
  await underWay;
  await primary.kill();
  await asked(urls[1], "SELECT pg_promote()");
  isPromoted = true;
  await Promise.all(writing);
  for (const [name, { eventHead }] of acked) {
    assert.equal((await stateOf(store.streams, name)).eventHead, eventHead);
    assert.equal(await eventCount(store, name), eventHead);
  }
});

test("A3: a commit that stopped waiting for a standby, which then takes over without it, was not acknowledged and is made there", async (t) => {
  const { primary, store, urls } = await pair(t, "fsync");
  const name = streamName("s");
  const state = await created(store.streams, name);
  await asked(urls[1], "ALTER SYSTEM SET primary_conninfo = ''");
  await asked(urls[1], "SELECT pg_reload_conf()");
  await until(urls[0], "NOT EXISTS (SELECT FROM pg_stat_replication)");
  let isTold = false;
  const committed = store.streams.commit(growth(name, state, { events: 1 })).finally(() => (isTold = true));
  const waits = "wait_event = 'SyncRep' AND application_name LIKE 'holdfast %'";
  await until(urls[0], `EXISTS (SELECT FROM pg_stat_activity WHERE ${waits})`);
  const [row] = await asked(
    urls[0],
    `SELECT pid, pg_cancel_backend(pid) FROM pg_stat_activity WHERE ${waits}`,
  );
  await until(urls[0], "EXISTS (SELECT FROM holdfast.log)");
  // The store has connected anew, and waits for the standby again.
  const isAnew = `EXISTS (SELECT FROM pg_stat_activity WHERE ${waits} AND pid <> ${Number(row?.["pid"])})`;
  await Promise.race([until(urls[0], isAnew), committed]);
  assert.equal(isTold, false);
  await primary.kill();
  await asked(urls[1], "SELECT pg_promote()");
  assert.equal((await committed).kind, "committed");
  assert.equal(await eventCount(store, name), 1);
  assert.equal((await asked(urls[1], "SELECT 1 FROM holdfast.log")).length, 1);
});

test("A3: a store that promised a quorum fails when the server that took over has no standby; one that is opened anew has all that was acknowledged, and promises less", async (t) => {
  const { primary, store, open, urls } = await pair(t, "quorum");
  const name = streamName("s");
  const state = await grown(store.streams, name, await created(store.streams, name), { events: 1 });
  await primary.kill();
  await asked(urls[1], "SELECT pg_promote()");
  await assert.rejects(store.streams.commit(growth(name, state, { events: 1 })), (error) => {
    assert.ok(error instanceof HoldfastError && error.code === "unavailable");
    assert.match(error.message, /has no synchronous standbys any more/);
    return true;
  });
  await store.failed;
  const again = await open();
  assert.equal(again.streams.durability, "fsync");
  assert.deepEqual(await stateOf(again.streams, name), state);
});

test("A3: standbys that an operator gives up while a commit waits for them: it is not acknowledged as more than it is", async (t) => {
  const { store, open, urls } = await pair(t, "quorum");
  const name = streamName("s");
  const state = await created(store.streams, name);
  await asked(urls[1], "ALTER SYSTEM SET primary_conninfo = ''");
  await asked(urls[1], "SELECT pg_reload_conf()");
  await until(urls[0], "NOT EXISTS (SELECT FROM pg_stat_replication)");
  const committed = assert.rejects(
    store.streams.commit(growth(name, state, { events: 1 })),
    /has no synchronous standbys any more/,
  );
  await until(
    urls[0],
    "EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name LIKE 'holdfast %')",
  );
  await asked(urls[0], "ALTER SYSTEM SET synchronous_standby_names = ''");
  await asked(urls[0], "SELECT pg_reload_conf()");
  await committed;
  await store.failed;
  assert.equal(await eventCount(await open(), name), 1, "it is there, and its client will be told so");
});
