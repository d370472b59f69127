/**
 * A small turn runner for tests: turns the parts of an answer into the message that goes back, as the agent does.
 */
import type { ModelPart } from "../../../src/agent/model.ts";
import type {
  AssistantChatMessage,
  ChatMessage,
  ToolResultPart,
} from "../../../src/protocol/chat-message.ts";

type Part = AssistantChatMessage["content"][number];

export function messageOf(parts: readonly ModelPart[]): ChatMessage {
  const content: Part[] = [];
  let open: { type: "text" | "reasoning"; text: string } | undefined;
  const close = (metadata: object = {}): void => {
    if (open !== undefined) content.push({ ...open, ...metadata });
    open = undefined;
  };
  for (const part of parts) {
    switch (part.kind) {
      case "text":
      case "thinking": {
        const type = part.kind === "text" ? "text" : "reasoning";
        if (open?.type !== type) close();
        open = { type, text: (open?.text ?? "") + part.text };
        break;
      }
      case "text_end":
      case "thinking_end": {
        open ??= { type: part.kind === "text_end" ? "text" : "reasoning", text: "" };
        close(part.metadata === undefined ? {} : { providerMetadata: part.metadata });
        break;
      }
      case "tool_call": {
        close();
        const { toolCallId, tool, args, metadata } = part;
        const own = metadata === undefined ? {} : { providerMetadata: metadata };
        content.push({ type: "tool-call", toolCallId, tool, args, ...own });
        break;
      }
      case "fallback":
      case "tool_call_delta":
      case "finish":
        close();
        break;
    }
  }
  return { role: "assistant", content };
}

/** The results of all tool calls of an answer. */
export function resultsOf(parts: readonly ModelPart[], result: Partial<ToolResultPart> = {}): ChatMessage {
  const content = parts.flatMap((part) =>
    part.kind === "tool_call"
      ? [
          {
            type: "tool-result" as const,
            toolCallId: part.toolCallId,
            tool: part.tool,
            outcome: "done" as const,
            text: `result of ${part.toolCallId}`,
            ...result,
          },
        ]
      : [],
  );
  return { role: "tool", content };
}

export const TOOLS = ["read", "shell"].map((name) => ({
  name,
  description: `${name} something`,
  parameters: { type: "object", properties: { path: { type: "string" } }, required: ["path"] },
  strict: false,
}));
