/** Migrations of a shared database: under a lock row, beside nodes that write, and with nodes that die or fall silent in the middle. */
import assert from "node:assert/strict";
import { homedir } from "node:os";
import { after, before, test, type TestContext } from "node:test";
import { Client } from "pg";
import { parseAddress } from "../../../src/store/postgres/address.ts";
import { connect, type Connection } from "../../../src/store/postgres/driver.ts";
import { openPostgresStore } from "../../../src/store/postgres/index.ts";
import { findSchema, LOCK_ROW, migrate } from "../../../src/store/postgres/migrate.ts";
import { MIGRATIONS, SCHEMA_VERSION } from "../../../src/store/postgres/schema.ts";
import { Cli } from "../../cli/cli-process.ts";
import { openDatabaseLink } from "../../nodes/database-link.ts";
import { asked, type PostgresServer, startPostgres } from "./server.ts";

let server: PostgresServer;
before(async () => {
  server = await startPostgres();
});
after(() => server.close());

const ALL = MIGRATIONS.map(({ version }) => version);
/** In the tests that wait for a node that is gone. */
const PATIENCE = { lockMsMax: 200, silenceMsMax: 1_000, waitMsMax: 30_000 };

async function connected(t: TestContext, url: string): Promise<Connection> {
  const connection = await connect(parseAddress(url, {}, homedir()), "holdfast");
  t.after(() => connection.end());
  return connection;
}

/** A database with the tables of the versions up to that one. */
async function databaseOf(version: number): Promise<string> {
  const url = await server.newDatabase();
  await asked(
    url,
    `CREATE SCHEMA holdfast; CREATE TABLE holdfast.schema_version (only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one), version bigint NOT NULL, usable_from bigint NOT NULL); INSERT INTO holdfast.schema_version VALUES (true, ${version}, 1)`,
  );
  for (const migration of MIGRATIONS.filter((one) => one.version <= version)) await asked(url, migration.sql);
  return url;
}

/** A backup, or a report that was forgotten. */
async function longTransaction(t: TestContext, url: string, text: string): Promise<Client> {
  const client = new Client({ connectionString: url });
  await client.connect();
  t.after(() => client.end());
  await client.query("BEGIN");
  await client.query(text);
  return client;
}

/** The process of the server that waits for a lock on behalf of another connection. */
async function waitingFor(url: string): Promise<number> {
  for (;;) {
    const [row] = await asked(
      url,
      "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
    );
    if (row !== undefined) return Number(row["pid"]);
  }
}

test("nodes that migrate at once do it once, from nothing and from an older version", async (t) => {
  for (const from of [0, 0, 0, 1, 2]) {
    const url = from === 0 ? await server.newDatabase() : await databaseOf(from);
    const nodes = await Promise.all([1, 2, 3, 4].map(() => connected(t, url)));
    const applied = await Promise.all(nodes.map((node) => migrate(node)));
    assert.deepEqual(
      applied.flat(),
      ALL.filter((version) => version > from),
      `from version ${from}`,
    );
    for (const node of nodes) assert.equal((await findSchema(node)).version, SCHEMA_VERSION);
  }
});

test("a migration waits for the lock row, and for nothing else", async (t) => {
  const url = await databaseOf(2);
  const other = await longTransaction(t, url, LOCK_ROW);
  const migrating = migrate(await connected(t, url), PATIENCE);
  await waitingFor(url);
  const held = await asked(
    url,
    "SELECT relation::regclass::text AS name FROM pg_locks WHERE locktype = 'relation' AND mode = 'AccessExclusiveLock' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
  );
  assert.deepEqual(held, [], "no table is locked before the row is");
  assert.deepEqual(await asked(url, "SELECT * FROM pg_locks WHERE locktype = 'advisory'"), []);
  await other.query("COMMIT");
  assert.deepEqual(await migrating, [3]);
});

test("a node that is killed in the middle of a migration leaves it to the next one", async (t) => {
  const url = await databaseOf(2);
  const backup = await longTransaction(t, url, "SELECT * FROM holdfast.log");
  const killed = new Cli(t).begin(["store", "migrate", "--store", url]);
  // It has the lock row, and waits for the log.
  await waitingFor(url);
  killed.signal("SIGKILL");
  await killed.exit;
  await backup.query("COMMIT");
  assert.deepEqual(await migrate(await connected(t, url)), [3]);
});

test("a node that falls silent in the middle of a migration loses it", async (t) => {
  const url = await databaseOf(2);
  const link = await openDatabaseLink(server.port);
  t.after(() => link.close());
  const backup = await longTransaction(t, url, "SELECT * FROM holdfast.log");
  const address = parseAddress(url.replace(`:${server.port}/`, `:${link.port}/`), {}, homedir());
  const silent = await connect(address, "holdfast");
  const lost = assert.rejects(migrate(silent, { ...PATIENCE, lockMsMax: 60_000 }));
  await waitingFor(url);
  link.halfOpen();
  await backup.query("COMMIT");
  // The server has carried out what it was sent, and waits for a word that never comes.
  assert.deepEqual(await migrate(await connected(t, url), PATIENCE), [3]);
  link.mend();
  await lost;
});

test("F2: a migration that waits for a long transaction does not stop the commits of older nodes, and gives up with a reason", async (t) => {
  const url = await databaseOf(2);
  await longTransaction(t, url, "SELECT * FROM holdfast.log");
  const migrating = migrate(await connected(t, url), { ...PATIENCE, waitMsMax: 500 });
  const over = new AbortController();
  const rejected = assert
    .rejects(migrating, /could not be migrated: another node, or a transaction that does not end/)
    .finally(() => over.abort());
  let written = 0;
  while (!over.signal.aborted) {
    await asked(
      url,
      `INSERT INTO holdfast.log (period, stream, log, first, count, sealed) VALUES (1, 1, 1, ${++written}, 1, '\\x00')`,
    );
  }
  await rejected;
  assert.equal((await findSchema(await connected(t, url))).version, 2, "nothing of it is left");
});

test("partitions are not changed beside a migration", async (t) => {
  const url = await server.newDatabase();
  const store = await openPostgresStore(url);
  t.after(() => store.close());
  const partitions =
    "SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'holdfast.log'::regclass ORDER BY 1";
  const before = await asked(url, partitions);
  const clock = await server.manualClock(url);
  clock.set(Date.now() + 30 * 24 * 3_600_000);
  const other = await longTransaction(t, url, LOCK_ROW);
  await store.streams.tidy(0);
  assert.deepEqual(await asked(url, partitions), before);
  await other.query("COMMIT");
  await store.streams.tidy(0);
  assert.notDeepEqual(await asked(url, partitions), before);
});
