/**
 * An event that several readers will get, encoded once for all of them.
 *
 * A live stream's events are kept as these; the frame codec asks for the bytes here. The first one who does has them made,
 * and from then on the body is a view into them, so that an event is not kept twice.
 */
import type { EndReason, EventFrame } from "./frames.ts";

export class SharedEvent implements EventFrame {
  readonly kind = "event";
  readonly eventId: number;
  body: Uint8Array;
  readonly covers = 1;
  readonly end: EndReason | undefined;
  #encoded: Uint8Array | undefined;

  constructor(eventId: number, body: Uint8Array, end: EndReason | undefined) {
    this.eventId = eventId;
    this.body = body;
    this.end = end;
  }

  /** `encode` is asked once; `bodyAt` tells where the body lies in what it made. */
  encoded(encode: (event: SharedEvent) => { bytes: Uint8Array; bodyAt: number }): Uint8Array {
    if (this.#encoded === undefined) {
      const { bytes, bodyAt } = encode(this);
      this.#encoded = bytes;
      this.body = bytes.subarray(bodyAt, bodyAt + this.body.length);
    }
    return this.#encoded;
  }
}
