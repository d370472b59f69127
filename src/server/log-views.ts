/**
 * What logged entries look like to those above: an input to the application, a frame to a reader.
 */
import type { EventFrame } from "../protocol/frames.ts";
import type { ClientInput } from "./application.ts";
import type { LoggedChunk, LoggedEvent } from "./stream-logs.ts";

export function inputOf({ seqno, body, isClose }: Omit<LoggedChunk, "mac">): ClientInput {
  return isClose ? { kind: "close", seqno } : { kind: "chunk", seqno, body };
}

export function frameOf({ eventId, body, end }: LoggedEvent): EventFrame {
  return { kind: "event", eventId, body, end };
}
