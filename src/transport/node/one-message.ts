/**
 * The request of a server-streaming call: exactly one message in an envelope, within a time.
 */
import { invalidFrame } from "../../protocol/frame-check.ts";
import { EnvelopeParser } from "../connect/envelopes.ts";

const REQUEST_TIMEOUT_MS = 10_000;

export function oneMessage(bytesMax: number, tooLate: () => void) {
  const parser = new EnvelopeParser(bytesMax);
  const timer = setTimeout(tooLate, REQUEST_TIMEOUT_MS).unref();
  const cancel = (): void => clearTimeout(timer);
  let message: Uint8Array | undefined;
  return {
    push(piece: Uint8Array): void {
      parser.push(piece);
      for (let next = parser.next(); next !== undefined; next = parser.next()) {
        if (next.isEnd || message !== undefined) {
          throw invalidFrame("the request of this call is one message");
        }
        message = next.message;
      }
    },
    finish(): Uint8Array {
      cancel();
      if (message === undefined || !parser.isBetween) {
        throw invalidFrame("the request of this call is one message, and it was not complete");
      }
      return message;
    },
    cancel,
  };
}
