/**
 * What the gateway's HTTP asks for: answers to requests, as deltas to be written.
 *
 * HTTP knows no more than this. Whether an answer is live, a retry that attached, or a replay makes no difference to the writer.
 */
import type { JsonObject } from "../../protocol/chat-message.ts";
import type { Arrival } from "../../transport/node/exchange.ts";
import type { RetrySign } from "../delivery.ts";
import type { Keeping } from "../kept-responses.ts";
import type {
  AnswerDelta,
  AnswerHead,
  AnswerRequest,
  Door,
  FramePlace,
  ListedModel,
} from "../openai/index.ts";

export interface GatewayAnswers {
  models(principal: string): readonly ListedModel[];
  /** The id of the model that a client means by a name; undefined when there is none. */
  modelId(name: string): string | undefined;
  /** Resolves as soon as the request was accepted; rejects with the failure that the client gets. */
  chat(call: ChatCall): Promise<Answer>;
  /** True when a request under this Idempotency-Key was accepted before, or is being accepted: the same again costs nothing. */
  isKnown(call: KeyedCall): Promise<boolean>;
  /** What follows the place in the answer that is meant; deltas that end at once when nothing does. Rejects a place in another answer. */
  events(call: EventsCall): Promise<Answer>;
  /**
   * The user's wish: the turn is aborted. Rejects when there is no such stream of this principal. By an Idempotency-Key it is remembered: the request that
   * comes later, or again, is refused and generates nothing.
   */
  stop(call: StopCall | KeyedCall): Promise<void>;
  /** Deletes the conversation that this stream is a turn of. Rejects when this principal has none. */
  forgetConversation(principal: string, streamId: string): Promise<void>;
}

export interface ChatCall {
  readonly principal: string;
  /** Which one the request came by. Default: chat. */
  readonly door?: Door;
  readonly request: AnswerRequest;
  /** SHA-256 over what is asked, whether it is to be streamed or not, and over the client's name of its session, if it says one; hexadecimal. */
  readonly bodyHash: string;
  readonly bodyBytes: number;
  /** The header `Idempotency-Key`. It names a request of this client, not a stream. */
  readonly idempotencyKey: string | undefined;
  /** What shows that it is a retry, when no refusal can be the reason. */
  readonly retrySign: RetrySign;
  /** How long the client wants an answer without a reader to be kept under way; undefined: as long as any other. */
  readonly patienceMs?: number | undefined;
  /** It is generated whether or not a client reads it. Default: not. */
  readonly isBackground?: boolean;
  /** Background answers are counted by it, and tokens. */
  readonly apiKeyId?: string;
  /** What the API key may spend; undefined: no limit counts. */
  readonly tokensPerDay?: number | undefined;
  /** What is kept of the request, of doors whose answers are asked for by their ids. */
  readonly keeping?: Keeping;
  /** How many sessions of this API key may wait for tools; undefined: as many as there is room for. */
  readonly parkedMax: number | undefined;
  readonly requestId: string;
  /** Aborted when the client has hung up or the server shuts down. */
  readonly signal: AbortSignal;
}

/** One answer of a stream, with what each response to it repeats. */
export interface NamedAnswer {
  readonly streamId: string;
  /** Without the response's id, which follows from the rest. */
  readonly head: Omit<AnswerHead, "id">;
}

export interface EventsCall {
  readonly principal: string;
  readonly streamId: string;
  /** Which answer of the stream is meant; undefined: the latest. */
  readonly head?: NamedAnswer["head"];
  /** Where the client is; undefined: it has nothing of the answer. */
  readonly after: FramePlace | undefined;
  readonly signal: AbortSignal;
}

export interface StopCall {
  readonly principal: string;
  readonly streamId: string;
  /** Only the answer that begins after this event is to be stopped; undefined: whichever is under way. */
  readonly fromEvent?: number;
}

/** Answers that clients ask for by the id of their response. */
export interface KeptAnswers {
  /** Undefined when this principal has none of that id. */
  find(principal: string, id: string): Promise<FoundResponse | undefined>;
  /** The items that it answered; undefined when they are not all there. */
  inputOf(principal: string, id: string): Promise<readonly JsonObject[] | undefined>;
  /** All of the answer, with what its reader has. Rejects when there is no such response. */
  read(call: ReadResponseCall): Promise<Answer>;
  /** False when there was none. */
  remove(principal: string, id: string): Promise<boolean>;
  readonly conversations: KeptConversations;
}

/** Conversations that clients name. */
export interface KeptConversations {
  begin(principal: string, given: NewConversation): Promise<FoundConversation>;
  /** Undefined when this principal has none of that id. */
  find(principal: string, id: string): Promise<FoundConversation | undefined>;
  change(principal: string, id: string, change: ConversationChange): Promise<FoundConversation | undefined>;
  /** False when there was none. */
  remove(principal: string, id: string): Promise<boolean>;
}

export interface NewConversation {
  readonly metadata: JsonObject;
  readonly items: readonly JsonObject[];
}

export interface ConversationChange {
  readonly metadata?: JsonObject;
  /** To be added. */
  readonly items?: readonly JsonObject[];
  /** The id of an item to be taken out. */
  readonly removed?: string;
}

export interface FoundConversation {
  readonly id: string;
  /** How often it was added to. */
  readonly entryCount: number;
  /** Its last response is under way. */
  readonly isBusy: boolean;
  /** What was said and put there, in order, each with its id. */
  readonly items: readonly JsonObject[];
  /** As clients get it. */
  readonly object: JsonObject;
}

export interface FoundResponse {
  readonly streamId: string;
  readonly fromEvent: number;
  /** The members of the response that repeat the request. */
  readonly asked: JsonObject;
  readonly isUnderWay: boolean;
  /** It came to its end, whole or as long as it might be. */
  readonly isSaid: boolean;
  /** The items of its own request. */
  readonly input: readonly JsonObject[];
  readonly output: readonly JsonObject[];
  /** As clients get it. `isSealedShown`: thoughts have their tokens. */
  readonly object: (isSealedShown: boolean) => object;
}

export interface ReadResponseCall {
  readonly principal: string;
  readonly id: string;
  /** The last sequence number that the reader has; -1: none. */
  readonly startingAfter: number;
  readonly signal: AbortSignal;
}

export interface KeyedCall {
  readonly principal: string;
  readonly idempotencyKey: string;
}

/**
 * What the model did for a response: `new` answers were asked of it. `attached` reads an answer that is under way, `replayed` is one that was given before,
 * `resumed` the rest of one: these cost no model call.
 */
export type AnswerSource = "new" | "attached" | "replayed" | "resumed";

export interface Answer {
  readonly streamId: string;
  readonly source: AnswerSource;
  /** The same in every response with this answer. */
  readonly head: AnswerHead;
  /**
   * Resolves when the stream is on the disk: only then may a client be given the name of an answer that has said nothing yet. Rejects when the stream comes to nothing.
   * Undefined: it is there.
   */
  kept?(): Promise<void>;
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
