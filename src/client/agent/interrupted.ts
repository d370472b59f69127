/**
 * What a turn that was cut off leaves in its conversation, so that the next turn knows what was said.
 *
 * After an abort the server says nothing more, so there is no checkpoint of the end. What is in no checkpoint
 * is appended here: the user's message, the steps that were complete, a result for every tool call that has
 * none (a call without a result makes a history that models refuse), and the text that had come. Pure.
 *
 * Invariant: the messages of the state before are a strict prefix of those after, so that providers' prompt
 * caches stay warm.
 */
import { given } from "../../protocol/given.ts";
import { clone, encoded, type MessageInitShape } from "../../protocol/message.ts";
import {
  type AssistantChatMessage,
  type ChatMessage,
  encodeChatMessage,
  type ToolResultPart,
  type UserChatMessage,
} from "../../protocol/chat-message.ts";
import { countOf, messageIds, turnIds, withIds, withoutNewest } from "../../protocol/id-pages.ts";
import {
  type ConversationState,
  StepBlobSchema,
  TurnBlobSchema,
  UserMessageSchema,
} from "../../protocol/messages.ts";
import { blobIdOf } from "./blob-store.ts";
import type { ToolView, TurnView, UserMessageView, ViewPart } from "../../turn/view.ts";
import { blobIdBytes } from "../../protocol/blob-id.ts";
import { type ContentInit, inBlob, inline } from "../../turn/content.ts";
import { TOOL_OUTCOMES } from "../../turn/tool-outcome.ts";

export interface CutOffTurn {
  /** The last checkpoint, whether of this turn or of the one before. */
  readonly state: ConversationState;
  /** How many turns the conversation had when this one began. */
  readonly turnsBefore: number;
  /** The messages of this turn, in order: those that the state names beyond the turn before, then those that were only set. */
  readonly kept: readonly {
    readonly blobId: string;
    readonly message: ChatMessage;
    /** The state names it. */
    readonly isNamed: boolean;
  }[];
  readonly view: TurnView;
}

export interface Continued {
  readonly state: ConversationState;
  /** To be put before the state that names them. */
  readonly blobs: readonly { readonly id: string; readonly bytes: Uint8Array }[];
}

/** Undefined when the last checkpoint has everything. */
export function continued(turn: CutOffTurn): Continued | undefined {
  const { state, turnsBefore, kept, view } = turn;
  const blobs = new Map<string, Uint8Array>();
  const put = (bytes: Uint8Array): Uint8Array => {
    const id = blobIdOf(bytes);
    blobs.set(id, bytes);
    return blobIdBytes(id);
  };
  const say = (message: ChatMessage): Uint8Array => put(encodeChatMessage(message));
  const unheard = view.userMessages.slice(kept.filter(({ message }) => message.role === "user").length);
  const isFirstUnheard = unheard.length === view.userMessages.length;
  const [first, later] = isFirstUnheard ? [unheard.slice(0, 1), unheard.slice(1)] : [[], unheard];
  const added = [
    ...first.map((message) => say(userMessage(message))),
    ...kept.filter(({ isNamed }) => !isNamed).map(({ blobId }) => blobIdBytes(blobId)),
    ...unansweredCalls(kept, view).map(say),
    ...later.map((message) => say(userMessage(message))),
    ...unsavedText(view).map(say),
  ];
  const shown = countOf(turnIds(state)) - turnsBefore;
  if (added.length === 0 && (shown > 0 || view.userMessages.length === 0)) return undefined;
  // A clone keeps what a newer server put there.
  const next = clone(state);
  const messages = withIds(messageIds(state), added, put);
  const turns = withIds(withoutNewest(turnIds(state), shown), [put(turnBlob(view, put))], put);
  next.messages = [...messages.ids];
  next.messagePages = [...messages.pages];
  next.turns = [...turns.ids];
  next.turnPages = [...turns.pages];
  next.pendingToolCalls = [];
  return { state: next, blobs: [...blobs].map(([id, bytes]) => ({ id, bytes })) };
}

