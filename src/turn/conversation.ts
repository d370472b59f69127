/**
 * What the model gets: the conversation before this turn, then what the turn's log holds, in the same order.
 *
 * Each message is read once, when its bytes are in hand; until then the decision is to get them.
 */
import { hexOf } from "../protocol/bytes.ts";
import {
  type AssistantChatMessage,
  type ChatMessage,
  decodeChatMessage,
  type ToolCallPart,
} from "../protocol/chat-message.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { countOf, idsIn, idsInHand, messageIds } from "../protocol/id-pages.ts";
import { BlobKind, type RunRequest } from "../protocol/messages.ts";
import type { KeptBlob } from "./checkpoint.ts";
import type { Decision } from "./decision.ts";
import type { Facts } from "./facts.ts";
import { endFailed } from "./failure.ts";
import { type Conversation, learn } from "./found.ts";
import { CONTINUE, SUMMARIZE } from "./prompts.ts";
import { isAsked, isKept, obtain, Reader, serverKeeps } from "./reader.ts";
import { toolMessage, userMessage, userText, withAllResults, written } from "./written.ts";

/** Each turn reads them all, and no model has room for so many. */
const MESSAGES_MAX = 5_000;

export function promptOf({ earlier = [], own }: Conversation): readonly ChatMessage[] {
  return [...earlier, ...own.map(({ message }) => message)];
}

export function isSummary({ request }: Facts): boolean {
  return request?.action?.action.case === "summarizeAction";
}

/** True until the summary was said. */
export function isSummarizing(facts: Facts): boolean {
  return isSummary(facts) && facts.summary === undefined;
}

/** Reads on as far as bytes are in hand, about `bytesMax` of them; a decision when something has to be done first. */
export function readOn(facts: Facts, request: RunRequest, bytesMax: number): Decision | undefined {
  try {
    return readEarlier(facts, request) ?? readEntries(facts, request, bytesMax);
  } catch (cause) {
    // What a message or a page holds is the client's mistake.
    if (cause instanceof HoldfastError && cause.code === "invalid_frame")
      return endFailed("invalid_request", cause.message);
    throw cause;
  }
}

function readEarlier(facts: Facts, request: RunRequest): Decision | undefined {
  const { conversation, idOf } = facts.found;
  if (conversation.earlier !== undefined) return undefined;
  const { conversationState, history, preFetchedBlobs } = request;
  // What an earlier run has said is durable with its first event.
  const isFirst = serverKeeps(facts) && (facts.found.pastHead ?? 0) === 0;
  /** What came with the request and is the server's to keep. */
  const unstored: KeptBlob[] = [];
  for (const { blobId, blobData } of preFetchedBlobs) {
    const id = hexOf(blobId);
    if (!facts.found.inHand.has(id)) {
      if (idOf(blobData) !== id)
        return endFailed("invalid_request", `the blob ${id} was sent with other bytes`);
      learn(facts.found, id, blobData);
    }
    if (isFirst && !facts.found.stored.has(id))
      unstored.push({ id, bytes: blobData, kind: BlobKind.MESSAGE });
  }
  if (unstored.length > 0) return { kind: "keep", blobs: unstored };
  const list = messageIds(conversationState);
  const count = countOf(list);
  if (count > 0 && history.length > 0)
    return endFailed("invalid_request", "a request has a conversation state or a history, not both");
  if (count + history.length > MESSAGES_MAX && !isSummary(facts)) {
    const message = `the conversation has more than ${MESSAGES_MAX} messages: summarize it, or begin anew`;
    return endFailed("context_too_long", message);
  }
  const reader = new Reader(facts);
  // A server that knows nothing of the conversation gets its pages size by size, and the newest messages meanwhile.
  const { ids } = idsInHand(list, (pageId) => {
    const page = reader.blob(hexOf(pageId));
    return reader.missing.has(hexOf(pageId)) ? undefined : idsIn(page);
  });
  const bodies = [...ids.map((id) => reader.blob(hexOf(id))), ...history.map((one) => reader.read(one))];
  if (reader.missing.size > 0) return obtain(facts, reader.missing) ?? readEarlier(facts, request);
  const earlier = withAllResults(bodies.map((bytes) => decodeChatMessage(bytes)));
  const refusal = addUnsaid(facts, request, earlier);
  if (refusal !== undefined) return refusal;
  conversation.earlier = earlier;
  for (const message of earlier) noteFiles(conversation, message);
  return undefined;
}

function noteFiles({ files }: Conversation, { content }: ChatMessage): void {
  for (const part of content) {
    for (const one of part.type === "tool-result" ? (part.files ?? []) : [part])
      if (one.type === "file" && one.blobId !== undefined) files.add(one.blobId);
  }
}

