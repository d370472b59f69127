/**
 * Whether a connection may attach, and as what.
 *
 * Two questions in two functions. `findStream` decides what the request means for what the store
 * holds: make the stream, resume it, run without durability, or refuse. `admit` decides what the
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
      if (attach.fresh && attach.mode === "open" && attach.role === "writer") return { kind: "degrade" };
      return refuse("unavailable", "the store is down; this stream waits for it");
    case "absent":
      if (attach.mode === "resume" || attach.role === "reader") return NOT_FOUND;
      if (openStreams >= LIMITS.openStreamsPerPrincipalMax) {
        return refuse("overloaded", `${openStreams} streams are open; end some first`);
      }
      return { kind: "create" };
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
  /** The connection begins a writer epoch, which must be durable before it is welcomed. */
  | { readonly kind: "new_writer"; readonly writers: readonly Writer[]; readonly isTakeover: boolean }
  | Refusal;

/**
 * `staged` is what this connection would build on, `durable` what any client can know of: a fence or a
 * floor that is not durable yet is nothing to refuse by, since it may never come. `readers` counts
 * the readers that are attached.
 */
export function admit(
  attach: AttachFrame,
  staged: StreamState,
  durable: StreamState,
  readers: number,
): Admission {
  if (attach.eventId > durable.eventHead) {
    return refuse(
      "event_ahead",
      `event ${attach.eventId} was never sent; the log ends at ${durable.eventHead}`,
    );
  }
  if (attach.eventId + 1 < durable.eventFloor) {
    return refuse("events_gone", `events before ${durable.eventFloor} are gone`);
  }
  if (attach.role === "reader") {
    if (readers < LIMITS.readersPerStreamMax) return { kind: "join" };
    return refuse("overloaded", `${readers} readers are attached to this stream already`);
  }
  const newest = staged.writers.at(-1);
  if (newest?.journalId === attach.journalId) {
    const { writerEpoch = staged.writerEpoch } = attach;
    if (writerEpoch === staged.writerEpoch) return { kind: "join" };
    if (writerEpoch === 0) return { kind: "new_writer", writers: staged.writers, isTakeover: false };
    return overtaken(staged, durable);
  }
  // A client that opens numbers its chunks from 0: with a writer before it, it came too late. To take over is
  // a wish of its own, and says "resume".
  const wasWriter = staged.writers.some((writer) => writer.journalId === attach.journalId);
  if (wasWriter || (newest !== undefined && attach.mode === "open")) {
    return overtaken(staged, durable);
  }
  if (staged.writers.length >= LIMITS.writersPerStreamMax) {
    return refuse("overloaded", "this stream has been taken over too often");
  }
  // Before the first writer there was no client that could leave execs unanswered.
  const isTakeover = newest !== undefined;
  const writer = {
    journalId: attach.journalId,
    sinceSeqno: isTakeover ? staged.nextSeqno : 0,
    sinceEvent: isTakeover ? staged.eventHead : 0,
  };
  return { kind: "new_writer", writers: [...staged.writers, writer], isTakeover };
}

function overtaken(staged: StreamState, durable: StreamState): Refusal {
  if (staged.writerEpoch !== durable.writerEpoch)
    return refuse("unavailable", "another client is about to take this stream over");
  return refuse("fenced", "another client has taken this stream over");
}

const NOT_FOUND: Refusal = refuse("not_found", "no such stream, or not with this stream key");

function refuse(code: ErrorCode, message: string): Refusal {
  return { kind: "refuse", code, message };
}
