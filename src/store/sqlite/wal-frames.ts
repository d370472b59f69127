/**
 * SQLite's write-ahead log as bytes: a header, then frames of one page each.
 *
 * A frame has its page's number, a commit mark (the size of the database, when the frame ends a transaction), the two salts
 * of the log, and a sum. The sum covers the page, its number and the mark, and continues the sum that the frame
 * before it has stored. The salts change whenever the log begins anew, so that what an older log left behind is not taken
 * for a part of this one. Pure.
 */
import { endianness } from "node:os";

export const LOG_HEADER_BYTES = 32;
export const FRAME_HEADER_BYTES = 24;
/** What of a frame's header the sum covers: the page's number and the commit mark. */
const SUMMED_HEADER_BYTES = 8;

const MAGIC = 0x377f0682;
const VERSION = 3_007_000;
/** A disk writes a sector whole or not at all. */
const SECTOR_BYTES = 512;

/** Where a header has what we look at; all numbers are big-endian. */
const HEADER_AT = { magic: 0, version: 4, pageBytes: 8, salt: 16, sum: 24 };
const FRAME_AT = { page: 0, mark: 4, salt: 8, sum: 16 };

/** Two halves, as SQLite has them. */
export interface Sum {
  readonly even: number;
  readonly odd: number;
}

export interface LogHeader {
  readonly pageBytes: number;
  /** Both salts. */
  readonly salt: bigint;
  readonly sum: Sum;
  /** In which byte order the sums were made; everything else is big-endian. */
  readonly isLittleEndian: boolean;
}

interface FrameHeader {
  readonly page: number;
  /** The size of the database in pages if the frame ends a transaction, else 0. */
  readonly mark: number;
  readonly salt: bigint;
  readonly sum: Sum;
}

const NO_SUM: Sum = { even: 0, odd: 0 };

/** Continues a sum over bytes, whose count is a multiple of 8. */
function continueSum(before: Sum, bytes: Buffer, isLittleEndian: boolean): Sum {
  const words = wordsOf(bytes, isLittleEndian);
  let even = before.even | 0;
  let odd = before.odd | 0;
  for (let at = 0; at < words.length; at += 2) {
    even = (even + (words[at] ?? 0) + odd) | 0;
    odd = (odd + (words[at + 1] ?? 0) + even) | 0;
  }
  return { even: even >>> 0, odd: odd >>> 0 };
}

const IS_MACHINE_LITTLE_ENDIAN = endianness() === "LE";

/** The bytes themselves where the machine has their order, which is several times faster than to read them one by one. */
function wordsOf(bytes: Buffer, isLittleEndian: boolean): Int32Array {
  const isAsStored = isLittleEndian === IS_MACHINE_LITTLE_ENDIAN;
  const isAligned = bytes.byteOffset % Int32Array.BYTES_PER_ELEMENT === 0;
  const words = isAsStored && isAligned ? bytes : Buffer.from(new Uint8Array(bytes).buffer);
  if (!isAsStored) words.swap32();
  return new Int32Array(words.buffer, words.byteOffset, words.byteLength / Int32Array.BYTES_PER_ELEMENT);
}

export function isSameSum(a: Sum, b: Sum): boolean {
  return a.even === b.even && a.odd === b.odd;
}

/** Undefined when the header is wrong: SQLite takes such a log for an empty one. */
export function readLogHeader(bytes: Buffer): LogHeader | undefined {
  if (bytes.byteLength < LOG_HEADER_BYTES) return undefined;
  const magic = bytes.readUInt32BE(HEADER_AT.magic);
  if (magic >>> 1 !== MAGIC >>> 1 || bytes.readUInt32BE(HEADER_AT.version) !== VERSION) return undefined;
  const isLittleEndian = magic === MAGIC;
  const sum = readSum(bytes, HEADER_AT.sum);
  const summed = continueSum(NO_SUM, bytes.subarray(0, HEADER_AT.sum), isLittleEndian);
  if (!isSameSum(sum, summed)) return undefined;
  const pageBytes = bytes.readUInt32BE(HEADER_AT.pageBytes);
  if (pageBytes < 512 || pageBytes > 65_536 || (pageBytes & (pageBytes - 1)) !== 0) return undefined;
  return { pageBytes, salt: bytes.readBigUInt64BE(HEADER_AT.salt), sum, isLittleEndian };
}

