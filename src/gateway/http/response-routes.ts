/**
 * Routes of a response that is kept: look at it, list its input, cancel it, delete it. All but reading it again, which streams.
 */
import type { Exchange } from "../../transport/node/exchange.ts";
import { invalidRequest } from "../openai/index.ts";
import { noResponse } from "../refusals.ts";
import { showsSealed } from "../responses/index.ts";
import type { FoundResponse, GatewayAnswers, KeptAnswers } from "./answers.ts";
import { pageOf } from "./item-page.ts";
import { lastEventIdOf } from "./request-headers.ts";

export class ResponseRoutes {
  readonly #kept: KeptAnswers;
  readonly #answers: Pick<GatewayAnswers, "stop">;

  constructor(kept: KeptAnswers, answers: Pick<GatewayAnswers, "stop">) {
    this.#kept = kept;
    this.#answers = answers;
  }

  async found(principal: string, id: string): Promise<FoundResponse> {
    const found = await this.#kept.find(principal, id);
    if (found === undefined) throw noResponse(id);
    return found;
  }

  async cancel(principal: string, id: string): Promise<object> {
    const { object, isUnderWay, streamId, fromEvent } = await this.found(principal, id);
    if (!isUnderWay) return object(false);
    await this.#answers.stop({ principal, streamId, fromEvent });
    return { ...object(false), status: "cancelled" };
  }

  /** `DELETE` of the path that resumes the answer stops it, as by every door. */
  async remove(principal: string, id: string, exchange: Exchange): Promise<object> {
    if (isStreamed(exchange)) return this.cancel(principal, id);
    if (!(await this.#kept.remove(principal, id))) throw noResponse(id);
    return { id, object: "response", deleted: true };
  }

  async inputItems(principal: string, id: string, exchange: Exchange): Promise<object> {
    const items = await this.#kept.inputOf(principal, id);
    if (items === undefined) throw noResponse(id);
    return pageOf(items, exchange);
  }
}

const NUMBER = /^(?:0|[1-9]\d{0,14})$/;

/** Whether a `GET` asks for the tokens of thoughts: `include` or `include[]`, once for each. */
export function showsSealedOf(exchange: Exchange): boolean {
  const query = new URLSearchParams(exchange.query);
  return showsSealed([...query.getAll("include"), ...query.getAll("include[]")]);
}

function isStreamed(exchange: Exchange): boolean {
  return new URLSearchParams(exchange.query).get("stream") === "true";
}

/** The last sequence number that the reader has, -1 for none; undefined when it does not ask for a stream. */
export function startingAfterOf(exchange: Exchange): number | undefined {
  const given = lastEventIdOf(exchange) ?? "";
  if (given === "") return isStreamed(exchange) ? -1 : undefined;
  if (NUMBER.test(given)) return Number(given);
  throw invalidRequest(
    "starting_after",
    "starting_after is the sequence_number of an event of this response.",
  );
}
