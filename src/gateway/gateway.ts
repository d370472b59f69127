/**
 * The gateway: OpenAI's requests on one side, Holdfast's streams on the other.
 *
 * Each request is matched to a session or becomes a stream of its own, with its full history. The answer is what the stream says
 * from there to its next pause. An HTTP connection is only a reader of it: it may break, and come back.
 *
 * Invariant: a session that a request does not match is not touched by it.
 */
import type { ClientBlobStore } from "../client/index.ts";
import { HoldfastError } from "../protocol/errors.ts";
import { answerRef, responseOf } from "./answer-ref.ts";
import { cleanUp } from "./clean-up.ts";
import { type GatewayCounters, gatewayMetrics, newGatewayCounters } from "./counters.ts";
import { Errands } from "./errands.ts";
import { FoundSessions } from "./found-sessions.ts";
import { GivenAnswers } from "./given-answers.ts";
import type { Answer, ChatCall, EventsCall, GatewayAnswers, StopCall } from "./http/answers.ts";
import { LiveSessions } from "./live-sessions.ts";
import { contextOf, type Facts, type FreshReason, type Match, matchRequest } from "./matching.ts";
import { Names, newId } from "./names.ts";
import { lineageOf, type LineMessage, type ListedModel } from "./openai/index.ts";
import { GATEWAY_LIMITS, type GatewayLimits, type GatewayOptions } from "./options.ts";
import { Replays, told } from "./replay.ts";
import { LIMITS } from "../protocol/limits.ts";
import { noMessages, noModel } from "./refusals.ts";
import { resumeAnswer, runningAnswer } from "./resumption.ts";
import { Retries } from "./retries.ts";
import { turnRequest } from "./requests.ts";
import { bodiesFor, sayAgain } from "./said-results.ts";
import { SealedRows } from "./sealed-rows.ts";
import type { Environment } from "../transport/environment.ts";
import { Session, type SessionContext } from "./session.ts";
import { newSession, checkpointOf, type SessionRecord } from "./session-record.ts";
import { SessionStore } from "./session-store.ts";

/** Longer than a stream takes to be read back, shorter than a client waits. */
const CATCH_UP_MS = 5_000;

/** Of a conversation that is there, or of a new one. */
interface Beginning {
  readonly session: SessionRecord | undefined;
  readonly messages: readonly LineMessage[];
}

export class Gateway implements GatewayAnswers {
  readonly counters: GatewayCounters = newGatewayCounters();
  readonly #options: GatewayOptions;
  readonly #limits: GatewayLimits;
  readonly #names: Names;
  readonly #store: SessionStore;
  readonly #given: GivenAnswers;
  readonly #retries: Retries;
  readonly #environment: Environment;
  readonly #sessionContext: SessionContext;
  readonly #live: LiveSessions;
  readonly #found: FoundSessions;
  readonly #errands: Errands;
  readonly #replays: Replays;

