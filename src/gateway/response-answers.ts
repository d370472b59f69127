/**
 * Responses by their id: to be looked at, read again, continued from, and removed.
 *
 * A row says what came of a response. Where the row has no end, the answer is under way, or its process died with it: then the stream's log says
 * how it ended, and the row learns it. Looking at a response asks the model nothing (G7).
 */
import type { JsonObject } from "../protocol/chat-message.ts";
import type { AnswerLog } from "./answer-log.ts";
import type {
  Answer,
  FoundResponse,
  KeptAnswers,
  KeptConversations,
  ReadResponseCall,
} from "./http/answers.ts";
import type { KeptResponse, KeptResponses } from "./kept-responses.ts";
import {
  eventOf,
  ResponseCollector,
  type ResponseEnd,
  responseObject,
  underWay,
  withoutTokens,
} from "./responses/index.ts";
import { noResponse } from "./refusals.ts";
import type { Returns } from "./returns.ts";
import type { Sessions } from "./sessions.ts";

interface ResponseAnswersParts {
  readonly kept: KeptResponses;
  readonly sessions: Sessions;
  readonly returns: Returns;
  readonly log: AnswerLog;
  readonly conversations: KeptConversations;
}

export class ResponseAnswers implements KeptAnswers {
  readonly #parts: ResponseAnswersParts;
  readonly conversations: KeptConversations;

  constructor(parts: ResponseAnswersParts) {
    this.#parts = parts;
    this.conversations = parts.conversations;
  }

  async find(principal: string, id: string): Promise<FoundResponse | undefined> {
    const kept = await this.#parts.kept.find(principal, id);
    if (kept === undefined) return undefined;
    const { answer, asked } = kept;
    const { streamId, fromEvent, createdSeconds: createdS } = answer;
    const end = kept.end ?? (await this.#endOf(principal, kept));
    const isUnderWay = end.status === "in_progress";
    return {
      streamId,
      fromEvent,
      asked,
      isUnderWay,
      isSaid: end.status === "completed" || end.status === "incomplete",
      input: kept.input,
      output: end.output,
      object: (isSealedShown) => {
        const output = isSealedShown ? end.output : withoutTokens(end.output);
        return responseObject({ id, createdS }, asked, { ...end, output });
      },
    };
  }

  async #endOf(principal: string, { answer }: KeptResponse): Promise<ResponseEnd> {
    const { kept, sessions, log } = this.#parts;
    const { responseId: id, createdSeconds: createdS, model } = answer;
    if (await sessions.isUnderWay(principal, answer)) return underWay(model);
    const collector = new ResponseCollector({ id, createdS, model });
    const whole = await log.whole({ principal, answer, signal: new AbortController().signal });
    for await (const delta of whole ?? []) collector.add(delta);
    const end = collector.end ?? { ...underWay(model), status: "failed", error: CUT_OFF };
    await kept.end(principal, id, end);
    return end;
  }

  async inputOf(principal: string, id: string): Promise<readonly JsonObject[] | undefined> {
    const kept = await this.#parts.kept.find(principal, id);
    return kept === undefined ? undefined : this.#parts.kept.inputOf(principal, kept);
  }

  async read({ principal, id, startingAfter, signal }: ReadResponseCall): Promise<Answer> {
    const { kept, returns } = this.#parts;
    const found = await kept.find(principal, id);
    if (found === undefined) throw noResponse(id);
    const { answer } = found;
    const seenThrough = Math.max(answer.fromEvent, eventOf(startingAfter, answer.fromEvent));
    return returns.again(principal, answer, { seenThrough, signal });
  }

  async remove(principal: string, id: string): Promise<boolean> {
    const { kept } = this.#parts;
    if ((await kept.find(principal, id)) === undefined) return false;
    await kept.remove(principal, id);
    return true;
  }
}

const CUT_OFF = {
  code: "server_error",
  message: "The answer was cut off, and what was said of it is not kept any more. Send the request again.",
} as const;
