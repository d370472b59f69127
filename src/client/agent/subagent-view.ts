/**
 * What a parent sees of a subagent: a line per step and tool call, and how it ended.
 */
import { firstChars } from "../../protocol/characters.ts";
import { type AgentServerMessage, FailureKind } from "../../protocol/messages.ts";
import type { Conversation } from "./conversation.ts";
import { textIn } from "../../turn/content.ts";
import { updateOf } from "../../turn/messages.ts";
import { EMPTY_VIEW, type TurnEnd } from "../../turn/view.ts";

const ARGS_CHARS_MAX = 120;

/** Undefined for what is not worth a line. */
export function progressLine(message: AgentServerMessage): string | undefined {
  const update = updateOf(message);
  switch (update.case) {
    case "stepStarted":
      return `step ${update.value.step + 1}`;
    case "toolCallStarted": {
      const { tool = "", argsJson } = update.value.toolCall ?? {};
      const args = (textIn(argsJson) ?? "").replace(/\s+/g, " ");
      return `${tool} ${firstChars(args, ARGS_CHARS_MAX, "…")}`.trim();
    }
    default:
      return undefined;
  }
}

/** How a child ended that is over already, from what its conversation kept; undefined when it never ran. */
export async function childEnd(
  conversation: Conversation,
  idempotencyKey: string,
): Promise<TurnEnd | undefined> {
  const { lastTurn } = conversation.record;
  if (lastTurn?.idempotencyKey !== idempotencyKey) return undefined;
  const { reason, message } = lastTurn;
  const failure =
    reason === "failed"
      ? { kind: FailureKind.UNSPECIFIED, message, providerStatus: 0, retryAfterMs: undefined }
      : undefined;
  const text = await conversation.lastAnswer();
  return { reason, failure, error: undefined, usage: EMPTY_VIEW.usage, text };
}
