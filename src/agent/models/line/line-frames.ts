/**
 * How server and line cut what they say on a connection: frames, each behind its length. Pure.
 *
 * Invariant: the frames that came out, in order, are a prefix of what went in, each of them whole.
 */
const LENGTH_BYTES = 4;

export function framed(bytes: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(LENGTH_BYTES + bytes.length);
  frame.writeUInt32BE(bytes.length);
  frame.set(bytes, LENGTH_BYTES);
  return frame;
}

export class Frames {
  /** Pieces of the next one. They are joined when it is complete: a body may have megabytes. */
  #pieces: Buffer[] = [];
  #bytes = 0;
  #bytesWanted = LENGTH_BYTES;

  /** The frames that these bytes complete. */
  push(bytes: Buffer): readonly Buffer[] {
    this.#pieces.push(bytes);
    this.#bytes += bytes.length;
    const frames: Buffer[] = [];
    if (this.#bytes < this.#bytesWanted) return frames;
    let rest = this.#pieces.length === 1 ? bytes : Buffer.concat(this.#pieces);
    for (;;) {
      this.#bytesWanted = LENGTH_BYTES + (rest.length < LENGTH_BYTES ? 0 : rest.readUInt32BE());
      if (rest.length < this.#bytesWanted) break;
      frames.push(rest.subarray(LENGTH_BYTES, this.#bytesWanted));
      rest = rest.subarray(this.#bytesWanted);
    }
    this.#pieces = rest.length === 0 ? [] : [rest];
    this.#bytes = rest.length;
    return frames;
  }
}
