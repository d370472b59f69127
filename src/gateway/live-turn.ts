/**
 * The pump of one stream: reads it whether or not an HTTP request waits, and answers what the server asks.
 *
 * A parked session is a stream whose requests are still answered: kv at once, queries with "nobody can be asked". That is
 * what keeps it alive between two HTTP requests. What it says is kept as the deltas of the answer under way, so a
 * client that lost its connection can come back to it, and several can listen.
 *
 * When a step begins anew, who already reads goes on as long as the text is the same; who comes later is told nothing of what
 * was rolled back. So there may be several tellings of one answer, and the newest is the one that counts.
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
import type { Environment } from "../transport/environment.ts";
import { type Inside, isInside } from "./joined-deltas.ts";
import { type AnswerDelta, type AnswerState, initAnswer, neededBlob, project } from "./openai/index.ts";
import { answerOwnExec, type Workspace } from "./own-execs.ts";
import { type AnswerReader, ToldAnswer } from "./told-answer.ts";

export type Pause = Extract<AnswerDelta, { kind: "calls" | "ended" }>;

export interface LiveTurnOptions {
  readonly stream: ClientStream;
  readonly blobs: ClientBlobStore;
  /** The answer under way begins after this event. */
  readonly fromEvent: number;
  /** Another process began it: the step that it died in will begin anew. */
  readonly isResumed: boolean;
  /** Resolves with what is told, once it may be. Called for each pause after `fromEvent`, and for the end. */
  readonly settle: (pause: Pause, checkpoint: ConversationState | undefined) => Promise<AnswerDelta>;
  readonly environment: Pick<Environment, "after">;
  /** For execs that are not the client's. */
  readonly workspace: Workspace | undefined;
  /** The stream is over for this gateway, in good order or not. */
  readonly onOver: () => void;
  readonly onBug: (bug: unknown) => void;
}

/** A telling of the answer under way, and where its projection stands. */
interface Telling {
  state: AnswerState;
  readonly answer: ToldAnswer;
}

export class LiveTurn {
  readonly stream: ClientStream;
  readonly over: Promise<void>;
  readonly #options: LiveTurnOptions;
  #telling: Telling = this.#newTelling(initAnswer());
  /** For those who read when a step began anew. */
  #earlier: Telling[] = [];
  #fromEvent: number;
  /** Of an attempt that was given up, or joined into one event when they were read back. */
  #inside: Inside[] = [];
  #isTrimmed = false;
  #isCatchingUp: boolean;
  #checkpoint: ConversationState | undefined;
  #isOver = false;
  /** How many read the answer under way from the log. */
  #present = 0;
  #heardThrough = 0;
  #changed = Promise.withResolvers<void>();
  /** Called when somebody comes to read, and when one leaves. */
  onReaders: () => void = () => undefined;

  constructor(options: LiveTurnOptions) {
    this.stream = options.stream;
    this.#options = options;
    this.#fromEvent = options.fromEvent;
    this.#isCatchingUp = options.isResumed;
    this.over = this.#pump();
  }

  get fromEvent(): number {
    return this.#fromEvent;
  }

