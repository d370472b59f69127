/**
 * What the application says, from its call to the server's ack: first it waits for room, then until it is safe (in the journal or,
 * without one, at the server); its body is kept for playback.
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

export function speechOf(unacked: readonly SaidChunk[]) {
  const said = new Map<number, { readonly body: Uint8Array; readonly isClose: boolean }>();
  const waiting: Waiting[] = [];
  const unsafe: (Waiting & { readonly seqno: number })[] = [];

  function bodyOf(seqno: number): Uint8Array {
    const found = said.get(seqno);
    assert(found !== undefined, "what is sent or recorded was said");
    return found.body;
  }

  for (const { seqno, body, isClose } of unacked) said.set(seqno, { body, isClose });
  return {
    /** Resolves with the seqno once it is safe. The caller need not wait for it. */
    say(saying: Saying): Promise<number> {
      checkChunkSize(saying.body);
      const { promise, resolve, reject } = Promise.withResolvers<number>();
      promise.catch(() => undefined);
      // A copy, which a Buffer's own `slice` is not: the caller may use the buffer again, and playback must be
      // the same bytes (A2).
      const body = new Uint8Array(saying.body);
      // A close waits for the results of execs, so neither they nor what comes before them may wait behind it.
      const close = !saying.isReply ? -1 : waiting.findIndex(({ isClose }) => isClose);
      const at = close === -1 ? waiting.length : close;
      waiting.splice(at, 0, { ...saying, body, resolve, reject });
      return promise;
    },
    /** What would be said next. */
    next: (): Saying | undefined => waiting[0],
    /** The next saying gets its number. */
    number(seqno: number): void {
      const next = waiting.shift();
      assert(next !== undefined, "a saying waits for its number");
      unsafe.push({ ...next, seqno });
      const { body, isClose } = next;
      said.set(seqno, { body, isClose });
    },
    /** Everything below cannot be lost any more. */
    safe(nextSeqno: number): void {
      for (let first = unsafe[0]; first !== undefined && first.seqno < nextSeqno; first = unsafe[0]) {
        unsafe.shift();
        first.resolve(first.seqno);
      }
    },
    release(below: number): void {
      for (const seqno of said.keys()) if (seqno < below) said.delete(seqno);
    },
    /** Nothing can be said any more. */
    refuseAll(cause: HoldfastError | undefined): void {
      const refused = [...waiting.splice(0), ...unsafe.splice(0)];
      if (refused.length === 0) return;
      const message = "the stream is over for this client; what was said last may or may not arrive";
      const error = new HoldfastError("stream_ended", message, { cause });
      for (const { reject } of refused) reject(error);
    },
    bodyOf,
    frameOf(seqno: number, writerEpoch: number): ClientFrame {
      const body = bodyOf(seqno);
      return said.get(seqno)?.isClose === true
        ? { kind: "close", seqno, writerEpoch }
        : { kind: "chunk", seqno, writerEpoch, body };
    },
  };
}

/** Refused before anything happens: a stream whose first chunk cannot be said must not begin. */
export function checkChunkSize(body: Uint8Array | undefined): void {
  if (body === undefined || body.length <= LIMITS.chunkBytesMax) return;
  throw new HoldfastError(
    "too_large",
    `a chunk has at most ${LIMITS.chunkBytesMax} bytes; put the rest in a blob`,
  );
}
