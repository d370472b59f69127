/**
 * The object of a message: who says it, what was said, and why it ended.
 */
import { type AnswerDelta, type AnswerHead, endError, type GatewayError } from "../openai/index.ts";
import type { ContentBlock } from "./message-blocks.ts";
import { type MessageUsage, messageUsage, NOTHING_YET } from "./message-usage.ts";

type StopReason = "end_turn" | "max_tokens" | "tool_use" | "stop_sequence" | "refusal";

/** What the end of the answer decides. */
interface MessageEnd {
  readonly stop_reason: StopReason | null;
  readonly stop_sequence: string | null;
}

type Pause = Extract<AnswerDelta, { kind: "calls" | "ended" }>;

const REASONS: Readonly<Record<string, StopReason | undefined>> = {
  length: "max_tokens",
  content_filter: "refusal",
};

export function messageEnd(delta: Pause): MessageEnd {
  if (delta.kind === "calls") return { stop_reason: "tool_use", stop_sequence: null };
  const { finish, stopSequence: stop_sequence = null } = delta;
  const reason = finish === undefined ? "refusal" : REASONS[finish];
  if (reason !== undefined) return { stop_reason: reason, stop_sequence: null };
  return { stop_reason: stop_sequence === null ? "end_turn" : "stop_sequence", stop_sequence };
}

/** Why the answer has no good end. A model that refuses to answer has given an answer here, as at Anthropic. */
export function messageError(delta: AnswerDelta): GatewayError | undefined {
  const error = endError(delta);
  return error?.code === "content_filter" ? undefined : error;
}

export function messageObject(
  { id }: Pick<AnswerHead, "id">,
  model: string,
  content: readonly ContentBlock[],
  delta?: Pause,
): object {
  const end = delta === undefined ? { stop_reason: null, stop_sequence: null } : messageEnd(delta);
  const usage: MessageUsage = delta === undefined ? NOTHING_YET : messageUsage(delta.usage);
  return { id, type: "message", role: "assistant", model, content, ...end, usage };
}
