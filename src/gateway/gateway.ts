/**
 * The gateway: OpenAI's requests on one side, Holdfast's streams on the other.
 *
 * Each request is matched to a session or becomes a stream of its own, with its full history. The answer is what the stream says
 * from there to its next pause. An HTTP connection is only a reader of it: it may break, and the client may read the rest on another one.
 *
 * Invariant: a session that a request does not match is not touched by it.
 */
import { AnswerLog, CATCH_UP_MS } from "./answer-log.ts";
import { type AnswerRef, answerRef, responseOf } from "./answer-ref.ts";
import { BackgroundTasks } from "./background-tasks.ts";
import { type GatewayCounters, gatewayMetrics, newGatewayCounters } from "./counters.ts";
import { eraseRows, type Erasing } from "./erasing.ts";
import { GivenAnswers } from "./given-answers.ts";
import type { Answer, ChatCall, EventsCall, GatewayAnswers, KeyedCall, StopCall } from "./http/answers.ts";
import { ContinuedTurns } from "./continued-turns.ts";
import { contextOf, type Facts, type FreshReason, type Match, matchRequest } from "./matching.ts";
import { KeptConversations } from "./kept-conversations.ts";
import { KeptResponses } from "./kept-responses.ts";
import { LeftStreams, type Opening } from "./left-streams.ts";
import { Names } from "./names.ts";
import { uncontested } from "./neighbours.ts";
import { lineageOf, type ListedModel } from "./openai/index.ts";
import { GATEWAY_LIMITS, type GatewayLimits, type GatewayOptions } from "./options.ts";
import { noMessages, noModel } from "./refusals.ts";
import { type Beginning, type BegunTurn, turnRequest } from "./requests.ts";
import { ResponseAnswers } from "./response-answers.ts";
import { type NamedCall, Retries } from "./retries.ts";
import { Returns } from "./returns.ts";
import { saying } from "./said-results.ts";
import { SealedRows } from "./sealed-rows.ts";
import { canTake, isCounted } from "./session.ts";
import type { SessionDriver } from "./session-driver.ts";
import { checkpointOf, newSession, type OpenSession, type SessionRecord } from "./session-record.ts";
import { SharedLimits } from "./shared-limits.ts";
import { mayAsk, payerOf } from "./spending.ts";
import { SessionStore } from "./session-store.ts";
import { Sessions } from "./sessions.ts";
import { Stops } from "./stops.ts";
import { wantedBy, type WantedParts } from "./wanted.ts";
import type { TableWrite } from "../store/table-store.ts";

const ROWS_PER_SWEEP = 1_000;

/** The session is there, and does not wait. */
const MET: ReadonlySet<FreshReason> = new Set<FreshReason>(["not_waiting", "busy", "lost"]);

export class Gateway implements GatewayAnswers {
  readonly counters: GatewayCounters = newGatewayCounters();
  readonly #options: GatewayOptions;
  readonly #limits: GatewayLimits;
  readonly #given: GivenAnswers;
  readonly #retries: Retries;
  readonly #sessions: Sessions;
  readonly #left: LeftStreams;
  readonly #tasks: BackgroundTasks;
  readonly #log: AnswerLog;
  readonly #returns: Returns;
  readonly #names: Names;
  readonly #turns: ContinuedTurns;
  readonly #rows: SealedRows;
  /** Limits that hold over all nodes; undefined where no other node shares the tables. */
  readonly shared: SharedLimits | undefined;
  readonly #wanting: WantedParts;
  /** By their ids. */
  readonly responses: ResponseAnswers;

