/**
 * A streamed response: deltas in, the events of the Responses API out.
 *
 * Sequence numbers are places in the stream's log: they rise, with gaps, and a reader that returns names the last one that it has. So they
 * mean the same to every reader of the answer, in every process, however the text was cut into pieces. The last event repeats the whole response,
 * so a reader that returns is given the deltas from the beginning, and the frames that it has are left out here.
 *
 * Invariant: of two readers of one answer, a frame of the one and a frame of the other with the same number tell the same.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import type { JsonObject } from "../../protocol/chat-message.ts";
import type { AnswerDelta } from "../../turn/answer-delta.ts";
import {
  type AnswerFrames,
  type AnswerHead,
  endError,
  errorBody,
  type Frame,
  type GatewayError,
  toGatewayError,
} from "../openai/index.ts";
import { endOf, type ResponseEnd, responseObject, underWay } from "./response-object.ts";
import { type EventBody, ResponseOutput } from "./response-output.ts";

/** An event of the log becomes fewer frames than this, but for the last one, which nothing follows. */
const SPAN = 8;

/** The event of the log that a reader has seen something of, when it has this sequence number. */
export function eventOf(sequenceNumber: number, fromEvent: number): number {
  return fromEvent + Math.floor(sequenceNumber / SPAN);
}

interface EventsOptions {
  readonly head: AnswerHead;
  readonly asked: JsonObject;
  /** The last sequence number that the reader has; -1: none. */
  readonly startingAfter: number;
  readonly isSealedShown: boolean;
}

export class ResponseEvents implements AnswerFrames {
  readonly #options: EventsOptions;
  readonly #output: ResponseOutput;
  #eventId: number;
  #made = 0;
  /** The last number that was given. */
  #number = -1;
  #end: "finish" | "error" | undefined;

  constructor(options: EventsOptions) {
    this.#options = options;
    this.#eventId = options.head.fromEvent;
    this.#output = new ResponseOutput(options.head.id, options.isSealedShown);
  }

  get isOver(): boolean {
    return this.#end !== undefined;
  }

  get isWhole(): boolean {
    return this.#end === "finish";
  }

  begin(): readonly Frame[] {
    const { head } = this.#options;
    const types = ["response.created", "response.in_progress"];
    return types.flatMap((type) => this.#next(this.#lifecycle(type, underWay(head.model))));
  }

  of(delta: AnswerDelta): readonly Frame[] {
    if (this.isOver) return [];
    const error = endError(delta);
    if (error !== undefined && delta.kind !== "ended") return [this.error(error)];
    if (delta.eventId !== this.#eventId) {
      this.#eventId = delta.eventId;
      this.#made = 0;
    }
    const frames = this.#output.add(delta).flatMap((body) => this.#next(body));
    if (delta.kind !== "calls" && delta.kind !== "ended") return frames;
    const end = endOf(delta, this.#options.head.model, this.#output.items);
    this.#end = error === undefined ? "finish" : "error";
    const last = this.#next(this.#lifecycle(TYPES[end.status], end));
    return this.#number < this.#options.startingAfter ? [this.error(ahead())] : [...frames, ...last];
  }

  heartbeat(): Frame {
    return this.#here(this.#lifecycle("response.in_progress", underWay(this.#options.head.model)));
  }

  /** Flat as it is documented, and nested as clients look for it. */
  error(error: GatewayError): Frame {
    this.#end = "error";
    const { code, message, param } = error;
    return this.#here({ type: "error", code, message, param, ...errorBody(error) });
  }

  last(): readonly Frame[] {
    return [];
  }

  #lifecycle(type: string, end: ResponseEnd): EventBody {
    const { head, asked } = this.#options;
    return { type, response: responseObject(head, asked, end) };
  }

  #next(body: EventBody): readonly Frame[] {
    const { head, startingAfter } = this.#options;
    this.#number = (this.#eventId - head.fromEvent) * SPAN + this.#made++;
    return this.#number > startingAfter ? [this.#here(body)] : [];
  }

  /** At the reader's place. */
  #here({ type, ...rest }: EventBody): Frame {
    const number = Math.max(this.#number, this.#options.startingAfter, 0);
    const data = JSON.stringify({ type, sequence_number: number, ...rest });
    return { id: String(number), event: type, data };
  }
}

const TYPES: Readonly<Record<ResponseEnd["status"], string>> = {
  in_progress: "response.in_progress",
  completed: "response.completed",
  incomplete: "response.incomplete",
  failed: "response.failed",
  // There is no event for it.
  cancelled: "response.failed",
};

function ahead(): GatewayError {
  return toGatewayError(
    new HoldfastError("event_ahead", "this starting_after was never sent; ask without it"),
  );
}
