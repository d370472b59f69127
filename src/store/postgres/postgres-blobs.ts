/**
 * Blobs in PostgreSQL, in parts of a bounded size.
 *
 * Parts are sent beside the groups, so that a large blob holds none of them up. They mean nothing until the blob has its name, which a group gives it; the group's commit is
 * behind theirs in the server's log, so it is as durable as its name (A3). Parts without a name are removed when they are a day old.
 */
import { randomUUID } from "node:crypto";
import { assert } from "../../protocol/assert.ts";
import type { BlobStore } from "../blob-store.ts";
import { checkGot, checkPut, damagedBlob } from "../blob-store.ts";
import { sha256Hex } from "../memory-blob-store.ts";
import { bytes, number, type Row, type Statement, text } from "./driver.ts";
import { statement } from "./group-writer.ts";
import type { StoreParts } from "./stream-questions.ts";

const PART_BYTES = 512 * 1024;
const UNNAMED_MS = 24 * 3_600_000;

export function postgresBlobs({ writer, readers, close }: StoreParts): BlobStore {
  const ask = async (statement: Statement): Promise<readonly Row[]> => {
    writer.assertUsable();
    return readers.ask(statement);
  };
  const countOf = ([row]: readonly Row[]): number => (row === undefined ? 0 : number(row, "count"));

  /** A blob that is put anew while its parts are read lies elsewhere then: look again. */
  async function read(space: string, id: string): Promise<Uint8Array | undefined> {
    for (;;) {
      const found = await find(space, id);
      if (found === undefined) return undefined;
      const stored = await readParts(found.upload, found.storedBytes);
      if (stored !== undefined) return stored;
      if ((await find(space, id))?.upload === found.upload) throw damagedBlob(id);
    }
  }

  async function find(
    space: string,
    id: string,
  ): Promise<{ readonly upload: string; readonly storedBytes: number } | undefined> {
    const [row] = await ask({
      name: "holdfast-find-blob",
      text: "SELECT upload::text, stored_bytes FROM holdfast.blobs WHERE space = $1 AND id = $2",
      values: [space, id],
    });
    return row === undefined
      ? undefined
      : { upload: text(row, "upload"), storedBytes: number(row, "stored_bytes") };
  }

  async function readParts(upload: string, storedBytes: number): Promise<Uint8Array | undefined> {
    const stored = new Uint8Array(storedBytes);
    let filled = 0;
    for (let part = 0; filled < storedBytes; part++) {
      const [row] = await ask({
        name: "holdfast-read-part",
        text: "SELECT bytes FROM holdfast.blob_parts WHERE upload = $1 AND part = $2",
        values: [upload, part],
      });
      const body = row === undefined ? undefined : bytes(row, "bytes");
      if (body === undefined || filled + body.byteLength > storedBytes) return undefined;
      stored.set(body, filled);
      filled += body.byteLength;
    }
    return stored;
  }

  return {
    async put({ space, id }, given, sealer, keepMs) {
      assert(!space.includes("\0"), "a space is text without NUL");
      const own = new Uint8Array(given);
      checkPut({ space, id }, own, sha256Hex);
      const stored = sealer?.seal({ space, id }, own) ?? own;
      const upload = randomUUID();
      for (let part = 0; part === 0 || part * PART_BYTES < stored.byteLength; part++) {
        const body = Buffer.from(stored.subarray(part * PART_BYTES, (part + 1) * PART_BYTES));
        await ask({
          name: "holdfast-put-part",
          text: `INSERT INTO holdfast.blob_parts (upload, part, begun_ms, bytes)
            VALUES ($1, $2, holdfast.now_ms(), $3) ON CONFLICT DO NOTHING`,
          values: [upload, part, body],
        });
      }
      const [row] = await statement(writer, nameBlob(space, id, upload, stored.byteLength, keepMs));
      return { existed: row !== undefined && number(row, "count") > 0 };
    },
    async get({ space, id }, sealer) {
      const stored = await read(space, id);
      if (stored === undefined) return { kind: "miss" };
      const opened = sealer?.open({ space, id }, stored) ?? stored;
      checkGot({ space, id }, opened, sha256Hex);
      return { kind: "found", bytes: opened };
    },
    has: async ({ space, id }) => (await find(space, id)) !== undefined,
    delete: async ({ space, id }) =>
      countOf(
        await statement(writer, {
          name: "holdfast-delete-blob",
          text: `WITH gone AS (DELETE FROM holdfast.blobs WHERE space = $1 AND id = $2 RETURNING upload),
            parts AS (DELETE FROM holdfast.blob_parts WHERE upload IN (SELECT upload FROM gone))
            SELECT count(*) AS count FROM gone`,
          values: [space, id],
        }),
      ) > 0,
    async list(space, { after = "", countMax }) {
      const rows = await ask({
        name: "holdfast-list-blobs",
        text: `SELECT id, stored_bytes, stored_ms FROM holdfast.blobs
          WHERE space = $1 AND id > $2 ORDER BY id LIMIT $3`,
        values: [space, after, Math.max(0, countMax)],
      });
      return rows.map((row) => ({
        id: text(row, "id"),
        storedBytes: number(row, "stored_bytes"),
        storedMs: number(row, "stored_ms"),
      }));
    },
    /** One step of the index per space, however many blobs it holds. */
    async listSpaces({ after, countMax }) {
      const rows = await ask({
        name: "holdfast-list-spaces",
        text: `WITH RECURSIVE spaces(space) AS (
            (SELECT space FROM holdfast.blobs WHERE $1::text IS NULL OR space > $1 ORDER BY space LIMIT 1)
            UNION ALL
            SELECT (SELECT b.space FROM holdfast.blobs b WHERE b.space > s.space ORDER BY b.space LIMIT 1)
            FROM spaces s WHERE s.space IS NOT NULL)
          SELECT space FROM spaces WHERE space IS NOT NULL LIMIT $2`,
        values: [after ?? null, Math.max(0, countMax)],
      });
      return rows.map((row) => text(row, "space"));
    },
    clear: async (space) =>
      countOf(await statement(writer, clearSpaces("holdfast-clear-space", "VALUES ($1::text)", space))),
    /** Removes parts that never got a name, too. */
    async sweepSpaces(countMax) {
      await statement(writer, {
        name: "holdfast-sweep-parts",
        text: `DELETE FROM holdfast.blob_parts p WHERE p.begun_ms < holdfast.now_ms() - ${UNNAMED_MS}
          AND NOT EXISTS (SELECT FROM holdfast.blobs b WHERE b.upload = p.upload)`,
      });
      const [row] = await statement(
        writer,
        clearSpaces(
          "holdfast-sweep-spaces",
          "SELECT space FROM holdfast.blob_spaces WHERE ends_ms <= holdfast.now_ms() ORDER BY space LIMIT $1",
          countMax,
        ),
      );
      return row === undefined ? 0 : number(row, "spaces");
    },
    async storedBytes(prefix) {
      const [row] = await ask({
        name: "holdfast-stored-bytes",
        text: `SELECT coalesce(sum(stored_bytes), 0)::bigint AS bytes FROM holdfast.blobs WHERE space >= $1 AND space < $2`,
        values: [prefix, `${prefix}\u{10ffff}`],
      });
      return row === undefined ? 0 : number(row, "bytes");
    },
    close,
  };
}

