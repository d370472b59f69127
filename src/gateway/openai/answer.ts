/**
 * An answer's deltas at their end: the line that its client will send back, and the error of one without a finish.
 */
import type { AnswerDelta } from "../../turn/answer-delta.ts";
import { GatewayError } from "./gateway-error.ts";
import { failureError } from "./failures.ts";
import type { AssistantLine } from "./line.ts";

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
