/**
 * The words of the demonstration application: agent messages in and out, as small values.
 *
 * Reading fails closed: a message that we do not know ends the turn as failed, it is never ignored.
 */
import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import {
  type AgentClientMessage,
  AgentClientMessageSchema,
  AgentServerMessageSchema,
  type ExecClientMessage,
  FailureKind,
  FinishReason,
  type InteractionUpdateSchema,
  type RunRequest,
  ToolOutcome,
  TurnEndReason,
} from "../protocol/messages.ts";

export const TOOL = "echo";
export const EXEC_ID = "demo-1";
const TOOL_CALL_ID = "call-1";
const MODEL = "holdfast-demo (counter and echo)";

/** What the user asked for. */
export interface Request {
  readonly text: string;
  readonly hasTool: boolean;
}

/** How the tool went, as the user will read it. */
export interface Outcome {
  readonly kind: "done" | "failed" | "unknown";
  readonly text: string;
}

export type Heard =
  | { readonly kind: "request"; readonly request: Request }
  | { readonly kind: "outcome"; readonly outcome: Outcome }
  | { readonly kind: "cancel" }
  /** Allowed, and of no meaning here. */
  | { readonly kind: "nothing" }
  | { readonly kind: "invalid"; readonly why: string };

export function readChunk(body: Uint8Array): Heard {
  let message: AgentClientMessage["message"];
  try {
    ({ message } = fromBinary(AgentClientMessageSchema, body));
  } catch {
    return { kind: "invalid", why: "a chunk is not an AgentClientMessage" };
  }
  switch (message.case) {
    case "runRequest":
      return readRequest(message.value);
    case "execClientMessage":
      return readResult(message.value);
    case "execClientControlMessage": {
      const { message: control } = message.value;
      if (control.case !== "throw") return { kind: "nothing" };
      return { kind: "outcome", outcome: { kind: "failed", text: control.value.error } };
    }
    case "conversationAction":
      return { kind: message.value.action.case === "cancelAction" ? "cancel" : "nothing" };
    case "kvClientMessage":
    case "interactionResponse":
    case "clientHeartbeat":
      return { kind: "nothing" };
    case undefined:
      return { kind: "invalid", why: "a chunk holds a message that this server does not know" };
  }
}

function readRequest({ action, tools }: RunRequest): Heard {
  if (action?.action.case !== "userMessageAction") {
    return { kind: "invalid", why: "the demonstration takes a user message and nothing else" };
  }
  const text = action.action.value.userMessage?.text ?? "";
  return { kind: "request", request: { text, hasTool: tools.some(({ name }) => name === TOOL) } };
}

function readResult({ execId, message }: ExecClientMessage): Heard {
  if (execId !== EXEC_ID) return { kind: "nothing" };
  if (message.case !== "mcpResult") return { kind: "invalid", why: "the result is of another kind of exec" };
  const { result } = message.value;
  switch (result.case) {
    case "success": {
      const parts = result.value.content.map(({ content }) => textOf(content?.content));
      return { kind: "outcome", outcome: { kind: "done", text: parts.join("") } };
    }
    case "unknown":
      return { kind: "outcome", outcome: { kind: "unknown", text: result.value.detail } };
    case undefined:
      return { kind: "invalid", why: "a result without an outcome" };
    default:
      return { kind: "outcome", outcome: { kind: "failed", text: result.case } };
  }
}

interface InlineOrBlob {
  readonly case: "inline" | "blobId" | undefined;
  readonly value?: Uint8Array | undefined;
}

function textOf(content: InlineOrBlob | undefined): string {
  return content?.case === "inline" ? new TextDecoder().decode(content.value) : "(a blob)";
}

type Update = NonNullable<MessageInitShape<typeof InteractionUpdateSchema>["message"]>;

function update(message: Update): Uint8Array {
  const value = { message };
  return toBinary(
    AgentServerMessageSchema,
    create(AgentServerMessageSchema, { message: { case: "interactionUpdate", value } }),
  );
}

export function textDelta(text: string): Uint8Array {
  return update({ case: "textDelta", value: { text } });
}

export function stepStarted(step: number): Uint8Array {
  return update({ case: "stepStarted", value: { step, model: MODEL } });
}

export function stepCompleted(step: number, isForTool: boolean): Uint8Array {
  const finishReason = isForTool ? FinishReason.TOOL_CALLS : FinishReason.STOP;
  return update({ case: "stepCompleted", value: { step, finishReason } });
}

export function toolCallStarted(argsJson: string): Uint8Array {
  return update({ case: "toolCallStarted", value: { toolCall: toolCall(argsJson) } });
}

const OUTCOMES: Readonly<Record<Outcome["kind"], ToolOutcome>> = {
  done: ToolOutcome.DONE,
  failed: ToolOutcome.FAILED,
  unknown: ToolOutcome.UNKNOWN,
};

export function toolCallCompleted(argsJson: string, { kind, text }: Outcome): Uint8Array {
  const call = { ...toolCall(argsJson), outcome: OUTCOMES[kind], result: inline(text) };
  return update({ case: "toolCallCompleted", value: { toolCall: call } });
}

function toolCall(argsJson: string) {
  return { toolCallId: TOOL_CALL_ID, tool: TOOL, argsJson: inline(argsJson), execIds: [EXEC_ID] };
}

export function execRequest(argsJson: string): Uint8Array {
  const args = { name: TOOL, argsJson: inline(argsJson) };
  const value = {
    id: 1,
    execId: EXEC_ID,
    toolCallId: TOOL_CALL_ID,
    message: { case: "mcpArgs", value: args },
  } as const;
  return toBinary(
    AgentServerMessageSchema,
    create(AgentServerMessageSchema, { message: { case: "execServerMessage", value } }),
  );
}

function inline(text: string) {
  return { content: { case: "inline", value: new TextEncoder().encode(text) } } as const;
}

export function turnEnded(): Uint8Array {
  return update({ case: "turnEnded", value: { reason: TurnEndReason.COMPLETED } });
}

export function turnAborted(): Uint8Array {
  return update({ case: "turnEnded", value: { reason: TurnEndReason.ABORTED } });
}

export function turnFailed(message: string): Uint8Array {
  const failure = { kind: FailureKind.INVALID_REQUEST, message };
  return update({ case: "turnEnded", value: { reason: TurnEndReason.FAILED, failure } });
}
