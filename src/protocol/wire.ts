/**
 * The encoding of protobuf: varints, lengths, tags, and what lies between them.
 *
 * Browsers load this in place of the runtime of `@bufbuild/protobuf`. It accepts the bytes which that runtime accepts, refuses the others, and writes the same
 * bytes (`test/protocol/message.test.ts` holds the two together).
 *
 * Invariant: no read returns anything from beyond the end of the bytes; it throws.
 */

export const VARINT = 0;
export const BIT64 = 1;
export const LENGTH_DELIMITED = 2;
const START_GROUP = 3;
const END_GROUP = 4;
const BIT32 = 5;

/** How deep messages and groups may lie in each other. */
export const DEPTH_MAX = 100;

/** Up to here a loop over characters is faster than the platform's encoder, and a length is one byte. */
const SHORT_TEXT_MAX = 32;

const encoder = new TextEncoder();
/** A leading U+FEFF is text and no mark of byte order. */
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

const EMPTY = new Uint8Array(0);
const UINT32_MAX = 0xffff_ffff;

/** Seven bytes of a varint: a double holds them exactly. */
const EXACT_BITS = 49;

export class WireReader {
  readonly #bytes: Uint8Array;
  readonly len: number;
  pos = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.len = bytes.length;
  }

  /** Field number times eight, and the wire type. */
  tag(): number {
    const start = this.pos;
    const first = this.#bytes[start];
    // Nearly every tag is one byte.
    if (first !== undefined && first >= 8 && first < 0x80 && (first & 7) <= BIT32) {
      this.pos = start + 1;
      return first;
    }
    const tag = this.uint32();
    const byteCount = this.pos - start;
    if (byteCount > 5 || (byteCount === 5 && this.#at(this.pos - 1) > 0x0f) || tag < 8 || (tag & 7) > BIT32) {
      throw new Error(`illegal tag ${tag}`);
    }
    return tag;
  }

  /** The lower 32 bits of a varint. */
  uint32(): number {
    const first = this.#bytes[this.pos++] ?? 0;
    if (first < 0x80 && this.pos <= this.len) return first;
    let byte = first;
    let value = byte & 0x7f;
    for (let shift = 7; byte > 0x7f; shift += 7) {
      if (shift > 63) throw new Error("invalid varint");
      byte = this.#bytes[this.pos++] ?? 0;
      if (shift < 32) value |= (byte & 0x7f) << shift;
    }
    this.#checkEnd();
    return value >>> 0;
  }

  uint64(): bigint {
    let low = 0;
    let high = 0;
    let bits = 0;
    let byte: number;
    do {
      if (bits > 63) throw new Error("invalid varint");
      byte = this.#at(this.pos++);
      if (bits < EXACT_BITS) low += (byte & 0x7f) * 2 ** bits;
      else high += (byte & 0x7f) * 2 ** (bits - EXACT_BITS);
      bits += 7;
    } while (byte > 0x7f);
    this.#checkEnd();
    return high === 0 ? BigInt(low) : BigInt.asUintN(64, (BigInt(high) << BigInt(EXACT_BITS)) + BigInt(low));
  }

  bool(): boolean {
    return this.#at(this.pos) > 0x7f ? this.uint64() !== 0n : this.uint32() !== 0;
  }

  double(): number {
    const bytes = this.#take(8);
    return new DataView(bytes.buffer, bytes.byteOffset).getFloat64(0, true);
  }

  /** A view into the bytes. */
  bytes(): Uint8Array {
    const length = this.uint32();
    return this.#take(length);
  }

  string(): string {
    const bytes = this.bytes();
    if (bytes.length > SHORT_TEXT_MAX) return decoder.decode(bytes);
    let text = "";
    for (const code of bytes) {
      if (code > 0x7f) return decoder.decode(bytes);
      text += String.fromCharCode(code);
    }
    return text;
  }

  /** What a field holds, tag left out; of a group with its end. `depthLeft`: how many groups may lie in each other. */
  skip(tag: number, depthLeft = DEPTH_MAX): Uint8Array {
    const start = this.pos;
    switch (tag & 7) {
      case VARINT:
        while (this.#at(this.pos++) > 0x7f);
        break;
      case BIT64:
        this.pos += 8;
        break;
      case BIT32:
        this.pos += 4;
        break;
      case LENGTH_DELIMITED:
        this.bytes();
        break;
      case START_GROUP:
        this.#skipGroup(tag, depthLeft);
        break;
      default:
        throw new Error("the end of a group that did not begin");
    }
    this.#checkEnd();
    return this.#bytes.subarray(start, this.pos);
  }

  #skipGroup(start: number, depthLeft: number): void {
    if (depthLeft <= 0) throw new Error("maximum recursion depth reached");
    for (;;) {
      const tag = this.tag();
      if ((tag & 7) !== END_GROUP) {
        this.skip(tag, depthLeft - 1);
      } else if (tag >>> 3 === start >>> 3) {
        return;
      } else {
        throw new Error("the end of another group");
      }
    }
  }

  #take(byteCount: number): Uint8Array {
    const start = this.pos;
    this.pos += byteCount;
    this.#checkEnd();
    return this.#bytes.subarray(start, this.pos);
  }

  #at(index: number): number {
    return this.#bytes[index] ?? 0;
  }

  #checkEnd(): void {
    if (this.pos > this.len) throw new RangeError("premature end");
  }
}

