/**
 * One conversation: an ordered list of turns that outlives every stream and every process.
 *
 * What it is lies in the store: the last checkpoint, and the name of the stream that carries the turn under way.
 * That name is durable before the stream is opened, so no turn is ever running that the store does not name. One turn at
 * a time; between turns nothing is open anywhere.
 */
import { given } from "../../protocol/given.ts";
import { create, fromBinary, toBinary } from "../../protocol/message.ts";
import { sha256 } from "../../protocol/sha256.ts";
import { hexOf } from "../../protocol/bytes.ts";
import { type ChatMessage, decodeChatMessage } from "../../protocol/chat-message.ts";
import { HoldfastError } from "../../protocol/errors.ts";
import { countOf, messageIds, newestIds, turnIds } from "../../protocol/id-pages.ts";
import { type ConversationState, ConversationStateSchema } from "../../protocol/messages.ts";
import type { ClientStream } from "../stream.ts";
import type { ConversationContext } from "./conversation-context.ts";
import type { ConversationRecord, TurnUnderWay } from "./conversation-store.ts";
import { type FullConversation, fullConversation, pagesOf } from "./full-conversation.ts";
import { continued, type CutOffTurn } from "./interrupted.ts";
import {
  type OfferedTools,
  prepareAction,
  runRequest,
  type StepOptionsInit,
  type TurnInput,
} from "./run-request.ts";
import { offeredNames } from "./offered-tools.ts";
import { rewound } from "./rewind.ts";
import { EMPTY_VIEW, type TurnEnd, type TurnView } from "../../turn/view.ts";
import { type OnQuery, Turn, type TurnKeeper } from "./turn.ts";
import { spokenIn } from "../../turn/messages.ts";

export interface SendOptions {
  /** From this turn on. */
  readonly model?: string;
  readonly options?: StepOptionsInit;
  /** Instead of the one of `Conversations`. */
  readonly onQuery?: OnQuery;
  /** A name of your own for the stream; drawn at random when absent. */
  readonly idempotencyKey?: string;
  /** Instead of those of `Conversations`. */
  readonly tools?: OfferedTools;
}

const TITLE_MAX = 80;

export class Conversation {
  readonly id: string;
  readonly #context: ConversationContext;
  #record: ConversationRecord;
  #turn: Turn | undefined;
  #isStarting = false;
  #resuming: Promise<Turn | undefined> | undefined;
  /** Writes of the record, one after the other. */
  #writing: Promise<unknown> = Promise.resolve();

  constructor(context: ConversationContext, record: ConversationRecord) {
    this.id = record.conversationId;
    this.#context = context;
    this.#record = record;
  }

  /** As it was when this client last looked at it or changed it. */
  get record(): ConversationRecord {
    return this.#record;
  }

  /** The turn that this client follows now. */
  get turn(): Turn | undefined {
    return this.#turn;
  }

  /** The last checkpoint; undefined before the first. */
  get state(): ConversationState | undefined {
    const { checkpoint } = this.#record;
    return checkpoint === undefined ? undefined : fromBinary(ConversationStateSchema, checkpoint);
  }

