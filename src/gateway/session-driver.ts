/**
 * Drives one session: feeds its machine, carries out what the machine orders, and reads its stream.
 *
 * The stream is read whether or not an HTTP response is open. What it says goes into the memory of the answer under way, from which `answer-log.ts`
 * serves any number of readers.
 *
 * Invariant: a pause is settled, and so given to readers, only after the machine's effects for it are carried out.
 */
import { ChangeSignal } from "../async/change-signal.ts";
import type { ClientStream, KeptConversation } from "../client/index.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { FailureKind } from "../protocol/messages.ts";
import type { TableWrite } from "../store/table-store.ts";
import { CATCH_UP_MS, named } from "./answer-log.ts";
import { endWrites } from "./ended-response.ts";
import { AnswerMemory, cutOff } from "./answer-memory.ts";
import { tooManyOpen } from "./refusals.ts";
import { answerServer } from "./server-requests.ts";
import {
  type Clock,
  type Effect,
  type EndReason,
  type Input,
  rowsOf,
  type State,
  step,
  type TakenResults,
} from "./session.ts";
import { ringOf, type SessionRecord } from "./session-record.ts";
import type { Continuation, SessionContext } from "./session-context.ts";
import type { Claim } from "./session-store.ts";
import { SleepingLog } from "./sleeping-log.ts";
import { isPauseDelta, onWelcome, pastEvents } from "./stream-events.ts";
import { StreamReading } from "./stream-reading.ts";
import { decodeServer, updateOf } from "../turn/messages.ts";

export class SessionDriver {
  readonly #context: SessionContext;
  readonly #changes = new ChangeSignal();
  #state: State;
  #memory: AnswerMemory;
  #stream: ClientStream | undefined;
  #pumped: Promise<unknown> = Promise.resolve();
  #attaching: Promise<unknown> = Promise.resolve();
  #reading = new StreamReading();
  #stopClock = (): void => undefined;
  readonly #claim: Claim;
  /** Another node has the session. */
  isFenced = false;
  #rests = false;
  #asleep: SleepingLog | undefined;

  /** `claim`: on tables that other nodes share. */
  constructor(context: SessionContext, state: State, claim?: Claim) {
    this.#context = context;
    this.#state = state;
    this.#claim = claim;
    this.#memory = this.#newMemory();
  }

  #newMemory(): AnswerMemory {
    return new AnswerMemory(this.record.answer.fromEvent, (memory) => this.#readers(memory));
  }

  get state(): State {
    return this.#state;
  }

  get record(): SessionRecord {
    return this.#state.record;
  }

  /** Of the answer under way. */
  get memory(): AnswerMemory {
    return this.#memory;
  }

