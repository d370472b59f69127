/**
 * Journals as rows of two tables: a head per journal, and a row per record.
 *
 *     journal_heads    <name>            checksum 4 | format 1 | records 4 | owner, line feed, server
 *     journal_records  <name>/<place>    checksum 4 | record
 *
 * The name is the idempotency key in hexadecimal, so that any text is a valid key and no name is the
 * beginning of another. Places are dense and of equal length, so the order of keys is that of the
 * records. Numbers are big-endian; the checksum (CRC-32) covers what follows it: records are sealed, but this
 * layer does not know that, and a damaged head must not be mistaken for a shorter journal.
 */
import { crc32 } from "node:zlib";
import { HoldfastError } from "../protocol/errors.ts";
import type { TableKey } from "../store/table-store.ts";

export const HEADS = "journal_heads";
export const RECORDS = "journal_records";

const FORMAT = 1;
const CHECKSUM_BYTES = 4;
const TEXT_OFFSET = CHECKSUM_BYTES + 5;
const PLACE_DIGITS = 10;

export interface Head {
  readonly records: number;
  /** The process that writes this journal; empty when none does. */
  readonly owner: string;
  /** Where the stream is, as an address; empty when it is not known. */
  readonly server: string;
}

export function headKey(idempotencyKey: string): TableKey {
  return { table: HEADS, key: nameOf(idempotencyKey) };
}

export function recordKey(idempotencyKey: string, place: number): TableKey {
  return { table: RECORDS, key: recordPrefix(idempotencyKey) + String(place).padStart(PLACE_DIGITS, "0") };
}

export function recordPrefix(idempotencyKey: string): string {
  return `${nameOf(idempotencyKey)}/`;
}

function nameOf(idempotencyKey: string): string {
  return Buffer.from(idempotencyKey, "utf8").toString("hex");
}

/** The idempotency key of a head's row. */
export function idempotencyKeyOf(name: string): string {
  return Buffer.from(name, "hex").toString("utf8");
}

export function encodeHead({ records, owner, server }: Head): Uint8Array {
  const text = `${owner}\n${server}`;
  const bytes = Buffer.alloc(TEXT_OFFSET + Buffer.byteLength(text));
  bytes.writeUInt8(FORMAT, CHECKSUM_BYTES);
  bytes.writeUInt32BE(records, CHECKSUM_BYTES + 1);
  bytes.write(text, TEXT_OFFSET);
  return withChecksum(bytes);
}

export function decodeHead(idempotencyKey: string, value: Uint8Array): Head {
  const bytes = checked(idempotencyKey, value, TEXT_OFFSET);
  const format = bytes.readUInt8(CHECKSUM_BYTES);
  if (format !== FORMAT) {
    throw new HoldfastError(
      "unsupported_version",
      `the journal of ${idempotencyKey} has format ${format}; a newer version of Holdfast wrote it: use that one`,
    );
  }
  const [owner = "", server = ""] = bytes.toString("utf8", TEXT_OFFSET).split("\n");
  return { records: bytes.readUInt32BE(CHECKSUM_BYTES + 1), owner, server };
}

export function encodeRecord(record: Uint8Array): Uint8Array {
  const bytes = Buffer.alloc(CHECKSUM_BYTES + record.length);
  bytes.set(record, CHECKSUM_BYTES);
  return withChecksum(bytes);
}

export function decodeRecord(idempotencyKey: string, value: Uint8Array): Uint8Array {
  return new Uint8Array(checked(idempotencyKey, value, CHECKSUM_BYTES).subarray(CHECKSUM_BYTES));
}

function withChecksum(bytes: Buffer): Uint8Array {
  bytes.writeUInt32BE(crc32(bytes.subarray(CHECKSUM_BYTES)), 0);
  return new Uint8Array(bytes);
}

function checked(idempotencyKey: string, value: Uint8Array, bytesMin: number): Buffer {
  const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  if (bytes.length < bytesMin || crc32(bytes.subarray(CHECKSUM_BYTES)) !== bytes.readUInt32BE(0)) {
    throw damaged(idempotencyKey, "a row is not as it was written");
  }
  return bytes;
}

export function damaged(idempotencyKey: string, what: string): HoldfastError {
  return new HoldfastError(
    "stream_failed",
    `the journal of ${idempotencyKey} is damaged (${what}); it is left as it is and nothing of it is run again`,
  );
}
