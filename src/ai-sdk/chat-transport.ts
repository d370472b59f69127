/**
 * The AI SDK's `useChat` over Holdfast: `useChat({ transport: new HoldfastChatTransport({ url }) })`.
 *
 * A chat is a conversation of that id. What `useChat` calls a request is only a reader of its turn: the turn continues without it, and is read again from what
 * this browser keeps after a reload, in another tab, or behind an approval. `stop` is the one thing that ends it.
 *
 * Invariant: every chunk follows from a snapshot of the conversation; this file keeps only what `useChat` has got.
 */
import type { ChatTransport, UIMessage, UIMessageChunk } from "ai";
import { HoldfastError } from "../protocol/errors.ts";
import {
  type ConversationSnapshot,
  type LiveConversation,
  LiveConversations,
  type Message,
  type PageOptions,
  type ShownTurn,
} from "../live/index.ts";
import { chunksBetween, NOTHING_SHOWN, type Shown } from "./ui-chunks.ts";
import { answerIdOf, messagesOf, userMessagesOf } from "./ui-message.ts";
import { spokenIn } from "./user-message.ts";

export interface HoldfastChatTransportOptions extends PageOptions {
  /**
   * What becomes of the turn when `useChat` lets go of it, which it does for `stop()` and when its component goes away. `leave`: it continues, and only
   * `transport.stop(id)` stops it. Default: `stop`.
   */
  readonly onAbort?: "stop" | "leave" | undefined;
  /** Conversations that the page has open already; the other options then mean nothing. */
  readonly conversations?: LiveConversations | undefined;
}

/** Of `useChat`, to be kept up to date with what other tabs do. */
interface FollowingChat {
  readonly id: string;
  readonly setMessages: (messages: UIMessage[]) => void;
  readonly resumeStream: () => Promise<void>;
}

/** What `useChat` has got of a chat's last turn. */
interface Reading {
  readonly turnId: string;
  shown: Shown;
}

export class HoldfastChatTransport implements ChatTransport<UIMessage> {
  readonly resumeStreamIsReplay = true;
  /** The conversations below. */
  readonly conversations: LiveConversations;
  readonly #onAbort: "stop" | "leave";
  readonly #readings = new Map<string, Reading>();
  /** The newest request of each chat, as long as it is open. */
  readonly #requests = new Map<string, object>();

  constructor(options: HoldfastChatTransportOptions = {}) {
    const { onAbort = "stop", conversations, ...pageOptions } = options;
    this.#onAbort = onAbort;
    this.conversations = conversations ?? new LiveConversations(pageOptions);
  }

  /** What `useChat` begins with: everything said in this chat, without the answer that is under way, which `resume` shows. */
  async messages(chatId: string): Promise<UIMessage[]> {
    const live = this.conversations.conversation(chatId);
    await live.load();
    await until(live, ({ turns, isBusy, connection }) => {
      const isKnown = !isBusy || turns.at(-1)?.user !== undefined;
      return isKnown || connection?.state === "reconnecting" || connection?.state === "ended";
    });
    return live.snapshot.turns.flatMap((turn) =>
      turn.end === undefined ? userMessagesOf(turn) : messagesOf(turn),
    );
  }

