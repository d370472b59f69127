/**
 * `holdfast backup <directory>`: a copy of the data directory's database, made while the server runs, and checked as `holdfast doctor` does.
 *
 * The copy is a data directory: a server can be started on it. It gets its name when it is whole and on the disk, so a directory of that name is never half a
 * backup. The home key is not in it: a person who has both can read everything.
 */
import { chmodSync, existsSync, mkdirSync, renameSync, rmSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { failure, usageError } from "../node/failures.ts";
import { DATABASE_FILE, openSqliteReadOnly } from "../store/index.ts";
import { syncFolder } from "../store/sqlite/connection.ts";
import { inspectedDatabase } from "./database-path.ts";
import { check } from "./doctor.ts";
import { type DataFlags, resolveSettings } from "./settings.ts";
import { counted, fileSize, type Surroundings, terminal } from "./terminal.ts";

export async function backup(to: string, flags: DataFlags, surroundings: Surroundings): Promise<void> {
  const path = inspectedDatabase(flags, resolveSettings(flags, surroundings));
  const directory = resolve(surroundings.cwd, to);
  if (existsSync(directory)) throw usageError(`${directory} already exists; name a directory that does not`);
  const partial = `${directory}.partial`;
  rmSync(partial, { recursive: true, force: true });
  mkdirSync(partial, { recursive: true, mode: 0o700 });
  const copy = join(partial, DATABASE_FILE);
  const database = await openSqliteReadOnly(path, surroundings);
  try {
    await database.copyTo(copy);
  } finally {
    await database.close();
  }
  chmodSync(copy, 0o600);
  const { damage, streams } = await check(copy, surroundings);
  if (damage !== undefined)
    throw failure(`the copy is not whole: ${damage}; look at the disk, and try again`);
  renameSync(partial, directory);
  syncFolder(dirname(directory));
  const { size: bytes } = statSync(join(directory, DATABASE_FILE));
  const { print, note } = terminal(surroundings);
  if (flags.json === true) return print(JSON.stringify({ directory, bytes, streams: streams.size }));
  print(`${directory}: ${counted(streams.size, "stream")}, ${fileSize(bytes)}, checked.`);
  note(
    "To restore, start a server on it or on a copy. Keep the home key apart: the backup does not contain it.",
  );
}