  /** As the server keeps it. */
  get conversation(): KeptConversation {
    return { id: this.record.conversationId, keepMs: this.#context.limits.conversationMs };
  }

  /** Undefined while none is open: it is being opened or resumed, or the session sleeps or rests. */
  get stream(): ClientStream | undefined {
    return this.#stream;
  }

  /** Throws when none is open. */
  get openStream(): ClientStream {
    if (this.#stream === undefined) throw new HoldfastError("stream_ended", "the session has no open stream");
    return this.#stream;
  }

  /** Says all of it on the stream; resolves when it is durable. */
  async say(bodies: readonly Uint8Array[]): Promise<void> {
    const stream = this.openStream;
    await Promise.all(bodies.map((body) => stream.send(body)));
  }

  /** It waits for tool results, and all that a client can know of it is durable. */
  get isPaused(): boolean {
    return this.#state.at === "parked" && this.#memory.pausedAt !== undefined;
  }

  /** Resolves when the condition holds, the session is gone, or the time is over. */
  async until(isSo: () => boolean, timeoutMs: number): Promise<void> {
    const late = new AbortController();
    const cancel = this.#context.environment.after(timeoutMs, () => late.abort());
    await this.#changes.until(() => isSo() || this.#state.at === "gone", late.signal);
    cancel();
  }

  /** Resolves when what follows from the input is done. The state itself changes at once. */
  feed(input: Input, continuation?: Continuation): Promise<void> {
    const before = this.#state;
    const [state, effects] = step(before, input);
    this.#state = state;
    if (state.at === "gone" && before.at !== "gone") this.#context.onGone(this);
    this.#changes.notify();
    return this.carryOut(effects, continuation);
  }

  /** In order: those that take time are waited for before the next. */
  async carryOut(effects: readonly Effect[], continuation?: Continuation): Promise<void> {
    for (const effect of effects) {
      const done = this.#perform(effect, continuation);
      if (done !== undefined) await done;
    }
  }

  #perform(effect: Effect, continuation: Continuation | undefined): Promise<unknown> | undefined {
    const { given, store } = this.#context;
    switch (effect.kind) {
      case "clock":
        return this.#setClock(effect.clock);
      case "count":
        return this.#count(effect.why);
      case "make_room":
        this.#context.onParking(this, effect.isBack);
        return undefined;
      case "refuse_readers":
        this.#memory.finish(tooManyOpen());
        return undefined;
      case "forget_answers":
        given.forget(this.record.responses);
        return undefined;
      case "look":
        this.#asleep = new SleepingLog(this.#context, this, this.#changes);
        this.#context.tasks.run(this.#asleep.looked);
        return undefined;
      case "resume":
        return (this.#attaching = this.#resume());
      case "keep":
        return this.#inTurn(() => store.write(continuation?.writes));
      case "save":
        return effect.when === "now" ? this.save(continuation?.writes) : this.#note(continuation?.writes);
      case "continue":
        return this.#continue(continuation);
      case "remove": {
        const { withResponses } = effect;
        const [more, claim] = [continuation?.writes, this.#claim];
        return this.#inTurn(() => store.remove(this.record, { withResponses, more, claim }));
      }
      case "abort":
        return this.#abort();
      case "leave":
        this.#stream?.leave();
        return undefined;
      case "rest":
        return this.#rest();
    }
  }

  #setClock(clock: Clock): undefined {
    const { environment, limits, tasks } = this.#context;
    this.#stopClock();
    if (clock === "none") return;
    const { kind, delayMs } = ringOf(clock, this.record, limits, environment.now());
    this.#stopClock = environment.after(delayMs, () => {
      // Behind its pause a log that is still being read may have the turn's end: the session would not hear of it.
      if (kind === "rest" && this.#memory.isBehind) return this.#setClock(clock);
      return tasks.run(kind === "rest" ? this.feed({ kind }) : this.#rings(clock, this.#stopClock));
    });
  }

  /** What it had read is read back when it is wanted. */
  #rest(): undefined {
    this.#stream?.leave();
    this.#stream = undefined;
    this.#rests = true;
    this.#memory = this.#newMemory();
  }

  /** Readers at other nodes are readers. Another clock may run by the time that they are known. */
  async #rings(clock: Clock, stop: () => void): Promise<void> {
    const { isReadElsewhere } = this.#context;
    const isRead = clock === "grace" && isReadElsewhere !== undefined && (await isReadElsewhere(this));
    if (!isRead) return this.feed({ kind: "clock" });
    if (this.#stopClock === stop) this.#setClock(clock);
  }

  #count(why: EndReason): undefined {
    if (why === "evicted" || why === "expired" || why === "abandoned") this.#context.counters[why]++;
  }

