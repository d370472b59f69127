/**
 * Whether a connection may attach, and as what.
 *
 * Two questions in two functions. `findStream` decides what the request means for what the store
 * holds: make the stream, go on with it, run without durability, or refuse. `admit` decides what the
 * connection becomes on a stream that is there: writer, reader, a writer that takes over.
 *
 * Wrong key, foreign stream and no stream are one and the same answer (D4, E1, E2). A journal that
 * was the writer before and is not the newest any more is fenced for good: it never takes the
 * stream back by itself (D1).
 */
import type { ErrorCode } from "../protocol/errors.ts";
import type { AttachFrame } from "../protocol/frames.ts";
import { LIMITS, PROTOCOL_VERSION } from "../protocol/limits.ts";
import type { StreamState, Writer } from "./stream-state.ts";

export interface Refusal {
  readonly kind: "refuse";
  readonly code: ErrorCode;
  readonly message: string;
}

/** What the store said; `keyMatches` is the outcome of the constant-time comparison. */
export type Found =
  | { readonly kind: "absent" }
  | { readonly kind: "gone"; readonly keyMatches: boolean }
  | { readonly kind: "live"; readonly keyMatches: boolean }
  /** The store did not answer. */
  | { readonly kind: "store_down" };

export type Finding =
  | { readonly kind: "create" }
  | { readonly kind: "go_on" }
  | { readonly kind: "degrade" }
  | Refusal;

export function findStream(attach: AttachFrame, found: Found, openStreams: number): Finding {
  if (attach.protocolVersion !== PROTOCOL_VERSION) {
    return refuse(
      "unsupported_version",
      `this server speaks version ${PROTOCOL_VERSION}, not ${attach.protocolVersion}`,
    );
  }
  switch (found.kind) {
    case "store_down":
      // Only a first attempt with a freshly drawn idempotency key is surely new (D5).
      if (attach.fresh && attach.mode === "open") return { kind: "degrade" };
      return refuse("unavailable", "the store is down; this stream waits for it");
    case "absent":
      if (attach.mode === "resume") return NOT_FOUND;
      if (openStreams >= LIMITS.openStreamsPerPrincipalMax) {
        return refuse("overloaded", `${openStreams} streams are open; end some first`);
      }
      return attach.role === "writer" ? { kind: "create" } : NOT_FOUND;
    case "gone":
      return found.keyMatches
        ? refuse("stream_gone", "this stream was kept for its time and is gone")
        : NOT_FOUND;
    case "live":
      return found.keyMatches ? { kind: "go_on" } : NOT_FOUND;
  }
}

export type Admission =
  /** The connection joins; nothing durable changes. */
  | { readonly kind: "join" }
  /** The connection is a new writer: these writers must be durable before it is welcomed. */
  | { readonly kind: "new_writer"; readonly writers: readonly Writer[]; readonly isTakeover: boolean }
  | Refusal;

/**
 * `state` is what this connection would build on, staged commits included; `durableHead` is the last
 * event anybody can have seen; `attached` counts the connections that this one does not replace.
 */
export function admit(
  attach: AttachFrame,
  state: StreamState,
  durableHead: number,
  attached: number,
): Admission {
  if (attach.eventId > durableHead) {
    return refuse("event_ahead", `event ${attach.eventId} was never sent; the log ends at ${durableHead}`);
  }
  if (attach.eventId + 1 < state.eventFloor) {
    return refuse("events_gone", `events before ${state.eventFloor} are gone`);
  }
  if (attached >= LIMITS.readersPerStreamMax) {
    return refuse("overloaded", `${attached} connections are attached to this stream already`);
  }
  const newest = state.writers.at(-1);
  if (attach.role === "reader" || newest?.journalId === attach.journalId) return { kind: "join" };
  if (state.writers.some((writer) => writer.journalId === attach.journalId)) {
    return refuse("fenced", "another client has taken this stream over");
  }
  if (state.writers.length >= LIMITS.writersPerStreamMax) {
    return refuse("overloaded", "this stream has been taken over too often");
  }
  const writer = { journalId: attach.journalId, sinceSeqno: state.nextSeqno, sinceEvent: state.eventHead };
  return { kind: "new_writer", writers: [...state.writers, writer], isTakeover: newest !== undefined };
}

const NOT_FOUND: Refusal = refuse("not_found", "no such stream, or not with this stream key");

function refuse(code: ErrorCode, message: string): Refusal {
  return { kind: "refuse", code, message };
}
