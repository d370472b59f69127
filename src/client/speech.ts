/**
 * What the application says, from its call to the server's ack: first it waits for room, then for
 * the journal, then its body is kept for playback.
 *
 * Holds bodies and promises; when something may be said and sent is the machine's business.
 */
import { assert } from "../protocol/assert.ts";
import type { SaidChunk } from "../core/journal.ts";
import { HoldfastError } from "../protocol/errors.ts";
import type { ClientFrame } from "../protocol/frames.ts";
import { LIMITS } from "../protocol/limits.ts";

export interface Saying {
  readonly body: Uint8Array;
  readonly isClose: boolean;
  /** Set for the result of an exec. */
  readonly execId: string | undefined;
  /** A reply to an exec, its result or something before it. */
  readonly isReply: boolean;
}

interface Waiting extends Saying {
  readonly resolve: (seqno: number) => void;
  readonly reject: (error: HoldfastError) => void;
}

export class Speech {
  readonly #said = new Map<number, { readonly body: Uint8Array; readonly isClose: boolean }>();
  #waiting: Waiting[] = [];
  #unjournaled: { readonly seqno: number; readonly waiting: Waiting }[] = [];

  constructor(unacked: readonly SaidChunk[]) {
    for (const { seqno, body, isClose } of unacked) this.#said.set(seqno, { body, isClose });
  }

  /** Resolves with the seqno once the journal has it. Nobody has to wait for it. */
  say(saying: Saying): Promise<number> {
    checkChunkSize(saying.body);
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    promise.catch(() => undefined);
    // A copy, which a Buffer's own `slice` is not: whoever said it may use the buffer again, and playback must be
    // the same bytes (A2).
    const body = new Uint8Array(saying.body);
    // A close waits for the results of execs, so neither they nor what comes before them may wait behind it.
    const close = !saying.isReply ? -1 : this.#waiting.findIndex(({ isClose }) => isClose);
    this.#waiting.splice(close === -1 ? this.#waiting.length : close, 0, {
      ...saying,
      body,
      resolve,
      reject,
    });
    return promise;
  }

  /** What would be said next. */
  get next(): Saying | undefined {
    return this.#waiting[0];
  }

  /** The next saying gets its number. */
  number(seqno: number): void {
    const waiting = this.#waiting.shift();
    assert(waiting !== undefined, "somebody wants to say something");
    this.#unjournaled.push({ seqno, waiting });
    const { body, isClose } = waiting;
    this.#said.set(seqno, { body, isClose });
  }

  /** Everything below is on disk. */
  journaled(nextSeqno: number): void {
    for (
      let first = this.#unjournaled[0];
      first !== undefined && first.seqno < nextSeqno;
      first = this.#unjournaled[0]
    ) {
      this.#unjournaled.shift();
      first.waiting.resolve(first.seqno);
    }
  }

  release(below: number): void {
    for (const seqno of this.#said.keys()) if (seqno < below) this.#said.delete(seqno);
  }

  /** Nothing can be said any more. */
  refuseAll(error: HoldfastError): void {
    for (const waiting of this.#waiting) waiting.reject(error);
    for (const { waiting } of this.#unjournaled) waiting.reject(error);
    this.#waiting = [];
    this.#unjournaled = [];
  }

  bodyOf(seqno: number): Uint8Array {
    const said = this.#said.get(seqno);
    assert(said !== undefined, "what is sent or recorded was said");
    return said.body;
  }

  frameOf(seqno: number, writerEpoch: number): ClientFrame {
    const body = this.bodyOf(seqno);
    return this.#said.get(seqno)?.isClose === true
      ? { kind: "close", seqno, writerEpoch }
      : { kind: "chunk", seqno, writerEpoch, body };
  }
}

/** Refused before anything happens: a stream whose first chunk cannot be said must not begin. */
export function checkChunkSize(body: Uint8Array | undefined): void {
  if (body === undefined || body.length <= LIMITS.chunkBytesMax) return;
  throw new HoldfastError(
    "too_large",
    `a chunk has at most ${LIMITS.chunkBytesMax} bytes; put the rest in a blob`,
  );
}
