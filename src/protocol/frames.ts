/**
 * The frames of the reliable layer as plain values.
 *
 * The machines in `core` think in these; `frame-codec.ts` turns them into the messages of
 * `stream.proto` and back. Bodies are opaque bytes, encoded once by the side that made them and never
 * decoded here (A2: re-encoded protobuf is not byte-stable).
 */
import type { ErrorCode } from "./errors.ts";

export type AttachMode = "open" | "resume";
export type Role = "writer" | "reader";
export type Durability = "none" | "fsync" | "quorum";

/** Why a stream ended. Carried by the last event of its log (B6). */
export type EndReason = "completed" | "aborted" | "failed";

/** The first frame of every connection, from the client. */
export interface AttachFrame {
  readonly kind: "attach";
  readonly protocolVersion: number;
  readonly mode: AttachMode;
  readonly role: Role;
  /** The last event the client has; 0 when it has none. */
  readonly eventId: number;
  /** Names the client's journal: another one is another device, hence a takeover (D2). */
  readonly journalId: string;
  /**
   * True only on the very first attempt to open a freshly drawn idempotency key. Without it a server
   * whose store is down could not tell a new stream from an existing one (D5).
   */
  readonly fresh: boolean;
  /** The user has stopped the turn: recorded first, whatever becomes of the attach (D3). */
  readonly abort: boolean;
  /** Chunk 0, inline, only together with `fresh` (A5). */
  readonly firstChunk: Uint8Array | undefined;
  /** A reader that wants what the log has: a turn that does not run is not made to run by it (G7). */
  readonly peek?: true;
  /** Of a writer that keeps no journal: the epoch of its last welcome. 0 begins one, so that whatever still knows older chunks is fenced (D1). */
  readonly writerEpoch?: number;
}

export interface ChunkFrame {
  readonly kind: "chunk";
  readonly seqno: number;
  readonly writerEpoch: number;
  readonly body: Uint8Array;
}

/** The client has said everything. Takes a seqno, so it is ordered, deduplicated and acked like a chunk. */
export interface CloseFrame {
  readonly kind: "close";
  readonly seqno: number;
  readonly writerEpoch: number;
}

/** Stops the turn. Has no seqno: it never waits behind a gap (D3). */
interface AbortFrame {
  readonly kind: "abort";
}

/** Says that the client is alive and which execs it is carrying out. Never journaled or logged. */
interface ClientHeartbeatFrame {
  readonly kind: "heartbeat";
  readonly runningExecIds: readonly string[];
}

export type ClientFrame = AttachFrame | ChunkFrame | CloseFrame | AbortFrame | ClientHeartbeatFrame;

/** The server's first frame on every connection: where both logs stand. */
export interface WelcomeFrame {
  readonly kind: "welcome";
  readonly message: string;
  readonly degraded: boolean;
  /** The first seqno that is not durable; everything below it is acknowledged (A6). */
  readonly nextSeqno: number;
  readonly eventHead: number;
  /** The oldest event that can still be replayed. */
  readonly eventFloor: number;
  readonly writerEpoch: number;
  /** The event head when this writer epoch began: execs up to it belong to no writer any more (D2). */
  readonly writerSinceEvent: number;
  readonly durability: Durability;
  readonly retentionLeftMs: number;
  readonly heartbeatIntervalMs: number;
  readonly serverTimeMs: number;
  /** When something last happened on the stream, by the server's clock; 0 when the server does not say. */
  readonly lastActivityMs: number;
  readonly aborted: boolean;
  readonly protocolVersion: number;
  /** True when the stream existed before this attach. */
  readonly resumed: boolean;
  /** The client's side has said its last word, perhaps through a writer before this one. */
  readonly closed: boolean;
}

export interface EventFrame {
  readonly kind: "event";
  /** 0 on a degraded stream, whose events have no ids. */
  readonly eventId: number;
  readonly body: Uint8Array;
  /** Set on the last event of the log. */
  readonly end: EndReason | undefined;
}

/** Every chunk up to and including `seqno` is durable. */
interface AckFrame {
  readonly kind: "ack";
  readonly seqno: number;
}

/** Carries no id and is no progress, but tells what this connection should have seen (B7). */
interface ServerHeartbeatFrame {
  readonly kind: "heartbeat";
  readonly nextSeqno: number;
  /** The last event handed to this connection. */
  readonly eventHead: number;
  readonly aborted: boolean;
}

export interface ErrorFrame {
  readonly kind: "error";
  readonly code: ErrorCode;
  readonly message: string;
  readonly retryAfterMs: number | undefined;
}

/** The store failed under a live stream: nothing after `head` will come from this connection (D5). */
interface DurabilityLostFrame {
  readonly kind: "durability_lost";
  readonly head: number;
}

export type ServerFrame =
  | WelcomeFrame
  | EventFrame
  | AckFrame
  | ServerHeartbeatFrame
  | ErrorFrame
  | DurabilityLostFrame;
