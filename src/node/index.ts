/**
 * Holdfast for a program on Node: `serve` runs a whole server with its gateway in this process, `connect` opens a client of one, `tool` makes a tool of a
 * function.
 *
 * `holdfast serve` is made of the first. The parts are in the other entry points.
 */
export { HoldfastError, type ErrorCode, type Remedy } from "../protocol/errors.ts";
export { connect, type ConnectOptions, type Holdfast } from "./connect.ts";
export type { ConversationOptions, NamedConversation, SendTurnOptions } from "./named-conversation.ts";
export type { ApprovalQuestion, Approve } from "./program-tools.ts";
export type { AgentQuestion, AnswerQuestion } from "./questions.ts";
export type { Turn, TurnEnd, TurnPart } from "../client/index.ts";
export {
  type JsonObjectSchema,
  tool,
  type Tool,
  type ToolArguments,
  type ToolContext,
  type ToolOptions,
  type ToolParameters,
} from "../tools/tool.ts";
export type { KeyNews } from "./first-key.ts";
export type { ApiKeyInfo as KeyInfo } from "../server/api-key-record.ts";
export type { CreatedKey, KeyAdmin } from "./key-admin.ts";
export type { Machine } from "./machine.ts";
export { type RunningServer, serve } from "./serve.ts";
export { SERVE_DEFAULTS, type ServeOptions } from "./serve-options.ts";
