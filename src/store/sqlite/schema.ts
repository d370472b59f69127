/**
 * The tables of a Holdfast database, and the numbers that name its format.
 *
 * `log` is the commit log: a row per group commit with a checksum over its number and its bytes, so that
 * neither a flipped bit nor a row in the wrong place is taken for a record. The body comes last, so a scan
 * does not read the pages it lies in. The rest is small.
 *
 * `blobs` is its own index: its names are longer than all else in it. Files of version 0.1.0 have them twice, and are used as they are.
 *
 * Times are REAL: a clock may tell fractions of a millisecond.
 *
 * A row's number is one above the highest there ever was: the highest row that is there, or the last
 * one that a drop noted. AUTOINCREMENT would promise the same and write one page more with every commit.
 */

/** "Hfst": tells our files from those of any other program. */
export const APPLICATION_ID = 0x48667374;
/** Kept in `user_version`; a higher one than this is refused. */
export const DATABASE_FORMAT = 1;

/** Larger pages make the chain of a large record shorter and every small commit longer: measured, it costs more than it gives. */
export const PAGE_BYTES = 4096;

export const SCHEMA = `
  CREATE TABLE log (
    row INTEGER PRIMARY KEY,
    crc INTEGER NOT NULL,
    record BLOB NOT NULL,
    body_crc INTEGER,
    body BLOB
  ) STRICT;

  CREATE TABLE rows (
    tab TEXT NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    expires_ms REAL,
    value BLOB NOT NULL,
    PRIMARY KEY (tab, key)
  ) STRICT;
  CREATE INDEX rows_that_end ON rows (expires_ms) WHERE expires_ms IS NOT NULL;

  -- Versions and uploads are drawn from it; one row.
  CREATE TABLE counter (
    last INTEGER NOT NULL
  ) STRICT;
  INSERT INTO counter VALUES (0);

  -- The highest row that was in the log when rows were last dropped; one row.
  CREATE TABLE log_end (
    row INTEGER NOT NULL
  ) STRICT;
  INSERT INTO log_end VALUES (0);

  CREATE TABLE blobs (
    space TEXT NOT NULL,
    id TEXT NOT NULL,
    upload INTEGER NOT NULL,
    stored_bytes INTEGER NOT NULL,
    stored_ms REAL NOT NULL,
    PRIMARY KEY (space, id)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE blob_parts (
    upload INTEGER NOT NULL,
    part INTEGER NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (upload, part)
  ) STRICT;
`;

/** Small, and nothing else would notice damage in them; the log checks itself, blobs are checked by their ids. */
export const TABLES_TO_CHECK = ["rows", "counter", "log_end", "blobs"] as const;
