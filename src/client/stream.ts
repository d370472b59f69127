/**
 * The driver of one stream on the client: feeds the machine in `core/client-stream.ts` and carries
 * out what it orders. It decides nothing.
 *
 * Steps never nest: what happens while one is being carried out waits its turn. Bodies live here,
 * by number; the machine sees only the numbers.
 */
import { assert } from "../core/assert.ts";
import * as client from "../core/client-state.ts";
import { type Input, step } from "../core/client-stream.ts";
import type { JournalRecord, Outcome } from "../core/journal.ts";
import { HoldfastError } from "../protocol/errors.ts";
import type { ClientFrame, EventFrame, ServerFrame } from "../protocol/frames.ts";
import { LIMITS } from "../protocol/limits.ts";
import { SteadyClock } from "../transport/environment.ts";
import type { Wire } from "../transport/transport.ts";
import { Alarm } from "./alarm.ts";
import { EventQueue, type StreamEvent } from "./event-queue.ts";
import { JournalFile } from "./journal-file.ts";
import { type Saying, Speech } from "./speech.ts";
import type { StreamBeginning, StreamContext } from "./stream-context.ts";
import { StatusBoard, type StreamStatus } from "./status.ts";
import { ToolRunner } from "./tool-runner.ts";

export class ClientStream {
  readonly idempotencyKey: string;
  /** What the application made of the events before `cursor`, as it last said. */
  readonly restored: { readonly cursor: number; readonly state: Uint8Array } | undefined;
  readonly #context: StreamContext;
  readonly #streamKey: Uint8Array;
  readonly #clock: SteadyClock;
  readonly #journal: JournalFile;
  readonly #events: EventQueue;
  readonly #tools: ToolRunner | undefined;
  readonly #speech: Speech;
  readonly #inputs: { readonly input: Input; readonly event?: EventFrame }[] = [];
  readonly #board: StatusBoard;
  readonly #alarm: Alarm;
  readonly #ended = Promise.withResolvers<Outcome | undefined>();
  #state: client.State;
  #wire: Wire<ClientFrame> | undefined;
  #credentials: string | undefined;
  #isStepping = false;
  #snapshots: Uint8Array[] = [];
  #aborting: { readonly resolve: () => void; readonly reject: (error: HoldfastError) => void }[] = [];
  /** Records written before the machine began to order any. */
  #ownRecords = 0;

