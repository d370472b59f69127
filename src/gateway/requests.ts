/**
 * What the gateway says on a stream: the request that begins a turn, and the results of tools.
 *
 * Every message of the history is a blob of the conversation that the server keeps, and named by its id, so a turn that starts from a checkpoint
 * sends the new message and nothing else. New blobs travel along, pages first and then the newest, as many as fit; the others are put to
 * the conversation before.
 */
import { hash } from "node:crypto";
import { create, type MessageInitShape } from "../protocol/message.ts";
import { encodeChatMessage, textOf } from "../protocol/chat-message.ts";
import { messageIds, withIds } from "../protocol/id-pages.ts";
import { checkSize } from "../protocol/frame-check.ts";
import { LIMITS } from "../protocol/limits.ts";
import {
  type ConversationState,
  ConversationStateSchema,
  ExecKind,
  type McpContentSchema,
  type RunRequestSchema,
  type StepOptionsSchema,
} from "../protocol/messages.ts";
import {
  type AnswerRequest,
  type LineMessage,
  type OpenThought,
  type SaidLine,
  toChatMessages,
  type ToolLine,
} from "./openai/index.ts";
import type { PendingCall, SessionRecord } from "./session-record.ts";
import { encodeClient } from "../turn/messages.ts";
import { type ContentInit, fitsInline, inBlob, inline } from "../turn/content.ts";
import { blobIdBytes } from "../protocol/blob-id.ts";
import { sentContent } from "../client/sent-content.ts";

/** Of chunk 0; the ids, tools and system prompt need the rest. */
const PREFETCHED_BYTES_MAX = LIMITS.chunkBytesMax / 2;

interface TurnRequest {
  readonly request: AnswerRequest;
  readonly model: string;
  readonly conversationId: string;
  /** What the gateway carries out itself. */
  readonly ownKinds: readonly ExecKind[];
  /** Where the conversation stands; undefined for a new one. */
  readonly before: ConversationState | undefined;
  /** What the model has not seen: the whole history for a new conversation. */
  readonly messages: readonly LineMessage[];
  /** Default: there are no signed thoughts among them. */
  readonly openThought?: OpenThought;
}

/** The next turn of a conversation that is there, or of a new one. */
export interface Beginning {
  readonly session: SessionRecord | undefined;
  readonly messages: readonly LineMessage[];
}

export interface BegunTurn {
  /** Chunk 0. */
  readonly first: Uint8Array;
  /** Blobs that it names and has no room for: put to the conversation before the stream is opened. */
  readonly large: readonly Uint8Array[];
}

/** Chunk 0 of the turn that answers the new messages. Throws `too_large` when they do not fit: nothing was done for them by then. */
export function turnRequest(turn: TurnRequest): BegunTurn {
  const { request, model, conversationId, before } = turn;
  const { history, files } = toChatMessages(turn.messages, turn.openThought);
  const written = history.map((message) => blobOf(encodeChatMessage(message)));
  const system = systemPrompt(new TextEncoder().encode(request.system));
  const { conversationState, pages } = stateWith(before, written);
  const added = [...[...files.values()].map(blobOf), ...system.blobs, ...written, ...pages];
  const { travelling, left } = prefetched(added);
  const value: MessageInitShape<typeof RunRequestSchema> = {
    conversationState,
    conversationId,
    model,
    action: { action: { case: "continueAction", value: { asItStands: true } } },
    tools: request.tools.map((tool) => ({ ...tool })),
    execKinds: [ExecKind.MCP, ...turn.ownKinds],
    serverKeepsBlobs: true,
    options: request.options,
    preFetchedBlobs: travelling.map(({ blobId, blobData }) => ({ blobId, blobData })),
    // Also an empty one: the client's instructions are all there are.
    systemPrompt: system.content,
  };
  const first = encodeClient({ case: "runRequest", value });
  // Its messages are in blobs.
  checkSize(first.length, LIMITS.chunkBytesMax, "the request without its messages, mostly its tools,");
  return { first, large: left.map(({ blobData }) => blobData) };
}

interface WrittenBlob {
  readonly id: string;
  readonly blobId: Uint8Array;
  readonly blobData: Uint8Array;
}

function blobOf(blobData: Uint8Array): WrittenBlob {
  const id = hash("sha256", blobData);
  return { id, blobId: blobIdBytes(id), blobData };
}

