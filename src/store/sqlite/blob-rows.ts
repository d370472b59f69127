/**
 * Blobs, in the database's thread: parts under an upload number, and names that point to uploads.
 *
 * Parts are committed as they come and mean nothing until the name is there, so a crash in the middle
 * of an upload leaves no half blob, only parts that the next start removes.
 */
import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { BlobListing, BlobPut, Page } from "../blob-store.ts";
import type { Ask, BlobUpload } from "./calls.ts";
import { bytes, number, text } from "./columns.ts";
import type { Counter } from "./counter.ts";

export class BlobRows {
  readonly #counter: Counter;
  readonly #find: StatementSync;
  readonly #name: StatementSync;
  readonly #touch: StatementSync;
  readonly #delete: StatementSync;
  readonly #clear: StatementSync;
  readonly #clearParts: StatementSync;
  readonly #list: StatementSync;
  readonly #firstSpace: StatementSync;
  readonly #spaceAfter: StatementSync;
  readonly #part: StatementSync;
  readonly #putPart: StatementSync;
  readonly #deleteParts: StatementSync;
  readonly #deleteUnnamed: StatementSync;

  constructor(database: DatabaseSync, counter: Counter) {
    this.#counter = counter;
    const prepare = (sql: string): StatementSync => database.prepare(sql);
    this.#find = prepare("SELECT upload, stored_bytes FROM blobs WHERE space = ? AND id = ?");
    this.#name = prepare(
      "INSERT INTO blobs (space, id, upload, stored_bytes, stored_ms) VALUES (?, ?, ?, ?, ?)",
    );
    this.#touch = prepare(
      "UPDATE blobs SET upload = ?, stored_bytes = ?, stored_ms = ? WHERE space = ? AND id = ?",
    );
    this.#delete = prepare("DELETE FROM blobs WHERE space = ? AND id = ?");
    this.#clear = prepare("DELETE FROM blobs WHERE space = ?");
    this.#clearParts = prepare(
      "DELETE FROM blob_parts WHERE upload IN (SELECT upload FROM blobs WHERE space = ?)",
    );
    this.#list = prepare(
      "SELECT id, stored_bytes, stored_ms FROM blobs WHERE space = ? AND id > ? ORDER BY id LIMIT ?",
    );
    this.#firstSpace = prepare("SELECT min(space) AS space FROM blobs");
    this.#spaceAfter = prepare("SELECT min(space) AS space FROM blobs WHERE space > ?");
    this.#part = prepare("SELECT bytes FROM blob_parts WHERE upload = ? AND part = ?");
    this.#putPart = prepare("INSERT INTO blob_parts (upload, part, bytes) VALUES (?, ?, ?)");
    this.#deleteParts = prepare("DELETE FROM blob_parts WHERE upload = ?");
    this.#deleteUnnamed = prepare("DELETE FROM blob_parts WHERE upload NOT IN (SELECT upload FROM blobs)");
  }

  /** What uploads left behind that were under way when a process died. */
  removeUnnamed(): void {
    this.#deleteUnnamed.run();
  }

  find(space: string, id: string): { readonly upload: number; readonly storedBytes: number } | undefined {
    const found = this.#find.get(space, id);
    if (found === undefined) return undefined;
    return { upload: number(found, "upload"), storedBytes: number(found, "stored_bytes") };
  }

  readPart(upload: number, part: number): Uint8Array | undefined {
    const found = this.#part.get(upload, part);
    return found === undefined ? undefined : bytes(found, "bytes");
  }

  putPart({ upload = this.#counter.next(), part, bytes: body }: Ask<"putPart">): BlobUpload {
    this.#putPart.run(upload, part, body);
    return { upload };
  }

  /** The newer bytes stay: under another sealer they are other bytes for the same id. */
  name({ space, id, upload, storedBytes, nowMs }: Ask<"nameBlob">): BlobPut {
    const before = this.find(space, id);
    if (before === undefined) {
      this.#name.run(space, id, upload, storedBytes, nowMs);
      return { existed: false };
    }
    this.#touch.run(upload, storedBytes, nowMs, space, id);
    this.#dropParts(before.upload);
    return { existed: true };
  }

  #dropParts(upload: number): void {
    this.#deleteParts.run(upload);
  }

  delete(space: string, id: string): boolean {
    const found = this.find(space, id);
    if (found === undefined) return false;
    this.#delete.run(space, id);
    this.#dropParts(found.upload);
    return true;
  }

  clear(space: string): number {
    this.#clearParts.run(space);
    return Number(this.#clear.run(space).changes);
  }

  list(space: string, { after = "", countMax }: Page): readonly BlobListing[] {
    return this.#list.all(space, after, Math.max(0, countMax)).map((found) => ({
      id: text(found, "id"),
      storedBytes: number(found, "stored_bytes"),
      storedMs: number(found, "stored_ms"),
    }));
  }

  /** One step of the index per space, however many blobs it holds. */
  listSpaces({ after, countMax }: Page): readonly string[] {
    const spaces: string[] = [];
    let last = after;
    while (spaces.length < countMax) {
      const found = last === undefined ? this.#firstSpace.get() : this.#spaceAfter.get(last);
      const space = found?.["space"];
      if (typeof space !== "string") break;
      spaces.push(space);
      last = space;
    }
    return spaces;
  }
}
