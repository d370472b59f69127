/**
 * What each API key has used of what it may: requests in a minute, and at once.
 *
 * Counted by the API key's id in this process, and by nothing that a client says; the rate, where other nodes serve the same API keys, in a table that they share. A refused
 * request costs nothing, so a client that returns after `Retry-After` is let in.
 *
 * A client that lost its connection and resumes the same answer has paid for it: it has a rate of its own, generous enough for any bad
 * network. Its dead connection may not be known to be dead for many minutes; when there is no room, the resuming request takes its place.
 *
 * Invariant: within any T minutes at most `ratePerMinute * (1 + T)` requests are let in, and never more than `concurrency` are open.
 */
import { GatewayError } from "../openai/index.ts";
import type { Guest, Limits } from "./mounted.ts";

/** A request under way. */
export interface Visitor {
  /** What it reads, as far as it is known: a stream, or the answer to an idempotency key. */
  readonly reads: ReadonlySet<string>;
  /** It resumes an answer that its client has begun to read before. */
  readonly isReturning: boolean;
  /** Another one that reads the same takes its place. */
  readonly giveWay: () => void;
}

/** Requests that may come at once, and returns, as of `atMs`. */
export interface Rate {
  readonly tokens: number;
  readonly returns: number;
  readonly atMs: number;
}

/** One request of an API key that has a rate. */
export interface RateUse {
  readonly ratePerMinute: number;
  readonly isReturning: boolean;
}

/** One request of an API key that may have so many at once. */
export interface OpenUse {
  readonly concurrency: number;
  readonly reads: readonly string[];
}

/** What holds over several nodes. */
export interface SpentElsewhere {
  /** False where no other node serves the same API keys: then the rate is counted here. Rejects as a refusal. */
  spend(apiKeyId: string, use: RateUse): Promise<boolean>;
  /** Resolves with what is to be called when the request is over; undefined likewise. Rejects as a refusal. */
  enter(apiKeyId: string, use: OpenUse): Promise<(() => void) | undefined>;
}

interface Used {
  rate: Rate | undefined;
  /** When it was used last. */
  atMs: number;
  readonly open: Set<Visitor>;
}

/** For an API key that has a rate: no client resumes ten times a second in good faith. */
const RETURNS_PER_MINUTE = 600;

const MINUTE_MS = 60_000;
/** After a minute of silence every allowance is whole again, and its entry says nothing. */
const SWEPT_ABOVE = 1_000;

export class Allowances {
  readonly #now: () => number;
  readonly #used = new Map<string, Used>();
  readonly #elsewhere: SpentElsewhere | undefined;

  /** `now` is steady: milliseconds since some moment. */
  constructor(now: () => number, elsewhere?: SpentElsewhere) {
    this.#now = now;
    this.#elsewhere = elsewhere;
  }

  /** Lets a request in, or rejects; resolves with what is to be called when it is over. */
  async enter({ apiKeyId, limits }: Guest, visitor: Visitor): Promise<() => void> {
    if (limits?.ratePerMinute === undefined && limits?.concurrency === undefined) return () => undefined;
    const used = this.#usedOf(apiKeyId);
    const { concurrency = Infinity } = limits;
    placeFor(visitor, used, concurrency);
    const leaveElsewhere =
      limits.concurrency === undefined
        ? undefined
        : await this.#elsewhere?.enter(apiKeyId, { concurrency, reads: [...visitor.reads] });
    try {
      await this.#enterHere({ apiKeyId, limits }, visitor, used);
    } catch (cause) {
      leaveElsewhere?.();
      throw cause;
    }
    return () => {
      used.open.delete(visitor);
      leaveElsewhere?.();
    };
  }

