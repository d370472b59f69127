/**
 * One turn under way: its stream, what came of it so far, and what the client owes the server meanwhile.
 *
 * The turn keeps blobs and answers for them, keeps checkpoints, asks the user, and takes snapshots, so that a
 * client that dies continues where it was. What it hears it also hands out: part by part (`for await`), as a view, and as four
 * sub-streams.
 *
 * Invariant: a snapshot covers only events whose requests are answered on disk, or which are in the view it
 * holds (B3); `ended` resolves when nothing of the turn can be lost any more.
 */
import { HoldfastError } from "../../protocol/errors.ts";
import {
  type AgentServerMessage,
  BlobKind,
  type ConversationState,
  type InteractionQuery,
  type KvServerMessage,
} from "../../protocol/messages.ts";
import type { ClientStream } from "../stream.ts";
import type { ClientBlobStore } from "./blob-store.ts";
import { todosIn } from "./full-conversation.ts";
import { answerTo, encodeKvAnswer } from "./kv.ts";
import { type ActionInit, messageAction } from "./run-request.ts";
import {
  type AgentEvent,
  readAgentEvent,
  splitMessages,
  type SplitOptions,
  type SplitStream,
} from "./split-stream.ts";
import { type AskUser, type QueryAnswer, turnQueries } from "./turn-queries.ts";
import { TurnReaders } from "./turn-readers.ts";
import { encodeClient } from "../../turn/messages.ts";
import type { SettledPart, TurnPart } from "../../turn/parts.ts";
import { decodeView, encodeView } from "../../turn/view-codec.ts";
import { heardAnswer, reduce, withUnspoken } from "../../turn/view-fold.ts";
import { answered, EMPTY_VIEW, knowTodos, lastText, type TurnEnd, type TurnView } from "../../turn/view.ts";

/** Keeps the conversation of a turn. */
export interface TurnKeeper {
  /** Resolves once it is durable. */
  checkpoint(eventId: number, state: ConversationState): Promise<void>;
  /** The turn is over. Resolves once what is left of it is durable. */
  over(end: TurnEnd, view: TurnView): Promise<void>;
}

/**
 * Resolves with the answer, or with undefined when the application will call `Turn.answer`. The signal is aborted when the
 * question is closed: it was answered otherwise, or the turn is over for this client.
 */
export type OnQuery = (
  query: InteractionQuery,
  turn: Turn,
  signal: AbortSignal,
) => Promise<QueryAnswer | undefined>;

interface TurnParts {
  readonly conversationId: string;
  readonly stream: ClientStream;
  readonly blobs: ClientBlobStore;
  /** Undefined: another process keeps this conversation, and this one only looks at it. */
  readonly keeper: TurnKeeper | undefined;
  /** What is known before the first event: what the user said. */
  readonly begin?: TurnView | undefined;
  readonly ask?: OnQuery | undefined;
  readonly newMessageId: () => string;
  readonly onBug: (bug: unknown) => void;
  readonly split?: SplitOptions;
}

export type TurnListener = (
  view: TurnView,
  /** Undefined when it was not an event that changed the view: a question was answered. */
  heard: { readonly eventId: number; readonly message: AgentServerMessage } | undefined,
) => void;

/** Each may hold a blob of 64 MiB. */
const KV_LANES = 16;

export class Turn implements SplitStream, AsyncIterable<TurnPart> {
  readonly conversationId: string;
  readonly stream: ClientStream;
  readonly interaction: SplitStream["interaction"];
  readonly exec: SplitStream["exec"];
  readonly checkpoint: SplitStream["checkpoint"];
  readonly kv: SplitStream["kv"];
  readonly done: Promise<void>;
  readonly #parts: TurnParts;
  readonly #queries: ReturnType<typeof turnQueries>;
  readonly #listeners = new Set<TurnListener>();
  readonly #readers = new TurnReaders();
  readonly #ended = Promise.withResolvers<TurnEnd>();
  #view: TurnView;
  /** The requests for blobs, one after the other: resolves when those so far are carried out. */
  #kept: Promise<void> = Promise.resolve();
  readonly #lanes: Promise<void>[] = [];
  #kvCount = 0;
  /** Resolves when the answers so far are on disk. */
  #said: Promise<unknown> = Promise.resolve();
  #snapshotAt = 0;

