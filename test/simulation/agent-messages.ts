/**
 * The messages of the simulated turns, as the world looks at them: the production ones, made and read for users and checks.
 */
import { create, fromBinary, type MessageInitShape, toBinary } from "../../src/protocol/message.ts";
import {
  AgentClientMessageSchema,
  type AgentServerMessage,
  AgentServerMessageSchema,
  type ConversationState,
  ExecKind,
  type RunRequestSchema,
} from "../../src/protocol/messages.ts";

export type TurnEvent =
  | { readonly kind: "step_started"; readonly step: number }
  | {
      readonly kind: "step_restarted" | "step_continued";
      readonly step: number;
      readonly rollbackTo: number;
    }
  /** Of the answer, or of what the model thought. */
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "exec_planned"; readonly execIds: readonly string[] }
  | { readonly kind: "step_completed"; readonly step: number }
  | { readonly kind: "exec"; readonly execId: string; readonly isForged: boolean }
  /** The server does not want it any more. */
  | { readonly kind: "exec_taken_back"; readonly execId: string }
  | { readonly kind: "turn_ended" }
  | { readonly kind: "other"; readonly what: string };

/** How the arguments begin of a request that repeats an exec id and must not be carried out. */
export const FORGED = "something else for";

export const KINDS: readonly ExecKind[] = [
  ExecKind.SHELL_STREAM,
  ExecKind.READ,
  ExecKind.WRITE,
  ExecKind.SUBAGENT,
];

/** A request that nobody made: the exec id of another one, and a command that must not run. */
export function forgedExec(execId: string): Uint8Array {
  const message = { case: "shellArgs", value: { command: `${FORGED} ${execId}` } } as const;
  const value = { execId, message };
  return toBinary(
    AgentServerMessageSchema,
    create(AgentServerMessageSchema, { message: { case: "execServerMessage", value } }),
  );
}

/** Text of an answer that was aborted. */
export function lateWords(): Uint8Array {
  const message = { case: "textDelta", value: { text: "and so on" } } as const;
  return toBinary(
    AgentServerMessageSchema,
    create(AgentServerMessageSchema, { message: { case: "interactionUpdate", value: { message } } }),
  );
}

export function decodeTurnEvent(body: Uint8Array): TurnEvent {
  const { message } = fromBinary(AgentServerMessageSchema, body);
  switch (message.case) {
    case "execServerMessage": {
      const { execId, message: args } = message.value;
      return { kind: "exec", execId, isForged: args.case === "shellArgs" };
    }
    case "execServerControlMessage":
      return { kind: "exec_taken_back", execId: message.value.message.value?.execId ?? "" };
    case "interactionUpdate":
      return updateOf(message.value);
    default:
      return { kind: "other", what: String(message.case) };
  }
}

function updateOf({
  message,
}: Extract<AgentServerMessage["message"], { case: "interactionUpdate" }>["value"]): TurnEvent {
  switch (message.case) {
    case "stepStarted":
      return { kind: "step_started", step: message.value.step };
    case "stepRestarted":
    case "stepContinued": {
      const { step, rollbackToEventId } = message.value;
      const kind = message.case === "stepRestarted" ? "step_restarted" : "step_continued";
      return { kind, step, rollbackTo: Number(rollbackToEventId) };
    }
    case "textDelta":
    case "thinkingDelta":
      return { kind: "text", text: message.value.text };
    case "toolCallStarted":
      return { kind: "exec_planned", execIds: message.value.toolCall?.execIds ?? [] };
    case "stepCompleted":
      return { kind: "step_completed", step: message.value.step };
    case "turnEnded":
      return { kind: "turn_ended" };
    default:
      return { kind: "other", what: String(message.case) };
  }
}