  constructor(context: StreamContext, beginning: StreamBeginning) {
    const { journal, idempotencyKey, role, fresh, autoResume } = beginning;
    this.idempotencyKey = idempotencyKey;
    this.restored = journal.snapshot;
    this.#context = context;
    this.#streamKey = beginning.streamKey;
    this.#clock = new SteadyClock(context.environment);
    this.#state = client.init(context.options, {
      role,
      journal,
      fresh,
      autoResume,
      nowMs: this.#clock.now(),
    });
    this.#board = new StatusBoard(this.#state, context.onBug);
    this.#alarm = new Alarm(this.#clock, () => this.#tick());
    this.#speech = new Speech(journal.unacked);
    this.#events = new EventQueue(() => this.#put({ kind: "drained", nowMs: this.#clock.now() }));
    this.#journal = new JournalFile(
      context.journals,
      context.journalSealer,
      idempotencyKey,
      beginning.journalLength,
      {
        written: (count) => this.#written(count),
        failed: (error) => this.#put({ kind: "record_failed", message: error.message }),
        recordsMax: context.journalRecordsMax,
      },
    );
    if (beginning.journalLength === 0) {
      const { journalId, takesOver, createdMs } = journal;
      this.#ownRecords = 1;
      this.#journal.append({ kind: "opened", journalId, takesOver, createdMs });
    }
    if (context.tools !== undefined && role === "writer") {
      this.#tools = new ToolRunner(context.tools, journal, {
        answer: (execId, body) => void this.#say({ body, isClose: false, execId }).catch(() => undefined),
        input: (input) => this.#put({ kind: "exec", input, nowMs: this.#clock.now() }),
      });
    }
  }

  /** Begins to connect; a first chunk travels with the very first frame. */
  async start(first: Uint8Array | undefined): Promise<void> {
    // Nothing happens before there are credentials: without them the stream would begin as somebody else's.
    this.#credentials = await this.#context.credentials();
    if (this.#state.phase === "stopped") {
      throw new HoldfastError("unavailable", "the client was closed before this stream began");
    }
    if (first !== undefined) void this.send(first);
    this.#journal.release();
    this.#tick();
  }

  /** Resolves with the chunk's seqno once it is on this client's disk; from then on it will arrive. */
  send(body: Uint8Array): Promise<number> {
    const said = this.#say({ body, isClose: false, execId: undefined });
    // Nobody has to wait for it.
    said.catch(() => undefined);
    return said;
  }

  /** Says that nothing more will be said. */
  async close(): Promise<void> {
    if (this.#state.phase === "stopped") return;
    await this.#say({ body: new Uint8Array(), isClose: true, execId: undefined });
  }

  /**
   * Stops the turn. Resolves once the wish cannot be lost any more: a writer has it on disk, a reader
   * has the server's word. It is repeated until the server has recorded it. Rejects when the stream was
   * given up before that.
   */
  abort(): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    promise.catch(() => undefined);
    this.#aborting.push({ resolve, reject });
    this.#put({ kind: "abort", nowMs: this.#clock.now() });
    return promise;
  }

  /** Lets go of the stream without ending it; it can be resumed. */
  leave(): void {
    this.#put({ kind: "leave" });
  }

  /** Tries again at once instead of waiting: the network came back, the page became visible. */
  wake(): void {
    this.#put({ kind: "wake", nowMs: this.#clock.now() });
  }

  /** Keeps what the application made of the events up to `through`: a restart goes on from there (B3). */
  snapshot(through: number, state: Uint8Array): void {
    if (through > this.#state.cursor.taken || through < this.#state.snapshotAt) {
      throw new RangeError(
        `a snapshot covers events that were received and never goes back, unlike ${through}`,
      );
    }
    this.#snapshots.push(state);
    this.#put({ kind: "snapshot", through });
  }

  get events(): AsyncIterableIterator<StreamEvent> {
    return this.#events;
  }

  get status(): StreamStatus {
    return this.#board.read(this.#state);
  }

  /** How it ended for this client, once its journal is quiet; undefined when it can be resumed. */
  get ended(): Promise<Outcome | undefined> {
    return this.#ended.promise;
  }

  /** Calls back at every change; returns how to stop it. */
  watch(listener: (status: StreamStatus) => void): () => void {
    return this.#board.watch(listener);
  }

  async #say(saying: Saying): Promise<number> {
    if (this.#state.role === "reader") {
      throw new HoldfastError("invalid_frame", "a reader cannot say anything: take the stream over first");
    }
    const said = this.#speech.say(saying);
    this.#speak();
    return said;
  }

  /** Says what waits, as far as there is room. */
  #speak(): void {
    if (this.#isStepping) return;
    for (let next = this.#speech.next; next !== undefined; next = this.#speech.next) {
      if (this.#state.phase === "stopped" || this.#state.isClosed) {
        this.#speech.refuseAll(
          new HoldfastError("stream_ended", "nothing can be said on this stream any more"),
        );
        return;
      }
      const { isClose, execId } = next;
      const bytes = next.body.length;
      if (!client.maySpeak(this.#state, bytes, isClose)) return;
      this.#speech.number(this.#state.outbox.next);
      const nowMs = this.#clock.now();
      this.#put(
        execId === undefined
          ? { kind: "say", bytes, isClose, nowMs }
          : { kind: "answer", execId, bytes, nowMs },
      );
    }
  }

  #written(count: number): void {
    const own = Math.min(this.#ownRecords, count);
    this.#ownRecords -= own;
    if (count > own) this.#put({ kind: "recorded", count: count - own, nowMs: this.#clock.now() });
  }

  #put(input: Input, event?: EventFrame): void {
    this.#inputs.push(event === undefined ? { input } : { input, event });
    if (this.#isStepping) return;
    this.#isStepping = true;
    for (let next = this.#inputs.shift(); next !== undefined; next = this.#inputs.shift()) {
      this.#step(next.input, next.event);
    }
    this.#isStepping = false;
    this.#afterSteps();
  }

  #step(input: Input, event: EventFrame | undefined): void {
    try {
      const [next, effects] = step(this.#state, input);
      this.#state = next;
      for (const effect of effects) this.#attempt(() => this.#carryOut(effect, event));
    } catch (bug) {
      this.#failed(bug);
    }
  }

  /** One failing order must not swallow the next ones: the last may be `stopped`. */
  #attempt(run: () => void): void {
    try {
      run();
    } catch (bug) {
      this.#failed(bug);
    }
  }

  #failed(bug: unknown): void {
    this.#context.onBug(bug);
    this.#inputs.push({ input: { kind: "leave" } });
  }

  #afterSteps(): void {
    this.#speech.journaled(this.#state.outbox.journaled);
    this.#settleAborts();
    this.#alarm.set(this.#state.wakeAtMs);
    this.#speak();
    this.#board.publish(this.#state);
  }

  #settleAborts(): void {
    const isSafe = client.isAbortSafe(this.#state);
    if (!isSafe && this.#state.phase !== "stopped") return;
    const lost = new HoldfastError("unavailable", "the stream was given up before the abort was recorded");
    for (const { resolve, reject } of this.#aborting.splice(0)) (isSafe ? resolve : reject)(lost);
  }

  #carryOut(effect: client.Effect, event: EventFrame | undefined): void {
    switch (effect.kind) {
      case "record":
        this.#journal.append(this.#recordOf(effect.order));
        return;
      case "connect":
        this.#connect(effect);
        return;
      case "disconnect":
        this.#wire?.end();
        this.#wire = undefined;
        return;
      case "send_chunk":
        this.#wire?.write([this.#speech.frameOf(effect.seqno, effect.writerEpoch)]);
        return;
      case "send_abort":
        this.#wire?.write([{ kind: "abort" }]);
        return;
      case "send_heartbeat":
        this.#wire?.write([{ kind: "heartbeat", runningExecIds: effect.runningExecIds }]);
        return;
      case "deliver":
        assert(event !== undefined, "an event is delivered with its body");
        this.#deliver(event);
        return;
      case "release":
        this.#speech.release(effect.below);
        return;
      case "tool":
        this.#tools?.carryOut(effect.effect);
        return;
      case "ask_credentials":
        void this.#askCredentials();
        return;
      case "stalled":
        this.#board.stuck = effect.stuck;
        return;
      case "stopped":
        this.#stopped();
        return;
    }
  }

  #connect(effect: Extract<client.Effect, { kind: "connect" }>): void {
    const { connection } = effect;
    const meta = {
      idempotencyKey: this.idempotencyKey,
      streamKey: this.#streamKey,
      credentials: this.#credentials,
    };
    this.#wire = this.#context.connect(meta, {
      received: (frame) => this.#received(connection, frame),
      drained: () => undefined,
      closed: (reason) => this.#closed(connection, reason),
    });
    const firstChunk = effect.inline ? this.#speech.bodyOf(0) : undefined;
    this.#wire.write([{ ...effect.attach, firstChunk }]);
  }

  #received(connection: number, frame: ServerFrame): void {
    const input = {
      kind: "frame",
      connection,
      frame,
      nowMs: this.#clock.now(),
      random: this.#context.environment.random(),
    } as const;
    this.#put(input, frame.kind === "event" ? frame : undefined);
    this.#alarm.ringIfDue();
  }

  #closed(connection: number, reason: HoldfastError | undefined): void {
    const { code = "connection_lost", message = "the connection ended", retryAfterMs } = reason ?? {};
    const nowMs = this.#clock.now();
    this.#put({
      kind: "lost",
      connection,
      code,
      message,
      retryAfterMs,
      nowMs,
      random: this.#context.environment.random(),
    });
  }

  #deliver({ eventId, body, covers, end }: EventFrame): void {
    this.#events.push({ eventId, body, covers, end });
    // The request is in the machine before anything later is: a snapshot cannot pass it (C4).
    const unreadable = end === undefined ? this.#tools?.lookAt(body, eventId) : undefined;
    if (unreadable !== undefined) this.#closed(this.#state.connection, unreadable);
    if (this.#events.bytes > LIMITS.sendQueueBytesMax) this.#put({ kind: "hold" });
  }

  #recordOf(order: client.RecordOrder): JournalRecord {
    switch (order.kind) {
      case "said":
        return { ...order, body: this.#speech.bodyOf(order.seqno) };
      case "snapshot": {
        const state = this.#snapshots.shift();
        assert(state !== undefined, "a snapshot comes with its state");
        return { ...order, state };
      }
      case "exec": {
        const entry = this.#state.tools.entries.get(order.execId);
        assert(entry !== undefined && this.#tools !== undefined, "an exec is known before it is recorded");
        return this.#tools.recordOf(entry, order.phase);
      }
      case "attached":
      case "degraded":
      case "acked":
      case "exec_conflict":
      case "abort":
      case "ended":
        return order;
    }
  }

  async #askCredentials(): Promise<void> {
    try {
      this.#credentials = await this.#context.credentials();
      this.#put({ kind: "credentials", nowMs: this.#clock.now() });
    } catch (cause) {
      const message = cause instanceof Error ? cause.message : String(cause);
      this.#put({ kind: "no_credentials", message });
    }
  }

  #tick(): void {
    this.#put({ kind: "tick", nowMs: this.#clock.now(), random: this.#context.environment.random() });
  }

  #stopped(): void {
    const { failure, outcome } = this.#state;
    const cause = failure === undefined ? undefined : new HoldfastError(failure.code, failure.message);
    this.#events.finish(cause);
    const message = "the stream is over for this client; what was said last may or may not arrive";
    this.#speech.refuseAll(new HoldfastError("stream_ended", message, { cause }));
    void this.#journal.quiet().then(() => this.#ended.resolve(outcome));
  }
}
