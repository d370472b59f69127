/** What a PostgreSQL store does when it is opened: tables, settings and refusals. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { HoldfastError } from "../../../src/protocol/errors.ts";
import { openPostgresAdmin } from "../../../src/store/postgres/admin.ts";
import { openPostgresStore } from "../../../src/store/postgres/index.ts";
import { asked, type PostgresServer, startPostgres } from "./server.ts";

let server: PostgresServer;
before(async () => {
  server = await startPostgres();
});
after(() => server.close());

test("nodes that start together migrate once, and leave no receipt when they close", async () => {
  const url = await server.newDatabase();
  const stores = await Promise.all(Array.from({ length: 4 }, () => openPostgresStore(url)));
  for (const store of stores) assert.equal(store.streams.durability, "fsync");
  await Promise.all(stores.map((store) => store.close()));
  assert.deepEqual(await asked(url, "SELECT store FROM holdfast.receipts"), []);
});

test("tables that are too new for this software are refused, and left alone", async () => {
  const url = await server.newDatabase();
  await (await openPostgresStore(url)).close();
  await asked(url, "UPDATE holdfast.schema_version SET version = 900, usable_from = 900");
  await assert.rejects(openPostgresStore(url), /version 900.*upgrade it/);
});

test("F5: settings that would lose what was acknowledged are refused, whoever made them", async () => {
  const url = await server.newDatabase();
  await asked(url, "ALTER ROLE holdfast SET synchronous_commit = off");
  try {
    await assert.rejects(openPostgresStore(url), /set synchronous_commit = on/);
  } finally {
    await asked(url, "ALTER ROLE holdfast RESET synchronous_commit");
  }
});

test("E4: a password is in no error", async () => {
  const canary = "canary-4711";
  const url = `postgres://nobody:${canary}@127.0.0.1:${server.port}/none?sslmode=disable`;
  await assert.rejects(openPostgresStore(url), (error) => {
    assert.ok(error instanceof HoldfastError);
    assert.match(error.message, /cannot be reached/);
    assert.ok(!`${error.stack} ${String(error.cause)}`.includes(canary));
    return true;
  });
});

test("F5: a role that may not make Holdfast's tables, change or read them is refused, and what to grant is said", async () => {
  const url = await server.newDatabase();
  await asked(url, "CREATE ROLE weak LOGIN");
  const weak = url.replace("holdfast@", "weak@");
  const grant = /the role weak may not make.*own the schema holdfast.*GRANT CREATE ON DATABASE \w+ TO weak$/;
  await assert.rejects(openPostgresStore(weak), grant);
  await (await openPostgresStore(url)).close();
  const admin = await openPostgresAdmin(weak, {});
  await assert.rejects(admin.status(), grant);
  await admin.close();
  await asked(
    url,
    "GRANT USAGE ON SCHEMA holdfast TO weak; GRANT ALL ON ALL TABLES IN SCHEMA holdfast TO weak",
  );
  await asked(url, "UPDATE holdfast.schema_version SET version = 2");
  await assert.rejects(openPostgresStore(weak), grant);
  await asked(url, "DROP SCHEMA holdfast CASCADE");
  await asked(url, `GRANT CREATE ON DATABASE ${new URL(url).pathname.slice(1)} TO weak`);
  await (await openPostgresStore(weak)).close();
});