/** What a client says: something of its own, how an exec went, or an answer to the server. */
export type ClientSaying =
  /** `tag` names the journal, `index` counts what it has said. */
  | { readonly kind: "words"; readonly tag: string; readonly index: number; readonly endless: boolean }
  /** Said by a run before its result; `index` counts within the run. */
  | { readonly kind: "partial"; readonly execId: string; readonly index: number }
  | { readonly kind: "result"; readonly execId: string; readonly outcome: string }
  | { readonly kind: "other" };

type Said = NonNullable<MessageInitShape<typeof AgentClientMessageSchema>["message"]>;
type Action = NonNullable<NonNullable<MessageInitShape<typeof RunRequestSchema>["action"]>["action"]>;

export function encodeSaid(message: Said): Uint8Array {
  return toBinary(AgentClientMessageSchema, create(AgentClientMessageSchema, { message }));
}

/** What a user can begin with. */
export type Beginning = "ask" | "command" | "continue" | "summarize";

export interface FirstWords {
  readonly beginning: Beginning;
  readonly endless: boolean;
  readonly keepsBlobs: boolean;
  /** What is shown of a step cannot be taken back. */
  readonly isShownFinal?: boolean;
  /** The conversation that goes on. */
  readonly state?: ConversationState | undefined;
}

/** A stream's first chunk. */
export function encodeRequest(
  tag: string,
  { beginning, endless, keepsBlobs, state, isShownFinal = false }: FirstWords,
): Uint8Array {
  const conversationId = wordsOf(tag, 0, endless);
  const value = {
    conversationId,
    execKinds: [...KINDS],
    keepsBlobs,
    action: { action: actionOf(beginning, conversationId) },
    ...(isShownFinal ? { options: { shownIsFinal: true } } : {}),
  };
  return encodeSaid({
    case: "runRequest",
    value: { ...value, ...(state === undefined ? {} : { conversationState: state }) },
  });
}

function actionOf(beginning: Beginning, text: string): Action {
  switch (beginning) {
    case "ask":
      return { case: "userMessageAction", value: { userMessage: { text } } };
    case "command":
      return { case: "shellCommandAction", value: { command: `work ${text}` } };
    case "continue":
      return { case: "continueAction", value: {} };
    case "summarize":
      return { case: "summarizeAction", value: {} };
  }
}

function wordsOf(tag: string, index: number, endless: boolean): string {
  return `${tag}/${index}/${endless ? "endless" : ""}`;
}

/** What the user says in the middle of a turn. */
export function encodeWords(tag: string, index: number): Uint8Array {
  const userMessage = { text: wordsOf(tag, index, false) };
  const action = { action: { case: "userMessageAction", value: { userMessage } } } as const;
  return encodeSaid({ case: "conversationAction", value: action });
}

/** The user has had enough: the turn stops what runs, and ends in good order. */
export function encodeCancel(): Uint8Array {
  const action = { action: { case: "cancelAction", value: {} } } as const;
  return encodeSaid({ case: "conversationAction", value: action });
}

export function decodeSaying(body: Uint8Array): ClientSaying {
  const { message } = fromBinary(AgentClientMessageSchema, body);
  switch (message.case) {
    case "runRequest":
      return readWords(message.value.conversationId);
    case "conversationAction": {
      const { action } = message.value;
      if (action.case !== "userMessageAction") return { kind: "other" };
      return readWords(action.value.userMessage?.text ?? "");
    }
    case "execClientMessage": {
      const { execId, message: reply } = message.value;
      const result = reply.case === undefined ? undefined : reply.value.result;
      if (result?.case === "output") {
        const said = new TextDecoder().decode(result.value.output.value);
        return { kind: "partial", execId, index: Number(said) };
      }
      if (result?.case === "progress") return { kind: "partial", execId, index: Number(result.value.text) };
      return { kind: "result", execId, outcome: result?.case ?? "nothing" };
    }
    default:
      return { kind: "other" };
  }
}

function readWords(words: string): ClientSaying {
  const [tag = "", index = "", endless = ""] = words.split("/");
  return { kind: "words", tag, index: Number(index), endless: endless !== "" };
}
