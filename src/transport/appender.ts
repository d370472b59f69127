/**
 * The sending half of a connection by unary appends.
 *
 * One append is under way at a time, and what is written meanwhile shares the next one: order is kept without
 * the server's help, and a slow network makes larger appends instead of more of them. Since an append is answered only when its
 * chunks are durable, heartbeats and an abort do not wait behind it: they have one of their own (D3).
 *
 * An append that fails is the end of the connection: the client does not know what arrived, and the next attach finds out.
 */
import { APPEND_BYTES_MAX, type Append, type AppendOutcome } from "../protocol/append-codec.ts";
import { HoldfastError } from "../protocol/errors.ts";
import type { ClientFrame } from "../protocol/frames.ts";
import { LIMITS } from "../protocol/limits.ts";

interface AppenderOptions {
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

export function appender(options: AppenderOptions) {
  const queue: ClientFrame[] = [];
  let queuedBytes = 0;
  let isOpen = false;
  let isOver = false;
  let isEnding = false;
  let isDetached = false;
  let isSending = false;
  let isSendingAside = false;
  let isScheduled = false;
  let wasWaiting = false;
  /** The first append joins this listener; empty afterwards. */
  let listenerToJoin = "";

  function stop(): void {
    isOver = true;
    queue.length = 0;
    queuedBytes = 0;
  }

  function schedule(): void {
    if (isScheduled) return;
    isScheduled = true;
    queueMicrotask(() => {
      isScheduled = false;
      if (!isOpen || isOver) return;
      if (!isSending) sendNext();
      else if (!isSendingAside) sendAside();
    });
  }

  function sendNext(): void {
    const frames = takeBatch();
    const detach = isEnding && queue.length === 0 && !isDetached;
    if (frames.length === 0 && !detach) return;
    isDetached ||= detach;
    isSending = true;
    const listener = listenerToJoin;
    listenerToJoin = "";
    void send({ frames, listener, detach }, () => {
      isSending = false;
      if (listener !== "") isOpen = true;
    });
  }

  /** What has no seqno need not wait for what has. */
  function sendAside(): void {
    const frames = queue.filter(({ kind }) => kind === "heartbeat" || kind === "abort");
    if (frames.length === 0) return;
    const others = queue.filter((frame) => !frames.includes(frame));
    queue.splice(0, queue.length, ...others);
    for (const frame of frames) queuedBytes -= bytesOf(frame);
    isSendingAside = true;
    void send({ frames, listener: "", detach: false }, () => {
      isSendingAside = false;
    });
  }

  async function send(
    append: Pick<Append, "frames" | "listener" | "detach">,
    done: () => void,
  ): Promise<void> {
    const sent = options.send(append);
    tellDrained();
    try {
      const outcome = await sent;
      if ("error" in outcome) return over(() => options.refused(outcome.error));
      done();
      schedule();
    } catch (cause) {
      over(() =>
        options.failed(HoldfastError.from(cause, "connection_lost", "the append could not be sent")),
      );
    }
  }

  function over(tell: () => void): void {
    if (isOver) return;
    stop();
    tell();
  }

  function tellDrained(): void {
    if (!wasWaiting || queue.length > 0) return;
    wasWaiting = false;
    queueMicrotask(() => {
      if (!isOver && !isEnding) options.drained();
    });
  }

  /** As many frames as an append may have, and as many bytes. */
  function takeBatch(): ClientFrame[] {
    let count = 0;
    let byteCount = 0;
    for (const frame of queue) {
      byteCount += bytesOf(frame);
      if (count === LIMITS.appendFramesMax || (count > 0 && byteCount > BATCH_BYTES_MAX)) break;
      count++;
    }
    const frames = queue.splice(0, count);
    for (const frame of frames) queuedBytes -= bytesOf(frame);
    return frames;
  }

  return {
    /** Returns how many bytes wait. They leave in a turn of their own. */
    write(frames: readonly ClientFrame[]): number {
      if (isEnding || isOver) return 0;
      for (const frame of frames) {
        queue.push(frame);
        queuedBytes += bytesOf(frame);
      }
      if (queuedBytes > 0) wasWaiting = true;
      schedule();
      return queuedBytes;
    },
    /** Detaches behind everything that was written. */
    end(): void {
      isEnding = true;
      schedule();
    },
    /** The server knows the connection: appends will find it. */
    open(): void {
      isOpen = true;
      schedule();
    },
    /** The first append makes the connection known, through this listener; `open` follows when that has worked. */
    join(listener: string): void {
      listenerToJoin = listener;
      sendNext();
    },
    stop,
  };
}

/** Leaves room for what an append has beside its frames. */
const BATCH_BYTES_MAX = APPEND_BYTES_MAX - 4 * LIMITS.idempotencyKeyBytesMax;

function bytesOf(frame: ClientFrame): number {
  if (frame.kind === "chunk") return FRAME_HEAD_BYTES + frame.body.length;
  return FRAME_HEAD_BYTES + (frame.kind === "attach" ? (frame.firstChunk?.length ?? 0) : 0);
}
