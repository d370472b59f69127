/**
 * A streamed chat answer: deltas in, `chat.completion.chunk` frames out.
 *
 * What breaks clients is decided here once: the role comes first; a tool call is whole in its first delta, with index, id,
 * type and name; a good end always has its finish reason, and only a good end has one. An answer that breaks off ends with an error frame, which
 * clients raise, and without `[DONE]`.
 */
import { hash } from "node:crypto";
import type { AnswerCall, AnswerDelta, Finish } from "../../turn/answer-delta.ts";
import type { Usage } from "../../turn/usage.ts";
import { endError } from "./answer.ts";
import { chatUsage } from "./chat-usage.ts";
import type { AnswerFrames, AnswerHead } from "./door.ts";
import { type Frame, framePlaceId, type FramePlace } from "./frames.ts";
import { reasoningDetail } from "./reasoning-details.ts";
import { errorBody, type GatewayError } from "./gateway-error.ts";

export interface ChunkOptions extends AnswerHead {
  /** Where a resuming reader is; absent for one that has nothing. */
  readonly after?: FramePlace;
}

/** The same seed (the stream and where the answer begins in it) gives the same id. */
export function completionId(seed: string): string {
  return `chatcmpl-${hash("sha256", seed).slice(0, 32)}`;
}

type Json = Readonly<Record<string, unknown>>;

export class ChatChunks implements AnswerFrames {
  readonly #options: ChunkOptions;
  /** The beginning of every chunk, written once: there is one for every few letters of the answer. */
  #head: string;
  #model: string;
  /** As OpenAI does: a client that asked for the usage finds the field in every chunk. */
  readonly #tail: string;
  /** Frames that the reader has already. */
  #toSkip: number;
  /** Where the reader is. */
  #placeId: string;
  /** The event that the frames under way come from, and how many of it were made. */
  #eventId: number;
  #made = 0;
  #end: "finish" | "error" | undefined;

  constructor(options: ChunkOptions) {
    this.#options = options;
    const { model, includeUsage } = options;
    this.#model = model;
    this.#head = headOf(options, model);
    this.#tail = includeUsage ? ',"usage":null}' : "}";
    const { fromEvent } = options;
    const { after = { answer: fromEvent, eventId: fromEvent, frames: 0 } } = options;
    this.#toSkip = after.frames;
    this.#eventId = after.eventId;
    this.#placeId = framePlaceId(after);
  }

  get isOver(): boolean {
    return this.#end !== undefined;
  }

  get isWhole(): boolean {
    return this.#end === "finish";
  }

  /** To be sent at once, before anything is known. Nothing for a reader that resumes. */
  begin(): readonly Frame[] {
    if (this.#options.after !== undefined) return [];
    return [this.#here(this.#chunk({ role: "assistant", content: "" }, null))];
  }

  of(delta: AnswerDelta): readonly Frame[] {
    if (this.isOver) return [];
    const error = endError(delta);
    if (error !== undefined) return [this.error(error)];
    this.#servedBy(delta.model ?? this.#options.model);
    const bodies = this.#bodies(delta);
    return bodies.flatMap((data, at) => this.#placed(data, delta, at === bodies.length - 1));
  }

  #servedBy(model: string): void {
    if (model === this.#model) return;
    this.#model = model;
    this.#head = headOf(this.#options, model);
  }

  heartbeat(): Frame {
    return this.#here(this.#chunk({}, null));
  }

  error(error: GatewayError): Frame {
    this.#end = "error";
    return this.#here(JSON.stringify(errorBody(error)));
  }

  done(): Frame {
    return this.#here("[DONE]");
  }

  last(): readonly Frame[] {
    return [this.done()];
  }

  /** No progress: a reader that resumes after it is where it was before. */
  #here(data: string): Frame {
    return { id: this.#placeId, data };
  }

  #bodies(delta: AnswerDelta): readonly string[] {
    switch (delta.kind) {
      case "text":
        return [this.#chunk({ content: delta.text }, null)];
      case "reasoning":
        return [this.#chunk({ reasoning_content: delta.text }, null)];
      case "thought":
        return [this.#chunk({ reasoning_details: [reasoningDetail(delta.token)] }, null)];
      case "calls": {
        const calls = delta.calls.map((call, index) =>
          this.#chunk({ tool_calls: [callDelta(call, index)] }, null),
        );
        return [...calls, ...this.#finish("tool_calls", delta.usage)];
      }
      case "ended":
        return this.#finish(delta.finish ?? "stop", delta.usage);
      case "restarted":
      case "diverged":
        return [];
    }
  }

  #finish(reason: Finish, usage: Usage): readonly string[] {
    this.#end = "finish";
    const last = this.#chunk({}, reason);
    const used = this.#options.includeUsage ? chatUsage(usage) : undefined;
    return used === undefined ? [last] : [last, `${this.#head}[],"usage":${JSON.stringify(used)}}`];
  }

  #placed(data: string, { eventId, endsEvent }: AnswerDelta, isLast: boolean): readonly Frame[] {
    if (eventId !== this.#eventId) {
      this.#eventId = eventId;
      this.#made = 0;
    }
    this.#made++;
    if (this.#toSkip > 0) {
      this.#toSkip--;
      return [];
    }
    const answer = this.#options.fromEvent;
    const isWhole = endsEvent && isLast;
    this.#placeId = framePlaceId(
      isWhole ? { answer, eventId, frames: 0 } : { answer, eventId: eventId - 1, frames: this.#made },
    );
    return [this.#here(data)];
  }

  #chunk(delta: Json, finish: Finish | null): string {
    const choice = `[{"index":0,"delta":${JSON.stringify(delta)},"finish_reason":${JSON.stringify(finish)}}]`;
    return this.#head + choice + this.#tail;
  }
}

function headOf({ id, createdS }: AnswerHead, model: string): string {
  const head = JSON.stringify({ id, object: "chat.completion.chunk", created: createdS, model });
  return `${head.slice(0, -1)},"choices":`;
}

function callDelta({ callId, tool, args }: AnswerCall, index: number): Json {
  return { index, id: callId, type: "function", function: { name: tool, arguments: args } };
}
