/**
 * What logged entries look like to those above: an input to the application, a frame to a reader.
 *
 * Neighbouring text deltas read back from the store are joined into one frame that carries the last
 * id and the count it covers (B4): a client that was away for ten thousand tokens gets a few frames.
 */
import type { EventFrame } from "../protocol/frames.ts";
import { joinTextDeltas, kindOfDelta } from "../protocol/joined-delta.ts";
import { LIMITS } from "../protocol/limits.ts";
import type { ClientInput } from "./application.ts";
import type { LoggedChunk, LoggedEvent } from "./stream-logs.ts";

export function inputOf({ seqno, body, isClose }: Omit<LoggedChunk, "mac">): ClientInput {
  return isClose ? { kind: "close", seqno } : { kind: "chunk", seqno, body };
}

function eventFrame({ eventId, body, end }: LoggedEvent): EventFrame {
  return { kind: "event", eventId, body, covers: 1, end };
}

export function joinedFrames(events: readonly LoggedEvent[]): readonly EventFrame[] {
  const frames: EventFrame[] = [];
  let run: LoggedEvent[] = [];
  let runKind: string | undefined;
  let runBytes = 0;
  const closeRun = (): void => {
    frames.push(...framesOf(run));
    run = [];
    runBytes = 0;
  };
  for (const event of events) {
    const kind = event.end === undefined ? kindOfDelta(event.body) : undefined;
    const fits =
      kind !== undefined && kind === runKind && runBytes + event.body.length <= LIMITS.eventBytesMax;
    if (!fits) closeRun();
    runKind = kind;
    runBytes += event.body.length;
    run.push(event);
  }
  closeRun();
  return frames;
}

function framesOf(run: readonly LoggedEvent[]): readonly EventFrame[] {
  const last = run.at(-1);
  if (last === undefined || run.length === 1) return run.map(eventFrame);
  const body = joinTextDeltas(run.map((event) => event.body));
  return body === undefined ? run.map(eventFrame) : [{ ...eventFrame(last), body, covers: run.length }];
}