  constructor(options: GatewayOptions) {
    this.#options = options;
    this.#limits = { ...GATEWAY_LIMITS, ...options.limits };
    this.#names = new Names(options.secret);
    this.#environment = options.environment;
    const { tables, sealer, onBug } = options;
    const { graceMs } = this.#limits;
    // With reuse off nobody comes back to a session, but retries.
    const sessionTtlMs = options.isReusing === false ? graceMs : this.#limits.sessionTtlMs;
    const [names, environment] = [this.#names, this.#environment];
    const rows = new SealedRows({ tables, sealer, onDamaged: onBug });
    const given = new GivenAnswers({ rows, names, now: () => environment.now() });
    this.#given = given;
    this.#store = new SessionStore({ rows, given, names, ttlMs: sessionTtlMs });
    const errands = new Errands(onBug);
    this.#errands = errands;
    this.#retries = new Retries({ given, names, limits: this.#limits, errands, environment });
    const counters = this.counters;
    this.#live = new LiveSessions({ store: this.#store, limits: this.#limits, counters, errands });
    this.#replays = new Replays({
      clientOf: options.clientOf,
      names,
      environment,
      // What the pump has not made durable yet is not told to anybody.
      settled: async (streamId, eventId) => this.#live.get(streamId)?.turn.told(eventId),
    });
    this.#sessionContext = {
      store: this.#store,
      names: this.#names,
      workspace: options.workspace,
      graceMs,
      sessionTtlMs,
      environment,
      onBug,
      onParking: (session) => this.#live.makeRoom(session),
      onAbandoned: (session) => this.#live.giveUp(session, "abandoned"),
      onExpired: (session) => this.#live.giveUp(session, "expired"),
      onOver: (session) => this.#forget(session),
    };
    const { clientOf } = options;
    const [store, live, context] = [this.#store, this.#live, this.#sessionContext];
    this.#found = new FoundSessions({ store, given, live, clientOf, context, counters, errands });
  }

  /** Takes up what was open when the process ended, as far as it is wanted. */
  async start(): Promise<void> {
    await this.#given.learn();
    await this.#found.start();
    this.#live.makeRoom();
  }

  /** Lets go of everything; the next start takes it up again. Behind it nothing here asks the disk any more. */
  async close(): Promise<void> {
    this.#found.close();
    // What was on its way in may still bring a session, and one that is let go leaves something to do.
    while (this.#live.all.length > 0 || !this.#errands.isIdle) {
      const open = this.#live.all;
      for (const session of open) session.leave();
      await Promise.all(open.map(({ turn }) => Promise.all([turn.over, turn.stream.ended])));
      await this.#errands.done();
    }
  }

  /** Now and then: what nobody will ask for again goes. */
  async cleanUp(blobs: ClientBlobStore): Promise<number> {
    this.#given.forgetEnded();
    const { tables } = this.#options;
    return this.#awaited(cleanUp({ tables, store: this.#store, blobs, nowMs: this.#environment.now() }));
  }

  get sessions(): readonly SessionRecord[] {
    return this.#live.all.map(({ record }) => record);
  }

  /** Responses that are being told. */
  get readers(): number {
    return this.#live.all.reduce((sum, { turn }) => sum + turn.readers, 0);
  }

  metrics(): string {
    const generating = this.sessions.filter(({ state }) => state === "generating").length;
    return gatewayMetrics(this.counters, this.#live.parked, generating);
  }

  models(): readonly ListedModel[] {
    return this.#options.models();
  }

  modelId(name: string): string | undefined {
    return this.#options.resolveModel(name);
  }

  chat(call: ChatCall): Promise<Answer> {
    return this.#awaited(
      this.#retries.inTurn(call, async () => (await this.#earlier(call)) ?? this.#answer(call)),
    );
  }

  /** A close waits for it. What goes wrong is its caller's to know. */
  #awaited<Result>(work: Promise<Result>): Promise<Result> {
    this.#errands.run(work.catch(() => undefined));
    return work;
  }

  async #answer(call: ChatCall): Promise<Answer> {
    const model = this.modelId(call.request.model);
    if (model === undefined) throw noModel(call.request.model);
    const facts: Facts = {
      principal: call.principal,
      model,
      context: contextOf(call.request),
      lineage: lineageOf(call.request.messages),
      request: call.request,
    };
    const match = await this.#match(facts);
    switch (match.kind) {
      case "results":
        return (await this.#continueTurn(call, facts, match)) ?? this.#fresh(call, facts, "lost");
      case "next_turn": {
        const { session, messages } = match;
        this.counters.continuedConversations++;
        return this.#open(call, facts, { session, messages });
      }
      case "fresh":
        return this.#fresh(call, facts, match.reason);
    }
  }

  async #match(facts: Facts): Promise<Match> {
    if (this.#options.isReusing === false) return { kind: "fresh", reason: "reuse_off" };
    const match = await matchRequest(this.#live, facts);
    if (match.kind !== "results") return match;
    const session = this.#live.get(match.session.answer.streamId);
    if (session === undefined) return { kind: "fresh", reason: "lost" };
    if (match.session.steps >= this.#limits.turnStepsMax) return { kind: "fresh", reason: "long_turn" };
    // Another process may have said them, and died before it could write that down; told twice they would be heard twice.
    if (match.said.length > 0 && session.isDoubtful) return { kind: "fresh", reason: "lost" };
    // After a restart the stream is still being read back.
    if (session.isWaitingAt(match.session)) await session.turn.paused(CATCH_UP_MS);
    return session.isWaitingAt(match.session) && session.turn.isPaused
      ? match
      : { kind: "fresh", reason: "busy" };
  }

  /** The tool results go into the open stream, and its answer goes on. Undefined when it cannot. */
  async #continueTurn(
    call: ChatCall,
    facts: Facts,
    match: Extract<Match, { kind: "results" }>,
  ): Promise<Answer | undefined> {
    const session = this.#live.get(match.session.answer.streamId);
    if (session === undefined || !session.isWaitingAt(match.session)) return undefined;
    session.isBusy = true;
    try {
      const bodies = await bodiesFor(call, session, match);
      // Results that came in ahead of a crash may have brought it to its end meanwhile.
      if (!session.isWaiting || session.record.head !== match.session.head) return undefined;
      if (session.turn.isOver || bodies.some(({ length }) => length > LIMITS.chunkBytesMax)) return undefined;
      return await this.#sendResults(call, facts, session, bodies, match.said.length > 0);
    } catch (cause) {
      // Whatever ended the stream meanwhile is not the client's affair.
      if (cause instanceof HoldfastError) return undefined;
      throw cause;
    } finally {
      session.isBusy = false;
    }
  }

  /**
   * What the session does now is known before the stream can say anything about it. It is durable before the results are: after a crash in
   * between, their retry finds it and says them again, which does no harm (A8). The user's words would be told twice: they come first.
   */
  async #sendResults(
    call: ChatCall,
    { lineage }: Facts,
    session: Session,
    bodies: readonly Uint8Array[],
    hasWords: boolean,
  ): Promise<Answer> {
    const { stream, lastPause } = session.turn;
    const { model, answer: before } = session.record;
    const { includeUsage } = call.request;
    const answer = answerRef(
      { streamId: before.streamId, model, fromEvent: lastPause, includeUsage },
      this.#environment.now(),
    );
    const { keys, writes } = await this.#retries.rows(call, answer, session.record.sessionId);
    // Its time may have come meanwhile.
    if (!session.isWaiting) throw new HoldfastError("stream_ended", "the session has ended");
    session.isDoubtful = false;
    session.turn.beginAnswer(lastPause);
    session.record = {
      ...session.record,
      state: "generating",
      answer,
      requestHead: lineage.whole,
      head: "",
      pending: [],
      answered: hasWords ? [] : session.record.pending,
      responses: [...keys],
      parkedMax: call.parkedMax,
      historyBytes: call.bodyBytes,
      updatedMs: this.#environment.now(),
    };
    const reading = this.#reading(session);
    try {
      const send = (): Promise<unknown> => Promise.all(bodies.map((body) => stream.send(body)));
      if (hasWords) await send();
      await session.save(writes, hasWords ? {} : { behind: send });
    } catch (cause) {
      reading.delivered(false);
      throw cause;
    }
    this.counters.continuedTurns++;
    return reading;
  }

  async #fresh(call: ChatCall, facts: Facts, reason: FreshReason): Promise<Answer> {
    this.counters.fresh.set(reason, (this.counters.fresh.get(reason) ?? 0) + 1);
    const { messages, system } = call.request;
    if (messages.length === 0 && system === "") throw noMessages();
    return this.#open(call, facts, { session: undefined, messages });
  }

  /** A stream for the next turn, if the principal may have one more. */
  async #open(call: ChatCall, facts: Facts, beginning: Beginning): Promise<Answer> {
    const leaveRoom = this.#live.reserve(facts.principal);
    return this.#begin(call, facts, beginning, leaveRoom).finally(leaveRoom);
  }

  async #begin(
    call: ChatCall,
    { principal, model, context, lineage, request }: Facts,
    { session, messages }: Beginning,
    leaveRoom: () => void,
  ): Promise<Answer> {
    const { client, blobs } = this.#options.clientOf(principal);
    const conversationId = session?.conversationId ?? newId(this.#environment);
    const before = session === undefined ? undefined : checkpointOf(session);
    const ownKinds = this.#options.workspace?.kinds ?? [];
    const turn = { request, model, conversationId, before, messages, ownKinds };
    const { first, kept } = turnRequest(blobs, turn);
    let isLost = false;
    // Whether or not the stream opens: `save` is told as well.
    kept.catch(() => (isLost = true));
    const idempotencyKey = newId(this.#environment);
    const sessionId = newId(this.#environment);
    const { includeUsage } = request;
    const nowMs = this.#environment.now();
    const answer = answerRef({ streamId: idempotencyKey, model, fromEvent: 0, includeUsage }, nowMs);
    const { keys, writes } = await this.#retries.rows(call, answer, sessionId);
    const stream = await client.open({ idempotencyKey, first, isFresh: true });
    const record = newSession({
      sessionId,
      principal,
      model,
      conversationId,
      answer,
      context,
      requestHead: lineage.whole,
      parkedMax: call.parkedMax,
      historyBytes: call.bodyBytes,
      responses: [...keys],
      checkpoint: session?.checkpoint ?? "",
      createdMs: nowMs,
    });
    const live = new Session(this.#sessionContext, record, { stream, blobs, isResumed: false });
    this.#live.add(live);
    leaveRoom();
    this.#live.admit(live);
    const reading = this.#reading(live);
    try {
      // From here on a retry finds the answer, also after a restart, and with it everything that the stream may ask for.
      await live.save(writes, { needed: kept });
    } catch (cause) {
      // Without its history it is a conversation that nothing can go on from: the retry gets another one.
      if (isLost) this.#errands.run(live.stop());
      reading.delivered(isLost);
      throw cause;
    }
    return reading;
  }

  /** The answer that this request got before, when it is a retry and the answer can still be had. */
  async #earlier(call: ChatCall): Promise<Answer | undefined> {
    const before = await this.#retries.earlier(call);
    if (before === undefined) return undefined;
    const { principal, signal } = call;
    const { streamId, fromEvent } = before;
    await this.#found.takeUp(principal, streamId);
    const session = this.#live.get(streamId);
    if (session?.turn.fromEvent === fromEvent) await sayAgain(call, session);
    // Of what the log has of a step that begins anew, nothing is told.
    await session?.turn.caughtUp(CATCH_UP_MS);
    // A retry may ask for the usage where the request before did not.
    const answer = { ...before, includeUsage: call.request.includeUsage };
    const turn = session?.turn.fromEvent === fromEvent && !session.turn.isOver ? session.turn : undefined;
    if (turn !== undefined && (turn.canGoOnFrom(fromEvent) || !turn.isPaused)) {
      this.counters.attached++;
      const parts = { replays: this.#replays, retries: this.#retries };
      return runningAnswer(parts, turn, { principal, answer, seenThrough: fromEvent, signal });
    }
    const range = { streamId, fromEvent, seenThrough: fromEvent };
    const deltas = await this.#replays.whole(principal, range, signal);
    if (deltas === undefined) return undefined;
    this.counters.replayed++;
    return responseOf(answer, told(deltas), this.#retries.responding(answer));
  }

  #reading({ turn, record: { answer } }: Session): Answer {
    return responseOf(answer, turn.read(), this.#retries.responding(answer));
  }

  events(call: EventsCall): Promise<Answer> {
    return this.#awaited(this.#resumed(call));
  }

  async #resumed(call: EventsCall): Promise<Answer> {
    await this.#found.takeUp(call.principal, call.streamId);
    const parts = { live: this.#live, store: this.#store, replays: this.#replays, retries: this.#retries };
    return resumeAnswer({ ...parts, catchUpMs: CATCH_UP_MS, now: () => this.#environment.now() }, call);
  }

  stop({ principal, streamId }: StopCall): Promise<void> {
    const session = this.#live.get(streamId);
    const isOwn = session?.record.principal === principal;
    return this.#awaited(isOwn ? session.stop() : this.#found.stop(principal, streamId));
  }

  /** Its journal has served: what is read again is read from the server's log. */
  #forget(session: Session): void {
    const { record, turn } = session;
    const { streamId } = record.answer;
    this.#live.remove(session);
    // Without an outcome it was let go, and is taken up again.
    const forgotten = turn.stream.ended.then((outcome) =>
      outcome === undefined ? undefined : this.#options.clientOf(record.principal).client.forget(streamId),
    );
    this.#errands.run(forgotten);
  }
}
