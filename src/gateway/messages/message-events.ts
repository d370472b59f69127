/**
 * A streamed message: deltas in, Anthropic's events out.
 *
 * Which block is open, and its index, follows from everything before. So a reader that returns is given the deltas from the beginning, and the frames
 * that it has are left out here. Ids are places in the stream's log (`openai/frames.ts`), so they mean the same to every reader, in every process, however
 * the text was cut into pieces.
 *
 * Invariant: a reader that returns at any frame gets exactly the frames behind it, or an error; `message_start` comes once.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import {
  type AnswerDelta,
  type AnswerFrames,
  type AnswerHead,
  endError,
  type Frame,
  type FrameKind,
  type FramePlace,
  framePlaceId,
  type GatewayError,
  toGatewayError,
} from "../openai/index.ts";
import { type EventBody, MessageBlocks } from "./message-blocks.ts";
import { messageErrorBody } from "./message-errors.ts";
import { messageEnd, messageError, messageObject } from "./message-object.ts";
import { messageUsage } from "./message-usage.ts";

export class MessageEvents implements AnswerFrames {
  readonly #head: AnswerHead;
  /** What the reader has; undefined: nothing. */
  readonly #after: FramePlace | undefined;
  readonly #blocks = new MessageBlocks();
  /** Frames of what follows `#after` that the reader has as well. */
  #toSkip: number;
  /** Behind the frame that was made last. */
  #place: FramePlace;
  /** Where the reader is. */
  #placeId: string;
  #end: "finish" | "error" | undefined;

  constructor(head: AnswerHead, after: FramePlace | undefined) {
    this.#head = head;
    this.#after = after;
    this.#toSkip = after?.frames ?? 0;
    const { fromEvent } = head;
    this.#place = { door: "messages", answer: fromEvent, eventId: fromEvent, frames: 0 };
    this.#placeId = framePlaceId(after ?? this.#place);
  }

  get isOver(): boolean {
    return this.#end !== undefined;
  }

  get isWhole(): boolean {
    return this.#end === "finish";
  }

  begin(): readonly Frame[] {
    if (this.#after !== undefined) return [];
    const message = messageObject(this.#head, this.#head.model, []);
    return [this.#here({ type: "message_start", message })];
  }

  of(delta: AnswerDelta): readonly Frame[] {
    if (this.isOver) return [];
    const error = messageError(delta);
    if (error !== undefined) return [this.error(error)];
    const bodies = [...this.#blocks.add(delta), ...this.#finish(delta)];
    const kind = KINDS[delta.kind];
    const isKnown = delta.eventId <= (this.#after?.eventId ?? -1);
    // Of another kind of thing the reader has seen other frames.
    if (
      bodies.length > 0 &&
      !isKnown &&
      this.#toSkip > 0 &&
      this.#place.frames === 0 &&
      kind !== this.#after?.begun
    )
      return [this.error(parted(delta))];
    const frames = bodies.flatMap((body, at) => {
      this.#pass(delta, kind, at === bodies.length - 1);
      if (isKnown) return [];
      if (this.#toSkip > 0) {
        this.#toSkip--;
        return [];
      }
      this.#placeId = framePlaceId(this.#place);
      return [this.#here(body)];
    });
    return this.isWhole && this.#isAhead ? [this.error(ahead())] : frames;
  }

  heartbeat(): Frame {
    return this.#here({ type: "ping" });
  }

  error(error: GatewayError): Frame {
    this.#end = "error";
    return this.#here({ ...messageErrorBody(error) });
  }

  last(): readonly Frame[] {
    return [];
  }

  #finish(delta: AnswerDelta): readonly EventBody[] {
    if (delta.kind !== "calls" && delta.kind !== "ended") return [];
    this.#end = "finish";
    const usage = messageUsage(delta.usage);
    return [{ type: "message_delta", delta: messageEnd(delta), usage }, { type: "message_stop" }];
  }

  /** One frame further. */
  #pass({ eventId, endsEvent }: AnswerDelta, kind: FrameKind | undefined, isLast: boolean): void {
    const { begun = kind, ...place } = this.#place;
    this.#place =
      isLast && endsEvent
        ? { ...place, eventId, frames: 0 }
        : { ...place, frames: place.frames + 1, ...(begun === undefined ? {} : { begun }) };
  }

  /** The reader says that it has more than there is. */
  get #isAhead(): boolean {
    return this.#toSkip > 0 || this.#place.eventId < (this.#after?.eventId ?? -1);
  }

  #here(body: EventBody): Frame {
    return { id: this.#placeId, event: body.type, data: JSON.stringify(body) };
  }
}

const KINDS: Readonly<Record<AnswerDelta["kind"], FrameKind | undefined>> = {
  reasoning: "h",
  thought: "s",
  text: "t",
  calls: "e",
  ended: "e",
  restarted: undefined,
  diverged: undefined,
};

/** As for a step that says something else: what the reader has cannot be continued. */
function parted({ eventId, endsEvent }: AnswerDelta): GatewayError {
  return endError({ kind: "diverged", eventId, endsEvent }) ?? ahead();
}

function ahead(): GatewayError {
  return toGatewayError(
    new HoldfastError("event_ahead", "this Last-Event-ID was never sent; ask without it"),
  );
}
