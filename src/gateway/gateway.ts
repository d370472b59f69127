/**
 * The gateway: OpenAI's requests on one side, Holdfast's streams on the other.
 *
 * Each request is matched to a session or becomes a stream of its own, with its full history. The answer is what the stream says
 * from there to its next pause. An HTTP connection is only a reader of it: it may break, and come back.
 *
 * Invariant: a session that a request does not match is not touched by it.
 */
import { fromBinary } from "@bufbuild/protobuf";
import { randomBytes } from "node:crypto";
import { HoldfastError } from "../protocol/errors.ts";
import { type ConversationState, ConversationStateSchema } from "../protocol/messages.ts";
import { type GatewayCounters, gatewayMetrics, newGatewayCounters } from "./counters.ts";
import type { Answer, ChatCall, EventsCall, GatewayAnswers, StopCall } from "./http/answers.ts";
import { contextOf, type Facts, type FreshReason, type Match, matchRequest } from "./matching.ts";
import { Names } from "./names.ts";
import {
  type AnswerDelta,
  chainOf,
  completionId,
  freshStart,
  GatewayError,
  type LineMessage,
  type ListedModel,
} from "./openai/index.ts";
import { GATEWAY_LIMITS, type GatewayLimits, type GatewayOptions } from "./options.ts";
import { replayAnswer, type ReplayRange } from "./replay.ts";
import { toolResult, turnRequest, userAction } from "./requests.ts";
import { Session, type SessionContext } from "./session.ts";
import type { AnswerRef, SessionRecord } from "./session-record.ts";
import { type RequestName, SessionStore } from "./session-store.ts";

/** Longer than a stream takes to be read back, shorter than a client waits. */
const CATCH_UP_MS = 5_000;

export class Gateway implements GatewayAnswers {
  readonly counters: GatewayCounters = newGatewayCounters();
  readonly #options: GatewayOptions;
  readonly #limits: GatewayLimits;
  readonly #names: Names;
  readonly #store: SessionStore;
  readonly #now: () => number;
  readonly #sessionContext: SessionContext;
  /** By stream: the sessions whose turn is open. */
  readonly #live = new Map<string, Session>();