/** The state that names the new messages too, and the pages that they fill. */
function stateWith(before: ConversationState | undefined, written: readonly WrittenBlob[]) {
  const pages: WrittenBlob[] = [];
  const put = (blobData: Uint8Array): Uint8Array => {
    const page = blobOf(blobData);
    pages.push(page);
    return page.blobId;
  };
  const ids = written.map(({ blobId }) => blobId);
  const messages = withIds(messageIds(before), ids, put);
  const conversationState = create(ConversationStateSchema, before);
  conversationState.messages = [...messages.ids];
  conversationState.messagePages = [...messages.pages];
  return { conversationState, pages };
}

interface SystemPrompt {
  readonly content: ContentInit;
  readonly blobs: readonly WrittenBlob[];
}

function systemPrompt(bytes: Uint8Array): SystemPrompt {
  if (fitsInline(bytes)) return { content: inline(bytes), blobs: [] };
  const blob = blobOf(bytes);
  return { content: inBlob(blob.id, bytes.length), blobs: [blob] };
}

/** From the end: what is old is more likely to be known. */
function prefetched(written: readonly WrittenBlob[]): Record<"travelling" | "left", readonly WrittenBlob[]> {
  const [travelling, left]: [WrittenBlob[], WrittenBlob[]] = [[], []];
  let room = PREFETCHED_BYTES_MAX;
  for (const blob of written.toReversed()) {
    const { length } = blob.blobData;
    const fits = length <= LIMITS.inlineBytesMax && length <= room;
    (fits ? travelling : left).push(blob);
    if (fits) room -= length;
  }
  return { travelling, left };
}

interface ResultContext {
  readonly options: MessageInitShape<typeof StepOptionsSchema>;
  /** Puts what is too large for a chunk beside the stream. */
  readonly upload: (bytes: Uint8Array) => Promise<string>;
}

/** What one request says into a stream that waits. */
export interface SaidResults {
  readonly results: readonly (readonly [PendingCall, ToolLine])[];
  readonly said: readonly SaidLine[];
}

/** What was said first: the model is asked again as soon as the last result is there. */
export function resultBodies(
  { results, said }: SaidResults,
  context: ResultContext,
): Promise<readonly Uint8Array[]> {
  return Promise.all([
    // The calls are answered once, so their id names the words that come with their results. A retry sends these words under the same id, and the turn takes them once (A8).
    ...said.map((line, at) => sayAction(line, `${results[0]?.[0].execId ?? ""} ${at}`, context)),
    ...results.map(([pending, line]) => toolResult(pending, line, context)),
  ]);
}

/** The chunk that answers an exec with what the client's tool said. */
async function toolResult(call: PendingCall, line: ToolLine, context: ResultContext): Promise<Uint8Array> {
  const { execId, id, toolCallId } = call;
  const texts =
    line.text === "" && line.files.length > 0
      ? []
      : [{ mediaType: "", bytes: new TextEncoder().encode(line.text) }];
  const files = line.files.flatMap((file) =>
    "bytes" in file ? [{ mediaType: file.mediaType, bytes: file.bytes }] : [],
  );
  const content = await Promise.all(
    [...texts, ...files].map(
      async ({ mediaType, bytes }): Promise<MessageInitShape<typeof McpContentSchema>> => ({
        mediaType,
        content: await sentContent(bytes, context),
      }),
    ),
  );
  const result = { case: "success", value: { content, isError: line.isError ?? false } } as const;
  const message = { case: "mcpResult", value: { result } } as const;
  return encodeClient({
    case: "execClientMessage",
    value: { id, execId, toolCallId, message, stepOptions: context.options },
  });
}

/** The user's words behind tool results: the model gets them with the results, in the client's own form. */
async function sayAction(line: SaidLine, messageId: string, { upload }: ResultContext): Promise<Uint8Array> {
  const { history, files } = toChatMessages([line]);
  await Promise.all([...files.values()].map(upload));
  const [told] = history;
  if (told === undefined) throw new Error("a line is a message");
  const text = textOf(told);
  const messageJson = await sentContent(encodeChatMessage(told), { upload });
  const action = {
    case: "userMessageAction",
    value: { userMessage: { text, messageId, messageJson } },
  } as const;
  return encodeClient({ case: "conversationAction", value: { action } });
}
