/**
 * Agent messages in a few words, for `holdfast inspect`.
 *
 * Every message has a line, also one that this version does not know: an inspector that skips what it
 * does not understand hides exactly what its user is looking for.
 */
import { countOf, messageIds, turnIds } from "../protocol/id-pages.ts";
import {
  type AgentClientMessage,
  type AgentServerMessage,
  type ConversationAction,
  type ExecClientMessage,
  type ExecServerMessage,
  type InteractionUpdate,
  type ToolCall,
  ToolOutcome,
  TurnEndReason,
} from "../protocol/messages.ts";
import { decodeClient, decodeServer } from "../turn/messages.ts";
import { blobIn, textIn } from "../turn/content.ts";

export interface MessageText {
  /** One word of the protocol, for example `text` or `exec`. */
  readonly kind: string;
  readonly text: string;
}

export function describeChunk(body: Uint8Array): MessageText {
  return describe(body, () => clientText(decodeClient(body).message));
}

export function describeEvent(body: Uint8Array): MessageText {
  return describe(body, () => serverText(decodeServer(body).message));
}

/** The exec that a chunk says something about. */
export function execAnswered(body: Uint8Array): string | undefined {
  try {
    const { message } = decodeClient(body);
    if (message.case === "execClientMessage") return message.value.execId;
    return message.case === "execClientControlMessage" ? message.value.message.value?.execId : undefined;
  } catch {
    return undefined;
  }
}

function describe(body: Uint8Array, read: () => MessageText | undefined): MessageText {
  const bytes = `${body.byteLength} bytes`;
  if (body.byteLength === 0) return { kind: "empty", text: "" };
  try {
    return read() ?? { kind: "unknown", text: `a message of a newer version, ${bytes}` };
  } catch {
    return { kind: "bytes", text: `${bytes}, not a message of the agent protocol` };
  }
}

function clientText(message: AgentClientMessage["message"]): MessageText | undefined {
  switch (message.case) {
    case "runRequest": {
      const { action, tools, model } = message.value;
      const names = tools.map(({ name }) => name).join(", ");
      const about = [model === "" ? "" : `model ${model}`, names === "" ? "" : `tools ${names}`];
      const details = about.filter((part) => part !== "").join("; ");
      return { kind: "request", text: actionText(action) + (details === "" ? "" : ` (${details})`) };
    }
    case "conversationAction":
      return { kind: "action", text: actionText(message.value) };
    case "execClientMessage":
      return { kind: "result", text: resultText(message.value) };
    case "execClientControlMessage": {
      const { message: control } = message.value;
      if (control.case === "throw")
        return { kind: "throw", text: `${control.value.execId}: ${control.value.error}` };
      return { kind: "close", text: `exec ${control.value?.execId ?? ""} says nothing more` };
    }
    case "kvClientMessage":
      return { kind: "kv", text: message.value.message.case ?? "" };
    case "interactionResponse":
      return { kind: "answer", text: `query ${message.value.id}: ${message.value.response.case ?? ""}` };
    case "clientHeartbeat":
      return { kind: "heartbeat", text: "" };
    case undefined:
      return undefined;
  }
}

function actionText(action: ConversationAction | undefined): string {
  switch (action?.action.case) {
    case "userMessageAction":
      return quoted(action.action.value.userMessage?.text ?? "");
    case "continueAction":
      return "continue";
    case "cancelAction":
      return `cancel ${action.action.value.reason}`.trimEnd();
    case "summarizeAction":
      return "summarize";
    case "shellCommandAction":
      return `shell ${quoted(action.action.value.command)}`;
    case undefined:
      return "no action";
  }
}

function resultText({ execId, message }: ExecClientMessage): string {
  if (message.case === undefined) return `exec ${execId}: of a kind that this version does not know`;
  return `exec ${execId}: ${message.case.replace(/Result$/, "")} ${message.value.result.case ?? "without outcome"}`;
}

