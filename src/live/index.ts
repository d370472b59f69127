/** Conversations as pages show them, for whatever draws them. */
export { type ConversationSnapshot, LiveConversation, type Message } from "./conversation.ts";
export { LiveConversations, type PageOptions } from "./open.ts";
export type { PendingApproval } from "./page-tools.ts";
export type { ShownTurn } from "./shown-turn.ts";
export { type Fold, LiveStream, type StreamSnapshot } from "./stream.ts";
