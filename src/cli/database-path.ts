/**
 * The database in a data directory. Apart from `data-dir.ts`, because it loads the store, and a command that
 * only prints its help should not.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { DATABASE_FILE } from "../store/index.ts";
import { usageError } from "../node/failures.ts";
import type { Flags, ResolvedSettings } from "./settings.ts";

export function databasePath(dataDir: string): string {
  return join(dataDir, DATABASE_FILE);
}

/** For commands that read a SQLite file: where streams are in PostgreSQL, the default data directory would be the wrong place to look. */
export function inspectedDatabase(
  flags: Pick<Flags, "dataDir">,
  settings: Pick<ResolvedSettings, "dataDir" | "store">,
): string {
  if (settings.store === undefined || flags.dataDir !== undefined) return existingDatabase(settings.dataDir);
  throw usageError(
    "the streams are in PostgreSQL, and this command reads the SQLite file of a data directory: see `holdfast store status` and `holdfast store check`, or name a directory with --data-dir",
  );
}

/** Commands that only look must not leave a directory or an empty database behind. */
export function existingDatabase(dataDir: string): string {
  const path = databasePath(dataDir);
  if (existsSync(path)) return path;
  throw usageError(`there is no database of a server in ${dataDir}; name its directory with --data-dir`);
}
