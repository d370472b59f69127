/**
 * Is this file ours, and may we touch it? Answered from its first bytes, before SQLite opens it.
 *
 * SQLite's own opening is not harmless: it may replay or delete what lies beside the file. So a file
 * of another program, of a newer format, or cut short is refused here, with nothing opened and nothing
 * changed. The numbers in the header are right at every moment: a database is made under another name and
 * renamed when it is whole.
 */
import { closeSync, fstatSync, openSync, readSync, statSync } from "node:fs";
import { HoldfastError } from "../../protocol/errors.ts";
import { APPLICATION_ID, DATABASE_FORMAT } from "./schema.ts";

const HEADER_BYTES = 100;
const MAGIC = "SQLite format 3\0";
/** Where the header of a SQLite file has what we look at. */
const AT = { pageBytes: 16, changes: 24, pages: 28, userVersion: 60, applicationId: 68, pagesValidFor: 92 };

/** A write-ahead log begins with its header: 6 numbers of 4 bytes, then a checksum over them. */
const LOG_HEADER_BYTES = 32;
const LOG_MAGIC = 0x377f0682;

export function fileBytes(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.size;
}

/** Throws unless the file is a database of ours that this version knows. */
export function checkFile(path: string): void {
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
  if (!isWhole(path, header, bytes)) {
    throw damagedFile(path, `it has ${bytes} bytes, fewer than its header says`);
  }
}

/**
 * Whether there are commits in a write-ahead log. SQLite syncs a log's header before the first commit behind it: who is
 * killed between the two leaves a header alone, and who may only read cannot open that (it waits for ten seconds and fails).
 *
 * So a header that is wrong with something behind it is no crash, but damage. SQLite would take such a log for an empty one.
 */
export function hasCommits(path: string): boolean {
  const log = `${path}-wal`;
  if ((fileBytes(log) ?? 0) <= LOG_HEADER_BYTES) return false;
  if (!isLogHeader(readHead(log, LOG_HEADER_BYTES).head)) {
    throw damagedFile(path, `the header of its write-ahead log ${log} is wrong`);
  }
  return true;
}

/** The last bit of the magic number says in which byte order the checksum was made. */
function isLogHeader(header: Buffer): boolean {
  const magic = header.readUInt32BE(0);
  if (magic >>> 1 !== LOG_MAGIC >>> 1) return false;
  const word = (at: number): number =>
    magic === LOG_MAGIC ? header.readUInt32LE(at) : header.readUInt32BE(at);
  let [even, odd] = [0, 0];
  for (let at = 0; at < 24; at += 8) {
    even = (even + word(at) + odd) >>> 0;
    odd = (odd + word(at + 4) + even) >>> 0;
  }
  return header.readUInt32BE(24) === even && header.readUInt32BE(28) === odd;
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
function isWhole(path: string, header: Buffer, bytes: number): boolean {
  if (hasCommits(path)) return true;
  if (header.readUInt32BE(AT.changes) !== header.readUInt32BE(AT.pagesValidFor)) return true;
  const pageBytes = header.readUInt16BE(AT.pageBytes) === 1 ? 65_536 : header.readUInt16BE(AT.pageBytes);
  return bytes >= header.readUInt32BE(AT.pages) * pageBytes;
}
