/**
 * How a record lies on the simulated disk: row, length, a checksum of both, a checksum of the rest.
 *
 * One idea: the header has a checksum of its own, so a record cut short by a crash (torn: the header
 * is incomplete, or is right and promises more bytes than there are) can be told from one whose
 * bytes changed (damaged). Only the first may ever be forgotten.
 *
 * Invariant: no single flipped bit in a complete record goes unnoticed, nor looks like a torn one.
 */
import { crc32 } from "node:zlib";

const HEADER_BYTES = 16;
const SLAB_BYTES = 65_536;

/** A private copy of the payload with room for its header; `numberRecord` completes it. */
export function encodeRecord(payload: Uint8Array): Uint8Array {
  const bytes = allocate(HEADER_BYTES + payload.length);
  put(bytes, 4, payload.length);
  put(bytes, 12, crc32(payload));
  bytes.set(payload, HEADER_BYTES);
  return bytes;
}

/** A row gets its number when it reaches the disk, not when somebody asked for it. */
export function numberRecord(bytes: Uint8Array, row: number): Uint8Array {
  put(bytes, 0, row);
  put(bytes, 8, crc32(bytes.subarray(0, 8)));
  return bytes;
}

export type Decoded = Uint8Array | "torn" | "damaged";

/** The payload is a copy: nobody outside can change what is on the disk. */
export function decodeRecord(row: number, bytes: Uint8Array): Decoded {
  if (bytes.length < HEADER_BYTES) return "torn";
  if (get(bytes, 8) !== crc32(bytes.subarray(0, 8)) || get(bytes, 0) !== row) return "damaged";
  const end = HEADER_BYTES + get(bytes, 4);
  if (bytes.length < end) return "torn";
  const payload = bytes.subarray(HEADER_BYTES);
  if (bytes.length > end || get(bytes, 12) !== crc32(payload)) return "damaged";
  return payload.slice();
}

/** Several records as one payload, so that they are there together or not at all. */
export function joinRecords(records: readonly Uint8Array[]): Uint8Array {
  const bytes = allocate(records.reduce((sum, record) => sum + 4 + record.length, 0));
  let at = 0;
  for (const record of records) {
    put(bytes, at, record.length);
    bytes.set(record, at + 4);
    at += 4 + record.length;
  }
  return bytes;
}

export function splitRecords(payload: Uint8Array): readonly Uint8Array[] {
  const records: Uint8Array[] = [];
  for (let at = 0; at < payload.length;) {
    const end = at + 4 + get(payload, at);
    records.push(payload.slice(at + 4, end));
    at = end;
  }
  return records;
}

let slab = new Uint8Array(SLAB_BYTES);
let slabUsed = 0;

/** Small arrays cut from a large one: a typed array of its own for each record took most of the time. */
function allocate(length: number): Uint8Array {
  if (length > SLAB_BYTES / 8) return new Uint8Array(length);
  if (slabUsed + length > SLAB_BYTES) {
    slab = new Uint8Array(SLAB_BYTES);
    slabUsed = 0;
  }
  slabUsed += length;
  return slab.subarray(slabUsed - length, slabUsed);
}

function put(bytes: Uint8Array, at: number, word: number): void {
  bytes[at] = word >>> 24;
  bytes[at + 1] = (word >>> 16) & 0xff;
  bytes[at + 2] = (word >>> 8) & 0xff;
  bytes[at + 3] = word & 0xff;
}

function get(bytes: Uint8Array, at: number): number {
  const byte = (offset: number): number => bytes[at + offset] ?? 0;
  return ((byte(0) << 24) | (byte(1) << 16) | (byte(2) << 8) | byte(3)) >>> 0;
}
