/**
 * What each API key has used of what it may: requests in a minute, and at once.
 *
 * Counted by the API key's id in this process, and by nothing that a client says. A refused request costs nothing, so a client that
 * comes back after `Retry-After` is let in.
 *
 * Invariant: within any T minutes at most `ratePerMinute * (1 + T)` requests are let in, and never more than `concurrency` are open.
 */
import { GatewayError } from "../openai/index.ts";
import type { Guest, Limits } from "./mounted.ts";

interface Used {
  /** Requests that may come at once, as of `atMs`. */
  tokens: number;
  atMs: number;
  open: number;
}

const MINUTE_MS = 60_000;
/** After a minute of silence every allowance is whole again, and its entry says nothing. */
const SWEPT_ABOVE = 1_000;

export class Allowances {
  readonly #now: () => number;
  readonly #used = new Map<string, Used>();

  /** `now` is steady: milliseconds since some moment. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Lets a request in, or throws; returns what is to be called when it is over. */
  enter({ apiKeyId, limits }: Guest): () => void {
    if (limits?.ratePerMinute === undefined && limits?.concurrency === undefined) return () => undefined;
    const used = this.#usedOf(apiKeyId, limits);
    if (limits.concurrency !== undefined && used.open >= limits.concurrency) {
      throw tooMany(
        "concurrency_limit_exceeded",
        `This API key may have ${limits.concurrency} requests at once. Wait until one of them is over.`,
        1_000,
      );
    }
    if (limits.ratePerMinute !== undefined) {
      if (used.tokens < 1) {
        const waitMs = ((1 - used.tokens) * MINUTE_MS) / limits.ratePerMinute;
        throw tooMany(
          "rate_limit_exceeded",
          `This API key may send ${limits.ratePerMinute} requests in a minute. Wait, then try again.`,
          Math.ceil(waitMs),
        );
      }
      used.tokens--;
    }
    used.open++;
    let isOpen = true;
    return () => {
      if (isOpen) used.open--;
      isOpen = false;
    };
  }

  #usedOf(apiKeyId: string, { ratePerMinute = 0 }: Limits): Used {
    const nowMs = this.#now();
    if (this.#used.size > SWEPT_ABOVE) this.#sweep(nowMs);
    const used = this.#used.get(apiKeyId) ?? { tokens: ratePerMinute, atMs: nowMs, open: 0 };
    const more = (Math.max(0, nowMs - used.atMs) * ratePerMinute) / MINUTE_MS;
    used.tokens = Math.min(ratePerMinute, used.tokens + more);
    used.atMs = nowMs;
    this.#used.set(apiKeyId, used);
    return used;
  }

  #sweep(nowMs: number): void {
    for (const [apiKeyId, { atMs, open }] of this.#used) {
      if (open === 0 && nowMs - atMs > MINUTE_MS) this.#used.delete(apiKeyId);
    }
  }
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
