/**
 * Events between the connection and the application: in order, bounded.
 *
 * The bound is not kept by dropping: above it the stream lets go of its connection, and attaches again
 * when the application has caught up; the events wait in the server's log meanwhile (F2).
 */
import { BoundedQueue } from "../async/bounded-queue.ts";
import type { EndReason } from "../protocol/frames.ts";

export interface StreamEvent {
  /** 0 on a degraded stream. */
  readonly eventId: number;
  readonly body: Uint8Array;
  /** Set on the last event. */
  readonly end: EndReason | undefined;
}

/** `onDrained` is called when the application has taken everything. */
export function eventQueue(onDrained: () => void): BoundedQueue<StreamEvent> {
  return new BoundedQueue({ sizeOf, onDrained });
}

/** Empty events take room too. */
function sizeOf(event: StreamEvent): number {
  return EVENT_BYTES + event.body.length;
}

const EVENT_BYTES = 64;
