/**
 * One session in this process: its record, its stream, and the clocks that end it.
 */
import { toBinary } from "@bufbuild/protobuf";
import { type ConversationState, ConversationStateSchema } from "../protocol/messages.ts";
import { LiveTurn, type LiveTurnOptions, type Pause } from "./live-turn.ts";
import type { Workspace } from "./own-execs.ts";
import { named } from "./replay.ts";
import type { Names } from "./names.ts";
import { type AnswerDelta, answerLine, chain, levelled } from "./openai/index.ts";
import type { SessionRecord } from "./session-record.ts";
import type { SessionStore } from "./session-store.ts";
import type { TableWrite } from "../store/table-store.ts";
import type { Environment } from "../transport/environment.ts";

export interface SessionContext {
  readonly store: SessionStore;
  readonly names: Names;
  readonly workspace: Workspace | undefined;
  readonly graceMs: number;
  readonly sessionTtlMs: number;
  readonly environment: Pick<Environment, "now" | "after">;
  readonly onBug: (bug: unknown) => void;
  /** It is about to wait for tool results. */
  readonly onParking: (session: Session) => void;
  readonly onAbandoned: (session: Session) => void;
  readonly onExpired: (session: Session) => void;
  readonly onOver: (session: Session) => void;
}

/** What belongs before and behind a record on the disk. */
export interface SaveOrder {
  /** Durable before it, and before everything that is saved after it. */
  readonly needed?: Promise<void>;
  /** Begun so that nothing of it is durable before the record. */
  readonly behind?: () => Promise<unknown>;
}

export class Session {
  record: SessionRecord;
  readonly turn: LiveTurn;
  readonly #context: SessionContext;
  /** One request at a time. */
  isBusy = false;
  /** Another process took the request that is being answered, and may have died before all of it was in the stream. */
  isDoubtful: boolean;
  #cancelTimer = (): void => undefined;
  #writing: Promise<unknown> = Promise.resolve();
  #isRemoved = false;

  constructor(
    context: SessionContext,
    record: SessionRecord,
    turn: Pick<LiveTurnOptions, "stream" | "blobs" | "isResumed">,
  ) {
    this.#context = context;
    this.record = record;
    this.isDoubtful = turn.isResumed;
    this.turn = new LiveTurn({
      ...turn,
      fromEvent: record.answer.fromEvent,
      settle: (pause, checkpoint) => this.#settle(pause, checkpoint),
      onOver: () => this.#over(),
      workspace: context.workspace,
      environment: context.environment,
      onBug: context.onBug,
    });
    this.turn.onReaders = () => this.#watch();
    this.#watch();
  }

  /** Whether it still waits at the pause that was looked at. */
  isWaitingAt(seen: SessionRecord): boolean {
    const { answer, head } = this.record;
    const isThere = answer.fromEvent === seen.answer.fromEvent && head === seen.head;
    return this.isWaiting && isThere && !this.isBusy;
  }

  /** For the results of tools, and nobody is about to end it. */
  get isWaiting(): boolean {
    return this.record.state === "parked" && !this.#isRemoved;
  }

  /** Its turn is being stopped, or came to no good end. */
  get isEnding(): boolean {
    return this.#isRemoved;
  }

  /** Judged by the clock, as its rows are: a machine that slept has missed the timer. */
  waitsFor(toolId: string): boolean {
    const { pending, updatedMs } = this.record;
    const { environment, sessionTtlMs } = this.#context;
    if (this.#isRemoved || environment.now() - updatedMs >= sessionTtlMs) return false;
    return pending.some((call) => call.toolId === toolId);
  }

  /** Stops the turn for good; what waits for it is told. */
  async stop(): Promise<void> {
    this.#cancelTimer();
    await this.#remove({ withResponses: true });
    await this.turn.stream.abort();
  }

  /** Saves the record as it is when its turn comes, so an older state never takes the place of a newer one. */
  save(more: readonly TableWrite[] = [], { needed, behind }: SaveOrder = {}): Promise<void> {
    return this.#inTurn(async () => {
      await needed;
      if (this.#isRemoved) await behind?.();
      else await this.#context.store.save(this.record, more, behind);
    });
  }

  #remove(what: { readonly withResponses: boolean }): Promise<void> {
    this.#isRemoved = true;
    return this.#inTurn(() => this.#context.store.remove(this.record, what));
  }

  #inTurn(write: () => Promise<void>): Promise<void> {
    const written = this.#writing.then(write);
    this.#writing = written.catch(() => undefined);
    return written;
  }

  /** Lets go of the stream without ending it. */
  leave(): void {
    this.#cancelTimer();
    this.turn.stream.leave();
  }

  /** An answer that nobody reads, and a pause that nobody ends, are given up after a while. */
  #watch(): void {
    this.#cancelTimer();
    const { environment, graceMs, sessionTtlMs, onAbandoned, onExpired } = this.#context;
    if (this.turn.isOver || this.turn.readers > 0) return;
    const isParked = this.record.state === "parked";
    const giveUp = (): void => (isParked ? onExpired : onAbandoned)(this);
    this.#cancelTimer = environment.after(isParked ? sessionTtlMs : graceMs, giveUp);
  }

  /** What a later request needs is durable before the client is told anything that could bring it. */
  async #settle(pause: Pause, checkpoint: ConversationState | undefined): Promise<AnswerDelta> {
    const { names } = this.#context;
    const delta = named(pause, names, this.record.answer.streamId);
    if (pause.kind === "ended" && (pause.reason !== "completed" || checkpoint === undefined)) {
      // What failed is tried again, not told again; what has a finish has not failed for its client. And without a checkpoint there is
      // nothing to go on from.
      const hasFailed = pause.reason !== "completed" && pause.finish === undefined;
      await this.#remove({ withResponses: hasFailed });
      return delta;
    }
    if (pause.kind === "calls") this.#context.onParking(this);
    const head = chain(this.record.requestHead, levelled(answerLine(pause)));
    this.record = {
      ...this.record,
      head,
      state: pause.kind === "calls" ? "parked" : "finished",
      pending: delta.kind === "calls" ? delta.calls.map(pendingOf) : [],
      answered: [],
      steps: delta.kind === "calls" ? delta.step : 0,
      checkpoint: checkpoint === undefined ? this.record.checkpoint : encodeState(checkpoint),
      updatedMs: this.#context.environment.now(),
    };
    await this.save();
    this.#watch();
    return delta;
  }

  #over(): void {
    this.#cancelTimer();
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
