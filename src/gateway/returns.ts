/**
 * Clients that return: to read the rest of an answer, or to stop it.
 *
 * A stream has an answer for each request of a tool loop. A name says which one is meant, an Idempotency-Key the one to that request; without either it
 * is the latest. What a name means is the same for as long as the stream is kept, whatever became of its session.
 *
 * Invariant: a client gets the rest of the answer that it has the beginning of, or a refusal; never what belongs to another answer.
 */
import { HoldfastError } from "../protocol/errors.ts";
import type { Environment } from "../transport/environment.ts";
import type { AnswerMemory } from "./answer-memory.ts";
import { type AnswerLog, type AnswerRead, CATCH_UP_MS, placeAhead } from "./answer-log.ts";
import { type AnswerRef, answerRef, responseOf } from "./answer-ref.ts";
import type { Answer, AnswerSource, EventsCall, KeyedCall, StopCall } from "./http/answers.ts";
import type { Door } from "./openai/index.ts";
import type { Place } from "./followed-answers.ts";
import { otherAnswer, otherDoor } from "./refusals.ts";
import type { Retries } from "./retries.ts";
import type { Saying } from "./said-results.ts";
import { owesResults } from "./session.ts";
import type { SessionDriver } from "./session-driver.ts";
import type { SessionStore } from "./session-store.ts";
import type { Sessions } from "./sessions.ts";

export interface ReturnsParts {
  readonly sessions: Sessions;
  readonly store: SessionStore;
  readonly retries: Retries;
  readonly log: AnswerLog;
  readonly now: Environment["now"];
}

export class Returns {
  readonly #parts: ReturnsParts;

  constructor(parts: ReturnsParts) {
    this.#parts = parts;
  }

  /** A response that reads the answer behind what its client has seen. */
  respond(
    read: Omit<AnswerRead, "seenThrough" | "answer"> & { answer: AnswerRef; seenThrough?: number },
    source: AnswerSource,
  ): Answer {
    const { log, retries } = this.#parts;
    const { answer, seenThrough = answer.fromEvent } = read;
    return responseOf(answer, source, log.read({ ...read, seenThrough }), retries.responding(answer));
  }

  /**
   * The principal's session of that stream, resumed if it slept in the answer that is meant. What a step that begins anew has said before is known
   * by then; where a model call is held, the session may still be read back, and its reader waits for what it needs (`answer-log.ts`).
   */
  async awake(principal: string, place: Place, say?: Saying): Promise<SessionDriver | undefined> {
    const { sessions } = this.#parts;
    const { streamId } = place;
    await sessions.wake(principal, place, say);
    const session = sessions.get(principal, streamId);
    if (session === undefined) return undefined;
    const isKnown = (): boolean =>
      session.memory.held.size > 0 && !(owesResults(session.state) && session.memory.isBehind);
    // Behind its pause the log of one that waits may have the turn's end, and its rows go with that.
    const isRead = (): boolean => session.state.at !== "resuming" && !session.memory.isBehind;
    await session.until(() => isRead() || isKnown(), CATCH_UP_MS);
    return sessions.get(principal, streamId);
  }

