/**
 * Folds a turn's messages into its view, one at a time. Pure.
 *
 * A restarted step rolls back to the view at its beginning, which was kept for that. Messages of unknown
 * kinds change nothing but the event id.
 *
 * Invariant: folding any prefix of the log and then the rest gives the same view as folding all of it.
 */
import { fromBinary } from "../protocol/message.ts";
import { hexOf } from "../protocol/bytes.ts";
import {
  type AgentServerMessage,
  BlobKind,
  type ConversationState,
  type InteractionUpdate,
  type KvServerMessage,
  type SetBlobArgs,
  type StepRestartedUpdate,
  type StepUsage,
  TodoItemSchema,
  type TurnEndedUpdate,
  TurnEndReason,
  type UserMessage,
} from "../protocol/messages.ts";
import { blobIn } from "./content.ts";
import { addOutput, addProgress, putCall, writeCall } from "./tool-view.ts";
import type { EndView, TurnView, UserMessageView, ViewPart } from "./view.ts";
import { cleanUsage, isCounted, sumOf } from "./usage.ts";
import { spokenIn } from "./messages.ts";

export function reduce(view: TurnView, eventId: number, { message }: AgentServerMessage): TurnView {
  const next = { ...view, eventId };
  switch (message.case) {
    case "interactionUpdate":
      return update(next, message.value);
    case "interactionQuery":
      return { ...next, queries: [...view.queries, { eventId, query: message.value }] };
    case "conversationCheckpointUpdate":
      return checkpoint(next, message.value);
    case "kvServerMessage":
      return kept(next, message.value);
    case "execServerMessage":
    case "execServerControlMessage":
    case undefined:
      return next;
  }
}

function update(view: TurnView, { message }: InteractionUpdate): TurnView {
  const { parts, step } = view;
  switch (message.case) {
    case "textDelta":
      return spoken(view, message.value.text);
    case "thinkingDelta":
      return { ...view, parts: thought(parts, step, message.value.text) };
    case "thinkingCompleted":
      return { ...view, parts: thoughtOver(parts, message.value.durationMs) };
    case "partialToolCall":
      return { ...view, parts: writeCall(parts, step, message.value) };
    case "toolCallStarted":
    case "toolCallCompleted": {
      const { toolCall } = message.value;
      if (toolCall === undefined) return view;
      const state = message.case === "toolCallStarted" ? "running" : "over";
      return { ...view, parts: putCall(parts, step, toolCall, state) };
    }
    case "toolCallDelta":
      return { ...view, parts: addProgress(parts, message.value) };
    case "shellOutputDelta": {
      const { execId, output } = message.value;
      return output.case === undefined
        ? view
        : { ...view, parts: addOutput(parts, step, execId, output.value) };
    }
    case "tokenDelta":
      return { ...view, tokens: view.tokens + message.value.tokens };
    case "summary":
      return { ...view, summary: message.value.text };
    case "userMessageAppended":
      return heard(view, message.value.userMessage);
    case "stepStarted":
      return begun(view, message.value.step, message.value.model);
    case "stepCompleted":
      return completed(view, message.value.usage);
    case "stepRestarted":
      return rolledBack(view, message.value);
    case "turnEnded":
      return ended(view, message.value);
    case "stepFallback":
      return { ...view, model: message.value.model };
    case "stepContinued":
      return { ...view, parts: withoutBehindText(parts, step), restarts: view.restarts + 1 };
    case "stepRequested":
    case "heartbeat":
    case undefined:
      return view;
  }
}

function spoken(view: TurnView, text: string): TurnView {
  if (text === "") return view;
  const { parts, step } = view;
  const last = parts.at(-1);
  const isMore = last?.type === "text" && last.step === step && parts.length > view.savedParts;
  const next: readonly ViewPart[] = isMore
    ? parts.with(parts.length - 1, { ...last, text: last.text + text })
    : [...parts, { type: "text", step, text }];
  return { ...view, parts: next, hasSpoken: true, unspoken: undefined };
}

function thought(parts: readonly ViewPart[], step: number, text: string): readonly ViewPart[] {
  const last = parts.at(-1);
  const isMore = last?.type === "thinking" && last.durationMs === undefined && last.step === step;
  if (isMore) return parts.with(parts.length - 1, { ...last, text: last.text + text });
  return [...parts, { type: "thinking", step, text, durationMs: undefined }];
}

function thoughtOver(parts: readonly ViewPart[], durationMs: number): readonly ViewPart[] {
  const at = parts.findLastIndex(({ type }) => type === "thinking");
  const part = parts[at];
  return part?.type === "thinking" ? parts.with(at, { ...part, durationMs }) : parts;
}

function heard(view: TurnView, message: UserMessage | undefined): TurnView {
  if (message === undefined) return view;
  const { text, messageId } = message;
  const attachments = message.attachments.map(({ mediaType, fileName, content }) => ({
    mediaType,
    fileName,
    blobId: blobIn(content),
  }));
  const said: UserMessageView = { text, messageId, attachments };
  const [first] = view.userMessages;
  // The client itself put it there when it said it.
  const isSame = messageId === "" ? view.step === -1 && first?.text === text : first?.messageId === messageId;
  if (first !== undefined && isSame) return view;
  const userMessages = [...view.userMessages, said];
  // The one that began the turn stands before everything; a later one stands where it came.
  if (view.userMessages.length === 0) return { ...view, userMessages };
  return { ...view, userMessages, parts: [...view.parts, { type: "user", text, messageId }] };
}

