/**
 * The driver of one stream on the server: feeds the machine in `core/hosted-stream.ts` and carries
 * out what it orders. It decides nothing.
 *
 * A failed assertion is our own bug: it ends this stream's work with `stream_failed` and leaves every other stream alone.
 */
import { assert } from "../protocol/assert.ts";
import * as host from "../core/host-state.ts";
import { type Input, isForsaken, step } from "../core/hosted-stream.ts";
import type { CommitShape, StreamName, StreamState } from "../core/stream-state.ts";
import { hexOf } from "../protocol/bytes.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { sharedEvent } from "../protocol/frame-codec.ts";
import type { AttachFrame, ClientFrame, ServerFrame } from "../protocol/frames.ts";
import { LIMITS } from "../protocol/limits.ts";
import type { SharedEvent } from "../protocol/shared-event.ts";
import type { Letter } from "../store/letters.ts";
import type { AcceptedMeta, Wire } from "../transport/transport.ts";
import { ApplicationRun, type PendingEvent } from "./application-run.ts";
import { countFrame } from "./counters.ts";
import type { Attaching, HostContext } from "./host-context.ts";
import { HeardLetters, type Mac, saidBy, spoken } from "./heard-letters.ts";
import { HostedConversation } from "./hosted-conversation.ts";
import { frameOf, inputOf } from "./log-views.ts";
import { type Logged, requestsIn, watchedLogs } from "./logged-requests.ts";
import { Outgoing } from "./outgoing.ts";
import { readersServed } from "./readers-first.ts";
import { applicationBlobs } from "./stream-blobs.ts";
import { type Birth, StreamCommits } from "./stream-commits.ts";
import { type LoggedChunk, StreamLogs } from "./stream-logs.ts";

/** An input with the body it is about; bodies never enter the machine. */
interface Item {
  readonly input: Input;
  readonly chunk?: { readonly body: Uint8Array; readonly mac: Uint8Array };
  readonly event?: PendingEvent;
  readonly letter?: number;
}

const NO_BODY = new Uint8Array();

export class HostedStream {
  readonly name: StreamName;
  readonly #context: HostContext;
  readonly #logs: StreamLogs;
  readonly #commits: StreamCommits;
  readonly #contentMac: Mac;
  readonly #run: ApplicationRun;
  readonly #conversation: HostedConversation;
  readonly #onDropped: () => void;
  readonly #outgoing = new Outgoing();
  /** Inputs that came while a step was being carried out: steps never nest. */
  readonly #items: Item[] = [];
  #isStepping = false;
  /** The last moment for which the store has said that this host ran the stream: when it was asked, not when it answered. */
  #confirmedMs: number;
  #state: host.State;
  #waitingChunks: LoggedChunk[] = [];
  #waitingEvents: SharedEvent[] = [];
  readonly #letters: HeardLetters;

