/**
 * The tables of a shared database, as a list of migrations. Each is applied once, in order, in one transaction under a lock (`migrate.ts`).
 *
 * Old and new nodes run side by side while an installation is upgraded, so a migration only adds. `usableFrom` is the oldest version of
 * the software's tables that may be used after it; raising it is what stops old nodes, and is said in the release notes.
 *
 * What lies in the tables is sealed before it comes here. Streams' rows are written at every commit: the fill factor leaves room so that a new version
 * of a row stays on its page, and no index covers what changes at each commit (`idle_slot` changes every ten minutes).
 */

export interface Migration {
  readonly version: number;
  /** The oldest version that may use the tables after this migration. */
  readonly usableFrom: number;
  readonly sql: string;
}

/** How coarse the index of idle streams is: a stream's entry moves at most so often. */
export const IDLE_SLOT_MS = 600_000;
/** Streams made in the same period share a partition of the log (`partitions.ts`). */
export const PERIOD_MS = 3_600_000;

const FIRST = `
CREATE TABLE holdfast.receipts (
  store bigint PRIMARY KEY,
  term bigint NOT NULL,
  group_number bigint NOT NULL,
  row_version bigint NOT NULL,
  now_ms bigint NOT NULL
) WITH (fillfactor = 20);

CREATE SEQUENCE holdfast.row_versions;

-- The one clock of leases, retention and expiry.
CREATE FUNCTION holdfast.now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS
  'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint';

CREATE TABLE holdfast.streams (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  principal text COLLATE "C" NOT NULL,
  idempotency_key text COLLATE "C" NOT NULL,
  period bigint NOT NULL,
  birth bigint NOT NULL,
  key_check bytea NOT NULL,
  conversation_check bytea,
  created_ms bigint NOT NULL,
  activity_ms bigint NOT NULL,
  idle_slot bigint NOT NULL,
  host_epoch bigint NOT NULL,
  host_id text NOT NULL,
  lease_ms bigint NOT NULL,
  lease_until_ms bigint NOT NULL,
  writers text NOT NULL,
  writer_count bigint NOT NULL,
  writer_epoch bigint NOT NULL,
  next_seqno bigint NOT NULL,
  event_head bigint NOT NULL,
  event_floor bigint NOT NULL,
  is_closed boolean NOT NULL,
  is_aborted boolean NOT NULL,
  end_reason text,
  UNIQUE (principal, idempotency_key)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX streams_open ON holdfast.streams (principal) WHERE end_reason IS NULL;
CREATE INDEX streams_idle ON holdfast.streams (idle_slot);

CREATE TABLE holdfast.tombstones (
  principal text COLLATE "C" NOT NULL,
  idempotency_key text COLLATE "C" NOT NULL,
  key_check bytea NOT NULL,
  gone_ms bigint NOT NULL,
  PRIMARY KEY (principal, idempotency_key)
);
CREATE INDEX tombstones_age ON holdfast.tombstones (gone_ms);

-- log: 0 for chunks, 1 for events. macs: of chunks, each behind its length.
CREATE TABLE holdfast.log (
  period bigint NOT NULL,
  stream bigint NOT NULL,
  log smallint NOT NULL,
  first bigint NOT NULL,
  count bigint NOT NULL,
  sealed bytea NOT NULL,
  macs bytea,
  PRIMARY KEY (period, stream, log, first)
);
-- Sealed bytes do not compress.
ALTER TABLE holdfast.log ALTER COLUMN sealed SET STORAGE EXTERNAL;

CREATE TABLE holdfast.rows (
  tab text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  version bigint NOT NULL,
  expires_ms bigint,
  value bytea NOT NULL,
  PRIMARY KEY (tab, key)
) WITH (fillfactor = 70);
CREATE INDEX rows_ends ON holdfast.rows (expires_ms) WHERE expires_ms IS NOT NULL;

CREATE TABLE holdfast.blobs (
  space text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  upload uuid NOT NULL,
  stored_bytes bigint NOT NULL,
  stored_ms bigint NOT NULL,
  PRIMARY KEY (space, id)
);
CREATE INDEX blobs_upload ON holdfast.blobs (upload);
CREATE TABLE holdfast.blob_parts (
  upload uuid NOT NULL,
  part bigint NOT NULL,
  begun_ms bigint NOT NULL,
  bytes bytea NOT NULL,
  PRIMARY KEY (upload, part)
);
CREATE INDEX blob_parts_age ON holdfast.blob_parts (begun_ms);
ALTER TABLE holdfast.blob_parts ALTER COLUMN bytes SET STORAGE EXTERNAL;
CREATE TABLE holdfast.blob_spaces (
  space text COLLATE "C" PRIMARY KEY,
  ends_ms bigint NOT NULL
);
CREATE INDEX blob_spaces_ends ON holdfast.blob_spaces (ends_ms);
`;

const LETTERS = `
CREATE TABLE holdfast.letters (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  host_id text COLLATE "C" NOT NULL,
  principal text COLLATE "C" NOT NULL,
  idempotency_key text COLLATE "C" NOT NULL,
  host_epoch bigint NOT NULL,
  posted_ms bigint NOT NULL,
  sealed bytea NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
CREATE INDEX letters_to ON holdfast.letters (host_id, number);
ALTER TABLE holdfast.letters ALTER COLUMN sealed SET STORAGE EXTERNAL;
`;

/**
 * The log that is there becomes the partition for the rest, as it is: nothing is moved or read. Nodes that know nothing of partitions write and read `holdfast.log` as before.
 */
const PARTITIONS = `
ALTER TABLE holdfast.log RENAME TO log_rest;
ALTER TABLE holdfast.log_rest RENAME CONSTRAINT log_pkey TO log_rest_pkey;
CREATE TABLE holdfast.log (
  LIKE holdfast.log_rest INCLUDING STORAGE,
  PRIMARY KEY (period, stream, log, first)
) PARTITION BY RANGE (period);
ALTER TABLE holdfast.log ATTACH PARTITION holdfast.log_rest DEFAULT;
CREATE INDEX streams_period ON holdfast.streams (period);
`;

export const MIGRATIONS: readonly Migration[] = [
  { version: 1, usableFrom: 1, sql: FIRST },
  { version: 2, usableFrom: 1, sql: LETTERS },
  { version: 3, usableFrom: 1, sql: PARTITIONS },
];

/** Of the tables that this software knows. */
export const SCHEMA_VERSION = MIGRATIONS.at(-1)?.version ?? 0;

export interface FoundSchema {
  /** 0 when there is nothing yet. */
  readonly version: number;
  readonly usableFrom: number;
}

export type SchemaVerdict =
  | { readonly kind: "current" }
  /** These have to be applied, in this order. */
  | { readonly kind: "behind"; readonly missing: readonly Migration[] }
  /** Newer than this software, which may use it all the same. */
  | { readonly kind: "ahead" }
  | { readonly kind: "too_new" };

export function judgeSchema(found: FoundSchema, migrations = MIGRATIONS): SchemaVerdict {
  const own = migrations.at(-1)?.version ?? 0;
  if (found.usableFrom > own) return { kind: "too_new" };
  if (found.version > own) return { kind: "ahead" };
  const missing = migrations.filter(({ version }) => version > found.version);
  return missing.length === 0 ? { kind: "current" } : { kind: "behind", missing };
}
