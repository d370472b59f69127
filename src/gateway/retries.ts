/**
 * Which requests are retries, and of what.
 *
 * An `Idempotency-Key` says so itself. Without one, `delivery.ts` judges by what became of the answers that the same body got before. All
 * other equal requests want another answer.
 *
 * Requests of one name are taken one after the other: two at once would both find nothing, and be generated twice.
 */
import { KeyedQueue } from "../async/keyed-queue.ts";
import type { TableWrite } from "../store/table-store.ts";
import { choose, type DeliveryNews, step } from "./delivery.ts";
import type { Environment } from "../transport/environment.ts";
import type { BackgroundTasks } from "./background-tasks.ts";
import type { GivenAnswer, GivenAnswers } from "./given-answers.ts";
import type { KeptConversations } from "./kept-conversations.ts";
import type { KeptResponses } from "./kept-responses.ts";
import type { Answer, ChatCall, KeyedCall } from "./http/answers.ts";
import type { LeftStreams } from "./left-streams.ts";
import type { Names, RequestNames } from "./names.ts";
import { GatewayError } from "./openai/index.ts";
import { answerStopped } from "./refusals.ts";
import type { AnswerRef, ResponseRecord } from "./session-record.ts";
import type { Stops } from "./stops.ts";

interface RetryLimits {
  /** How long a response that has ended can be asked for again. */
  readonly graceMs: number;
  /** How long the answer is findable while its response is open, or a crash hides what became of it. */
  readonly sessionTtlMs: number;
  readonly idempotencyTtlMs: number;
}

interface RetryParts {
  readonly given: GivenAnswers;
  readonly kept: Pick<KeptResponses, "begin">;
  readonly conversations: Pick<KeptConversations, "append" | "inTurn">;
  readonly stops: Stops;
  readonly left: Pick<LeftStreams, "stop">;
  readonly names: Names;
  readonly limits: RetryLimits;
  readonly tasks: BackgroundTasks;
  readonly environment: Pick<Environment, "after">;
}

/** With the names of its rows, which each of its steps asks for. `key`: of its Idempotency-Key. */
export type NamedCall = ChatCall & { readonly names: RequestNames & { readonly key: string | undefined } };

type Request = Pick<NamedCall, "principal" | "bodyHash" | "retrySign" | "names">;

/** How a response reports what becomes of it. */
export type Delivered = Required<Pick<Answer, "delivered" | "arrived">>;

const NO_DELIVERY: Delivered = { delivered: () => undefined, arrived: () => undefined };

export class Retries {
  readonly #parts: RetryParts;
  readonly #turns = new KeyedQueue();

  constructor(parts: RetryParts) {
    this.#parts = parts;
  }

  /** One at a time for each Idempotency-Key, for each body, and in each conversation that clients name. */
  inTurn<Result>(asked: ChatCall, work: (call: NamedCall) => Promise<Result>): Promise<Result> {
    const { principal, bodyHash, idempotencyKey, keeping } = asked;
    const body = this.#parts.names.row("body", principal, bodyHash);
    const key = idempotencyKey === undefined ? undefined : this.#nameOf({ principal, idempotencyKey });
    const call = { ...asked, names: { asker: key ?? body, body, key } };
    const conversation = keeping?.conversation;
    const begin = (): Promise<Result> => work(call);
    const run =
      conversation === undefined
        ? begin
        : () => this.#parts.conversations.inTurn(principal, conversation.id, begin);
    const inBodysTurn = (): Promise<Result> => this.#turns.run(body, run);
    return key === undefined ? inBodysTurn() : this.#turns.run(key, inBodysTurn);
  }

