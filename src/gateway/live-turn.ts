/**
 * The pump of one stream: reads it whether or not an HTTP request waits, and answers what the server asks.
 *
 * A parked session is a stream whose requests are still answered: kv at once, queries with "nobody can be asked". That is
 * what keeps it alive between two HTTP requests. What it says is kept as the deltas of the answer under way, so a
 * client that lost its connection can come back to it, and several can listen.
 *
 * Invariant: a pause and an end are told only after `settle` has made durable what a later request needs.
 */
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { answerTo, type ClientBlobStore, type ClientStream, encodeKvAnswer } from "../client/index.ts";
import { HoldfastError } from "../protocol/errors.ts";
import {
  AgentClientMessageSchema,
  type AgentServerMessage,
  AgentServerMessageSchema,
  type ConversationState,
  type KvServerMessage,
} from "../protocol/messages.ts";
import { type AnswerDelta, type AnswerState, initAnswer, neededBlob, project } from "./openai/index.ts";

export type Pause = Extract<AnswerDelta, { kind: "calls" | "ended" }>;

export interface LiveTurnOptions {
  readonly stream: ClientStream;
  readonly blobs: ClientBlobStore;
  /** The answer under way begins after this event. */
  readonly fromEvent: number;
  /** Resolves with what is told, once it may be. Called for each pause after `fromEvent`, and for the end. */
  readonly settle: (pause: Pause, checkpoint: ConversationState | undefined) => Promise<AnswerDelta>;
  /** The stream is over for this gateway, in good order or not. */
  readonly onOver: () => void;
  readonly onBug: (bug: unknown) => void;
}

export class LiveTurn {
  readonly stream: ClientStream;
  readonly #options: LiveTurnOptions;
  #state: AnswerState = initAnswer();
  #fromEvent: number;
  #deltas: AnswerDelta[] = [];
  #checkpoint: ConversationState | undefined;
  #failure: Error | undefined;
  #isOver = false;
  #changed = Promise.withResolvers<void>();
  #readers = 0;
  /** Called when the last one leaves, and when one comes. */
  onReaders: (count: number) => void = () => undefined;

  constructor(options: LiveTurnOptions) {
    this.stream = options.stream;
    this.#options = options;
    this.#fromEvent = options.fromEvent;
    void this.#pump();
  }

  get fromEvent(): number {
    return this.#fromEvent;
  }

  get readers(): number {
    return this.#readers;
  }

  /** The answer so far is complete: it waits for tool results, or the turn has ended. */
  get isPaused(): boolean {
    const last = this.#deltas.at(-1)?.kind;
    return last === "calls" || last === "ended";
  }

  /** Somebody was told what no longer holds: a retry must not be. */
  get hasDiverged(): boolean {
    return this.#deltas.some(({ kind }) => kind === "diverged");
  }

  /** The last event that was told. */
  get lastEvent(): number {
    return this.#deltas.at(-1)?.eventId ?? this.#fromEvent;
  }

  /** Waits for the pause, so long at most. */
  async paused(timeoutMs: number): Promise<void> {
    const timeout = new Promise<void>((resolve) => void setTimeout(resolve, timeoutMs).unref());
    const pause = this.#until(() => this.isPaused);
    await Promise.race([pause, timeout]);
  }

  /** Until what the stream said up to this event was told. */
  told(eventId: number): Promise<void> {
    return this.#until(() => this.lastEvent >= eventId || this.#fromEvent >= eventId);
  }

  async #until(isSo: () => boolean): Promise<void> {
    while (!isSo() && !this.#isOver) await this.#changed.promise;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** What comes from here on is another answer. */
  beginAnswer(fromEvent: number): void {
    this.#fromEvent = fromEvent;
    this.#deltas = this.#deltas.filter(({ eventId }) => eventId > fromEvent);
  }

  /** The answer under way, after `seenThrough`: what there is and what will be, up to its pause or end. */
  async *read(seenThrough = this.#fromEvent): AsyncGenerator<AnswerDelta> {
    const deltas = this.#deltas;
    this.#readers++;
    this.onReaders(this.#readers);
    try {
      for (let at = 0; ; at++) {
        while (at >= deltas.length) {
          if (this.#failure !== undefined) throw this.#failure;
          if (this.#isOver) return;
          await this.#changed.promise;
        }
        const delta = deltas[at];
        if (delta === undefined || delta.eventId <= seenThrough) continue;
        yield delta;
        if (delta.kind === "calls" || delta.kind === "ended") return;
      }
    } finally {
      this.#readers--;
      this.onReaders(this.#readers);
    }
  }

  #change(): void {
    const { resolve } = this.#changed;
    this.#changed = Promise.withResolvers<void>();
    resolve();
  }

  async #pump(): Promise<void> {
    try {
      for await (const { eventId, body } of this.stream.events) {
        if (body.length > 0) await this.#take(eventId, fromBinary(AgentServerMessageSchema, body));
      }
    } catch (cause) {
      this.#failure = cause instanceof Error ? cause : new Error(String(cause));
      if (!(cause instanceof HoldfastError)) this.#options.onBug(cause);
    }
    if (this.#deltas.at(-1)?.kind !== "ended") {
      this.#failure ??= new HoldfastError("unavailable", "the answer was cut off; try again");
    }
    this.#isOver = true;
    this.#change();
    this.#options.onOver();
  }

  async #take(eventId: number, event: AgentServerMessage): Promise<void> {
    const { message } = event;
    if (message.case === "kvServerMessage") void this.#answerKv(message.value);
    if (message.case === "interactionQuery") void this.#declineQuery(message.value.id);
    if (message.case === "conversationCheckpointUpdate") this.#checkpoint = message.value;
    const needed = neededBlob(this.#state, event);
    const blob = needed === undefined ? undefined : await this.#blob(needed);
    const [state, deltas] = project(this.#state, eventId, event, blob);
    this.#state = state;
    for (const delta of deltas) await this.#tell(delta);
  }

  async #tell(delta: AnswerDelta): Promise<void> {
    const isPause = delta.kind === "calls" || delta.kind === "ended";
    const isOld = delta.eventId <= this.#fromEvent;
    if (isOld) return;
    this.#deltas.push(isPause ? await this.#options.settle(delta, this.#checkpoint) : delta);
    this.#change();
  }

  async #blob(id: string): Promise<Uint8Array> {
    return (await this.#options.blobs.get(id)) ?? this.stream.getBlob(id);
  }

  async #answerKv(request: KvServerMessage): Promise<void> {
    try {
      const { message } = await answerTo(this.stream, this.#options.blobs, request);
      await this.stream.send(encodeKvAnswer(message));
    } catch (cause) {
      // The stream is over, or was let go: then it is asked again.
      if (!(cause instanceof HoldfastError)) this.#options.onBug(cause);
    }
  }

  async #declineQuery(id: number): Promise<void> {
    const response = { case: "unanswerable", value: { reason: "an OpenAI client cannot be asked" } } as const;
    const message = { case: "interactionResponse", value: { id, response } } as const;
    const body = toBinary(AgentClientMessageSchema, create(AgentClientMessageSchema, { message }));
    await this.stream.send(body).catch(() => undefined);
  }
}
