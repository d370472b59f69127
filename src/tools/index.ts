/** What execs do on a user's machine: files, commands, searches, declared tools; and which of them need an approval. */
export type { ApprovalLine } from "./approval-text.ts";
export type { ApprovalAnswer, ApprovalRequest, Ask } from "./approvals.ts";
export {
  type McpServerConfig,
  parseToolsConfig,
  type Policy,
  type ShellConfig,
  TOOLS_DEFAULTS,
  type ToolsConfig,
} from "./config.ts";
export { createTools, type ToolsOptions } from "./create-tools.ts";
export type { FunctionTool } from "./declared-tools.ts";
export { type FunctionResult, type ResultMessage, writeExecResult } from "./results.ts";
export type { Subagents, ToolSet } from "./tool-set.ts";
export { foldedText, visibleLine, visibleText } from "./visible-text.ts";
