/**
 * What programs use of the contract: errors, limits, the words of enumerations, and what a set of tools of one's own reads and writes. Types are all there.
 */
export type * from "./index.ts";
export { HoldfastError } from "./errors.ts";
export {
  readExec,
  writeExecAborted,
  writeExecError,
  writeExecRejected,
  writeExecThrow,
  writeExecUnknown,
} from "./exec-codec.ts";
export { LIMITS, PROTOCOL_VERSION } from "./limits.ts";
export {
  AgentClientMessageSchema,
  AgentServerMessageSchema,
  ExecClientMessageSchema,
  ExecKind,
  ExecServerMessageSchema,
  ExecThrowCode,
  FailureKind,
  FinishReason,
  TodoStatus,
  ToolOutcome,
  TurnEndReason,
} from "./messages.ts";
