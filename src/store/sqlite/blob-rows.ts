/**
 * Blobs, in the database's thread: parts under an upload number, and names that point to uploads.
 *
 * A blob is stored in parts, so that a large one shares many commits and holds none of them up. Parts are committed as they
 * come and mean nothing until the name is there, so a crash in the middle of an upload leaves no half blob, only parts that
 * the next start removes.
 */
import type { DatabaseSync } from "node:sqlite";
import type { BlobListing, BlobName, BlobPut, Page, SealedBlob } from "../blob-store.ts";
import { bytes, number, text } from "./columns.ts";
import type { Counter } from "./counter.ts";
import { SPACES } from "./table-rows.ts";

export interface Upload {
  /** The number that the parts lie under. */
  readonly upload: number;
  readonly storedBytes: number;
}

export interface Part {
  readonly upload: number;
  readonly part: number;
}

/** The first part draws the number that all of them lie under. */
export interface NewPart extends Omit<Part, "upload"> {
  readonly upload: number | undefined;
  readonly bytes: Uint8Array;
}

export interface NamedUpload extends BlobName, Upload {
  readonly nowMs: number;
  readonly keepMs: number | undefined;
}

export function blobRows(database: DatabaseSync, counter: Counter) {
  const select = database.prepare("SELECT upload, stored_bytes FROM blobs WHERE space = ? AND id = ?");
  const insert = database.prepare(
    "INSERT INTO blobs (space, id, upload, stored_bytes, stored_ms) VALUES (?, ?, ?, ?, ?)",
  );
  const remove = database.prepare("DELETE FROM blobs WHERE space = ? AND id = ?");
  const clear = database.prepare("DELETE FROM blobs WHERE space = ?");
  const clearParts = database.prepare(
    "DELETE FROM blob_parts WHERE upload IN (SELECT upload FROM blobs WHERE space = ?)",
  );
  const list = database.prepare(
    "SELECT id, stored_bytes, stored_ms FROM blobs WHERE space = ? AND id > ? ORDER BY id LIMIT ?",
  );
  const firstSpace = database.prepare("SELECT min(space) AS space FROM blobs");
  const spaceAfter = database.prepare("SELECT min(space) AS space FROM blobs WHERE space > ?");
  const selectPart = database.prepare("SELECT bytes FROM blob_parts WHERE upload = ? AND part = ?");
  const insertPart = database.prepare("INSERT INTO blob_parts (upload, part, bytes) VALUES (?, ?, ?)");
  const removeParts = database.prepare("DELETE FROM blob_parts WHERE upload = ?");
  const removeUnnamed = database.prepare(
    "DELETE FROM blob_parts WHERE upload NOT IN (SELECT upload FROM blobs)",
  );

  const keepSpace = database.prepare(
    `INSERT INTO rows (tab, key, version, expires_ms, value) VALUES ('${SPACES}', ?, 0, ?, x'') ` +
      "ON CONFLICT (tab, key) DO UPDATE SET expires_ms = excluded.expires_ms",
  );
  const forgetSpace = database.prepare(`DELETE FROM rows WHERE tab = '${SPACES}' AND key = ?`);
  const endedSpaces = database.prepare(
    `SELECT key FROM rows WHERE tab = '${SPACES}' AND expires_ms <= ? LIMIT ?`,
  );
  const sumOf = database.prepare(
    "SELECT coalesce(sum(stored_bytes), 0) AS bytes FROM blobs WHERE space >= ? AND space < ?",
  );

  function findBlob({ space, id }: BlobName): Upload | undefined {
    const found = select.get(space, id);
    if (found === undefined) return undefined;
    return { upload: number(found, "upload"), storedBytes: number(found, "stored_bytes") };
  }

  function deleteBlob({ space, id }: BlobName): boolean {
    const found = findBlob({ space, id });
    if (found === undefined) return false;
    remove.run(space, id);
    removeParts.run(found.upload);
    return true;
  }

  function nameBlob({ space, id, upload, storedBytes, nowMs, keepMs }: NamedUpload): BlobPut {
    const existed = deleteBlob({ space, id });
    insert.run(space, id, upload, storedBytes, nowMs);
    if (keepMs !== undefined) keepSpace.run(space, nowMs + keepMs);
    return { existed };
  }

  function clearSpace({ space }: Pick<BlobName, "space">): number {
    clearParts.run(space);
    forgetSpace.run(space);
    return Number(clear.run(space).changes);
  }

  return {
    /** A whole blob at once, in whatever transaction is under way. */
    store: ({ space, id, sealed, keepMs }: SealedBlob, nowMs: number): void => {
      const upload = counter.next();
      insertPart.run(upload, 0, sealed);
      nameBlob({ space, id, upload, storedBytes: sealed.byteLength, nowMs, keepMs });
    },
    /** What uploads left behind that were under way when a process died. */
    removeUnnamed: () => removeUnnamed.run(),
    writes: {
      putPart({ upload = counter.next(), part, bytes: body }: NewPart): Pick<Upload, "upload"> {
        insertPart.run(upload, part, body);
        return { upload };
      },
      /** Gives the parts their name; they are no blob before. The newer bytes stay: under another sealer they are other bytes for the same id. */
      nameBlob,
      deleteBlob,
      clearSpace,
      sweepSpaces({ countMax, nowMs }: { readonly countMax: number; readonly nowMs: number }): number {
        const ended = endedSpaces.all(nowMs, countMax);
        for (const found of ended) clearSpace({ space: text(found, "key") });
        return ended.length;
      },
    },
    reads: {
      findBlob,
      storedBytes({ prefix }: { readonly prefix: string }): number {
        return number(sumOf.get(prefix, `${prefix}\u{10ffff}`), "bytes");
      },
      readPart({ upload, part }: Part): Uint8Array | undefined {
        const found = selectPart.get(upload, part);
        return found === undefined ? undefined : bytes(found, "bytes");
      },
      listBlobs({
        space,
        page: { after = "", countMax },
      }: Pick<BlobName, "space"> & Paged): readonly BlobListing[] {
        return list.all(space, after, Math.max(0, countMax)).map((found) => ({
          id: text(found, "id"),
          storedBytes: number(found, "stored_bytes"),
          storedMs: number(found, "stored_ms"),
        }));
      },
      /** One step of the index per space, however many blobs it holds. */
      listSpaces({ page: { after, countMax } }: Paged): readonly string[] {
        const spaces: string[] = [];
        let last = after;
        while (spaces.length < countMax) {
          const found = last === undefined ? firstSpace.get() : spaceAfter.get(last);
          const space = found?.["space"];
          if (typeof space !== "string") break;
          spaces.push(space);
          last = space;
        }
        return spaces;
      },
    },
  };
}

export interface Paged {
  readonly page: Page;
}
