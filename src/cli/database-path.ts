/**
 * The database in a data directory. Apart from `data-dir.ts`, because it loads the store, and a command that
 * only prints its help should not.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { DATABASE_FILE } from "../store/index.ts";
import { usageError } from "../node/failures.ts";

export function databasePath(dataDir: string): string {
  return join(dataDir, DATABASE_FILE);
}

/** Commands that only look must not leave a directory or an empty database behind. */
export function existingDatabase(dataDir: string): string {
  const path = databasePath(dataDir);
  if (existsSync(path)) return path;
  throw usageError(`there is no database of a server in ${dataDir}; name its directory with --data-dir`);
}