export function readFrameHeader(frame: Buffer): FrameHeader {
  return {
    page: frame.readUInt32BE(FRAME_AT.page),
    mark: frame.readUInt32BE(FRAME_AT.mark),
    salt: frame.readBigUInt64BE(FRAME_AT.salt),
    sum: readSum(frame, FRAME_AT.sum),
  };
}

/** The sum of a frame that follows one with the sum `before`. */
export function sumOfFrame(before: Sum, frame: Buffer, isLittleEndian: boolean): Sum {
  const ofHeader = continueSum(before, frame.subarray(0, SUMMED_HEADER_BYTES), isLittleEndian);
  return continueSum(ofHeader, frame.subarray(FRAME_HEADER_BYTES), isLittleEndian);
}

/**
 * Whether the sum of a frame that does not match would match with another page number, up to `pageMax`. The sum is linear: what a
 * change of the first word adds to it depends only on how many words follow.
 */
export function fitsAnotherPage(
  before: Sum,
  frame: Buffer,
  pageMax: number,
  isLittleEndian: boolean,
): boolean {
  const right = readFrameHeader(frame).sum;
  const found = sumOfFrame(before, frame, isLittleEndian);
  const missing = { even: (right.even - found.even) | 0, odd: (right.odd - found.odd) | 0 };
  // What 1 more in the first word adds to both halves, carried over every pair of words behind it.
  let [even, odd] = [1, 1];
  const pairs = (SUMMED_HEADER_BYTES + frame.byteLength - FRAME_HEADER_BYTES) / 8;
  for (let pair = 1; pair < pairs; pair++) [even, odd] = [(even + odd) | 0, (even + 2 * odd) | 0];
  const word = Buffer.alloc(4);
  const asSummed = (page: number): number => {
    word.writeUInt32BE(page, 0);
    return isLittleEndian ? word.readInt32LE(0) : word.readInt32BE(0);
  };
  const named = asSummed(readFrameHeader(frame).page);
  for (let page = 1; page <= pageMax; page++) {
    const more = (asSummed(page) - named) | 0;
    if (Math.imul(more, even) === missing.even && Math.imul(more, odd) === missing.odd) return true;
  }
  return false;
}

/** The header of a log that is written anew, and its sum. */
export function makeLogHeader(pageBytes: number, salt: bigint, isLittleEndian: boolean): Buffer {
  const header = Buffer.alloc(LOG_HEADER_BYTES);
  header.writeUInt32BE(isLittleEndian ? MAGIC : MAGIC + 1, HEADER_AT.magic);
  header.writeUInt32BE(VERSION, HEADER_AT.version);
  header.writeUInt32BE(pageBytes, HEADER_AT.pageBytes);
  header.writeBigUInt64BE(salt, HEADER_AT.salt);
  writeSum(header, HEADER_AT.sum, continueSum(NO_SUM, header.subarray(0, HEADER_AT.sum), isLittleEndian));
  return header;
}

/** Gives a frame the salts and the sum that a log written anew needs. Returns the sum. */
export function sealFrame(frame: Buffer, salt: bigint, before: Sum, isLittleEndian: boolean): Sum {
  frame.writeBigUInt64BE(salt, FRAME_AT.salt);
  const sum = sumOfFrame(before, frame, isLittleEndian);
  writeSum(frame, FRAME_AT.sum, sum);
  return sum;
}

/** The sum that a header has stored, right or wrong. */
export function storedHeaderSum(header: Buffer): Sum {
  return readSum(header, HEADER_AT.sum);
}

/** The sum that a header should have, by its other fields. */
export function computedHeaderSum(header: Buffer, isLittleEndian: boolean): Sum {
  return continueSum(NO_SUM, header.subarray(0, HEADER_AT.sum), isLittleEndian);
}

/** Frames are counted from 1. */
export function frameOffset(frame: number, pageBytes: number): number {
  return LOG_HEADER_BYTES + (frame - 1) * (FRAME_HEADER_BYTES + pageBytes);
}

/**
 * Whether the commit mark and the salts of a frame lie in two sectors. A power cut may then leave the mark of an older log
 * with the salts of this one.
 */
export function isMarkApart(offset: number): boolean {
  return (offset + FRAME_AT.salt) % SECTOR_BYTES === 0;
}

function readSum(bytes: Buffer, at: number): Sum {
  return { even: bytes.readUInt32BE(at), odd: bytes.readUInt32BE(at + 4) };
}

function writeSum(bytes: Buffer, at: number, { even, odd }: Sum): void {
  bytes.writeUInt32BE(even, at);
  bytes.writeUInt32BE(odd, at + 4);
}
