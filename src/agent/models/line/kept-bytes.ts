/**
 * The bytes of an answer from the first, as the line keeps them: in pieces of one size, so that ten thousand small events are no ten thousand buffers.
 */
const SLAB_BYTES = 64 * 1024;
const NO_BYTES = Buffer.alloc(0);

export class KeptBytes {
  readonly #slabs: Buffer[] = [];
  #length = 0;
  #goneBytes = 0;

  /** How many there were in all. */
  get length(): number {
    return this.#length;
  }

  get heldBytes(): number {
    return this.#length - this.#goneBytes;
  }

  push(bytes: Buffer): void {
    for (let from = 0; from < bytes.length;) {
      const at = this.#length % SLAB_BYTES;
      const last = at === 0 ? undefined : this.#slabs.at(-1);
      const slab = last ?? Buffer.allocUnsafeSlow(SLAB_BYTES);
      if (last === undefined) this.#slabs.push(slab);
      const copied = bytes.copy(slab, at, from);
      from += copied;
      this.#length += copied;
    }
  }

  /** Some of the bytes from this one on. They do not change while they are being written. */
  pieceAt(at: number): Buffer {
    const begin = at % SLAB_BYTES;
    const slab = this.#slabs[Math.floor(at / SLAB_BYTES)] ?? NO_BYTES;
    return slab.subarray(begin, Math.min(SLAB_BYTES, begin + this.#length - at));
  }

  /** Lets go of whole pieces before this byte; returns how many bytes that were. */
  forgetBefore(at: number): number {
    const slabs = Math.floor(at / SLAB_BYTES);
    const newlyGone = slabs * SLAB_BYTES - this.#goneBytes;
    this.#slabs.fill(NO_BYTES, this.#goneBytes / SLAB_BYTES, slabs);
    this.#goneBytes += newlyGone;
    return newlyGone;
  }
}
