/**
 * The output of a command within a bound: its beginning and its end, with a note where something is missing.
 *
 * Both ends matter: the beginning says what was done, the end how it went. The beginning can be shown while the command
 * runs; the end is known when it has ended.
 */
export class OutputWindow {
  readonly #headMax: number;
  readonly #tailMax: number;
  readonly #head: Uint8Array[] = [];
  #headBytes = 0;
  #tail: Uint8Array[] = [];
  #tailBytes = 0;
  #left = 0;

  constructor(bytesMax: number) {
    this.#headMax = Math.ceil(bytesMax / 2);
    this.#tailMax = bytesMax - this.#headMax;
  }

  get truncated(): boolean {
    return this.#left > 0;
  }

  /** Returns what of it belongs to the beginning. */
  add(bytes: Uint8Array): Uint8Array {
    const head = bytes.subarray(0, this.#headMax - this.#headBytes);
    if (head.length > 0) {
      this.#head.push(head);
      this.#headBytes += head.length;
    }
    this.#addToTail(bytes.subarray(head.length));
    return head;
  }

  #addToTail(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    this.#tail.push(bytes);
    this.#tailBytes += bytes.length;
    let over = this.#tailBytes - this.#tailMax;
    while (over > 0) {
      const [first, ...rest] = this.#tail;
      if (first === undefined) return;
      const gone = Math.min(over, first.length);
      this.#tail = gone === first.length ? rest : [first.subarray(gone), ...rest];
      this.#tailBytes -= gone;
      this.#left += gone;
      over -= gone;
    }
  }

  /** What follows the beginning: the note, if something is missing, and the end. */
  end(): Uint8Array {
    const note = this.truncated ? `\n[... ${this.#left} bytes left out ...]\n` : "";
    return Buffer.concat([Buffer.from(note), ...this.#tail]);
  }

  bytes(): Uint8Array {
    return Buffer.concat([...this.#head, this.end()]);
  }
}