function userMessage({ text, attachments }: UserMessageView): UserChatMessage {
  const files = attachments.flatMap(({ mediaType, fileName, blobId }) =>
    blobId === undefined
      ? []
      : [{ type: "file" as const, mediaType, blobId, ...(fileName === "" ? {} : { fileName }) }],
  );
  return { role: "user", content: [...(text === "" ? [] : [{ type: "text" as const, text }]), ...files] };
}

const STOPPED = "The turn was stopped before this had a result.";

/** The results of the last step's calls, if the model has not got them. */
function unansweredCalls(kept: CutOffTurn["kept"], view: TurnView): readonly ChatMessage[] {
  const last = kept.at(-1)?.message;
  if (last?.role !== "assistant") return [];
  const content = last.content.flatMap((part): readonly ToolResultPart[] => {
    if (part.type !== "tool-call") return [];
    const { toolCallId, tool } = part;
    const shown = view.parts.findLast((one) => one.type === "tool" && one.toolCallId === toolCallId);
    const isOver = shown?.type === "tool" && shown.state === "over";
    const outcome = (isOver ? shown.outcome : undefined) ?? "aborted";
    const text = (isOver ? shown.result : undefined) ?? STOPPED;
    return [{ type: "tool-result", toolCallId, tool, outcome, text }];
  });
  return content.length === 0 ? [] : [{ role: "tool", content }];
}

function unsavedText({ parts, savedParts }: TurnView): readonly AssistantChatMessage[] {
  const text = parts
    .slice(savedParts)
    .filter((part) => part.type === "text")
    .map((part) => part.text)
    .join("\n\n");
  return text.trim() === "" ? [] : [{ role: "assistant", content: [{ type: "text", text }] }];
}

function turnBlob({ userMessages, parts }: TurnView, put: (bytes: Uint8Array) => Uint8Array): Uint8Array {
  const [first] = userMessages;
  const value = {
    userMessage: first === undefined ? new Uint8Array() : put(userMessageBlob(first)),
    steps: parts.map((part) => put(stepBlob(part))),
  };
  return encoded(TurnBlobSchema, { turn: { case: "agentTurn", value } });
}

function userMessageBlob(message: UserMessageView): Uint8Array {
  return encoded(UserMessageSchema, shownMessage(message));
}

function shownMessage({
  text,
  messageId,
  attachments,
}: UserMessageView): MessageInitShape<typeof UserMessageSchema> {
  const files = attachments.map(({ mediaType, fileName, blobId }) => {
    return { mediaType, fileName, ...given({ content: contentOf(undefined, blobId) }) };
  });
  return { text, messageId, attachments: files };
}

function stepBlob(part: ViewPart): Uint8Array {
  return encoded(StepBlobSchema, { step: stepOf(part) });
}

function stepOf(part: ViewPart): NonNullable<MessageInitShape<typeof StepBlobSchema>["step"]> {
  switch (part.type) {
    case "text":
      return { case: "assistantMessage", value: { text: part.text } };
    case "thinking":
      return { case: "thinkingMessage", value: { text: part.text, durationMs: part.durationMs ?? 0 } };
    case "user":
      return { case: "userMessage", value: { text: part.text, messageId: part.messageId } };
    case "tool":
      return { case: "toolCall", value: toolCall(part) };
  }
}

type ToolCallInit = Extract<ReturnType<typeof stepOf>, { case: "toolCall" }>["value"];

function toolCall({ toolCallId, tool, execIds, ...call }: ToolView): ToolCallInit {
  return {
    toolCallId,
    tool,
    execIds: [...execIds],
    outcome: TOOL_OUTCOMES[call.outcome ?? "aborted"],
    ...given({
      argsJson: contentOf(call.args, call.argsBlobId),
      result: contentOf(call.result, call.resultBlobId),
    }),
  };
}

function contentOf(text: string | undefined, blobId: string | undefined): ContentInit | undefined {
  if (blobId !== undefined) return inBlob(blobId);
  return text === undefined ? undefined : inline(new TextEncoder().encode(text));
}
