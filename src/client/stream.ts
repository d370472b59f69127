/**
 * The driver of one stream on the client: feeds the machine in `core/client-stream.ts` and carries
 * out what it orders. It decides nothing.
 *
 * Bodies live here, by number; the machine sees only the numbers.
 */
import type { BoundedQueue } from "../async/bounded-queue.ts";
import { assert } from "../protocol/assert.ts";
import * as client from "../core/client-state.ts";
import type { Input } from "../core/client-stream.ts";
import type { JournalRecord, Outcome } from "../core/journal.ts";
import { HoldfastError, messageOf } from "../protocol/errors.ts";
import type { ClientFrame, EventFrame, Role, ServerFrame } from "../protocol/frames.ts";
import { LIMITS } from "../protocol/limits.ts";
import { answerIn, requestIn } from "../protocol/request-codec.ts";
import { SteadyClock } from "../transport/environment.ts";
import type { ClientMeta, Wire } from "../transport/transport.ts";
import { abortWishes } from "./abort-wishes.ts";
import { alarmOf } from "./alarm.ts";
import { blobTransfers } from "./blob-transfers.ts";
import { eventQueue, type StreamEvent } from "./event-queue.ts";
import { journalFile } from "./journal-file.ts";
import { RecordBodies } from "./record-bodies.ts";
import { type Saying, speechOf } from "./speech.ts";
import type { StreamBeginning, StreamContext } from "./stream-context.ts";
import { statusBoard, type StreamStatus } from "./status.ts";
import { stepper } from "./stepper.ts";
import type { ToolRunner } from "./tool-runner.ts";