  async sendMessages(
    options: Parameters<ChatTransport<UIMessage>["sendMessages"]>[0],
  ): Promise<ReadableStream<UIMessageChunk>> {
    const { chatId, messages, trigger, messageId, abortSignal, body } = options;
    const request = this.#begin(chatId, abortSignal);
    try {
      const live = this.conversations.conversation(chatId);
      const last = messages.at(-1);
      if (last?.role === "assistant") decideAll(live, last);
      else {
        const isEdit = trigger === "regenerate-message" || messageId !== undefined;
        if (isEdit) await live.rewind(messages.filter(({ role }) => role === "user").length - 1);
        await live.send(messageIn(last, body));
      }
      if (abortSignal?.aborted === true && this.#onAbort === "stop") await live.stop();
      const stream = this.#read(live, request);
      if (stream === undefined) throw new HoldfastError("stream_ended", "there is no turn to continue");
      return stream;
    } catch (cause) {
      this.#over(chatId, request);
      throw cause;
    }
  }

  async reconnectToStream(
    options: Parameters<ChatTransport<UIMessage>["reconnectToStream"]>[0],
  ): Promise<ReadableStream<UIMessageChunk> | null> {
    const { chatId, abortSignal } = options;
    const request = this.#begin(chatId, abortSignal);
    try {
      const live = this.conversations.conversation(chatId);
      await live.load();
      this.#readings.delete(chatId);
      const stream = live.snapshot.isBusy ? this.#read(live, request) : undefined;
      if (stream === undefined) this.#over(chatId, request);
      return stream ?? null;
    } catch (cause) {
      this.#over(chatId, request);
      throw cause;
    }
  }

  /** Stops the turn under way, for good. */
  async stop(chatId: string): Promise<void> {
    await this.conversations.conversation(chatId).stop();
  }

  /**
   * Shows in this chat what another tab begins in it. For an effect: `useEffect(() => transport.follow(chat), [chat.id])`.
   */
  follow({ id, setMessages, resumeStream }: FollowingChat): () => void {
    const live = this.conversations.conversation(id);
    const look = (): void => {
      const { turns, isBusy } = live.snapshot;
      const turn = turns.at(-1);
      if (!isBusy || turn?.user === undefined || this.#requests.has(id)) return;
      if (this.#readings.get(id)?.turnId === turn.id) return;
      // Until `resumeStream` asks, so that this is done once.
      this.#requests.set(id, turn);
      this.messages(id)
        .then((messages) => {
          setMessages(messages);
          return resumeStream();
        })
        .catch(() => this.#over(id, turn));
    };
    return live.watch(look);
  }

  /** Leaves all turns, which continue at the server. */
  close(): void {
    void this.conversations.close();
  }

  #begin(chatId: string, signal: AbortSignal | undefined): object {
    const request = {};
    this.#requests.set(chatId, request);
    signal?.addEventListener("abort", () => {
      // `useChat` also lets go of a request when it makes the next one at once, as React's strict mode has it do.
      queueMicrotask(() => {
        if (this.#requests.get(chatId) !== request) return;
        this.#over(chatId, request);
        if (this.#onAbort === "stop") void this.conversations.conversation(chatId).stop();
      });
    });
    return request;
  }

  #over(chatId: string, request: object): void {
    if (this.#requests.get(chatId) === request) this.#requests.delete(chatId);
  }

  /** The last turn, from where `useChat` has it; undefined when there is none. */
  #read(live: LiveConversation, request: object): ReadableStream<UIMessageChunk> | undefined {
    const turnId = live.snapshot.turns.at(-1)?.id;
    if (turnId === undefined) return undefined;
    const known = this.#readings.get(live.id);
    const reading = known?.turnId === turnId ? known : { turnId, shown: NOTHING_SHOWN };
    this.#readings.set(live.id, reading);
    let unwatch = (): void => undefined;
    return new ReadableStream({
      start: (controller) => {
        controller.enqueue({ type: "start", messageId: answerIdOf(turnId) });
        let state = "";
        const look = (): void => {
          const { snapshot } = live;
          const turn = snapshot.turns.find(({ id }) => id === turnId);
          if (turn === undefined) return;
          const { connection, eventId } = snapshot;
          if (connection !== undefined && connection.state !== state) {
            ({ state } = connection);
            const detail = connection.stuck ?? connection.trouble?.message;
            controller.enqueue({
              type: "data-connection",
              data: { state, detail, eventId },
              transient: true,
            });
          }
          const { parts, end } = turn;
          const told = chunksBetween(reading.shown, {
            parts,
            approvals: snapshot.approvals,
            isOver: end !== undefined,
          });
          reading.shown = told.shown;
          for (const chunk of told.chunks) controller.enqueue(chunk);
          const last = end === undefined ? waitingChunk(snapshot, turn) : endChunk(turn, end);
          if (last === undefined) return;
          unwatch();
          this.#over(live.id, request);
          controller.enqueue(last);
          controller.close();
        };
        unwatch = live.watch(look);
        look();
      },
      cancel: () => {
        unwatch();
        this.#over(live.id, request);
      },
    });
  }
}

function endChunk(
  { usage, model }: ShownTurn,
  { reason, message }: NonNullable<ShownTurn["end"]>,
): UIMessageChunk {
  if (reason === "completed")
    return { type: "finish", finishReason: "stop", messageMetadata: { usage, model } };
  return reason === "aborted" ? { type: "abort", reason: message } : { type: "error", errorText: message };
}

/** `useChat` sends approvals with its next request only: while nothing but them is waited for, this one is over. */
function waitingChunk({ approvals }: ConversationSnapshot, { parts }: ShownTurn): UIMessageChunk | undefined {
  const running = parts.filter((part) => part.type === "tool" && part.state === "running");
  const isWaiting = running.every(
    (part) => part.type === "tool" && approvals.some(({ execId }) => part.execIds.includes(execId)),
  );
  return running.length > 0 && isWaiting ? { type: "finish", finishReason: "tool-calls" } : undefined;
}

/** The answers that a person has given to what waits. */
function decideAll(live: LiveConversation, { parts }: UIMessage): void {
  for (const part of parts) {
    if (!("toolCallId" in part) || part.state !== "approval-responded") continue;
    const { id, approved, reason } = part.approval;
    live.decide(id, approved, reason);
  }
}

function messageIn(last: UIMessage | undefined, body: object | undefined): Message {
  if (last === undefined) throw new HoldfastError("invalid_argument", "there is no message to send");
  const model =
    body !== undefined && "model" in body && typeof body.model === "string" ? body.model : undefined;
  return { ...spokenIn(last), model };
}

async function until(
  live: LiveConversation,
  isSo: (snapshot: ConversationSnapshot) => boolean,
): Promise<void> {
  if (isSo(live.snapshot)) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const unwatch = live.watch(() => {
    if (isSo(live.snapshot)) resolve();
  });
  await promise.finally(unwatch);
}