  constructor(parts: TurnParts) {
    const { stream, ask } = parts;
    this.#parts = parts;
    this.conversationId = parts.conversationId;
    this.stream = stream;
    this.#view = startingView(parts);
    const askUser: AskUser | undefined =
      ask === undefined ? undefined : (query, signal) => ask(query, this, signal);
    this.#queries = turnQueries(stream, askUser, (queryId) => this.#answered(queryId));
    this.#ended.promise.catch(() => undefined);
    if (parts.begin !== undefined && this.#isWriter) stream.snapshot(0, encodeView(parts.begin));
    const split = splitMessages(this.#taken(), parts.split);
    this.interaction = split.interaction;
    this.exec = split.exec;
    this.checkpoint = split.checkpoint;
    this.kv = split.kv;
    this.done = split.done;
    for (const { query } of this.#view.queries) this.#ask(query);
    stream.watch(({ state, stuck, trouble }) =>
      this.#readers.connection({ type: "state", state, detail: stuck ?? trouble?.message }),
    );
  }

  /** A reader only looks, and may abort. */
  get role(): ClientStream["role"] {
    return this.stream.role;
  }

  get view(): TurnView {
    return this.#view;
  }

  /**
   * The turn part by part, from its beginning to its `end`. A `retract` takes back what a step said before it was cut off.
   * Throws when this client could not keep what it got.
   */
  [Symbol.asyncIterator](): AsyncIterableIterator<TurnPart> {
    return this.#readers.live(this.#view);
  }

  /** The same for what cannot take anything back, such as a pipe: each step when it is complete, and no `retract`. */
  get settled(): AsyncIterable<SettledPart> {
    return { [Symbol.asyncIterator]: () => this.#readers.settled(this.#view) };
  }

  /** Rejects when this client could not keep what it got; the turn can be resumed then. */
  get ended(): Promise<TurnEnd> {
    return this.#ended.promise;
  }

  /** Calls back at every change, after it; returns how to stop it. */
  watch(listener: TurnListener): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Stops the turn, for good. Resolves once the wish cannot be lost any more. */
  abort(): Promise<void> {
    return this.stream.abort();
  }

  /** Stops the turn and says why; unlike an abort it waits its turn among what was said before. */
  async cancel(reason = ""): Promise<void> {
    await this.#act({ action: { case: "cancelAction", value: { reason } } });
  }

  /** A message that the agent takes up at its next step. Resolves with its id once it is on this client's disk. */
  async say(text: string): Promise<string> {
    const messageId = this.#parts.newMessageId();
    await this.#act(messageAction(text, messageId));
    return messageId;
  }

  /** Answers a question, once. */
  answer(queryId: number, response: QueryAnswer): Promise<void> {
    return this.#queries.answer(queryId, response);
  }

  async #act(value: ActionInit): Promise<void> {
    await this.stream.send(encodeClient({ case: "conversationAction", value }));
  }

  get #isWriter(): boolean {
    return this.stream.role === "writer";
  }

  async *#taken(): AsyncGenerator<AgentEvent, void, undefined> {
    let failure: Error | undefined;
    try {
      for await (const event of this.stream.events) {
        for (const heard of readAgentEvent(event)) {
          await this.#take(heard);
          yield heard;
        }
      }
    } catch (cause) {
      failure = cause instanceof Error ? cause : new Error(String(cause));
      // This client stops reading: the events wait in the server's log until the turn is resumed.
      this.stream.leave();
    }
    await this.#finish(failure);
    if (failure !== undefined) throw failure;
  }

  async #take({ eventId, message }: AgentEvent): Promise<void> {
    this.#change(reduce(this.#view, eventId, message), message);
    const { message: said } = message;
    switch (said.case) {
      case "kvServerMessage":
        this.#keep(said.value);
        break;
      case "conversationCheckpointUpdate":
        // Whatever it names is kept before it is.
        await this.#kept;
        await this.#parts.keeper?.checkpoint(eventId, said.value);
        await this.#findTodos();
        this.#snapshot();
        break;
      case "interactionQuery":
        this.#ask(said.value);
        break;
      case "interactionUpdate":
        if (said.value.message.case === "stepCompleted") this.#snapshot();
        break;
      default:
        break;
    }
    this.#tell({ eventId, message });
  }

  /** Beside the other events, and some at a time: a disk that syncs holds up no text, and they share syncs. */
  #keep(request: KvServerMessage): void {
    if (this.#parts.keeper === undefined) return;
    const lane = this.#kvCount++ % KV_LANES;
    const before = this.#lanes[lane] ?? Promise.resolve();
    this.#lanes[lane] = before.then(() => this.#answerKv(request));
    this.#kept = Promise.all(this.#lanes).then(() => undefined);
  }

