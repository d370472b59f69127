/**
 * The log's partitions: ranges of creation periods, made ahead of time, and dropped when their streams are gone.
 *
 * Deleted rows leave holes that only the same table can fill, and a table never shrinks by itself. A partition that is dropped gives its space back at once. What is left of a closed range (the *stragglers*)
 * is moved into the partition for the rest when it is little; the rows keep their key, so no node notices. That partition also takes what no range is there for, so a node that makes none
 * (an older one, or one whose tidying failed) loses nothing.
 *
 * Each change takes the log's lock for a moment. It does not wait long for it: a change that was not made is tried again by the next tidying, of any node.
 *
 * Invariant: a batch lies in exactly one partition, and only batches of streams that are gone go with a partition.
 */
import { assert } from "../../protocol/assert.ts";
import { type Connection, number, text } from "./driver.ts";
import { LOCK_ROW } from "./migrate.ts";
import { PERIOD_MS } from "./schema.ts";

/** Periods `from` to `to` - 1. */
export interface Range {
  readonly from: number;
  readonly to: number;
}

/** With the usual retention of a day, five or six partitions. */
const SPAN = 6;
/** Each read's plan knows all partitions. Where retention is long, the next ranges are longer. */
const PARTITIONS_PER_SPAN = 16;
/** So many ranges are there before they are needed. */
const AHEAD = 2;
/** A transaction that made a stream in a range's last moment is over by then. */
const CLOSED_PERIODS = 1;
/** A range whose streams have not ended yet is left alone: stragglers are a small part of what the partition takes on the disk. */
const STRAGGLERS_PART = 1 / 8;
/** What is moved in one step while commits wait: a fraction of a second. */
const MOVED_STREAMS_MAX = 1_000;
const MOVED_ROWS_MAX = 10_000;
const MOVED_BYTES_MAX = 16 * 1024 * 1024;
const LOCK_MS_MAX = 1_000;

/** The ranges that are missing, when these are there in that period. A range begins behind the period that runs: the rest has rows of that one. */
export function missingRanges(there: readonly Range[], period: number): readonly Range[] {
  const missing: Range[] = [];
  const span = SPAN * 2 ** Math.floor(there.length / PARTITIONS_PER_SPAN);
  let end = Math.max(period + 1, ...there.map(({ to }) => to));
  while (end < period + AHEAD * span) {
    missing.push({ from: end, to: end + span });
    end += span;
  }
  return missing;
}

/** No stream is made in them any more. */
export function closedRanges(there: readonly Range[], period: number): readonly Range[] {
  return there.filter(({ to }) => to + CLOSED_PERIODS <= period);
}

/** What is left of a closed range. */
export interface Left {
  readonly streams: number;
  readonly rows: number;
  readonly bytes: number;
  /** What its partition takes on the disk. */
  readonly diskBytes: number;
}

export function isLittle({ streams, rows, bytes, diskBytes }: Left): boolean {
  if (bytes > diskBytes * STRAGGLERS_PART) return false;
  return streams <= MOVED_STREAMS_MAX && rows <= MOVED_ROWS_MAX && bytes <= MOVED_BYTES_MAX;
}

const partitionOf = ({ from, to }: Range): string => `log_${from}_${to}`;

function rangeOf(partition: string): Range | undefined {
  const [, from, to] = /^log_(\d+)_(\d+)$/.exec(partition) ?? [];
  return from === undefined ? undefined : { from: Number(from), to: Number(to) };
}

/** Makes what is missing and drops what is over. What another transaction is in the way of is left for the next time. */
export async function keepPartitions(connection: Connection): Promise<void> {
  const found = await connection.ask({
    text: `SELECT c.relname::text AS name, holdfast.now_ms() / ${PERIOD_MS} AS period
      FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'holdfast.log'::regclass`,
  });
  const there = found.rows.flatMap((row) => rangeOf(text(row, "name")) ?? []);
  const [first] = found.rows;
  if (first === undefined) return;
  const period = number(first, "period");
  for (const range of missingRanges(there, period)) await changed(connection, made(range));
  for (const range of closedRanges(there, period))
    if (isLittle(await leftOf(connection, range))) await changed(connection, dropped(range));
}

function made(range: Range): string {
  const name = partitionOf(range);
  return `CREATE TABLE holdfast.${name} (LIKE holdfast.log INCLUDING ALL);
    ALTER TABLE holdfast.log ATTACH PARTITION holdfast.${name} FOR VALUES FROM (${range.from}) TO (${range.to})`;
}

/** Without its partition, what is left finds its place in the rest. */
function dropped(range: Range): string {
  const name = partitionOf(range);
  return `ALTER TABLE holdfast.log DETACH PARTITION holdfast.${name};
    INSERT INTO holdfast.log SELECT * FROM holdfast.${name};
    DROP TABLE holdfast.${name}`;
}

async function leftOf(connection: Connection, { from, to }: Range): Promise<Left> {
  const name = partitionOf({ from, to });
  const { rows } = await connection.ask({
    text: `WITH left_streams AS MATERIALIZED (
        SELECT id, period FROM holdfast.streams WHERE period >= $1 AND period < $2 LIMIT ${MOVED_STREAMS_MAX + 1}
      ) SELECT (SELECT count(*) FROM left_streams) AS streams, count(*) AS rows, coalesce(sum(bytes), 0)::bigint AS bytes,
        pg_total_relation_size('holdfast.${name}') AS disk_bytes FROM (
        SELECT octet_length(l.sealed) AS bytes FROM left_streams s
        JOIN holdfast.${name} l ON l.period = s.period AND l.stream = s.id LIMIT ${MOVED_ROWS_MAX + 1}) b`,
    values: [from, to],
  });
  const [row] = rows;
  assert(row !== undefined, "counts are one row");
  const count = (column: string): number => number(row, column);
  return {
    streams: count("streams"),
    rows: count("rows"),
    bytes: count("bytes"),
    diskBytes: count("disk_bytes"),
  };
}

/** One node at a time, in a transaction of its own, and never beside a migration. */
async function changed(connection: Connection, change: string): Promise<void> {
  try {
    await connection.ask({ text: `BEGIN; SET LOCAL lock_timeout = ${LOCK_MS_MAX}` });
    const { rows } = await connection.ask({ text: `${LOCK_ROW} SKIP LOCKED` });
    if (rows.length > 0) await connection.ask({ text: change });
    await connection.ask({ text: "COMMIT" });
  } catch (error) {
    await connection.ask({ text: "ROLLBACK" });
    if (!isInTheWay(error)) throw error;
  }
}

/** A lock that was not had in time, a range that the rest has rows of by now, or a change that another node has made: what is there is looked at anew next time. */
function isInTheWay(error: unknown): boolean {
  const code = typeof error === "object" && error !== null && "code" in error ? error.code : undefined;
  return typeof code === "string" && ["55P03", "40P01", "23514", "42P07", "42P01"].includes(code);
}
