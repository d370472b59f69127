/**
 * `holdfast store`: the tables in a shared PostgreSQL: brought up to date, counted, checked.
 *
 * The address comes from --store, HOLDFAST_STORE or the config file; what is printed names the place, never the password (E4).
 */
import { openPostgresAdmin, type StoreAdmin, type StoreStatus } from "../store/postgres/index.ts";
import { usageError } from "../node/failures.ts";
import { type Flags, resolveSettings } from "./settings.ts";
import { counted, fileSize, type Surroundings, terminal } from "./terminal.ts";

export interface StoreFlags extends Pick<Flags, "store" | "config"> {
  readonly json?: boolean;
}

const EXIT_DAMAGED = 3;

export async function migrateStore(flags: StoreFlags, surroundings: Surroundings): Promise<void> {
  const applied = await withStore(flags, surroundings, (store) => store.migrate());
  show(flags, surroundings, { applied }, [
    applied.length === 0 ? "The tables are up to date." : `Brought the tables to version ${applied.at(-1)}.`,
  ]);
}

export async function storeStatus(flags: StoreFlags, surroundings: Surroundings): Promise<void> {
  const status = await withStore(flags, surroundings, (store) => store.status());
  show(flags, surroundings, status, statusLines(status));
}

export async function checkStore(flags: StoreFlags, surroundings: Surroundings): Promise<void> {
  const findings = await withStore(flags, surroundings, (store) => store.check());
  const isWhole = findings.length === 0;
  show(flags, surroundings, { whole: isWhole, findings }, isWhole ? ["The store is whole."] : findings);
  if (!isWhole) process.exitCode = EXIT_DAMAGED;
}

const TABLES: Readonly<Record<StoreStatus["schema"]["verdict"], string>> = {
  current: "up to date",
  behind: "to be brought up to date: a server does that when it starts, or `holdfast store migrate`",
  ahead: "newer than this software, which may use them all the same",
  too_new: "too new for this software: upgrade it",
};

function statusLines(status: StoreStatus): readonly string[] {
  const { place, serverVersion, durability, isPooled, schema, content } = status;
  const lines = [
    `${place}, PostgreSQL ${serverVersion}, durability ${durability}${isPooled ? ", behind a pooler" : ""}`,
    `tables: version ${schema.version} of ${schema.known}, ${TABLES[schema.verdict]}`,
  ];
  if (content === undefined) return lines;
  const { streams, open, tombstones, rows, blobs, openings, bytes } = content;
  return [
    ...lines,
    `${counted(streams, "stream")}, ${open} of them open, ${counted(tombstones, "tombstone")}, ${counted(rows, "row")}, ${counted(blobs, "blob")}; ${fileSize(bytes)} on the disk`,
    `${counted(openings, "process", "processes")} with the store open, or killed less than a week ago`,
  ];
}

function show(flags: StoreFlags, surroundings: Surroundings, data: object, lines: readonly string[]): void {
  const { print } = terminal(surroundings);
  for (const line of flags.json === true ? [JSON.stringify(data)] : lines) print(line);
}

async function withStore<Result>(
  flags: StoreFlags,
  surroundings: Surroundings,
  act: (store: StoreAdmin) => Promise<Result>,
): Promise<Result> {
  const { store } = resolveSettings(flags, surroundings);
  if (store === undefined) {
    throw usageError(
      "which PostgreSQL? Name it with --store postgres://user@host/database, or HOLDFAST_STORE",
    );
  }
  const admin = await openPostgresAdmin(store, surroundings.env);
  try {
    return await act(admin);
  } finally {
    await admin.close();
  }
}