  /** Takes a record that was read from the store, unless a newer one is known. */
  adopt(record: ConversationRecord): void {
    if (record.version > this.#record.version) this.#record = record;
  }

  /** Looks at what other processes have made of it. */
  async refresh(): Promise<void> {
    await this.#inOrder(async () => {
      const stored = await this.#context.records.get(this.id);
      if (stored !== undefined) this.adopt(stored);
    });
  }

  /** Turns, todos and summary, rebuilt from the last checkpoint. */
  full(): Promise<FullConversation> {
    return fullConversation(this.#context.blobs, this.state ?? create(ConversationStateSchema));
  }

  /** What the agent said last, from the last checkpoint; empty when it has said nothing. */
  async lastAnswer(): Promise<string> {
    const { blobs } = this.#context;
    for await (const id of newestIds(messageIds(this.state), pagesOf(blobs))) {
      const bytes = await blobs.get(hexOf(id));
      const text = bytes === undefined ? undefined : spokenIn(bytes);
      if (text !== undefined && text !== "") return text;
    }
    return "";
  }

  /** Whether these words, or this wish, began the turn under way. */
  isAnswering(input: TurnInput | string): boolean {
    return this.#record.turn?.saidSha256 === digestOf(asInput(input));
  }

  /** Begins a turn. */
  async send(input: TurnInput | string, options: SendOptions = {}): Promise<Turn> {
    if (this.#isStarting || this.#turn !== undefined) throw busy(this.id);
    this.#isStarting = true;
    try {
      await this.refresh();
      if (this.#record.turn !== undefined) throw busy(this.id);
      return await this.#send(asInput(input), options);
    } finally {
      this.#isStarting = false;
    }
  }

  async #send(input: TurnInput, options: SendOptions): Promise<Turn> {
    const { blobs, client, tools, environment, newId, now } = this.#context;
    const idempotencyKey = options.idempotencyKey ?? newId();
    const { action, said } = await prepareAction(blobs, input, newId());
    const model = options.model ?? this.#record.model;
    const request = { action, tools: options.tools ?? tools, options: options.options, environment };
    const first = await runRequest(blobs, { ...request, record: { ...this.#record, model } });
    const { state } = this;
    const before = {
      turnsBefore: countOf(turnIds(state)),
      messagesBefore: countOf(messageIds(state)),
    };
    const kind = input.kind ?? "message";
    const offered = given({ offered: options.tools && offeredNames(options.tools) });
    const begun = {
      idempotencyKey,
      startedMs: now(),
      kind,
      saidSha256: digestOf(input),
      said: titleOf(input),
    };
    const turn = { ...begun, checkpointEventId: 0, ...before, ...offered };
    const title = this.#record.title === "" ? turn.said : this.#record.title;
    await this.#change((record) => ({ ...record, model, title, turn }));
    let stream: ClientStream;
    try {
      const isFresh = options.idempotencyKey === undefined;
      stream = await client.open({ first, idempotencyKey, isFresh });
    } catch (cause) {
      await this.#change(withoutTurn);
      throw cause;
    }
    const begin: TurnView = said === undefined ? EMPTY_VIEW : { ...EMPTY_VIEW, userMessages: [said] };
    return this.follow(stream, { keeps: true, begin, onQuery: options.onQuery });
  }

  /**
   * The turn under way, after a restart; undefined when there is none. It comes as a reader where another process
   * writes to it, and where it ended before this client had kept all of it: then it is read to its end. When its
   * stream is gone, its end says so (`lost`), and the next turn can begin.
   */
  async resume(options: ResumeOptions = {}): Promise<Turn | undefined> {
    if (this.#turn !== undefined) return this.#turn;
    this.#resuming ??= this.#resume(options).finally(() => {
      this.#resuming = undefined;
    });
    return this.#resuming;
  }

  async #resume({ onQuery, hasEnded = false }: ResumeOptions): Promise<Turn | undefined> {
    await this.refresh();
    if (this.#turn !== undefined || this.#record.turn === undefined) return this.#turn;
    const { client } = this.#context;
    const { idempotencyKey } = this.#record.turn;
    try {
      return this.follow(await client.resume(idempotencyKey), { keeps: true, onQuery });
    } catch (cause) {
      const code = HoldfastError.codeOf(cause);
      // Another call has resumed it meanwhile.
      if (this.#turn !== undefined) return this.#turn;
      if (code === "fenced" || code === "busy")
        return this.follow(await client.follow(idempotencyKey), { keeps: false });
      if (code === "stream_ended" || (code === "not_found" && hasEnded)) {
        return this.follow(await client.follow(idempotencyKey), { keeps: true });
      }
      if (code !== "not_found") throw cause;
      // This client died before its journal was on disk. If the server has the turn, it waits for a client to answer it.
      return this.follow(await client.takeOver(idempotencyKey), { keeps: true, onQuery });
    }
  }

  /** Keeps only the oldest turns, so many, and forgets those behind them: the next one takes their place. Todos stay. Rejects with `busy` while a turn is under way. */
  async rewind(turns: number): Promise<void> {
    await this.refresh();
    const { state } = this;
    if (this.#isStarting || this.#turn !== undefined || this.#record.turn !== undefined) throw busy(this.id);
    if (state === undefined || turns >= countOf(turnIds(state))) return;
    const checkpoint = toBinary(ConversationStateSchema, await rewound(this.#context.blobs, state, turns));
    await this.#change((record) => ({ ...record, checkpoint }));
  }

  /** Forgets the turn under way without stopping it, so that another one can begin. */
  async abandon(): Promise<void> {
    this.#turn?.stream.leave();
    await this.#change(withoutTurn);
  }

  /** Makes a turn of a stream that is open. `keeps`: this client is the one to keep what comes. */
  follow(stream: ClientStream, { keeps, begin, onQuery = this.#context.onQuery }: FollowOptions): Turn {
    const { blobs, newId, onBug, split } = this.#context;
    const { idempotencyKey } = stream;
    const turn = new Turn({
      conversationId: this.id,
      stream,
      blobs,
      keeper: keeps ? this.#keeperOf(idempotencyKey) : undefined,
      begin,
      ask: onQuery,
      newMessageId: newId,
      onBug,
      split,
    });
    this.#turn = turn;
    this.#context.turns.set(idempotencyKey, turn);
    const over = (): void => {
      if (this.#turn === turn) this.#turn = undefined;
      if (this.#context.turns.get(idempotencyKey) === turn) this.#context.turns.delete(idempotencyKey);
    };
    void turn.ended.then(over, over);
    return turn;
  }

  #keeperOf(idempotencyKey: string): TurnKeeper {
    const isOwn = (turn: TurnUnderWay | undefined): turn is TurnUnderWay =>
      turn?.idempotencyKey === idempotencyKey;
    return {
      checkpoint: async (eventId, state) => {
        const { turn } = this.#record;
        const isOld = eventId !== 0 && isOwn(turn) && eventId <= turn.checkpointEventId;
        if (!isOwn(turn) || isOld) return;
        const checkpoint = toBinary(ConversationStateSchema, state);
        await this.#change((record) => ({
          ...record,
          checkpoint,
          turn: { ...turn, checkpointEventId: eventId },
        }));
      },
      over: async (end, view) => {
        const { turn } = this.#record;
        if (!isOwn(turn) || end.reason === "left") return;
        const { reason } = end;
        // Half a summary stands for nothing, and the model knows nothing of a command that was stopped.
        const isTalk = turn.kind === "message" || turn.kind === "continue";
        const state = isTalk && reason !== "completed" ? await this.#continued(turn, view) : undefined;
        const lastTurn = {
          idempotencyKey,
          reason,
          message: end.failure?.message ?? end.error?.message ?? "",
        };
        await this.#change((record) => ({
          ...withoutTurn(record),
          lastTurn,
          ...given({ checkpoint: state && toBinary(ConversationStateSchema, state) }),
        }));
      },
    };
  }

  /** The state with what the turn left behind in no checkpoint; its blobs are durable. */
  async #continued(turn: TurnUnderWay, view: TurnView): Promise<ConversationState | undefined> {
    const { blobs } = this.#context;
    const state = this.state ?? create(ConversationStateSchema);
    const named = await this.#messagesSince(state, turn.messagesBefore);
    const onlySet = view.messages.map(({ blobId }) => blobId).filter((blobId) => !named.includes(blobId));
    const kept: CutOffTurn["kept"][number][] = [];
    for (const [at, blobId] of [...named, ...new Set(onlySet)].entries()) {
      const message = messageIn(await blobs.get(blobId));
      if (message !== undefined) kept.push({ blobId, message, isNamed: at < named.length });
    }
    const next = continued({ state, turnsBefore: turn.turnsBefore, kept, view });
    for (const { id, bytes } of next?.blobs ?? []) await blobs.put(id, bytes);
    return next?.state;
  }

  /** What a state names beyond the messages that the conversation had before, oldest first. */
  async #messagesSince(state: ConversationState, before: number): Promise<readonly string[]> {
    const list = messageIds(state);
    const count = countOf(list) - before;
    const newest: string[] = [];
    if (count <= 0) return newest;
    for await (const id of newestIds(list, pagesOf(this.#context.blobs))) {
      if (newest.push(hexOf(id)) === count) break;
    }
    return newest.toReversed();
  }

  #change(change: (record: ConversationRecord) => ConversationRecord): Promise<void> {
    return this.#inOrder(async () => {
      const next = { ...change(this.#record), updatedMs: this.#context.now() };
      this.#record = await this.#context.records.put(next);
    });
  }

  #inOrder(run: () => Promise<void>): Promise<void> {
    const running = this.#writing.then(run, run);
    this.#writing = running.catch(() => undefined);
    return running;
  }
}

interface ResumeOptions {
  readonly onQuery?: OnQuery;
  /** Its journal said that the turn is over, and was cleared away. */
  readonly hasEnded?: boolean;
}

interface FollowOptions {
  readonly keeps: boolean;
  readonly begin?: TurnView;
  readonly onQuery?: OnQuery | undefined;
}

export type { TurnEnd };

function withoutTurn(record: ConversationRecord): ConversationRecord {
  const { turn: _, ...rest } = record;
  return rest;
}

/** Undefined when it is not there, or of a kind that this client does not know: no reason to keep the turn open for ever. */
function messageIn(bytes: Uint8Array | undefined): ChatMessage | undefined {
  try {
    return bytes === undefined ? undefined : decodeChatMessage(bytes);
  } catch {
    return undefined;
  }
}

function busy(id: string): HoldfastError {
  return new HoldfastError(
    "busy",
    `conversation ${id} has a turn under way: resume it, wait for its end, or abort it first`,
  );
}

function asInput(input: TurnInput | string): TurnInput {
  return typeof input === "string" ? { text: input } : input;
}

function wordsOf(input: TurnInput): string {
  return input.kind === "shell" ? input.command : "text" in input ? input.text : "";
}

function digestOf(input: TurnInput): string {
  const { kind = "message" } = input;
  return hexOf(sha256(new TextEncoder().encode(JSON.stringify([kind, wordsOf(input)]))));
}

function titleOf(input: TurnInput): string {
  const [line = ""] = wordsOf(input).trim().split("\n");
  const chars = Array.from(line.trim());
  return chars.length <= TITLE_MAX ? chars.join("") : `${chars.slice(0, TITLE_MAX - 1).join("")}…`;
}
