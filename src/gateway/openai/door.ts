/**
 * A door: one form of requests and answers that clients speak. What lies between two doors is here, and the same for all of them.
 *
 * A door reads its own JSON into an `AnswerRequest` and writes an answer's deltas (`src/turn/answer-delta.ts`) in its own form. Retries,
 * sessions, matching and the log know neither form; they keep apart what came through different doors by its name.
 *
 * Invariant: nothing of a door's JSON passes this file but the name of the door.
 */
import type { AnswerDelta } from "../../turn/answer-delta.ts";
import type { StepOptionsInit } from "./chat-options.ts";
import type { RequestTool } from "./chat-tools.ts";
import type { Frame, FramePlace } from "./frames.ts";
import type { GatewayError } from "./gateway-error.ts";
import type { LineMessage } from "./line.ts";
import type { Wishes } from "./wishes.ts";

/** Chat completions, OpenAI's Responses, and Anthropic's Messages. */
export const DOORS = ["chat", "responses", "messages"] as const;
export type Door = (typeof DOORS)[number];

/** What a client asks for, whichever door it came by. */
export interface AnswerRequest {
  /** As the client wrote it. */
  readonly model: string;
  /** OpenRouter's `models`: asked in turn when the model does not answer. */
  readonly fallbacks: readonly string[];
  readonly stream: boolean;
  readonly includeUsage: boolean;
  /** The instructions that it begins with, in order; empty = none. */
  readonly system: string;
  readonly messages: readonly LineMessage[];
  readonly tools: readonly RequestTool[];
  readonly options: StepOptionsInit;
  readonly wishes: Wishes;
}

/** What every response with an answer repeats. */
export interface AnswerHead {
  /** Of the client's object: "chatcmpl-...", "resp_..." or "msg_...". */
  readonly id: string;
  /** Seconds since 1970. */
  readonly createdS: number;
  readonly model: string;
  readonly includeUsage: boolean;
  /** The answer begins after this event of its stream, which names it in the ids of its frames. */
  readonly fromEvent: number;
  /** The form that its client knows it in. Default: chat. */
  readonly door?: Door;
}

/** How a door writes an answer. */
export interface AnswerForm {
  /** `after`: where the reader is that returns. */
  readonly frames: (head: AnswerHead, after: FramePlace | undefined) => AnswerFrames;
  readonly collector: (head: AnswerHead) => Collector;
  /** Why the answer ends here without a finish; undefined when it does not. */
  readonly errorOf: (delta: AnswerDelta) => GatewayError | undefined;
}

/** A streamed answer: deltas in, frames out. */
export interface AnswerFrames {
  /** A finish or an error was given: nothing follows but `last()` after a finish. */
  readonly isOver: boolean;
  /** The reader has the whole answer. */
  readonly isWhole: boolean;
  /** To be sent with the head of the response. */
  begin(): readonly Frame[];
  of(delta: AnswerDelta): readonly Frame[];
  /** Data, because comments do not keep every client alive. */
  heartbeat(): Frame;
  error(error: GatewayError): Frame;
  /** Behind a finish. */
  last(): readonly Frame[];
}

/** An answer in one piece. */
export interface Collector {
  add(delta: AnswerDelta): void;
  /** Throws a GatewayError when the answer has no good end. */
  completion(): object;
}
