/**
 * One session in this process: its record, its stream, and the clocks that end it.
 */
import { toBinary } from "@bufbuild/protobuf";
import { type ConversationState, ConversationStateSchema } from "../protocol/messages.ts";
import { LiveTurn, type LiveTurnOptions, type Pause } from "./live-turn.ts";
import { named } from "./replay.ts";
import type { Names } from "./names.ts";
import { type AnswerDelta, answerLine, chain, messageHash } from "./openai/index.ts";
import type { SessionRecord } from "./session-record.ts";
import type { SessionStore } from "./session-store.ts";

export interface SessionContext {
  readonly store: SessionStore;
  readonly names: Names;
  readonly graceMs: number;
  readonly sessionTtlMs: number;
  readonly now: () => number;
  readonly onBug: (bug: unknown) => void;
  /** It waits for tool results now. */
  readonly onParked: (session: Session) => void;
  readonly onAbandoned: (session: Session) => void;
  readonly onExpired: (session: Session) => void;
  readonly onOver: (session: Session) => void;
}

export class Session {
  record: SessionRecord;
  readonly turn: LiveTurn;
  readonly #context: SessionContext;
  /** One request at a time. */
  isBusy = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    context: SessionContext,
    record: SessionRecord,
    turn: Pick<LiveTurnOptions, "stream" | "blobs">,
  ) {
    this.#context = context;
    this.record = record;
    this.turn = new LiveTurn({
      ...turn,
      fromEvent: record.answer.fromEvent,
      settle: (pause, checkpoint) => this.#settle(pause, checkpoint),
      onOver: () => this.#over(),
      onBug: context.onBug,
    });
    this.turn.onReaders = () => this.#watch();
    this.#watch();
  }

  /** Stops the turn for good; what waits for it is told. */
  async stop(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#context.store.remove(this.record);
    await this.turn.stream.abort();
  }

  /** Lets go of the stream without ending it. */
  leave(): void {
    clearTimeout(this.#timer);
    this.turn.stream.leave();
  }

  /** An answer that nobody reads, and a pause that nobody ends, are given up after a while. */
  #watch(): void {
    clearTimeout(this.#timer);
    const { graceMs, sessionTtlMs, onAbandoned, onExpired } = this.#context;
    if (this.turn.isOver || this.turn.readers > 0) return;
    const isParked = this.record.state === "parked";
    const giveUp = (): void => (isParked ? onExpired : onAbandoned)(this);
    this.#timer = setTimeout(giveUp, isParked ? sessionTtlMs : graceMs);
    this.#timer.unref();
  }

  /** What a later request needs is durable before the client is told anything that could bring it. */
  async #settle(pause: Pause, checkpoint: ConversationState | undefined): Promise<AnswerDelta> {
    const { store, names } = this.#context;
    const delta = named(pause, names, this.record.answer.streamId);
    const isLost = pause.kind === "ended" && pause.reason !== "completed";
    if (isLost) {
      await store.remove(this.record);
      return delta;
    }
    const head = chain(this.record.requestHead, messageHash(answerLine(pause)));
    this.record = {
      ...this.record,
      head,
      state: pause.kind === "calls" ? "parked" : "finished",
      pending: delta.kind === "calls" ? delta.calls.map(pendingOf) : [],
      checkpoint: checkpoint === undefined ? this.record.checkpoint : encodeState(checkpoint),
      updatedMs: this.#context.now(),
    };
    await store.save(this.record);
    if (pause.kind === "calls") this.#context.onParked(this);
    this.#watch();
    return delta;
  }

  #over(): void {
    clearTimeout(this.#timer);
    this.#context.onOver(this);
  }
}

function pendingOf(
  call: Extract<AnswerDelta, { kind: "calls" }>["calls"][number],
): SessionRecord["pending"][number] {
  const { callId, execId, id, providerToolCallId } = call;
  return { toolId: callId, execId, id, toolCallId: providerToolCallId };
}

function encodeState(state: ConversationState): string {
  return Buffer.from(toBinary(ConversationStateSchema, state)).toString("base64");
}