  /** The answer that this request is to get again. Throws when its Idempotency-Key was for another request. */
  async earlier(request: Request): Promise<AnswerRef | undefined> {
    const { key: named, body } = request.names;
    if (named !== undefined) {
      if (await this.#parts.stops.has([named])) throw answerStopped();
      const response = await this.#parts.given.named(named);
      if (response !== undefined && response.bodyHash !== request.bodyHash) throw usedTwice();
      return response?.answer;
    }
    const { given, environment, limits } = this.#parts;
    if ((await given.ofBody(body)).length === 0) return undefined;
    // A connection that was reset and the one that the retry came by are read in any order.
    await new Promise<void>((resolve) => environment.after(0, resolve));
    const choice = choose(await given.ofBody(body), request);
    if (choice.kind === "new") return undefined;
    if (choice.kind === "take") await given.take(choice.answer, limits.sessionTtlMs);
    return choice.answer.record.answer;
  }

  /** False when the session of an answer that was found has ended since, and its rows with it. */
  async isKept({ names: { key: named } }: Request, { responseId }: AnswerRef): Promise<boolean> {
    const { given } = this.#parts;
    if (named === undefined) return given.ofAnswer(responseId) !== undefined;
    return (await given.named(named))?.answer.responseId === responseId;
  }

  /** Its stream is gone: the next retry must not be given it instead of the answer that this one gets. */
  async cannotBeHad({ responseId }: AnswerRef): Promise<void> {
    const { given } = this.#parts;
    const answer = given.ofAnswer(responseId);
    if (answer !== undefined) await given.remove(answer);
  }

  /** True when a request under this Idempotency-Key was accepted and can be answered again, or is being accepted. */
  async isKnown(call: KeyedCall): Promise<boolean> {
    const named = this.#nameOf(call);
    return this.#turns.has(named) || (await this.#parts.given.named(named)) !== undefined;
  }

  /** Remembers that the answer is not wanted, and resolves with it if its request has come by then. */
  stop(call: KeyedCall): Promise<AnswerRef | undefined> {
    const { given, stops, left } = this.#parts;
    const named = this.#nameOf(call);
    return this.#turns.run(named, async () => {
      await stops.remember(named);
      await left.stop(call.principal, named);
      return (await given.named(named))?.answer;
    });
  }

  /** On shared tables: a stop by its Idempotency-Key came to another node while this request was on its way into the tables. */
  async isStopped({ names: { key: named } }: Request): Promise<boolean> {
    return named !== undefined && this.#parts.stops.has([named]);
  }

  /** The rows that make the answer findable, with the names of those that a retry finds it by. `before`: the answer that it continues. */
  async rows(
    request: Request & Pick<ChatCall, "keeping">,
    answer: AnswerRef,
    before?: AnswerRef,
  ): Promise<{ readonly keys: readonly string[]; readonly writes: readonly TableWrite[] }> {
    const { given, kept, conversations, limits } = this.#parts;
    const { principal, keeping } = request;
    const { key: named, body } = request.names;
    const conversation = keeping?.conversation;
    const state = { isRetried: false, takes: 0, isKeyed: named !== undefined, delivery: "open" } as const;
    const response: ResponseRecord = { answer, bodyHash: request.bodyHash, ...state };
    const writes = [await given.begin(body, response, limits.sessionTtlMs)];
    if (named !== undefined) writes.push(await given.namedWrite(named, response, limits.idempotencyTtlMs));
    const keys = writes.map(({ key }) => key);
    if (keeping !== undefined) writes.push(await kept.begin(principal, answer, keeping, before));
    if (conversation !== undefined)
      writes.push(await conversations.append(principal, conversation, answer.responseId));
    return { keys, writes };
  }

  /** Reads the answers of these rows into memory, so that what becomes of their next responses counts. */
  async recall(keys: readonly string[]): Promise<void> {
    for (const key of keys) await this.#parts.given.ofBody(key);
  }

  /** A response with this answer begins. */
  responding({ responseId }: AnswerRef): Delivered {
    const { given, tasks } = this.#parts;
    const answer = given.ofAnswer(responseId);
    // It is past the time in which an equal request could be a retry of it.
    if (answer === undefined) return NO_DELIVERY;
    const response = given.respond(answer);
    const learn = (news: DeliveryNews): void => {
      response.delivery = step(response.delivery, news);
      const isCurrent = answer.responses.has(response) && given.ofAnswer(responseId) === answer;
      if (isCurrent) tasks.run(this.#settle(answer));
    };
    return { delivered: (isWhole) => learn(isWhole ? "whole" : "broken"), arrived: learn };
  }

  async #settle(answer: GivenAnswer): Promise<void> {
    const { given } = this.#parts;
    switch (answer.delivery) {
      case "flushed":
      case "lost":
        return this.#keepForGrace(answer);
      case "confirmed":
        return given.end(answer);
      case "closed":
        given.closed(answer);
        // On the disk it is flushed, which means the same after a restart; unless another response was open when this one ended.
        return answer.expiresMs === Infinity ? this.#keepForGrace(answer) : undefined;
      case "open":
      case undefined:
        return undefined;
    }
  }

  #keepForGrace(answer: GivenAnswer): Promise<void> {
    const { given, limits } = this.#parts;
    given.settle(answer, limits.graceMs);
    return given.note(answer, limits.graceMs);
  }

  #nameOf({ principal, idempotencyKey }: KeyedCall): string {
    return this.#parts.names.row("idempotency", principal, idempotencyKey);
  }
}

function usedTwice(): GatewayError {
  const message = "This Idempotency-Key was used for another request: use a new one for a new request.";
  return new GatewayError({
    status: 409,
    type: "invalid_request_error",
    code: "idempotency_key_reused",
    message,
  });
}
