/**
 * The sending half of a connection by unary appends.
 *
 * One append is under way at a time, and what is written meanwhile shares the next one: order is kept without
 * the server's help, and a slow network makes larger appends instead of more of them. Since an append is answered only when its
 * chunks are durable, heartbeats and an abort do not wait behind it: they have one of their own (D3).
 *
 * An append that fails is the end of the connection: nobody knows what arrived, and the next attach finds out.
 */
import { APPEND_BYTES_MAX, type Append, type AppendOutcome } from "../protocol/append-codec.ts";
import { HoldfastError } from "../protocol/errors.ts";
import type { ClientFrame } from "../protocol/frames.ts";
import { LIMITS } from "../protocol/limits.ts";

export interface AppenderOptions {
  /** Rejects with a HoldfastError. */
  readonly send: (append: Pick<Append, "frames" | "listener" | "detach">) => Promise<AppendOutcome>;
  /** What was waiting is on its way. */
  readonly drained: () => void;
  /** The server has taken it and says why it cannot do it: it says so in its response as well. */
  readonly refused: (error: HoldfastError) => void;
  /** The append did not get through. */
  readonly failed: (error: HoldfastError) => void;
}

/** What one frame takes beside its body. */
const FRAME_HEAD_BYTES = 64;

export class Appender {
  readonly #options: AppenderOptions;
  readonly #queue: ClientFrame[] = [];
  #queuedBytes = 0;
  #isOpen = false;
  #isOver = false;
  #isEnding = false;
  #isDetached = false;
  #isSending = false;
  #isSendingAside = false;
  #isScheduled = false;
  #wasWaiting = false;
  /** The first append joins this listener; empty afterwards. */
  #listener = "";

  constructor(options: AppenderOptions) {
    this.#options = options;
  }

  /** Returns how many bytes wait. They leave in a turn of their own. */
  write(frames: readonly ClientFrame[]): number {
    if (this.#isEnding || this.#isOver) return 0;
    for (const frame of frames) {
      this.#queue.push(frame);
      this.#queuedBytes += bytesOf(frame);
    }
    if (this.#queuedBytes > 0) this.#wasWaiting = true;
    this.#schedule();
    return this.#queuedBytes;
  }

  /** Detaches behind everything that was written. */
  end(): void {
    this.#isEnding = true;
    this.#schedule();
  }

  /** The server knows the connection: appends will find it. */
  open(): void {
    this.#isOpen = true;
    this.#schedule();
  }

  /** The first append makes the connection known, through this listener; `open` follows when that has worked. */
  join(listener: string): void {
    this.#listener = listener;
    this.#sendNext();
  }

  stop(): void {
    this.#isOver = true;
    this.#queue.length = 0;
    this.#queuedBytes = 0;
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    queueMicrotask(() => {
      this.#isScheduled = false;
      if (!this.#isOpen || this.#isOver) return;
      if (!this.#isSending) this.#sendNext();
      else if (!this.#isSendingAside) this.#sendAside();
    });
  }

  #sendNext(): void {
    const frames = this.#takeBatch();
    const detach = this.#isEnding && this.#queue.length === 0 && !this.#isDetached;
    if (frames.length === 0 && !detach) return;
    this.#isDetached ||= detach;
    this.#isSending = true;
    const listener = this.#listener;
    this.#listener = "";
    void this.#send({ frames, listener, detach }, () => {
      this.#isSending = false;
      if (listener !== "") this.#isOpen = true;
    });
  }

  /** What has no seqno need not wait for what has. */
  #sendAside(): void {
    const frames = this.#queue.filter(({ kind }) => kind === "heartbeat" || kind === "abort");
    if (frames.length === 0) return;
    const others = this.#queue.filter((frame) => !frames.includes(frame));
    this.#queue.splice(0, this.#queue.length, ...others);
    for (const frame of frames) this.#queuedBytes -= bytesOf(frame);
    this.#isSendingAside = true;
    void this.#send({ frames, listener: "", detach: false }, () => {
      this.#isSendingAside = false;
    });
  }

  async #send(append: Pick<Append, "frames" | "listener" | "detach">, done: () => void): Promise<void> {
    const sent = this.#options.send(append);
    this.#tellDrained();
    try {
      const outcome = await sent;
      if ("error" in outcome) return this.#over(() => this.#options.refused(outcome.error));
      done();
      this.#schedule();
    } catch (cause) {
      this.#over(() =>
        this.#options.failed(HoldfastError.from(cause, "connection_lost", "the append could not be sent")),
      );
    }
  }

  #over(tell: () => void): void {
    if (this.#isOver) return;
    this.stop();
    tell();
  }

  #tellDrained(): void {
    if (!this.#wasWaiting || this.#queue.length > 0) return;
    this.#wasWaiting = false;
    queueMicrotask(() => {
      if (!this.#isOver && !this.#isEnding) this.#options.drained();
    });
  }

  /** As many frames as an append may have, and as many bytes. */
  #takeBatch(): ClientFrame[] {
    let count = 0;
    let byteCount = 0;
    for (const frame of this.#queue) {
      byteCount += bytesOf(frame);
      if (count === LIMITS.appendFramesMax || (count > 0 && byteCount > BATCH_BYTES_MAX)) break;
      count++;
    }
    const frames = this.#queue.splice(0, count);
    for (const frame of frames) this.#queuedBytes -= bytesOf(frame);
    return frames;
  }
}

/** Leaves room for what an append has beside its frames. */
const BATCH_BYTES_MAX = APPEND_BYTES_MAX - 4 * LIMITS.idempotencyKeyBytesMax;

function bytesOf(frame: ClientFrame): number {
  if (frame.kind === "chunk") return FRAME_HEAD_BYTES + frame.body.length;
  return FRAME_HEAD_BYTES + (frame.kind === "attach" ? (frame.firstChunk?.length ?? 0) : 0);
}
