/**
 * The request of a server-streaming call: exactly one message in an envelope, within a time.
 */
import { invalidFrame } from "../../protocol/frame-check.ts";
import { EnvelopeParser } from "../connect/envelopes.ts";

const REQUEST_TIMEOUT_MS = 10_000;

export class OneMessage {
  readonly #parser: EnvelopeParser;
  readonly #timer: NodeJS.Timeout;
  #message: Uint8Array | undefined;

  constructor(bytesMax: number, tooLate: () => void) {
    this.#parser = new EnvelopeParser(bytesMax);
    this.#timer = setTimeout(tooLate, REQUEST_TIMEOUT_MS).unref();
  }

  push(piece: Uint8Array): void {
    this.#parser.push(piece);
    for (let next = this.#parser.next(); next !== undefined; next = this.#parser.next()) {
      if (next.isEnd || this.#message !== undefined) {
        throw invalidFrame("the request of this call is one message");
      }
      this.#message = next.message;
    }
  }

  finish(): Uint8Array {
    this.cancel();
    if (this.#message === undefined || !this.#parser.isBetween) {
      throw invalidFrame("the request of this call is one message, and it was not complete");
    }
    return this.#message;
  }

  cancel(): void {
    clearTimeout(this.#timer);
  }
}
