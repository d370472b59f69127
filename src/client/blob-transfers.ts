/**
 * The blobs of one stream, as its client puts and gets them.
 *
 * A blob is named by its bytes, so a call that broke is simply made again: the closed error table says whether, the retry
 * machine says when. Nothing is asked before the server has welcomed the stream, since a blob belongs to a stream
 * that is there.
 *
 * Invariant: what `get` resolves with is what the id names, whoever sent it (E5).
 */
import * as retry from "../core/retry.ts";
import { blobIdBytes, blobIdOf } from "../protocol/blob-id.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { LIMITS } from "../protocol/limits.ts";
import type { SteadyClock } from "../transport/environment.ts";
import type { BlobCalls, ClientMeta } from "../transport/transport.ts";
import type { StreamContext } from "./stream-context.ts";

/** Who asks, as the stream's connections would. */
export interface Asker {
  meta(): ClientMeta;
  renewCredentials(): Promise<void>;
}

type Call<Result> = (calls: BlobCalls, meta: ClientMeta, signal: AbortSignal) => Promise<Result>;

export class BlobTransfers {
  readonly #context: Pick<StreamContext, "blobs" | "environment" | "options" | "closing">;
  readonly #clock: SteadyClock;
  readonly #asker: Asker;
  readonly #ready = Promise.withResolvers<void>();
  /** Fires when nothing more can be put, with the reason. */
  readonly #over = new AbortController();

  constructor(
    context: Pick<StreamContext, "blobs" | "environment" | "options" | "closing">,
    clock: SteadyClock,
    asker: Asker,
  ) {
    this.#context = context;
    this.#clock = clock;
    this.#asker = asker;
    // Nobody may be waiting.
    this.#ready.promise.catch(() => undefined);
  }

  /** The stream is there. */
  welcomed(): void {
    this.#ready.resolve();
  }

  /** It cannot have blobs any more, or never could. */
  refuse(reason: HoldfastError): void {
    this.#ready.reject(reason);
    this.#over.abort(reason);
  }

  /** It has ended in order: what it has can still be fetched. */
  ended(): void {
    this.#over.abort(new HoldfastError("stream_ended", "this stream has ended and takes no more blobs"));
  }

  /** Resolves with the id once the server has the blob on its disk. */
  async put(bytes: Uint8Array): Promise<string> {
    if (bytes.length > LIMITS.blobBytesMax) {
      const message = `a blob has at most ${LIMITS.blobBytesMax} bytes, this one ${bytes.length}`;
      throw new HoldfastError("too_large", message);
    }
    // A copy: whoever has it may use the buffer again, and a repeated call must send the same.
    const kept = new Uint8Array(bytes);
    const id = await blobIdOf(kept);
    await this.#attempt(this.#over.signal, (calls, meta, signal) => calls.put(meta, id, kept, signal));
    return id;
  }

  /** Rejects with `not_found` when the stream has no such blob. */
  async get(id: string): Promise<Uint8Array> {
    // Refused here, rather than by everybody's server in words of its own.
    blobIdBytes(id);
    const bytes = await this.#attempt(undefined, (calls, meta, signal) => calls.get(meta, id, signal));
    if ((await blobIdOf(bytes)) === id) return bytes;
    throw new HoldfastError("stream_failed", `the server sent other bytes than those of blob ${id}`);
  }

  async #attempt<Result>(over: AbortSignal | undefined, call: Call<Result>): Promise<Result> {
    const { blobs, closing, options } = this.#context;
    if (blobs === undefined) {
      throw new HoldfastError(
        "unavailable",
        "this client has no blob calls: give it `blobs` beside `connect`",
      );
    }
    const signal = over === undefined ? closing : AbortSignal.any([over, closing]);
    await within(signal, this.#ready.promise);
    let tries = retry.init(options.retry, this.#clock.now());
    for (;;) {
      signal.throwIfAborted();
      try {
        return await within(signal, call(blobs, this.#asker.meta(), signal));
      } catch (cause) {
        signal.throwIfAborted();
        if (!(cause instanceof HoldfastError)) throw cause;
        const { code, message, retryAfterMs } = cause;
        const nowMs = this.#clock.now();
        const random = this.#context.environment.random();
        const [next, [decision]] = retry.step(tries, {
          kind: "failed",
          code,
          message,
          retryAfterMs,
          nowMs,
          random,
        });
        tries = next;
        if (decision?.kind === "ask") await this.#asker.renewCredentials();
        else if (decision?.kind === "connect") await this.#pause(decision.atMs - nowMs, signal);
        else throw cause;
      }
    }
  }

  #pause(delayMs: number, signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const cancel = this.#context.environment.after(delayMs, resolve);
    return within(signal, promise).finally(cancel);
  }
}

/** Rejects with the signal's reason as soon as it fires, whatever the promise does. */
function within<Result>(signal: AbortSignal, promise: Promise<Result>): Promise<Result> {
  const { promise: stopped, reject } = Promise.withResolvers<never>();
  const stop = (): void => reject(signal.reason);
  if (signal.aborted) stop();
  signal.addEventListener("abort", stop, { once: true });
  return Promise.race([promise, stopped]).finally(() => signal.removeEventListener("abort", stop));
}