/** Words of our own that the action needs: no client said them. */
function addUnsaid(
  { found: { conversation, idOf } }: Facts,
  { action: whole, systemPrompt }: RunRequest,
  earlier: readonly ChatMessage[],
): Decision | undefined {
  const action = whole?.action;
  if (action?.case !== "summarizeAction" && action?.case !== "continueAction") return undefined;
  const isAsItStands = action.case === "continueAction" && action.value.asItStands;
  if (earlier.length === 0 && !(isAsItStands && systemPrompt !== undefined))
    return endFailed("invalid_request", "there is no conversation to continue");
  if (action.case === "summarizeAction") conversation.own.push(written(userText(SUMMARIZE), idOf));
  else if (!isAsItStands && earlier.at(-1)?.role === "assistant")
    conversation.own.push(written(userText(CONTINUE), idOf));
  return undefined;
}

/** Takes up what is new in the log. */
function readEntries(facts: Facts, request: RunRequest, bytesMax: number): Decision | undefined {
  const { entries, found } = facts;
  const { conversation } = found;
  for (let bytes = 0; ;) {
    const reader = new Reader(facts);
    const results = resultsOf(conversation, reader);
    const entry = results === undefined ? entries[conversation.taken] : undefined;
    if (results === undefined && entry === undefined) return undefined;
    const message = results ?? (entry && messageOf(entry, reader));
    const needed = obtainAll(facts, reader, message) ?? (entry && refusalOf(entry, message));
    if (needed === "read again") continue;
    if (needed !== undefined) return needed;
    if (message !== undefined) {
      conversation.own.push(written(message, found.idOf));
      noteFiles(conversation, message);
    }
    if (results !== undefined) conversation.open = undefined;
    if (entry !== undefined) take(conversation, entry, message);
    bytes += message === undefined ? 0 : (conversation.own.at(-1)?.bytes.length ?? 0);
    if (bytes > bytesMax) return { kind: "yield" };
  }
}

/** The results of the last step, when all of its calls are over. */
function resultsOf({ open }: Conversation, reader: Reader): ChatMessage | undefined {
  if (open === undefined) return undefined;
  const { calls, record } = open;
  if (!calls.every(({ toolCallId }) => record.over.has(toolCallId))) return undefined;
  return toolMessage(calls, record.over, reader);
}

function messageOf(entry: Facts["entries"][number], reader: Reader): ChatMessage | undefined {
  const content = entry.kind === "user" ? entry.message.messageJson : entry.record.completed.message;
  if (content !== undefined) {
    const bytes = reader.read(content);
    return reader.missing.size > 0 ? undefined : decodeChatMessage(bytes);
  }
  return entry.kind === "user" ? userMessage(entry.message, reader) : undefined;
}

/** What has to be done before a message can be taken: get its bytes, let the client keep its files. */
function obtainAll(
  facts: Facts,
  reader: Reader,
  message: ChatMessage | undefined,
): Decision | "read again" | undefined {
  const files = isKept(facts) && message?.role === "user" ? message.content : [];
  const blobs = files.flatMap((part): readonly KeptBlob[] => {
    if (part.type !== "file" || part.blobId === undefined || isAsked(facts, part.blobId)) return [];
    return [{ id: part.blobId, bytes: reader.blob(part.blobId), kind: BlobKind.CONTENT }];
  });
  if (reader.missing.size > 0) return obtain(facts, reader.missing) ?? "read again";
  return blobs.length > 0 ? { kind: "keep", blobs } : undefined;
}

/** Why a message cannot stand where it does. */
function refusalOf(entry: Facts["entries"][number], message: ChatMessage | undefined): Decision | undefined {
  const role = message?.role;
  if (entry.kind === "step")
    return role === undefined || role === "assistant"
      ? undefined
      : endFailed("internal", "a step's message is the model's");
  return role === "user" || role === "system"
    ? undefined
    : endFailed("invalid_request", "what is said to the model is the user's or the system's");
}

function take(
  conversation: Conversation,
  entry: Facts["entries"][number],
  message: ChatMessage | undefined,
): void {
  conversation.taken++;
  if (entry.kind === "user") {
    conversation.shown.push(entry.message);
    return;
  }
  const last = conversation.own.at(-1);
  if (message?.role !== "assistant" || last === undefined) return;
  const calls = callsOf(message);
  conversation.shown.push({ message: last, over: entry.record.over });
  if (calls.length > 0) conversation.open = { record: entry.record, calls, plans: new Map() };
}

function callsOf(message: AssistantChatMessage): readonly ToolCallPart[] {
  return message.content.filter((part) => part.type === "tool-call");
}

/** How many of the last steps asked for the same things and got the same results. */
export function sameSteps({ own }: Conversation): number {
  const signatures: string[] = [];
  for (let at = own.length - 1; at > 0; at -= 2) {
    const signature = signatureOf(own[at - 1]?.message, own[at]?.message);
    if (signature === undefined || (signatures[0] !== undefined && signature !== signatures[0])) break;
    signatures.push(signature);
  }
  return signatures.length;
}

function signatureOf(asked: ChatMessage | undefined, told: ChatMessage | undefined): string | undefined {
  if (asked?.role !== "assistant" || told?.role !== "tool") return undefined;
  const calls = callsOf(asked).map(({ tool, args }) => [tool, args]);
  return JSON.stringify([calls, told.content.map(({ outcome, text }) => [outcome, text])]);
}
