/**
 * What an HTTP answer is made of: the part of a turn from a request to the next pause, or to the turn's end.
 *
 * Deltas are the same for every dialect and for every reader: live answers, retries that attach, replays, and resumed ones. They
 * come from `projection.ts`; `chat-chunks.ts` turns them into what OpenAI's clients read.
 */
import type { Failure } from "../../protocol/messages.ts";
import { GatewayError } from "./gateway-error.ts";
import { failureError } from "./failures.ts";
import type { AssistantLine } from "./line.ts";

/** What the model said in this answer, without what was rolled back. */
export interface Said {
  readonly text: string;
  readonly reasoning: string;
}

export interface AnswerUsage {
  /** Not counting what came from the cache. */
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cacheReadTokens: number;
  readonly cacheWriteTokens: number;
  /** Part of `outputTokens`. */
  readonly reasoningTokens: number;
}

export const NO_USAGE: AnswerUsage = {
  inputTokens: 0,
  outputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
};

/** A tool call that the client is to carry out. */
export interface AnswerCall {
  readonly execId: string;
  /** The exec's short number. */
  readonly id: number;
  readonly providerToolCallId: string;
  readonly tool: string;
  /** JSON text as the model wrote it. */
  readonly args: string;
  /** What the client is told: the provider's, until the session puts its own in this place. */
  readonly callId: string;
}

export type Finish = "stop" | "length" | "tool_calls" | "content_filter";

interface Placed {
  /** The event that it comes from. */
  readonly eventId: number;
  /** It is the last one of its event: whoever has it has all of the event. */
  readonly endsEvent: boolean;
}

export type AnswerDelta = Placed & DeltaBody;

export type DeltaBody =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "reasoning"; readonly text: string }
  /** The pause: all tool calls of a step were asked for, and the answer ends with them. */
  | {
      readonly kind: "calls";
      readonly calls: readonly AnswerCall[];
      readonly step: number;
      readonly usage: AnswerUsage;
      readonly said: Said;
    }
  /** The step began anew. `said` is what still counts; whoever has shown nothing yet goes on from there. */
  | { readonly kind: "restarted"; readonly said: Said }
  /** What the step says now is not what was shown of it before. Nothing follows. */
  | { readonly kind: "diverged" }
  | {
      readonly kind: "ended";
      readonly reason: "completed" | "aborted" | "failed";
      /** Undefined: the answer did not come to a good end, and `endError` says why. */
      readonly finish: Finish | undefined;
      readonly failure: Failure | undefined;
      readonly usage: AnswerUsage;
      readonly said: Said;
    };

/** The answer as its client will send it back, for the lineage. */
export function answerLine(delta: Extract<AnswerDelta, { kind: "calls" | "ended" }>): AssistantLine {
  const calls = delta.kind === "calls" ? delta.calls : [];
  return {
    role: "assistant",
    text: delta.said.text,
    reasoning: delta.said.reasoning,
    toolCalls: calls.map(({ callId, tool, args }) => ({ id: callId, name: tool, args })),
  };
}

/** Why the answer ends here without a finish; undefined when it does not. */
export function endError(delta: AnswerDelta): GatewayError | undefined {
  if (delta.kind === "diverged") {
    return new GatewayError({
      status: 503,
      type: "server_error",
      code: "answer_diverged",
      message: "the server was restarted and the model answered otherwise; send the request again",
    });
  }
  if (delta.kind !== "ended" || delta.finish !== undefined) return undefined;
  if (delta.reason === "aborted") {
    const message = "the answer was stopped; send the request again if you want it after all";
    return new GatewayError({ status: 499, type: "aborted_error", code: "stopped", message });
  }
  return failureError(delta.failure);
}

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const CALL_ID_LENGTH = 9;
/** The largest multiple of the alphabet's length in a byte: bytes above it would prefer some letters. */
const FAIR_BELOW = ALPHABET.length * 4;

/**
 * A tool call id that every client leaves as it is: nine letters and digits. Undefined when too many of the bytes had
 * to be passed over; 32 of them are enough but for one time in millions.
 */
export function callIdFrom(random: Uint8Array): string | undefined {
  const fair = [...random].filter((byte) => byte < FAIR_BELOW).slice(0, CALL_ID_LENGTH);
  if (fair.length < CALL_ID_LENGTH) return undefined;
  return fair.map((byte) => ALPHABET.charAt(byte % ALPHABET.length)).join("");
}
