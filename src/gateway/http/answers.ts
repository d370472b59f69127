/**
 * What the gateway's HTTP asks for: answers to requests, as deltas to be written.
 *
 * HTTP knows no more than this. Whether an answer is live, a retry that attached, or a replay makes no difference to the writer.
 */
import type { Arrival } from "../../transport/node/exchange.ts";
import type { AnswerDelta, ChatRequest, FramePlace, ListedModel } from "../openai/index.ts";

export interface GatewayAnswers {
  models(principal: string): readonly ListedModel[];
  /** The id of the model that a client means by a name; undefined when there is none. */
  modelId(name: string): string | undefined;
  /** Resolves as soon as the request was accepted; rejects with the failure that the client gets. */
  chat(call: ChatCall): Promise<Answer>;
  /** What follows the place in the stream's latest answer; deltas that end at once when nothing does. Rejects a place in another answer. */
  events(call: EventsCall): Promise<Answer>;
  /** The user's wish: the turn is aborted. Rejects when there is no such stream of this principal. */
  stop(call: StopCall): Promise<void>;
}

export interface ChatCall {
  readonly principal: string;
  readonly request: ChatRequest;
  /** SHA-256 over what is asked, whether it is to be streamed or not; hexadecimal. */
  readonly bodyHash: string;
  readonly bodyBytes: number;
  /** The header `Idempotency-Key`. It names a request of this client, not a stream. */
  readonly idempotencyKey: string | undefined;
  /** The client has counted it as a retry, and no refusal can be the reason. */
  readonly saysRetry: boolean;
  /** How many sessions of this API key may wait for tools; undefined: as many as there is room for. */
  readonly parkedMax: number | undefined;
  readonly requestId: string;
  /** Aborted when the client has hung up or the server shuts down. */
  readonly signal: AbortSignal;
}

export interface EventsCall {
  readonly principal: string;
  readonly streamId: string;
  /** Where the client is; undefined: it has nothing of the answer. */
  readonly after: FramePlace | undefined;
  readonly signal: AbortSignal;
}

export interface StopCall {
  readonly principal: string;
  readonly streamId: string;
}

export interface Answer {
  readonly streamId: string;
  /** The same in every response with this answer. */
  readonly head: AnswerHead;
  /** In order; they end after `calls` or `ended`. The client gets what they throw. */
  readonly deltas: AsyncIterable<AnswerDelta>;
  /**
   * Called once, when the response is over. Whole: the last delta was written and all of the response handed to the system, be it a
   * success or the failure that the turn ended with. Not whole: the client hung up or was cut before, or `deltas` threw.
   */
  delivered(isWhole: boolean): void;
  /** After it was delivered whole, at most once: what the connection has shown since. */
  arrived?(arrival: Arrival): void;
}

export interface AnswerHead {
  /** Of OpenAI's object: "chatcmpl-...". */
  readonly id: string;
  /** Seconds since 1970. */
  readonly createdS: number;
  readonly model: string;
  readonly includeUsage: boolean;
  /** The answer begins after this event of its stream, which names it in the ids of its frames. */
  readonly fromEvent: number;
}
