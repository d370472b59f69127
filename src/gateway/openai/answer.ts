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
  /** The step began anew; what was shown of it still holds. */
  | { readonly kind: "restarted" }
  /**
   * What the step says now is not what was shown of it before. Of this answer only `calls` or `ended` follows: for the
   * session, which goes on, and for whoever has shown nothing yet.
   */
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
