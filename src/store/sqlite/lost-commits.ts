/**
 * What was in the commits that a salvage gives up, as far as it can be read: a list of names, never something to build on.
 *
 * It is read from the database with everything that is left of the damaged log. Pages of it are wrong, so each row is read by
 * itself, and one that does not match its checksum is counted and passed over.
 */
import { DatabaseSync } from "node:sqlite";
import type { StreamName } from "../../core/stream-state.ts";
import { decodeRecord, type StreamEntry } from "../commit-record.ts";
import { number, text } from "./columns.ts";
import { logRows } from "./log-rows.ts";

/** Entries of one stream that are gone. */
export interface LostStream {
  /** Undefined when the commit that named it cannot be read. */
  readonly name: StreamName | undefined;
  readonly chunks: NumberSpan | undefined;
  readonly events: NumberSpan | undefined;
}

interface NumberSpan {
  readonly first: number;
  readonly last: number;
}

interface LostTable {
  readonly table: string;
  /** Rows that were written; rows that were deleted are not counted. */
  readonly rows: number;
}

export interface LostCommits {
  readonly streams: readonly LostStream[];
  readonly tables: readonly LostTable[];
  /** Records of the log that cannot be read; undefined when not even their number is known. */
  readonly unreadable: number | undefined;
}

/** Up to where the kept commits reach. */
export interface KeptEnd {
  readonly row: number;
  readonly counter: number;
}

export function keptEnd(path: string): KeptEnd {
  return reading(path, (database) => ({
    row: number(database.prepare("SELECT coalesce(max(row), 0) AS row FROM log").get(), "row"),
    counter: number(database.prepare("SELECT last FROM counter").get(), "last"),
  }));
}

/** `nameOf` tells the name of a stream that the kept commits know. */
export function findLost(
  path: string,
  kept: KeptEnd,
  nameOf: (stream: number) => StreamName | undefined,
): LostCommits {
  return reading(path, (database) => {
    const records = lostRecords(database, kept.row);
    return {
      streams: streamsOf(records?.entries ?? [], nameOf),
      tables: lostTables(database, kept.counter),
      unreadable: records?.unreadable,
    };
  });
}

interface LostRecords {
  readonly entries: readonly StreamEntry[];
  readonly unreadable: number;
}

function lostRecords(database: DatabaseSync, after: number): LostRecords | undefined {
  const rows = attempt(() => database.prepare("SELECT row FROM log WHERE row > ?").all(after));
  if (rows === undefined) return undefined;
  const { reads } = logRows(database);
  const read = rows.map((row) =>
    attempt(() => decodeRecord(reads.read({ row: number(row, "row") })).entries),
  );
  return {
    entries: read.flatMap((entries) => entries ?? []),
    unreadable: read.filter((entries) => entries === undefined).length,
  };
}

function streamsOf(
  entries: readonly StreamEntry[],
  nameOf: (stream: number) => StreamName | undefined,
): readonly LostStream[] {
  const streams = new Map<number, LostStream>();
  for (const { stream, chunks, events, meta } of entries) {
    const before = streams.get(stream);
    streams.set(stream, {
      name: before?.name ?? meta?.name ?? nameOf(stream),
      chunks: joined(before?.chunks, chunks),
      events: joined(before?.events, events),
    });
  }
  return [...streams.values()];
}

function joined(
  before: NumberSpan | undefined,
  batch: { readonly first: number; readonly count: number } | undefined,
): NumberSpan | undefined {
  if (batch === undefined) return before;
  const last = batch.first + batch.count - 1;
  return {
    first: Math.min(before?.first ?? batch.first, batch.first),
    last: Math.max(before?.last ?? last, last),
  };
}

/** Every write of a row draws its version from the counter. */
function lostTables(database: DatabaseSync, counter: number): readonly LostTable[] {
  const counted = "SELECT tab, count(*) AS rows FROM rows WHERE version > ? GROUP BY tab ORDER BY tab";
  const rows = attempt(() => database.prepare(counted).all(counter)) ?? [];
  return rows.map((row) => ({ table: text(row, "tab"), rows: number(row, "rows") }));
}

function reading<T>(path: string, read: (database: DatabaseSync) => T): T {
  const database = new DatabaseSync(path, { readOnly: true });
  try {
    database.exec("PRAGMA trusted_schema = OFF");
    return read(database);
  } finally {
    database.close();
  }
}

/** Undefined when damage is in the way. */
function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