  async #answerKv(request: KvServerMessage): Promise<void> {
    try {
      const { message, set } = await answerTo(this.stream, this.#parts.blobs, request);
      if (set !== undefined && isLateAnswer(request)) this.#change(heardAnswer(this.#view, set.bytes));
      if (this.#isWriter) this.#say(this.stream.send(encodeKvAnswer(message)));
    } catch (cause) {
      // The stream is over or was left: what is not answered comes again when it is resumed.
      this.#say(Promise.reject(cause instanceof Error ? cause : new Error(String(cause))));
    }
  }

  /** Todos from before this turn: the checkpoint names only their blobs. */
  async #findTodos(): Promise<void> {
    const unknown = this.#view.todos.filter(({ item }) => item === undefined);
    if (unknown.length === 0) return;
    const found = await todosIn(
      this.#parts.blobs,
      unknown.map(({ blobId }) => blobId),
    );
    this.#change(knowTodos(this.#view, found));
  }

  #change(view: TurnView, heard?: AgentServerMessage): void {
    const before = this.#view;
    this.#view = view;
    this.#readers.changed(before, view, heard);
  }

  #say(saying: Promise<unknown>): void {
    this.#said = Promise.all([this.#said, saying]);
    this.#said.catch(() => undefined);
  }

  #ask(query: InteractionQuery): void {
    if (this.#isWriter) void this.#queries.ask(query);
  }

  #answered(queryId: number): void {
    this.#change(answered(this.#view, queryId));
    this.#snapshot();
    this.#tell(undefined);
  }

  /** Keeps the view as it is now, once every request before it is answered on disk. */
  #snapshot(): void {
    const view = this.#view;
    // A degraded stream cannot be resumed.
    if (!this.#isWriter || view.eventId === 0) return;
    void this.#kept
      .then(() => this.#said)
      .then(
        () => this.#keepView(view),
        // What was not answered comes again after a restart: it must not be covered.
        () => undefined,
      )
      .catch((bug: unknown) => this.#parts.onBug(bug));
  }

  #keepView(view: TurnView): void {
    if (view.eventId < this.#snapshotAt) return;
    this.#snapshotAt = view.eventId;
    this.stream.snapshot(view.eventId, encodeView(view));
  }

  #tell(heard: Parameters<TurnListener>[1]): void {
    for (const listener of this.#listeners) {
      try {
        listener(this.#view, heard);
      } catch (bug) {
        // A listener that throws must not stop the turn.
        this.#parts.onBug(bug);
      }
    }
  }

  async #finish(failure: Error | undefined): Promise<void> {
    try {
      await this.#kept;
      const outcome = await this.stream.ended;
      this.#queries.close();
      if (this.#view.end !== undefined) this.#change(withUnspoken(this.#view));
      const end = endOf(this.#view, outcome, failure);
      if (end.reason !== "left") await this.#parts.keeper?.over(end, this.#view);
      else if (failure !== undefined && !(failure instanceof HoldfastError)) throw failure;
      this.#readers.ended(end);
      this.#ended.resolve(end);
    } catch (cause) {
      this.#readers.failed(cause instanceof Error ? cause : new Error(String(cause)));
      this.#ended.reject(cause);
    }
  }
}

function startingView({ stream, begin }: TurnParts): TurnView {
  const { restored } = stream;
  if (restored === undefined) return begin ?? EMPTY_VIEW;
  return decodeView(restored.state) ?? { ...EMPTY_VIEW, eventId: restored.cursor };
}

/** An assistant message whose bytes did not come with the request. */
function isLateAnswer({ message }: KvServerMessage): boolean {
  if (message.case !== "setBlobArgs") return false;
  return message.value.kind === BlobKind.ASSISTANT_MESSAGE && message.value.blobData === undefined;
}

function endOf(view: TurnView, outcome: Awaited<ClientStream["ended"]>, failure: unknown): TurnEnd {
  const error = failure instanceof HoldfastError ? failure : undefined;
  const rest = { usage: view.usage, text: lastText(view), error };
  if (view.end !== undefined) return { ...rest, ...view.end };
  const reason = outcome === undefined ? "left" : outcome === "aborted" ? "aborted" : "lost";
  return { ...rest, reason, failure: undefined };
}
