/**
 * What an operator asks of a shared database: which version its tables have, how much is in it, and whether it is whole.
 *
 * A check looks at everything that can be seen without a key: that both logs of each stream are dense up to where its row says they stand, and that nothing is there that belongs to
 * nothing. It reads one snapshot, so it may run beside nodes that write.
 */
import { homedir } from "node:os";
import { assert } from "../../protocol/assert.ts";
import type { Durability } from "../../protocol/frames.ts";
import { parseAddress, shown, type Variables } from "./address.ts";
import { connectToChange, number, type Row, text } from "./driver.ts";
import { findSchema, migrate } from "./migrate.ts";
import { type FoundSchema, judgeSchema, SCHEMA_VERSION, type SchemaVerdict } from "./schema.ts";

export interface StoreStatus {
  /** Without a password. */
  readonly place: string;
  readonly serverVersion: string;
  readonly durability: Durability;
  readonly isPooled: boolean;
  readonly schema: FoundSchema & { readonly known: number; readonly verdict: SchemaVerdict["kind"] };
  /** Undefined when there are no tables yet. */
  readonly content: StoreContent | undefined;
}

export interface StoreContent {
  readonly streams: number;
  readonly open: number;
  readonly tombstones: number;
  readonly rows: number;
  readonly blobs: number;
  /** Processes that have the store open, or were killed less than a week ago. */
  readonly openings: number;
  /** On the disk, with indexes. */
  readonly bytes: number;
}

export interface StoreAdmin {
  status(): Promise<StoreStatus>;
  /** The versions that were applied. */
  migrate(): Promise<readonly number[]>;
  /** What is wrong, one line each. */
  check(): Promise<readonly string[]>;
  /** Everything of Holdfast's in this database, for good. */
  removeTables(): Promise<void>;
  close(): Promise<void>;
}

/** More would say the same again. */
const FINDINGS_MAX = 100;

const CONTENT = `SELECT (SELECT count(*) FROM holdfast.streams) AS streams,
  (SELECT count(*) FROM holdfast.streams WHERE end_reason IS NULL) AS open,
  (SELECT count(*) FROM holdfast.tombstones) AS tombstones,
  (SELECT count(*) FROM holdfast.rows WHERE expires_ms IS NULL OR expires_ms > holdfast.now_ms()) AS rows,
  (SELECT count(*) FROM holdfast.blobs) AS blobs,
  (SELECT count(*) FROM holdfast.receipts) AS openings,
  (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
    WHERE c.relnamespace = 'holdfast'::regnamespace AND c.relkind IN ('r', 'p')) AS bytes`;

/** Each tells what it found wrong as one column, `finding`. */
const CHECKS: readonly string[] = [
  `WITH batches AS (
      SELECT stream, log, first, count, lag(first + count) OVER (PARTITION BY stream, log ORDER BY first) AS due FROM holdfast.log
    ) SELECT format('stream %s has a gap in its %s before %s', stream, CASE log WHEN 0 THEN 'chunks' ELSE 'events' END, first) AS finding
    FROM batches WHERE due IS NOT NULL AND due <> first`,
  `SELECT format('stream %s stands at chunk %s, and its log at %s', s.id, s.next_seqno, coalesce(l.next, 0)) AS finding
    FROM holdfast.streams s LEFT JOIN (SELECT stream, max(first + count) AS next, min(first) AS first FROM holdfast.log WHERE log = 0 GROUP BY stream) l
      ON l.stream = s.id
    WHERE coalesce(l.next, 0) <> s.next_seqno OR coalesce(l.first, 0) <> 0`,
  `SELECT format('stream %s stands at event %s, and its log at %s', s.id, s.event_head, coalesce(l.next, 1) - 1) AS finding
    FROM holdfast.streams s LEFT JOIN (SELECT stream, max(first + count) AS next, min(first) AS first FROM holdfast.log WHERE log = 1 GROUP BY stream) l
      ON l.stream = s.id
    WHERE (s.event_floor <= s.event_head AND (coalesce(l.next, 1) - 1 <> s.event_head OR l.first > s.event_floor))`,
  `SELECT format('%s batches belong to no stream', count(*)) AS finding FROM holdfast.log l
    WHERE NOT EXISTS (SELECT FROM holdfast.streams s WHERE s.id = l.stream AND s.period = l.period) HAVING count(*) > 0`,
  `SELECT format('a stream and its tombstone are both there: %s', s.id) AS finding FROM holdfast.streams s
    JOIN holdfast.tombstones t ON t.principal = s.principal AND t.idempotency_key = s.idempotency_key`,
  `SELECT format('blob %s has %s bytes of %s', b.id, coalesce(p.bytes, 0), b.stored_bytes) AS finding FROM holdfast.blobs b
    LEFT JOIN (SELECT upload, sum(octet_length(bytes)) AS bytes FROM holdfast.blob_parts GROUP BY upload) p ON p.upload = b.upload
    WHERE p.bytes IS NULL OR p.bytes <> b.stored_bytes`,
];

export async function openPostgresAdmin(url: string, variables: Variables): Promise<StoreAdmin> {
  const address = parseAddress(url, variables, homedir());
  const connection = await connectToChange(address, "holdfast store");
  const rowsOf = async (query: string): Promise<readonly Row[]> =>
    (await connection.ask({ text: query })).rows;

  async function content(): Promise<StoreContent> {
    const [row] = await rowsOf(CONTENT);
    assert(row !== undefined, "counts are one row");
    const count = (column: string): number => number(row, column);
    return {
      streams: count("streams"),
      open: count("open"),
      tombstones: count("tombstones"),
      rows: count("rows"),
      blobs: count("blobs"),
      openings: count("openings"),
      bytes: count("bytes"),
    };
  }

  return {
    async status() {
      const [row] = await rowsOf("SELECT current_setting('server_version') AS version");
      const found = await findSchema(connection);
      return {
        place: shown(address),
        serverVersion: row === undefined ? "unknown" : text(row, "version"),
        durability: connection.settings.durability,
        isPooled: connection.settings.isPooled,
        schema: { ...found, known: SCHEMA_VERSION, verdict: judgeSchema(found).kind },
        content: found.version === 0 ? undefined : await content(),
      };
    },
    migrate: () => migrate(connection),
    async check() {
      if ((await findSchema(connection)).version === 0)
        return ["there are no tables of Holdfast in this database"];
      const findings: string[] = [];
      await rowsOf("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
      for (const query of CHECKS) {
        const found = await rowsOf(`${query} LIMIT ${FINDINGS_MAX}`);
        findings.push(...found.map((row) => text(row, "finding")));
      }
      await rowsOf("COMMIT");
      return findings;
    },
    async removeTables() {
      await rowsOf("DROP SCHEMA IF EXISTS holdfast CASCADE");
    },
    close: () => connection.end(),
  };
}
