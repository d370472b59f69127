/**
 * Brings the tables of a database up to what this software knows, under a lock, and refuses what is too new for it.
 *
 * Everything happens in one transaction, which holds a lock of the transaction: it works through a pooler, and a node that starts meanwhile waits and finds it done.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import { type Connection, number } from "./driver.ts";
import { type FoundSchema, judgeSchema, type Migration, MIGRATIONS, SCHEMA_VERSION } from "./schema.ts";

/** Any number will do, as long as it is always the same. */
const LOCK = 7_306_932_417;

/** How the tables are now; version 0 when there are none. */
export async function findSchema(connection: Connection): Promise<FoundSchema> {
  const [there] = (
    await connection.ask({
      text: "SELECT count(*) AS count FROM pg_tables WHERE schemaname = 'holdfast' AND tablename = 'schema_version'",
    })
  ).rows;
  if (there === undefined || number(there, "count") === 0) return { version: 0, usableFrom: 0 };
  const [row] = (await connection.ask({ text: "SELECT version, usable_from FROM holdfast.schema_version" }))
    .rows;
  return row === undefined
    ? { version: 0, usableFrom: 0 }
    : { version: number(row, "version"), usableFrom: number(row, "usable_from") };
}

/** Resolves with the versions that were applied. */
export async function migrate(connection: Connection): Promise<readonly number[]> {
  const before = judge(await findSchema(connection));
  if (before.length === 0) return [];
  await connection.ask({ text: "BEGIN" });
  try {
    await connection.ask({ text: "SELECT pg_advisory_xact_lock($1)", values: [LOCK] });
    // Another node may have done it while this one waited.
    const missing = judge(await findSchema(connection));
    for (const migration of missing) await apply(connection, migration);
    await connection.ask({ text: "COMMIT" });
    return missing.map(({ version }) => version);
  } catch (error) {
    await connection.ask({ text: "ROLLBACK" }).catch(() => undefined);
    throw error;
  }
}

async function apply(connection: Connection, { version, usableFrom, sql }: Migration): Promise<void> {
  if (version === MIGRATIONS[0]?.version) {
    await connection.ask({
      text: "CREATE SCHEMA IF NOT EXISTS holdfast; CREATE TABLE holdfast.schema_version (only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one), version bigint NOT NULL, usable_from bigint NOT NULL)",
    });
  }
  await connection.ask({ text: sql });
  await connection.ask({
    text: `INSERT INTO holdfast.schema_version (version, usable_from) VALUES ($1, $2)
      ON CONFLICT (only_one) DO UPDATE SET version = excluded.version, usable_from = excluded.usable_from`,
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