  /** Saves the record as it is when its turn comes. `behind`: begun so that nothing of it is durable before the record. */
  save(more: readonly TableWrite[] = [], behind?: () => Promise<unknown>): Promise<void> {
    const { store } = this.#context;
    return this.#inTurn(async () => {
      if (rowsOf(this.#state) === "removed") await behind?.();
      else await store.save(this.record, more, { behind, claim: this.#claim });
    });
  }

  /** Stops its turn. No caller waits for it. */
  stop(): void {
    this.#context.tasks.run(this.feed({ kind: "end", why: "stopped" }));
  }

  /** Other nodes know nothing of what waits in this process. */
  #note(more: readonly TableWrite[] = []): Promise<void> {
    if (more.length > 0 || this.#claim !== undefined) return this.save(more);
    return this.#inTurn(() => this.#context.store.note(this.record));
  }

  async #inTurn(write: () => Promise<void>): Promise<void> {
    try {
      await this.#context.writes.run(this.record.answer.streamId, write);
    } catch (cause) {
      if (this.#claim !== undefined && HoldfastError.codeOf(cause) === "fenced") this.letGo();
      throw cause;
    }
  }

  /** Another node has written the record: this node writes nothing any more, and its readers continue from the log. */
  letGo(): void {
    this.isFenced = true;
    this.#context.onMoved(this);
    if (this.#stream === undefined) void this.feed({ kind: "over" });
    else this.#stream.leave();
  }

  /** The results go into the stream, and what it says from there on is another answer. */
  results(results: TakenResults, continuation: Continuation): Promise<void> {
    return this.feed({ kind: "results", results, nowMs: this.#context.environment.now() }, continuation);
  }

  async #continue({ bodies, writes }: Continuation = { bodies: [], writes: [] }): Promise<void> {
    this.#memory = this.#memory.successor();
    await this.save(writes, () => this.say(bodies));
  }

  /** The answer is asked for: if its session sleeps, it is resumed. One that rests on shared tables is not: an attach that comes late would take the stream from the node that has taken the session (decision 215). */
  async wanted(): Promise<void> {
    if (this.#state.at === "resting" && this.#claim !== undefined) return;
    await this.feed({ kind: "wanted" });
    await this.#changes.until(() => this.#stream !== undefined || this.#state.at !== "resuming");
  }

  /** Tool results have come: if it rests, its stream is opened again and read back. */
  async woken(): Promise<void> {
    if (this.#state.at !== "resting") return;
    await this.wanted();
    await this.until(() => this.isPaused || this.#state.at === "resting", CATCH_UP_MS);
  }

  /** Resolves when its record says what its log says. */
  looked(): Promise<void> {
    return this.#asleep?.hurry() ?? Promise.resolve();
  }

  async #resume({ abort = false } = {}): Promise<void> {
    const { clientOf, onBug } = this.#context;
    const client = clientOf(this.record.principal);
    const { streamId } = this.record.answer;
    this.#memory.readBack();
    // One that rested may still be letting go of the stream.
    await this.#pumped;
    try {
      if (this.#rests && this.#claim !== undefined) await this.#claimToEnd(this.#claim);
      this.#rests = false;
      // A journal, of a client that keeps one, may have had the turn's end before the record did: then the log says how it ended.
      const resumed = client.resume(streamId, { abort, conversation: this.conversation });
      this.attach(await resumed.catch(() => client.follow(streamId, 0, { peek: true })));
    } catch (cause) {
      if (this.isFenced) return;
      if (!(cause instanceof HoldfastError)) onBug(cause);
      await this.feed({ kind: "lost" });
    }
  }

  /** On shared tables a session that rests is attached to only to end it, and not if another node has taken it. From here on none takes it: no request has seen such a head. */
  async #claimToEnd(claim: Claim): Promise<void> {
    await this.#inTurn(() => this.#context.store.save({ ...this.record, head: "" }, [], { claim }));
  }

  /** How the turn ends removes its rows. */
  async #abort(): Promise<void> {
    // There is one writer: a second one would be refused, and would not abort.
    await this.#attaching;
    if (this.#stream !== undefined) return this.#stream.abort();
    await this.#resume({ abort: true });
    await this.stream?.ended;
  }

  /** A model call of its stream is held beside the starting server: if it is that of the answer under way, that continues where its log ends. */
  async held(name: string): Promise<void> {
    this.#memory.held.add(name);
    this.#changes.notify();
    await this.wanted();
  }

  attach(stream: ClientStream): void {
    this.#stream = stream;
    this.#reading = new StreamReading();
    // A server welcomes a writer when the attach is durable: with the stream, if that is new.
    onWelcome(stream, (head) => {
      this.#memory.welcomed(head);
      this.#changes.notify();
    });
    this.#pumped = this.#pump(stream);
    if (this.#context.closing.aborted) stream.leave();
    this.#changes.notify();
  }

  /** Resolves when its stream is on the disk; rejects when the stream comes to nothing. */
  async kept(): Promise<void> {
    const isWelcome = (): boolean => this.#stream?.status.headAtWelcome !== undefined;
    await this.#changes.until(() => isWelcome() || this.#state.at === "gone");
    if (!isWelcome()) throw cutOff();
  }

  /** Resolves when its stream is not read any more, and its journal is quiet. */
  async closed(): Promise<void> {
    await this.#changes.until(() => this.#stream !== undefined || this.#state.at === "gone");
    await Promise.all([this.#pumped, this.#stream?.ended]);
  }

  async #pump(stream: ClientStream): Promise<void> {
    const isPast = stream.role === "reader";
    let failure: Error | undefined;
    try {
      for await (const { eventId, body } of isPast ? pastEvents(stream, 0) : stream.events) {
        if (this.#stream !== stream) break;
        if (body.length > 0) await this.#hear(stream, eventId, body);
        if (this.#memory.heard(eventId)) this.#changes.notify();
      }
    } catch (cause) {
      failure = cause instanceof Error ? cause : new Error(String(cause));
      if (!(cause instanceof HoldfastError)) this.#context.onBug(cause);
    }
    if (this.#stream !== stream) return void (await stream.ended);
    const { isOver } = this.#reading;
    const isMoved = this.#claim !== undefined && (this.isFenced || stream.status.state === "fenced");
    if (isMoved) this.#context.onMoved(this);
    else this.#memory.finish(failure ?? (isOver ? undefined : cutOff()));
    // The server has no such turn any more, or a client that keeps journals has none of it: a retry is answered from its log if there is one, and all else by a fresh stream.
    const isGone = isPast ? !this.#context.closing.aborted : (await stream.ended) === "lost";
    if (isPast) stream.leave();
    const over = this.feed({ kind: isGone && !isOver ? "lost" : "over" });
    this.#context.tasks.run(over);
    await over.catch(() => undefined);
  }

  async #hear(stream: ClientStream, eventId: number, body: Uint8Array): Promise<void> {
    const { workspace, onBug, names, environment } = this.#context;
    const message = decodeServer(body);
    // An update asks for nothing.
    if (stream.role === "writer" && message.message.case !== "interactionUpdate")
      void answerServer({ stream, workspace, onBug }, message, body);
    const needed = this.#reading.blobFor(message);
    const blob = needed === undefined ? undefined : await stream.getBlob(needed);
    const { deltas, isNews } = this.#reading.hear({ eventId, message, blob });
    if (eventId <= this.#memory.fromEvent || !isNews) return;
    const pause = deltas.find(isPauseDelta);
    const isPause = pause !== undefined;
    this.#memory.add({ eventId, message, isPause, ...(blob === undefined ? {} : { blob }) });
    // Older restarts in the log do not count; nor does a text that is only tried to be continued: what follows says whether it stands.
    const isTried = updateOf(message).case === "stepContinued";
    const isNew = eventId > (stream.status.headAtWelcome ?? Infinity) && !isTried;
    if (isNew && this.#state.at === "resuming") await this.feed({ kind: "restarted" });
    if (pause === undefined) return;
    const writes = await endWrites(this.#memory, this.record, this.#context);
    const owner = { principal: this.record.principal, streamId: this.record.answer.streamId };
    const [{ checkpoint }, nowMs] = [this.#reading, environment.now()];
    const paused = { kind: "paused", pause: named(pause, names, owner), checkpoint, nowMs } as const;
    await this.feed(paused, { bodies: [], writes });
    if (this.#stream !== stream) return;
    this.#memory.settle(eventId);
    this.#changes.notify();
    const failure = pause.kind === "ended" ? pause.failure : undefined;
    if (failure?.kind === FailureKind.BLOB_MISSING) this.#context.onUnreadable(this);
  }

  #readers(memory: AnswerMemory): void {
    // Those of an earlier answer do not count any more.
    if (memory === this.#memory)
      this.#context.tasks.run(this.feed({ kind: "readers", count: memory.readers }));
  }
}
