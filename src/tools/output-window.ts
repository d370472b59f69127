/**
 * The output of a command within a bound: its beginning and its end, with a note where something is missing.
 *
 * Both ends matter: the beginning says what was done, the end how it went. The beginning can be shown while the command
 * runs; the end is known when it has ended.
 */
export class OutputWindow {
  readonly #bytesMax: number;
  readonly #head: Uint8Array[] = [];
  /** What of the beginning is still to come. */
  #headRoom: number;
  readonly #tailMax: number;
  #tail: Uint8Array[] = [];
  #tailBytes = 0;
  #total = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
    this.#headRoom = Math.ceil(bytesMax / 2);
    this.#tailMax = bytesMax - this.#headRoom;
  }

  get truncated(): boolean {
    return this.#total > this.#bytesMax;
  }

  /** Returns what of it belongs to the beginning. */
  add(bytes: Uint8Array): Uint8Array {
    const head = bytes.subarray(0, this.#headRoom);
    const rest = bytes.subarray(head.length);
    this.#headRoom -= head.length;
    if (head.length > 0) this.#head.push(head);
    if (rest.length > 0) this.#tail.push(rest);
    this.#tailBytes += rest.length;
    this.#total += bytes.length;
    // Only now and then: a copy for each piece of a long output would cost more than the output.
    if (this.#tailBytes > 2 * this.#tailMax) this.#tail = [this.#end()];
    return head;
  }

  #end(): Uint8Array {
    const tail = Buffer.concat(this.#tail);
    const end = tail.subarray(Math.max(0, tail.length - this.#tailMax));
    this.#tailBytes = end.length;
    return end;
  }

  /** What follows the beginning: the note, if something is missing, and the end. */
  end(): Uint8Array {
    const note = this.truncated ? `\n[... ${this.#total - this.#bytesMax} bytes left out ...]\n` : "";
    return Buffer.concat([Buffer.from(note), this.#end()]);
  }

  bytes(): Uint8Array {
    return Buffer.concat([...this.#head, this.end()]);
  }
}
