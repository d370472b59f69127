/**
 * Connect's envelopes: one byte of flags, four of length, the message.
 *
 * The parser takes pieces as the network cuts them. It never copies a byte more than a few times, however small the pieces are,
 * and holds no more than what has really come: a length is checked against the limit before anything is kept, and
 * memory grows with the bytes, not with what they promise (E8).
 */
import { HoldfastError } from "../../protocol/errors.ts";

export const ENVELOPE_HEAD_BYTES = 5;
const COMPRESSED = 0x01;
const END_OF_STREAM = 0x02;

/** What a first piece of a long message is given room for; then it doubles. */
const FIRST_ROOM_BYTES = 16 * 1024;

/** An idle parser keeps no memory of its own. */
const NOTHING: Uint8Array = new Uint8Array();

export interface Envelope {
  /** The last one of a response: JSON, with the error if there is one. */
  readonly isEnd: boolean;
  /** Memory of its own: keeping it keeps nothing else alive. */
  readonly message: Uint8Array;
}

/** Several messages as one piece of bytes. */
export function envelopes(messages: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  return envelopesInto((byteCount) => new Uint8Array(byteCount), messages);
}

/** The same in memory that the caller chooses: Node has a pool, which is several times faster for small ones. */
export function envelopesInto<Bytes extends Uint8Array>(
  allocate: (byteCount: number) => Bytes,
  messages: readonly Uint8Array[],
): Bytes {
  let byteCount = 0;
  for (const message of messages) byteCount += ENVELOPE_HEAD_BYTES + message.length;
  const bytes = allocate(byteCount);
  let at = 0;
  for (const message of messages) at = putEnvelope(bytes, at, 0, message);
  return bytes;
}

export function endEnvelope(message: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(ENVELOPE_HEAD_BYTES + message.length);
  putEnvelope(bytes, 0, END_OF_STREAM, message);
  return bytes;
}

function putEnvelope(bytes: Uint8Array, at: number, flags: number, message: Uint8Array): number {
  const { length } = message;
  bytes[at] = flags;
  bytes[at + 1] = length >>> 24;
  bytes[at + 2] = length >>> 16;
  bytes[at + 3] = length >>> 8;
  bytes[at + 4] = length;
  bytes.set(message, at + ENVELOPE_HEAD_BYTES);
  return at + ENVELOPE_HEAD_BYTES + length;
}

export class EnvelopeParser {
  readonly #messageBytesMax: number;
  #piece = NOTHING;
  #at = 0;
  #headCount = 0;
  #flags = 0;
  #length = 0;
  #room = NOTHING;
  #filled = 0;

  constructor(messageBytesMax: number) {
    this.#messageBytesMax = messageBytesMax;
  }

  /** Takes the next piece; the one before must have been read to its end. */
  push(piece: Uint8Array): void {
    this.#piece = piece;
    this.#at = 0;
  }

  /** The next envelope that is complete, or undefined: push more. Throws what is wrong with the input. */
  next(): Envelope | undefined {
    while (this.#headCount < ENVELOPE_HEAD_BYTES) {
      const byte = this.#piece[this.#at];
      if (byte === undefined) return this.#needMore();
      this.#at++;
      this.#takeHeadByte(byte);
    }
    const missing = this.#length - this.#filled;
    const available = this.#piece.length - this.#at;
    if (this.#filled === 0 && available >= missing) {
      // Not by `slice`, which makes a mere view when the piece is a Buffer.
      return this.#complete(new Uint8Array(this.#take(missing)));
    }
    if (available === 0) return this.#needMore();
    this.#gather(this.#take(Math.min(missing, available)));
    if (this.#filled < this.#length) return this.#needMore();
    return this.#complete(this.#room.subarray(0, this.#length));
  }

  /** The input may end here: not within an envelope. */
  get isBetween(): boolean {
    return this.#headCount === 0;
  }

  /** Lets go of the piece: a connection that has gone quiet must not keep a network buffer alive. */
  #needMore(): undefined {
    this.#piece = NOTHING;
    this.#at = 0;
    return undefined;
  }

  #takeHeadByte(byte: number): void {
    if (this.#headCount === 0) this.#flags = byte;
    else this.#length = this.#length * 256 + byte;
    this.#headCount++;
    if (this.#headCount === ENVELOPE_HEAD_BYTES) this.#checkHead();
  }

  #checkHead(): void {
    if ((this.#flags & COMPRESSED) !== 0) {
      throw new HoldfastError(
        "invalid_frame",
        "compressed messages are not supported; send them as they are",
      );
    }
    if ((this.#flags & ~END_OF_STREAM) !== 0) {
      throw new HoldfastError("invalid_frame", `an envelope has the unknown flags ${this.#flags}`);
    }
    if (this.#length > this.#messageBytesMax) {
      throw new HoldfastError(
        "too_large",
        `a message has ${this.#length} bytes, at most ${this.#messageBytesMax} are allowed`,
      );
    }
  }

  #take(byteCount: number): Uint8Array {
    const taken = this.#piece.subarray(this.#at, this.#at + byteCount);
    this.#at += byteCount;
    return taken;
  }

  #gather(part: Uint8Array): void {
    const needed = this.#filled + part.length;
    if (needed > this.#room.length) {
      const roomBytes = Math.max(needed, this.#room.length * 2, FIRST_ROOM_BYTES);
      const room = new Uint8Array(Math.min(this.#length, roomBytes));
      room.set(this.#room.subarray(0, this.#filled));
      this.#room = room;
    }
    this.#room.set(part, this.#filled);
    this.#filled = needed;
  }

  #complete(message: Uint8Array): Envelope {
    const isEnd = this.#flags === END_OF_STREAM;
    this.#headCount = 0;
    this.#length = 0;
    this.#filled = 0;
    this.#room = NOTHING;
    return { isEnd, message };
  }
}