  /** An id names its answer: one of another answer is refused, because the rest of the one that is meant would not continue what that client has. */
  async resume({ principal, streamId, head, after, signal }: EventsCall): Promise<Answer> {
    const { store, retries, sessions } = this.#parts;
    const fromEvent = head?.fromEvent ?? after?.answer;
    const here = await this.awake(principal, { streamId, fromEvent });
    const isAsked = here === undefined || (sessions.takeovers !== undefined && here.state.at === "parked");
    const row = isAsked ? await store.byStream(principal, streamId) : undefined;
    // One that waited here may have its results at another node, and not know it yet.
    const session =
      row !== undefined && here?.record.answer.fromEvent !== row.answer.fromEvent ? undefined : here;
    const kept = session?.record ?? row;
    await retries.recall(kept?.responses ?? []);
    // Results that may have died with their process are not waited for: only a retry says them again. What is there, the log says.
    const isWaitingInVain =
      session?.state.at === "resuming" && owesResults(session.state) && !isContinued(session);
    // The session may have begun its next answer meanwhile.
    const latest = isWaitingInVain ? undefined : (session?.record ?? kept)?.answer;
    const { door: known = after?.door ?? "chat" } = kept?.answer ?? {};
    const answer =
      head === undefined
        ? (latest ?? (await this.#logged({ principal, streamId, after, signal }, known)))
        : answerRef({ streamId, ...head }, head.createdS * 1_000);
    if (answer.door === "responses") throw otherDoor(answer.responseId);
    const { door = "chat" } = after ?? answer;
    if (door !== answer.door || (after !== undefined && after.answer !== answer.fromEvent))
      throw otherAnswer();
    const seenThrough = after?.eventId ?? answer.fromEvent;
    if (door === "messages") return this.again(principal, answer, { seenThrough, signal });
    const memory = await this.memoryOf(principal, answer, session);
    // A session that is read back, or was stopped meanwhile, does not have all of its log: the log says what was never sent.
    const isHere = session !== undefined && memory === session.memory;
    const isReadBack = session?.state.at !== "resuming" && session?.state.at !== "ending";
    if (isHere && isReadBack && seenThrough > session.memory.lastEvent) throw placeAhead();
    return this.respond({ principal, answer, seenThrough, signal, memory }, "resumed");
  }

  /** Of an answer that is under way, in this session or at another node; undefined: only its log is known. */
  async memoryOf(
    principal: string,
    answer: AnswerRef,
    session: SessionDriver | undefined,
  ): Promise<AnswerMemory | undefined> {
    // One that has come to rest meanwhile hears nothing.
    const isDeaf = session?.state.at === "gone" || session?.state.at === "resting";
    const isUnderWay = session?.memory.fromEvent === answer.fromEvent && !isDeaf;
    return isUnderWay ? session.memory : this.#parts.sessions.followed(principal, answer);
  }

  /** The answer for a reader that has seen some of it, and is given all of it: its form repeats at the end what it began with. */
  async again(
    principal: string,
    answer: AnswerRef,
    { seenThrough, signal }: Pick<AnswerRead, "seenThrough" | "signal">,
  ): Promise<Answer> {
    const session = await this.awake(principal, answer);
    const memory = await this.memoryOf(principal, answer, session);
    return this.respond({ principal, answer, seenThrough, isAgain: true, signal, memory }, "resumed");
  }

  /** Of a stream whose session is gone: what its log says. Whether the usage was asked for is forgotten, so it is left out. */
  async #logged({ principal, streamId, after, signal }: EventsCall, door: Door): Promise<AnswerRef> {
    const { log, now } = this.#parts;
    const logged = await log.latest(principal, streamId, { named: after?.answer, signal });
    return answerRef({ ...logged, streamId, includeUsage: false, door }, now());
  }

  async stop(call: StopCall | KeyedCall): Promise<void> {
    const { retries, sessions } = this.#parts;
    const { principal } = call;
    const stopped = "idempotencyKey" in call ? await retries.stop(call) : call;
    if (stopped === undefined) return;
    await sessions.stop(principal, stopped.streamId, stopped.fromEvent).catch((cause: unknown) => {
      // Another node has the request in its tables and not yet its stream: it finds the stop when it has.
      const isEarly = sessions.takeovers !== undefined && "idempotencyKey" in call;
      if (!isEarly || HoldfastError.codeOf(cause) !== "not_found") throw cause;
    });
  }
}

/** Its log has something of the answer, and a call of its stream is held: the results were heard before the kill. */
function isContinued({ memory }: SessionDriver): boolean {
  return memory.held.size > 0 && memory.lastEvent > memory.fromEvent;
}
