/**
 * Brings the tables of a database up to what this software knows, and refuses what is too new for it.
 *
 * The row that says which version the tables have is also the lock: a node that changes tables locks it, in the transaction that makes the change. A transaction pooler keeps that lock as it keeps
 * the transaction, and the server gives it back with the connection of a node that dies. A node that falls silent in the middle (stopped, or cut off without a word) loses its transaction after a while.
 *
 * No lock is waited for longer than a moment, because the commits of other nodes queue behind a change that waits. What was in the way then is met again a little later.
 *
 * Invariant: a migration is applied whole or not at all, and by one node.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { HoldfastError } from "../../protocol/errors.ts";
import { type Connection, number } from "./driver.ts";
import { meaningOf, sqlState, unavailable } from "./failures.ts";
import { type FoundSchema, judgeSchema, type Migration, SCHEMA_VERSION } from "./schema.ts";

interface MigratePatience {
  /** For a lock, in one try. */
  readonly lockMsMax: number;
  /** A node that says nothing for so long in the middle of a migration has lost it. */
  readonly silenceMsMax: number;
  /** For all tries together. */
  readonly waitMsMax: number;
}

const PATIENCE: MigratePatience = { lockMsMax: 2_000, silenceMsMax: 10_000, waitMsMax: 60_000 };
const PAUSE_MS = 250;

/** Locks the row until the transaction ends. */
export const LOCK_ROW = "SELECT version, usable_from FROM holdfast.schema_version FOR UPDATE";

/** Version 0: nothing is applied yet. */
const MAKE_ROW = `CREATE SCHEMA IF NOT EXISTS holdfast;
  CREATE TABLE IF NOT EXISTS holdfast.schema_version (only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one), version bigint NOT NULL, usable_from bigint NOT NULL);
  INSERT INTO holdfast.schema_version (version, usable_from) VALUES (0, 0) ON CONFLICT (only_one) DO NOTHING`;

/** Another node made it at the same moment. */
const MADE_MEANWHILE = new Set(["23505", "42P06", "42P07"]);

/** How the tables are now; version 0 when there are none. */
export async function findSchema(connection: Connection): Promise<FoundSchema> {
  return (await findRow(connection)) ?? { version: 0, usableFrom: 0 };
}

async function findRow(connection: Connection): Promise<FoundSchema | undefined> {
  const [there] = (
    await connection.ask({
      text: "SELECT count(*) AS count FROM pg_tables WHERE schemaname = 'holdfast' AND tablename = 'schema_version'",
    })
  ).rows;
  if (there === undefined || number(there, "count") === 0) return undefined;
  return rowIn(connection, "SELECT version, usable_from FROM holdfast.schema_version");
}

async function rowIn(connection: Connection, text: string): Promise<FoundSchema | undefined> {
  const [row] = (await connection.ask({ text })).rows;
  return row && { version: number(row, "version"), usableFrom: number(row, "usable_from") };
}

/** Resolves with the versions that were applied. Rejects when something else is in the way for too long. */
export async function migrate(connection: Connection, patience = PATIENCE): Promise<readonly number[]> {
  const untilMs = performance.now() + patience.waitMsMax;
  for (;;) {
    try {
      const found = await findRow(connection);
      if (found === undefined) await connection.ask({ text: MAKE_ROW });
      else if (judge(found).length === 0) return [];
      return await migrateLocked(connection, patience);
    } catch (error) {
      const isMade = MADE_MEANWHILE.has(sqlState(error) ?? "");
      if (!isMade && meaningOf(error) !== "again") throw error;
      if (performance.now() > untilMs) {
        throw unavailable(
          "the tables could not be migrated: another node, or a transaction that does not end, holds their lock",
          error,
        );
      }
    }
    await sleep(PAUSE_MS);
  }
}

async function migrateLocked(
  connection: Connection,
  { lockMsMax, silenceMsMax }: MigratePatience,
): Promise<readonly number[]> {
  await connection.ask({
    text: `BEGIN; SET LOCAL lock_timeout = ${lockMsMax}; SET LOCAL idle_in_transaction_session_timeout = ${silenceMsMax}; SET LOCAL statement_timeout = 0`,
  });
  try {
    // Another node may have done it while this one waited.
    const missing = judge((await rowIn(connection, LOCK_ROW)) ?? { version: 0, usableFrom: 0 });
    for (const migration of missing) await apply(connection, migration);
    await connection.ask({ text: "COMMIT" });
    return missing.map(({ version }) => version);
  } catch (error) {
    await connection.ask({ text: "ROLLBACK" }).catch(() => undefined);
    throw error;
  }
}

async function apply(connection: Connection, { version, usableFrom, sql }: Migration): Promise<void> {
  await connection.ask({ text: sql });
  await connection.ask({
    text: "UPDATE holdfast.schema_version SET version = $1, usable_from = $2",
    values: [version, usableFrom],
  });
}

function judge(found: FoundSchema): readonly Migration[] {
  const verdict = judgeSchema(found);
  if (verdict.kind === "too_new") {
    throw new HoldfastError(
      "invalid_argument",
      `the tables of the database are of version ${found.version}, made for software that knows at least ${found.usableFrom}; this one knows ${SCHEMA_VERSION}: upgrade it`,
    );
  }
  return verdict.kind === "behind" ? verdict.missing : [];
}
