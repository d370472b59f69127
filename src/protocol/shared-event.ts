/**
 * An event that several readers will get, encoded once for all of them.
 *
 * A live stream's events are kept as these, made by the frame codec (`sharedEvent`). The body is a view into the encoded frame, so
 * that an event is not kept twice.
 */
import type { EndReason, EventFrame } from "./frames.ts";

export class SharedEvent implements EventFrame {
  readonly kind = "event";
  readonly eventId: number;
  readonly body: Uint8Array;
  readonly end: EndReason | undefined;
  /** The whole frame as it goes over the wire. */
  readonly encoded: Uint8Array;

  constructor(eventId: number, end: EndReason | undefined, encoded: Uint8Array, body: Uint8Array) {
    this.eventId = eventId;
    this.end = end;
    this.encoded = encoded;
    this.body = body;
  }
}