  async #enterHere(
    { apiKeyId, limits }: { readonly apiKeyId: string; readonly limits: Limits },
    visitor: Visitor,
    used: Used,
  ): Promise<void> {
    const { concurrency = Infinity, ratePerMinute } = limits;
    if (ratePerMinute !== undefined) {
      const use = { ratePerMinute, isReturning: visitor.isReturning };
      const isSpent = (await this.#elsewhere?.spend(apiKeyId, use)) === true;
      if (!isSpent) used.rate = spent(used.rate, use, this.#now());
    }
    const before = placeFor(visitor, used, concurrency);
    if (before !== undefined) {
      used.open.delete(before);
      before.giveWay();
    }
    used.open.add(visitor);
  }

  #usedOf(apiKeyId: string): Used {
    const nowMs = this.#now();
    if (this.#used.size > SWEPT_ABOVE) this.#sweep(nowMs);
    const used = this.#used.get(apiKeyId) ?? { rate: undefined, atMs: nowMs, open: new Set<Visitor>() };
    used.atMs = nowMs;
    this.#used.set(apiKeyId, used);
    return used;
  }

  #sweep(nowMs: number): void {
    for (const [apiKeyId, { atMs, open }] of this.#used) {
      if (open.size === 0 && nowMs - atMs > MINUTE_MS) this.#used.delete(apiKeyId);
    }
  }
}

/** The visitor whose place the new one takes; undefined when there is room. Throws when no visitor can be removed. */
function placeFor({ reads }: Visitor, { open }: Used, concurrency: number): Visitor | undefined {
  if (open.size < concurrency) return undefined;
  const before = [...open].find((one) => !one.reads.isDisjointFrom(reads));
  if (before !== undefined) return before;
  throw tooManyAtOnce(concurrency);
}

export function tooManyAtOnce(concurrency: number): GatewayError {
  return tooMany(
    "concurrency_limit_exceeded",
    `This API key may have ${concurrency} requests at once. Wait until one of them is over.`,
    1_000,
  );
}

/** What is left when one of what it may send in a minute is taken; throws when there is none. `before`: undefined when it has sent nothing for a while. */
export function spent(
  before: Rate | undefined,
  { ratePerMinute, isReturning }: RateUse,
  nowMs: number,
): Rate {
  const { tokens, returns, atMs } = before ?? { tokens: Infinity, returns: Infinity, atMs: nowMs };
  const more = (perMinute: number): number => (Math.max(0, nowMs - atMs) * perMinute) / MINUTE_MS;
  const now = {
    tokens: Math.min(ratePerMinute, tokens + more(ratePerMinute)),
    returns: Math.min(RETURNS_PER_MINUTE, returns + more(RETURNS_PER_MINUTE)),
    atMs: nowMs,
  };
  const [left, perMinute] = isReturning ? [now.returns, RETURNS_PER_MINUTE] : [now.tokens, ratePerMinute];
  if (left < 1) {
    const message = isReturning
      ? `This API key may resume its answers ${perMinute} times in a minute. Wait, then try again.`
      : `This API key may send ${perMinute} requests in a minute. Wait, then try again.`;
    throw tooMany("rate_limit_exceeded", message, Math.ceil(((1 - left) * MINUTE_MS) / perMinute));
  }
  return isReturning ? { ...now, returns: now.returns - 1 } : { ...now, tokens: now.tokens - 1 };
}

/** Whether one of the API key's patterns names the model, by whichever of its names. */
export function mayUse(limits: Limits | undefined, names: readonly string[]): boolean {
  return limits?.models?.some((pattern) => names.some((name) => matches(pattern, name))) ?? true;
}

/** By its parts, left to right: no pattern takes longer than the name is. */
function matches(pattern: string, name: string): boolean {
  const parts = pattern.split("*");
  const first = parts.shift() ?? "";
  const last = parts.pop();
  if (last === undefined) return name === first;
  if (!name.startsWith(first) || !name.endsWith(last) || name.length < first.length + last.length)
    return false;
  let at = first.length;
  for (const part of parts) {
    const found = name.indexOf(part, at);
    if (found === -1) return false;
    at = found + part.length;
  }
  return at <= name.length - last.length;
}

/** As OpenAI answers: what one may not use does not exist. */
export function modelNotFound(): GatewayError {
  return new GatewayError({
    status: 404,
    type: "invalid_request_error",
    code: "model_not_found",
    param: "model",
    message: "The model does not exist, or this API key may not use it. GET /v1/models lists what there is.",
  });
}

function tooMany(code: string, message: string, retryAfterMs: number): GatewayError {
  return new GatewayError({ status: 429, type: "rate_limit_error", code, message, retryAfterMs });
}
