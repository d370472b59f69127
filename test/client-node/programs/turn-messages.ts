/**
 * The agent messages that the simulated turn is made of: the real ones, encoded as on the wire.
 */
import { create, fromBinary, type MessageInitShape, toBinary } from "../../../src/protocol/message.ts";
import {
  AgentClientMessageSchema,
  type AgentServerMessage,
  AgentServerMessageSchema,
  type InteractionUpdateSchema,
} from "../../../src/protocol/messages.ts";

export type TurnEvent =
  | { readonly kind: "step_started"; readonly step: number }
  | { readonly kind: "step_restarted"; readonly step: number; readonly rollbackTo: number }
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "exec_planned"; readonly execId: string }
  | { readonly kind: "step_completed"; readonly step: number }
  | { readonly kind: "exec"; readonly execId: string; readonly tool: ToolName; readonly args: string }
  /** The server does not want it any more. */
  | { readonly kind: "exec_taken_back"; readonly execId: string }
  | { readonly kind: "exec_settled"; readonly execId: string }
  | { readonly kind: "turn_ended" };

/** How the arguments begin of a request that repeats an exec id and must not be carried out. */
export const FORGED = "something else for";

/** One tool of each policy: no repetition, repeatable, with approval. */
export type ToolName = "shell" | "read" | "write";

export function encodeTurnEvent(event: TurnEvent): Uint8Array {
  return toBinary(AgentServerMessageSchema, messageOf(event));
}

function messageOf(event: TurnEvent): AgentServerMessage {
  switch (event.kind) {
    case "step_started":
      return update({ case: "stepStarted", value: { step: event.step, model: "" } });
    case "step_restarted":
      return update({
        case: "stepRestarted",
        value: { step: event.step, rollbackToEventId: String(event.rollbackTo), attempt: 1 },
      });
    case "text":
      return update({ case: "textDelta", value: { text: event.text } });
    case "exec_planned":
      return update({ case: "toolCallStarted", value: { toolCall: { execIds: [event.execId] } } });
    case "step_completed":
      return update({ case: "stepCompleted", value: { step: event.step } });
    case "exec_settled":
      return update({ case: "toolCallCompleted", value: { toolCall: { execIds: [event.execId] } } });
    case "exec_taken_back": {
      const abort = { case: "abort", value: { execId: event.execId } } as const;
      return create(AgentServerMessageSchema, {
        message: { case: "execServerControlMessage", value: { message: abort } },
      });
    }
    case "turn_ended":
      return update({ case: "turnEnded", value: {} });
    case "exec": {
      const { execId, args } = event;
      const message =
        event.tool === "shell"
          ? ({ case: "shellArgs", value: { command: args } } as const)
          : event.tool === "read"
            ? ({ case: "readArgs", value: { path: args } } as const)
            : ({ case: "writeArgs", value: { path: args } } as const);
      return create(AgentServerMessageSchema, {
        message: { case: "execServerMessage", value: { execId, message } },
      });
    }
  }
}

type Update = NonNullable<MessageInitShape<typeof InteractionUpdateSchema>["message"]>;

function update(message: Update): AgentServerMessage {
  return create(AgentServerMessageSchema, { message: { case: "interactionUpdate", value: { message } } });
}

export function decodeTurnEvent(body: Uint8Array): TurnEvent {
  const { message } = fromBinary(AgentServerMessageSchema, body);
  if (message.case === "execServerMessage") {
    const { execId, message: args } = message.value;
    if (args.case === "shellArgs") return { kind: "exec", execId, tool: "shell", args: args.value.command };
    if (args.case === "readArgs") return { kind: "exec", execId, tool: "read", args: args.value.path };
    if (args.case === "writeArgs") return { kind: "exec", execId, tool: "write", args: args.value.path };
  }
  if (message.case === "execServerControlMessage") {
    return { kind: "exec_taken_back", execId: message.value.message.value?.execId ?? "" };
  }
  if (message.case === "interactionUpdate") {
    const { message: updated } = message.value;
    switch (updated.case) {
      case "stepStarted":
        return { kind: "step_started", step: updated.value.step };
      case "stepRestarted":
        return {
          kind: "step_restarted",
          step: updated.value.step,
          rollbackTo: Number(updated.value.rollbackToEventId),
        };
      case "textDelta":
        return { kind: "text", text: updated.value.text };
      case "toolCallStarted":
        return { kind: "exec_planned", execId: updated.value.toolCall?.execIds[0] ?? "" };
      case "toolCallCompleted":
        return { kind: "exec_settled", execId: updated.value.toolCall?.execIds[0] ?? "" };
      case "stepCompleted":
        return { kind: "step_completed", step: updated.value.step };
      case "turnEnded":
        return { kind: "turn_ended" };
      default:
        break;
    }
  }
  throw new Error(`not a message of the simulated turn: ${String(message.case)}`);
}

/** What a client says: something of its own, or how an exec went. */
export type ClientSaying =
  /** `tag` names the journal, `index` counts what it has said. */
  | { readonly kind: "words"; readonly tag: string; readonly index: number; readonly endless: boolean }
  /** Said by a run before its result; `index` counts within the run. */
  | { readonly kind: "partial"; readonly execId: string; readonly index: number }
  | { readonly kind: "result"; readonly execId: string; readonly outcome: string };

export function encodeWords(tag: string, index: number, endless: boolean): Uint8Array {
  const conversationId = `${tag}/${index}/${endless ? "endless" : ""}`;
  return toBinary(
    AgentClientMessageSchema,
    create(AgentClientMessageSchema, { message: { case: "runRequest", value: { conversationId } } }),
  );
}

export function encodeSuccess(execId: string, tool: ToolName): Uint8Array {
  const result = { case: "success", value: {} } as const;
  const message =
    tool === "shell"
      ? ({ case: "shellResult", value: { result } } as const)
      : tool === "read"
        ? ({ case: "readResult", value: { result } } as const)
        : ({ case: "writeResult", value: { result } } as const);
  return toBinary(
    AgentClientMessageSchema,
    create(AgentClientMessageSchema, { message: { case: "execClientMessage", value: { execId, message } } }),
  );
}

/** Whichever the tool: nobody looks closer. */
export function encodePartial(execId: string, index: number): Uint8Array {
  const output = { case: "stdout", value: new TextEncoder().encode(String(index)) } as const;
  const result = { case: "output", value: { output } } as const;
  const message = { case: "shellStreamResult", value: { result } } as const;
  return toBinary(
    AgentClientMessageSchema,
    create(AgentClientMessageSchema, { message: { case: "execClientMessage", value: { execId, message } } }),
  );
}

export function decodeSaying(body: Uint8Array): ClientSaying {
  const { message } = fromBinary(AgentClientMessageSchema, body);
  if (message.case === "runRequest") {
    const [tag = "", index = "", endless = ""] = message.value.conversationId.split("/");
    return { kind: "words", tag, index: Number(index), endless: endless !== "" };
  }
  if (message.case === "execClientMessage") {
    const { execId, message: result } = message.value;
    if (result.case === "shellStreamResult" && result.value.result.case === "output") {
      const said = result.value.result.value.output.value;
      return { kind: "partial", execId, index: Number(new TextDecoder().decode(said)) };
    }
    const outcome = result.case === undefined ? undefined : result.value.result.case;
    return { kind: "result", execId, outcome: outcome ?? "nothing" };
  }
  throw new Error(`not a saying of the simulated client: ${String(message.case)}`);
}