  constructor(options: GatewayOptions) {
    const { tables, sealer, onBug, clientOf, environment, workspace, held, neighbours } = options;
    this.#options = options;
    this.#limits = { ...GATEWAY_LIMITS, ...options.limits };
    const { graceMs } = this.#limits;
    // With reuse off only retries ask for a session again.
    const sessionTtlMs = options.isReusing === false ? graceMs : this.#limits.sessionTtlMs;
    const conversationMs = Math.max(this.#limits.conversationMs, sessionTtlMs);
    const limits = { ...this.#limits, sessionTtlMs, conversationMs };
    const names = new Names(options.secret, options.thoughts);
    const rows = new SealedRows({ tables, sealer, onDamaged: onBug, environment });
    const isShared = neighbours !== undefined;
    const tasks = new BackgroundTasks(onBug, isShared);
    const now = (): number => environment.now();
    const given = new GivenAnswers({ rows, names, now, neighbours });
    const onRemoved = neighbours && ((record: SessionRecord) => this.shared?.removed(record));
    const store = new SessionStore({ rows, given, names, ttlMs: sessionTtlMs, onRemoved });
    const sharing = { rows, names, store, tasks, environment };
    this.shared = neighbours && new SharedLimits({ ...sharing, neighbours });
    const { counters } = this;
    const left = new LeftStreams({ ...options, isKnown: (id) => this.#sessions.knows(id) });
    [this.#names, this.#left, this.#tasks, this.#given, this.#rows] = [names, left, tasks, given, rows];
    const stops = new Stops(rows, this.#limits.patienceMaxMs + sessionTtlMs);
    const keeping = { rows, names, limits: this.#limits };
    const kept = new KeptResponses({ ...keeping, now });
    const response: ResponseAnswers["find"] = (...named) => this.responses.find(...named);
    const conversations = new KeptConversations({ ...keeping, environment, response });
    const found = { given, kept, stops, names };
    this.#retries = new Retries({ ...found, conversations, left, limits: this.#limits, tasks, environment });
    this.#log = new AnswerLog({ clientOf, names, environment, held, isShared });
    const parts = { ...found, clientOf, workspace, onBug, store, neighbours, shared: this.shared };
    this.#sessions = new Sessions({ ...parts, limits, environment, counters, tasks, held });
    const [sessions, retries, log] = [this.#sessions, this.#retries, this.#log];
    const returns = new Returns({ sessions, store, retries, log, now });
    this.#returns = returns;
    this.#wanting = { limits: this.#limits, sessions, shared: this.shared };
    this.#turns = new ContinuedTurns({ ...this.#wanting, sessions, retries, returns, counters, now });
    this.responses = new ResponseAnswers({ kept, sessions, returns, log, conversations });
  }

  /** Takes up what was open when the process ended, as far as it is wanted. */
  async start(): Promise<void> {
    await this.#given.learn();
    await this.#sessions.start();
    this.#left.learn();
  }

  /** Lets go of everything; the next start takes it up again. After that the gateway asks the disk nothing more. */
  async close(): Promise<void> {
    await this.#sessions.close();
    await this.#rows.flush().catch(this.#options.onBug);
  }

  /** Deletes expired sessions and responses. */
  async cleanUp(): Promise<void> {
    this.#given.forgetEnded();
    const sweep = async (): Promise<void> => {
      while ((await this.#options.tables.sweep(ROWS_PER_SWEEP)) === ROWS_PER_SWEEP);
    };
    return this.#awaited(sweep());
  }

  get sessions(): readonly OpenSession[] {
    return this.#sessions.all.map(({ record, state: { at } }) =>
      at === "sleeping" ? { ...record, state: at } : record,
    );
  }

  /** Responses in progress. */
  get readers(): number {
    return this.#sessions.all.reduce((sum, { memory }) => sum + memory.readers, 0);
  }

  metrics(): string {
    const generating = this.sessions.filter(({ state }) => state === "generating").length;
    return gatewayMetrics(this.counters, this.#sessions.parked, generating);
  }

  models(): readonly ListedModel[] {
    return this.#options.models();
  }

  modelId(name: string): string | undefined {
    return this.#options.resolveModel(name);
  }

  chat(asked: ChatCall): Promise<Answer> {
    return this.#awaited(
      this.#retries.inTurn(asked, (call) =>
        uncontested(async () => (await this.#earlier(call)) ?? this.#answer(call)),
      ),
    );
  }

  /** `close` waits for the work. What goes wrong is its caller's to know. */
  #awaited<Result>(work: Promise<Result>): Promise<Result> {
    this.#tasks.run(work.catch(() => undefined));
    return work;
  }

  async #answer(call: NamedCall): Promise<Answer> {
    const model = this.modelId(call.request.model);
    if (model === undefined) throw noModel(call.request.model);
    for (const name of call.request.fallbacks) if (this.modelId(name) === undefined) throw noModel(name);
    const facts: Facts = {
      principal: call.principal,
      model,
      context: contextOf(call.request, call.door),
      lineage: lineageOf(call.request.messages),
      request: call.request,
    };
    const match = await this.#match(facts);
    const { spending } = this.#options;
    if (call.tokensPerDay !== undefined) await mayAsk(spending, payerOf(call));
    switch (match.kind) {
      case "results":
        if (spending !== undefined) await this.#charge(call, match.session.answer.streamId);
        return (await this.#turns.continue(call, facts, match)) ?? this.#fresh(call, facts, "lost");
      case "next_turn": {
        const { session, messages } = match;
        this.counters.continuedConversations++;
        return this.#open(call, facts, { session, messages });
      }
      case "fresh":
        return this.#fresh(call, facts, match.reason);
    }
  }

  /** Before the model is asked for this request. */
  async #charge(call: NamedCall, streamId: string): Promise<void> {
    const { principal } = call;
    await this.#options.spending?.charge({ principal, idempotencyKey: streamId }, payerOf(call));
  }

  async #match(facts: Facts): Promise<Match> {
    if (this.#options.isReusing === false) return { kind: "fresh", reason: "reuse_off" };
    const match = await matchRequest(this.#sessions, facts);
    if (match.kind !== "results") return match;
    const session = await this.#sessions.awake(match.session);
    const { takeovers } = this.#sessions;
    if (session === undefined && takeovers === undefined) return { kind: "fresh", reason: "lost" };
    if (match.session.steps >= this.#limits.turnStepsMax) return { kind: "fresh", reason: "long_turn" };
    // It waits at another node, or was not asked for since its node died.
    if (session === undefined) return match;
    // After a restart the stream is still being read back.
    if (canTake(session.state, match.session)) await session.until(() => session.isPaused, CATCH_UP_MS);
    return session.isPaused && canTake(session.state, match.session)
      ? match
      : { kind: "fresh", reason: "busy" };
  }

  async #fresh(call: NamedCall, facts: Facts, reason: FreshReason): Promise<Answer> {
    // Another node may have taken the same request between the two looks at the tables; what it has written is there together.
    const met = this.#sessions.takeovers !== undefined && MET.has(reason) && (await this.#earlier(call));
    if (met) return met;
    this.counters.fresh.set(reason, (this.counters.fresh.get(reason) ?? 0) + 1);
    const { messages, system } = call.request;
    if (messages.length === 0 && system === "") throw noMessages();
    return this.#open(call, facts, { session: undefined, messages });
  }

  /** A stream for the next turn, if the principal may have one more. */
  async #open(call: NamedCall, facts: Facts, { session: before, messages }: Beginning): Promise<Answer> {
    const { principal, model, context, lineage, request } = facts;
    const { environment, workspace } = this.#options;
    const opening = await this.#left.opening(principal, call.names);
    const [{ streamId }, createdMs] = [opening, environment.now()];
    let session: SessionDriver | undefined;
    try {
      const record = newSession({
        principal,
        model,
        conversationId: before?.conversationId ?? this.#names.conversation(streamId),
        answer: answerRef(
          { streamId, model, fromEvent: 0, includeUsage: request.includeUsage, door: call.door ?? "chat" },
          createdMs,
        ),
        context,
        requestHead: lineage.whole,
        parkedMax: call.parkedMax,
        ...(await wantedBy(this.#wanting, call, streamId)),
        historyBytes: call.bodyBytes,
        responses: [],
        checkpoint: before?.checkpoint ?? "",
        owner: this.#sessions.takeovers?.self,
        createdMs,
      });
      // Before another session makes room for it: one that is too large is refused, and ends none.
      const turn = turnRequest({
        request,
        model,
        conversationId: record.conversationId,
        before: checkpointOf(record),
        messages,
        openThought: (token) => this.#names.thoughts.open(principal, token),
        ownKinds: workspace?.kinds ?? [],
      });
      session = this.#sessions.begin(record);
      return await this.#begin(call, session, opening, turn, before?.answer);
    } catch (cause) {
      // Does nothing to a session whose stream was opened.
      void session?.feed({ kind: "unopened" });
      if (session?.stream === undefined) this.#left.giveBack(opening);
      throw cause;
    }
  }

  async #begin(
    call: NamedCall,
    session: SessionDriver,
    opening: Opening,
    { first, large }: BegunTurn,
    before: AnswerRef | undefined,
  ): Promise<Answer> {
    const { signal } = call;
    const { principal, answer } = session.record;
    const [client, { conversation }] = [this.#options.clientOf(principal), session];
    if (large.length > 0) {
      const blobs = await client.conversation(conversation);
      await Promise.all(large.map((bytes) => blobs.put(bytes)));
    }
    const { keys: responses, writes } = await this.#retries.rows(call, answer, before);
    const isShared = this.#sessions.takeovers !== undefined;
    // What another node may have written first decides before anything is generated.
    if (isShared) await this.#claim(session, responses, writes);
    if (call.tokensPerDay !== undefined) await this.#charge(call, answer.streamId);
    const stream = await opening.open(client, { first, conversation }).catch(async (cause: unknown) => {
      if (isShared) await session.feed({ kind: "lost" });
      throw cause;
    });
    void session.feed({ kind: "opened", responses });
    session.attach(stream);
    this.#sessions.admit(session);
    const { memory } = session;
    const response = this.#returns.respond({ principal, answer, signal, memory }, opening.source);
    try {
      // From here on a retry finds the answer, also after a restart.
      if (!isShared) await session.save(writes);
      else if (await this.#retries.isStopped(call)) session.stop();
    } catch (cause) {
      response.delivered(false);
      throw cause;
    }
    return { ...response, kept: () => session.kept() };
  }

  /** The rows of a session whose stream is about to be opened. Rejects with `fenced` when another node answers this request. */
  async #claim(
    session: SessionDriver,
    responses: readonly string[],
    writes: readonly TableWrite[],
  ): Promise<void> {
    void session.feed({ kind: "opened", responses });
    await session.save(writes).catch((cause: unknown) => {
      void session.feed({ kind: "over" });
      throw cause;
    });
  }

  /** The answer that this request got before, when it is a retry and the answer can still be had. */
  async #earlier(call: NamedCall): Promise<Answer | undefined> {
    const before = await this.#retries.earlier(call);
    if (before === undefined) return undefined;
    const [{ principal, signal }, { fromEvent }, say] = [call, before, saying(call, before)];
    const wasHere = this.#sessions.knows(before.streamId);
    const session = await this.#returns.awake(principal, before, say);
    // A retry may ask for the usage where the request before did not.
    const answer = { ...before, includeUsage: call.request.includeUsage };
    // The log of one that is ending says how: a process that died may have given it up before.
    const isLive = session !== undefined && isCounted(session.state);
    const isHere = isLive && session.memory.fromEvent === fromEvent && session.memory.holds(fromEvent);
    const memory = isHere ? session.memory : await this.#sessions.followed(principal, answer, say);
    if (memory !== undefined) {
      this.counters.attached++;
      return this.#returns.respond({ principal, answer, signal, memory }, "attached");
    }
    const isKept = !wasHere || (await this.#retries.isKept(call, before));
    const read = isKept ? this.#log.whole({ principal, answer, signal }) : undefined;
    const whole = await read?.catch((cause: unknown) => {
      // Its client has left without it: the next retry gets it.
      this.#retries.responding(answer).delivered(false);
      throw cause;
    });
    if (whole === undefined) {
      await this.#retries.cannotBeHad(before);
      // An equal request may have got another answer, which can be had. A key means one answer only.
      return call.idempotencyKey === undefined ? this.#earlier(call) : undefined;
    }
    this.counters.replayed++;
    return responseOf(answer, "replayed", whole, this.#retries.responding(answer));
  }

  /** A model call of this stream is held beside the server: if its answer was cut off here, it continues, which pays for nothing twice (G7). */
  continueHeld(principal: string, streamId: string, name: string): Promise<void> {
    return this.#awaited(this.#sessions.continueHeld(principal, streamId, name));
  }

  async events(call: EventsCall): Promise<Answer> {
    const answer = await this.#awaited(this.#returns.resume(call));
    this.counters.resumed++;
    return answer;
  }

  isKnown(call: KeyedCall): Promise<boolean> {
    return this.#awaited(this.#retries.isKnown(call));
  }

  forgetConversation(principal: string, streamId: string): Promise<void> {
    return this.#awaited(this.#sessions.forgetConversation(principal, streamId));
  }

  /** Stops what is open of a principal, and deletes what the tables keep of it; returns how many rows. */
  async erase(which: Pick<Erasing, "principal" | "streamIds" | "isDryRun">): Promise<number> {
    if (!which.isDryRun) await this.#sessions.stopAll(({ principal }) => principal === which.principal);
    await this.#rows.flush();
    const { rows, answers } = await this.#awaited(eraseRows({ ...this.#options, ...which }));
    if (!which.isDryRun) this.#given.forget(answers);
    return rows;
  }

  stop(call: StopCall | KeyedCall): Promise<void> {
    return this.#awaited(this.#returns.stop(call));
  }
}
