/**
 * Continues turns: tool results go into the session that waits for them, whose stream says the next answer.
 *
 * A session that waits at this node takes them itself. One that waits at another node, or that none has asked for since its node died, is taken over by writing the request into
 * its record; then its results are said as after a crash between the two.
 */
import { HoldfastError } from "../protocol/errors.ts";
import { LIMITS } from "../protocol/limits.ts";
import type { TableWrite } from "../store/table-store.ts";
import type { Environment } from "../transport/environment.ts";
import { answerRef } from "./answer-ref.ts";
import type { GatewayCounters } from "./counters.ts";
import type { Answer } from "./http/answers.ts";
import type { Facts, Match } from "./matching.ts";
import type { NamedCall, Retries } from "./retries.ts";
import type { Returns } from "./returns.ts";
import { bodiesFor } from "./said-results.ts";
import { canTake, type TakenResults, withResults } from "./session.ts";
import type { SessionDriver } from "./session-driver.ts";
import type { SessionRecord } from "./session-record.ts";
import type { Sessions } from "./sessions.ts";
import type { Takeovers } from "./takeovers.ts";
import { wantedBy, type WantedParts } from "./wanted.ts";

interface ContinuedTurnsParts extends WantedParts {
  readonly sessions: Sessions;
  readonly retries: Retries;
  readonly returns: Returns;
  readonly counters: GatewayCounters;
  readonly now: Environment["now"];
}

type Results = Extract<Match, { kind: "results" }>;

export class ContinuedTurns {
  readonly #parts: ContinuedTurnsParts;

  constructor(parts: ContinuedTurnsParts) {
    this.#parts = parts;
  }

  /** The tool results go into the open stream, which continues with the next answer. Undefined when it cannot. */
  async continue(call: NamedCall, facts: Facts, match: Results): Promise<Answer | undefined> {
    const { sessions } = this.#parts;
    const { head } = match.session;
    // It may have come to rest since it was looked at.
    const session = await sessions.awake(match.session);
    if (session === undefined && sessions.takeovers !== undefined)
      return this.#adopt(call, facts, match, sessions.takeovers);
    if (session === undefined || !canTake(session.state, match.session)) return undefined;
    void session.feed({ kind: "take" });
    try {
      const bodies = await bodiesFor(call, session, match);
      // Results that came in ahead of a crash may have brought the turn to its end meanwhile.
      if (session.state.at !== "parked" || session.record.head !== head) return undefined;
      if (areTooLarge(bodies)) return undefined;
      return await this.#send(call, facts, session, bodies);
    } catch (cause) {
      return undefinedUnlessFenced(cause);
    } finally {
      void session.feed({ kind: "release" });
    }
  }

  async #adopt(
    call: NamedCall,
    facts: Facts,
    match: Results,
    takeovers: Takeovers,
  ): Promise<Answer | undefined> {
    const { now, returns, counters } = this.#parts;
    const session = await takeovers.adopt(match.session, async (found) => {
      const { results, writes } = await this.#taken(call, facts, found, found.pausedAt ?? 0);
      return { record: withResults(found, results, now()), writes };
    });
    if (session === undefined) throw new HoldfastError("fenced", "another node has taken these results");
    await session.wanted();
    const { memory, record } = session;
    const { principal, answer } = record;
    const response = returns.respond({ principal, answer, signal: call.signal, memory }, "new");
    try {
      const bodies = await bodiesFor(call, session, match);
      if (areTooLarge(bodies)) throw new HoldfastError("too_large", "these results fit no chunk");
      void session.feed({ kind: "repeated" });
      await session.say(bodies);
    } catch (cause) {
      response.delivered(false);
      session.stop();
      return undefinedUnlessFenced(cause);
    }
    counters.continuedTurns++;
    return response;
  }

  /** The request that brings results, as the record of its session has it, and the rows by which its retries find the answer. */
  async #taken(
    call: NamedCall,
    { lineage }: Facts,
    before: SessionRecord,
    fromEvent: number,
  ): Promise<{ readonly results: TakenResults; readonly writes: readonly TableWrite[] }> {
    const { retries, now } = this.#parts;
    const { streamId, door } = before.answer;
    const { parkedMax, bodyBytes: historyBytes, request } = call;
    const { model } = before;
    const { includeUsage } = request;
    const answer = answerRef({ streamId, model, fromEvent, includeUsage, door }, now());
    const { keys: responses, writes } = await retries.rows(call, answer, before.answer);
    const wanted = await wantedBy(this.#parts, call, streamId);
    const results = { answer, requestHead: lineage.whole, responses, parkedMax, ...wanted, historyBytes };
    return { results, writes };
  }

  async #send(
    call: NamedCall,
    facts: Facts,
    session: SessionDriver,
    bodies: readonly Uint8Array[],
  ): Promise<Answer> {
    const { returns, counters } = this.#parts;
    const { memory, record } = session;
    const fromEvent = memory.pausedAt ?? memory.fromEvent;
    const { results, writes } = await this.#taken(call, facts, record, fromEvent);
    // The session may have expired meanwhile.
    if (session.state.at !== "parked") throw new HoldfastError("stream_ended", "the session has ended");
    const said = session.results(results, { bodies, writes });
    const read = { principal: facts.principal, answer: results.answer, signal: call.signal };
    const response = returns.respond({ ...read, memory: session.memory }, "new");
    try {
      await said;
    } catch (cause) {
      response.delivered(false);
      throw cause;
    }
    counters.continuedTurns++;
    return response;
  }
}

function areTooLarge(bodies: readonly Uint8Array[]): boolean {
  return bodies.some(({ length }) => length > LIMITS.chunkBytesMax);
}

/** Whatever ended the stream meanwhile is not the client's affair. Where another node was first, its answer is looked for. */
function undefinedUnlessFenced(cause: unknown): undefined {
  if (cause instanceof HoldfastError && cause.code !== "fenced") return undefined;
  throw cause;
}