function begun(view: TurnView, step: number, model: string): TurnView {
  const next: TurnView = {
    ...view,
    step,
    attempt: 0,
    model,
    hasSpoken: false,
    unspoken: undefined,
    mark: undefined,
  };
  return { ...next, mark: next };
}

function completed(view: TurnView, usage: StepUsage | undefined): TurnView {
  // Such a step is never run again, so nothing can roll it back.
  const next = { ...withUnspoken(view), mark: undefined };
  return usage === undefined ? next : { ...next, usage: sumOf([view.usage, usage]) };
}

/** Forgets what came after the event, if it was kept: nothing older than the step is ever rolled back. */
function rolledBack(view: TurnView, { rollbackToEventId, step, attempt }: StepRestartedUpdate): TurnView {
  const { eventId, mark } = view;
  if (mark === undefined || Number(rollbackToEventId) > eventId) return view;
  const back: TurnView = { ...mark, eventId, step, attempt, restarts: view.restarts + 1, mark: undefined };
  return { ...back, mark: back };
}

/** Without what the step said behind its text. */
function withoutBehindText(parts: readonly ViewPart[], step: number): readonly ViewPart[] {
  const isKept = (part: ViewPart): boolean =>
    part.type === "text" || part.type === "user" || part.step !== step;
  return parts.slice(0, parts.findLastIndex(isKept) + 1);
}

function checkpoint(view: TurnView, state: ConversationState): TurnView {
  const todos = state.todos.map((id) => {
    const blobId = hexOf(id);
    const before = view.todos.find((todo) => todo.blobId === blobId);
    return { blobId, item: view.knownTodos[blobId] ?? before?.item };
  });
  const known = todos.flatMap(({ blobId, item }) => (item === undefined ? [] : [[blobId, item] as const]));
  return { ...view, todos, knownTodos: Object.fromEntries(known), checkpointEventId: view.eventId };
}

function kept(view: TurnView, { message }: KvServerMessage): TurnView {
  if (message.case !== "setBlobArgs") return view;
  const { kind, blobData } = message.value;
  const blobId = hexOf(message.value.blobId);
  switch (kind) {
    case BlobKind.MESSAGE:
      return { ...view, messages: [...view.messages, { blobId, isAssistant: false }] };
    case BlobKind.ASSISTANT_MESSAGE: {
      const messages = [...view.messages, { blobId, isAssistant: true }];
      const next = { ...view, messages, savedParts: view.parts.length };
      return blobData === undefined ? next : heardAnswer(next, blobData);
    }
    case BlobKind.TODO:
      return { ...view, knownTodos: { ...view.knownTodos, ...todoOf(blobId, message.value) } };
    default:
      return view;
  }
}

/**
 * The bytes of an assistant message that was set, as soon as they are there. Only a blob of that kind may
 * be given: anything else could look like an answer and be a file that a tool read.
 */
export function heardAnswer(view: TurnView, bytes: Uint8Array): TurnView {
  if (view.hasSpoken) return { ...view, hasSpoken: false };
  const text = spokenIn(bytes) ?? "";
  return text === "" ? view : { ...view, unspoken: text };
}

/** What was never streamed is shown when nothing more can come. */
export function withUnspoken(view: TurnView): TurnView {
  if (view.unspoken === undefined) return view;
  const { unspoken: text, parts, step } = view;
  const isSaved = view.savedParts === parts.length;
  const next: readonly ViewPart[] = [...parts, { type: "text", step, text }];
  return { ...view, parts: next, savedParts: isSaved ? next.length : view.savedParts, unspoken: undefined };
}

function todoOf(blobId: string, { blobData }: SetBlobArgs): TurnView["knownTodos"] {
  if (blobData === undefined) return {};
  try {
    const { id, text, status } = fromBinary(TodoItemSchema, blobData);
    return { [blobId]: { id, text, status } };
  } catch {
    // Listed without its text.
    return {};
  }
}

function ended(view: TurnView, update: TurnEndedUpdate): TurnView {
  const total = cleanUsage(update);
  const last = withUnspoken(view);
  return {
    ...last,
    usage: isCounted(total) ? total : view.usage,
    end: endOf(update),
    queries: [],
    mark: undefined,
  };
}

function endOf({ reason, failure }: TurnEndedUpdate): EndView {
  if (reason === TurnEndReason.ABORTED) return { reason: "aborted", failure: undefined };
  if (reason !== TurnEndReason.FAILED) return { reason: "completed", failure: undefined };
  const { kind = 0, message = "", providerStatus = 0, retryAfterMs } = failure ?? {};
  return { reason: "failed", failure: { kind, message, providerStatus, retryAfterMs } };
}