  constructor(options: GatewayOptions) {
    this.#options = options;
    this.#limits = { ...GATEWAY_LIMITS, ...options.limits };
    this.#names = new Names(options.secret);
    this.#now = options.now ?? Date.now;
    const { tables, sealer, onBug } = options;
    const { graceMs, sessionTtlMs } = this.#limits;
    this.#store = new SessionStore({ tables, sealer, names: this.#names, ttlMs: sessionTtlMs });
    this.#sessionContext = {
      store: this.#store,
      names: this.#names,
      graceMs,
      sessionTtlMs,
      now: this.#now,
      onBug,
      onParked: (session) => this.#makeRoom(session),
      onAbandoned: (session) => this.#giveUp(session, "abandoned"),
      onExpired: (session) => this.#giveUp(session, "expired"),
      onOver: (session) => this.#live.delete(session.record.answer.streamId),
    };
  }

  /** Takes up every session whose turn was open when the process ended. */
  async start(): Promise<void> {
    for (const record of await this.#store.list()) {
      if (record.state === "finished") continue;
      const { client, blobs } = this.#options.clientOf(record.principal);
      try {
        const stream = await client.resume(record.answer.streamId);
        this.#add(new Session(this.#sessionContext, record, { stream, blobs }));
      } catch (cause) {
        // Its stream is gone; the client will be answered by a fresh one.
        if (!(cause instanceof HoldfastError)) this.#options.onBug(cause);
        await this.#store.remove(record);
      }
    }
  }

  /** Lets go of everything; the next start takes it up again. */
  async close(): Promise<void> {
    for (const session of this.#live.values()) session.leave();
    await Promise.all([...this.#live.values()].map((session) => session.turn.stream.ended));
  }

  get sessions(): readonly SessionRecord[] {
    return [...this.#live.values()].map(({ record }) => record);
  }

  metrics(): string {
    const count = (state: SessionRecord["state"]): number =>
      this.sessions.filter((record) => record.state === state).length;
    return gatewayMetrics(this.counters, count("parked"), count("generating"));
  }

  models(): readonly ListedModel[] {
    return this.#options.models();
  }

  async chat(call: ChatCall): Promise<Answer> {
    const earlier = await this.#earlier(call);
    if (earlier !== undefined) return earlier;
    const model = this.#options.resolveModel(call.request.model);
    if (model === undefined) throw noModel(call.request.model);
    const facts: Facts = {
      principal: call.principal,
      model,
      context: contextOf(call.request),
      request: call.request,
    };
    const match = await this.#match(facts);
    switch (match.kind) {
      case "results":
        return (await this.#continueTurn(call, match)) ?? this.#fresh(call, facts, "busy");
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
    const match = await matchRequest(this.#store, facts);
    if (match.kind !== "results") return match;
    const session = this.#live.get(match.session.answer.streamId);
    if (session === undefined) return { kind: "fresh", reason: "lost" };
    // After a restart the stream is still being read back.
    await session.turn.paused(CATCH_UP_MS);
    return session.isBusy || !session.turn.isPaused ? { kind: "fresh", reason: "busy" } : match;
  }

  /** The tool results go into the open stream, and its answer goes on. Undefined when somebody else was faster. */
  async #continueTurn(
    call: ChatCall,
    match: Extract<Match, { kind: "results" }>,
  ): Promise<Answer | undefined> {
    const { results, said } = match;
    const session = this.#live.get(match.session.answer.streamId);
    if (session === undefined || session.isBusy || session.record.state !== "parked") return undefined;
    session.isBusy = true;
    try {
      const { stream } = session.turn;
      const context = { options: call.request.options, upload: (bytes: Uint8Array) => stream.putBlob(bytes) };
      const bodies = await Promise.all(results.map(([pending, line]) => toolResult(pending, line, context)));
      const fromEvent = session.turn.lastEvent;
      session.turn.beginAnswer(fromEvent);
      // The user's words first: the model is asked again as soon as the last result is there.
      if (said !== undefined) void stream.send(userAction(said));
      await Promise.all(bodies.map((body) => stream.send(body)));
      const answer = this.#newAnswer(session.record.answer.streamId, session.record.model, fromEvent);
      const requestHead = chainOf(call.request.messages);
      const generating: SessionRecord = {
        ...session.record,
        state: "generating",
        answer,
        requestHead,
        head: "",
        pending: [],
      };
      session.record = { ...generating, updatedMs: this.#now() };
      await this.#saveAnswer(call, session.record);
      this.counters.continuedTurns++;
      return this.#reading(call, session);
    } finally {
      session.isBusy = false;
    }
  }

  async #fresh(call: ChatCall, facts: Facts, reason: FreshReason): Promise<Answer> {
    this.counters.fresh.set(reason, (this.counters.fresh.get(reason) ?? 0) + 1);
    const { history, said } = freshStart(call.request.messages);
    const messages: readonly LineMessage[] = said === undefined ? history : [...history, said];
    if (messages.length === 0) throw noMessages();
    return this.#open(call, facts, { session: undefined, messages });
  }

  /** A stream for the next turn: of a conversation that is there, or of a new one. */
  async #open(
    call: ChatCall,
    { principal, model, context, request }: Facts,
    {
      session,
      messages,
    }: { readonly session: SessionRecord | undefined; readonly messages: readonly LineMessage[] },
  ): Promise<Answer> {
    const { client, blobs } = this.#options.clientOf(principal);
    const conversationId = session?.conversationId ?? randomBytes(16).toString("hex");
    const before = session === undefined ? undefined : decodeState(session.checkpoint);
    const first = await turnRequest(blobs, { request, model, conversationId, before, messages });
    const idempotencyKey = randomBytes(16).toString("hex");
    const stream = await client.open({ idempotencyKey, first, isFresh: true });
    const now = this.#now();
    const record: SessionRecord = {
      sessionId: randomBytes(16).toString("hex"),
      principal,
      model,
      conversationId,
      state: "generating",
      answer: this.#newAnswer(idempotencyKey, model, 0),
      context,
      requestHead: chainOf(request.messages),
      head: "",
      pending: [],
      checkpoint: session?.checkpoint ?? "",
      createdMs: now,
      updatedMs: now,
    };
    const live = this.#add(new Session(this.#sessionContext, record, { stream, blobs }));
    const answer = this.#reading(call, live);
    await this.#saveAnswer(call, record);
    return answer;
  }

  #newAnswer(streamId: string, model: string, fromEvent: number): AnswerRef {
    const responseId = completionId(`${streamId} ${fromEvent}`);
    return { responseId, createdSeconds: Math.floor(this.#now() / 1_000), fromEvent, streamId, model };
  }

  /** From here on a retry finds the answer, also after a restart. */
  async #saveAnswer(call: ChatCall, record: SessionRecord): Promise<void> {
    const { graceMs, idempotencyTtlMs } = this.#limits;
    const { bodyHash, idempotencyKey: key, principal } = call;
    const response = { answer: record.answer, bodyHash, sessionId: record.sessionId, isRetried: false };
    const writes = [this.#store.responseWrite({ kind: "body", principal, bodyHash }, response, 2 * graceMs)];
    if (key !== undefined) {
      writes.push(
        this.#store.responseWrite({ kind: "idempotency", principal, key }, response, idempotencyTtlMs),
      );
    }
    await this.#store.save(record, await Promise.all(writes));
  }

  /** The answer that an identical request got, when this one is a retry of it. */
  async #earlier(call: ChatCall): Promise<Answer | undefined> {
    const { principal, bodyHash, idempotencyKey: key } = call;
    if (key !== undefined) {
      const response = await this.#store.response({ kind: "idempotency", principal, key });
      if (response === undefined) return undefined;
      if (response.bodyHash !== bodyHash) throw keyUsedTwice();
      return this.#again(call, response.answer);
    }
    const name: RequestName = { kind: "body", principal, bodyHash };
    const response = await this.#store.response(name);
    if (response === undefined || response.isRetried) return undefined;
    // Somebody still reads that answer: this is another request that says the same.
    const session = this.#live.get(response.answer.streamId);
    if ((session?.turn.readers ?? 0) > 0) return undefined;
    await this.#store.saveResponse(name, { ...response, isRetried: true }, 2 * this.#limits.graceMs);
    return this.#again(call, response.answer);
  }

  #again(call: ChatCall, answer: AnswerRef): Answer {
    const session = this.#live.get(answer.streamId);
    if (session?.turn.fromEvent === answer.fromEvent && !session.turn.hasDiverged) {
      this.counters.attached++;
      return this.#reading(call, session);
    }
    this.counters.replayed++;
    const { streamId, fromEvent } = answer;
    const deltas = this.#replay(call.principal, { streamId, fromEvent, seenThrough: fromEvent });
    return {
      streamId,
      head: headOf(answer, call),
      deltas,
      delivered: (isWhole) => this.#delivered(call, isWhole),
    };
  }

  #reading(call: ChatCall, { turn, record }: Session): Answer {
    const { answer } = record;
    return {
      streamId: answer.streamId,
      head: headOf(answer, call),
      deltas: turn.read(),
      delivered: (isWhole) => this.#delivered(call, isWhole),
    };
  }

  /** What arrived whole is not asked for again by a retry; the next identical request wants another answer. */
  #delivered({ principal, bodyHash }: ChatCall, isWhole: boolean): void {
    if (!isWhole) return;
    this.#store.removeResponse({ kind: "body", principal, bodyHash }).catch(this.#options.onBug);
  }

  async events({ principal, streamId, lastEventId }: EventsCall): Promise<Answer> {
    const answer = this.#live.get(streamId)?.record.answer ?? this.#newAnswer(streamId, "", 0);
    const head = {
      id: answer.responseId,
      createdS: answer.createdSeconds,
      model: answer.model,
      includeUsage: true,
    };
    const session = this.#live.get(streamId);
    const isLive =
      session?.record.principal === principal &&
      lastEventId >= session.turn.fromEvent &&
      !session.turn.hasDiverged;
    const deltas = isLive
      ? session.turn.read(lastEventId)
      : this.#replay(principal, { streamId, fromEvent: undefined, seenThrough: lastEventId });
    return { streamId, head, deltas, delivered: () => undefined };
  }

  #replay(principal: string, range: ReplayRange): AsyncGenerator<AnswerDelta> {
    const { client, blobs } = this.#options.clientOf(principal);
    // What the pump has not made durable yet is not told to anybody.
    const settled = async (eventId: number): Promise<void> =>
      this.#live.get(range.streamId)?.turn.told(eventId);
    return replayAnswer({ client, blobs, names: this.#names, settled }, range);
  }

  async stop({ principal, streamId }: StopCall): Promise<void> {
    const session = this.#live.get(streamId);
    if (session?.record.principal === principal) return session.stop();
    const { client } = this.#options.clientOf(principal);
    const reader = await client.abort(streamId);
    await reader.ended;
    const { failure } = reader.status;
    if (failure !== undefined && failure.code !== "stream_ended")
      throw new HoldfastError(failure.code, failure.message);
  }

  #add(session: Session): Session {
    this.#live.set(session.record.answer.streamId, session);
    return session;
  }

  /** Too many wait: the one that has waited longest ends. */
  #makeRoom(parked: Session): void {
    const { parkedMax, parkedPerPrincipalMax } = this.#limits;
    const waiting = [...this.#live.values()].filter(({ record }) => record.state === "parked");
    const own = waiting.filter(({ record }) => record.principal === parked.record.principal);
    const crowd = own.length > parkedPerPrincipalMax ? own : waiting.length > parkedMax ? waiting : [];
    const [oldest] = crowd.toSorted((a, b) => a.record.updatedMs - b.record.updatedMs);
    if (oldest !== undefined && oldest !== parked) this.#giveUp(oldest, "evicted");
  }

  #giveUp(session: Session, why: "evicted" | "expired" | "abandoned"): void {
    this.counters[why]++;
    session.stop().catch(this.#options.onBug);
  }
}

function headOf(answer: AnswerRef, { request }: ChatCall): Answer["head"] {
  const { responseId: id, createdSeconds: createdS, model } = answer;
  return { id, createdS, model, includeUsage: request.includeUsage };
}

function decodeState(checkpoint: string): ConversationState | undefined {
  return checkpoint === ""
    ? undefined
    : fromBinary(ConversationStateSchema, Buffer.from(checkpoint, "base64"));
}

function noModel(name: string): GatewayError {
  const message = `There is no model "${name}". GET /v1/models lists those that there are.`;
  return new GatewayError({
    status: 404,
    type: "invalid_request_error",
    code: "model_not_found",
    param: "model",
    message,
  });
}

function noMessages(): GatewayError {
  const message = "messages has nothing to answer: say something as the user.";
  return new GatewayError({ status: 400, type: "invalid_request_error", param: "messages", message });
}

function keyUsedTwice(): GatewayError {
  const message = "This Idempotency-Key was used for another request: use a new one for a new request.";
  return new GatewayError({
    status: 409,
    type: "invalid_request_error",
    code: "idempotency_key_reused",
    message,
  });
}
