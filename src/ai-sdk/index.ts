/** The AI SDK's `useChat` over Holdfast, for pages. */
export { HoldfastError } from "../protocol/errors.ts";
export { tool, type Tool, type ToolContext, type ToolOptions } from "../tools/tool.ts";
export { LiveConversations } from "../live/index.ts";
export { HoldfastChatTransport, type HoldfastChatTransportOptions } from "./chat-transport.ts";
export { HoldfastRouteTransport, type HoldfastRouteTransportOptions } from "./route-transport.ts";
