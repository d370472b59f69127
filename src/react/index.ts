/** Conversations and streams in React. */
export { HoldfastError } from "../protocol/errors.ts";
export {
  type ConversationSnapshot,
  LiveConversations,
  type Message,
  type PageOptions,
  type PendingApproval,
  type ShownTurn,
} from "../live/index.ts";
export type { Traffic } from "../client/traffic.ts";
export { tool, type Tool, type ToolContext, type ToolOptions } from "../tools/tool.ts";
export { useConversation, type UsedConversation } from "./use-conversation.ts";
export { useStream, type UsedStream } from "./use-stream.ts";
