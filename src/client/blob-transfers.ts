/**
 * The blobs of one stream, as its client puts and gets them.
 *
 * A blob is named by its bytes, so a call that broke is simply made again: the closed error table says whether, the retry
 * machine says when. Nothing is asked before the server has welcomed the stream, since a blob belongs to a stream
 * that is there.
 *
 * Invariant: what `get` resolves with is what the id names, whatever the server sent (E5).
 */
import * as retry from "../core/retry.ts";
import { blobIdBytes } from "../protocol/blob-id.ts";
import { hexOf } from "../protocol/bytes.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { LIMITS } from "../protocol/limits.ts";
import type { SteadyClock } from "../transport/environment.ts";
import type { BlobCalls, ClientMeta } from "../transport/transport.ts";
import type { StreamContext } from "./stream-context.ts";

/** The credentials, as the stream's connections send them. */
export interface Asker {
  meta(): ClientMeta;
  renewCredentials(): Promise<void>;
}

type Call<Result> = (calls: BlobCalls, meta: ClientMeta, signal: AbortSignal) => Promise<Result>;

/** Made once: nearly every stream ends so, and its stack would cost more than all the rest of the end. */
const ENDED = new HoldfastError("stream_ended", "this stream has ended and takes no more blobs");

export function blobTransfers(
  context: Pick<StreamContext, "blobs" | "environment" | "options" | "closing" | "sha256">,
  clock: SteadyClock,
  asker: Asker,
) {
  const ready = Promise.withResolvers<void>();
  /** Fires when nothing more can be put, with the reason. Made for the first that is put: nearly every stream puts none. */
  let over: AbortController | undefined;
  let overReason: HoldfastError | undefined;

  function overSignal(): AbortSignal {
    over ??= new AbortController();
    if (overReason !== undefined) over.abort(overReason);
    return over.signal;
  }

  function end(reason: HoldfastError): void {
    overReason ??= reason;
    over?.abort(reason);
  }

  const blobIdOf = async (bytes: Uint8Array): Promise<string> => hexOf(await context.sha256(bytes));

  async function attempt<Result>(until: AbortSignal | undefined, call: Call<Result>): Promise<Result> {
    const { blobs, closing, options } = context;
    if (blobs === undefined) {
      throw new HoldfastError(
        "unavailable",
        "this client has no blob calls: give it `blobs` beside `connect`",
      );
    }
    const signal = until === undefined ? closing : AbortSignal.any([until, closing]);
    await within(signal, ready.promise);
    let tries = retry.init(options.retry, clock.now());
    for (;;) {
      signal.throwIfAborted();
      try {
        return await within(signal, call(blobs, asker.meta(), signal));
      } catch (cause) {
        signal.throwIfAborted();
        if (!(cause instanceof HoldfastError)) throw cause;
        const { code, message, retryAfterMs } = cause;
        const nowMs = clock.now();
        const random = context.environment.random();
        const failed = { kind: "failed", code, message, retryAfterMs, nowMs, random } as const;
        const [next, [decision]] = retry.step(tries, failed);
        tries = next;
        if (decision?.kind === "ask") await asker.renewCredentials();
        else if (decision?.kind === "connect") await pause(decision.atMs - nowMs, signal);
        else throw cause;
      }
    }
  }

  function pause(delayMs: number, signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const cancel = context.environment.after(delayMs, resolve);
    return within(signal, promise).finally(cancel);
  }

  // There may be no caller that waits.
  ready.promise.catch(() => undefined);
  return {
    /** The stream is there. */
    welcomed: () => ready.resolve(),
    /** It cannot have blobs any more, or never could. */
    refuse(reason: HoldfastError): void {
      ready.reject(reason);
      end(reason);
    },
    /** It has ended in order: what it has can still be fetched. */
    ended: () => end(ENDED),
    /** Resolves with the id once the server has the blob on its disk. */
    async put(bytes: Uint8Array): Promise<string> {
      if (bytes.length > LIMITS.blobBytesMax) {
        const message = `a blob has at most ${LIMITS.blobBytesMax} bytes, this one ${bytes.length}`;
        throw new HoldfastError("too_large", message);
      }
      // A copy: the caller may use the buffer again, and a repeated call must send the same.
      const kept = new Uint8Array(bytes);
      const id = await blobIdOf(kept);
      await attempt(overSignal(), (calls, meta, signal) => calls.put(meta, id, kept, signal));
      return id;
    },
    /** Rejects with `not_found` when the stream has no such blob. */
    async get(id: string): Promise<Uint8Array> {
      // Refused here, rather than by each server in words of its own.
      blobIdBytes(id);
      const bytes = await attempt(undefined, (calls, meta, signal) => calls.get(meta, id, signal));
      if ((await blobIdOf(bytes)) === id) return bytes;
      throw new HoldfastError("stream_failed", `the server sent other bytes than those of blob ${id}`);
    },
    /** Deletes what the conversation has. */
    forget: (): Promise<void> => attempt(undefined, (calls, meta, signal) => calls.forget(meta, signal)),
  };
}

/** Rejects with the signal's reason as soon as it fires, whatever the promise does. */
function within<Result>(signal: AbortSignal, promise: Promise<Result>): Promise<Result> {
  const { promise: stopped, reject } = Promise.withResolvers<never>();
  const stop = (): void => reject(signal.reason);
  if (signal.aborted) stop();
  signal.addEventListener("abort", stop, { once: true });
  return Promise.race([promise, stopped]).finally(() => signal.removeEventListener("abort", stop));
}
