/**
 * The first chunk of a turn: what the user wants, and where the conversation stands.
 *
 * It names, it does not carry: the conversation is the last checkpoint, attachments and long prompts are blobs
 * of this client that the server asks for. So continuing a long conversation costs as little as a short one.
 */
import { given } from "../../protocol/given.ts";
import { fromBinary, type MessageInitShape } from "../../protocol/message.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import {
  type AttachmentSchema,
  type ConversationActionSchema,
  ConversationStateSchema,
  type EnvironmentSchema,
  type ExecKind,
  type RunRequestSchema,
  type StepOptionsSchema,
  type ToolDefinition,
} from "../../protocol/messages.ts";
import { type ClientBlobStore, putBytes } from "./blob-store.ts";
import type { ConversationRecord } from "./conversation-store.ts";
import type { UserMessageView } from "../../turn/view.ts";
import { fitsInline, inBlob, inline } from "../../turn/content.ts";
import { encodeClient } from "../../turn/messages.ts";

export interface NewAttachment {
  /** For example image/png. */
  readonly mediaType: string;
  readonly fileName?: string;
  readonly bytes: Uint8Array;
}

export interface SaidByUser {
  readonly kind?: "message";
  readonly text: string;
  readonly attachments?: readonly NewAttachment[];
}

export type TurnInput =
  | SaidByUser
  /** Continues without a new message. */
  | { readonly kind: "continue" }
  /** Replaces the history by a summary. */
  | { readonly kind: "summarize" }
  /** Runs a command without the agent; it becomes part of the conversation. */
  | { readonly kind: "shell"; readonly command: string; readonly workingDirectory?: string };

export type ActionInit = MessageInitShape<typeof ConversationActionSchema>;
export type StepOptionsInit = MessageInitShape<typeof StepOptionsSchema>;

/** What this client can do for the server. */
export interface OfferedTools {
  readonly kinds: readonly ExecKind[];
  readonly definitions: readonly ToolDefinition[];
  /** A user answers what the agent asks. Where built-in kinds are offered it may ask anyway. */
  readonly answersQuestions?: boolean;
}

interface RunRequestParts {
  readonly record: ConversationRecord;
  readonly action: ActionInit;
  readonly tools: OfferedTools;
  readonly options: StepOptionsInit | undefined;
  readonly environment: MessageInitShape<typeof EnvironmentSchema> | undefined;
}

/** Half of the largest event: the server says the message again, in one event, with room for what stands beside it. */
const TEXT_BYTES_MAX = LIMITS.eventBytesMax / 2;

interface PreparedAction {
  readonly action: ActionInit;
  /** What the user says with it. */
  readonly said: UserMessageView | undefined;
}

/** Puts what belongs into blobs, and says what is to be done. */
export async function prepareAction(
  blobs: ClientBlobStore,
  input: TurnInput,
  messageId: string,
): Promise<PreparedAction> {
  switch (input.kind) {
    case "continue":
      return { action: { action: { case: "continueAction", value: {} } }, said: undefined };
    case "summarize":
      return { action: { action: { case: "summarizeAction", value: {} } }, said: undefined };
    case "shell": {
      const { command, workingDirectory = "" } = input;
      const value = { command, workingDirectory };
      return { action: { action: { case: "shellCommandAction", value } }, said: undefined };
    }
    default:
      return prepareMessage(blobs, input, messageId);
  }
}

async function prepareMessage(
  blobs: ClientBlobStore,
  { text, attachments = [] }: SaidByUser,
  messageId: string,
): Promise<PreparedAction> {
  checkText(text);
  const shown: UserMessageView["attachments"][number][] = [];
  const sent: MessageInitShape<typeof AttachmentSchema>[] = [];
  for (const { mediaType, fileName = "", bytes } of attachments) {
    const blobId = await putBytes(blobs, bytes);
    shown.push({ mediaType, fileName, blobId });
    sent.push({ mediaType, fileName, content: inBlob(blobId, bytes.length) });
  }
  const said = { text, messageId, attachments: shown };
  return { action: messageAction(text, messageId, sent), said };
}

export function messageAction(
  text: string,
  messageId: string,
  attachments: MessageInitShape<typeof AttachmentSchema>[] = [],
): ActionInit {
  checkText(text);
  const userMessage = { text, messageId, attachments };
  return { action: { case: "userMessageAction", value: { userMessage } } };
}

function checkText(text: string): void {
  const { length } = new TextEncoder().encode(text);
  if (length <= TEXT_BYTES_MAX) return;
  throw new HoldfastError(
    "too_large",
    `the message has ${length} bytes, at most ${TEXT_BYTES_MAX} can be sent as text: attach it as a file`,
  );
}

/** The encoded chunk. */
export async function runRequest(blobs: ClientBlobStore, parts: RunRequestParts): Promise<Uint8Array> {
  const { record, action, tools, options, environment } = parts;
  const { checkpoint, conversationId, model, subagentDepth = 0, systemPromptBlobId } = record;
  const systemPrompt = await promptOf(blobs, systemPromptBlobId);
  const conversationState = checkpoint && fromBinary(ConversationStateSchema, checkpoint);
  const value: MessageInitShape<typeof RunRequestSchema> = {
    action,
    model,
    conversationId,
    keepsBlobs: true,
    subagentDepth,
    tools: [...tools.definitions],
    execKinds: [...tools.kinds],
    answersQuestions: tools.answersQuestions === true,
    ...given({ conversationState, systemPrompt, options, environment }),
  };
  const chunk = encodeClient({ case: "runRequest", value });
  if (chunk.length <= LIMITS.chunkBytesMax) return chunk;
  throw new HoldfastError(
    "too_large",
    `the request has ${chunk.length} bytes, at most ${LIMITS.chunkBytesMax} can be sent: ` +
      "summarize the conversation, or offer fewer tools",
  );
}

/** Short ones travel along, long ones are asked for. */
async function promptOf(blobs: ClientBlobStore, blobId: string | undefined) {
  if (blobId === undefined) return undefined;
  const value = await blobs.get(blobId);
  if (value === undefined) {
    throw new HoldfastError("not_found", "the system prompt of this conversation is gone: begin another one");
  }
  return fitsInline(value) ? inline(value) : inBlob(blobId, value.length);
}