  constructor(
    context: HostContext,
    meta: AcceptedMeta,
    stored: StreamState,
    macs: readonly Uint8Array[],
    claimedMs: number,
    onDropped: () => void,
    birth?: Birth,
  ) {
    const { principal, idempotencyKey, streamKey } = meta;
    const name = { principal, idempotencyKey };
    this.name = name;
    this.#context = context;
    this.#letters = new HeardLetters(context.letters);
    this.#conversation = new HostedConversation(name, context.blobs);
    this.#logs = new StreamLogs(context.store, name, context.sealing.sealer(streamKey));
    this.#contentMac = context.sealing.contentMac(streamKey);
    this.#onDropped = onDropped;
    this.#commits = new StreamCommits(context.store, name, birth);
    this.#confirmedMs = claimedMs;
    this.#state = host.init(context.options, context.store.durability, stored, macs);
    const logs = watchedLogs(this.#logs, stored, (logged) => this.#noteRequests(logged));
    const unreadable = (): void => this.drop("durability_lost");
    this.#run = new ApplicationRun(name, logs, stored, {
      emit: (event) => this.#put({ input: { kind: "emit" }, event: this.#keep(event) }),
      end: (event, reason) => this.#put({ input: { kind: "end", reason }, event: this.#keep(event) }),
      readingBack: (isSo) => this.#logs.readingBack(isSo),
      readersServed: () => readersServed(() => host.hasReaderBehind(this.#state), context),
      unreadable,
      onBug: context.onBug,
      blobs: context.blobs && applicationBlobs(context.blobs, { ...name, streamKey }, unreadable),
      conversation: () => this.#conversation.blobs(unreadable),
      secretName: (text) => hexOf(context.sealing.secretName(streamKey, text)),
      isNew: birth?.isNew === true,
    });
  }

  /** What is durable, for the keeper of all streams. */
  get durable(): StreamState {
    return this.#state.durable;
  }

  get hasWriter(): boolean {
    return host.hasWriter(this.#state, this.#now());
  }

  /** No client is attached, nothing runs but what waits for one, nothing waits to be stored: forgetting it loses nothing. */
  get isIdle(): boolean {
    if (host.isUnstored(this.#state)) return false;
    if (this.#run.isRunning) return this.#run.isWaiting && isForsaken(this.#state, this.#now());
    return this.#state.attached.size === 0;
  }

  /** How long ago the store last confirmed that this host runs the stream. */
  get unconfirmedMs(): number {
    return this.#now() - this.#confirmedMs;
  }

  /** The store says that this host ran the stream when it was asked. */
  confirmed(askedMs: number): void {
    this.#confirmedMs = Math.max(this.#confirmedMs, askedMs);
  }

  get isDropped(): boolean {
    return this.#state.dropped;
  }

  /** The store has no such stream yet. */
  get isUnborn(): boolean {
    return this.#commits.isUnborn;
  }

  /** Resolves when the stream is in the store, or will never be. */
  get born(): Promise<void> {
    return this.#commits.born;
  }

  /** An attach that was to make the stream came to nothing: then it is not made. */
  dropUnborn(): void {
    if (this.isUnborn && !host.isUnstored(this.#state)) this.drop("shutdown");
  }

  attach(
    { connection, conversation }: Attaching,
    wire: Wire<ServerFrame>,
    frame: AttachFrame,
    resumed: boolean,
  ): void {
    this.#outgoing.add(connection, wire);
    const nowMs = this.#now();
    const body = frame.firstChunk;
    const firstMac = body === undefined ? undefined : this.#contentMac(0, "chunk", body);
    const input = { kind: "attach", connection, frame, firstMac, resumed, nowMs } as const;
    const chunk = body === undefined || firstMac === undefined ? {} : { chunk: { body, mac: firstMac } };
    this.#put({ input, ...chunk });
    this.#conversation.brought(conversation);
    const isReadable = this.#conversation.isReadable(this.#state.staged);
    // Behind the attach: a turn that it aborts does nothing more.
    if (frame.peek !== true && isReadable) this.#run.start(this.#context.application);
  }

  received(connection: number, frame: ClientFrame): void {
    const nowMs = this.#now();
    switch (frame.kind) {
      case "chunk":
      case "close": {
        if (this.#run.unreadBytes > LIMITS.bodyBytesMax) {
          const slow = new HoldfastError(
            "overloaded",
            "the application does not read what was said; reconnect",
          );
          this.#refuse(connection, slow);
          return;
        }
        const { body, said } = spoken(frame, this.#contentMac);
        const input = { kind: "chunk", connection, ...said, nowMs } as const;
        this.#put({ input, chunk: { body, mac: said.mac } });
        return;
      }
      case "abort":
      case "heartbeat":
        this.#put({ input: { ...frame, connection, nowMs } });
        return;
      case "attach":
        // Repeated on the way: the connection is attached, and once is enough.
        return;
    }
  }

  /** A client of another node says something. False when this host does not run the turn that the client wants to run. */
  letter({ number, sealed }: Pick<Letter, "number" | "sealed">): boolean {
    const letter = this.#logs.openLetter(sealed);
    const isIdle = !this.#run.isRunning && !host.isUnstored(this.#state);
    if (letter.canRun && isIdle && this.durable.end === undefined) return false;
    // Ignored while the application has too much unread: the other node posts it again.
    const isFull = this.#run.unreadBytes > LIMITS.bodyBytesMax;
    const { said, ...more } = saidBy(letter, this.#contentMac);
    if (said === undefined || isFull) this.#letters.add(number);
    else this.#put({ letter: number, input: { kind: "letter", said, nowMs: this.#now() }, ...more });
    if (!host.isUnstored(this.#state)) this.#letters.discard();
    return true;
  }

  drained(connection: number): void {
    this.#put({ input: { kind: "sender", connection, input: { kind: "drained" } } });
  }

  closed(connection: number): void {
    this.#outgoing.remove(connection);
    this.#put({ input: { kind: "closed", connection } });
  }

  tick(): void {
    this.#put({ input: { kind: "tick", nowMs: this.#now() } });
    if (!host.isUnstored(this.#state)) this.#letters.discard();
  }

  /** Forgets events before `eventFloor` once the stream has ended; a client that needs them is refused. */
  trim(eventFloor: number): void {
    this.#put({ input: { kind: "trim", eventFloor } });
  }

  drop(reason: "durability_lost" | "moved" | "shutdown" | "bug"): void {
    this.#put({ input: { kind: "drop", reason } });
  }

  #now(): number {
    return this.#context.clock.now();
  }

  /** Staged within the call, an event is copied there; only one that has to wait its turn needs a copy before. */
  #keep(event: PendingEvent): PendingEvent {
    return this.#isStepping ? { ...event, body: new Uint8Array(event.body) } : event;
  }

  #put(item: Item): void {
    if (this.#isStepping) return void this.#items.push(item);
    this.#isStepping = true;
    for (let next: Item | undefined = item; next !== undefined; next = this.#items.shift()) this.#step(next);
    this.#isStepping = false;
    this.#outgoing.flush();
  }

  #step(item: Item): void {
    if (item.letter !== undefined) this.#letters.add(item.letter);
    try {
      const [next, effects] = step(this.#state, item.input);
      const wasDropped = this.#state.dropped;
      this.#state = next;
      if (wasDropped) item.event?.refused("unavailable");
      for (const effect of effects) this.#carryOut(effect, item);
    } catch (bug) {
      item.event?.refused("unavailable");
      if (item.input.kind === "drop") this.#context.onBug(bug);
      else this.#failed(bug);
    }
  }

  #failed(bug: unknown): void {
    this.#context.onBug(bug);
    this.drop("bug");
  }

  #carryOut(effect: host.Effect, item: Item): void {
    switch (effect.kind) {
      case "stage_chunk": {
        assert(item.chunk !== undefined, "a chunk is staged with its body");
        const chunk = { ...item.chunk, seqno: effect.seqno, isClose: effect.isClose };
        this.#waitingChunks.push(chunk);
        this.#run.push(inputOf(chunk));
        return;
      }
      case "stage_event": {
        // Each step stages one event at most, so the staged head is its id.
        const eventId = this.#state.staged.eventHead;
        this.#waitingEvents.push(sharedEvent(eventId, item.event?.body ?? NO_BODY, effect.end));
        if (item.event === undefined) return;
        this.#conversation.staged(eventId, item.event.kept);
        this.#run.accepted(item.event, eventId);
        return;
      }
      case "refuse_event":
        item.event?.refused("stream_ended");
        return;
      case "gather":
        this.#context.environment.turnOver?.(() => this.#put({ input: { kind: "gathered" } }));
        return;
      case "commit":
        this.#commit(effect.expected, effect.shape).catch((bug: unknown) => this.#failed(bug));
        return;
      case "send":
        countFrame(this.#context.counters, effect.frame);
        this.#outgoing.queue(effect.connection, effect.frame);
        return;
      case "read":
        this.#read(effect);
        return;
      case "disconnect":
        this.#outgoing.end(effect.connection);
        return;
      case "tell_takeover":
        this.#run.push({ kind: "takeover", sinceSeqno: effect.sinceSeqno, sinceEvent: effect.sinceEvent });
        return;
      case "tell_abort":
        this.#run.abort();
        return;
      case "stall":
        this.#context.onStall({ ...effect.news, ...this.name });
        return;
      case "dropped":
        this.#commits.giveUp();
        this.#run.lose({ hasMoved: effect.reason === "moved" });
        this.#onDropped();
        return;
    }
  }

  async #commit(expected: StreamState, shape: CommitShape): Promise<void> {
    const chunks = this.#waitingChunks.splice(0, shape.chunkCount);
    const events = this.#waitingEvents.splice(0, shape.eventCount);
    assert(
      chunks.length === shape.chunkCount && events.length === shape.eventCount,
      "a commit has its bodies",
    );
    const { nextSeqno, eventHead } = expected;
    const { counters } = this.#context;
    const askedMs = this.#now();
    try {
      const isCommitted = await this.#commits.commit(expected, {
        chunks: chunks.length === 0 ? undefined : this.#logs.sealChunks(nextSeqno, chunks),
        events: events.length === 0 ? undefined : this.#logs.sealEvents(eventHead + 1, events),
        change: shape.change,
        ...this.#conversation.committing(eventHead + events.length),
        ...this.#letters.committing(),
      });
      if (!isCommitted) {
        this.drop("moved");
        return;
      }
    } catch {
      counters.storeFailures++;
      // Whatever the store says, it has not promised anything: stop at the durable head (D5, F5).
      this.drop("durability_lost");
      return;
    }
    if (this.#state.dropped) return;
    const nowMs = this.#now();
    counters.commits++;
    counters.commitSeconds.add((nowMs - askedMs) / 1000);
    counters.chunksCommitted += chunks.length;
    counters.eventsCommitted += events.length;
    this.confirmed(askedMs);
    this.#logs.remember(events);
    this.#put({ input: { kind: "committed", nowMs } });
    this.#noteRequests(requestsIn(events, chunks));
    this.#run.durable(this.#state.durable.eventHead);
    if (this.#state.durable.end !== undefined) this.#run.finish();
  }

  #noteRequests(logged: Logged | undefined): void {
    if (logged !== undefined) this.#put({ input: { kind: "logged", ...logged, nowMs: this.#now() } });
  }

  #read(wanted: Extract<host.Effect, { kind: "read" }>): void {
    const recent = this.#logs.recent(wanted.from);
    if (recent === undefined) void this.#readStored(wanted);
    else this.#deliver(wanted.connection, recent);
  }

  async #readStored({ connection, from, bytesMax }: Extract<host.Effect, { kind: "read" }>): Promise<void> {
    this.#context.counters.replays++;
    try {
      const events = await this.#logs.readEvents(from, bytesMax);
      // A store that has them in memory gives one read after the other: requests have their turn between two.
      await new Promise<void>((resolve) => this.#context.environment.after(0, resolve));
      // The store may already have a commit that this host does not know of yet.
      const { eventHead } = this.#state.durable;
      this.#deliver(connection, events.filter(({ eventId }) => eventId <= eventHead).map(frameOf));
    } catch (cause) {
      // Damage here is ours to mend: the client keeps its state and reconnects.
      this.#refuse(connection, new HoldfastError("unavailable", "the log cannot be read", { cause }));
    }
  }

  #deliver(connection: number, frames: readonly ServerFrame[]): void {
    const last = frames.at(-1);
    if (!this.#outgoing.has(connection) || this.#state.dropped) return;
    assert(last?.kind === "event", "what is durable can be read");
    const waitingBytes = this.#outgoing.write(connection, frames);
    const input = { kind: "written", through: last.eventId, waitingBytes, nowMs: this.#now() } as const;
    this.#put({ input: { kind: "sender", connection, input } });
  }

  #refuse(connection: number, { code, message }: HoldfastError): void {
    this.#put({ input: { kind: "refuse", connection, code, message } });
  }
}
