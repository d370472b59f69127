/**
 * Is this file ours, and may we touch it? Answered from its first bytes, before SQLite opens it.
 *
 * SQLite's own opening is not harmless: it may replay or delete what lies beside the file. So a file
 * of another program, of a newer format, or cut short is refused here, with nothing opened and nothing
 * changed. The numbers in the header are right at every moment: a database is made under another name and
 * renamed when it is whole.
 */
import { closeSync, fstatSync, openSync, readSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { shellWord } from "../../protocol/shell-word.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { APPLICATION_ID, DATABASE_FORMAT } from "./schema.ts";
import { frameOffset } from "./wal-frames.ts";
import { type LogLook, lookAtLog } from "./wal-look.ts";

const HEADER_BYTES = 100;
const MAGIC = "SQLite format 3\0";
/** Where the header of a SQLite file has what we look at. */
const AT = { pageBytes: 16, changes: 24, pages: 28, userVersion: 60, applicationId: 68, pagesValidFor: 92 };

export function fileBytes(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.size;
}

/** Throws unless the file is a database of ours that this version knows. Returns what is in its write-ahead log. */
export function checkFile(path: string): LogLook {
  const { head: header, bytes } = readHead(path, HEADER_BYTES);
  if (header.byteLength < HEADER_BYTES || header.toString("latin1", 0, MAGIC.length) !== MAGIC) {
    throw new HoldfastError(
      "stream_failed",
      `${path} is not a database; nothing was changed. Move it away, or name another data directory`,
    );
  }
  if (header.readUInt32BE(AT.applicationId) !== APPLICATION_ID) {
    throw new HoldfastError(
      "stream_failed",
      `${path} is the database of another program; nothing was changed. Name another data directory`,
    );
  }
  const format = header.readUInt32BE(AT.userVersion);
  if (format > DATABASE_FORMAT) {
    throw new HoldfastError(
      "unsupported_version",
      `${path} has format ${format}, written by a newer Holdfast; this one knows formats up to ${DATABASE_FORMAT}. Nothing was changed. Install the newer version`,
    );
  }
  if (format === 0) throw damagedFile(path, "its header names no format");
  const log = checkLog(path);
  if (!isWhole(header, bytes, log)) {
    throw damagedFile(path, `it has ${bytes} bytes, fewer than its header says`);
  }
  return log;
}

/** Throws when commits that may have been acknowledged cannot be reached in the write-ahead log any more. */
export function checkLog(path: string, whatToDo = restoreOrSalvage(path)): LogLook {
  const look = lookAtLog(`${path}-wal`);
  if (look.kind === "damaged") throw damagedLog(path, look, whatToDo);
  return look;
}

/** SQLite would forget the commits behind the damage, and cut them off when it next begins to write. */
function damagedLog(path: string, { badFrame = 0, header, marksBehind }: LogLook, whatToDo: string): Error {
  const where =
    header === undefined
      ? "the header"
      : `frame ${badFrame} (at byte ${frameOffset(badFrame, header.pageBytes)})`;
  return new HoldfastError(
    "stream_failed",
    `${path} is damaged: ${where} of its write-ahead log ${path}-wal is wrong, and at least ${marksBehind} commits lie there or behind it. Nothing was changed. ${whatToDo}`,
  );
}

function restoreOrSalvage(path: string): string {
  return `Restore the data directory from a backup, or see what can be kept: holdfast doctor --data-dir ${shellWord(dirname(path))}`;
}

/** SQLite would take the write-ahead log of a lost database for that of a new one, and mix the two. */
export function checkNothingLeft(path: string): void {
  if ((fileBytes(`${path}-wal`) ?? 0) === 0) return;
  throw new HoldfastError(
    "stream_failed",
    `${path} is missing, but its write-ahead log ${path}-wal is there; nothing was changed. Put the database back beside it, or move the log away to begin anew`,
  );
}

export function damagedFile(path: string, why: string, cause?: unknown): HoldfastError {
  return new HoldfastError(
    "stream_failed",
    `${path} is damaged: ${why}. Nothing was changed. Restore the data directory from a backup`,
    { cause },
  );
}

function readHead(path: string, countMax: number): { readonly head: Buffer; readonly bytes: number } {
  const file = openSync(path, "r");
  try {
    const head = Buffer.alloc(countMax);
    const read = readSync(file, head, 0, countMax, 0);
    return { head: head.subarray(0, read), bytes: fstatSync(file).size };
  } finally {
    closeSync(file);
  }
}

/** With a write-ahead log beside it, the file may rightly be behind its header. */
function isWhole(header: Buffer, bytes: number, log: LogLook): boolean {
  if (log.commits > 0) return true;
  if (header.readUInt32BE(AT.changes) !== header.readUInt32BE(AT.pagesValidFor)) return true;
  const pageBytes = header.readUInt16BE(AT.pageBytes) === 1 ? 65_536 : header.readUInt16BE(AT.pageBytes);
  return bytes >= header.readUInt32BE(AT.pages) * pageBytes;
}