function serverText(message: AgentServerMessage["message"]): MessageText | undefined {
  switch (message.case) {
    case "interactionUpdate":
      return updateText(message.value.message);
    case "execServerMessage":
      return { kind: "exec", text: execText(message.value) };
    case "conversationCheckpointUpdate":
      return {
        kind: "checkpoint",
        text: `${countOf(messageIds(message.value))} messages, ${countOf(turnIds(message.value))} turns`,
      };
    case "kvServerMessage":
      return { kind: "kv", text: message.value.message.case ?? "" };
    case "execServerControlMessage":
      return { kind: "exec abort", text: message.value.message.value?.execId ?? "" };
    case "interactionQuery":
      return { kind: "query", text: `${message.value.id}: ${message.value.query.case ?? ""}` };
    case undefined:
      return undefined;
  }
}

function execText({ execId, message }: ExecServerMessage): string {
  switch (message.case) {
    case "shellArgs":
    case "shellStreamArgs":
      return `${execId}: shell ${quoted(message.value.command)}`;
    case "mcpArgs":
      return `${execId}: tool ${message.value.name} ${inlineText(message.value.argsJson)}`;
    case "readArgs":
    case "writeArgs":
    case "deleteArgs":
    case "lsArgs":
      return `${execId}: ${message.case.replace(/Args$/, "")} ${quoted(message.value.path)}`;
    case undefined:
      return `${execId}: of a kind that this version does not know`;
    default:
      return `${execId}: ${message.case.replace(/Args$/, "")}`;
  }
}

function updateText(update: InteractionUpdate["message"]): MessageText | undefined {
  switch (update.case) {
    case "textDelta":
      return { kind: "text", text: update.value.text };
    case "thinkingDelta":
      return { kind: "thinking", text: update.value.text };
    case "stepStarted":
      return { kind: "step", text: `${update.value.step} started ${update.value.model}`.trimEnd() };
    case "stepCompleted":
      return { kind: "step", text: `${update.value.step} completed` };
    case "stepRestarted": {
      const { step, rollbackToEventId, attempt } = update.value;
      return { kind: "step", text: `${step} restarted (${attempt}), back to event ${rollbackToEventId}` };
    }
    case "stepRequested":
      return {
        kind: "step",
        text: `${update.value.step} asks its provider, request ${update.value.requests}`,
      };
    case "stepFallback":
      return { kind: "step", text: `${update.value.step} is answered by ${update.value.model}` };
    case "toolCallStarted":
      return { kind: "tool call", text: toolText(update.value.toolCall) };
    case "toolCallCompleted":
      return { kind: "tool done", text: toolText(update.value.toolCall) };
    case "turnEnded": {
      const { reason, failure } = update.value;
      const why = failure === undefined ? "" : `: ${failure.message}`;
      return { kind: "turn ended", text: `${nameOf(TurnEndReason, reason)}${why}` };
    }
    case undefined:
      return undefined;
    default:
      return { kind: update.case.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`), text: "" };
  }
}

function toolText(call: ToolCall | undefined): string {
  if (call === undefined) return "";
  const outcome = call.outcome === ToolOutcome.UNSPECIFIED ? "" : ` -> ${nameOf(ToolOutcome, call.outcome)}`;
  return `${call.tool} ${inlineText(call.argsJson)}${outcome} ${inlineText(call.result)}`.trim();
}

function inlineText(content: ToolCall["argsJson"]): string {
  return textIn(content) ?? (blobIn(content) === undefined ? "" : "(a blob)");
}

function quoted(text: string): string {
  return `"${text}"`;
}

/** The name of an enum's number; one that a newer version has given a meaning is shown as it is. */
function nameOf(values: Readonly<Record<string, number>>, value: number): string {
  const name = Object.keys(values).find((key) => values[key] === value);
  return name === undefined ? String(value) : name.toLowerCase();
}