/** The newer bytes stay: under another sealer they are other bytes for the same id. */
function nameBlob(
  space: string,
  id: string,
  upload: string,
  storedBytes: number,
  keepMs: number | undefined,
): Statement {
  return {
    name: "holdfast-name-blob",
    text: `WITH before AS (SELECT upload FROM holdfast.blobs WHERE space = $1 AND id = $2 FOR UPDATE),
      named AS (
        INSERT INTO holdfast.blobs (space, id, upload, stored_bytes, stored_ms) VALUES ($1, $2, $3, $4, holdfast.now_ms())
        ON CONFLICT (space, id) DO UPDATE
          SET upload = excluded.upload, stored_bytes = excluded.stored_bytes, stored_ms = excluded.stored_ms),
      replaced AS (DELETE FROM holdfast.blob_parts WHERE upload IN (SELECT upload FROM before WHERE upload <> $3)),
      kept AS (
        INSERT INTO holdfast.blob_spaces (space, ends_ms) SELECT $1, holdfast.now_ms() + $5::bigint WHERE $5 IS NOT NULL
        ON CONFLICT (space) DO UPDATE SET ends_ms = excluded.ends_ms)
      SELECT count(*) AS count FROM before`,
    values: [space, id, upload, storedBytes, keepMs ?? null],
  };
}

function clearSpaces(name: string, which: string, given: string | number): Statement {
  return {
    name,
    text: `WITH over AS MATERIALIZED (${which}), chosen(space) AS (SELECT * FROM over),
      ends AS (DELETE FROM holdfast.blob_spaces WHERE space IN (SELECT space FROM chosen)),
      gone AS (DELETE FROM holdfast.blobs WHERE space IN (SELECT space FROM chosen) RETURNING upload),
      parts AS (DELETE FROM holdfast.blob_parts WHERE upload IN (SELECT upload FROM gone))
      SELECT (SELECT count(*) FROM chosen) AS spaces, (SELECT count(*) FROM gone) AS count`,
    values: [given],
  };
}