/** Most messages fit into bytes that every writer uses in its turn; what has grown larger is not kept. */
const KEPT_BYTES_MAX = 64 * 1024;
let kept: Uint8Array | undefined;

export class WireWriter {
  #bytes: Uint8Array;
  #at = 0;

  constructor() {
    this.#bytes = kept ?? new Uint8Array(1024);
    // A second writer at the same time has bytes of its own.
    kept = undefined;
  }

  /** Everything that was written. The writer is of no use afterwards. */
  finish(): Uint8Array {
    const bytes = this.#bytes.slice(0, this.#at);
    if (this.#bytes.length <= KEPT_BYTES_MAX) kept = this.#bytes;
    this.#bytes = EMPTY;
    this.#at = 0;
    return bytes;
  }

  /** A whole number from 0 to 2^53 - 1. */
  varint(value: number): this {
    if (this.#at + 8 > this.#bytes.length) this.#reserve(8);
    let rest = value;
    for (; rest > UINT32_MAX; rest = Math.floor(rest / 0x80)) this.#bytes[this.#at++] = (rest % 0x80) | 0x80;
    for (; rest > 0x7f; rest >>>= 7) this.#bytes[this.#at++] = (rest & 0x7f) | 0x80;
    this.#bytes[this.#at++] = rest;
    return this;
  }

  /** Takes 64 bits of it: a negative number is ten bytes. */
  varint64(value: bigint): this {
    let rest = BigInt.asUintN(64, value);
    this.#reserve(2);
    for (; rest > Number.MAX_SAFE_INTEGER; rest >>= 7n) this.#bytes[this.#at++] = Number(rest & 0x7fn) | 0x80;
    return this.varint(Number(rest));
  }

  double(value: number): this {
    return this.raw(new Uint8Array(new Float64Array([value]).buffer));
  }

  /** As they are. */
  raw(bytes: Uint8Array): this {
    if (this.#at + bytes.length > this.#bytes.length) this.#reserve(bytes.length);
    this.#bytes.set(bytes, this.#at);
    this.#at += bytes.length;
    return this;
  }

  bytes(bytes: Uint8Array): this {
    return this.varint(bytes.length).raw(bytes);
  }

  string(text: string): this {
    if (text.length <= SHORT_TEXT_MAX && this.#ascii(text)) return this;
    const room = varintSize(text.length);
    const start = this.begin(room);
    // A UTF-16 unit is three bytes at the most.
    this.#reserve(text.length * 3);
    this.#at += encoder.encodeInto(text, this.#bytes.subarray(this.#at)).written;
    return this.end(start, room);
  }

  #ascii(text: string): boolean {
    if (this.#at + text.length >= this.#bytes.length) this.#reserve(text.length + 1);
    let at = this.#at;
    this.#bytes[at++] = text.length;
    for (let index = 0; index < text.length; index++) {
      const code = text.charCodeAt(index);
      if (code > 0x7f) return false;
      this.#bytes[at++] = code;
    }
    this.#at = at;
    return true;
  }

  /** Leaves room for a length. What is written next has that length, up to `end`. */
  begin(room = 1): number {
    if (this.#at + room > this.#bytes.length) this.#reserve(room);
    this.#at += room;
    return this.#at;
  }

  /** Writes the length of what began there, and moves it when the room was not right. */
  end(start: number, room = 1): this {
    const length = this.#at - start;
    if (length < 0x80 && room === 1) {
      this.#bytes[start - 1] = length;
      return this;
    }
    const size = varintSize(length);
    if (size > room) this.#reserve(size - room);
    if (size !== room) this.#bytes.copyWithin(start + size - room, start, this.#at);
    this.#at = start - room;
    this.varint(length);
    this.#at += length;
    return this;
  }

  #reserve(byteCount: number): void {
    const needed = this.#at + byteCount;
    if (needed <= this.#bytes.length) return;
    const grown = new Uint8Array(Math.max(needed, this.#bytes.length * 2));
    grown.set(this.#bytes);
    this.#bytes = grown;
  }
}

export function varintSize(value: number): number {
  if (value < 0x80) return 1;
  if (value < 0x4000) return 2;
  if (value < 0x20_0000) return 3;
  return value < 0x1000_0000 ? 4 : 5;
}
