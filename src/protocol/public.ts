/**
 * What programs use of the contract: errors, limits, the words of enumerations, and what a set of tools of one's own reads and writes. Types are all there.
 * The schemas are those of `@bufbuild/protobuf`, with which programs make and read messages.
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
export { AgentClientMessageSchema, AgentServerMessageSchema } from "./gen/holdfast/v1/agent_pb.ts";
export { ExecClientMessageSchema, ExecServerMessageSchema } from "./gen/holdfast/v1/exec_pb.ts";
export {
  ExecKind,
  ExecThrowCode,
  FailureKind,
  FinishReason,
  TodoStatus,
  ToolOutcome,
  TurnEndReason,
} from "./messages.ts";
