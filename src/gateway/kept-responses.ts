/**
 * Responses that can be asked for by their id: what each was asked, which answer it is, and what came of it.
 *
 *     gateway_kept  by response
 *
 * A row is durable with the session that answers it, and complete before a client can have the response's last event. A request that has its whole
 * history with it repeats what its session knows: its row names the response before it, and has only what is new, so a long conversation is kept once.
 *
 * Invariant: a response that a client has got whole can be named by its next request until its time is over.
 */
import { z } from "zod";
import { isJsonObject, type JsonObject } from "../protocol/chat-message.ts";
import type { TableWrite } from "../store/table-store.ts";
import { ANSWER, type AnswerRef } from "./answer-ref.ts";
import type { ReadConversation } from "./kept-conversations.ts";
import type { Names } from "./names.ts";
import type { GatewayLimits } from "./options.ts";
import { type ResponseEnd, STATUSES } from "./responses/index.ts";
import type { SealedRows } from "./sealed-rows.ts";

export const KEPT = "gateway_kept";

const OBJECT = z.custom<JsonObject>(isJsonObject);
const END = z.object({
  status: z.enum(STATUSES),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
  incomplete_details: z.object({ reason: z.string() }).nullable(),
  model: z.string(),
  output: z.array(OBJECT),
  usage: OBJECT.nullable(),
});

const RESPONSE = z.object({
  answer: ANSWER,
  /** The members of the response that repeat the request. */
  asked: OBJECT,
  /** The response whose items come before `input`. */
  previous: z.string().optional(),
  input: z.array(OBJECT),
  expiresMs: z.number(),
  /** With `store: false`: its time begins with its end. */
  isBrief: z.boolean().optional(),
  /** Absent: it is under way, or its process died with it. */
  end: END.optional(),
});

export type KeptResponse = z.infer<typeof RESPONSE>;

/** What a request leaves behind beside its answer. */
export interface Keeping {
  readonly asked: JsonObject;
  readonly previous: string | undefined;
  readonly input: readonly JsonObject[];
  /** The part of `input` behind the model's last words. */
  readonly news: readonly JsonObject[];
  /** Else only as long as a retry finds the answer. */
  readonly isKept: boolean;
  /** The conversation that it becomes part of. */
  readonly conversation?: ReadConversation | undefined;
}

interface KeptResponsesParts {
  readonly rows: SealedRows;
  readonly names: Names;
  readonly limits: Pick<GatewayLimits, "responseTtlMs" | "graceMs" | "backgroundMs">;
  readonly now: () => number;
}

/** More than any conversation has turns. */
const CHAIN_MAX = 5_000;

export class KeptResponses {
  readonly #parts: KeptResponsesParts;

  constructor(parts: KeptResponsesParts) {
    this.#parts = parts;
  }

  /** The write that makes the response findable. `continued`: the answer before this one in the same conversation. */
  async begin(
    principal: string,
    answer: AnswerRef,
    keeping: Keeping,
    continued: AnswerRef | undefined,
  ): Promise<TableWrite> {
    const { limits, now } = this.#parts;
    // One that is not to be kept is there until a client had the time to read its end.
    const ttlMs = keeping.isKept ? limits.responseTtlMs : limits.backgroundMs + limits.graceMs;
    const { asked, input, news } = keeping;
    const known = continued === undefined ? undefined : await this.find(principal, continued.responseId);
    const isShort = keeping.previous === undefined && known !== undefined;
    const previous = isShort ? known.answer.responseId : keeping.previous;
    return this.#put(
      principal,
      {
        answer,
        asked,
        ...(previous === undefined ? {} : { previous }),
        input: [...(isShort ? news : input)],
        expiresMs: now() + ttlMs,
        ...(keeping.isKept ? {} : { isBrief: true }),
      },
      ttlMs,
    );
  }

  async #put(principal: string, response: KeptResponse, ttlMs: number): Promise<TableWrite> {
    const bytes = new TextEncoder().encode(JSON.stringify(response));
    return this.#parts.rows.put(KEPT, this.#key(principal, response.answer.responseId), bytes, ttlMs);
  }

  async end(principal: string, responseId: string, end: ResponseEnd): Promise<void> {
    await this.#parts.rows.batch(await this.ended(principal, responseId, end));
  }

  /** The write that says what came of it. None for one that was deleted. */
  async ended(principal: string, responseId: string, end: ResponseEnd): Promise<readonly TableWrite[]> {
    const kept = await this.find(principal, responseId);
    if (kept === undefined) return [];
    const { limits, now } = this.#parts;
    const ttlMs = kept.isBrief === true ? limits.graceMs : kept.expiresMs - now();
    const ended: KeptResponse = { ...kept, expiresMs: now() + ttlMs, end: END.parse(end) };
    return [await this.#put(principal, ended, ttlMs)];
  }

  async find(principal: string, responseId: string): Promise<KeptResponse | undefined> {
    return this.#parts.rows.read(KEPT, this.#key(principal, responseId), decode);
  }

  async remove(principal: string, responseId: string): Promise<void> {
    await this.#parts.rows.batch([{ kind: "delete", table: KEPT, key: this.#key(principal, responseId) }]);
  }

  /** The items that the response answered, in order; undefined when one of the responses before it is not there. */
  async inputOf(principal: string, kept: KeptResponse): Promise<readonly JsonObject[] | undefined> {
    const chain: (readonly JsonObject[])[] = [kept.input];
    let { previous } = kept;
    while (previous !== undefined) {
      const before: KeptResponse | undefined = await this.find(principal, previous);
      if (before === undefined || chain.length > CHAIN_MAX) return undefined;
      chain.push(before.end?.output ?? [], before.input);
      ({ previous } = before);
    }
    return chain.toReversed().flat();
  }

  #key(principal: string, responseId: string): string {
    return this.#parts.names.row("response", principal, responseId);
  }
}

function decode(bytes: Uint8Array): KeptResponse {
  return RESPONSE.parse(JSON.parse(new TextDecoder().decode(bytes)));
}
