/**
 * Whether an answer has reached its client, and of which one an equal request is a retry.
 *
 * A response is open, then flushed, when all of it was handed to the system, or lost. What the connection shows behind that is the last
 * word: confirmed, closed in good order, or lost after all. A connection that closes in good order counts as delivered. It looks the
 * same for a client that has read everything, and equal requests in a loop want new samples.
 *
 * Invariant: an answer that a request got whole is given to another one only when that one shows that it is a retry, and no other
 * answer could be meant.
 */
import type { Arrival } from "../transport/node/exchange.ts";

export type Delivery = "open" | "flushed" | Arrival;

/** What becomes known of a response. */
export type DeliveryNews = "whole" | "broken" | Arrival;

export function step(delivery: Delivery, news: DeliveryNews): Delivery {
  if (delivery === "open") return news === "whole" ? "flushed" : news === "broken" ? "lost" : delivery;
  if (delivery !== "flushed" || news === "whole" || news === "broken") return delivery;
  return news;
}

/** The best news comes first; while a response is open, nothing is decided. */
const ORDER = ["open", "confirmed", "closed", "flushed", "lost"] as const;

/** Of an answer that several responses give; undefined when none does. */
export function together(deliveries: readonly Delivery[]): Delivery | undefined {
  return ORDER.find((delivery) => deliveries.includes(delivery));
}

/** After a restart no response is open, and no connection says more. */
export function afterRestart(delivery: Delivery): Delivery {
  if (delivery === "open") return "lost";
  return delivery === "flushed" ? "closed" : delivery;
}

/** An answer to the same body. */
export interface EarlierAnswer {
  /** Undefined: it was asked for, and no response has begun. */
  readonly delivery: Delivery | undefined;
  /** A retry has asked for it. */
  readonly isRetried: boolean;
  /** It was asked for under an Idempotency-Key, by which its retries come. */
  readonly isKeyed: boolean;
  /** It answers tool results, in the turn that waited for them. */
  readonly isContinued: boolean;
}

/**
 * What shows that an equal request is a retry. `counted`: its client has counted it as one. `repeated`: its client names the session, and
 * asks the same again in a session only when the answer did not come.
 */
export type RetrySign = "counted" | "repeated" | "none";

/** Without an Idempotency-Key: one that has one is a retry of nothing else. */
interface EqualRequest {
  readonly retrySign: RetrySign;
}

export type Choice<Earlier> =
  | { readonly kind: "new" }
  /** It reads the answer that another response is still writing. */
  | { readonly kind: "join"; readonly answer: Earlier }
  /** The answer is its own from now on. */
  | { readonly kind: "take"; readonly answer: Earlier };

/** What an equal request gets; the answers come in the order in which they were asked for. */
export function choose<Earlier extends EarlierAnswer>(
  answers: readonly Earlier[],
  { retrySign }: EqualRequest,
): Choice<Earlier> {
  const own = answers.filter((answer) => !answer.isKeyed);
  const lost = own.find(({ delivery }) => delivery === "lost");
  if (lost !== undefined) return { kind: "take", answer: lost };
  // The turn that waited for these results has got them: they are the same ones, sent twice.
  const joined = answers.find(({ delivery, isContinued }) => delivery === "open" && isContinued);
  if (joined !== undefined) return { kind: "join", answer: joined };
  const [only, ...others] = own.filter((answer) => isDoubtful(answer, retrySign));
  return only === undefined || others.length > 0 ? { kind: "new" } : { kind: "take", answer: only };
}

/** Its client has not confirmed it. One that is being read is doubtful only to a client that counts: others may ask the same at once. */
function isDoubtful({ delivery, isRetried }: EarlierAnswer, sign: RetrySign): boolean {
  if (isRetried || sign === "none") return false;
  return delivery === "flushed" || delivery === "closed" || (delivery === "open" && sign === "counted");
}
