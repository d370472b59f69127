/**
 * The requests and answers in a stream's logs, as the host's stall clocks know them.
 *
 * They are found where the logs pass by anyway: in each commit, and in what an application reads back when its host is new.
 *
 * Invariant: each event and each chunk counts once, however often an application reads it.
 */
import type { Asked, Input } from "../core/turn-stall.ts";
import { answerIn, requestIn } from "../protocol/request-codec.ts";
import type { LoggedChunk, LoggedEvent, LogReader } from "./stream-logs.ts";

export type Logged = Pick<Extract<Input, { kind: "logged" }>, "asked" | "answered">;

/** Undefined when there are none. */
export function requestsIn(
  events: readonly Pick<LoggedEvent, "eventId" | "body">[],
  chunks: readonly Pick<LoggedChunk, "body">[],
): Logged | undefined {
  const asked: Asked[] = [];
  for (const { eventId, body } of events) {
    const request = requestIn(body);
    if (request !== undefined) asked.push({ ...request, eventId });
  }
  const answered = chunks.flatMap(({ body }) => answerIn(body) ?? []);
  return asked.length + answered.length === 0 ? undefined : { asked, answered };
}

/** The same logs; `tell` gets what is read a first time. `through`: what the host found in the store, everything else it commits itself. */
export function watchedLogs(
  logs: LogReader,
  through: { readonly eventHead: number; readonly nextSeqno: number },
  tell: (logged: Logged) => void,
): LogReader {
  let nextEvent = 1;
  let nextSeqno = 0;
  const told = (logged: Logged | undefined): void => {
    if (logged !== undefined) tell(logged);
  };
  return {
    readEvents: async (from) => {
      const events = await logs.readEvents(from);
      told(
        requestsIn(
          events.filter(({ eventId }) => nextEvent <= eventId && eventId <= through.eventHead),
          [],
        ),
      );
      nextEvent = Math.max(nextEvent, (events.at(-1)?.eventId ?? 0) + 1);
      return events;
    },
    readChunks: async (from) => {
      const chunks = await logs.readChunks(from);
      told(
        requestsIn(
          [],
          chunks.filter(({ seqno }) => nextSeqno <= seqno && seqno < through.nextSeqno),
        ),
      );
      nextSeqno = Math.max(nextSeqno, (chunks.at(-1)?.seqno ?? -1) + 1);
      return chunks;
    },
  };
}
