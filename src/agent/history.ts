/**
 * What the model is told: the conversation before this turn, then what the turn's log holds, in the same order.
 */
import {
  type AssistantChatMessage,
  type ChatMessage,
  decodeChatMessage,
  type ToolCallPart,
} from "../protocol/chat-message.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { allIds, checkIds, countOf, type IdList, idsIn, messageIds } from "../protocol/id-pages.ts";
import { BlobKind, type RunRequest, type UserMessage } from "../protocol/messages.ts";
import { blobIdOf, hexOf } from "./blobs.ts";
import type { ShownStep } from "./checkpoint.ts";
import { toolMessage, userMessage, withAllResults, type Written, written } from "./messages.ts";
import { TurnFailure } from "./turn-failure.ts";
import type { TurnIo } from "./turn-io.ts";
import type { StepRecord, TurnLog } from "./turn-log.ts";

/** Each turn reads them all, and no model has room for so many. */
const MESSAGES_MAX = 5_000;

/** A step as far as it got. */
interface TakenStep {
  readonly record: StepRecord;
  readonly message: Written;
  readonly calls: readonly ToolCallPart[];
  /** Its results are among the messages. */
  isAnswered: boolean;
}

export class History {
  /** From before the turn. */
  earlier: readonly ChatMessage[] = [];
  /** Of the turn. */
  readonly own: Written[] = [];
  /** The same for display: what the user said, and the steps. */
  readonly shown: (ShownStep | UserMessage)[] = [];
  readonly #io: TurnIo;
  readonly #keeps: boolean;
  #taken = 0;
  #last: TakenStep | undefined;

  constructor(io: TurnIo, request: RunRequest) {
    this.#io = io;
    this.#keeps = request.keepsBlobs;
  }

  get prompt(): readonly ChatMessage[] {
    return [...this.earlier, ...this.own.map(({ message }) => message)];
  }

  /** The last step, until its results are among the messages. */
  get openStep(): TakenStep | undefined {
    return this.#last?.isAnswered === false ? this.#last : undefined;
  }

  async load({ conversationState, history, preFetchedBlobs, action }: RunRequest): Promise<void> {
    for (const { blobId, blobData } of preFetchedBlobs) {
      if (blobIdOf(blobData) !== hexOf(blobId)) {
        throw new TurnFailure("invalid_request", `the blob ${hexOf(blobId)} was sent with other bytes`);
      }
      this.#io.learn(hexOf(blobId), blobData);
    }
    const list = messageIds(conversationState);
    const count = countOf(list);
    if (count > 0 && history.length > 0) {
      throw new TurnFailure("invalid_request", "a request has a conversation state or a history, not both");
    }
    const isSummary = action?.action.case === "summarizeAction";
    if (count + history.length > MESSAGES_MAX && !isSummary) {
      const message = `the conversation has more than ${MESSAGES_MAX} messages: summarize it, or begin anew`;
      throw new TurnFailure("context_too_long", message);
    }
    const bodies = await this.#blobs(await this.#idsOf(list));
    for (const content of history) bodies.push(await this.#io.read(content));
    this.earlier = withAllResults(bodies.map(readMessage));
  }

  /** A server that knows nothing of the conversation asks for its pages size by size, and for the newest messages meanwhile. */
  async #idsOf(list: IdList): Promise<readonly Uint8Array[]> {
    return wellFormed(async () => {
      checkIds(list);
      this.#io.askFor([...list.pages.map(({ page }) => page), ...list.ids].map(hexOf));
      const entries = await allIds(list, async (pages) => (await this.#blobs(pages)).map(idsIn));
      return entries.map(({ id }) => id);
    });
  }

  /** All are asked for; one is waited for at a time, or every answer would wake everybody. */
  async #blobs(ids: readonly Uint8Array[]): Promise<Uint8Array[]> {
    const names = ids.map(hexOf);
    this.#io.askFor(names);
    const bodies: Uint8Array[] = [];
    for (const name of names) bodies.push(await this.#io.blob(name));
    return bodies;
  }

  /** A message of ours that is in no event: it follows from the request. */
  add(message: ChatMessage): void {
    this.own.push(written(message));
  }

  /** Takes up what is new in the log. */
  async take(log: TurnLog): Promise<void> {
    for (; this.#taken < log.entries.length; this.#taken++) {
      const entry = log.entries[this.#taken];
      if (entry?.kind === "user") {
        this.own.push(written(await this.#said(entry.message)));
        this.shown.push(entry.message);
      } else if (entry !== undefined) {
        await this.#takeStep(entry.record);
      }
      await this.#takeResults();
    }
    await this.#takeResults();
  }

  async #said(message: UserMessage): Promise<ChatMessage> {
    if (message.messageJson === undefined) return userMessage(message, this.#io, this.#keeps);
    const told = readMessage(await this.#io.read(message.messageJson));
    if (told.role !== "user" && told.role !== "system")
      throw new TurnFailure("invalid_request", "what is said to the model is the user's or the system's");
    for (const part of told.content) {
      if (!this.#keeps || part.type !== "file" || part.blobId === undefined) continue;
      await this.#io.setBlob(await this.#io.blob(part.blobId), BlobKind.CONTENT);
    }
    return told;
  }

  async #takeStep(record: StepRecord): Promise<void> {
    const { message: content } = record.completed;
    if (content === undefined) return;
    const bytes = await this.#io.read(content);
    const message = readMessage(bytes);
    if (message.role !== "assistant") throw new TurnFailure("internal", "a step's message is the model's");
    const calls = callsOf(message);
    this.own.push(written(message));
    const taken = { record, message: written(message), calls, isAnswered: calls.length === 0 };
    this.#last = taken;
    this.shown.push({ message: taken.message, over: record.over });
  }

  async #takeResults(): Promise<void> {
    const last = this.openStep;
    if (last === undefined || !last.calls.every(({ toolCallId }) => last.record.over.has(toolCallId))) return;
    last.isAnswered = true;
    this.own.push(written(await toolMessage(last.calls, last.record.over, this.#io)));
  }

  /** How many of the last steps asked for the same things and were told the same. */
  get sameSteps(): number {
    const signatures: string[] = [];
    for (let at = this.own.length - 1; at > 0; at -= 2) {
      const signature = signatureOf(this.own[at - 1]?.message, this.own[at]?.message);
      if (signature === undefined || (signatures[0] !== undefined && signature !== signatures[0])) break;
      signatures.push(signature);
    }
    return signatures.length;
  }
}

function callsOf(message: AssistantChatMessage): readonly ToolCallPart[] {
  return message.content.filter((part) => part.type === "tool-call");
}

function signatureOf(asked: ChatMessage | undefined, told: ChatMessage | undefined): string | undefined {
  if (asked?.role !== "assistant" || told?.role !== "tool") return undefined;
  const calls = callsOf(asked).map(({ tool, args }) => [tool, args]);
  return JSON.stringify([calls, told.content.map(({ outcome, text }) => [outcome, text])]);
}

function readMessage(bytes: Uint8Array): ChatMessage {
  try {
    return decodeChatMessage(bytes);
  } catch (cause) {
    throw malformed(cause);
  }
}

async function wellFormed<Value>(read: () => Promise<Value>): Promise<Value> {
  try {
    return await read();
  } catch (cause) {
    throw cause instanceof HoldfastError && cause.code === "invalid_frame" ? malformed(cause) : cause;
  }
}

/** The client's mistake, and told to it as such. */
function malformed(cause: unknown): TurnFailure {
  return new TurnFailure("invalid_request", cause instanceof Error ? cause.message : String(cause), {
    cause,
  });
}
