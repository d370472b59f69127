/**
 * The bytes of a sealed record, and of the label it is bound to. Pure, shared by Node and browsers.
 *
 *     record:  version 1 | incarnation 16 | counter 8 | ciphertext | tag 16
 *     nonce:   0 0 0 0 | counter 8
 *     label:   version 1 | direction 1 | first 8 | count 8 | kind length 2 | kind | stream
 *
 * Numbers are big-endian. The label is the cipher's additional data; only its last field has no
 * length of its own, so two labels never have the same bytes.
 *
 * Invariant: within an incarnation and direction every counter is used once (E3). A counter is taken
 * before the cipher runs, so a seal that fails wastes one instead of leaving it to be used again.
 */
import { HoldfastError } from "../protocol/errors.ts";
import type { SealedDirection, SealedLabel } from "./sealer.ts";

const INCARNATION_BYTES = 16;
export const TAG_BYTES = 16;
export const HEADER_BYTES = 1 + INCARNATION_BYTES + 8;
/** How much longer a sealed record is than its plaintext. */
export const SEALED_OVERHEAD_BYTES = HEADER_BYTES + TAG_BYTES;

/** 900 years of 10,000 seals a second under one key, and exact in a double. */
export const COUNTER_MAX = 2 ** 48 - 1;

const VERSION = 1;
const COUNTER_OFFSET = 1 + INCARNATION_BYTES;
const NONCE_BYTES = 12;
const LABEL_FIXED_BYTES = 20;
const KIND_BYTES_MAX = 0xff_ff;

/** Part of the format: never renumber. */
const DIRECTION_CODE: Readonly<Record<SealedDirection, number>> = Object.freeze({
  chunks: 1,
  events: 2,
  journal: 3,
  blob: 4,
  letter: 5,
});

/**
 * Our own mistakes. The effect is that of any failed assertion, the end of this stream's work; the
 * rule is a constant text, so that no value can get into it (E4).
 */
export function check(condition: boolean, rule: string): asserts condition {
  if (!condition) throw new HoldfastError("stream_failed", `sealing: ${rule}`);
}

/** The counter that follows. Throws instead of wrapping around: a repeated nonce would open every record. */
export function counterAfter(counter: number): number {
  check(Number.isSafeInteger(counter) && counter >= 0 && counter < COUNTER_MAX, "a sealing key is used up");
  return counter + 1;
}

/** A copy: the source may use its buffer again. */
export function drawIncarnation(randomBytes: (n: number) => Uint8Array): Uint8Array<ArrayBuffer> {
  const drawn = randomBytes(INCARNATION_BYTES);
  check(drawn.length === INCARNATION_BYTES, "the random source gave a wrong number of bytes");
  return new Uint8Array(drawn);
}

/** Ciphertext and tag follow at `HEADER_BYTES`. */
export function writeHeader(record: Uint8Array, incarnation: Uint8Array, counter: number): void {
  record[0] = VERSION;
  record.set(incarnation, 1);
  writeUint64(record, COUNTER_OFFSET, counter);
}

export function hasRecordShape(record: Uint8Array): boolean {
  return record.length >= SEALED_OVERHEAD_BYTES && record[0] === VERSION;
}

/** A view, not a copy. */
export function incarnationOf(record: Uint8Array): Uint8Array {
  return record.subarray(1, COUNTER_OFFSET);
}

export function nonceOf(record: Uint8Array): Uint8Array<ArrayBuffer> {
  const nonce = new Uint8Array(NONCE_BYTES);
  nonce.set(record.subarray(COUNTER_OFFSET, HEADER_BYTES), NONCE_BYTES - 8);
  return nonce;
}

/**
 * Encodes labels for one sealer. A sealer sees one stream and few kinds, so names are encoded only
 * when they change, and the bytes are written over at the next call: use or copy them before.
 */
export function labelEncoder(): (label: SealedLabel) => Uint8Array<ArrayBuffer> {
  let bytes: Uint8Array<ArrayBuffer> | undefined;
  let stream = "";
  let kind = "";
  return (label) => {
    const { first, count } = label;
    check(isCount(first) && isCount(count), "a label's numbers must be whole and not negative");
    if (bytes === undefined || label.stream !== stream || label.kind !== kind) {
      bytes = labelWithNames(label.stream, label.kind);
      ({ stream, kind } = label);
    }
    bytes[1] = DIRECTION_CODE[label.direction];
    writeUint64(bytes, 2, first);
    writeUint64(bytes, 10, count);
    return bytes;
  };
}

function labelWithNames(stream: string, kind: string): Uint8Array<ArrayBuffer> {
  const kindBytes = nameBytes(kind);
  check(kindBytes <= KIND_BYTES_MAX, "a label's kind is too long");
  const bytes = new Uint8Array(LABEL_FIXED_BYTES + kindBytes + nameBytes(stream));
  bytes[0] = VERSION;
  bytes[18] = kindBytes >>> 8;
  bytes[19] = kindBytes;
  writeName(kind, kindBytes, bytes, LABEL_FIXED_BYTES);
  writeName(stream, bytes.length - LABEL_FIXED_BYTES - kindBytes, bytes, LABEL_FIXED_BYTES + kindBytes);
  return bytes;
}

/** How long a name is in UTF-8; refuses what `encodeName` refuses. */
function nameBytes(name: string): number {
  check(name.isWellFormed(), "a name must be well-formed Unicode");
  return /[^\0-\x7f]/.test(name) ? UTF8.encode(name).length : name.length;
}

/** Names are mostly ASCII, and short: the platform's encoder takes several times as long for them. */
function writeName(name: string, byteCount: number, bytes: Uint8Array, from: number): void {
  if (byteCount > name.length) UTF8.encodeInto(name, bytes.subarray(from));
  else for (let at = 0; at < byteCount; at++) bytes[from + at] = name.charCodeAt(at);
}

/** The one answer to everything that does not open; it says where, never what or why. */
export function refused(label: SealedLabel, cause?: unknown): HoldfastError {
  const where = `${label.direction} at ${label.first}, count ${label.count}`;
  const message = `a sealed record does not open (${where}): another key, another place, or damaged bytes`;
  return new HoldfastError("stream_failed", message, { cause });
}

/** Big-endian. By hand, because a DataView per record costs more than the arithmetic. */
export function writeUint64(bytes: Uint8Array, offset: number, value: number): void {
  const high = Math.floor(value / 2 ** 32);
  bytes[offset] = high >>> 24;
  bytes[offset + 1] = high >>> 16;
  bytes[offset + 2] = high >>> 8;
  bytes[offset + 3] = high;
  bytes[offset + 4] = value >>> 24;
  bytes[offset + 5] = value >>> 16;
  bytes[offset + 6] = value >>> 8;
  bytes[offset + 7] = value;
}

export function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

const UTF8 = new TextEncoder();

/** UTF-8 that refuses lone surrogates: they would all become U+FFFD, and two names one. */
export function encodeName(name: string): Uint8Array<ArrayBuffer> {
  check(name.isWellFormed(), "a name must be well-formed Unicode");
  return new Uint8Array(UTF8.encode(name));
}
