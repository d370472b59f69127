/**
 * What runs on a stream: a function that receives what the client says and emits events.
 *
 * The host calls it when a stream begins and again after every restart, with both logs from their
 * beginning: an application that folds them first and acts afterwards needs no second code path for
 * recovery. What it emits is durable before any client sees it, and in order.
 */
import type { EndReason } from "../protocol/frames.ts";

/** What comes from the client's side, in log order. */
export type ClientInput =
  | { readonly kind: "chunk"; readonly seqno: number; readonly body: Uint8Array }
  /** Another client writes from here on: execs up to `sinceEvent` that have no result will get none (D2). */
  | { readonly kind: "takeover"; readonly sinceSeqno: number; readonly sinceEvent: number }
  /** The client has said everything. */
  | { readonly kind: "close"; readonly seqno: number };

export interface PastEvent {
  readonly eventId: number;
  readonly body: Uint8Array;
}

/** Ids are the SHA-256 of the bytes, in hexadecimal digits; checked both ways (E5). */
export interface ApplicationBlobs {
  /** Resolves with the id once the blob is durable. */
  put(bytes: Uint8Array): Promise<string>;
  /** Undefined when the stream has no such blob. */
  get(id: string): Promise<Uint8Array | undefined>;
}

/** A blob that is stored together with an event. The bytes are lent until the event is durable. */
export interface KeptBlob {
  readonly id: string;
  readonly bytes: Uint8Array;
}

/** Names that every run of this stream can say and no other process, with the order of the runs. */
interface LastingNames {
  /** Rises with each host that runs the stream (D1). */
  readonly hostEpoch: number;
  /** The name of the stream was drawn for this run: no run before it can have named anything. */
  readonly isNew: boolean;
  /** For what this text means; under the stream key. */
  secretName(text: string): string;
}

export interface ApplicationStream {
  readonly principal: string;
  readonly idempotencyKey: string;
  /** How many inputs the logs already held when this run began: after so many, everything is new. */
  readonly pastInputs: number;
  /** Everything the client has said and will say, from the beginning of the log. */
  readonly inputs: AsyncIterable<ClientInput>;
  /** The events that were in the log when this run began. */
  past(): AsyncIterable<PastEvent>;
  /**
   * Logs an event. It is accepted, in order, when this returns; the promise resolves with its id once
   * it is durable, and rejects with `stream_ended` after an abort or end, with `unavailable` when this
   * host has lost the stream. Not awaiting it batches events into one commit. What is `kept` with it goes to the conversation's blobs, durable with
   * the event or not at all; small ones only.
   */
  emit(body: Uint8Array, kept?: readonly KeptBlob[]): Promise<number>;
  /** The last event. After an abort the reason recorded is `aborted`. */
  end(body: Uint8Array, reason?: Exclude<EndReason, "aborted">): Promise<number>;
  /** The blobs of the conversation that the server keeps for this stream: they outlive it. Undefined where it keeps none. */
  readonly conversation: ApplicationBlobs | undefined;
  /** The stream's blobs: what is too large for its logs. Undefined where the server keeps none, or runs degraded. */
  readonly blobs: ApplicationBlobs | undefined;
  /** How this run names what outlives its process. Undefined where the server runs degraded. */
  readonly lasting: LastingNames | undefined;
  /**
   * Says that nothing happens until the client says something, or that this is over. While it is so and no client is attached the host may let go of the stream: it calls the
   * application again, with both logs, when a client is back.
   */
  waits(isWaiting: boolean): void;
  /** Fires on abort, and when this host no longer runs the stream: stop, in both cases. The reason of the second is `LetGo`, unless another host has the stream by now. */
  readonly signal: AbortSignal;
}

/** Returning without `end` ends the stream as completed; throwing ends it as failed. */
export type Application = (stream: ApplicationStream) => Promise<void>;
