/**
 * What a transport is: one pair of mirror functions.
 *
 * A client *connects* and gets a wire to write client frames to, handing over a handler for what it
 * receives; a server *accepts* and gets a wire to write server frames to, handing back a handler
 * for what comes in. Joining the two is a whole transport (`memory.ts`), so everything above can be
 * tested without a network and no side has a second code path.
 *
 * A transport keeps order within a connection and promises nothing else: frames may be lost with
 * the connection at any point, and a closed connection means no more than that (B6).
 */
import type { HoldfastError } from "../protocol/errors.ts";
import type { ClientFrame, ServerFrame } from "../protocol/frames.ts";

/** The sending half of a connection. */
export interface Wire<Frame> {
  /**
   * Hands frames over, in order, in one piece. Returns how many bytes now wait unsent: the sender
   * must pause above its bound and continue at `drained`.
   */
  write(frames: readonly Frame[]): number;
  /** Ends the connection after what was written. Calling it twice, or after `closed`, does nothing. */
  end(): void;
}

/** The receiving half of a connection. No call comes after `closed`. */
export interface Handler<Frame> {
  received(frame: Frame): void;
  /** What waited unsent is on its way; only called when something waited. */
  drained(): void;
  /** The connection is over, from whichever side; the reason is set when there was one. */
  closed(reason: HoldfastError | undefined): void;
}

/** What every connection says before its first frame (the headers of `docs/PROTOCOL.md`). */
export interface ConnectionMeta {
  readonly idempotencyKey: string;
  readonly streamKey: Uint8Array;
  /** The stream's blobs are those of a conversation that the server keeps. */
  readonly conversation?: ConversationAccess | undefined;
}

/** A client's right to a conversation that the server keeps. The key is never stored. */
export interface ConversationAccess {
  readonly key: Uint8Array;
  /** How long after its last turn the conversation is kept; the server may bound it. */
  readonly keepMs: number;
}

/** The same, as a server sees it once the API key has been checked. */
export interface AcceptedMeta extends ConnectionMeta {
  readonly principal: string;
  /** The peer is a part of this process that bounds the principal's open streams itself: they do not count for the server's limit. */
  readonly countsItself?: boolean;
  /** Pays for the model calls of a stream that is opened; absent: no limit counts for it. */
  readonly payer?: Payer | undefined;
}

/** An API key that may spend so many tokens of models in a day. */
export interface Payer {
  readonly apiKeyId: string;
  readonly tokensPerDay: number;
}

/** Whose a call is. */
export type Caller = Pick<AcceptedMeta, "principal" | "payer">;

export interface ClientMeta extends ConnectionMeta {
  /** The API key; undefined where the transport already knows the principal. */
  readonly credentials: string | undefined;
}

/**
 * The calls of `BlobService`, beside the connections. One attempt each; both reject with a HoldfastError, and with the signal's
 * reason when it fires. The id is the SHA-256 of the bytes in hexadecimal digits; a server checks it, a client checks what it gets.
 */
export interface BlobCalls {
  /** Resolves once the blob is durable. */
  put(meta: ClientMeta, id: string, bytes: Uint8Array, signal: AbortSignal): Promise<void>;
  /** Rejects with `not_found` when there is no such stream, or no such blob in it. */
  get(meta: ClientMeta, id: string, signal: AbortSignal): Promise<Uint8Array>;
  /** Deletes all blobs of the conversation. */
  forget(meta: ClientMeta, signal: AbortSignal): Promise<void>;
}

/** Never throws: a connection that cannot be made is one that closes. `closed` is not called before it returned. */
export type Connect = (meta: ClientMeta, handler: Handler<ServerFrame>) => Wire<ClientFrame>;

export type Accept = (meta: AcceptedMeta, wire: Wire<ServerFrame>) => Handler<ClientFrame>;
