/**
 * The sessions of this process, and how many there may be.
 *
 * Each is an open stream of its principal from the moment that its request was accepted; one that sleeps after a restart counts as well. When a
 * principal has as many as it may, one that no client reads makes room: the oldest that sleeps, else the one that has waited longest for tool
 * results. When there is none, the request is refused with a time to retry. A server elsewhere may have a limit of its own: the gateway learns it
 * from the refusal, and answers in the same way.
 *
 * Sessions that wait for tool results are bounded by what they hold (`eviction.ts`). A client whose session ended gets a fresh stream at its next request.
 *
 * Invariant: no more than `openStreamsMax` sessions of a principal count as open, and what waits never exceeds its bounds.
 */
import { KeyedQueue } from "../async/keyed-queue.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { PassingMap } from "../protocol/passing.ts";
import type { AnswerMemory } from "./answer-memory.ts";
import type { AnswerRef } from "./answer-ref.ts";
import { FollowedAnswers, type Place } from "./followed-answers.ts";
import type { SessionLookup } from "./matching.ts";
import type { Neighbours } from "./neighbours.ts";
import { Orphans } from "./orphans.ts";
import type { GatewayLimits } from "./options.ts";
import { crowdedOut, newcomerOf, type Parked, parkedBytes } from "./eviction.ts";
import { tooManyOpen } from "./refusals.ts";
import type { Saying } from "./said-results.ts";
import { NO_ROW } from "./sealed-rows.ts";
import { begin, canMakeRoom, find, isCounted, isWaiting, type State } from "./session.ts";
import type { SessionContext } from "./session-context.ts";
import { SessionDriver } from "./session-driver.ts";
import type { SessionRecord } from "./session-record.ts";
import type { SharedLimits } from "./shared-limits.ts";
import type { Stops } from "./stops.ts";
import { Takeovers } from "./takeovers.ts";

interface SessionsParts extends Omit<
  SessionContext,
  "writes" | "closing" | "onParking" | "onUnreadable" | "onGone" | "onMoved" | "isReadElsewhere" | "limits"
> {
  readonly limits: Pick<
    GatewayLimits,
    "graceMs" | "sessionTtlMs" | "conversationMs" | "restMs" | "openStreamsMax" | "parkedBytesMax"
  >;
  readonly stops: Pick<Stops, "has">;
  /** Of tables that other nodes share. */
  readonly neighbours: Neighbours | undefined;
  readonly shared: SharedLimits | undefined;
}

interface ParkedSession extends Parked {
  readonly session: SessionDriver;
}

export class Sessions implements SessionLookup {
  readonly #parts: SessionsParts;
  readonly #context: SessionContext;
  readonly #closing = new AbortController();
  readonly #byStream = new PassingMap<string, SessionDriver>();
  /** Those that the server had no room for, until they are gone. */
  readonly #refused = new Set<SessionDriver>();
  /** Those that another node has taken, while their streams are being left. */
  readonly #leaving = new Map<string, Promise<void>>();
  readonly #followed: FollowedAnswers;
  /** Undefined where no other node shares the tables. */
  readonly takeovers: Takeovers | undefined;
  readonly #orphans: Orphans | undefined;