  get readers(): number {
    return [this.#telling, ...this.#earlier].reduce((sum, { answer }) => sum + answer.readers, this.#present);
  }

  /** The last event that the stream has said, told or not. */
  get heardThrough(): number {
    return this.#heardThrough;
  }

  /** Whether a client can have been told that event; after a restart that is known when the stream was read back. */
  mayHaveSaid(eventId: number): boolean {
    return eventId <= this.#heardThrough || this.#isCatchingUp;
  }

  /** The answer so far is complete: it waits for tool results, or the turn has ended. */
  get isPaused(): boolean {
    return isPause(this.#deltas.at(-1));
  }

  /** The last event that was told. */
  get lastEvent(): number {
    return this.#deltas.at(-1)?.eventId ?? this.#fromEvent;
  }

  /** Where the answer to tool results begins. A turn whose results came in ahead of a crash has gone on from there already. */
  get lastPause(): number {
    return this.#deltas.findLast(isPause)?.eventId ?? this.#fromEvent;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  get #deltas(): readonly AnswerDelta[] {
    return this.#telling.answer.deltas;
  }

  /** Whether who has the answer up to that event can be told the rest from here. Otherwise it is read back from the log. */
  canGoOnFrom(eventId: number): boolean {
    const inside = [...this.#inside, ...this.#telling.answer.inside];
    return eventId >= this.#fromEvent && !isInside(inside, eventId) && !this.#isTrimmed;
  }

  /** Waits for the pause, so long at most. */
  paused(timeoutMs: number): Promise<void> {
    return this.#until(() => this.isPaused, timeoutMs);
  }

  /** Waits until it is known what of the log still counts, so long at most. */
  caughtUp(timeoutMs: number): Promise<void> {
    return this.#until(() => !this.#isCatchingUp, timeoutMs);
  }

  /** Until what the stream said up to this event was told. */
  told(eventId: number): Promise<void> {
    return this.#until(() => this.lastEvent >= eventId || this.#fromEvent >= eventId);
  }

  async #until(isSo: () => boolean, timeoutMs?: number): Promise<void> {
    const late = new AbortController();
    const giveUp = (): void => {
      late.abort();
      this.#change();
    };
    const cancel = timeoutMs === undefined ? undefined : this.#options.environment.after(timeoutMs, giveUp);
    while (!isSo() && !this.#isOver && !late.signal.aborted) await this.#changed.promise;
    cancel?.();
  }

  /** What comes from here on is another answer. */
  beginAnswer(fromEvent: number): void {
    const { state } = this.#telling;
    const told = this.#deltas.filter(({ eventId }) => eventId > fromEvent);
    this.#fromEvent = fromEvent;
    this.#telling = this.#newTelling(state, told);
    this.#earlier = [];
    this.#inside = [];
    this.#isTrimmed = false;
  }

  /** The answer under way, after `seenThrough`: what there is and what will be, up to its pause or end. */
  read(seenThrough = this.#fromEvent): AnswerReader {
    return this.#telling.answer.read(seenThrough);
  }

  /** Readers that wait for more get this failure instead. */
  fail(failure: Error): void {
    this.#finish(failure);
  }

  #finish(failure: Error | undefined): void {
    for (const { answer } of [this.#telling, ...this.#earlier]) answer.finish(failure);
  }

  /** For who reads the answer from the log: a reader like any other, until the returned function is called. */
  attend(): () => void {
    let isPresent = true;
    this.#present++;
    this.onReaders();
    return () => {
      if (!isPresent) return;
      isPresent = false;
      this.#present--;
      this.#trim();
      this.onReaders();
    };
  }

  /** Keeps only how the answer ended: while it waits, and nobody reads, the log has the rest (F2). */
  #trim(): void {
    if (!this.isPaused || this.readers > 0 || this.#deltas.length === 1) return;
    this.#telling = this.#newTelling(this.#telling.state, this.#deltas.slice(-1));
    this.#isTrimmed = true;
  }

  #newTelling(
    state: AnswerState,
    told: readonly AnswerDelta[] = [],
    inside: readonly Inside[] = [],
  ): Telling {
    const onReaders = (): void => {
      this.#trim();
      this.onReaders();
    };
    return { state, answer: new ToldAnswer(onReaders, told, inside) };
  }

  #change(): void {
    const { resolve } = this.#changed;
    this.#changed = Promise.withResolvers<void>();
    resolve();
  }

  async #pump(): Promise<void> {
    let failure: Error | undefined;
    try {
      for await (const { eventId, body, covers } of this.stream.events) {
        this.#heardThrough = eventId;
        if (covers > 1) this.#inside.push({ after: eventId - covers, before: eventId });
        if (body.length > 0) await this.#take(eventId, fromBinary(AgentServerMessageSchema, body), body);
      }
    } catch (cause) {
      failure = cause instanceof Error ? cause : new Error(String(cause));
      if (!(cause instanceof HoldfastError)) this.#options.onBug(cause);
    }
    if (this.#deltas.at(-1)?.kind !== "ended") {
      failure ??= new HoldfastError("unavailable", "the answer was cut off; try again");
    }
    this.#isOver = true;
    this.#finish(failure);
    this.#change();
    this.#options.onOver();
  }

  async #take(eventId: number, event: AgentServerMessage, body: Uint8Array): Promise<void> {
    const { message } = event;
    if (message.case === "kvServerMessage") void this.#answerKv(message.value);
    if (message.case === "interactionQuery") void this.#declineQuery(message.value.id);
    if (message.case === "execServerMessage") void this.#answerExec(body);
    if (message.case === "conversationCheckpointUpdate") this.#checkpoint = message.value;
    const needed = neededBlob(this.#telling.state, event);
    const blob = needed === undefined ? undefined : await this.#blob(needed);
    const rollbackTo = rollbackOf(event);
    if (rollbackTo !== undefined) this.#fork(rollbackTo, eventId);
    const pause = await this.#project(this.#telling, eventId, event, blob);
    for (const telling of this.#earlier) await this.#project(telling, eventId, event, blob, pause);
    this.#earlier = this.#earlier.filter(({ answer }) => answer.readers > 0);
    if (rollbackTo !== undefined || pause !== undefined) this.#isCatchingUp = false;
    this.#change();
  }

  /** From here on there is a telling without what was rolled back. */
  #fork(rollbackTo: number, eventId: number): void {
    const before = this.#telling;
    if (before.answer.readers > 0) this.#earlier.push(before);
    const { deltas, inside } = before.answer;
    const told = deltas.filter((delta) => delta.eventId <= rollbackTo);
    // What was joined over that place is gone as a whole: the log has it.
    if (isInside(inside, rollbackTo)) this.#isTrimmed = true;
    this.#telling = this.#newTelling({ ...before.state, shown: { text: "", reasoning: "" } }, told, inside);
    this.#inside.push({ after: rollbackTo, before: eventId });
  }

  /** Returns the pause, if the event made one; `settled` is what was made durable of it. */
  async #project(
    telling: Telling,
    eventId: number,
    event: AgentServerMessage,
    blob: Uint8Array | undefined,
    settled?: AnswerDelta,
  ): Promise<AnswerDelta | undefined> {
    const [state, deltas] = project(telling.state, eventId, event, blob);
    telling.state = state;
    if (eventId <= this.#fromEvent) return undefined;
    let pause: AnswerDelta | undefined;
    for (const delta of deltas) {
      if (isPause(delta)) pause = settled ?? (await this.#options.settle(delta, this.#checkpoint));
      telling.answer.tell(isPause(delta) && pause !== undefined ? pause : delta);
    }
    if (pause !== undefined) this.#trim();
    return pause;
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

  async #answerExec(event: Uint8Array): Promise<void> {
    try {
      const answer = await answerOwnExec(event, this.stream, this.#options.workspace);
      if (answer !== undefined) await this.stream.send(answer);
    } catch (cause) {
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

function isPause(delta: AnswerDelta | undefined): delta is Pause {
  return delta?.kind === "calls" || delta?.kind === "ended";
}

function rollbackOf({ message }: AgentServerMessage): number | undefined {
  if (message.case !== "interactionUpdate" || message.value.message.case !== "stepRestarted")
    return undefined;
  return Number(message.value.message.value.rollbackToEventId);
}
