/**
 * OpenAI's Responses as a door: its events, and its object.
 */
import type { JsonObject } from "../../protocol/chat-message.ts";
import type { AnswerDelta } from "../../turn/answer-delta.ts";
import { type AnswerForm, type AnswerHead, type Collector, endError, GatewayError } from "../openai/index.ts";
import { ResponseEvents } from "./response-events.ts";
import { endOf, type ResponseEnd, responseObject } from "./response-object.ts";
import { ResponseOutput } from "./response-output.ts";

interface FormOptions {
  /** The last number that the reader has; -1: none. */
  readonly startingAfter?: number;
  /** Thoughts are shown with their tokens. */
  readonly isSealedShown: boolean;
}

/** `asked`: the members that repeat the request. */
export function responseForm(
  asked: JsonObject,
  { startingAfter = -1, isSealedShown }: FormOptions,
): AnswerForm {
  return {
    frames: (head) => new ResponseEvents({ head, asked, startingAfter, isSealedShown }),
    collector: (head) => new ResponseCollector(head, asked, isSealedShown),
    errorOf: endError,
  };
}

/** A response in one piece. Nothing was shown while it was collected, so a step that said something else is no trouble. */
export class ResponseCollector implements Collector {
  readonly #head: Pick<AnswerHead, "id" | "model" | "createdS">;
  readonly #asked: JsonObject;
  readonly #output: ResponseOutput;
  #hasDiverged = false;
  #last: AnswerDelta | undefined;

  constructor(
    head: Pick<AnswerHead, "id" | "model" | "createdS">,
    asked: JsonObject = {},
    isSealedShown = true,
  ) {
    this.#head = head;
    this.#asked = asked;
    this.#output = new ResponseOutput(head.id, isSealedShown);
  }

  add(delta: AnswerDelta): void {
    const isEnd = delta.kind === "calls" || delta.kind === "ended";
    this.#hasDiverged ||= delta.kind === "diverged";
    // The end has all of the words.
    if (isEnd && this.#hasDiverged) this.#output.replace(delta.said);
    this.#output.add(delta);
    this.#last = delta;
  }

  /** What a whole answer comes to, good or bad; undefined when it has no end. */
  get end(): ResponseEnd | undefined {
    const last = this.#last;
    if (last?.kind !== "calls" && last?.kind !== "ended") return undefined;
    return endOf(last, this.#head.model, this.#output.items);
  }

  completion(): object {
    const error = this.#last === undefined ? undefined : endError(this.#last);
    if (error !== undefined) throw error;
    const { end } = this;
    if (end !== undefined) return responseObject(this.#head, this.#asked, end);
    const message = "the answer broke off; send the request again";
    throw new GatewayError({ status: 503, type: "server_error", message });
  }
}