  constructor(parts: SessionsParts) {
    this.#parts = parts;
    const [{ neighbours, store }, closing] = [parts, this.#closing.signal];
    const takeUp: Sessions["wake"] = (...asked) => this.wake(...asked);
    this.#followed = new FollowedAnswers({ ...parts, takeUp, closing });
    const named = (streamId: string): SessionDriver | undefined => this.#byStream.get(streamId);
    const run = (record: SessionRecord, version: number) => this.#take(record, version);
    this.takeovers = neighbours && new Takeovers({ neighbours, store, closing, find: named, run });
    const { takeovers } = this;
    this.#orphans =
      neighbours &&
      takeovers &&
      new Orphans({ ...parts, neighbours, takeovers, closing, ttlMs: parts.limits.sessionTtlMs });
    this.#context = {
      ...parts,
      writes: new KeyedQueue(),
      closing: this.#closing.signal,
      onParking: (session, isBack) => {
        this.#makeRoom(session, isBack);
        if (parts.shared !== undefined) parts.tasks.run(this.#makeRoomElsewhere(parts.shared, session));
      },
      onUnreadable: ({ record }) => parts.tasks.run(this.#forget(record)),
      onGone: (session) => {
        const { streamId } = session.record.answer;
        this.#refused.delete(session);
        if (this.#byStream.get(streamId) === session) this.#byStream.delete(streamId);
      },
      isReadElsewhere:
        neighbours && (({ record }) => store.isReadElsewhere(record.principal, record.answer.streamId)),
      onMoved: (session) => {
        const { record, memory } = session;
        const { streamId } = record.answer;
        if (this.#byStream.get(streamId) !== session) return;
        this.#byStream.delete(streamId);
        const left = session.closed().finally(() => {
          if (this.#leaving.get(streamId) === left) this.#leaving.delete(streamId);
        });
        this.#leaving.set(streamId, left);
        parts.tasks.run(left);
        // Without a reader it ends by itself, and one that rests has none.
        if (session.state.at !== "resting") this.#followed.goOn(record.principal, record.answer, memory);
      },
    };
  }

  get all(): readonly SessionDriver[] {
    return [...this.#byStream.values()];
  }

  /** The principal's session of that stream, when the stream is open here. */
  get(principal: string, streamId: string): SessionDriver | undefined {
    const session = this.#byStream.get(streamId);
    return session?.record.principal === principal && session.stream !== undefined ? session : undefined;
  }

  /** True when a session of that stream is here, open or not. */
  knows(streamId: string): boolean {
    return this.#byStream.has(streamId);
  }

  /** A session whose stream is about to be opened. Throws when its principal may have no more. */
  begin(record: SessionRecord): SessionDriver {
    // The client gets an error that says to retry. A turn that begins now would be paid for and never read.
    if (this.#closing.signal.aborted) throw new HoldfastError("unavailable", "the server is shutting down");
    const { principal } = record;
    const refused = this.#refused
      .values()
      .find(({ state, record: of }) => state.at === "ending" && of.principal === principal);
    if (refused !== undefined) {
      // The server may have room by now: then it lets the next one in.
      refused.stream?.wake();
      throw tooManyOpen();
    }
    const { openStreamsMax } = this.#parts.limits;
    const isFull = this.#byStream.size >= openStreamsMax && this.#openOf(principal) >= openStreamsMax;
    if (isFull && this.#evictOne(principal) === undefined) throw tooManyOpen();
    return this.#add(begin(record));
  }

  #add(state: State, version = NO_ROW): SessionDriver {
    const claim = this.takeovers === undefined ? undefined : { version };
    const session = new SessionDriver(this.#context, state, claim);
    this.#byStream.set(state.record.answer.streamId, session);
    return session;
  }

  /** Finds what was open when the process before this one ended. */
  async start(): Promise<void> {
    const { neighbours, tasks } = this.#parts;
    await this.#findOpen();
    const deaf = neighbours?.onGone(() => tasks.run(this.#findOpen()));
    this.#closing.signal.addEventListener("abort", () => deaf?.());
  }

  async #findOpen(): Promise<void> {
    const records = await this.#parts.store.list();
    await this.#orphans?.learn(records);
    for (const record of records) {
      const { state, isBackground = false, principal, answer } = record;
      if (state === "finished") continue;
      if (this.takeovers === undefined) await this.#take(record);
      // Another node may run it, or asks for it first. No request asks for one that is wanted without a reader.
      else if (isBackground) await this.takeovers.takeUp(principal, answer.streamId);
    }
    this.#makeRoom();
    const { openStreamsMax } = this.#parts.limits;
    for (const principal of new Set(this.all.map(({ record }) => record.principal)))
      while (this.#openOf(principal) > openStreamsMax && this.#evictOne(principal) !== undefined);
  }

  /**
   * A client asks for what this stream says after that event, or for its latest answer: if its session sleeps in that answer, it is resumed. An
   * earlier answer is in the log, and does not mean that a client wants the one that was cut off (G7). `say`: of a retry, which can say its results again.
   */
  async wake(principal: string, { streamId, fromEvent }: Place, say?: Saying): Promise<void> {
    await this.takeovers?.takeUp(principal, streamId, { fromEvent, hasResults: say !== undefined });
    const session = this.#byStream.get(streamId);
    if (session?.record.principal !== principal) return;
    if (fromEvent === undefined || fromEvent === session.record.answer.fromEvent) await session.wanted();
    if (this.get(principal, streamId) === session) await say?.(session);
  }

  /** Tool results have come for the session of this record: with its stream open. One that another node has taken since, unheard of here, is let go of. */
  async awake({ principal, answer }: SessionRecord): Promise<SessionDriver | undefined> {
    const session = this.#byStream.get(answer.streamId);
    if (session?.state.at === "parked" && session.record.answer.fromEvent < answer.fromEvent) session.letGo();
    else if (session?.record.principal === principal) await session.woken();
    return this.get(principal, answer.streamId);
  }

  /** A session that this process has the record of. */
  async #take(record: SessionRecord, version?: number): Promise<SessionDriver> {
    await this.#leaving.get(record.answer.streamId);
    const [state, effects] = find(record);
    const session = this.#add(state, version);
    await session.carryOut(effects);
    // The process before this one had no time to end it.
    if (await this.#parts.stops.has(record.responses)) session.stop();
    return session;
  }

  /** What another node generates, to be read here; undefined when none does. */
  async followed(principal: string, answer: AnswerRef, say?: Saying): Promise<AnswerMemory | undefined> {
    const isElsewhere = await this.takeovers?.isElsewhere(principal, answer);
    return isElsewhere === true ? this.#followed.of(principal, answer, say) : undefined;
  }

  /** The answer is under way, here or at another node. */
  async isUnderWay(principal: string, answer: AnswerRef): Promise<boolean> {
    const isHere = this.#of(principal).some(({ record }) => record.answer.responseId === answer.responseId);
    return isHere || (await this.takeovers?.isElsewhere(principal, answer)) === true;
  }

  /** A model call of that stream is held beside this starting server. */
  async continueHeld(principal: string, streamId: string, name: string): Promise<void> {
    await this.takeovers?.takeUp(principal, streamId);
    const session = this.#byStream.get(streamId);
    if (session?.record.principal === principal) await session.held(name);
  }

  /**
   * The user's wish, for whatever the stream says or for the answer that begins after an event. Resolves when it is durable; rejects when
   * this principal has no such stream.
   */
  async stop(principal: string, streamId: string, fromEvent?: number): Promise<void> {
    // Another node may have taken one that rests: then it is stopped there.
    if (this.#byStream.get(streamId)?.state.at === "resting")
      await this.takeovers?.takeUp(principal, streamId);
    const session = this.#byStream.get(streamId);
    if (session?.record.principal === principal) {
      const isMeant = fromEvent === undefined || session.record.answer.fromEvent === fromEvent;
      if (isMeant) await session.feed({ kind: "end", why: "stopped" });
      if (!isMeant || !session.isFenced) return;
    }
    if (this.takeovers !== undefined && fromEvent !== undefined) {
      const record = await this.#parts.store.byStream(principal, streamId);
      if (record !== undefined && record.answer.fromEvent !== fromEvent) return;
    }
    const client = this.#parts.clientOf(principal);
    const reader = await client.abort(streamId);
    // A gateway that closes does not wait for the server.
    const leave = (): void => reader.leave();
    this.#closing.signal.addEventListener("abort", leave);
    if (this.#closing.signal.aborted) leave();
    await reader.ended;
    this.#closing.signal.removeEventListener("abort", leave);
    const { failure } = reader.status;
    if (failure !== undefined && failure.code !== "stream_ended")
      throw new HoldfastError(failure.code, failure.message);
  }

  /**
   * The user's wish: the conversation that the stream is a turn of is deleted, with its sessions and the answers that retries would get. What is under way is stopped. Rejects with
   * `not_found` when this principal has no session of that stream any more.
   */
  async forgetConversation(principal: string, streamId: string): Promise<void> {
    const { store } = this.#parts;
    const named = this.#byStream.get(streamId)?.record ?? (await store.byStream(principal, streamId));
    if (named?.principal !== principal)
      throw new HoldfastError("not_found", "there is no conversation with such a stream");
    await this.#forget(named);
  }

  /** Those of the sessions that are open here. */
  async stopAll(isMeant: (record: SessionRecord) => boolean): Promise<void> {
    const open = this.all.filter(({ record }) => isMeant(record));
    await Promise.all(open.map((session) => session.feed({ kind: "end", why: "stopped" })));
    await Promise.all(open.map((session) => session.closed()));
  }

  async #forget({ principal, conversationId }: SessionRecord): Promise<void> {
    const { store, clientOf } = this.#parts;
    const isMeant = (record: SessionRecord): boolean =>
      record.principal === principal && record.conversationId === conversationId;
    await this.stopAll(isMeant);
    for (const record of (await store.list()).filter(isMeant)) {
      const { state, answer } = record;
      // Another node runs it, or waits for its results: the missing row fences that one, and it hears of the stream's end.
      if (state !== "finished" && this.takeovers !== undefined) await this.stop(principal, answer.streamId);
      await store.remove(record, { withResponses: true });
    }
    const blobs = await clientOf(principal).conversation({ id: conversationId, keepMs: 0 });
    await blobs.forget();
  }

  /** Lets go of everything; the next start finds it again. After that nothing here asks the disk. */
  async close(): Promise<void> {
    const { tasks } = this.#parts;
    this.#closing.abort();
    tasks.closing();
    // A request that was accepted may still begin a session, and one that is let go leaves something to do.
    while (this.#byStream.size > 0 || !tasks.isIdle) {
      const open = this.all;
      await Promise.all(open.map((session) => session.feed({ kind: "leave" })));
      await Promise.all(open.map((session) => session.closed()));
      await tasks.done();
    }
  }

  /** When the server has no room for a new stream of the principal, a session that no client reads makes it, or the new one is refused. */
  admit(session: SessionDriver): void {
    const stop = session.stream?.watch(({ durability, trouble }) => {
      if (durability !== undefined) stop?.();
      else if (trouble?.code === "overloaded") this.#parts.tasks.run(this.#makeRoomAtServer(session));
    });
  }

  async #makeRoomAtServer(session: SessionDriver): Promise<void> {
    if (!isCounted(session.state)) return;
    const evicted = this.#evictOne(session.record.principal);
    if (evicted === undefined) {
      this.#refused.add(session);
      return session.feed({ kind: "end", why: "no_room" });
    }
    await evicted.stream?.ended;
    session.stream?.wake();
  }

  #of(principal: string): readonly SessionDriver[] {
    return this.all.filter(({ record }) => record.principal === principal);
  }

  #openOf(principal: string): number {
    return this.#of(principal).filter(({ state }) => isCounted(state)).length;
  }

  /** Ends the session of the principal that can be spared best; undefined when none can. */
  #evictOne(principal: string): SessionDriver | undefined {
    const isAwake = ({ state }: SessionDriver): number => (state.at === "sleeping" ? 0 : 1);
    const [oldest] = this.#of(principal)
      .filter(({ state }) => canMakeRoom(state))
      .toSorted((a, b) => isAwake(a) - isAwake(b) || a.record.updatedMs - b.record.updatedMs);
    if (oldest !== undefined) this.#evict(oldest);
    return oldest;
  }

  #evict(session: SessionDriver): void {
    this.#parts.tasks.run(session.feed({ kind: "end", why: "evicted" }));
  }

  get #waiting(): readonly ParkedSession[] {
    const waiting = this.all.filter(({ state }) => isWaiting(state));
    return waiting.map((session) => {
      const { principal, updatedMs: sinceMs, historyBytes } = session.record;
      const bytes = parkedBytes(historyBytes, session.state.at === "resting");
      return { session, principal, sinceMs, bytes, canGo: canMakeRoom(session.state) };
    });
  }

  /** Those that wait for tool results, and what they hold. */
  get parked(): { readonly count: number; readonly bytes: number } {
    const waiting = this.#waiting;
    return { count: waiting.length, bytes: waiting.reduce((sum, { bytes }) => sum + bytes, 0) };
  }

  /** Ends those that there is no room for beside a session that begins to wait. */
  #makeRoom(newcomer?: SessionDriver, isBack = false): void {
    const about = newcomer && newcomerOf(newcomer.record, isBack);
    const others = this.#waiting.filter(({ session }) => session !== newcomer);
    const crowd = crowdedOut(others, about, this.#parts.limits.parkedBytesMax);
    for (const { session } of crowd) this.#evict(session);
  }

  /** Its API key may have no more that wait, and the one that has waited longest may be at another node. */
  async #makeRoomElsewhere(shared: SharedLimits, { record }: SessionDriver): Promise<void> {
    const { principal, answer } = record;
    // Its record is being saved: places are judged by records.
    await Promise.resolve();
    await this.#context.writes.run(answer.streamId, async () => undefined);
    for (let oldest; (oldest = await shared.parking(record)) !== undefined;) {
      await this.get(principal, oldest)?.feed({ kind: "end", why: "evicted" });
      if ((await this.takeovers?.evict(principal, oldest)) === true) await this.stop(principal, oldest);
    }
  }

  /** Whatever waits for results is here: the disk is asked only about what does not. */
  async byTool(principal: string, toolId: string): Promise<SessionRecord | undefined> {
    const waiting = this.#of(principal).find((session) => this.#waitsFor(session, toolId));
    return waiting?.record ?? this.#parts.store.byTool(principal, toolId);
  }

  /** Judged by the clock, as its rows are: a machine that slept has missed the timer. */
  #waitsFor({ state, record }: SessionDriver, toolId: string): boolean {
    const { environment, limits } = this.#parts;
    if (!isCounted(state) || environment.now() - record.updatedMs >= limits.sessionTtlMs) return false;
    return record.pending.some((call) => call.toolId === toolId);
  }

  /** What a start still reads from logs may be what is asked for. */
  async byLineage(...named: Parameters<SessionLookup["byLineage"]>): Promise<SessionRecord | undefined> {
    for (const session of this.#of(named[0])) await session.looked();
    return this.#parts.store.byLineage(...named);
  }
}
