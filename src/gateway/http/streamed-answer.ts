/**
 * An answer as server-sent events, written while it comes.
 *
 * A failure before the first content is an HTTP status, which every client understands: it has rules for each, and a `retry-after`. So the head
 * waits for the first content, though not for long: slow models think for a minute, and proxies cut a connection without a byte. Then it leaves
 * with the role, and empty deltas fill the silence. A failure after that is an error chunk, and no `[DONE]`.
 *
 * The next delta is asked for when the client has taken the last one: a slow client slows its own answer, and holds one delta of memory (F2).
 */
import type { ResponseHeaders } from "../../transport/node/exchange.ts";
import {
  type AnswerDelta,
  type AnswerForm,
  type AnswerFrames,
  type Frame,
  type FramePlace,
  sseFrame,
} from "../openai/index.ts";
import type { Answer } from "./answers.ts";
import { lostAnswer, type ResponseProgress } from "./response-progress.ts";
import { CallEnded, type HttpCall } from "./http-call.ts";
import type { HttpLimits } from "./http-limits.ts";

export interface StreamedAnswer {
  readonly call: HttpCall;
  readonly answer: Answer;
  readonly form: AnswerForm;
  readonly progress: ResponseProgress;
  /** Where a client stands that reads the rest of an answer. */
  readonly after?: FramePlace | undefined;
  readonly limits: Pick<HttpLimits, "headHeldMs" | "heartbeatMs">;
}

const SSE_HEADERS: ResponseHeaders = Object.freeze({
  "content-type": "text/event-stream; charset=utf-8",
  // A proxy that collects responses would make one lump of it.
  "x-accel-buffering": "no",
});

/** Rejects with the failure, for a status, when the response has not begun. Resolves when it is complete. */
export async function streamAnswer(streamed: StreamedAnswer, headers: () => ResponseHeaders): Promise<void> {
  const { call, answer, form, after, limits, progress } = streamed;
  const chunks = form.frames(answer.head, after);
  const frames = new FrameWriter(call, () => chunks.heartbeat(), limits.heartbeatMs);
  const deltas = answer.deltas[Symbol.asyncIterator]();
  try {
    const first = await firstContent(streamed, deltas);
    call.begin(200, { ...SSE_HEADERS, ...headers() });
    await frames.write(chunks.begin());
    await writeDeltas(chunks, frames, streamed, deltas, first);
  } catch (cause) {
    const isGone = cause instanceof CallEnded && cause.why === "hung_up";
    if (isGone || !call.exchange.hasResponded) throw cause;
    frames.finish([chunks.error(progress.failed(cause))]);
  } finally {
    frames.stop();
    // Not waited for: what is under way in there may take its time.
    deltas.return?.().catch(() => undefined);
  }
}

async function writeDeltas(
  chunks: AnswerFrames,
  frames: FrameWriter,
  { call, progress, after, form }: StreamedAnswer,
  deltas: AsyncIterator<AnswerDelta>,
  first: First,
): Promise<void> {
  for (let { next } = first; ; next = deltas.next()) {
    const result = await call.wait(next);
    if (result.done === true) {
      if (after === undefined || next !== first.next) throw lostAnswer();
      // It had everything but the last word.
      progress.isComplete = true;
      frames.finish(chunks.last());
      return;
    }
    const delta = result.value;
    const written = chunks.of(delta);
    if (chunks.isOver) {
      const error = form.errorOf(delta);
      if (error !== undefined) progress.failed(error);
      // A response that parted from what it said before is broken off; every other end is the whole story.
      progress.isComplete = delta.kind !== "diverged";
      frames.finish(chunks.isWhole ? [...written, ...chunks.last()] : written);
      return;
    }
    const room = frames.write(written);
    if (room !== undefined) await room;
  }
}

interface First {
  /** The first delta that has something to show, on its way if the time is over. */
  readonly next: Promise<IteratorResult<AnswerDelta>>;
}

/** Waits for the first content, so long at most; throws the failure that comes before it. */
async function firstContent(streamed: StreamedAnswer, deltas: AsyncIterator<AnswerDelta>): Promise<First> {
  const { call, limits, answer, form, progress } = streamed;
  const late = Promise.withResolvers<undefined>();
  const leave = async (): Promise<void> => {
    // The head names the answer, and a server that is killed then must be able to continue it. What fails is the answer's to say.
    await answer.kept?.();
    late.resolve(undefined);
  };
  const timer = setTimeout(() => void leave().catch(() => undefined), limits.headHeldMs);
  try {
    for (;;) {
      const next = deltas.next();
      const early = await call.wait(Promise.race([next, late.promise]));
      if (early === undefined || early.done === true) return { next };
      const error = form.errorOf(early.value);
      // A turn that fails before it has said anything.
      if (error !== undefined) {
        progress.isComplete = early.value.kind === "ended";
        throw error;
      }
      // A step that begins anew shows nothing.
      if (early.value.kind !== "restarted") return { next };
    }
  } finally {
    clearTimeout(timer);
  }
}

/** Writes frames, and an empty one whenever there was nothing to write for a while. */
class FrameWriter {
  readonly #call: HttpCall;
  readonly #timer: NodeJS.Timeout;

  constructor(call: HttpCall, heartbeat: () => Frame, heartbeatMs: number) {
    this.#call = call;
    this.#timer = setInterval(() => {
      // Comments keep no client alive. A client that has not taken the last piece yet gets no heartbeat.
      if (call.exchange.hasResponded && !call.isBlocked) call.exchange.write(bytesOf([heartbeat()]));
    }, heartbeatMs);
  }

  /** Undefined when more may be written at once. */
  write(frames: readonly Frame[]): Promise<void> | undefined {
    this.#timer.refresh();
    return frames.length === 0 ? undefined : this.#call.write(bytesOf(frames));
  }

  /** In one piece with the end: many clients wait for the socket, not for `[DONE]`. */
  finish(frames: readonly Frame[]): void {
    this.stop();
    this.#call.finish(bytesOf(frames));
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}

function bytesOf(frames: readonly Frame[]): Uint8Array {
  return Buffer.from(frames.map(sseFrame).join(""));
}