export class ClientStream {
  readonly idempotencyKey: string;
  readonly role: Role;
  /** What the application made of the events before `cursor`, as it last said. */
  readonly restored: { readonly cursor: number; readonly state: Uint8Array } | undefined;
  readonly #context: StreamContext;
  /** Said with each connection. */
  readonly #keys: Pick<ClientMeta, "streamKey" | "conversation">;
  readonly #clock: SteadyClock;
  readonly #journal: ReturnType<typeof journalFile> | undefined;
  readonly #events: BoundedQueue<StreamEvent>;
  readonly #tools: ReturnType<ToolRunner["begin"]> | undefined;
  readonly #speech: ReturnType<typeof speechOf>;
  readonly #blobs: ReturnType<typeof blobTransfers>;
  readonly #aborting = abortWishes();
  readonly #stepper: ReturnType<typeof stepper>;
  readonly #board: ReturnType<typeof statusBoard>;
  readonly #alarm: ReturnType<typeof alarmOf>;
  readonly #bodies = new RecordBodies({
    said: (seqno) => this.#speech.bodyOf(seqno),
    exec: (order) => this.#execRecord(order),
  });
  readonly #ended = Promise.withResolvers<Outcome | undefined>();
  #wire: Wire<ClientFrame> | undefined;
  #credentials: string | undefined;

  constructor(context: StreamContext, beginning: StreamBeginning) {
    const { journal, idempotencyKey, role } = beginning;
    this.idempotencyKey = idempotencyKey;
    this.role = role;
    this.restored = journal.snapshot;
    this.#context = context;
    const { streamKey, conversation } = beginning;
    this.#keys = { streamKey, conversation };
    this.#clock = new SteadyClock(context.environment);
    const keepsJournal = context.journals !== undefined;
    const nowMs = this.#clock.now();
    const initial = client.init(context.options, { ...beginning, keepsJournal, nowMs });
    this.#stepper = stepper(initial, {
      carryOut: (effect, event) => this.#carryOut(effect, event),
      deliver: (event) => this.#deliver(event),
      afterSteps: () => this.#afterSteps(),
      onBug: context.onBug,
    });
    this.#board = statusBoard(this.#state, context.onBug);
    this.#alarm = alarmOf(this.#clock, () => this.#tick());
    this.#speech = speechOf(journal.unacked);
    this.#events = eventQueue(() => {
      if (this.#state.isHeld) this.#put({ kind: "drained", nowMs: this.#clock.now() });
    });
    const { journals, journalSealer, journalRecordsMax: recordsMax } = context;
    const kept = { journal, length: beginning.journalLength };
    this.#journal =
      journals &&
      journalFile(journals, journalSealer, idempotencyKey, kept, {
        written: (count) => this.#put({ kind: "recorded", count, nowMs: this.#clock.now() }),
        failed: (error) => this.#put({ kind: "record_failed", message: error.message }),
        recordsMax,
      });
    this.#blobs = blobTransfers(context, this.#clock, {
      meta: () => ({ ...this.#meta(), conversation: undefined }),
      renewCredentials: async () => {
        this.#credentials = await context.credentials();
      },
    });
    if (context.tools !== undefined && role === "writer") {
      const outputs: Parameters<ToolRunner["begin"]>[1] = {
        idempotencyKey,
        say: async (body) => void (await this.#say({ body, isReply: true })),
        upload: (bytes) => this.putBlob(bytes),
        download: (blobId) => this.getBlob(blobId),
        answer: (execId, body) => void this.#say({ body, execId, isReply: true }).catch(() => undefined),
        input: (input) => this.#put({ kind: "exec", input, nowMs: this.#clock.now() }),
        isLeft: () => this.#state.phase === "stopped" && this.#state.outcome === undefined,
      };
      this.#tools = context.tools.begin(journal, outputs, context.toolLimits);
    }
  }

  /** Begins to connect; a first chunk travels with the very first frame. */
  async start(first: Uint8Array | undefined): Promise<void> {
    // Nothing happens before there are credentials: without them the stream would begin as another principal's.
    this.#credentials = await this.#context.credentials();
    if (this.#state.phase === "stopped") {
      throw new HoldfastError("unavailable", "the client was closed before this stream began");
    }
    if (first !== undefined) void this.send(first);
    this.#journal?.release();
    this.#tick();
  }

  /** Resolves with the chunk's seqno once it is safe: on this client's disk, from where it will arrive, or, without a journal, on the server's. */
  send(body: Uint8Array): Promise<number> {
    const said = this.#say({ body });
    // The caller need not wait for it.
    said.catch(() => undefined);
    return said;
  }

  /** Says that nothing more will be said. */
  async close(): Promise<void> {
    if (this.#state.phase === "stopped") return;
    await this.#say({ body: new Uint8Array(), isClose: true });
  }

  /**
   * Stops the turn. Resolves once the wish cannot be lost any more: a writer has it on disk, a reader and a writer without a
   * journal have the server's word. It is repeated until the server has recorded it. Rejects when the stream was
   * given up before that.
   */
  abort(): Promise<void> {
    const safe = this.#aborting.add();
    this.#put({ kind: "abort", nowMs: this.#clock.now() });
    return safe;
  }

  /**
   * Puts bytes that are too large for a chunk beside the stream; resolves with the id that names them once they are durable. Waits
   * for the server to know the stream, and over breaks. To name a blob in chunk 0, open the stream without `first`.
   */
  putBlob(bytes: Uint8Array): Promise<string> {
    return this.#blobs.put(bytes);
  }

  /** Fetches a blob of this stream, also once it has ended; rejects with `not_found` when it has no such blob. */
  getBlob(id: string): Promise<Uint8Array> {
    return this.#blobs.get(id);
  }

  /**
   * Says that a person thinks about what the server asked: until the returned function is called the server owes nothing, so
   * however long it takes is no stall. A query of the server is named `query` and its id: `considering("query 4")`.
   */
  considering(id: string): () => void {
    this.#put({ kind: "considering", id, isOver: false, nowMs: this.#clock.now() });
    return () => this.#put({ kind: "considering", id, isOver: true, nowMs: this.#clock.now() });
  }

  /** Lets go of the stream without ending it; it can be resumed. */
  leave(): void {
    this.#put({ kind: "leave" });
  }

  /** Tries again at once instead of waiting: the network is back, the page became visible. */
  wake(): void {
    this.#put({ kind: "wake", nowMs: this.#clock.now() });
  }

  /** Keeps what the application made of the events up to `through`: a restart continues from there (B3). */
  snapshot(through: number, state: Uint8Array): void {
    if (through > this.#state.cursor.taken || through < this.#state.snapshotAt) {
      throw new RangeError(
        `a snapshot covers events that were received and never goes back, unlike ${through}`,
      );
    }
    this.#bodies.keepSnapshot(state);
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

  async #say(saying: Pick<Saying, "body"> & Partial<Saying>): Promise<number> {
    if (this.#state.role === "reader") {
      throw new HoldfastError("invalid_argument", "a reader cannot say anything: take the stream over first");
    }
    const said = this.#speech.say({ isClose: false, execId: undefined, isReply: false, ...saying });
    const request = answerIn(saying.body);
    if (request !== undefined) this.#put({ kind: "answered", request, nowMs: this.#clock.now() });
    this.#speak();
    return said;
  }

  /** Says what waits, as far as there is room. */
  #speak(): void {
    if (this.#stepper.isStepping()) return;
    for (let next = this.#speech.next(); next !== undefined; next = this.#speech.next()) {
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

  #put(input: Input, event?: EventFrame): void {
    this.#stepper.put(input, event);
  }

  get #state(): client.State {
    return this.#stepper.state();
  }

  #afterSteps(): void {
    this.#speech.safe(client.safeBelow(this.#state));
    this.#aborting.settle(this.#state);
    if (this.#state.phase === "attached") this.#welcomed();
    this.#alarm.set(this.#state.wakeAtMs);
    this.#speak();
    this.#board.publish(this.#state);
  }

  #welcomed(): void {
    if (!this.#state.degraded) this.#blobs.welcomed();
    else this.#blobs.refuse(new HoldfastError("unavailable", "a stream without durability has no blobs"));
  }

  #carryOut(effect: client.Effect, event: EventFrame | undefined): void {
    switch (effect.kind) {
      case "record":
        this.#journal?.append(this.#bodies.recordOf(effect.order), effect.needs);
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
      case "stall":
        this.#context.onStall({ ...effect.news, idempotencyKey: this.idempotencyKey });
        return;
      case "stopped":
        this.#stopped();
        return;
    }
  }

  #connect(effect: Extract<client.Effect, { kind: "connect" }>): void {
    const { connection } = effect;
    this.#wire = this.#context.connect(this.#meta(), {
      received: (frame) => this.#received(connection, frame),
      drained: () => undefined,
      closed: (reason) => this.#closed(connection, reason),
    });
    const firstChunk = effect.inline ? this.#speech.bodyOf(0) : undefined;
    this.#wire.write([{ ...effect.attach, firstChunk }]);
  }

  #meta(): ClientMeta {
    const { idempotencyKey } = this;
    return { idempotencyKey, ...this.#keys, credentials: this.#credentials };
  }

  #received(connection: number, frame: ServerFrame): void {
    const nowMs = this.#clock.now();
    const random = this.#context.environment.random();
    const input = { kind: "frame", connection, frame, nowMs, random } as const;
    this.#put(input, frame.kind === "event" ? frame : undefined);
    this.#alarm.ringIfDue(nowMs);
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

  #deliver({ eventId, body, end }: EventFrame): void {
    this.#events.push({ eventId, body, end });
    // The request is in the machine before anything later is: a snapshot cannot pass it (C4).
    const unreadable = end === undefined ? this.#tools?.lookAt(body, eventId) : undefined;
    if (unreadable !== undefined) this.#closed(this.#state.connection, unreadable);
    const request = requestIn(body);
    const isForTools = request?.kind === "exec" && this.#tools !== undefined;
    if (request !== undefined && !isForTools) this.#put({ kind: "asked", request, nowMs: this.#clock.now() });
    if (this.#events.size > LIMITS.sendQueueBytesMax) this.#put({ kind: "hold" });
  }

  #execRecord({ execId, phase }: Extract<client.RecordOrder, { kind: "exec" }>): JournalRecord {
    const entry = this.#state.tools.entries.get(execId);
    assert(entry !== undefined && this.#tools !== undefined, "an exec is known before it is recorded");
    return this.#tools.recordOf(entry, phase);
  }

  async #askCredentials(): Promise<void> {
    try {
      this.#credentials = await this.#context.credentials();
      this.#put({ kind: "credentials", nowMs: this.#clock.now() });
    } catch (cause) {
      this.#put({ kind: "no_credentials", message: messageOf(cause) });
    }
  }

  #tick(): void {
    this.#journal?.flush();
    this.#put({ kind: "tick", nowMs: this.#clock.now(), random: this.#context.environment.random() });
  }

  #stopped(): void {
    const { failure, outcome } = this.#state;
    const cause = failure === undefined ? undefined : new HoldfastError(failure.code, failure.message);
    this.#events.finish(cause);
    this.#speech.refuseAll(cause);
    if (failure === undefined && outcome !== undefined) this.#blobs.ended();
    else this.#blobs.refuse(cause ?? new HoldfastError("unavailable", "the stream was left"));
    void this.#settle(outcome);
  }

  async #settle(outcome: Outcome | undefined): Promise<void> {
    await this.#journal?.quiet();
    this.#ended.resolve(outcome);
  }
}
