/**
 * Which requests are retries, and of what.
 *
 * An `Idempotency-Key` says so itself. Without one an identical request is a retry only of an answer that did not arrive
 * whole, and nobody is being told any more; each broken response can be asked for again once, for a while. All other
 * identical requests want another answer.
 *
 * Requests of one name are taken one after the other: two at once would both find nothing, and be generated twice.
 */
import type { TableWrite } from "../store/table-store.ts";
import type { Errands } from "./errands.ts";
import type { ChatCall } from "./http/answers.ts";
import { GatewayError } from "./openai/index.ts";
import type { AnswerRef, ResponseRecord } from "./session-record.ts";
import type { RequestName, SessionStore } from "./session-store.ts";

export interface RetryLimits {
  /** How long a broken response can be asked for again. */
  readonly graceMs: number;
  /** How long the answer is findable while its response is open, or a crash hides what became of it. */
  readonly sessionTtlMs: number;
  readonly idempotencyTtlMs: number;
}

type Request = Pick<ChatCall, "principal" | "bodyHash" | "idempotencyKey">;

export class Retries {
  readonly #store: SessionStore;
  readonly #limits: RetryLimits;
  readonly #errands: Errands;
  /** Responses being written, by the answer's id. */
  readonly #open = new Map<string, number>();
  readonly #turns = new Map<string, Promise<void>>();

  constructor(store: SessionStore, limits: RetryLimits, errands: Errands) {
    this.#store = store;
    this.#limits = limits;
    this.#errands = errands;
  }

  /** One at a time for each request that has the same name. */
  async inTurn<Result>(request: Request, run: () => Promise<Result>): Promise<Result> {
    const name = this.#store.requestKey(keyName(request) ?? bodyName(request));
    const before = this.#turns.get(name);
    const { promise: over, resolve } = Promise.withResolvers<void>();
    this.#turns.set(name, over);
    try {
      await before;
      return await run();
    } finally {
      resolve();
      if (this.#turns.get(name) === over) this.#turns.delete(name);
    }
  }

  /** The answer that this request is to get again. Throws when its Idempotency-Key was for another request. */
  async earlier(request: Request): Promise<AnswerRef | undefined> {
    const named = keyName(request);
    if (named !== undefined) {
      const response = await this.#store.response(named);
      if (response !== undefined && response.bodyHash !== request.bodyHash) throw usedTwice();
      return response?.answer;
    }
    const name = bodyName(request);
    const response = await this.#store.response(name);
    if (response === undefined || response.isRetried || this.#open.has(response.answer.responseId))
      return undefined;
    await this.#store.saveResponse(name, { ...response, isRetried: true }, this.#limits.sessionTtlMs);
    return response.answer;
  }

  /** The rows that make the answer findable, with their names. */
  async rows(
    request: Request,
    answer: AnswerRef,
    sessionId: string,
  ): Promise<{ readonly keys: readonly string[]; readonly writes: readonly TableWrite[] }> {
    const { sessionTtlMs, idempotencyTtlMs } = this.#limits;
    const response: ResponseRecord = { answer, bodyHash: request.bodyHash, sessionId, isRetried: false };
    const [body, named] = [bodyName(request), keyName(request)];
    const writes = [await this.#store.responseWrite(body, response, sessionTtlMs)];
    if (named !== undefined) writes.push(await this.#store.responseWrite(named, response, idempotencyTtlMs));
    return { keys: writes.map(({ key }) => key), writes };
  }

  /** A response is being written; the returned function is told what became of it. */
  responding(request: Request, answer: AnswerRef): (isWhole: boolean) => void {
    const id = answer.responseId;
    this.#open.set(id, (this.#open.get(id) ?? 0) + 1);
    return (isWhole) => {
      // Closed within its turn: the next request of this name finds the response as it is then.
      const settle = () => this.#delivered(request, answer, isWhole).finally(() => this.#closed(id));
      this.#errands.run(this.inTurn(request, settle));
    };
  }

  /** What arrived whole is not asked for again; what did not may be, for a while. */
  async #delivered(request: Request, answer: AnswerRef, isWhole: boolean): Promise<void> {
    const name = bodyName(request);
    const response = await this.#store.writtenResponse(name);
    // Its place may have been taken by the answer to a later request.
    if (response?.answer.responseId !== answer.responseId) return;
    if (isWhole) await this.#store.removeResponse(name, response);
    else await this.#store.saveResponse(name, { ...response, isRetried: false }, this.#limits.graceMs);
  }

  #closed(id: string): void {
    const left = (this.#open.get(id) ?? 1) - 1;
    if (left > 0) this.#open.set(id, left);
    else this.#open.delete(id);
  }
}

function bodyName({ principal, bodyHash }: Request): RequestName {
  return { kind: "body", principal, bodyHash };
}

function keyName({ principal, idempotencyKey }: Request): RequestName | undefined {
  return idempotencyKey === undefined ? undefined : { kind: "idempotency", principal, key: idempotencyKey };
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
